//! kubernetes-validate, which brings the schemas of all Kubernetes versions with it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::cache::Cache;
use isobar_lab::shell::{found, quietly, step};

/// The first with the schemas of Kubernetes 1.37.
const VERSION: &str = "1.37.0";

/// A Python that has it, in an environment of its own.
pub(crate) fn ready() -> Result<PathBuf> {
    if found("python3").is_none() {
        bail!("manifests are checked by kubernetes-validate, and there is no python3 here");
    }
    let root = Cache::open()?.keep(&format!("kubernetes-validate/{VERSION}"), |dir| {
        step(&format!("kubernetes-validate {VERSION}"), || {
            quietly(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
            let package = format!("kubernetes-validate=={VERSION}");
            let pip = ["-m", "pip", "install", "--quiet", &package];
            quietly(Command::new(dir.join("bin/python")).args(pip))
        })?;
        Ok(())
    })?;
    Ok(root.join("bin/python"))
}
