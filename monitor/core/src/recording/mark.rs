//! A mark in a chapter: sample and averages after a tick, as changes to those in the header. A
//! moment is shown from the mark before it, without the ticks between header and mark.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::apply::{Misfit, Object, State};
use super::change::{self, Both};
use super::fields::without;
use super::format::{One, Rows, Tick};
use super::parts::Parts;
use crate::model::cgroup::CgroupId;
use crate::model::kills::{Cgroups, kills};
use crate::model::sample::Moment;
use crate::model::snapshot::{Averages, Meters};
use crate::model::stall::{OOM_KILLS_KEPT, OomRecord};

/// `kind` of a mark's line.
pub const KIND: &str = "mark";
/// The first bytes of a mark.
pub const OPENING: &str = "{\"kind\":\"mark\",\"at\":";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// [`KIND`].
    pub kind: String,
    /// Of the tick before.
    pub at: Moment,
    /// Of the first tick in the chapter.
    pub begun: Moment,
    /// Within the chapter, newest first.
    #[serde(rename = "oomKills", skip_serializing_if = "Vec::is_empty")]
    pub oom_kills: Vec<OomRecord>,
    /// The sample of the tick before, without its matrix, which belongs to that tick alone.
    pub tick: Tick<()>,
    /// What has no place in `meters`.
    #[serde(skip_serializing_if = "One::is_empty")]
    pub averages: One,
    /// Averages by cgroup id.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub meters: Rows,
}

impl Mark {
    /// Turns the state of a header into that of the tick before the mark; returns the averages then. Of
    /// those in the header, `header` has what belongs to no cgroup, and the state the rest.
    ///
    /// # Errors
    /// If the mark does not fit the header. Then the state is undefined.
    pub fn apply(self, state: &mut State, header: Averages) -> Result<Averages, Misfit> {
        let meters = state.meters.take();
        let mut meters =
            meters.ok_or_else(|| Misfit("a tick or a mark was applied before it".into()))?;
        state.apply(self.tick)?;
        let mut rest = Object::new(&to_raw_value(&header.of_scopes(None))?)?;
        self.averages.set.as_ref().map(|set| without(set, &["groups"])).transpose()?;
        rest.apply(self.averages)?;
        meters.apply(self.meters)?;
        Ok(rest.read::<Averages>()?.with_groups(meters.into_rows()))
    }
}

/// What the marks of a chapter are changes to, and what its ticks came to.
#[derive(Debug)]
pub struct Base {
    before: Parts,
    averages: Averages,
    groups: BTreeMap<CgroupId, Meters>,
    begun: Option<Moment>,
    oom_kills: Vec<OomRecord>,
}

impl Base {
    /// Of a header with this sample and these averages.
    pub fn new(before: Parts, averages: Averages) -> Self {
        let (averages, groups) = averages.split();
        Self { before, averages, groups, begun: None, oom_kills: Vec::new() }
    }

    /// Takes note of a tick and its kills, whose cgroups the tick before may have.
    pub fn note(&mut self, before: Option<&Parts>, tick: &Parts) {
        self.begun.get_or_insert(tick.rest.at);
        for kill in kills(before.map(Cgroups::from), tick.into()) {
            self.oom_kills.insert(0, kill);
        }
        self.oom_kills.truncate(OOM_KILLS_KEPT);
    }

    /// The mark after the tick `now`, of which `averages` are.
    ///
    /// # Errors
    /// Only if something cannot be written as JSON.
    pub fn mark(&self, now: &Parts, averages: &Averages) -> serde_json::Result<Mark> {
        let (rest, groups) = averages.clone().split();
        let by_id = |map| change::by_id::<CgroupId, Meters>(map);
        let mut both = Both::default();
        Ok(Mark {
            kind: KIND.into(),
            at: now.rest.at,
            begun: self.begun.unwrap_or(now.rest.at),
            oom_kills: self.oom_kills.clone(),
            tick: change::without_matrix(Some(&self.before), now, ())?,
            averages: both.one(&self.averages, &rest)?,
            meters: both.rows(by_id(&self.groups), by_id(&groups), |_| 0)?,
        })
    }
}
