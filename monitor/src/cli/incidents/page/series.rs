//! What the ticks of an incident say over time, in slots of at least a second: a page stays small
//! however long the incident lasted and however often it was sampled.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use isobar::record::incident::Incident;
use isobar::record::replay::Replay;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::condition::{Condition, Resource, ScopeName, Status};
use isobar_core::model::decision::{Decision, Hold};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Snapshot, working_set};
use isobar_core::model::threshold::{Amount, Signal};
use isobar_core::model::units::{Bytes, Moment, Nanos};
use isobar_core::policy::engine::Engine;
use isobar_core::view::pods::name_scopes;
use isobar_core::view::waiting::{Level, short_name, waiting_most};

/// At most so many points a line has.
const SLOTS: u64 = 300;
/// Pods and services that a chart shows.
const SHOWN: usize = 5;
/// Decisions that are told in full.
const TOLD: usize = 24;

/// Which of several readings in one slot is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Highest,
    Lowest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Hundredths of a percent.
    Percent,
    Bytes,
    MilliCpu,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// One for each slot; `None` where nothing was measured.
    pub(super) points: Vec<Option<u64>>,
    /// What it is compared with.
    pub(super) threshold: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) unit: Unit,
    pub(super) lines: Vec<Line>,
    /// Slots in which a condition was True.
    pub(super) held: Vec<bool>,
}

/// The time axis of all charts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) from: Moment,
    pub(super) slot: Nanos,
    pub(super) n: usize,
}

impl Axis {
    fn of(incident: &Incident) -> Self {
        let span = incident.to.boot.since(incident.from.boot);
        let slot = Nanos::SECOND.0 * span.0.div_ceil(SLOTS * Nanos::SECOND.0).max(1);
        let n = usize::try_from(span.0 / slot + 1).unwrap_or(1);
        Self { from: incident.from, slot: Nanos(slot), n }
    }

    pub(super) fn slot(self, at: Moment) -> usize {
        let n = at.boot.since(self.from.boot).0 / self.slot.0;
        usize::try_from(n).unwrap_or(self.n).min(self.n - 1)
    }

    /// The wall clock where a slot begins.
    pub(super) fn wall(self, slot: usize) -> Nanos {
        self.from.wall.plus(Nanos(self.slot.0 * slot as u64))
    }
}

/// All that a page shows of the ticks.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) axis: Axis,
    pub(super) facts: NodeFacts,
    pub(super) charts: Vec<Chart>,
    /// The resources that a condition was True of, or whose figure came to its threshold.
    short: BTreeSet<Resource>,
    /// Who grew most, and by how much.
    pub(super) grown: Vec<(String, Bytes)>,
    /// Who waited longest for memory, summed over ticks.
    pub(super) starved: Vec<(String, Nanos)>,
    /// Those in which something was done, or a new reason to do nothing was given.
    pub(super) decisions: Vec<Decision>,
}

impl Story {
    /// True if work had to wait for it.
    pub(super) fn is_short(&self, resource: Resource) -> bool {
        self.short.contains(&resource)
    }
}

/// Readings of one pod or service.
#[derive(Debug, Default)]
struct Readings {
    name: String,
    memory: Vec<Option<u64>>,
    cpu: Vec<Option<u64>>,
    starved: Nanos,
}

#[derive(Debug)]
struct Collector {
    axis: Axis,
    /// By resource: what was measured, its threshold, the lines, and where a condition was True.
    conditions: BTreeMap<Resource, Chart>,
    left: Chart,
    units: BTreeMap<CgroupId, Readings>,
    decisions: Vec<Decision>,
    held: Option<std::mem::Discriminant<Hold>>,
}

/// Reads the ticks of `incident`.
pub(super) fn story(mut replay: Replay, incident: &Incident) -> Result<Story> {
    let axis = Axis::of(incident);
    let mut all = Collector::new(axis);
    while let Some(mut step) = replay.step_before(Nanos(u64::MAX))? {
        name_scopes(&mut step.snapshot);
        let settings = replay.engine().map(Engine::settings);
        all.tick(&step.snapshot, &step.decision, settings);
        all.decided(step.decision);
    }
    let facts = replay.facts().cloned().unwrap_or_default();
    Ok(all.story(facts))
}

impl Collector {
    fn new(axis: Axis) -> Self {
        let left = Chart {
            title: "Memory left",
            note: "what could still be had before the limit, page cache included".into(),
            unit: Unit::Bytes,
            lines: Vec::new(),
            held: vec![false; axis.n],
        };
        let (conditions, units, decisions, held) = Default::default();
        Self { axis, conditions, left, units, decisions, held }
    }

