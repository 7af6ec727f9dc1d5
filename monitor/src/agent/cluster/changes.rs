//! Events of changes: those that a decision tells of, and what holds for a while, told when it begins:
//! who would be evicted for a threshold that has become due, and limits that another writer has changed.

use std::collections::BTreeSet;

use super::note;
use crate::kube::Note;
use isobar_core::model::decision::{Decision, Event};
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::model::sample::Moment;
use isobar_core::policy::explain::candidates_for;

#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Thresholds that are due and whose candidates were told.
    due: BTreeSet<String>,
    /// Files of limits that the last tick found changed.
    drifted: BTreeSet<String>,
}

impl Changes {
    pub(super) fn notes(&mut self, decision: &Decision, limits: &[LimitState]) -> Vec<Note> {
        let drifted = self.drifted(decision, limits);
        self.candidates(decision).into_iter().chain(drifted).collect()
    }

    fn candidates(&mut self, decision: &Decision) -> Option<Note> {
        let due = decision.assessment.met.iter().filter(|met| met.is_due);
        let due: Vec<_> = due.map(|met| (met.threshold.name(), met)).collect();
        self.due.retain(|name| due.iter().any(|(due, _)| due == name));
        let ranking = decision.ranking.as_ref()?;
        let (name, first) = due.into_iter().find(|(name, _)| *name == ranking.signal)?;
        let is_new = self.due.insert(name.clone());
        is_new.then(|| {
            let text = candidates_for(first, decision);
            Note { subject: name, ..note(decision.at, "EvictionCandidates", &text) }
        })
    }

    fn drifted(&mut self, decision: &Decision, limits: &[LimitState]) -> Vec<Note> {
        let drifted = limits.iter().filter(|limit| limit.result == LimitResult::Drifted);
        let drifted: Vec<_> = drifted.map(|limit| (limit.write.path(), limit)).collect();
        let new = drifted.iter().filter(|(file, _)| !self.drifted.contains(file));
        let new = new.map(|(file, limit)| {
            let text = format!("{file}: {}", limit.detail);
            let note = note(decision.at, "LimitDrifted", &text);
            Note { is_warning: true, subject: file.clone(), ..note }
        });
        let new = new.collect();
        self.drifted = drifted.into_iter().map(|(file, _)| file).collect();
        new
    }
}

/// A change of a condition, or of relief. An agent that `enforces` no step attempts nothing, and says so.
pub(super) fn change(
    Event { reason, message, is_warning }: &Event,
    enforces: bool,
    at: Moment,
) -> Note {
    let (text, subject) = match message.strip_prefix("Attempting to ") {
        Some(what) if !enforces => {
            (&format!("Would attempt to {what}; isobar only observes"), what)
        }
        _ => (message, message.as_str()),
    };
    let subject = without_figures(subject);
    Note { is_warning: *is_warning, subject, ..note(at, reason, text) }
}

