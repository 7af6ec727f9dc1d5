//! What the ticks of an incident say over time.
//! In: a replay of them. Out: charts, decisions, and who used and waited most.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use anyhow::Result;
use isobar::record::incident::{Incident, Score, is_within};
use isobar::record::replay::{Replay, Replayed, as_recorded};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::condition::{Condition, Resource, ScopeName, Status};
use isobar_core::model::decision::{Action, Decision, Hold};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Snapshot, working_set};
use isobar_core::model::stall::Coverage;
use isobar_core::model::threshold::{Amount, Signal};
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::policy::engine::Engine;
use isobar_core::view::pods::{name_scopes, name_spared};
use isobar_core::view::waiting::{Level, short_name, waiting_most};

use super::figure::{Axis, Chart, Keep, Line, Unit, growth, put};

/// Pods and services that a chart shows.
const SHOWN: usize = 5;
/// Pods and services that are looked at, those that come first. An agent samples half as many cgroups
/// at a time; a file may tell of any number.
const UNITS: usize = 4_096;
/// Decisions that are told in full.
const TOLD: usize = 24;

/// All that a page shows of the ticks.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) axis: Axis,
    pub(super) facts: NodeFacts,
    /// Ticks that could be read.
    pub(super) n_ticks: u64,
    pub(super) charts: Vec<Chart>,
    /// The resources that a condition was True of, or whose figure came to its threshold.
    pub(super) short: BTreeSet<Resource>,
    /// Who grew most, and by how much.
    pub(super) grown: Vec<(String, Bytes)>,
    /// Those in which something was done, or a new reason to do nothing was given.
    pub(super) decisions: Vec<Decision>,
    /// What was measured in any tick.
    pub(super) covers: Coverage,
}

impl Story {
    /// True if the record would tell who waited for what was short; of disks it never does.
    pub(super) fn has_measured_waits(&self) -> bool {
        let tells = |resource: &Resource| match resource {
            Resource::Cpu => self.covers.waits,
            Resource::Memory => self.covers.memory,
            Resource::Disk => false,
        };
        // What is not measured is not known to be short.
        match self.short.is_empty() {
            true => [Resource::Cpu, Resource::Memory].iter().all(tells),
            false => self.short.iter().all(tells),
        }
    }

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
}

#[derive(Debug)]
struct Collector {
    axis: Axis,
    n_ticks: u64,
    covers: Coverage,
    /// By resource: what was measured, its threshold, the lines, and where a condition was True.
    conditions: BTreeMap<Resource, Chart>,
    left: Chart,
    units: BTreeMap<CgroupId, Readings>,
    /// When the incident begins, and whether it has.
    begin: Moment,
    has_begun: bool,
    decisions: Vec<Decision>,
    /// Reasons to do nothing that were told since the last step.
    held: Vec<Discriminant<Hold>>,
}

/// Reads the ticks of `incident`.
pub(super) fn story(mut replay: Replay, incident: &Incident) -> Result<Story> {
    let axis = Axis::of(incident);
    let mut all = Collector::new(axis, incident.begin);
    while let Some(replayed) = replay.next().transpose()? {
        let mut step = match replayed {
            Replayed::Tick(judged) => as_recorded(&judged.recorded, judged.step),
            Replayed::Notice(text) => {
                tracing::warn!("{text}");
                continue;
            }
        };
        name_scopes(&mut step.snapshot);
        name_spared(&mut step.decision, &step.snapshot);
        let settings = replay.engine().map(Engine::settings);
        all.tick(&step.snapshot, &step.decision, settings);
        all.decided(step.decision);
    }
    let facts = replay.facts().cloned().unwrap_or_default();
    Ok(all.story(facts, &incident.kills))
}

impl Collector {
    fn new(axis: Axis, begin: Moment) -> Self {
        let left = Chart {
            title: "Memory available",
            note:
                "memory.available and allocatableMemory.available, as eviction thresholds have them"
                    .into(),
            unit: Unit::Bytes,
            lines: Vec::new(),
            held: vec![false; axis.n],
        };
        let (n_ticks, conditions, units, decisions, held) = Default::default();
        let (has_begun, covers) = Default::default();
        Self { axis, n_ticks, covers, conditions, left, units, begin, has_begun, decisions, held }
    }

