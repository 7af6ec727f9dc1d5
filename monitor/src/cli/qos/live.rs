//! The containers that run on this node, and whether their processes have the expected OOM score.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;

use anyhow::Result;
use isobar::act;
use isobar::agent::{OpenError, STATE_DIR};
use isobar::source::Roots;
use isobar::source::processes::{Process, Processes};
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Gap;
use isobar_core::model::workload::Pod;
use isobar_core::view::API_VERSION;
use isobar_kubelet::expected::{self, Pods, Scores, Whose};
use isobar_kubelet::qos;
use serde::Serialize;

use super::{Args, full_name};
use crate::cli::output::{Format, gap_text};
use crate::cli::table::Table;
use crate::cli::terminal::harmless;

/// The score of a mark.
const MARK: i32 = 1000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// The capacity that exact scores are computed from; `None` if no pods are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_memory: Option<Quantity>,
    /// Processes with a score that is not expected.
    n_drifted: usize,
    containers: Vec<Running<'a>>,
    gaps: Vec<Gap>,
}

/// A container or sandbox with at least one process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Running<'a> {
    pod_uid: String,
    /// The runtime's id.
    id: String,
    /// From the cgroup's path.
    qos_class: QosClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    /// `None` for a sandbox, and if the pod is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    /// Each of these is correct.
    expected: Vec<Scores>,
    processes: Vec<Scored>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Scored {
    pid: u32,
    name: String,
    oom_score_adj: i32,
    /// isobar has raised it, and will put it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    marked: bool,
    drifted: bool,
}

pub(super) fn write(args: &Args, known: &[Pod]) -> Result<()> {
    let roots =
        Roots { proc: args.proc.clone(), cgroup: args.cgroup_root.clone(), ..Roots::default() };
    let (found, gaps) = Processes::open(&roots)
        .map_err(OpenError::from)?
        .read(|path| matches!(Place::of(path), Place::Container { .. }));
    let mut inside: BTreeMap<Place, Vec<Process>> = BTreeMap::new();
    for members in found {
        inside.entry(Place::of(&members.path)).or_default().extend(members.processes);
    }
    let capacity = if known.is_empty() { None } else { Some(args.capacity()?) };
    let pods = Pods::new(known);
    // A ledger that cannot be read says nothing of marks.
    let marked = act::marked(&args.proc, Path::new(STATE_DIR)).unwrap_or_default();
    let marked: BTreeSet<Place> = marked.iter().map(Place::of).collect();
    let running = |(place, processes)| {
        let is_marked = marked.contains(&place);
        Running::of(place, processes, is_marked, &pods, capacity)
    };
    let containers: Vec<_> = inside.into_iter().filter_map(running).collect();
    let report = Report {
        api_version: API_VERSION,
        kind: "NodeQosReport",
        node_memory: capacity.map(|capacity| Quantity::bytes(capacity.get())),
        n_drifted: containers.iter().map(|container| container.drifted().count()).sum(),
        containers,
        gaps,
    };
    args.output.print(&report, |out| table(out, &report, args.output))
}

impl<'a> Running<'a> {
    /// `None` if `place` is not a container.
    fn of(
        place: Place,
        mut processes: Vec<Process>,
        is_marked: bool,
        pods: &Pods<'a>,
        capacity: Option<NonZeroU64>,
    ) -> Option<Self> {
        let Place::Container { pod: uid, class, id, .. } = place else { return None };
        let pod = pods.of(&uid);
        if let Some(pod) = pod.filter(|pod| qos::class(pod) != class) {
            let (name, says) = (full_name(pod), qos::class(pod));
            let text = format!("{name} runs as {class:?}, but is {says:?} by the file");
            eprintln!("{}", harmless(&text));
        }
        let expected = match (pod, capacity) {
            (Some(pod), Some(capacity)) => expected::of_container(pod, &id, capacity),
            _ => expected::of_class(class),
        };
        processes.sort_by_key(|process| process.pid);
        let scored = processes.into_iter().map(|process| {
            let is_expected = expected.iter().any(|scores| scores.has(process.oom_score_adj));
            let marked = is_marked && !is_expected && process.oom_score_adj == MARK;
            let Process { pid, name, oom_score_adj, .. } = process;
            Scored { pid, name, oom_score_adj, marked, drifted: !is_expected && !marked }
        });
        let container = pod.and_then(|pod| pod.container(&id));
        Some(Self {
            namespace: pod.map(|pod| pod.namespace.as_str()),
            pod: pod.map(|pod| pod.name.as_str()),
            container: container.map(|container| container.name.as_str()),
            processes: scored.collect(),
            pod_uid: uid,
            id,
            qos_class: class,
            expected,
        })
    }

    fn drifted(&self) -> impl Iterator<Item = &Scored> {
        self.processes.iter().filter(|process| process.drifted)
    }

    /// The container's name, `(sandbox)`, or the start of the runtime's id.
    fn name(&self) -> &str {
        let sandbox = self.expected.iter().find(|scores| scores.of == Whose::Sandbox);
        match (self.container, sandbox) {
            (Some(name), _) => name,
            (None, Some(scores)) if self.processes.iter().all(|p| scores.has(p.oom_score_adj)) => {
                "(sandbox)"
            }
            _ => &self.id[..self.id.len().min(12)],
        }
    }

    /// The expected scores; those of the sandbox only if this is the sandbox.
    fn right(&self) -> String {
        let is_sandbox = self.name() == "(sandbox)";
        let of = |scores: &&Scores| (scores.of == Whose::Sandbox) == is_sandbox;
        let words = self.expected.iter().filter(of).map(|scores| match scores.to - scores.from {
            0 => scores.from.to_string(),
            _ => format!("{} to {}", scores.from, scores.to),
        });
        words.collect::<Vec<_>>().join(" or ")
    }
}

fn table(out: &mut dyn Write, report: &Report<'_>, output: Format) -> Result<()> {
    /// Processes that are named; more are counted.
    const NAMED: usize = 3;
    let (n_named, more) = if output.is_wide() { (usize::MAX, "UID ID") } else { (NAMED, "") };
    let mut table = Table::new(&format!("POD~ CONTAINER~ QOS EXPECTED PROCESSES> DRIFT {more}"));
    for running in &report.containers {
        let pod = match (running.namespace, running.pod) {
            (Some(namespace), Some(name)) if !namespace.is_empty() => format!("{namespace}/{name}"),
            (_, Some(name)) => name.to_owned(),
            _ => running.pod_uid.clone(),
        };
        let n_drifted = running.drifted().count();
        let mut drift: Vec<_> = running
            .drifted()
            .take(n_named)
            .map(|p| format!("{} ({}) has {}", p.pid, p.name, p.oom_score_adj))
            .collect();
        if n_drifted > n_named {
            drift.push(format!("{} more", n_drifted - n_named));
        }
        let row = [
            pod,
            running.name().to_owned(),
            format!("{:?}", running.qos_class),
            running.right(),
            running.processes.len().to_string(),
            if drift.is_empty() { "-".into() } else { drift.join(", ") },
        ];
        let ids = [running.pod_uid.clone(), running.id.clone()];
        table.row(row.into_iter().chain(ids.into_iter().filter(|_| output.is_wide())));
    }
    table.write(out, output.width())?;
    if report.containers.is_empty() {
        eprintln!("no containers found: no cgroup below kubepods has a process");
    }
    for gap in &report.gaps {
        eprintln!("{}", harmless(&format!("cannot read {}", gap_text(gap))));
    }
    Ok(())
}
