//! The only maker of a finished [`Sample`]: what was read, the pods, what the actuator has done and
//! what it has in force.

use std::path::PathBuf;
use std::time::Duration;

use super::actuator::Report;
use super::pace::Alarms;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::cost::KernelCost;
use isobar_core::model::disk::PodDisks;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Cause, Gap, Sample};
use isobar_core::model::settings::{Node, Settings};
use isobar_core::model::workload::Pods;
use isobar_core::view::suspects::Suspect;
use isobar_core::view::verdict::Resource;

/// Reads the node. Dropping it detaches what it attached.
pub trait Source: Send + 'static {
    /// What is true for as long as the node is up.
    fn facts(&self) -> NodeFacts;
    /// Reads everything once, because of `cause`; `node` says where the kubelet makes its cgroups.
    fn read(&mut self, cause: Cause, node: &Node) -> Reading;
    /// What calls for a sooner tick; asked for once, before the first.
    fn alarms(&mut self) -> Alarms;
    /// Cgroups of this sample that are watched more closely until the next call.
    fn suspect(&mut self, suspects: Vec<CgroupId>, sample: &Sample);
    /// Whose processes are to be in the next samples, for a resource that is short; asked for when a
    /// look at them is due.
    fn look_for(&mut self, suspect: impl Fn(Resource) -> Option<Suspect>);
    /// The top of the cgroup v2 tree that is read; `None` where there is none to act on.
    fn cgroup_root(&self) -> Option<PathBuf>;
    /// Detaches what it attached. What takes longer than `patience` goes on without this process;
    /// how much does.
    fn leave(self, patience: Duration) -> usize;
}

/// What one reading gives.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub sample: Sample,
    /// What can be measured and what cannot.
    pub capabilities: Vec<Capability>,
    pub kernel: KernelCost,
}

/// Joins the sources.
#[derive(Debug)]
pub(super) struct Sampler<S> {
    pub(super) source: S,
    /// Those of the operator's file.
    pub(super) pods: Option<Pods>,
    /// Those of the API server, which knows better.
    pub(super) listed: Option<Pods>,
    /// Without such a file those that an agent before this one knew, until the API server names them.
    pub(super) left: Option<Pods>,
    /// Whether there is an API server that may name them.
    pub(super) awaits_names: bool,
    /// What they have on disk.
    pub(super) disks: Option<PodDisks>,
    /// What of that could not be measured.
    pub(super) disk_gaps: Vec<Gap>,
}

impl<S: Source> Sampler<S> {
    /// Without an API server.
    pub(super) fn new(source: S, pods: Option<Pods>) -> Self {
        let (listed, left, awaits_names, disks, disk_gaps) = Default::default();
        Self { source, pods, listed, left, awaits_names, disks, disk_gaps }
    }

    /// The pods that the cluster has named, to this agent or to the one before it.
    pub(super) fn of_cluster(&self) -> Option<&Pods> {
        self.listed.as_ref().or(self.left.as_ref())
    }

    /// Tells what names the pods while the cluster does not.
    pub(super) fn name_source(&self, all: &mut Vec<Capability>) {
        if self.listed.is_none() {
            name_source(all, self.pods.as_ref(), self.left.as_ref());
        }
    }

    /// The sample of one tick. `report` is what the actuator reported since the last one; `None`
    /// where there is no actuator.
    pub(super) fn sample(
        &mut self,
        cause: Cause,
        report: Option<Report>,
        settings: &Settings,
    ) -> Reading {
        let mut reading = self.source.read(cause, &settings.node);
        let sample = &mut reading.sample;
        let known = [&self.listed, &self.pods, &self.left].into_iter().flatten().next();
        (sample.pods, sample.awaits_names) = (known.cloned(), self.awaits_names);
        sample.pod_disks.clone_from(&self.disks);
        sample.gaps.extend(self.disk_gaps.iter().cloned());
        sample.generation = settings.generation;
        if let Some(Report { outcomes, in_force, available_steps }) = report {
            (sample.outcomes, sample.in_force) = (outcomes, in_force);
            sample.available_steps = Some(available_steps);
        }
        reading
    }
}

/// `file` are the pods of the operator's, `left` those of an agent before this one.
fn name_source(all: &mut Vec<Capability>, file: Option<&Pods>, left: Option<&Pods>) {
    let words = match (file, left) {
        (Some(pods), _) => format!("{} pods by the operator's file", pods.len()),
        (None, Some(pods)) => format!("{} pods as the agent before knew them", pods.len()),
        (None, None) => "by the names of their cgroups alone".into(),
    };
    if let Some(of_cluster) = all.iter_mut().find(|one| one.name == "pods") {
        of_cluster.detail = format!("{}; {words}", of_cluster.detail);
        return;
    }
    all.push(Capability::new("pods", CapabilityState::Attached, words));
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::workload::Pod;
    use std::sync::Arc;

    #[test]
    fn name_source_beside_what_the_cluster_says() {
        let pods = |uids: &[&str]| -> Pods {
            let pods = uids.iter().map(|uid| ((*uid).to_owned(), Pod::default()));
            Arc::new(pods.collect())
        };
        let (file, left) = (pods(&["u1"]), pods(&["u1", "u2"]));
        let failing =
            Capability::new("pods", CapabilityState::Absent, "cannot reach the API server");
        #[rustfmt::skip]
        let table = [
            // the cluster says, the operator's file, left by an agent, state, detail
            (None,           None,        None,        CapabilityState::Attached, "by the names of their cgroups alone"),
            (None,           Some(&file), None,        CapabilityState::Attached, "1 pods by the operator's file"),
            (Some(&failing), None,        None,        CapabilityState::Absent,   "cannot reach the API server; by the names of their cgroups alone"),
            (Some(&failing), Some(&file), Some(&left), CapabilityState::Absent,   "cannot reach the API server; 1 pods by the operator's file"),
            (Some(&failing), None,        Some(&left), CapabilityState::Absent,   "cannot reach the API server; 2 pods as the agent before knew them"),
        ];
        for (of_cluster, file, left, state, detail) in table {
            let mut all: Vec<_> = of_cluster.cloned().into_iter().collect();
            name_source(&mut all, file, left);
            let [pods] = &all[..] else { panic!("{all:?}") };
            assert_eq!((pods.state, &*pods.detail), (state, detail));
        }
    }
}
