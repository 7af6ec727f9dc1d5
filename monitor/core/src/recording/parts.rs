//! A sample split into its long lists and the rest, so that each list is compared row by row.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::kills::Cgroups;
use crate::model::sample::{Gap, Sample};
use crate::model::stall::{Aggression, GroupStall};
use crate::model::workload::Pods;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The sample with empty lists.
    pub rest: Sample,
    pub cgroups: BTreeMap<CgroupId, Arc<Cgroup>>,
    pub groups: BTreeMap<CgroupId, Arc<GroupStall>>,
    pub matrix: Vec<Aggression>,
    pub pods: Pods,
    pub gaps: Vec<Gap>,
}

impl<'a> From<&'a Parts> for Cgroups<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self { cgroups: &parts.cgroups, rest: &parts.rest, pods: Some(&parts.pods) }
    }
}

impl From<Sample> for Parts {
    fn from(mut rest: Sample) -> Self {
        Self {
            cgroups: take(&mut rest.cgroups),
            groups: rest.kernel.as_mut().map(|k| take(&mut k.groups)).unwrap_or_default(),
            matrix: rest.kernel.as_mut().map(|k| take(&mut k.matrix)).unwrap_or_default(),
            pods: rest.pods.as_mut().map(take).unwrap_or_default(),
            gaps: take(&mut rest.gaps),
            rest,
        }
    }
}

impl From<Parts> for Sample {
    fn from(parts: Parts) -> Self {
        let Parts { mut rest, cgroups, groups, matrix, pods, gaps } = parts;
        if let Some(kernel) = &mut rest.kernel {
            kernel.groups = groups;
            kernel.matrix = matrix;
        }
        rest.pods = rest.pods.map(|_| pods);
        Self { cgroups, gaps, ..rest }
    }
}

/// Victim and aggressor: the key of a row of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub CgroupId, pub CgroupId);

impl Pair {
    pub fn of(aggression: &Aggression) -> Self {
        Self(aggression.victim, aggression.aggressor)
    }
}

/// True if the pairs are sorted and each occurs once: only then is a pair the key of one row.
pub fn is_ordered(matrix: &[Aggression]) -> bool {
    matrix.is_sorted_by(|a, b| Pair::of(a) < Pair::of(b))
}

/// The key of a row, as text and back.
pub trait Key: Ord + Clone {
    fn text(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
}

impl Key for CgroupId {
    fn text(&self) -> String {
        self.0.to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl Key for Pair {
    fn text(&self) -> String {
        format!("{}/{}", self.0.0, self.1.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let (victim, aggressor) = text.split_once('/')?;
        Some(Self(CgroupId::parse(victim)?, CgroupId::parse(aggressor)?))
    }
}

impl Key for String {
    fn text(&self) -> String {
        self.clone()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(text.into())
    }
}
