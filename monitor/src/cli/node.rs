//! Options of the verbs about this node: its configuration, and where the machine's files are.

use std::path::{Path, PathBuf};

use anyhow::Result;
use isobar::agent::limits::Places;
use isobar::config::{self, Effective, KubeletSource};
use isobar::source::machine::{self, Groups};
use isobar::source::processes::Processes;
use isobar::source::{OpenError, Roots};
use isobar_core::model::machine::Machine;
use isobar_core::model::settings::Settings;

use super::output::say;

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// MonitorConfiguration file; its key kubeletConfig may name the kubelet's file.
    #[arg(long, value_name = "FILE", env = "ISOBAR_CONFIG")]
    config: Option<PathBuf>,
    /// The kubelet's configuration file, or an answer of its /configz, in place of --config.
    #[arg(long, value_name = "FILE")]
    kubelet_config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The settings of these files; without any, the kubelet's defaults.
    pub(crate) fn settings(&self) -> Result<Settings> {
        Ok(match (&self.config, &self.kubelet_config) {
            (_, Some(file)) => config::kubelet(file)?,
            (Some(file), None) => config::load(file)?,
            (None, None) => config::defaults().settings,
        })
    }

    /// The same, and whether a file is the kubelet's own: what it reserves is known then.
    pub(crate) fn of_kubelet(&self) -> Result<(Settings, bool)> {
        let (None, Some(file)) = (&self.kubelet_config, &self.config) else {
            return Ok((self.settings()?, self.kubelet_config.is_some()));
        };
        let Effective { settings, kubelet, .. } = config::read(Some(file), None)?;
        Ok((settings, kubelet == KubeletSource::File))
    }

    /// Of this machine the kubelet's defaults may not be true.
    pub(crate) fn tell_if_none(&self) {
        if !self.is_given() {
            say("no --config or --kubelet-config: by the kubelet's defaults");
        }
    }

    pub(crate) fn is_given(&self) -> bool {
        self.file().is_some()
    }

    /// The option by which a file was named, and the file.
    pub(crate) fn file(&self) -> Option<(&'static str, &Path)> {
        let kubelets = self.kubelet_config.as_deref().map(|file| ("--kubelet-config", file));
        kubelets.or(self.config.as_deref().map(|file| ("--config", file)))
    }
}

/// Where the machine's files are: this machine's, or a copy of another machine's.
#[derive(Debug, clap::Args)]
pub(crate) struct MachineArgs {
    /// Mount point of procfs.
    #[arg(long, value_name = "PATH", default_value = "/proc")]
    proc: PathBuf,
    /// Mount point of sysfs.
    #[arg(long, value_name = "PATH", default_value = "/sys")]
    sys: PathBuf,
    /// Mount point of cgroup v2 [default: from /proc/self/mountinfo].
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<PathBuf>,
}

impl MachineArgs {
    pub(crate) fn places(&self) -> Places {
        let Self { proc, sys, cgroup_root } = self;
        Places { proc: proc.clone(), sys: sys.clone(), cgroup_root: cgroup_root.clone() }
    }

    pub(crate) fn proc(&self) -> &Path {
        &self.proc
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
