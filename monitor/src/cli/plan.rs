//! `--config` and `--pods`: configuration and pods of the engine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use isobar::agent::Plan;
use isobar::config::pods::Manifest;
use isobar::config::{self, Effective, KubeletSource};
use isobar::source::pod_disks::Places;
use isobar_core::model::decision::StepKind;
use isobar_core::model::workload::Pod;

use super::{input, static_pods};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// MonitorConfiguration file, or the kubelet's configuration file; see `isobar config`.
    #[arg(long, value_name = "FILE", env = "ISOBAR_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// File with the pods of this node: manifests, or the output of `kubectl get pods -o yaml`; or the
    /// kubelet's directory of static pods' manifests.
    #[arg(long, value_name = "FILE|DIR")]
    pub(super) pods: Option<PathBuf>,
    /// Name of this node in the cluster, if the operator gives it.
    #[arg(skip)]
    pub(super) node_name: Option<String>,
    /// The agent asks the kubelet for its configuration, which may tell it later.
    #[arg(skip)]
    pub(super) awaits_kubelet: bool,
    /// Every step is enforced where the configuration does not have `relief.enforce`. An empty list is
    /// none: it disarms the agent.
    #[arg(skip)]
    pub(super) enforces: bool,
}

/// What a kubelet takes for the name of its node, unless it is told another.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

impl PlanArgs {
    /// Reads the files. `configz` is what the kubelet answers, if it has.
    pub(crate) fn plan(&self, configz: Option<&[u8]>) -> Result<Plan> {
        let read = match self.awaits_kubelet {
            true => config::read_awaiting(self.config.as_deref(), configz)?,
            false => config::read(self.config.as_deref(), configz)?,
        };
        let Effective { mut settings, publish, kubelet, names_steps, .. } = read;
        let enforce = &mut settings.relief.enforce;
        if self.enforces && enforce.is_empty() {
            match names_steps {
                true => tracing::warn!(
                    "no step is taken, because relief.enforce is []: name the steps, or leave the key \
                     out to take all"
                ),
                false => enforce.extend(StepKind::ALL),
            }
        }
        if kubelet == KubeletSource::Missing {
            tracing::warn!(
                "the file that kubeletConfig names is not there; the defaults are used until the \
                 kubelet has answered to /configz"
            );
        }
        let configured =
            Some(Path::new(&settings.node.pods_file)).filter(|file| !file.as_os_str().is_empty());
        let pods = self.pods.as_deref().or(configured).map(|path| match path.is_dir() {
            true => self.static_pods(path, Path::new(&settings.node.kubelet_root)),
            false => written(path),
        });
        let by_uid = |pods: Vec<Pod>| pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        let pods = pods.transpose()?.map(|pods| Arc::new(by_uid(pods)));
        Ok(Plan { settings, publish, kubelet, pods })
    }

    fn static_pods(&self, dir: &Path, kubelet_root: &Path) -> Result<Vec<Pod>> {
        let node = self.node_name.clone().unwrap_or_else(host_name);
        static_pods::read(dir, Places::of_kubelet(kubelet_root).logs(), &node)
    }

    /// Reads the files again, after SIGHUP or with a new answer of the kubelet.
    pub(crate) fn again(self) -> impl FnMut(Option<&[u8]>) -> Result<Plan, Box<dyn Error>> {
        move |configz| self.plan(configz).map_err(Into::into)
    }
}

/// The pods in a file.
fn written(file: &Path) -> Result<Vec<Pod>> {
    let (name, Manifest { pods, others, .. }) = input::pods(file)?;
    others.iter().for_each(|other| tracing::warn!("{name}:{other}"));
    Ok(pods)
}