/// What tells apart two series of one reason: two conditions, thresholds or pods have one each, and
/// the same one has a single series whatever was measured.
fn without_figures(message: &str) -> String {
    let sentence = message.split(": ").next().unwrap_or_default();
    // The name of a pod may begin with a digit.
    let is_figure =
        |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('/');
    sentence.split(' ').filter(|word| !is_figure(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use isobar_core::model::units::Nanos;

    use super::*;
    use isobar_core::model::cgroup::CgroupPath;
    use isobar_core::model::decision::{Candidate, Met, Order, Ranking, Trigger};
    use isobar_core::model::limit::LimitWrite;
    use isobar_core::model::settings::WrittenLimit;
    use isobar_core::model::threshold::{Amount, Signal, Threshold};

    fn decision(is_due: bool, signal: &str) -> Decision {
        let value = Amount::Quantity("100Mi".parse().unwrap());
        let (signal_met, grace) = (Signal::MemoryAvailable, Nanos(0));
        let threshold =
            Trigger::Eviction(Threshold { signal: signal_met, value, grace, min_reclaim: None });
        let (since, measured) = (Nanos(0), 80 << 20);
        let met = Met { threshold, since, is_due, measured, missing: Some(20 << 20) };
        let first = Candidate {
            name: "web".into(),
            namespace: "shop".into(),
            uid: "u1".into(),
            members: vec![],
            keys: vec![],
        };
        let ranking = Ranking {
            signal: signal.into(),
            order: Order::Qos,
            candidates: vec![first],
            n_candidates: 1,
            spared: vec![],
            n_spared: 0,
            outsiders: vec![],
            loss: None,
        };
        let mut decision = Decision { ranking: Some(ranking), ..Decision::default() };
        decision.assessment.met.push(met);
        decision
    }

    #[test]
    fn change_says_that_nothing_is_attempted() {
        #[rustfmt::skip]
        let table = [
            // message, a step is enforced, told
            ("Attempting to reclaim memory", true,  "Attempting to reclaim memory"),
            ("Attempting to reclaim memory", false, "Would attempt to reclaim memory; isobar only observes"),
            ("MemoryPressure is False",      false, "MemoryPressure is False"),
        ];
        for (message, enforces, want) in table {
            let (reason, message) = ("R".into(), message.into());
            let note =
                change(&Event { reason, message, is_warning: true }, enforces, Moment::default());
            assert_eq!(note.text, want);
        }
    }

    #[test]
    fn change_of_something_else_is_another_series() {
        #[rustfmt::skip]
        let table = [
            // messages of one reason, the same series
            ("Attempting to reclaim memory",         "Attempting to reclaim ephemeral-storage",  false),
            ("Attempting to relieve system.memory.exhaustion: 5.8s, the threshold is 10s for 2s",
                "Attempting to relieve system.memory.exhaustion: 7.1s, the threshold is 10s for 2s", true),
            ("Attempting to relieve system.memory.exhaustion: 5.8s, the threshold is 10s for 2s",
                "Attempting to relieve kubepods.cpu.pressure: 61.50 %, the threshold is 50.00 % for 30s", false),
            ("no step on shop/web has helped; continuing with the next candidate",
                "no step on shop/db has helped; continuing with the next candidate",                  false),
            ("no step on 1st/web has helped; continuing with the next candidate",
                "no step on 2nd/web has helped; continuing with the next candidate",                  false),
            ("shop/web has 2Gi of ephemeral storage, its limit is 1Gi: the kubelet evicts it",
                "shop/web has 3Gi of ephemeral storage, its limit is 1Gi: the kubelet evicts it",     true),
            ("shop/web has 2Gi in its emptyDir volume a, its limit is 1Gi: the kubelet evicts it",
                "shop/web has 2Gi in its emptyDir volume b, its limit is 1Gi: the kubelet evicts it", false),
            ("cpu: pods request 5 of 4, more than there is",
                "cpu: pods request 6 of 4, more than there is",                                       true),
            ("cpu: pods request 5 of 4, more than there is",
                "memory: pods request 5Gi of 4Gi, more than there is",                                false),
        ];
        for (first, second, want) in table {
            let subject = |message: &str| {
                let (reason, message) = ("R".into(), message.into());
                change(&Event { reason, message, is_warning: true }, true, Moment::default())
                    .subject
            };
            assert_eq!(subject(first) == subject(second), want, "{first} / {second}");
        }
    }

    #[test]
    fn notes_tell_candidates_once_while_a_threshold_is_due() {
        let mut changes = Changes::default();
        #[rustfmt::skip]
        let table = [
            // is due, what the ranking is for, told
            (false, "memory.available", false),
            (true,  "pid.available",    false),
            (true,  "memory.available", true),
            (true,  "memory.available", false),
            (false, "memory.available", false),
            (true,  "memory.available", true),
        ];
        for (is_due, signal, is_told) in table {
            let notes = changes.notes(&decision(is_due, signal), &[]);
            assert_eq!(notes.len(), usize::from(is_told), "{is_due} {signal}: {notes:?}");
            let Some(note) = notes.first() else { continue };
            assert_eq!((&*note.reason, &*note.subject), ("EvictionCandidates", signal));
            assert!(note.text.starts_with("memory.available is 80Mi, below"), "{}", note.text);
            assert!(note.text.contains("first to go: shop/web"), "{}", note.text);
        }
    }

    #[test]
    fn notes_tell_of_a_limit_when_another_writer_changes_it() {
        let limit = |result| LimitState {
            write: LimitWrite {
                what: WrittenLimit::Allocatable,
                cgroup: CgroupPath("/kubepods.slice".into()),
                file: "memory.max".into(),
                value: "1".into(),
            },
            before: None,
            live: Some("2".into()),
            result,
            detail: "another process wrote 2".into(),
        };
        let mut changes = Changes::default();
        use LimitResult::{Drifted, Kept, Observed};
        for (result, is_told) in
            [(Kept, false), (Drifted, true), (Drifted, false), (Observed, false), (Drifted, true)]
        {
            let notes = changes.notes(&Decision::default(), &[limit(result)]);
            assert_eq!(notes.len(), usize::from(is_told), "{result:?}: {notes:?}");
            let Some(note) = notes.first() else { continue };
            assert_eq!((&*note.reason, note.is_warning), ("LimitDrifted", true));
            assert_eq!(note.text, "/kubepods.slice/memory.max: another process wrote 2");
        }
    }
}
