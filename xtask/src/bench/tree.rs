//! Many cgroups, as a node full of pods has them: names of the same length, nested the same way,
//! and a little life in some.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::rig::Rig;
use isobar_lab::cgroup::Group;

/// One cgroup in so many has a process that keeps waking up.
const LIVELY: usize = 5;
/// Spinners for each CPU of a node whose CPUs are pressed.
const SPINNERS: usize = 2;

/// Whether work waits for CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpus {
    Calm,
    Pressed,
}

/// The cgroups; they go with this value.
pub(super) struct Tree {
    /// Parents first.
    groups: Vec<Group>,
    sleepers: Vec<Child>,
}

impl Tree {
    /// Makes `n` cgroups: two of the node, then pods of a sandbox and a container each.
    pub(super) fn grow(rig: &Rig, n: usize, cpus: Cpus) -> Result<Self> {
        let mut tree = Self { groups: vec![rig.group("kubepods")?], sleepers: Vec::new() };
        let burstable = tree.groups[0].dir().join("burstable");
        tree.groups[0].pass_on_controllers()?;
        tree.make(burstable.clone())?;
        tree.groups[1].pass_on_controllers()?;
        let mut containers = Vec::new();
        for number in 0.. {
            if tree.groups.len() >= n {
                break;
            }
            // As the kubelet and containerd name them.
            let pod = burstable.join(format!("pod{number:08x}-0000-4000-8000-{number:012x}"));
            tree.make(pod.clone())?;
            for part in 0..2 {
                if tree.groups.len() < n {
                    let container = pod.join(format!("{part:032x}{number:032x}"));
                    tree.make(container.clone())?;
                    containers.push(container);
                }
            }
        }
        for container in containers.iter().take(n / LIVELY) {
            tree.load(container, &["burst", "--on-ms", "0", "--off-ms", "50"])?;
        }
        if cpus == Cpus::Pressed {
            let n_spinners = SPINNERS * std::thread::available_parallelism()?.get();
            for container in containers.iter().rev().take(n_spinners) {
                tree.load(container, &["spin"])?;
            }
        }
        Ok(tree)
    }

    fn load(&mut self, container: &Path, shape: &[&str]) -> Result<()> {
        let mut load = Command::new(std::env::current_exe()?);
        load.arg("load").args(shape).args(["--seconds", "3600"]);
        load.arg("--cgroup").arg(container).stdin(Stdio::null()).stdout(Stdio::null());
        self.sleepers.push(load.spawn().context("cannot start a load")?);
        Ok(())
    }

    /// The controllers of a container, as the kernel names them.
    pub(super) fn controllers(&self) -> Result<String> {
        let last = self.groups.last().context("never empty")?;
        let have = fs::read_to_string(last.dir().join("cgroup.controllers"))?;
        Ok(have.trim().to_owned())
    }

    fn make(&mut self, dir: PathBuf) -> Result<()> {
        self.groups.push(Group::make(dir)?);
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for sleeper in &mut self.sleepers {
            // Both fail only if it has ended already.
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        // A cgroup can only go when those below it have gone.
        while self.groups.pop().is_some() {}
    }
}
