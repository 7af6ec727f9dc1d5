//! What the agent takes for a node full of pods that an API server and a kubelet tell it of, beside
//! an agent without them, at the same time and on the same cgroups.

mod node;

use std::fmt;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

use self::node::{CONTAINERS, PODS, Server, containers};
use super::agent::{Cpu, Memory, USER_HZ, of_thread};
use super::median;
use super::rig::Rig;
use super::tree::{Cpus, Tree};
use isobar_lab::clock::Since;
use isobar_lab::table::{against, table};

/// Both agents are measured at once in each window, so what others do to the machine falls on both.
const WINDOWS: usize = 5;
const WINDOW: Duration = Duration::from_secs(30);
/// Until the agents have listed the pods, metered their programs, and asked the kubelet once.
const WARM_UP: Duration = Duration::from_secs(15);

/// At 500 cgroups, pressed: percent of one core, and MiB.
const CPU_BUDGET: f64 = 0.7;
const RSS_BUDGET: f64 = 24.0;
const PEAK_BUDGET: f64 = 60.0;

const NAMES: [&str; 2] = ["without the cluster", "with it"];

/// What both agents took.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    n_seen: usize,
    controllers: String,
    /// Tasks that wanted a CPU in the last minute of the measurement.
    load: f64,
    /// Without the cluster, and with it.
    agents: [Taken; 2],
    /// Median of the differences within a window, in percent of one core.
    more_percent: f64,
    /// What the API server and the kubelet were asked in all windows, watches not counted.
    n_requests: usize,
    /// The largest answers, which the agent reads.
    list_bytes: usize,
    summary_bytes: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    /// Of one core, a figure for each window.
    windows: Vec<f64>,
    /// Their median.
    cpu_percent: f64,
    /// Of it, the thread that talks to the cluster, over all windows; 0 without one.
    kube_percent: f64,
    rss_mib: f64,
    /// Of it, what is no file: the rest is mostly the program's code.
    anonymous_mib: f64,
    peak_mib: f64,
}

/// Seconds that this should take.
pub(super) fn expected() -> f64 {
    (WARM_UP + WINDOW * u32::try_from(WINDOWS).unwrap_or(u32::MAX)).as_secs_f64() + 10.0
}

pub(super) fn measure(rig: &mut Rig) -> Result<Figures> {
    rig.progress.step(&format!("cluster: {PODS} pods, {CONTAINERS} containers"), expected());
    let root = rig.group("node")?;
    let name = root.dir().file_name().context("a cgroup has a name")?.to_owned();
    let server = Server::start(&format!("/{}", name.display()))?;
    let tree = Tree::of_pods(root, &containers(), Cpus::Pressed)?;
    let mut agents = [
        rig.agent_with("alone", &server.arguments("alone", false))?,
        rig.agent_with("client", &server.arguments("client", true))?,
    ];
    rig.pause(WARM_UP)?;
    let [_, client] = &mut agents;
    let snapshot = client.snapshot()?;
    knows_the_cluster(&snapshot)?;

    let (mut taken, n_before) = (<[Taken; 2]>::default(), server.n_requests()?);
    for _ in 0..WINDOWS {
        let (before, since) = (agents.each_ref().map(|agent| Clock::of(agent.pid())), Since::now());
        rig.pause(WINDOW)?;
        let (after, took) =
            (agents.each_ref().map(|agent| Clock::of(agent.pid())), since.elapsed());
        for ((taken, before), after) in taken.iter_mut().zip(before).zip(after) {
            let (before, after) = (before?, after?);
            let percent = |seconds: f64| 100.0 * seconds / took.as_secs_f64();
            taken.windows.push(percent(after.all - before.all));
            taken.kube_percent += percent(after.kube - before.kube) / WINDOWS as f64;
        }
    }
    let n_requests = server.n_requests()? - n_before;
    for (taken, agent) in taken.iter_mut().zip(&agents) {
        let memory = Memory::of(agent.pid())?;
        (taken.rss_mib, taken.peak_mib) = (memory.now, memory.peak);
        taken.anonymous_mib = memory.anonymous;
        taken.cpu_percent = median(taken.windows.clone()).context("no window")?;
    }
    let [alone, client] = &taken;
    let more = client.windows.iter().zip(&alone.windows).map(|(with, without)| with - without);
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(Figures {
        n_seen: snapshot["scopes"].as_object().map_or(0, serde_json::Map::len),
        controllers: tree.controllers()?,
        load: load.split(' ').next().and_then(|load| load.parse().ok()).context("no load")?,
        more_percent: median(more.collect()).context("no window")?,
        agents: taken,
        n_requests,
        list_bytes: server.list_bytes,
        summary_bytes: server.summary_bytes,
    })
}

