//! What the verbs about this node ask for: its configuration, and where to read the machine.

use std::path::PathBuf;

use anyhow::Result;
use isobar::agent::limits::Places;
use isobar::config;
use isobar::source::machine::{self, Groups};
use isobar::source::processes::Processes;
use isobar::source::{OpenError, Roots};
use isobar_core::model::machine::Machine;
use isobar_core::model::settings::Settings;

/// The files that configure a node.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// isobar's configuration, which may name the kubelet's itself, by `kubeletConfig`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The kubelet's configuration, or what its /configz answers.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    kubelet_config: Option<PathBuf>,
}

impl ConfigArgs {
    /// What the files say; the kubelet's own defaults without any.
    pub(crate) fn settings(&self) -> Result<Settings> {
        Ok(match (&self.config, &self.kubelet_config) {
            (Some(ours), _) => config::load(ours)?,
            (None, Some(kubelets)) => config::kubelet(kubelets)?,
            (None, None) => config::defaults().settings,
        })
    }

    /// True if a file says how this node is configured.
    pub(crate) fn is_given(&self) -> bool {
        self.config.is_some() || self.kubelet_config.is_some()
    }
}

/// Where the machine is read: its own files, or those of another one that are mounted here.
#[derive(Debug, clap::Args)]
pub(crate) struct MachineArgs {
    /// Where procfs is mounted.
    #[arg(long, value_name = "PATH", default_value = "/proc")]
    proc: PathBuf,
    /// Where sysfs is mounted.
    #[arg(long, value_name = "PATH", default_value = "/sys")]
    sys: PathBuf,
    /// Where cgroup v2 is mounted; found by itself if not given.
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<PathBuf>,
}

impl MachineArgs {
    pub(crate) fn places(&self) -> Places {
        let Self { proc, sys, cgroup_root } = self;
        Places { proc: proc.clone(), sys: sys.clone(), cgroup_root: cgroup_root.clone() }
    }

    pub(crate) fn machine(&self, settings: &Settings) -> Machine {
        machine::read(&self.proc, &self.sys, settings.node.kubelet_root.as_ref())
    }

    pub(crate) fn groups(&self) -> Result<Groups, OpenError> {
        Groups::open(&self.proc, self.cgroup_root.as_deref())
    }

    pub(crate) fn processes(&self) -> Result<Processes, OpenError> {
        let (proc, cgroup) = (self.proc.clone(), self.cgroup_root.clone());
        Processes::open(&Roots { proc, cgroup, ..Roots::default() })
    }
}
