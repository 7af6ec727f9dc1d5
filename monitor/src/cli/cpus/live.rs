//! Who uses reserved CPUs on this machine, and which interrupts disturb the others.
//! In: this machine. Out: processes of pods that may run on reserved CPUs, those first that did;
//! interrupts that are handled on CPUs of pods; what could not be read.
//! Reserved CPUs are for daemons, the kernel's threads and interrupts, so an interrupt there is in
//! its place, and one on another CPU is not. The kubelet moves neither.

use std::cmp::Reverse;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use isobar::agent::limits::{self, Intruder};
use isobar::source::interrupts::{self, Interrupt};
use isobar::source::sightings::Look;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::settings::Node;
use isobar_kubelet::cpus;
use serde::Serialize;

use crate::cli::node::MachineArgs;
use crate::cli::output::gap_text;

/// Between two looks at intruders. The kernel's clock counts hundredths of a second.
const BETWEEN: Duration = Duration::from_secs(1);

/// A process of a pod that may run on reserved CPUs, and whether it did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Seen {
    #[serde(flatten)]
    pub(super) intruder: Intruder,
    /// Reserved CPUs on which its threads were seen that ran within a second; `None` if it is gone.
    pub(super) ran_on: Option<CpuSet>,
    /// How long these threads ran.
    pub(super) ran_millis: Option<u64>,
}

/// The problems are of what could not be read.
pub(super) fn intruders(
    machine: &MachineArgs,
    node: &Node,
    reserved: &CpuSet,
) -> Result<(Vec<Seen>, Vec<String>)> {
    let (found, gaps) = limits::intruders(&machine.processes()?, node, reserved);
    let look = || Look::at(machine.proc(), found.iter().map(|intruder| intruder.pid));
    let first = look();
    if !found.is_empty() {
        sleep(BETWEEN);
    }
    let later = look();
    let seen = |intruder: Intruder| {
        let ran = first.ran(&later, intruder.pid, reserved);
        let ran_millis = ran.as_ref().map(|ran| ran.millis);
        Seen { intruder, ran_on: ran.map(|ran| ran.on), ran_millis }
    };
    let mut seen: Vec<_> = found.iter().cloned().map(seen).collect();
    seen.sort_by_key(|seen| Reverse(seen.ran_millis));
    Ok((seen, gaps.iter().map(gap_text).collect()))
}

/// Those that are handled on other CPUs than `reserved`, with these CPUs.
pub(super) fn interrupts(
    machine: &MachineArgs,
    reserved: &CpuSet,
) -> Result<(Vec<Interrupt>, Vec<String>)> {
    let (found, gaps) = interrupts::read(machine.proc())?;
    let outside = |interrupt: Interrupt| {
        let cpus = cpus::minus(&interrupt.cpus, reserved);
        (!cpus.0.is_empty()).then_some(Interrupt { cpus, ..interrupt })
    };
    let found = found.into_iter().filter_map(outside).collect();
    Ok((found, gaps.iter().map(gap_text).collect()))
}
