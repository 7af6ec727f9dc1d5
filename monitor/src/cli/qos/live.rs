//! The containers and the daemons of Kubernetes that run on this node: whether their processes have
//! the expected OOM score, and containers the limits of their pod.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;

use anyhow::Result;
use isobar::act;
use isobar::agent::{OpenError, STATE_DIR};
use isobar::source::Roots;
use isobar::source::machine::Groups;
use isobar::source::processes::{Members, Process, Processes};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::places::{self, Places};
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Gap;
use isobar_core::model::units::Bytes;
use isobar_core::model::workload::Pod;
use isobar_core::view::Document;
use isobar_kubelet::drift::{self, Drift};
use isobar_kubelet::expected::{self, Pods, Scores, Whose};
use isobar_kubelet::qos;
use serde::Serialize;

use super::{Args, full_name};
use crate::cli::output::{Format, gap_text, say};
use crate::cli::table::Table;

/// The score of a mark.
const MARK: i32 = 1000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    /// The capacity that exact scores are computed from; `None` if no pods are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_memory: Option<Quantity>,
    /// Processes with a score that is not expected.
    n_drifted: usize,
    /// Limits that are not those of the pod.
    n_limits_drifted: usize,
    containers: Vec<Running<'a>>,
    /// The kubelet and the like, outside of pods.
    daemons: Vec<Daemon>,
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
    /// Files of its cgroup with another value than the pod's; empty if the pod is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<Drift>,
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

impl Scored {
    fn words(&self) -> String {
        format!("{} ({}) has {}", self.pid, self.name, self.oom_score_adj)
    }
}

/// A daemon that pods depend on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Daemon {
    cgroup: CgroupPath,
    expected: i32,
    process: Scored,
}

pub(super) fn write(args: &Args, known: &[Pod]) -> Result<()> {
    let roots =
        Roots { proc: args.proc.clone(), cgroup: args.cgroup_root.clone(), ..Roots::default() };
    let processes = Processes::open(&roots).map_err(OpenError::from)?;
    let cgroups = processes.cgroups();
    let kubepods = places::kubepods(&args.config.settings()?.node, &cgroups);
    let places = Places::of(&cgroups, Some(&kubepods));
    let (found, mut gaps) = processes.read(|_| true);
    let is_container = |of: &Members| matches!(places.place(&of.path), Place::Container { .. });
    let (found, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_container);
    let daemons: Vec<_> = others.into_iter().flat_map(Daemon::among).collect();
    let mut inside: BTreeMap<Place, Inside> = BTreeMap::new();
    for Members { path, processes } in found {
        let container = inside.entry(places.place(&path)).or_insert_with(|| Inside::at(&path));
        container.processes.extend(processes);
    }
    let node = Node {
        capacity: if known.is_empty() { None } else { Some(args.capacity()?) },
        pods: Pods::new(known),
        places: &places,
        // A ledger that cannot be read says nothing of marks and squeezes.
        changed: act::changed(&args.proc, Path::new(STATE_DIR)).unwrap_or_default(),
        groups: Groups::open(&args.proc, args.cgroup_root.as_deref()).map_err(OpenError::from)?,
    };
    let running = inside.into_iter().map(|(place, inside)| node.running(place, inside, &mut gaps));
    let containers: Vec<_> = running.flatten().collect();
    let report = Report {
        node_memory: node.capacity.map(|capacity| Quantity::bytes(capacity.get())),
        n_drifted: containers.iter().flat_map(Running::drifted).count()
            + daemons.iter().filter(|daemon| daemon.process.drifted).count(),
        n_limits_drifted: containers.iter().map(|container| container.limits.len()).sum(),
        containers,
        daemons,
        gaps,
    };
    let document = Document::new("NodeQosReport", &report);
    args.output.print(&document, |out| table(out, &report, args.output))
}

impl Daemon {
    fn among(Members { path, processes }: Members) -> impl Iterator<Item = Self> {
        processes.into_iter().filter_map(move |Process { pid, name, oom_score_adj, .. }| {
            let expected = expected::of_daemon(&name)?;
            let drifted = oom_score_adj != expected;
            let process = Scored { pid, name, oom_score_adj, marked: false, drifted };
            Some(Self { cgroup: path.clone(), expected, process })
        })
    }
}

