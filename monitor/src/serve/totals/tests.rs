use super::*;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{
    Action, Outcome, OutcomeResult, Release, ReleaseReason, Target, made,
};
use isobar_core::model::snapshot::Blame;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Bytes, Percent};
use isobar_core::view::cpu_loss::Harm;

fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

/// An action of a step.
fn order(id: u64, step: StepKind, is_enforced: bool) -> Action {
    let reason = made::pressed(PressureSignal::Memory(Percent(0)));
    Action { id, is_enforced, ..made::action(step, reason) }
}

fn release(action: u64) -> Release {
    let (step, target) = (StepKind::Squeeze, Target::default());
    Release { action, step, target, why: ReleaseReason::Over, is_enforced: true }
}

fn outcome(action: u64, result: OutcomeResult) -> Outcome {
    Outcome { freed: Some(Bytes(10)), ended: Some(1), ..made::outcome(action, result) }
}

#[test]
fn steps_count_each_result_of_an_action_once() {
    use OutcomeResult::{Done, Failed, Refused};
    use StepKind::{KillContainers, Squeeze};
    let mut totals = Totals::default();
    let mut tick = |outcomes: &[Outcome], actions: Vec<Action>, releases: Vec<Release>| {
        let sample = Sample { outcomes: outcomes.into(), ..Sample::default() };
        let mut step = Step::default();
        step.decision.relief.actions = actions;
        step.decision.relief.releases = releases;
        totals.tick(&sample, &Settings::default(), &step);
    };
    tick(&[], vec![order(1, KillContainers, true)], vec![]);
    tick(&[outcome(1, Done)], vec![order(2, Squeeze, false)], vec![]);
    // What a victim leaves behind is taken back later, and its end may fail after it began.
    tick(&[outcome(1, Done), outcome(1, Failed), outcome(2, Done)], vec![], vec![release(2)]);
    tick(&[], vec![], vec![release(2)]);
    tick(&[outcome(2, Done), outcome(9, Refused)], vec![], vec![]);
    let want = [
        (("killContainers", "done"), 1),
        (("killContainers", "failed"), 1),
        (("release", "done"), 1),
        (("squeeze", "observed"), 1),
    ];
    assert_eq!(totals.steps.taken, want.into());
    assert_eq!((totals.steps.freed, totals.steps.ended), (Bytes(50), 5));
    assert_eq!(totals.decisions[&("acted", "system.memory.pressure".to_owned())], 2);
    assert_eq!(totals.decisions[&("none", String::new())], 3);
}

#[test]
fn results_are_all_that_occur() {
    for result in [OutcomeResult::Done, OutcomeResult::Refused, OutcomeResult::Failed] {
        assert!(RESULTS.contains(&result.name()), "{result:?}");
    }
}

/// Each blame is `(aggressor, victim, milliseconds)`, by cgroups `/1`, `/2`, ..
fn waits(blames: &[(u64, u64, u64)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.covers.waits = true;
    for (aggressor, victim, time) in blames {
        let path = |id: &u64| Some(CgroupPath(format!("/{id}").into()));
        snapshot.aggressions.push(Blame {
            victim: CgroupId(*victim),
            victim_path: path(victim),
            aggressor: CgroupId(*aggressor),
            aggressor_path: path(aggressor),
            time: ms(*time),
            loss: None,
        });
    }
    snapshot
}

#[test]
fn pairs_keep_those_that_wait_most_lately() {
    let mut pairs = Pairs::default();
    let names = Names::new();
    let many: Vec<_> = (1..=20).map(|n| (n, 100, 500 - n)).collect();
    pairs.tick(&waits(&many), &names);
    assert_eq!(pairs.kept.len(), 16);
    assert_eq!(pairs.others, ms(4 * 500 - 17 - 18 - 19 - 20));
    let kept = |pairs: &Pairs, aggressor: &str| {
        pairs.kept.get(&(aggressor.into(), "/100".into())).map(|pair| pair.total.time)
    };
    assert_eq!(kept(&pairs, "/17"), None);
    // One that matters less than every pair that is kept is not kept.
    pairs.tick(&waits(&[(17, 100, 20)]), &names);
    assert_eq!(kept(&pairs, "/17"), None);
    // One that goes on for long replaces what is over, and what is kept stays as it is.
    for _ in 0..60 {
        pairs.tick(&waits(&[(1, 100, 900), (17, 100, 450)]), &names);
    }
    assert_eq!(kept(&pairs, "/1"), Some(ms(499 + 60 * 900)));
    assert!(kept(&pairs, "/17").is_some() && kept(&pairs, "/16").is_none());
}

#[test]
fn pairs_keep_what_costs_most_before_what_waits_longest() {
    let mut pairs = Pairs::default();
    let long: Vec<_> = (1..=16).map(|n| (n, 100, 900)).collect();
    let mut snapshot = waits(&long);
    pairs.tick(&snapshot, &Names::new());
    let short = Blame { loss: Some(ms(30)), ..waits(&[(50, 100, 40)]).aggressions.remove(0) };
    snapshot.aggressions.insert(0, short);
    pairs.tick(&snapshot, &Names::new());
    let kept = pairs.kept[&("/50".to_owned(), "/100".to_owned())];
    assert_eq!(kept.total, Harm { loss: ms(30), time: ms(40) });
}

#[test]
fn pairs_leave_out_idle_and_own_waits() {
    let mut pairs = Pairs::default();
    let unknown = CgroupId::UNKNOWN.0;
    pairs.tick(&waits(&[(0, 5, 40), (5, 5, 30), (unknown, 5, 20), (6, 5, 10)]), &Names::new());
    let kept: Vec<_> = pairs.kept.iter().map(|(pair, at)| (pair.clone(), at.total.time)).collect();
    assert_eq!(kept, [(("/6".to_owned(), "/5".to_owned()), ms(10))]);
    assert_eq!(pairs.others, ms(20));
}

#[test]
fn tick_durations_fall_into_buckets() {
    let mut totals = Totals::default();
    for (took, bucket) in
        [(ms(0), 0), (ms(1), 0), (Nanos(1_000_001), 1), (ms(1_000), 9), (ms(1_001), 10)]
    {
        let before = totals.tick_durations.buckets.get(bucket).copied().unwrap_or(0);
        totals.took(&Cost { tick: took, ..Cost::default() });
        assert_eq!(totals.tick_durations.buckets[bucket], before + 1, "{took:?}");
    }
    assert_eq!(totals.tick_durations.sum, Nanos(2_003_000_001));
}
