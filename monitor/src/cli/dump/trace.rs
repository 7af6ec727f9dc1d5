//! A trace in the JSON of Chrome, which ui.perfetto.dev opens: a process for each cgroup with
//! counters of what it waits for, conditions as slices of the node's process, decisions and OOM
//! kills as instants. Slices named `no data` say where a counter stands at 0 because nothing is known.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::Result;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::{Moment, PAUSE};
use isobar_core::model::snapshot::{Scope, Waited, working_set};
use isobar_core::model::stall::MemoryCause;
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::relief;
use isobar_core::view::View;
use isobar_core::view::waiting::name;
use serde_json::{Map, Value, json};

use super::Ticks;

/// What a counter shows, each with its name; `None` was not measured.
type Values = Vec<(&'static str, Option<u64>)>;

/// With more processes than that, those whose cgroups are gone are forgotten.
const KNOWN: usize = 4_096;
/// The counter of waits for memory, by cause.
const MEMORY: &str = "waits for memory (ms)";
/// The process of the node: no cgroup has this id.
const NODE: CgroupId = CgroupId(0);

pub(super) fn write(out: &mut impl Write, ticks: &mut Ticks) -> Result<()> {
    let mut trace = Trace::new(out);
    while let Some(view) = ticks.view()? {
        trace.tick(&view)?;
    }
    trace.end()
}

struct Trace<'a, W: Write> {
    out: &'a mut W,
    /// Events so far.
    n: u64,
    /// The numbers and names of processes, from 1: 0 is the idle task in such a trace, and cgroup
    /// ids may be too large.
    named: BTreeMap<CgroupId, (usize, String)>,
    /// The last of these numbers.
    last: usize,
    /// Counters of which not everything is 0, with what they show.
    counted: BTreeMap<(CgroupId, &'static str), Vec<&'static str>>,
    /// Values that were shown, and whether a slice says now that they are not known.
    shown: BTreeMap<(CgroupId, &'static str, &'static str), bool>,
    /// Conditions that are True.
    held: BTreeSet<String>,
    /// The last reason to do nothing.
    said: Option<String>,
    /// When the last tick was.
    at: Moment,
}

impl<'a, W: Write> Trace<'a, W> {
    fn new(out: &'a mut W) -> Self {
        Self {
            out,
            n: 0,
            named: BTreeMap::new(),
            last: 0,
            counted: BTreeMap::new(),
            shown: BTreeMap::new(),
            held: BTreeSet::new(),
            said: None,
            at: Moment::default(),
        }
    }

    fn tick(&mut self, view: &View) -> Result<()> {
        let (at, snapshot) = (view.snapshot.at.wall, &view.snapshot);
        let before = std::mem::replace(&mut self.at, snapshot.at);
        let now = snapshot.at.boot;
        if now < before.boot || now.since(before.boot) > PAUSE {
            self.hold(BTreeSet::new(), before.wall)?;
            // The last tick is shown for a second, as the others are.
            let from = before.wall.plus(Nanos::SECOND);
            self.zero(|_| true, from)?;
            if before != Moment::default() && from < at {
                self.unknown("b", from, NODE, "no data", "recording")?;
                self.unknown("e", at, NODE, "no data", "recording")?;
            }
        }
        self.zero(|id| id != NODE && !snapshot.scopes.contains_key(&id), at)?;
        if self.named.len() > KNOWN {
            let is_there = |id: &CgroupId| *id == NODE || snapshot.scopes.contains_key(id);
            self.named.retain(|id, _| is_there(id));
        }
        self.named(NODE, &format!("node {}", view.facts.name), at)?;
        self.decision(&view.decision, at)?;
        let kills = view.recent_oom_kills.iter();
        for record in kills.filter(|record| snapshot.oom_kills.contains(&record.kill)) {
            self.instant(record.wall, "OOM kill", &record.sentence())?;
        }
        for (id, scope) in std::iter::once((&NODE, &snapshot.whole)).chain(&snapshot.scopes) {
            self.scope(*id, scope, at)?;
        }
        Ok(())
    }

    fn decision(&mut self, decision: &Decision, at: Nanos) -> Result<()> {
        self.hold(decision.assessment.holding().map(str::to_owned).collect(), at)?;
        for action in &decision.relief.actions {
            let text = relief::action(action, decision.at.boot);
            self.instant(at, action.step.name(), &text)?;
        }
        for effect in &decision.relief.effects {
            self.instant(at, "effect", &relief::effect(effect))?;
        }
        let hold = decision.relief.held.as_ref();
        let hold = hold.map(|hold| relief::no_action(hold, decision.at.boot));
        // Most reasons count down: the words before the first number tell one from another.
        let gist = hold.as_ref().map(|text| {
            text.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().to_owned()
        });
        if gist != self.said {
            if let Some(text) = &hold {
                self.instant(at, "no action", text)?;
            }
            self.said = gist;
        }
        Ok(())
    }

    /// These conditions are True from now on, and no others.
    fn hold(&mut self, now: BTreeSet<String>, at: Nanos) -> Result<()> {
        let before = std::mem::replace(&mut self.held, now.clone());
        for (phase, kinds) in [("e", before.difference(&now)), ("b", now.difference(&before))] {
            for kind in kinds {
                self.event(
                    phase,
                    at,
                    NODE,
                    kind,
                    json!({"cat": "condition", "id2": {"local": kind}}),
                )?;
            }
        }
        Ok(())
    }

    /// Ends what still holds: a slice without an end is not shown.
    fn end(mut self) -> Result<()> {
        self.hold(BTreeSet::new(), self.at.wall)?;
        self.forget(|_| true, self.at.wall)?;
        Ok(write!(self.out, "\n]}}\n")?)
    }

    /// A counter that gets no more points would show its last one until the next, or to the
    /// end of the trace.
    fn zero(&mut self, is_over: impl Fn(CgroupId) -> bool, at: Nanos) -> Result<()> {
        let over = self.counted.extract_if(.., |(id, _), _| is_over(*id));
        for ((id, counter), shown) in over.collect::<Vec<_>>() {
            let zeros: Map<_, _> = shown.iter().map(|name| ((*name).into(), 0.into())).collect();
            self.event("C", at, id, counter, json!({ "args": zeros }))?;
        }
        self.forget(is_over, at)
    }

    /// Ends the slices of values that nothing more is said of.
    fn forget(&mut self, is_over: impl Fn(CgroupId) -> bool, at: Nanos) -> Result<()> {
        let over: Vec<_> = self.shown.extract_if(.., |(id, ..), _| is_over(*id)).collect();
        over.into_iter().filter(|(_, is_unknown)| *is_unknown).try_for_each(|(key, _)| {
            let (id, counter, name) = key;
            self.unknown("e", at, id, &format!("no data: {counter}"), name)
        })
    }

    /// A counter has no gaps in this format: a slice says where its 0 is none.
    fn unknown(
        &mut self,
        phase: &str,
        at: Nanos,
        id: CgroupId,
        name: &str,
        value: &str,
    ) -> Result<()> {
        let within = json!({"local": format!("{name} {value}")});
        let more = json!({"cat": "no data", "id2": within, "args": {"value": value}});
        self.event(phase, at, id, name, more)
    }

    fn scope(&mut self, id: CgroupId, scope: &Scope, at: Nanos) -> Result<()> {
        let millis = |waited: Option<Waited>| waited.map(|waited| waited.now.0 / 1_000_000);
        let cpu = scope.cpu.as_ref();
        let memory = self.memory(id, scope);
        #[rustfmt::skip]
        let counters: [(&str, Values); 5] = [
            ("waits for a CPU (ms)", vec![
                ("others", millis(cpu.and_then(|cpu| cpu.contention))),
                ("own quota", millis(cpu.and_then(|cpu| cpu.throttled_own))),
                ("quota above", millis(cpu.and_then(|cpu| cpu.throttled_ancestor))),
            ]),
            (MEMORY, memory),
            ("waits for IO (ms)", vec![("io", millis(scope.io_wait))]),
            ("CPU (thousandths)", vec![("used", scope.cpu_usage.map(|cpu| cpu.0))]),
            ("memory (MiB)", vec![
                ("working set", scope.files.as_deref().and_then(working_set).map(|bytes| bytes.0 >> 20)),
            ]),
        ];
        for (counter, values) in counters {
            self.counter(id, scope, at, counter, &values)?;
        }
        Ok(())
    }

    /// Where waits for memory are measured, a cause that never occurred is missing: it is 0.
    fn memory(&self, id: CgroupId, scope: &Scope) -> Values {
        let value = |cause: MemoryCause| {
            let name = cause.name();
            let Some(memory) = &scope.memory else { return Some((name, None)) };
            let millis = memory.causes.get(&cause).map(|wait| wait.union.now.0 / 1_000_000);
            let was_shown = self.shown.contains_key(&(id, MEMORY, name));
            millis.or(was_shown.then_some(0)).map(|millis| (name, Some(millis)))
        };
        MemoryCause::ALL.into_iter().filter_map(value).collect()
    }

    /// Nothing is written while a counter stays 0: most cgroups wait for nothing most of the time.
    fn counter(
        &mut self,
        id: CgroupId,
        scope: &Scope,
        at: Nanos,
        counter: &'static str,
        values: &[(&'static str, Option<u64>)],
    ) -> Result<()> {
        for (name, value) in values {
            let (is_unknown, shown) = (value.is_none(), self.shown.get_mut(&(id, counter, *name)));
            if shown.is_some_and(|was| std::mem::replace(was, is_unknown) != is_unknown) {
                let phase = if is_unknown { "b" } else { "e" };
                self.unknown(phase, at, id, &format!("no data: {counter}"), name)?;
            }
        }
        let key = (id, counter);
        let before = self.counted.remove(&key);
        // What is no longer measured would show its last value.
        let shown = before.iter().flatten().map(|name| (*name, 0));
        let known = values.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let known: BTreeMap<_, _> = shown.chain(known).collect();
        match known.values().all(|value| *value == 0) {
            true if before.is_none() => return Ok(()),
            true => {}
            false => drop(self.counted.insert(key, known.keys().copied().collect())),
        }
        let measured = values.iter().filter(|(_, value)| value.is_some());
        self.shown.extend(measured.map(|(name, _)| ((id, counter, *name), false)));
        if id != NODE {
            self.named(id, &name(scope), at)?;
        }
        self.event("C", at, id, counter, json!({ "args": known }))
    }

    fn named(&mut self, id: CgroupId, called: &str, at: Nanos) -> Result<()> {
        let n = match self.named.get(&id) {
            Some((_, known)) if known == called => return Ok(()),
            Some((n, _)) => *n,
            None => {
                self.last += 1;
                self.last
            }
        };
        self.named.insert(id, (n, called.into()));
        self.event("M", at, id, "process_name", json!({"args": {"name": called}}))
    }

    fn instant(&mut self, at: Nanos, what: &str, text: &str) -> Result<()> {
        self.event("i", at, NODE, what, json!({"s": "p", "args": {"text": text}}))
    }

    fn event(
        &mut self,
        phase: &str,
        at: Nanos,
        id: CgroupId,
        name: &str,
        more: Value,
    ) -> Result<()> {
        let n = self.named.get(&id).map_or(1, |(n, _)| *n);
        let mut event = json!({"ph": phase, "ts": at.0 / 1_000, "pid": n, "tid": n, "name": name});
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        let before = if self.n == 0 { "{\"traceEvents\": [\n" } else { ",\n" };
        self.n += 1;
        write!(self.out, "{before}{event}")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
