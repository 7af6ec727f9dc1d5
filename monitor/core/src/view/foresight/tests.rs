use super::*;
use crate::model::cgroup::CgroupId;
use crate::model::decision::{Action, Decision, Met, made};
use crate::model::snapshot::Scope;
use crate::model::threshold::{Amount, PressureThreshold, Threshold};

fn killed(at: Nanos, limit: Option<CgroupId>, limit_known: bool) -> OomKill {
    OomKill { at, victim: CgroupId(1), limit, limit_known, ..OomKill::default() }
}

#[test]
fn oom_limit_of_a_kill() {
    let place = |place| Scope { place, ..Scope::default() };
    let scopes = [(2, place(Place::Kubepods)), (3, place(Place::Other))];
    let scopes = scopes.map(|(id, scope)| (CgroupId(id), scope)).into();
    let snapshot = Snapshot { scopes, ..Snapshot::default() };
    #[rustfmt::skip]
    let table = [
        // limit, known, whose
        (None,    true,  OomLimit::Node),
        (None,    false, OomLimit::Unknown),
        (Some(2), true,  OomLimit::Kubepods),
        (Some(3), true,  OomLimit::Own),
        (Some(4), true,  OomLimit::Own), // gone with its processes
    ];
    for (limit, limit_known, want) in table {
        let kill = killed(Nanos(0), limit.map(CgroupId), limit_known);
        assert_eq!(OomLimit::of(&kill, &snapshot), want, "{limit:?}");
    }
}

const SECOND: u64 = Nanos::SECOND.0;

fn trigger(name: &str) -> Trigger {
    let scope = ScopeName::System;
    let hard = Amount::Quantity("100Mi".parse().unwrap());
    let memory = |signal, grace| Threshold { signal, value: hard, grace, min_reclaim: None };
    let pressure = |on| Trigger::Pressure(PressureThreshold { scope, on, grace: Nanos(0) });
    match name {
        "forecast" => pressure(PressureSignal::Exhaustion(Nanos(10 * SECOND))),
        "stalls" => pressure(PressureSignal::Memory(Default::default())),
        "hard" => Trigger::Eviction(memory(Signal::MemoryAvailable, Nanos(0))),
        "soft" | "early" => Trigger::Eviction(memory(Signal::MemoryAvailable, Nanos(SECOND))),
        "pods" => Trigger::Eviction(memory(Signal::AllocatableMemoryAvailable, Nanos(0))),
        _ => unreachable!("{name}"),
    }
}

/// A tick in each second. In one of `ticks`: thresholds that are met, `kill`, `own` (a kill at
/// the limit of a pod), `act`, `late` (which has 20 s), `observe` and `mark`, `done` and `failed`
/// (what came of it).
fn play(ticks: &[&str]) -> Tally {
    let mut foresight = Foresight::default();
    let mut since = BTreeMap::new();
    let calm = [""; 11];
    for (second, words) in ticks.iter().chain(&calm).enumerate() {
        let at = Nanos((second as u64 + 1) * SECOND);
        let mut step = Step::default();
        step.decision.at.boot = at;
        let mut outcomes = Vec::new();
        since.retain(|name, _| words.split(' ').any(|word| word == *name));
        for word in words.split_whitespace() {
            let met = |name, since| {
                let threshold = trigger(name);
                let is_due = name != "early";
                Met { threshold, since, is_due, measured: 0, missing: None }
            };
            let action = |step, is_enforced| Action {
                deadline: at,
                is_enforced,
                ..made::action(step, met("forecast", at))
            };
            let kill = |limit| killed(at, limit, true);
            let outcome = |result| made::outcome(1, result);
            let kill_containers = action(StepKind::KillContainers, true);
            let Decision { assessment, relief, .. } = &mut step.decision;
            match word {
                "kill" => step.snapshot.oom_kills.push(kill(None)),
                "own" => step.snapshot.oom_kills.push(kill(Some(CgroupId(9)))),
                "act" => relief.actions.push(kill_containers),
                "late" => {
                    let deadline = at.plus(Nanos(20 * SECOND));
                    relief.actions.push(Action { deadline, ..kill_containers });
                }
                "done" => outcomes.push(outcome(OutcomeResult::Done)),
                "failed" => outcomes.push(outcome(OutcomeResult::Failed)),
                "observe" => relief.actions.push(action(StepKind::KillContainers, false)),
                "mark" => relief.actions.push(action(StepKind::Mark, true)),
                name => assessment.met.push(met(name, *since.entry(name).or_insert(at))),
            }
        }
        foresight.tick(&outcomes, &step);
    }
    foresight.tally()
}

