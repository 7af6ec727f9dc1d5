//! What another configuration would have changed, as lanes over time: conditions and thresholds
//! then and otherwise, victims then and otherwise, and how much sooner.
//! Samples stay as they were recorded, so all after the first step that differs is told with that
//! limit.

use std::collections::BTreeMap;
use std::io::{self, Write};

use isobar::record::incident::words::{clock, time};
use isobar::record::replay::Judged;
use isobar_core::model::condition::Status;
use isobar_core::model::decision::{Action, Decision};
use isobar_core::model::units::{Moment, Nanos};
use isobar_core::view::API_VERSION;
use serde::Serialize;

use crate::cli::output::word;
use crate::cli::terminal::{harmless, wrapped};

/// Columns of a lane.
const COLUMNS: u64 = 60;
/// Columns of prose.
const WIDTH: usize = 100;
/// Steps that are told; more are counted.
const TOLD: usize = 20;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhatIf {
    api_version: &'static str,
    kind: &'static str,
    from: Moment,
    to: Moment,
    ticks: u64,
    lanes: Vec<Lane>,
    steps: Pair<Vec<Taken>>,
    /// Steps that are not listed.
    more_steps: Pair<u64>,
    oom_kills: Vec<Moment>,
    /// When the first step differed: the node would have gone on differently from there.
    diverged: Option<Moment>,
    /// Nanoseconds by which the first step would have come sooner; negative if later.
    gained: Option<i64>,
    #[serde(skip)]
    on: BTreeMap<String, Pair<bool>>,
    #[serde(skip)]
    by_name: BTreeMap<String, usize>,
}

/// As it was recorded, and with the other configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pair<T> {
    then: T,
    otherwise: T,
}

/// One condition or threshold over time.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lane {
    name: String,
    #[serde(flatten)]
    held: Pair<Vec<Span>>,
    /// As of the steps.
    gained: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    from: Moment,
    /// The first tick after it; `None` if it held to the end.
    to: Option<Moment>,
}

/// A step of relief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    at: Moment,
    step: String,
    target: String,
    because: String,
}

impl WhatIf {
    pub(super) fn of(ticks: impl Iterator<Item = anyhow::Result<Judged>>) -> anyhow::Result<Self> {
        let mut all = Self { api_version: API_VERSION, kind: "WhatIf", ..Self::default() };
        for judged in ticks {
            let judged = judged?;
            // One that this version cannot read has nothing to compare.
            let Ok(then) = serde_json::from_slice::<Decision>(judged.recorded.as_bytes()) else {
                continue;
            };
            all.tick(&then, &judged.step.decision);
            let kills = judged.step.snapshot.oom_kills.iter();
            all.oom_kills.extend(kills.map(|kill| {
                let wall = judged.at.wall.since(judged.at.boot.since(kill.at));
                Moment { boot: kill.at, wall }
            }));
        }
        for lane in &mut all.lanes {
            let first = |spans: &[Span]| spans.first().map(|span| span.from);
            lane.gained = gained(first(&lane.held.then), first(&lane.held.otherwise));
        }
        let first = |steps: &[Taken]| steps.first().map(|step| step.at);
        all.gained = gained(first(&all.steps.then), first(&all.steps.otherwise));
        Ok(all)
    }

    fn tick(&mut self, then: &Decision, otherwise: &Decision) {
        if self.ticks == 0 {
            self.from = otherwise.at;
        }
        let at = otherwise.at;
        (self.to, self.ticks) = (at, self.ticks + 1);
        let mut on: BTreeMap<String, Pair<bool>> = BTreeMap::new();
        held(then).for_each(|name| on.entry(name).or_default().then = true);
        held(otherwise).for_each(|name| on.entry(name).or_default().otherwise = true);
        // What ended in this tick.
        self.on.keys().for_each(|name| {
            on.entry(name.clone()).or_default();
        });
        for (name, now) in &on {
            let lanes = &mut self.lanes;
            let place = *self.by_name.entry(name.clone()).or_insert_with(|| {
                lanes.push(Lane { name: name.clone(), ..Lane::default() });
                lanes.len() - 1
            });
            let held = &mut self.lanes[place].held;
            turn(&mut held.then, now.then, at);
            turn(&mut held.otherwise, now.otherwise, at);
        }
        on.retain(|_, now| now.then || now.otherwise);
        self.on = on;
        self.steps(then, otherwise, at);
    }

    fn steps(&mut self, then: &Decision, otherwise: &Decision, at: Moment) {
        let taken = |decision: &Decision| {
            decision.relief.actions.iter().map(|action| step(action, at)).collect::<Vec<_>>()
        };
        let (then, otherwise) = (taken(then), taken(otherwise));
        let is_same = |(a, b): (&Taken, &Taken)| (&a.step, &a.target) == (&b.step, &b.target);
        let differs = then.len() != otherwise.len() || !then.iter().zip(&otherwise).all(is_same);
        if differs {
            self.diverged.get_or_insert(at);
        }
        self.more_steps.then += keep(&mut self.steps.then, then);
        self.more_steps.otherwise += keep(&mut self.steps.otherwise, otherwise);
    }

