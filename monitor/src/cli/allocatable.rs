//! `isobar allocatable`: what the node has left for pods, the limits that enforce it, and whether
//! they are in place.

mod advise;
mod capacity;
mod elsewhere;
mod live;
mod print;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::{Settings, WrittenLimit};
use isobar_core::model::threshold::Signal;
use isobar_core::model::workload::Pod;
use isobar_core::view::Document;
use isobar_kubelet::admitted::admitted;
use isobar_kubelet::allocatable::{
    Reservation, hard_thresholds, signal_capacities, soft_thresholds,
};
use isobar_kubelet::capacity as counted;
use isobar_kubelet::enforce::{self, Enforced};
use isobar_kubelet::fit::{Fit, fit};
use serde::Serialize;

use super::elsewhere::NodeArg;
use super::exit::{Code, Refused};
use super::input;
use super::limits::WriteArgs;
use super::node::{ConfigArgs, MachineArgs};
use super::output::{Format, gap_text};
use advise::AdviseArgs;
use capacity::Capacity;
use live::Standing;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Capacity of the node, such as cpu=10,memory=32Gi,ephemeral-storage=100Gi,hugepages-2Mi=1Gi,
    /// pods=110,pid=32768 [default: this machine's, with its live limits].
    #[arg(long, value_name = "LIST", conflicts_with_all = ["apply", "roll_back"])]
    capacity: Option<String>,
    /// File with pods, to check whether they fit together: manifests, or the output of kubectl for
    /// pods that have not ended; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "roll_back"])]
    pods: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArg,
    #[command(flatten)]
    advise: AdviseArgs,
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
    capacity: ResourceList,
    kube_reserved: ResourceList,
    system_reserved: ResourceList,
    eviction_hard: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    eviction_soft: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    eviction_soft_grace_period: BTreeMap<&'static str, String>,
    /// The whole reservation, including the hard eviction threshold.
    reservation: ResourceList,
    allocatable: ResourceList,
    enforced: Enforced,
    /// The requests of the pods in --pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<Vec<Fit>>,
    /// The state of this machine; `None` with --capacity.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    standing: Option<Standing>,
    /// Problems with which the kubelet would still start.
    problems: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let Args { config, machine, output, .. } = args;
    if let Some(place) = args.node.place()? {
        elsewhere::write(&place, *output)?;
        return Ok(Code::Ok);
    }
    if let Some(code) = args.write.run(WrittenLimit::Allocatable, config, machine, *output)? {
        return Ok(code);
    }
    if let Some(code) = args.advise.run(config, *output)? {
        return Ok(code);
    }
    let settings = config.settings()?;
    let mut document = match &args.capacity {
        Some(text) => {
            let Capacity(capacity) = text.parse().map_err(Refused)?;
            let known = signal_capacities(&capacity);
            document(&settings, capacity, &known)?
        }
        None => {
            config.tell_if_none();
            this_machine(&args.machine, &settings)?
        }
    };
    if let Some(file) = args.pods.as_ref().or(args.advise.file.as_ref()) {
        let (pods, passed_over) = read_pods(file)?;
        document.fit = Some(fit(&pods, &document.allocatable));
        document.problems.extend(passed_over);
    }
    let whole = Document::new("Allocatable", &document);
    args.output.print(&whole, |out| Ok(print::write(out, &document)?))?;
    Ok(Code::Ok)
}

/// The pods in a file, as the API server would admit them, and the objects that were ignored.
fn read_pods(file: &Path) -> Result<(Vec<Pod>, Vec<String>)> {
    let (name, manifest) = input::pods(file)?;
    let others = manifest.others.iter().map(|problem| format!("{name}:{problem}")).collect();
    Ok((manifest.pods.iter().map(admitted).collect(), others))
}

fn document(
    settings: &Settings,
    capacity: ResourceList,
    known: &BTreeMap<Signal, u64>,
) -> Result<Report> {
    let reservation = Reservation::of(settings, &capacity);
    if let Some(refusal) = reservation.refusal(&capacity) {
        return Err(Refused(refusal).into());
    }
    let enforced = Enforced::of(&settings.node, &capacity, &reservation);
    let mut problems = enforce::problems(&settings.node, &reservation);
    let unknown = reservation.total().into_keys().filter(|name| !capacity.contains_key(name));
    problems.extend(unknown.map(|name| {
        format!("the capacity of {name} is not known; its reservation is not checked")
    }));
    let soft = || soft_thresholds(settings, known).into_iter();
    Ok(Report {
        eviction_hard: hard_thresholds(settings, known),
        eviction_soft: soft().map(|(name, (value, _))| (name, value)).collect(),
        eviction_soft_grace_period: soft()
            .map(|(name, (_, grace))| (name, grace.to_string()))
            .collect(),
        reservation: reservation.total(),
        allocatable: reservation.allocatable(&capacity),
        enforced,
        kube_reserved: reservation.kube,
        system_reserved: reservation.system,
        capacity,
        fit: None,
        standing: None,
        problems,
    })
}

fn this_machine(machine: &MachineArgs, settings: &Settings) -> Result<Report> {
    let found = machine.machine(settings);
    let capacity = counted::capacity(&found, &settings.node);
    let mut known = signal_capacities(&capacity);
    known.extend(found.nodefs.map(|nodefs| (Signal::NodefsInodesFree, nodefs.inodes)));
    if let Some(imagefs) = found.imagefs {
        known.insert(Signal::ImagefsAvailable, imagefs.capacity.0);
        known.insert(Signal::ImagefsInodesFree, imagefs.inodes);
    }
    let mut document = document(settings, capacity, &known)?;
    document.problems.extend(found.gaps.iter().map(gap_text));
    let reservation = Reservation::of(settings, &document.capacity);
    let standing = Standing::of(machine, &settings.node, &found, &reservation, &document.enforced);
    match standing {
        Ok((standing, gaps)) => {
            document.problems.extend(gaps);
            document.standing = Some(standing);
        }
        Err(error) => document.problems.push(error.to_string()),
    }
    Ok(document)
}