/// An agent that was told nothing would cost nothing.
fn knows_the_cluster(snapshot: &serde_json::Value) -> Result<()> {
    for name in ["API server", "pods", "kubelet", "node conditions"] {
        let all = snapshot["capabilities"].as_array().context("no capabilities")?;
        let Some(one) = all.iter().find(|one| one["name"] == name) else {
            bail!("the agent has no capability {name:?}");
        };
        ensure!(one["state"] == "attached", "{name}: {}", one["detail"]);
    }
    Ok(())
}

/// CPU time of a process in seconds.
struct Clock {
    all: f64,
    /// Of the thread `kube`; 0 where there is none.
    kube: f64,
}

impl Clock {
    fn of(pid: u32) -> Result<Self> {
        let cpu = Cpu::of(pid)?;
        let kube = of_thread(pid, "kube")?.unwrap_or_default();
        Ok(Self { all: (cpu.user + cpu.system) as f64 / USER_HZ, kube })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = WINDOW.as_secs();
        writeln!(
            f,
            "An agent that talks to a cluster beside one that does not: {PODS} pods, {CONTAINERS} \
             containers and {PODS} sandboxes, {} cgroups seen, CPUs pressed; medians of {WINDOWS} \
             windows of {seconds} s.\n",
            self.n_seen
        )?;
        let rows: Vec<_> = NAMES.iter().zip(&self.agents).map(row).collect();
        let head = ["", "CPU %", "least", "most", "thread kube %", "RSS MiB", "anonymous", "peak"];
        writeln!(f, "{}", table(&head, &rows))?;
        writeln!(
            f,
            "with it {:+.2} % of a core within a window; {} requests in {} s, the pods' list {} kB, \
             the kubelet's summary {} kB",
            self.more_percent,
            self.n_requests,
            WINDOWS as u64 * seconds,
            self.list_bytes / 1000,
            self.summary_bytes / 1000
        )?;
        let [_, client] = &self.agents;
        #[rustfmt::skip]
        let budgets = [
            ("CPU at 500, pressed", "%", client.cpu_percent, CPU_BUDGET),
            ("RSS, steady", "MiB", client.rss_mib, RSS_BUDGET),
            ("RSS, peak at start", "MiB", client.peak_mib, PEAK_BUDGET),
        ];
        for (name, unit, figure, limit) in budgets {
            let verdict = against(figure, limit);
            writeln!(f, "budget, {name}: {figure:.2} {unit}, at most {limit} {unit}: {verdict}")?;
        }
        let controllers = Some(&*self.controllers).filter(|some| !some.is_empty());
        writeln!(f, "a container had: {}; load {:.1}", controllers.unwrap_or("none"), self.load)
    }
}

fn row((name, taken): (&&str, &Taken)) -> Vec<String> {
    let least = taken.windows.iter().copied().fold(f64::INFINITY, f64::min);
    let most = taken.windows.iter().copied().fold(0.0, f64::max);
    vec![
        (*name).into(),
        format!("{:.2}", taken.cpu_percent),
        format!("{least:.2}"),
        format!("{most:.2}"),
        format!("{:.3}", taken.kube_percent),
        format!("{:.1}", taken.rss_mib),
        format!("{:.1}", taken.anonymous_mib),
        format!("{:.1}", taken.peak_mib),
    ]
}
