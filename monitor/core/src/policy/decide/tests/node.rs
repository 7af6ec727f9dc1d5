//! A node and its actuator, for decisions in a row.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::decision::{Outlook, made};
use crate::model::snapshot::{Averages, Snapshot};
use crate::policy::rank::harm::HarmStanding;

/// A node with pods `a`, `b`, `c`, ranked in this order, an actuator that does what it is told at
/// once, and what the policy remembers.
pub(super) struct Node {
    pub(super) relief: settings::Relief,
    pub(super) sample: Sample,
    pub(super) before: Option<Sample>,
    pub(super) ranking: Ranking,
    pub(super) standing: ReliefStanding,
    pub(super) unseen: Nanos,
    pub(super) unmeasured: Vec<Trigger>,
    pub(super) is_harm_paused: bool,
    pub(super) is_stale: bool,
    pub(super) outlooks: Vec<Outlook>,
    pub(super) protected: BTreeSet<CgroupId>,
}

impl Node {
    pub(super) fn new() -> Self {
        let names = ["a", "b", "c"];
        let cgroup = |name: &str| Cgroup {
            path: CgroupPath(format!("/kubepods/besteffort/pod{name}").into()),
            memory: MemoryFiles { current: Some(Bytes(400 * MIB)), ..MemoryFiles::default() },
            ..Cgroup::default()
        };
        let cgroups = names.map(|name| Arc::new(cgroup(name)));
        let cgroups = (10..).map(CgroupId).zip(cgroups).collect();
        let pod = |name: &str| {
            (name.to_owned(), Pod { uid: name.into(), name: name.into(), ..Pod::default() })
        };
        let pods = Some(BTreeMap::from(names.map(pod)));
        let candidate = |name: &str| Candidate {
            name: name.into(),
            namespace: String::new(),
            uid: name.into(),
            members: vec![],
            keys: vec![MeritKey { key: Key::Harm, value: KeyValue::Number(200) }],
        };
        let ranking = Ranking {
            signal: "memory.available".into(),
            order: Order::Qos,
            candidates: names.map(candidate).into(),
            n_candidates: 3,
            spared: vec![],
            n_spared: 0,
            outsiders: vec![],
            loss: None,
        };
        let relief =
            settings::Relief { enforce: StepKind::ALL.into(), ..settings::Relief::default() };
        let pods = pods.map(Arc::new);
        let sample = Sample { cgroups, pods, ..Sample::default() };
        let standing = ReliefStanding::default();
        let (unseen, unmeasured, is_harm_paused) = (Nanos(0), Vec::new(), false);
        let is_stale = false;
        let before = None;
        Self {
            relief,
            sample,
            before,
            ranking,
            standing,
            unseen,
            unmeasured,
            is_harm_paused,
            is_stale,
            outlooks: Vec::new(),
            protected: BTreeSet::new(),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::between(None, &self.sample, &mut Averages::default())
    }

    /// All pods together lose so many MiB a second.
    pub(super) fn loses(&mut self, growth: u64) {
        self.outlooks = vec![Outlook {
            scope: ScopeName::Kubepods,
            growth: Some(Bytes(growth * MIB)),
            left: None,
            lasts: None,
            efficiency: None,
            refaults: None,
        }];
    }

    /// Asks at a second of the boot clock, with `met` met and due.
    pub(super) fn ask<T>(
        &mut self,
        second: u64,
        met: &[Met],
        answer: impl FnOnce(&Question<'_>, &mut ReliefStanding) -> T,
    ) -> T {
        self.sample.at = Moment { boot: seconds(second), wall: seconds(second) };
        let snapshot = self.snapshot();
        let question = Question {
            snapshot: &snapshot,
            relief: &self.relief,
            eviction: &Eviction::default(),
            sample: &self.sample,
            before: self.before.as_ref(),
            met,
            first: met.iter().find(|met| met.is_due).copied(),
            foretold: None,
            is_stale: self.is_stale,
            ranking: Some(&self.ranking),
            field: None,
            protected: &self.protected,
            unseen: self.unseen,
            unmeasured: &self.unmeasured,
            harm: &HarmStanding::default(),
            is_harm_paused: self.is_harm_paused,
            observations: &[],
            outlooks: &self.outlooks,
        };
        answer(&question, &mut self.standing)
    }

    /// Decides then, and does what was decided.
    pub(super) fn at(&mut self, second: u64, met: &[Met]) -> Relief {
        let verdict = self.ask(second, met, decide);
        self.sample.outcomes.clear();
        self.act(&verdict);
        self.ranking.candidates.retain(|candidate| {
            self.sample.cgroups.values().any(|group| group.path.0.ends_with(&candidate.uid))
        });
        verdict
    }

    /// Keeps the ledger as the actuator does: a squeeze stands until it is released, or until its
    /// cgroup is gone.
    fn act(&mut self, verdict: &Relief) {
        let is_released =
            |entry: &InForce| verdict.releases.iter().any(|r| r.action == entry.action.id);
        let cgroups = &self.sample.cgroups;
        let is_there = |entry: &InForce| {
            entry.action.target.cgroup.is_some_and(|id| cgroups.contains_key(&id))
        };
        self.sample.in_force.retain(|entry| !is_released(entry) && is_there(entry));
        let squeezes = verdict.actions.iter().filter(|action| action.step == Squeeze);
        let since = self.sample.at.boot;
        self.sample.in_force.extend(squeezes.map(|action| InForce {
            action: action.clone(),
            since,
            held: None,
            phase: Phase::Squeezed,
            largest: None,
        }));
    }

    pub(super) fn hear(&mut self, action: u64, result: OutcomeResult) {
        self.sample.outcomes.push(made::outcome(action, result));
    }

    /// The actuator does not begin this action.
    pub(super) fn leave(&mut self, action: u64) {
        self.hear(action, OutcomeResult::Failed);
        self.sample.outcomes.last_mut().unwrap().never_begun = true;
    }

    pub(super) fn end(&mut self, uid: &str) {
        self.sample.cgroups.retain(|_, group| !group.path.0.ends_with(uid));
    }
}
