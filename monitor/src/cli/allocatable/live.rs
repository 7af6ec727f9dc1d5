//! This machine's cgroups, beside what they should be.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use isobar::clock;
use isobar::model::cgroup::CgroupPath;
use isobar::model::machine::{Found, Machine};
use isobar::model::sample::Gap;
use isobar::model::settings::Settings;
use isobar::model::units::{MilliCpu, Nanos};
use isobar::policy::limits::drift::{Drift, Live, drift};
use isobar::policy::limits::enforce::Enforced;
use isobar::policy::limits::names;
use serde::Serialize;

use crate::cli::node::MachineArgs;

/// How long CPU use is watched.
const WATCHED: Duration = Duration::from_secs(1);

/// How this machine is set up.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Standing {
    /// The limits as they are.
    pub(super) live: Live,
    /// Where they are not what the configuration makes of them.
    pub(super) drift: Vec<Drift>,
}

impl Standing {
    /// What is found on `machine`, and what could not be read.
    pub(super) fn of(
        args: &MachineArgs,
        settings: &Settings,
        machine: &Machine,
        enforced: &Enforced,
    ) -> Result<(Self, Vec<String>)> {
        let groups = args.groups()?;
        let mut gaps = Vec::new();
        let node = &settings.node;
        let mut look = |path: CgroupPath| groups.look(&path, &mut gaps);
        let mut reserved = |name: &str| names::reserved(node.cgroup_driver, name).map(&mut look);
        let live = Live {
            kube_reserved: reserved(&node.kube_reserved_cgroup),
            system_reserved: reserved(&node.system_reserved_cgroup),
            pods: look(names::kubepods(node)),
        };
        let drift = drift(enforced, &live, machine.page);
        Ok((Self { live, drift }, gaps.iter().map(in_words).collect()))
    }
}

fn in_words(gap: &Gap) -> String {
    format!("{}: {}", gap.object, gap.detail)
}
