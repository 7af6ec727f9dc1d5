//! What the dead leave behind: page cache that is charged to their cgroup for as long as that is
//! there, and counted as used although nobody uses it. A pod that ran more code than there was
//! memory still "uses" all of it after its last process has ended; whoever goes by that figure ends
//! the next pod for it, and the next.

use super::cgroup::{Group, Root};
use super::reclaiming::Reclaiming;
use super::scene::Scene;
use crate::clock;
use isobar_core::model::decision::{Outcome, OutcomeResult};
use isobar_core::model::units::{Bytes, Nanos};

/// Less than this is left where it is.
const WORTH_IT: u64 = 4 << 20;
/// Clean pages go at a gigabyte a second and more.
const LONGEST: Nanos = Nanos(5 * Nanos::SECOND.0);

/// Takes it back, on threads of their own.
#[derive(Debug, Default)]
pub(super) struct Sweeps(Vec<Reclaiming>);

impl Sweeps {
    /// Begins to take back what a scene in which nobody is left still holds. Where that cannot be
    /// done nothing is lost: it was no step of the ladder.
    pub(super) fn begin(&mut self, action: u64, root: &Root, scene: &Scene) {
        let now = clock::now().boot;
        let opened = scene.work().filter_map(|work| Group::open(root, &work.path, work.id).ok());
        let is_worth_it =
            |group: &Group| group.bytes("memory.current").is_some_and(|holds| holds >= WORTH_IT);
        let groups: Vec<_> = opened.filter(is_worth_it).collect();
        if groups.is_empty() {
            return;
        }
        let all = Some(Bytes(u64::MAX));
        match Reclaiming::begin((action, now), groups, all, now.plus(LONGEST)) {
            Ok(sweep) => self.0.push(sweep),
            Err(why) => tracing::debug!("what the dead left stays: {why}"),
        }
    }

    /// What has come back by now.
    pub(super) fn look(&mut self) -> Vec<Outcome> {
        let mut news = Vec::new();
        self.0.retain(|sweep| match sweep.look() {
            None => true,
            Some(Err(why)) => {
                tracing::debug!("what the dead left stays: {why}");
                false
            }
            Some(Ok(done)) => {
                let detail = format!("cache that the dead left: {}", done.detail);
                let (result, took) = (OutcomeResult::Done, clock::now().boot.since(sweep.began));
                let (action, freed) = (sweep.action, done.freed);
                news.push(Outcome { action, result, detail, took, freed, ended: None });
                false
            }
        });
        news
    }

    /// True while something is being taken back.
    pub(super) fn is_busy(&self) -> bool {
        !self.0.is_empty()
    }
}
