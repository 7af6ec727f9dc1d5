//! Many cgroups, as a node full of pods has them: names of the same length, nested the same way,
//! and a little life in some.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::rig::Rig;
use crate::running::Running;
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
    /// Sandboxes too.
    containers: Vec<PathBuf>,
    sleepers: Vec<Running>,
}

impl Tree {
    /// Makes `n` cgroups: two of the node, then pods of a sandbox and a container each.
    pub(super) fn grow(rig: &Rig, n: usize, cpus: Cpus) -> Result<Self> {
        let mut tree = Self::bare(rig.group("kubepods")?)?;
        for number in 0.. {
            let left = n.saturating_sub(tree.groups.len());
            if left == 0 {
                break;
            }
            tree.pod(number, (left - 1).min(2))?;
        }
        tree.enliven(n / LIVELY, cpus)?;
        Ok(tree)
    }

    /// Makes `kubepods` below `root`, with a pod for each number of containers, which have a
    /// sandbox beside them.
    pub(super) fn of_pods(root: Group, containers: &[usize], cpus: Cpus) -> Result<Self> {
        root.pass_on_controllers()?;
        let kubepods = Group::make(root.dir().join("kubepods"))?;
        let mut tree = Self::bare(kubepods)?;
        for (number, n_containers) in containers.iter().enumerate() {
            tree.pod(number, 1 + n_containers)?;
        }
        tree.enliven(tree.groups.len() / LIVELY, cpus)?;
        tree.groups.insert(0, root);
        Ok(tree)
    }

    fn bare(kubepods: Group) -> Result<Self> {
        kubepods.pass_on_controllers()?;
        let burstable = Group::make(kubepods.dir().join("burstable"))?;
        burstable.pass_on_controllers()?;
        let (containers, sleepers) = Default::default();
        Ok(Self { groups: vec![kubepods, burstable], containers, sleepers })
    }

    /// A pod with its sandbox, and then its containers.
    fn pod(&mut self, number: usize, n_parts: usize) -> Result<()> {
        let pod = self.groups[1].dir().join(format!("pod{}", pod_uid(number)));
        self.groups.push(Group::make(pod.clone())?);
        for part in 0..n_parts {
            let container = pod.join(container_id(number, part));
            self.groups.push(Group::make(container.clone())?);
            self.containers.push(container);
        }
        Ok(())
    }

    /// Starts the processes of the first containers, and those that press the CPUs in the last.
    fn enliven(&mut self, n_lively: usize, cpus: Cpus) -> Result<()> {
        for container in self.containers.clone().iter().take(n_lively) {
            self.load(container, &["burst", "--on-ms", "0", "--off-ms", "50"])?;
        }
        if cpus == Cpus::Pressed {
            let n_spinners = SPINNERS * std::thread::available_parallelism()?.get();
            for container in self.containers.clone().iter().rev().take(n_spinners) {
                self.load(container, &["spin"])?;
            }
        }
        Ok(())
    }

    fn load(&mut self, container: &Path, shape: &[&str]) -> Result<()> {
        let arguments = [shape, &["--seconds", "3600"]].concat();
        self.sleepers.push(Running::load(&arguments, container)?);
        Ok(())
    }

    /// The controllers of a container, as the kernel names them.
    pub(super) fn controllers(&self) -> Result<String> {
        let last = self.groups.last().context("never empty")?;
        let have = fs::read_to_string(last.dir().join("cgroup.controllers"))?;
        Ok(have.trim().to_owned())
    }
}

/// The uid of a pod, as the API has it.
pub(super) fn pod_uid(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

/// The id that containerd gave a container; part 0 is the sandbox.
pub(super) fn container_id(pod: usize, part: usize) -> String {
    format!("{part:032x}{pod:032x}")
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.sleepers.clear();
        // A cgroup can only go when those below it have gone.
        while self.groups.pop().is_some() {}
    }
}
