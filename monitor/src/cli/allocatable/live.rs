//! This machine's cgroups, compared with the configuration.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use isobar::agent::limits::{look, spelled};
use isobar::clock;
use isobar::source::processes::Members;
use isobar_core::model::machine::{Found, Machine};
use isobar_core::model::settings::Node;
use isobar_core::model::units::{MilliCpu, Nanos};
use isobar_kubelet::allocatable::Reservation;
use isobar_kubelet::drift::{Drift, Live, drift};
use isobar_kubelet::enforce::Enforced;
use isobar_kubelet::layout::{Layout, Resident, Use};
use serde::Serialize;

use crate::cli::node::MachineArgs;
use crate::cli::output::gap_text;

/// How long the CPU usage of daemons is measured.
const WATCHED: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Standing {
    pub(super) live: Live,
    /// Live limits that differ from the configuration.
    pub(super) drift: Vec<Drift>,
    /// Which processes run outside of the configured cgroups.
    pub(super) layout: Layout,
}

impl Standing {
    /// The state of `machine`, and what could not be read.
    pub(super) fn of(
        args: &MachineArgs,
        node: &Node,
        machine: &Machine,
        reservation: &Reservation,
        enforced: &Enforced,
    ) -> Result<(Self, Vec<String>)> {
        let groups = args.groups()?;
        let mut gaps = Vec::new();
        let node = &spelled(&groups, node);
        let before = clock::now().boot;
        let live = look(&groups, node, &mut gaps);
        let used = match (&live.kube_reserved, &live.system_reserved) {
            (None, None) => Use::default(),
            (kube, system) => {
                sleep(WATCHED);
                let later = look(&groups, node, &mut Vec::new());
                let took = clock::now().boot.since(before);
                Use {
                    kube: rate(kube.as_ref(), later.kube_reserved.as_ref(), took),
                    system: rate(system.as_ref(), later.system_reserved.as_ref(), took),
                }
            }
        };
        let (members, more) = args.processes()?.read(|_| true);
        gaps.extend(more);
        let drift = drift(enforced, &live, machine.page);
        let layout = Layout::of(&live, used, reservation, members.into_iter().flat_map(residents));
        Ok((Self { live, drift, layout }, gaps.iter().map(gap_text).collect()))
    }
}

fn rate(before: Option<&Found>, after: Option<&Found>, took: Nanos) -> Option<MilliCpu> {
    let (before, after) = (before?.cpu_usage?, after?.cpu_usage?);
    Some(MilliCpu::rate(Nanos::from(after).since(Nanos::from(before)), took))
}

fn residents(members: Members) -> impl Iterator<Item = Resident> {
    let Members { path, processes } = members;
    processes.into_iter().map(move |process| Resident {
        memory: process.memory,
        pid: process.pid,
        name: process.name,
        cgroup: path.clone(),
        is_kernel: process.is_kernel_thread,
    })
}