/// A container's own cgroup, and the processes in it and below.
struct Inside {
    path: CgroupPath,
    processes: Vec<Process>,
}

impl Inside {
    /// Of the container in which the cgroup at `path` is.
    fn at(path: &CgroupPath) -> Self {
        let (mut above, place) = (CgroupPath::root(), Place::of(path));
        let mut names = path.segments();
        while Place::of(&above) != place {
            let Some(name) = names.next() else { break };
            above = above.child(name);
        }
        Self { path: above, processes: Vec::new() }
    }
}

/// What containers are compared with.
struct Node<'a> {
    capacity: Option<NonZeroU64>,
    pods: Pods<'a>,
    places: &'a Places<'a>,
    /// By isobar, for a while.
    changed: Vec<(CgroupPath, String)>,
    groups: Groups,
}

impl<'a> Node<'a> {
    /// `None` if `place` is not a container.
    fn running(&self, place: Place, inside: Inside, gaps: &mut Vec<Gap>) -> Option<Running<'a>> {
        let Place::Container { pod: uid, class, id, .. } = place else { return None };
        let Inside { path, mut processes } = inside;
        let pod = self.pods.of(&uid);
        if let Some(pod) = pod.filter(|pod| qos::class(pod) != class) {
            let (name, says) = (full_name(pod), qos::class(pod));
            let text = format!("{name} runs as {class:?}, but is {says:?} by the file");
            say(text);
        }
        let expected = match pod.zip(self.capacity) {
            Some((pod, capacity)) => expected::of_container(pod, &id, capacity),
            None => expected::of_class(class),
        };
        processes.sort_unstable_by_key(|process| process.pid);
        let is_marked = self.has_changed(&path, "oom_score_adj");
        let scored = processes.into_iter().map(|process| {
            let is_expected = expected.iter().any(|scores| scores.has(process.oom_score_adj))
                || expected::of_daemon(&process.name) == Some(process.oom_score_adj);
            let marked = is_marked && !is_expected && process.oom_score_adj == MARK;
            let Process { pid, name, oom_score_adj, .. } = process;
            Scored { pid, name, oom_score_adj, marked, drifted: !is_expected && !marked }
        });
        let container = pod.and_then(|pod| pod.container(&id));
        let page = Bytes(procfs::page_size());
        let limits = container.map(|container| {
            let mut drifts = drift::of_container(container, &self.groups.look(&path, gaps), page);
            drifts.retain(|drift| !self.has_changed(&path, &drift.file));
            drifts
        });
        Some(Running {
            namespace: pod.map(|pod| pod.namespace.as_str()),
            pod: pod.map(|pod| pod.name.as_str()),
            container: container.map(|container| container.name.as_str()),
            processes: scored.collect(),
            limits: limits.unwrap_or_default(),
            pod_uid: uid.as_ref().into(),
            id: id.as_ref().into(),
            qos_class: class,
            expected,
        })
    }

    fn has_changed(&self, path: &CgroupPath, file: &str) -> bool {
        let place = |path| self.places.place(path);
        self.changed.iter().any(|(at, name)| name == file && place(at) == place(path))
    }
}

impl Running<'_> {
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
        let mut drift: Vec<_> = running.drifted().take(n_named).map(Scored::words).collect();
        if n_drifted > n_named {
            drift.push(format!("{} more", n_drifted - n_named));
        }
        drift.extend(running.limits.iter().map(
            |Drift { file, configured, live, .. }| match live {
                Some(live) => format!("{file} is {live}, not {configured}"),
                None => format!("{file} is not there"),
            },
        ));
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
    for Daemon { cgroup, expected, process } in &report.daemons {
        let drift = if process.drifted { process.words() } else { "-".into() };
        let row = [cgroup.0.as_ref(), &process.name, "-", &expected.to_string(), "1", &drift];
        let ids = ["-", "-"].into_iter().filter(|_| output.is_wide());
        table.row(row.into_iter().chain(ids).map(str::to_owned));
    }
    table.write(out, output.width())?;
    if report.containers.is_empty() {
        say("no containers found: no cgroup below kubepods has a process");
    }
    for gap in &report.gaps {
        say(format_args!("cannot read {}", gap_text(gap)));
    }
    Ok(())
}
