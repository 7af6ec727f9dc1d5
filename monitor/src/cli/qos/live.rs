//! What runs here: each container's processes, and whether they have the score that they should.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;

use anyhow::{Context as _, Result};
use isobar::agent::OpenError;
use isobar::serve::document::API_VERSION;
use isobar::source::Roots;
use isobar::source::processes::{Process, Processes};
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Gap;
use isobar_core::model::workload::Pod;
use isobar_kubelet::expected::{self, Pods, Scores, Whose};
use isobar_kubelet::qos;
use serde::Serialize;

use super::{Args, full_name};
use crate::cli::output::{Plain, pretty};
use crate::cli::table::{Set, Table};
use crate::cli::terminal::{self, harmless};

/// The containers of this node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// What exact scores are shares of; none where no pods are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_memory: Option<Quantity>,
    /// Processes whose score is none of those expected.
    n_drifted: usize,
    containers: Vec<Running<'a>>,
    /// What could not be read.
    gaps: Vec<Gap>,
}

/// A container, or a sandbox, with something in it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Running<'a> {
    pod_uid: String,
    /// The runtime's.
    id: String,
    /// As the cgroup's path tells it.
    qos_class: QosClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    /// `None` for a sandbox, and where the pod is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    /// Any of these is right.
    expected: Vec<Scores>,
    processes: Vec<Scored>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Scored {
    pid: u32,
    name: String,
    oom_score_adj: i32,
    drifted: bool,
}

pub(super) fn write(out: &mut impl Write, args: &Args, known: &[Pod]) -> Result<()> {
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
    let running = |(place, processes)| Running::of(place, processes, &pods, capacity);
    let containers: Vec<_> = inside.into_iter().filter_map(running).collect();
    let report = Report {
        api_version: API_VERSION,
        kind: "NodeQosReport",
        node_memory: capacity.map(|capacity| Quantity::bytes(capacity.get())),
        n_drifted: containers.iter().map(|container| container.drifted().count()).sum(),
        containers,
        gaps,
    };
    match args.output {
        Plain::Json => pretty(out, &report),
        Plain::Table => table(out, &report),
    }
}

impl<'a> Running<'a> {
    /// `None` if `place` is no container.
    fn of(
        place: Place,
        mut processes: Vec<Process>,
        pods: &Pods<'a>,
        capacity: Option<NonZeroU64>,
    ) -> Option<Self> {
        let Place::Container { pod: uid, class, id, .. } = place else { return None };
        let pod = pods.of(&uid);
        if let Some(pod) = pod.filter(|pod| qos::class(pod) != class) {
            let (name, says) = (full_name(pod), qos::class(pod));
            let text = format!("{name} runs as {class:?}, and is {says:?} by the file given");
            eprintln!("{}", harmless(&text));
        }
        let expected = match (pod, capacity) {
            (Some(pod), Some(capacity)) => expected::of_container(pod, &id, capacity),
            _ => expected::of_class(class),
        };
        processes.sort_by_key(|process| process.pid);
        let scored = processes.into_iter().map(|process| Scored {
            drifted: !expected.iter().any(|scores| scores.has(process.oom_score_adj)),
            pid: process.pid,
            name: process.name,
            oom_score_adj: process.oom_score_adj,
        });
        let container = pod.and_then(|pod| expected::container(pod, &id));
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

    /// What it is, as far as can be told.
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

    /// Without what only the sandbox may have, unless this is it.
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

fn table(out: &mut impl Write, report: &Report<'_>) -> Result<()> {
    /// More are counted.
    const TOLD: usize = 3;
    let columns = [
        ("POD", Set::Name),
        ("CONTAINER", Set::Name),
        ("QOS", Set::Left),
        ("EXPECTED", Set::Left),
        ("PROCESSES", Set::Right),
        ("DRIFT", Set::Left),
    ];
    let mut table = Table::new(columns);
    for running in &report.containers {
        let pod = match (running.namespace, running.pod) {
            (Some(namespace), Some(name)) if !namespace.is_empty() => format!("{namespace}/{name}"),
            (_, Some(name)) => name.to_owned(),
            _ => running.pod_uid.clone(),
        };
        let n_drifted = running.drifted().count();
        let mut drift: Vec<_> = running
            .drifted()
            .take(TOLD)
            .map(|p| format!("{} ({}) has {}", p.pid, p.name, p.oom_score_adj))
            .collect();
        if n_drifted > TOLD {
            drift.push(format!("{} more", n_drifted - TOLD));
        }
        table.row([
            pod,
            running.name().to_owned(),
            format!("{:?}", running.qos_class),
            running.right(),
            running.processes.len().to_string(),
            if drift.is_empty() { "-".into() } else { drift.join(", ") },
        ]);
    }
    table.write(out, terminal::width()).context("cannot print")?;
    if report.containers.is_empty() {
        eprintln!("no container runs here: no cgroup below kubepods has a process in it");
    }
    for Gap { object, detail, .. } in &report.gaps {
        eprintln!("{}", harmless(&format!("not read: {object}: {detail}")));
    }
    Ok(())
}
