//! `--config` and `--pods`: configuration and pods of the engine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use isobar::agent::Plan;
use isobar::config::pods::Manifest;
use isobar::config::{self, Effective};

use super::input;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// MonitorConfiguration file, or the kubelet's configuration file; see `isobar config`.
    #[arg(long, value_name = "FILE", env = "ISOBAR_CONFIG")]
    config: Option<PathBuf>,
    /// File with the pods of this node: manifests, or the output of `kubectl get pods -o yaml`.
    #[arg(long, value_name = "FILE")]
    pods: Option<PathBuf>,
}

impl PlanArgs {
    /// Reads the files. `configz` is what the kubelet answers, if it has.
    pub(crate) fn plan(&self, configz: Option<&[u8]>) -> Result<Plan> {
        let read = config::read(self.config.as_deref(), configz)?;
        let Effective { settings, publish, kubelet, .. } = read;
        let configured =
            Some(Path::new(&settings.node.pods_file)).filter(|file| !file.as_os_str().is_empty());
        let pods = match self.pods.as_deref().or(configured) {
            Some(file) => {
                let (name, Manifest { pods, others, .. }) = input::pods(file)?;
                others.iter().for_each(|other| tracing::warn!("{name}:{other}"));
                Some(Arc::new(pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect()))
            }
            None => None,
        };
        Ok(Plan { settings, publish, kubelet, pods })
    }

    /// Reads the files again, after SIGHUP or with a new answer of the kubelet.
    pub(crate) fn again(self) -> impl FnMut(Option<&[u8]>) -> Result<Plan, Box<dyn Error>> {
        move |configz| self.plan(configz).map_err(Into::into)
    }
}
