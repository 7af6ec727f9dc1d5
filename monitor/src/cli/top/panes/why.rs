//! Why one cgroup waits: its figures and their past, who ran meanwhile, its memory and its limits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit};
use isobar_core::model::snapshot::{Blame, CpuWait, IoRate, MemoryCauseWait, Scope, Waited};
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};
use isobar_core::view::View;
use isobar_core::view::cpu_loss::Harm;
use isobar_core::view::verdict::{Resource, cause_words};
use isobar_core::view::waiting::{busiest, name};
use ratatui::text::Line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{indented, sections};
use crate::cli::terminal::{harmless, shorten};
use crate::cli::top::figures::{amount, cores, names, or_dash, percent, some, time, union};
use crate::cli::top::paint::{Tone, tone_of};
use crate::cli::top::state::State;
use crate::cli::top::trail::{RESOURCES, bars, shares};

/// Aggressors and sufferers that are named.
const NAMED: usize = 5;

pub(super) fn lines(state: &State, view: &View, id: CgroupId) -> Vec<Line<'static>> {
    let columns = usize::from(state.size.0);
    let Some(scope) = view.snapshot.scopes.get(&id) else {
        return vec![state.paint.line(Tone::Warning, "This cgroup is gone. Esc goes back.")];
    };
    let page = Page { state, view, scope, columns };
    let path = &scope.path;
    let within = |id: CgroupId, path_then: Option<&CgroupPath>| {
        let now = view.snapshot.scopes.get(&id).map(|scope| &scope.path);
        now.or(path_then).is_some_and(|other| other.is_within(path))
    };
    let suffers = |blame: &Blame| within(blame.victim, blame.victim_path.as_ref());
    let causes = |blame: &Blame| within(blame.aggressor, blame.aggressor_path.as_ref());
    let aggressors = page.shares(|blame| {
        suffers(blame).then(|| match causes(blame) {
            true => "its own tasks".into(),
            false => names(view, blame).1,
        })
    });
    let sufferers =
        page.shares(|blame| (causes(blame) && !suffers(blame)).then(|| names(view, blame).0));
    let mut parts = vec![(name(scope), page.figures(id))];
    parts.extend([
        ("Who ran while it waited for a CPU: lost, waited, share".into(), aggressors),
        ("Who waited while it ran: lost, waited, share".into(), sufferers),
        ("What it waited for memory because of".into(), page.causes()),
    ]);
    if let Some(files) = &scope.files {
        parts.push(("Memory and limits".into(), page.limits(files)));
    }
    sections(state.paint, parts)
}

struct Page<'a> {
    state: &'a State,
    view: &'a View,
    scope: &'a Scope,
    columns: usize,
}