#[test]
fn foresight_of_kills_and_forecasts() {
    #[rustfmt::skip]
    let table: [(&[&str], [u64; 5]); 21] = [
        // ticks, kills, foreseen, came true, averted, unfounded
        (&[],                                   [0, 0, 0, 0, 0]),
        (&["kill"],                             [1, 0, 0, 0, 0]),
        (&["forecast", "forecast kill"],        [1, 1, 1, 0, 0]),
        (&["forecast kill"],                    [1, 0, 0, 0, 1]), // decided after the kill
        (&["soft", "soft kill"],                [1, 1, 0, 0, 0]),
        (&["early", "early kill"],              [1, 0, 0, 0, 0]), // its grace period is not over
        (&["pods", "pods kill"],                [1, 0, 0, 0, 0]), // another scope
        (&["soft", "", "kill"],                 [1, 0, 0, 0, 0]), // the alarm was over
        (&["forecast", "forecast own"],         [0, 0, 0, 0, 1]), // no shortage of the node
        (&["forecast", "hard"],                 [0, 0, 1, 0, 0]),
        (&["forecast", "", "", "hard"],         [0, 0, 1, 0, 0]), // growth in bursts
        (&["forecast", "stalls"],               [0, 0, 1, 0, 0]),
        (&["forecast", "soft"],                 [0, 0, 0, 0, 1]),
        (&["forecast", "pods"],                 [0, 0, 0, 0, 1]), // another scope
        (&["forecast", "forecast act"],         [0, 0, 0, 0, 1]), // nothing came of it
        (&["forecast act", "failed"],           [0, 0, 0, 0, 1]),
        (&["forecast act", "done"],             [0, 0, 0, 1, 0]),
        (&["forecast act", "done", "hard"],     [0, 0, 1, 0, 0]),
        (&["forecast late", "", "", "", "", "", "", "", "", "", "", "", "done"], [0, 0, 0, 1, 0]),
        (&["forecast", "forecast observe"],     [0, 0, 0, 0, 1]),
        (&["forecast", "forecast mark"],        [0, 0, 0, 0, 1]), // holds nothing up
    ];
    for (ticks, [oom_kills, oom_kills_foreseen, came_true, averted, unfounded]) in table {
        let want = Tally { oom_kills, oom_kills_foreseen, came_true, averted, unfounded };
        assert_eq!(play(ticks), want, "{ticks:?}");
    }
}

#[test]
fn tally_in_words() {
    let kills = Tally { oom_kills: 3, oom_kills_foreseen: 2, ..Tally::default() };
    let both = Tally { came_true: 3, averted: 1, ..kills };
    let told = [Tally::default(), kills, both].map(|tally| tally.in_words());
    insta::assert_debug_snapshot!(told);
}

#[test]
fn alarm_is_over_after_a_pause() {
    let at = |second: u64| Nanos(second * SECOND);
    #[rustfmt::skip]
    let table = [
        // seconds of ticks that find memory short, of a kill after them, for how long it was foreseen
        (&[100, 101][..], 102, Some(2)),
        (&[100, 110],     111, Some(11)),
        (&[100],          111, None),
        (&[100, 111],     112, Some(1)), // short anew
    ];
    for (ticks, killed_at, want) in table {
        let mut foresight = Foresight::default();
        for second in ticks {
            let mut step = Step::default();
            step.decision.at.boot = at(*second);
            let threshold = trigger("soft");
            let since = at(*second);
            let met = Met { threshold, since, is_due: true, measured: 0, missing: None };
            step.decision.assessment.met.push(met);
            foresight.tick(&[], &step);
        }
        let kill = killed(at(killed_at), None, true);
        assert_eq!(foresight.of(&kill, OomLimit::Node), want.map(at), "{ticks:?} {killed_at}");
    }
}
