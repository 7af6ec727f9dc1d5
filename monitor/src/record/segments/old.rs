//! A segment that is complete, and its age, in time in which the node was up: the wall clock may be set
//! by years, and a node often begins with a wrong one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use crate::record::index::{Begun, Heads, field};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// A complete segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) size: u64,
    pub(super) begun: Since,
    /// This agent has thinned it. One that another agent thinned is found to have nothing to lose.
    pub(super) is_thin: bool,
}

/// When a segment began.
#[derive(Debug, Clone, Copy)]
pub(super) enum Since {
    /// In this boot, by the time since the node was started.
    Boot(Nanos),
    /// In an earlier boot: the node was up for at least so long from then to this boot.
    Before(Nanos),
}

impl Old {
    pub(super) fn new(size: u64, begun: Since) -> Self {
        Self { size, begun, is_thin: false }
    }
}

impl Since {
    pub(super) fn until(self, now: Moment) -> Nanos {
        match self {
            Self::Boot(begun) => now.boot.since(begun),
            Self::Before(passed) => passed.plus(now.boot),
        }
    }
}

/// A segment that was there before this agent.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) n: u64,
    pub(super) size: u64,
    /// The boot that it begins in, and the moment; `None` if its first line is lost.
    begun: Option<(String, Moment)>,
}

impl Found {
    /// `begun` is what it begins with.
    pub(super) fn new(n: u64, file: &File, begun: Begun) -> io::Result<Self> {
        let begun = match begun {
            Begun::At(at) => {
                let head = Heads::new()?.head(file, 0).ok().flatten().unwrap_or_default();
                Some((field::<NodeFacts>(&head, "facts").unwrap_or_default().boot_id, at))
            }
            _ => None,
        };
        Ok(Self { n, size: file.metadata()?.len(), begun })
    }
}

/// How old these segments are, in the boot `boot_id`. They are in the order of time.
pub(super) fn aged(found: Vec<Found>, boot_id: &str) -> BTreeMap<u64, Old> {
    let mut since = Since::Before(Nanos(0));
    // Time of later boots before this one, and the earlier boot that is looked at, to its newest segment.
    let (mut passed, mut boot) = (Nanos(0), None::<(String, Nanos)>);
    let aged = found.into_iter().rev().map(|Found { n, size, begun }| {
        match (begun, boot.take()) {
            (Some((id, at)), last) if id == boot_id => {
                (since, boot) = (Since::Boot(at.boot), last);
            }
            (Some((id, at)), last) => {
                let newest = match last {
                    Some((same, newest)) if same == id && at.boot <= newest => newest,
                    last => {
                        passed = passed.plus(last.map_or(Nanos(0), |(_, newest)| newest));
                        at.boot
                    }
                };
                since = Since::Before(passed.plus(newest.since(at.boot)));
                boot = Some((id, newest));
            }
            // No younger than the next one.
            (None, last) => boot = last,
        }
        (n, Old::new(size, since))
    });
    aged.collect()
}