    fn tick(&mut self, snapshot: &Snapshot, decision: &Decision, settings: Option<&Settings>) {
        let slot = self.axis.slot(decision.at);
        for condition in &decision.assessment.conditions {
            self.condition(condition, slot);
        }
        for outlook in &decision.assessment.outlooks {
            let left = outlook.left.map(|left| left.0);
            let line = self.left.line(outlook.scope, self.axis.n);
            line.threshold = line.threshold.or_else(|| least_memory(settings?, outlook.scope));
            put(&mut line.points, slot, left, Keep::Lowest);
        }
        for (id, scope) in waiting_most(snapshot, Level::Units, usize::MAX) {
            let n = self.axis.n;
            let unit = self.units.entry(id).or_insert_with(|| Readings {
                memory: vec![None; n],
                cpu: vec![None; n],
                ..Readings::default()
            });
            if unit.name.is_empty() || scope.name.is_some() {
                unit.name = short_name(scope);
            }
            let memory = scope.files.as_ref().and_then(working_set).map(|bytes| bytes.0);
            put(&mut unit.memory, slot, memory, Keep::Highest);
            let starved = scope.memory.as_ref().map(|memory| memory.any.now);
            unit.starved = unit.starved.plus(starved.unwrap_or_default());
            put(&mut unit.cpu, slot, scope.cpu_usage.map(|cpu| cpu.0), Keep::Highest);
        }
    }

    fn condition(&mut self, condition: &Condition, slot: usize) {
        let (resource, n) = (condition.name.resource, self.axis.n);
        let figure = condition.measure.figure(resource);
        let chart = self.conditions.entry(resource).or_insert_with(|| Chart {
            title: match resource {
                Resource::Cpu => "CPU pressure",
                Resource::Memory => "Memory pressure",
                Resource::Disk => "IO pressure",
            },
            note: format!("{figure}: share of time in which work waited, over ten seconds"),
            unit: Unit::Percent,
            lines: Vec::new(),
            held: vec![false; n],
        });
        chart.held[slot] |= condition.status == Status::True;
        let value = condition.avg10.map(|share| share.0.into());
        let line = chart.line(condition.name.scope, n);
        line.threshold = Some(condition.threshold.0.into());
        put(&mut line.points, slot, value, Keep::Highest);
    }

    fn decided(&mut self, decision: Decision) {
        let held = decision.relief.held.as_ref().map(std::mem::discriminant);
        let is_new = held.is_some() && held != self.held;
        self.held = held;
        if (is_new || !decision.relief.actions.is_empty()) && self.decisions.len() < TOLD {
            self.decisions.push(decision);
        }
    }

    fn story(self, facts: NodeFacts) -> Story {
        let Self { axis, conditions, left, units, decisions, .. } = self;
        let units: Vec<_> = units.into_values().collect();
        let (memory, cpu) = (
            most(&units, |unit| (&unit.memory, growth(&unit.memory))),
            most(&units, |unit| (&unit.cpu, unit.cpu.iter().flatten().copied().max())),
        );
        let grown = memory
            .iter()
            .filter_map(|line| Some((line.name.clone(), Bytes(growth(&line.points)?))));
        let grown = grown.collect();
        let mut starved: Vec<_> =
            units.iter().map(|unit| (unit.name.clone(), unit.starved)).collect();
        starved.retain(|(_, time)| *time > Nanos(0));
        starved.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        starved.truncate(SHOWN);
        let of_units = |title, note: &str, unit, lines| Chart {
            title,
            note: note.into(),
            unit,
            lines,
            held: vec![false; axis.n],
        };
        let short = conditions.iter().filter(|(_, chart)| chart.is_high());
        let short = short.map(|(resource, _)| *resource).collect();
        let mut charts: Vec<_> = conditions.into_values().chain([left]).collect();
        charts.iter_mut().for_each(|chart| chart.lines.retain(Line::is_measured));
        charts.push(of_units(
            "Memory in use",
            "working sets of the pods and services that grew most",
            Unit::Bytes,
            memory,
        ));
        charts.push(of_units(
            "CPU in use",
            "the pods and services that used most at once, in CPUs",
            Unit::MilliCpu,
            cpu,
        ));
        Story { axis, facts, charts, short, grown, starved, decisions }
    }
}

impl Chart {
    fn line(&mut self, scope: ScopeName, n: usize) -> &mut Line {
        let name = match scope {
            ScopeName::System => "the node",
            ScopeName::Kubepods => "all pods",
        };
        let known = self.lines.iter().position(|line| line.name == name);
        let place = known.unwrap_or_else(|| {
            self.lines.push(Line { name: name.into(), points: vec![None; n], threshold: None });
            self.lines.len() - 1
        });
        &mut self.lines[place]
    }

