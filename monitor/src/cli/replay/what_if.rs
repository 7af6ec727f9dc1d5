//! What another configuration would have changed, as lanes over time and in words.

use std::io::{self, Write};

use isobar::record::incident::words::{clock, time};
use isobar::record::what_if::{Ended, Mark, Marks, Pair, Span, Taken, WhatIf};
use isobar_core::model::units::Nanos;

use crate::cli::terminal::{harmless, wrapped};

/// Columns of a lane.
const COLUMNS: u64 = 60;
/// Columns of prose.
const WIDTH: usize = 100;
/// A later OOM kill is of another shortage than the step.
const SOON: Nanos = Nanos(600 * Nanos::SECOND.0);

pub(super) fn write(all: &WhatIf, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    if all.ticks == 0 {
        return writeln!(out, "no decisions to compare: none recorded for these ticks");
    }
    let span = time(all.to.wall.since(all.from.wall));
    let (from, to) = (clock(all.from.wall), clock(all.to.wall));
    let s = if all.ticks == 1 { "" } else { "s" };
    writeln!(out, "{from} to {to}, {span} in {} tick{s}", all.ticks)?;
    if all.lanes.is_empty() {
        writeln!(out, "\nno condition held and no threshold was due, then or otherwise")?;
    }
    for lane in &all.lanes {
        writeln!(out, "\n{}{}", harmless(&lane.name), sooner(lane.gained))?;
        for (name, spans) in [("then", &lane.held.then), ("otherwise", &lane.held.otherwise)] {
            let bar = bar(all, spans);
            writeln!(out, "  {name:<10} {bar}  {}", told(all, spans))?;
        }
    }
    ended(all, out)?;
    writeln!(out, "\nsteps{}", sooner(all.gained))?;
    let both = [
        ("then", &all.steps.then, all.more_steps.then),
        ("otherwise", &all.steps.otherwise, all.more_steps.otherwise),
    ];
    for (name, steps, more) in both {
        taken(all, out, name, steps, more)?;
    }
    all.limit().map_or(Ok(()), |limit| {
        writeln!(out)?;
        wrapped(&limit, WIDTH).iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// The victims as lanes; nothing without a step.
fn ended(all: &WhatIf, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let Ended { marks: Pair { then, otherwise }, gained } = &all.ended;
    if then.marks.is_empty() && otherwise.marks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nended{}", sooner(*gained))?;
    for (name, side) in [("then", then), ("otherwise", otherwise)] {
        let told = match (side.n, side.first()) {
            (1, Some(first)) => format!("1 step at {}", clock(first.wall)),
            (n, Some(first)) => format!("{n} steps from {}", clock(first.wall)),
            (_, None) => "none".into(),
        };
        writeln!(out, "  {name:<10} {}  {told}", marks(all, &side.marks))?;
    }
    let is_gentle = |side: &Marks| side.marks.iter().any(|mark| !mark.is_final);
    let gentle = if is_gentle(then) || is_gentle(otherwise) { "; o: a gentler step" } else { "" };
    writeln!(out, "  x: a step that ends work, or would if isobar did not only observe{gentle}")
}

fn marks(all: &WhatIf, marks: &[Mark]) -> String {
    let whole = u128::from(all.to.wall.since(all.from.wall).0.max(1));
    let column = |mark: &Mark| {
        let at = u128::from(mark.at.wall.since(all.from.wall).0);
        (at * u128::from(COLUMNS) / whole).min(u128::from(COLUMNS) - 1)
    };
    let sign = |place: u64| {
        let here = || marks.iter().filter(|mark| column(mark) == u128::from(place));
        match (here().any(|mark| mark.is_final), here().next()) {
            (true, _) => 'x',
            (false, Some(_)) => 'o',
            (false, None) => '.',
        }
    };
    (0..COLUMNS).map(sign).collect()
}

fn taken(
    all: &WhatIf,
    out: &mut (impl Write + ?Sized),
    name: &str,
    steps: &[Taken],
    more: u64,
) -> io::Result<()> {
    if steps.is_empty() {
        writeln!(out, "  {name:<10} none")?;
    }
    let first_for_memory = steps.iter().position(|step| step.is_for_memory);
    for (n, taken) in steps.iter().enumerate() {
        let Taken { at, step, target, because, is_enforced, .. } = taken;
        let name = if n == 0 { name } else { "" };
        let left = before_kill(all, taken).filter(|_| first_for_memory == Some(n));
        let before = left.map(|left| format!(", {} before the kernel's OOM kill", time(left)));
        let (step, target) = (step.name(), harmless(target));
        let before = before.unwrap_or_default();
        let at = clock(at.wall);
        let how = if *is_enforced { ", enforced" } else { "" };
        writeln!(out, "  {name:<10} {at} {step} {target}{how} because of {because}{before}")?;
    }
    if more > 0 {
        writeln!(out, "  {:<10} and {more} more", "")?;
    }
    Ok(())
}

/// How long after a step for memory the kernel killed for want of it, if that was soon.
fn before_kill(all: &WhatIf, step: &Taken) -> Option<Nanos> {
    let kill = all.oom_kills.iter().find(|kill| kill.wall >= step.at.wall)?;
    let left = kill.wall.since(step.at.wall);
    (step.is_for_memory && left <= SOON).then_some(left)
}

fn bar(all: &WhatIf, spans: &[Span]) -> String {
    let whole = all.to.wall.since(all.from.wall).0.max(1);
    let edge = |column: u64| u128::from(whole) * u128::from(column) / u128::from(COLUMNS);
    let is_on = |column: u64| {
        spans.iter().any(|span| {
            let from = u128::from(span.from.wall.since(all.from.wall).0);
            let to = span.to.unwrap_or(all.to).wall.since(all.from.wall);
            // A short span is no empty lane.
            from < edge(column + 1).max(1) && u128::from(to.0) >= edge(column)
        })
    };
    (0..COLUMNS).map(|column| if is_on(column) { '#' } else { '.' }).collect()
}

fn told(all: &WhatIf, spans: &[Span]) -> String {
    let Some(first) = spans.first() else { return "never".into() };
    let lasted = spans.iter().map(|span| span.to.unwrap_or(all.to).wall.since(span.from.wall));
    let whole = time(lasted.fold(Nanos(0), Nanos::plus));
    format!("{whole} from {}", clock(first.from.wall))
}

fn sooner(gained: Option<i64>) -> String {
    match gained {
        None | Some(0) => String::new(),
        Some(ahead) => {
            let word = if ahead > 0 { "sooner" } else { "later" };
            format!(": {} {word}", time(Nanos(ahead.unsigned_abs())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::condition::{
        Condition, ConditionName, Measure, Phase, ScopeName, Status,
    };
    use isobar_core::model::decision::{Action, Decision, Met, StepKind, Target, Trigger, made};
    use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
    use isobar_core::model::units::{Moment, Percent};

    /// The node is started again after 20 s.
    fn at(second: u64) -> Moment {
        let boot = Nanos(second.checked_sub(20).unwrap_or(second + 900) * Nanos::SECOND.0);
        Moment { boot, wall: Nanos(1_790_000_000_000_000_000 + second * Nanos::SECOND.0) }
    }

    fn due(on: PressureSignal) -> Met {
        let (scope, grace) = (ScopeName::Kubepods, Nanos(0));
        made::met(Trigger::Pressure(PressureThreshold { scope, on, grace }))
    }

    fn action(step: StepKind) -> Action {
        let reason = due(PressureSignal::Memory(Percent(60_00)));
        let target = Target { name: "leak".into(), namespace: "shop".into(), ..Target::default() };
        Action { target, ..made::action(step, reason) }
    }

    fn decision(second: u64, is_true: bool) -> Decision {
        let name = ConditionName::ALL[0];
        let condition = Condition {
            name,
            kind: name.name().into(),
            status: if is_true { Status::True } else { Status::False },
            phase: Phase::Calm,
            measure: Measure::RawSome,
            threshold: Percent(60_00),
            avg10: None,
            avg60: None,
            seen: None,
            since: at(second),
            judged: None,
            why: None,
        };
        let mut decision = Decision { tick: second, at: at(second), ..Decision::default() };
        decision.assessment.conditions.push(condition);
        decision
    }

    #[test]
    fn what_if_lanes() {
        #[rustfmt::skip]
        let table = [
            // True then, True otherwise (seconds of 120), gained in seconds
            (60..90,  30..90,  Some(30)),
            (30..60,  60..120, Some(-30)),
            (60..90,  60..90,  Some(0)),
            (60..61,  0..0,    None),
        ];
        let mut told = Vec::new();
        for (then, otherwise, want) in table {
            let mut all = WhatIf::default();
            for second in 0..120 {
                let is_true = [&then, &otherwise].map(|range| range.contains(&second));
                all.tick(&decision(second, is_true[0]), &decision(second, is_true[1]));
            }
            let all = all.close();
            let seconds = all.lanes[0].gained.map(|nanos| nanos / 1_000_000_000);
            assert_eq!(seconds, want, "{then:?} {otherwise:?}");
            write(&all, &mut told).unwrap();
            told.push(b'\n');
        }
        insta::assert_snapshot!(String::from_utf8(told).unwrap());
    }

    #[test]
    fn what_if_lanes_end_where_no_tick_tells_more() {
        #[rustfmt::skip]
        let table: [(&[(u64, u64)], &str); 4] = [
            // numbers and seconds of ticks, in all of which it is True; how long it held
            (&[(1, 30), (2, 31), (3, 40)],            "10s from"),
            (&[(1, 30), (2, 31), (3, 42), (4, 44)],   "3s from"), // the node slept
            (&[(7, 30), (8, 31), (1, 35), (2, 37)],   "3s from"), // another agent
            (&[(7, 18), (8, 19), (9, 20), (10, 22)],  "3s from"), // another boot
        ];
        for (ticks, want) in table {
            let mut all = WhatIf::default();
            for (tick, second) in ticks {
                let decision = Decision { tick: *tick, ..decision(*second, true) };
                all.tick(&decision, &decision);
            }
            let mut told = Vec::new();
            write(&all.close(), &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(told.contains(&format!("  {want}")), "{ticks:?}: {told}");
        }
    }

    #[test]
    fn what_if_lane_of_victims() {
        use StepKind::{Evict, KillContainers, Squeeze};
        type Steps<'a> = &'a [(u64, StepKind)];
        type Row<'a> = (Steps<'a>, Steps<'a>, [u64; 2], Option<i64>);
        #[rustfmt::skip]
        let table: [Row<'_>; 5] = [
            // steps then and otherwise (second of 120), how many end work, gained in seconds
            (&[(60, Evict), (90, KillContainers)], &[(30, Evict)],                [2, 1], Some(30)),
            (&[(60, Evict)],                       &[(30, Squeeze), (70, Evict)], [1, 1], Some(-10)),
            (&[(0, Evict), (119, Evict)],          &[],                           [2, 0], None),
            (&[(60, Squeeze)],                     &[(61, Squeeze)],              [0, 0], None),
            (&[],                                  &[],                           [0, 0], None),
        ];
        let mut told = Vec::new();
        for (then, otherwise, n, want) in table {
            let mut all = WhatIf::default();
            for second in 0..120 {
                let [then, otherwise] = [then, otherwise].map(|steps| {
                    let mut decision = decision(second, false);
                    let now = steps.iter().filter(|(at, _)| *at == second);
                    decision.relief.actions.extend(now.map(|(_, step)| action(*step)));
                    decision
                });
                all.tick(&then, &otherwise);
            }
            let all = all.close();
            let Ended { marks: Pair { then: a, otherwise: b }, gained } = &all.ended;
            assert_eq!([a.n, b.n], n, "{then:?} {otherwise:?}");
            assert_eq!(gained.map(|nanos| nanos / 1_000_000_000), want, "{then:?} {otherwise:?}");
            write(&all, &mut told).unwrap();
            told.push(b'\n');
        }
        insta::assert_snapshot!(String::from_utf8(told).unwrap());
    }

    #[test]
    fn before_kill_of_the_same_shortage() {
        let (memory, cpu) =
            (PressureSignal::Memory(Percent(60_00)), PressureSignal::Cpu(Percent(60_00)));
        #[rustfmt::skip]
        let table = [
            // what the step at 100 s is for, OOM kills, seconds from the step to the kill
            (memory, vec![],           None),
            (memory, vec![99],         None),
            (memory, vec![100],        Some(0)),
            (memory, vec![50, 160],    Some(60)),
            (memory, vec![160, 170],   Some(60)),
            (memory, vec![700],        Some(600)),
            (memory, vec![701],        None), // of another shortage
            (cpu,    vec![160],        None),
        ];
        for (on, kills, want) in table {
            let mut with_step = decision(100, false);
            with_step.relief.actions = vec![Action { reason: due(on), ..action(StepKind::Evict) }];
            let mut all = WhatIf::default();
            all.tick(&with_step, &with_step);
            all.oom_kills = kills.iter().copied().map(at).collect();
            let all = all.close();
            let seconds = |left: Nanos| left.0 / Nanos::SECOND.0;
            let got = before_kill(&all, &all.steps.then[0]).map(seconds);
            assert_eq!(got, want, "{on:?} {kills:?}");
            let mut told = Vec::new();
            write(&all, &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert_eq!(told.contains("before the kernel's OOM kill"), want.is_some(), "{told}");
        }
    }

    #[test]
    fn what_if_tells_of_ticks_that_are_missing() {
        #[rustfmt::skip]
        let table: [(&[u64], u64); 5] = [
            // numbers of the ticks; how many are missing
            (&[5, 6, 7],             0),
            (&[5, 7, 8],             1),
            (&[15, 16, 600, 601],    583), // a chapter that was thinned
            (&[15, 16, 1, 2],        0), // another run
            (&[15, 16, 1, 2, 4],     1),
        ];
        for (ticks, want) in table {
            let mut all = WhatIf::default();
            for (tick, second) in ticks.iter().zip(0..) {
                let decision = Decision { tick: *tick, ..decision(second, false) };
                all.tick(&decision, &decision);
            }
            assert_eq!(all.missing, want, "{ticks:?}");
            let told = all.close().limit().unwrap_or_default();
            let words = format!("{want} tick{} in between", if want == 1 { "" } else { "s" });
            assert_eq!(told.starts_with(&words), want > 0, "{told}");
        }
    }

    #[test]
    fn what_if_marks_are_bounded() {
        let mut all = WhatIf::default();
        for second in 0..5_000 {
            let mut with_steps = decision(second, false);
            with_steps.relief.actions = vec![action(StepKind::Evict), action(StepKind::Squeeze)];
            all.tick(&decision(second, false), &with_steps);
        }
        let all = all.close();
        let Marks { n, marks, .. } = &all.ended.marks.otherwise;
        assert_eq!(*n, 5_000);
        assert!((1_000..=2_002).contains(&marks.len()), "{}", marks.len());
        assert!(!super::marks(&all, marks).contains('.'), "no part of the lane is empty");
    }
}