    fn tick(&mut self, snapshot: &Snapshot, decision: &Decision, settings: Option<&Settings>) {
        self.n_ticks += 1;
        self.covers.waits |= snapshot.covers.waits;
        self.covers.memory |= snapshot.covers.memory;
        let slot = self.axis.slot(decision.at);
        for condition in &decision.assessment.conditions {
            self.condition(condition, slot);
        }
        for observed in &decision.assessment.observations {
            let scope = match observed.signal {
                Signal::MemoryAvailable => ScopeName::System,
                Signal::AllocatableMemoryAvailable => ScopeName::Kubepods,
                _ => continue,
            };
            let line = self.left.line(scope, self.axis.n);
            line.threshold = line.threshold.or_else(|| least(settings?, observed.signal));
            put(&mut line.points, slot, Some(observed.available), Keep::Lowest);
        }
        for (id, scope) in waiting_most(snapshot, Level::Units, usize::MAX) {
            if self.units.len() >= UNITS && !self.units.contains_key(&id) {
                continue;
            }
            let n = self.axis.n;
            let unit = self.units.entry(id).or_insert_with(|| Readings {
                memory: vec![None; n],
                cpu: vec![None; n],
                ..Readings::default()
            });
            if unit.name.is_empty() || scope.name.is_some() {
                unit.name = short_name(scope);
            }
            let memory = scope.files.as_deref().and_then(working_set).map(|bytes| bytes.0);
            put(&mut unit.memory, slot, memory, Keep::Highest);
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

    /// What was decided before the incident is of an earlier one.
    fn decided(&mut self, decision: Decision) {
        self.has_begun |= is_within(self.begin, decision.at);
        if !self.has_begun {
            return;
        }
        let has_acted = !decision.relief.actions.is_empty();
        if has_acted {
            self.held.clear();
        }
        let held = decision.relief.held.as_ref().map(discriminant);
        let new = held.filter(|held| !self.held.contains(held));
        self.held.extend(new);
        if (new.is_some() || has_acted) && self.decisions.len() < TOLD {
            self.decisions.push(decision);
        }
    }

    fn story(self, facts: NodeFacts, kills: &[Score]) -> Story {
        let Self { axis, n_ticks, covers, conditions, left, units, decisions, .. } = self;
        let units: Vec<_> = units.into_values().collect();
        // What is started again takes what it had: that did not cause the shortage.
        let is_end = |action: &Action| action.is_enforced && action.step.is_final();
        let acted = decisions.iter().filter(|one| one.relief.actions.iter().any(is_end));
        let kills = kills.iter().filter(|kill| kill.limit.is_none()).map(|kill| kill.at);
        let ends = acted.map(|one| one.at).chain(kills);
        let until = ends.map(|at| axis.slot(at)).min().unwrap_or(axis.n - 1);
        let growth = |points: &[Option<u64>]| growth(points.get(..=until).unwrap_or(points));
        let (memory, cpu) = (
            most(&units, |unit| (&unit.memory, growth(&unit.memory))),
            most(&units, |unit| (&unit.cpu, unit.cpu.iter().flatten().copied().max())),
        );
        let grown = memory
            .iter()
            .filter_map(|line| Some((line.name.clone(), Bytes(growth(&line.points)?))));
        let grown = grown.collect();
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
        Story { axis, facts, n_ticks, charts, short, grown, decisions, covers }
    }
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
    all.sort_unstable_by(|a, b| (b.0, &a.1.name).cmp(&(a.0, &b.1.name)));
    let line = |(_, unit, points): &(u64, &Readings, &Vec<_>)| Line {
        name: unit.name.clone(),
        points: (*points).clone(),
        threshold: None,
    };
    all.iter().take(SHOWN).map(line).collect()
}

/// The hard threshold of a signal.
fn least(settings: &Settings, signal: Signal) -> Option<u64> {
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
    fn decided_tells_nothing_of_what_leads_to_the_incident() {
        let at = |boot, wall| Moment { boot: Nanos(boot), wall: Nanos(wall) };
        let incident = Incident { begin: at(120, 1_120), ..Incident::default() };
        #[rustfmt::skip]
        let table = [
            // the ticks in which isobar held back, those of them that the page tells
            (vec![at(0, 1_000), at(119, 1_119)],                  vec![]),
            (vec![at(0, 1_000), at(120, 1_120)],                  vec![at(120, 1_120)]),
            (vec![at(120, 1_120), at(121, 500)],                  vec![at(120, 1_120)]), // a clock that was set back; told once
            (vec![at(120, 1_000), at(121, 1_121)],                vec![at(121, 1_121)]),
        ];
        for (ticks, want) in table {
            let mut all = Collector::new(Axis::of(&incident), incident.begin);
            for at in &ticks {
                let mut decision = Decision { at: *at, ..Decision::default() };
                decision.relief.held = Some(Hold::CoolingDown { until: Nanos(0) });
                all.decided(decision);
            }
            let told: Vec<_> = all.decisions.iter().map(|one| one.at).collect();
            assert_eq!(told, want, "{ticks:?}");
        }
    }

    #[test]
    fn grown_is_what_grew_before_the_first_end() {
        let at = |second| Moment { boot: Nanos(second * Nanos::SECOND.0), ..Moment::default() };
        let incident = Incident { to: at(5), ..Incident::default() };
        let readings = |name: &str, memory: [u64; 6]| Readings {
            name: name.into(),
            memory: memory.map(Some).to_vec(),
            cpu: Vec::new(),
        };
        #[rustfmt::skip]
        let table = [
            // when the kernel killed, who grew most by then
            (None,    "victim"), // it was started again, and took what it had
            (Some(2), "leak"),
        ];
        for (killed, want) in table {
            let mut all = Collector::new(Axis::of(&incident), incident.begin);
            let units =
                [readings("leak", [1, 2, 3, 4, 4, 4]), readings("victim", [9, 9, 9, 0, 5, 9])];
            all.units = (1..).map(CgroupId).zip(units).collect();
            let kill = |second| Score { at: at(second), ..Score::default() };
            let kills = killed.map(kill);
            let story = all.story(NodeFacts::default(), kills.as_slice());
            assert_eq!(story.grown[0].0, want, "{killed:?}");
        }
    }
}