    /// True if there is anything to draw.
    pub(super) fn is_measured(&self) -> bool {
        self.lines.iter().any(Line::is_measured)
    }

    /// True if a condition was True, or a figure came to its threshold.
    fn is_high(&self) -> bool {
        let is_high = |line: &Line| {
            let points = line.points.iter().flatten();
            line.threshold.is_some_and(|threshold| points.max() >= Some(&threshold))
        };
        self.held.contains(&true) || self.lines.iter().any(is_high)
    }

    /// True if nothing in it came near half of its threshold.
    pub(super) fn is_calm(&self) -> bool {
        let is_low = |line: &Line| match (line.points.iter().flatten().max(), line.threshold) {
            (Some(highest), Some(threshold)) => *highest < threshold / 2,
            (highest, _) => highest.is_none(),
        };
        self.unit == Unit::Percent && !self.held.contains(&true) && self.lines.iter().all(is_low)
    }
}

impl Line {
    pub(super) fn is_measured(&self) -> bool {
        self.points.iter().any(Option::is_some)
    }
}

fn put(points: &mut [Option<u64>], slot: usize, value: Option<u64>, keep: Keep) {
    let kept = points[slot];
    points[slot] = match (kept, value, keep) {
        (Some(kept), Some(new), Keep::Highest) => Some(kept.max(new)),
        (Some(kept), Some(new), Keep::Lowest) => Some(kept.min(new)),
        (kept, new, _) => new.or(kept),
    };
}

/// How far it rose above where it had been before.
fn growth(points: &[Option<u64>]) -> Option<u64> {
    let (mut lowest, mut most) = (u64::MAX, None);
    for value in points.iter().flatten() {
        lowest = lowest.min(*value);
        most = most.max(Some(value - lowest));
    }
    most
}

fn most<'a>(
    units: &'a [Readings],
    of: impl Fn(&'a Readings) -> (&'a Vec<Option<u64>>, Option<u64>),
) -> Vec<Line> {
    let mut all: Vec<_> = units
        .iter()
        .filter_map(|unit| {
            let (points, weight) = of(unit);
            Some((weight.filter(|weight| *weight > 0)?, unit, points))
        })
        .collect();
    all.sort_by(|a, b| (b.0, &a.1.name).cmp(&(a.0, &b.1.name)));
    let line = |(_, unit, points): &(u64, &Readings, &Vec<_>)| Line {
        name: unit.name.clone(),
        points: (*points).clone(),
        threshold: None,
    };
    all.iter().take(SHOWN).map(line).collect()
}

/// The hard threshold for memory of the node, or of all pods.
fn least_memory(settings: &Settings, scope: ScopeName) -> Option<u64> {
    let signal = match scope {
        ScopeName::System => Signal::MemoryAvailable,
        ScopeName::Kubepods => Signal::AllocatableMemoryAvailable,
    };
    let thresholds = settings.eviction.thresholds.iter();
    let mut hard = thresholds.filter(|one| one.signal == signal && one.grace == Nanos(0));
    match hard.next()?.value {
        Amount::Quantity(quantity) => Some(quantity.to_u64()),
        Amount::Percentage(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_from_the_lowest_before() {
        #[rustfmt::skip]
        let table: [(&[Option<u64>], Option<u64>); 5] = [
            // points, growth
            (&[Some(5), Some(9)],                   Some(4)),
            (&[Some(9), Some(5)],                   Some(0)),
            (&[Some(9), Some(2), None, Some(6)],    Some(4)),
            (&[Some(2), Some(9), Some(1), Some(3)], Some(7)),
            (&[None],                               None),
        ];
        for (points, want) in table {
            assert_eq!(growth(points), want, "{points:?}");
        }
    }

    #[test]
    fn axis_has_at_most_so_many_slots() {
        let at =
            |seconds: u64| Moment { boot: Nanos(seconds * Nanos::SECOND.0), ..Moment::default() };
        #[rustfmt::skip]
        let table = [
            // from, to, slots, slot of the end
            (100, 100,   1,   0),
            (100, 310,   211, 210),
            (100, 820,   241, 240),
            (0,   7_200, 301, 300),
        ];
        for (from, to, n, last) in table {
            let axis = Axis::of(&Incident { from: at(from), to: at(to), ..Incident::default() });
            assert_eq!((axis.n, axis.slot(at(to))), (n, last), "{from} to {to}");
            assert_eq!(axis.slot(at(to + 60)), n - 1, "past the end");
        }
    }
}