    pub(super) fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        if self.ticks == 0 {
            return writeln!(out, "no decisions to compare: none recorded for these ticks");
        }
        let span = time(self.to.boot.since(self.from.boot));
        let (from, to) = (clock(self.from.wall), clock(self.to.wall));
        writeln!(out, "{from} to {to}, {span} in {} ticks", self.ticks)?;
        if self.lanes.is_empty() {
            writeln!(out, "\nno condition held and no threshold was due, then or otherwise")?;
        }
        for lane in &self.lanes {
            writeln!(out, "\n{}{}", harmless(&lane.name), sooner(lane.gained))?;
            for (name, spans) in [("then", &lane.held.then), ("otherwise", &lane.held.otherwise)] {
                let bar = self.bar(spans);
                writeln!(out, "  {name:<10} {bar}  {}", self.told(spans))?;
            }
        }
        writeln!(out, "\nsteps{}", sooner(self.gained))?;
        let both = [
            ("then", &self.steps.then, self.more_steps.then),
            ("otherwise", &self.steps.otherwise, self.more_steps.otherwise),
        ];
        for (name, steps, more) in both {
            self.taken(out, name, steps, more)?;
        }
        self.limit().map_or(Ok(()), |limit| {
            writeln!(out)?;
            wrapped(&limit, WIDTH).iter().try_for_each(|line| writeln!(out, "{line}"))
        })
    }

    fn taken(
        &self,
        out: &mut (impl Write + ?Sized),
        name: &str,
        steps: &[Taken],
        more: u64,
    ) -> io::Result<()> {
        if steps.is_empty() {
            writeln!(out, "  {name:<10} none")?;
        }
        for (n, Taken { at, step, target, because }) in steps.iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            let before = self.oom_kills.iter().find(|kill| kill.boot >= at.boot);
            let before = before.filter(|_| n == 0).map(|kill| {
                format!(", {} before the kernel's OOM kill", time(kill.boot.since(at.boot)))
            });
            let (target, before) = (harmless(target), before.unwrap_or_default());
            let at = clock(at.wall);
            writeln!(out, "  {name:<10} {at} {step} {target} because of {because}{before}")?;
        }
        if more > 0 {
            writeln!(out, "  {:<10} and {more} more", "")?;
        }
        Ok(())
    }

    /// What cannot be known.
    fn limit(&self) -> Option<String> {
        let diverged = clock(self.diverged?.wall);
        Some(format!(
            "From {diverged} on the steps differ, and the node would have gone on differently. What \
             follows is what each configuration decides about the node as it was recorded, without \
             the effect that its own steps would have had."
        ))
    }

    fn bar(&self, spans: &[Span]) -> String {
        let whole = self.to.boot.since(self.from.boot).0.max(1);
        let edge = |column: u64| u128::from(whole) * u128::from(column) / u128::from(COLUMNS);
        let is_on = |column: u64| {
            spans.iter().any(|span| {
                let from = u128::from(span.from.boot.since(self.from.boot).0);
                let to = span.to.unwrap_or(self.to).boot.since(self.from.boot);
                // A short span is no empty lane.
                from < edge(column + 1).max(1) && u128::from(to.0) >= edge(column)
            })
        };
        (0..COLUMNS).map(|column| if is_on(column) { '#' } else { '.' }).collect()
    }

    fn told(&self, spans: &[Span]) -> String {
        let Some(first) = spans.first() else { return "never".into() };
        let lasted = spans.iter().map(|span| span.to.unwrap_or(self.to).boot.since(span.from.boot));
        let whole = time(lasted.fold(Nanos(0), Nanos::plus));
        format!("{whole} from {}", clock(first.from.wall))
    }
}

/// The conditions that are True, and the thresholds that are due.
fn held(decision: &Decision) -> impl Iterator<Item = String> {
    let assessment = &decision.assessment;
    let conditions = assessment.conditions.iter().filter(|one| one.status == Status::True);
    let conditions = conditions.map(|one| one.kind.clone());
    let pressure = assessment.node_pressure.iter().map(|one| one.name().to_owned());
    let due = assessment.met.iter().filter(|met| met.is_due);
    conditions.chain(pressure).chain(due.map(|met| met.threshold.name()))
}

fn turn(spans: &mut Vec<Span>, is_on: bool, at: Moment) {
    match (spans.last_mut().filter(|span| span.to.is_none()), is_on) {
        (None, true) => spans.push(Span { from: at, to: None }),
        (Some(open), false) => open.to = Some(at),
        _ => {}
    }
}

fn step(action: &Action, at: Moment) -> Taken {
    let (step, target) = (word(&action.step), action.target.full_name());
    Taken { at, step, target, because: action.reason.threshold.name() }
}

/// How many there was no room for.
fn keep(kept: &mut Vec<Taken>, new: Vec<Taken>) -> u64 {
    let (room, n) = (TOLD.saturating_sub(kept.len()), new.len());
    kept.extend(new.into_iter().take(room));
    n.saturating_sub(room) as u64
}

fn gained(then: Option<Moment>, otherwise: Option<Moment>) -> Option<i64> {
    let (then, otherwise) = (then?.boot.0, otherwise?.boot.0);
    i64::try_from(i128::from(then) - i128::from(otherwise)).ok()
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
    use isobar_core::model::condition::{Condition, ConditionName, Measure, Phase};
    use isobar_core::model::units::Percent;

    fn at(second: u64) -> Moment {
        let boot = Nanos(second * Nanos::SECOND.0);
        Moment { boot, wall: Nanos(1_790_000_000_000_000_000 + boot.0) }
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
        let mut decision = Decision { at: at(second), ..Decision::default() };
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
            let lane = &mut all.lanes[0];
            let first = |spans: &[Span]| spans.first().map(|span| span.from);
            lane.gained = gained(first(&lane.held.then), first(&lane.held.otherwise));
            let seconds = lane.gained.map(|nanos| nanos / 1_000_000_000);
            assert_eq!(seconds, want, "{then:?} {otherwise:?}");
            all.write(&mut told).unwrap();
            told.push(b'\n');
        }
        insta::assert_snapshot!(String::from_utf8(told).unwrap());
    }
}
