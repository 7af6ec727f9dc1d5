//! `isobar cpus`: reserved CPUs, the shared pool, exclusive CPUs, and whether the CPU manager's
//! state file agrees.

mod live;
mod print;

use std::path::{Path, PathBuf};

use anyhow::Result;
use isobar::agent::limits::CPU_STATE;
use isobar::source::interrupts::Interrupt;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::settings::{Settings, WrittenLimit};
use isobar_core::model::topology::Topology;
use isobar_core::view::Document;
use isobar_kubelet::checkpoint::{Assignment, State};
use isobar_kubelet::cpus::{self, Plan, Sets};
use serde::Serialize;

use super::exit::{Code, Refused};
use super::input;
use super::limits::WriteArgs;
use super::node::{ConfigArgs, MachineArgs};
use super::output::{Format, gap_text};
use live::Seen;

/// What is read and written on this machine, and means nothing for another one.
const ELSEWHERE: [&str; 5] = ["apply", "roll_back", "proc", "sys", "cgroup_root"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Online CPUs, such as 0-79 [default: this machine's, unless --topology is given].
    #[arg(long, value_name = "CPUS", conflicts_with_all = ELSEWHERE)]
    online: Option<CpuSet>,
    /// CPU topology: the output of `lscpu -p=CPU,Core,Socket,Node` [default with --online: each CPU
    /// is a core of its own].
    #[arg(long, value_name = "FILE", conflicts_with_all = ELSEWHERE)]
    topology: Option<PathBuf>,
    /// State file of the CPU manager [default for this machine: the one in the kubelet's directory].
    #[arg(short = 'f', long, visible_alias = "file", value_name = "FILE", conflicts_with_all = ["apply", "roll_back"])]
    state: Option<PathBuf>,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    online: CpuSet,
    policy: &'static str,
    reserved: CpuSet,
    default_cpu_set: CpuSet,
    shared_pool_millicores: u64,
    exclusive_cpus: usize,
    strict: bool,
    state: Option<StateDocument>,
    /// Processes of pods that may run on strictly reserved CPUs; `None` if not checked.
    intruders: Option<Vec<Seen>>,
    /// Interrupts that are handled on CPUs of pods, with these CPUs; `None` if not checked.
    interrupts: Option<Vec<Interrupt>>,
    /// Problems with which the kubelet would still start.
    problems: Vec<String>,
}

/// The checked state file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StateDocument {
    file: PathBuf,
    /// `None` if the file does not parse.
    policy_name: Option<String>,
    default_cpu_set: Option<String>,
    checksum: Checksum,
    /// Why the kubelet would not start with it, in the kubelet's words.
    problems: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    assignments: Vec<Assignment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Checksum {
    Ok,
    Corrupt,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let Args { config, machine, output, .. } = args;
    if let Some(code) = args.write.run(WrittenLimit::ReservedCpus, config, machine, *output)? {
        return Ok(code);
    }
    let settings = config.settings()?;
    if args.is_live() {
        config.tell_if_none();
    }
    let topology = args.topology(&settings)?;
    let plan = Plan::of(&settings, &topology).map_err(Refused)?;
    let state = args.read_state(&settings)?;
    let mut document = document(args, &settings, &plan, state);
    let writes = settings.node.write_limits.contains(&WrittenLimit::ReservedCpus);
    if args.is_live() && (plan.strict || writes) {
        let intruders = live::intruders(machine, &settings.node, &plan.reserved);
        document.intruders = document.checked(intruders);
        let interrupts = live::interrupts(machine, &plan.reserved);
        document.interrupts = document.checked(interrupts);
    }
    let whole = Document::new("Cpus", &document);
    output.print(&whole, |out| Ok(print::write(out, &document, output.width())?))?;
    Ok(Code::Ok)
}

impl Report {
    /// What was found. Everything that could not be read becomes a problem.
    fn checked<T>(&mut self, found: Result<(T, Vec<String>)>) -> Option<T> {
        let (found, problems) = match found {
            Ok((found, problems)) => (Some(found), problems),
            Err(error) => (None, vec![format!("{error:#}")]),
        };
        self.problems.extend(problems);
        found
    }
}

impl Args {
    /// True for this machine, false for one that the options describe.
    fn is_live(&self) -> bool {
        self.online.is_none() && self.topology.is_none()
    }

    fn topology(&self, settings: &Settings) -> Result<Topology> {
        if self.is_live() {
            let machine = self.machine.machine(settings);
            if machine.cpus.cpus.is_empty() {
                let gaps: Vec<_> = machine.gaps.iter().map(gap_text).collect();
                anyhow::bail!("cannot read the list of online CPUs: {}", gaps.join("; "));
            }
            return Ok(machine.cpus);
        }
        let Some(file) = &self.topology else {
            let online = self.online.clone().unwrap_or_default();
            if online.0.is_empty() {
                return Err(
                    Refused("--online names no CPU; expected a list such as 0-79".into()).into()
                );
            }
            return Ok(Topology::flat(&online));
        };
        let text = read(file)?;
        let named = |error| Refused(format!("{}: {error}", file.display()));
        let whole: Topology = text.parse().map_err(named)?;
        let Some(online) = &self.online else { return Ok(whole) };
        let unknown = cpus::minus(online, &whole.all());
        if !unknown.0.is_empty() {
            let what =
                format!("--online names CPUs {unknown}, which are not in {}", file.display());
            return Err(Refused(what).into());
        }
        Ok(whole.only(online))
    }

    /// The state file's path and text, if it exists.
    fn read_state(&self, settings: &Settings) -> Result<Option<(PathBuf, String)>> {
        if let Some(file) = &self.state {
            return Ok(Some((file.clone(), read(file)?)));
        }
        let usual = Path::new(&settings.node.kubelet_root).join(CPU_STATE);
        if !self.is_live() || !usual.exists() {
            return Ok(None);
        }
        let text = read(&usual)?;
        Ok(Some((usual, text)))
    }
}

/// The text of a file, with replacement characters for bytes that are not UTF-8.
fn read(file: &Path) -> Result<String> {
    let (_, bytes) = input::read(file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn document(
    args: &Args,
    settings: &Settings,
    plan: &Plan,
    state: Option<(PathBuf, String)>,
) -> Report {
    let policy = if settings.node.static_cpus { "static" } else { "none" };
    let configured = args.config.is_given().then_some(policy);
    let read = state.map(|(file, text)| (file, State::read(&text)));
    // The kubelet assigns no CPUs from a state file that it refuses.
    let counts = |state: &State| state.refusals(configured, plan).is_empty();
    let accepted = read.as_ref().filter(|(_, state)| counts(state));
    let exclusive = accepted.map(|(_, state)| state.exclusive()).unwrap_or_default();
    let Sets { default, exclusive, shared_millicores: shared } = Sets::of(plan, exclusive);
    Report {
        online: plan.online.clone(),
        policy,
        reserved: plan.reserved.clone(),
        default_cpu_set: default,
        shared_pool_millicores: shared,
        exclusive_cpus: exclusive.0.len(),
        strict: plan.strict,
        state: read.map(|(file, state)| judged(file, state, configured, plan)),
        intruders: None,
        interrupts: None,
        problems: cpus::warnings(&settings.node, plan, shared),
    }
}

fn judged(file: PathBuf, state: State, configured: Option<&str>, plan: &Plan) -> StateDocument {
    let problems = state.refusals(configured, plan);
    // The kubelet's own advice.
    let remedy = (!problems.is_empty()).then(|| {
        format!(
            "drain this node and delete the CPU manager checkpoint file \"{}\" before restarting \
             Kubelet",
            file.display()
        )
    });
    let default = state.default.map(|cpus| cpus.to_string()).or(state.default_text);
    StateDocument {
        file,
        policy_name: state.policy,
        default_cpu_set: default,
        checksum: if state.is_intact { Checksum::Ok } else { Checksum::Corrupt },
        problems,
        remedy,
        assignments: state.assignments,
    }
}
