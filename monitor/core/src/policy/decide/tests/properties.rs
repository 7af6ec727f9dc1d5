use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::decision::Action;
use crate::policy::decide::steps::Kind;

/// What the world does between two ticks.
#[derive(Debug, Clone)]
enum Turn {
    /// Nothing is short.
    Calm,
    /// Something is, and is due.
    Short(usize),
    /// Something is, and is in its grace.
    Grace,
    /// The actuator reports on the last action.
    Hear(OutcomeResult),
    /// A pod ends.
    End(usize),
    /// So many seconds pass; none also happens.
    Wait(u64),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        1 => Just(Turn::Calm),
        6 => (0_usize..5).prop_map(Turn::Short),
        1 => Just(Turn::Grace),
        1 => prop_oneof![
            Just(OutcomeResult::Done),
            Just(OutcomeResult::Refused),
            Just(OutcomeResult::Failed)
        ].prop_map(Turn::Hear),
        1 => (0_usize..3).prop_map(Turn::End),
        3 => (0_u64..40).prop_map(Turn::Wait),
    ]
}

fn triggers() -> [Trigger; 5] {
    [
        threshold(Signal::MemoryAvailable, Nanos(0)),
        threshold(Signal::MemoryAvailable, seconds(30)),
        threshold(Signal::PidAvailable, Nanos(0)),
        pressure(PressureSignal::Cpu(Percent(60_00))),
        pressure(PressureSignal::Exhaustion(seconds(10))),
    ]
}

proptest! {
    #[test]
    fn decide_keeps_one_victim_and_the_budget(
        turns in proptest::collection::vec(turn(), 1..200),
        is_enforced: bool,
        budget in 1_u32..4,
    ) {
        let mut node = Node::new();
        node.relief.budget = budget;
        if !is_enforced {
            node.relief.enforce.clear();
        }
        let (mut second, mut is_met) = (1, None);
        let mut last: Option<Action> = None;
        let (mut was_refused, mut was_forbidden) = (false, false);
        let mut ended: Vec<(Nanos, String, Resource)> = Vec::new();
        for turn in turns {
            match turn {
                Turn::Calm => is_met = None,
                Turn::Short(which) => is_met = Some(met(triggers()[which])),
                Turn::Grace => is_met = Some(Met { is_due: false, ..met(triggers()[1]) }),
                Turn::Hear(result) => {
                    let id = last.as_ref().map_or(9, |action| action.id);
                    was_refused |= result != OutcomeResult::Done;
                    was_forbidden |= result == OutcomeResult::Refused;
                    node.hear(id, result);
                }
                Turn::End(which) => node.end(["a", "b", "c"][which]),
                Turn::Wait(n) => second += n,
            }
            let list: Vec<Met> = is_met.into_iter().collect();
            let verdict = node.at(second, &list);
            let now = seconds(second);

            prop_assert!(verdict.actions.is_empty() || verdict.held.is_none());
            let Some(action) = verdict.actions.into_iter().next() else { continue };
            prop_assert!(is_met.is_some_and(|met| met.is_due), "{action:?} for no reason");
            prop_assert_eq!(action.is_enforced, is_enforced);
            prop_assert!(action.deadline > now);
            if let Some(before) = &last {
                prop_assert!(action.id > before.id);
                let is_other = before.target.name != action.target.name;
                let is_there = node.sample.cgroups.values().any(|g| g.path.0.ends_with(&before.target.uid));
                let has_time = now < before.deadline && !was_refused;
                // Memory that is pressing does not wait for a victim of something else, nor do pids.
                let resource = |action: &Action| action.reason.threshold.resource();
                let waits = match (resource(before), resource(&action)) {
                    (Resource::Memory, of) => of != Resource::Pids,
                    (of, Resource::Memory | Resource::Pids) => of == resource(&action),
                    _ => true,
                };
                prop_assert!(
                    !(before.step.is_final() && is_other && is_there && has_time && waits),
                    "{action:?} while {before:?} has time"
                );
                // An eviction that a disruption budget forbids has ended nothing.
                if was_forbidden && is_other && before.step == Evict {
                    ended.pop_if(|(_, name, _)| *name == before.target.name);
                }
            }
            let is_known = ended.iter().any(|(_, name, _)| *name == action.target.name);
            if action.step.is_final() && !is_known {
                let short_of = action.reason.threshold.resource();
                ended.push((now, action.target.name.clone(), short_of));
                // Where memory or pids press, victims of something else leave room.
                let presses = Kind::takes_no_refusal(&action.reason);
                let counts = |(at, _, of): &&(Nanos, String, Resource)| {
                    now.since(*at) < node.relief.budget_window && (*of == short_of || !presses)
                };
                let lately = ended.iter().filter(counts).count();
                prop_assert!(lately <= usize::try_from(budget).unwrap(), "{ended:?}");
            }
            (last, was_refused, was_forbidden) = (Some(action), false, false);
        }
    }
}