impl Page<'_> {
    fn plain(&self, text: &str) -> Vec<Line<'static>> {
        indented(self.state.paint, Tone::Plain, text, self.columns)
    }

    /// Each resource with its share and the shares before.
    fn figures(&self, id: CgroupId) -> Vec<Line<'static>> {
        let paint = self.state.paint;
        let own = name(self.scope);
        // A name can lie. The path is shown in whole.
        let path = broken(&harmless(&self.scope.path.0), self.columns.saturating_sub(4).max(1));
        let path = path.into_iter().filter(|_| own != *self.scope.path.0);
        let mut lines: Vec<_> =
            path.map(|part| paint.line(Tone::Plain, format!("  {part}"))).collect();
        for ((i, resource), share) in RESOURCES.iter().enumerate().zip(shares(self.scope)) {
            let past = self.state.trail.cgroup(id, i);
            let bars = bars(past.into_iter(), self.columns.saturating_sub(19));
            let tone = tone_of(share);
            lines.push(Line::from(vec![
                paint.text(Tone::Plain, format!("  {resource:<7}")),
                paint.text(tone, format!("{:>6} % ", percent(share))),
                paint.text(tone, bars),
            ]));
        }
        if let Some(why) = &self.state.forgotten {
            lines.extend(
                self.plain(&format!("not known from before this screen: {}", harmless(why))),
            );
        }
        let raw = some(self.scope.pressure.cpu);
        let (cpus, contention) = (cores(self.scope.cpu_usage), union(self.scope.contention));
        lines.extend(self.plain(&format!(
            "uses {cpus} CPUs; contention {} %, raw PSI cpu {} % (avg10)",
            percent(contention),
            percent(raw)
        )));
        if let Some(cpu) = &self.scope.cpu {
            lines.extend(self.plain(&waits(cpu, self.view.snapshot.interval)));
        }
        if let Some(io) = self.scope.io.filter(|io| *io != IoRate::default()) {
            lines.extend(self.plain(&moves(io)));
        }
        for (of, what) in
            [(Resource::Memory, "takes or has most memory"), (Resource::Io, "does most IO")]
        {
            let process = busiest(Some(id), &self.view.snapshot, of);
            let told = process.map(|process| format!("of its processes, {process}, {what}"));
            lines.extend(told.iter().flat_map(|told| self.plain(&harmless(told))));
        }
        lines
    }

    /// Who has how much of the waiting that `of` names, and of what was lost by it.
    fn shares(&self, of: impl Fn(&Blame) -> Option<String>) -> Vec<Line<'static>> {
        let mut sums = BTreeMap::<String, Harm>::new();
        for blame in &self.view.snapshot.aggressions {
            if let Some(who) = of(blame) {
                let sum = sums.entry(who).or_default();
                *sum = sum.plus(Harm::of(blame));
            }
        }
        let all = sums.values().fold(Nanos(0), |sum, harm| sum.plus(harm.time));
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, harm)| Reverse(*harm));
        let n = self.columns.saturating_sub(31);
        let line = |(who, harm): &(String, Harm)| {
            let share = Percent::share(harm.time.0, all.0).to_string();
            let (lost, waited) = (time(Some(harm.loss)), time(Some(harm.time)));
            let who = shorten(&harmless(who), n);
            let text = format!("  {lost:>8} {waited:>8} {share:>6} %  {who}");
            self.state.paint.line(Tone::Plain, text)
        };
        sums.iter().take(NAMED).map(line).collect()
    }

    fn causes(&self) -> Vec<Line<'static>> {
        let Some(memory) = &self.scope.memory else { return Vec::new() };
        let mut causes: Vec<_> =
            memory.causes.iter().filter(|(_, wait)| wait.union.now.0 > 0).collect();
        causes.sort_by_key(|(_, wait)| Reverse(wait.union.now));
        let line = |(cause, wait): &(&_, &MemoryCauseWait)| {
            let (stalled, tasks) = (time(Some(wait.union.now)), time(Some(wait.time.now)));
            self.plain(&format!("{}: {stalled}, {tasks} of task time", cause_words(**cause)))
        };
        causes.iter().flat_map(line).collect()
    }

    fn limits(&self, files: &Cgroup) -> Vec<Line<'static>> {
        let (cpu, memory) = (&files.cpu, &files.memory);
        let quota = match (cpu.quota, cpu.period) {
            (Some(Limit::At(quota)), Some(Micros(period))) => format!("{quota} {period}"),
            (quota, _) => or_dash(quota.map(|quota| quota.to_string())),
        };
        let weight = or_dash(cpu.weight.map(|weight| weight.to_string()));
        let pids = or_dash(files.pids_current.map(|n| n.to_string()));
        let pids_max = or_dash(files.pids_max.map(|max| max.to_string()));
        let anon = memory.stat.map(|stat| stat.anon);
        let cache = memory.stat.map(|stat| stat.file);
        let told = [
            (
                memory.current.is_some(),
                format!(
                    "memory.current {} (anonymous {}, page cache {}), swap {}",
                    amount(memory.current),
                    amount(anon),
                    amount(cache),
                    amount(memory.swap_current)
                ),
            ),
            (
                memory.max.is_some(),
                format!(
                    "memory.max {}, high {}, low {}, min {}, swap.max {}",
                    bound(memory.max),
                    bound(memory.high),
                    bound(memory.low),
                    bound(memory.min),
                    bound(memory.swap_max)
                ),
            ),
            (cpu.quota.is_some(), format!("cpu.max {quota}, cpu.weight {weight}")),
            (files.pids_current.is_some(), format!("pids {pids} of {pids_max}")),
        ];
        let known = told.iter().filter(|(is_known, _)| *is_known);
        known.flat_map(|(_, text)| self.plain(text)).collect()
    }
}

/// In parts of at most `width` columns, wherever they end.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in text.chars() {
        let last = parts.last_mut().expect("there is always one");
        if last.width() + c.width().unwrap_or(0) > width && !last.is_empty() {
            parts.push(c.into());
        } else {
            last.push(c);
        }
    }
    parts
}

fn bound(limit: Option<Limit>) -> String {
    match limit {
        Some(Limit::At(n)) => amount(Some(Bytes(n))),
        Some(Limit::Max) => "max".into(),
        None => "-".into(),
    }
}

/// Task time on the run queue, and how much of it a quota explains.
fn waits(cpu: &CpuWait, interval: Nanos) -> String {
    let now = |waited: Option<Waited>| time(waited.map(|w| w.now));
    format!(
        "its tasks waited {} for a CPU in {}: own quota {}, a quota above {}, contention {}",
        time(Some(cpu.wait.now)),
        time(Some(interval)),
        now(cpu.throttled_own),
        now(cpu.throttled_ancestor),
        now(cpu.contention)
    )
}

/// What it reads and writes, by its `io.stat`.
fn moves(IoRate { read, written, reads, writes }: IoRate) -> String {
    format!(
        "reads {read}/s in {reads} requests, writes {written}/s in {writes} requests per second"
    )
}