/// How a squeeze ended that was seen in a verdict.
fn note_squeezes(verdict: &Relief, squeezed: &mut BTreeMap<u64, u32>) {
    let new = verdict.actions.iter().filter(|action| action.step == Squeeze);
    squeezed.extend(new.map(|action| (action.id, 0)));
    for release in &verdict.releases {
        *squeezed.get_mut(&release.action).expect("only what was squeezed is released") += 1;
    }
}

proptest! {
    #[test]
    fn releases_end_every_squeeze_once(
        turns in proptest::collection::vec(turn(), 1..150),
        is_enforced: bool,
    ) {
        let mut node = Node::new();
        if !is_enforced {
            node.relief.enforce.clear();
        }
        let pods: Vec<_> = node.sample.cgroups.keys().copied().collect();
        let (mut second, mut is_met, mut last) = (1, None, 0);
        let mut squeezed = BTreeMap::new();
        for turn in turns {
            match turn {
                Turn::Calm => is_met = None,
                // Of all that is short, what a squeeze is for.
                Turn::Short(which) => is_met = Some(met([triggers()[1], triggers()[3]][which % 2])),
                Turn::Grace => is_met = Some(Met { is_due: false, ..met(triggers()[3]) }),
                Turn::Hear(result) => node.hear(last, result),
                Turn::End(_) => {}
                Turn::Wait(n) => second += n,
            }
            let verdict = node.at(second, &is_met.into_iter().collect::<Vec<_>>());
            last = verdict.actions.first().map_or(last, |action| action.id);
            note_squeezes(&verdict, &mut squeezed);
        }
        prop_assert!(node.sample.cgroups.keys().copied().eq(pods), "nobody ended");
        for _ in 0..3 {
            second += 10;
            note_squeezes(&node.at(second, &[]), &mut squeezed);
        }
        prop_assert!(squeezed.values().all(|n| *n == 1), "{squeezed:?}");
        prop_assert!(node.sample.in_force.is_empty());
    }

    #[test]
    fn untried_never_repeats_a_step(
        // What came of a step, what can be taken from now on, and whose cache holds how much.
        turns in proptest::collection::vec((
            proptest::option::of(prop_oneof![
                Just(OutcomeResult::Done),
                Just(OutcomeResult::Refused),
                Just(OutcomeResult::Failed)
            ]),
            proptest::option::weighted(0.2, proptest::collection::btree_set(
                proptest::sample::select(&StepKind::ALL[..]), 0..7)),
            proptest::option::weighted(0.2, (0_usize..3, 0_u64..100)),
        ), 300),
        which in 0_usize..5,
    ) {
        let mut node = Node::new();
        let short_of = [met(triggers()[which])];
        let mut seen = Vec::new();
        // Whom a disruption budget kept, and when that was heard: the eviction is asked for again.
        let mut kept = BTreeMap::new();
        for (second, (result, means, cache)) in (1..).zip(turns) {
            if means.is_some() {
                node.sample.available_steps = means;
            }
            if let Some((at, mib)) = cache {
                let group = node.sample.cgroups.values_mut().map(Arc::make_mut).nth(at).unwrap();
                let inactive_file = Bytes(mib * MIB);
                group.memory.stat = Some(MemoryStat { inactive_file, ..MemoryStat::default() });
            }
            let Some(action) = node.at(second, &short_of).actions.pop() else { continue };
            let means = node.sample.available_steps.as_ref();
            prop_assert!(means.is_none_or(|means| means.contains(&action.step)), "{action:?}");
            let step = (action.target.uid.clone(), action.step);
            if action.step == Evict && kept.remove(&step.0).is_some_and(|at| second >= at + 30) {
                seen.retain(|before| *before != step);
            }
            prop_assert!(!seen.contains(&step), "{step:?} again");
            seen.push(step);
            if let Some(result) = result {
                let is_kept = result == OutcomeResult::Refused && action.step == Evict;
                if is_kept && !short_of[0].presses_for_memory() {
                    kept.insert(action.target.uid.clone(), second + 1);
                }
                node.hear(action.id, result);
            }
        }
    }
}
