//! Reports files that cgroups lack, once at the place that decides it: a controller that is off is
//! one gap, not one for each file of each cgroup below.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use super::Tick;
use super::descriptors::Reader;
use super::files::{Controller, File, FileSet};
use super::group::Group;
use super::parse;
use crate::source::gap::{Gaps, ReadError};
use crate::source::mounts::{Extent, Root};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::sample::{Gap, GapReason};

/// What is missing in one tick's tree. A controller stands in a [`FileSet`] as its mark.
#[derive(Debug)]
pub(crate) struct Missing {
    at_root: FileSet,
    /// Cgroups that have a controller and do not enable it for their children.
    withheld: BTreeMap<CgroupId, (CgroupPath, FileSet)>,
}

impl Missing {
    /// Reads which controllers the tree's root has.
    pub(crate) fn at_root(root: &Root, reader: &mut Reader, gaps: &mut Gaps) -> Self {
        if root.extent == Extent::Part {
            let detail = "shows a part of the hierarchy: run isobar in the host's cgroup namespace";
            gaps.add(unsupported(root.path.display(), detail));
        }
        let at_root = gaps.ok(controllers(root, reader)).unwrap_or_else(|| {
            // Each cgroup without a controller is then reported.
            Controller::ALL.into_iter().map(Controller::mark).collect()
        });
        for controller in Controller::ALL.into_iter().filter(|c| !at_root.has(c.mark())) {
            let object = root.path_of(&CgroupPath::root(), "cgroup.controllers");
            let name = controller.name();
            let detail =
                format!("no {name} controller on cgroup v2: boot with cgroup_no_v1={name}");
            gaps.add(unsupported(object.display(), &detail));
        }
        Self { at_root, withheld: BTreeMap::new() }
    }

    /// Notes which of the controllers of `parent` its child `group` lacks, and which files `group`
    /// lacks although it has their controller. The root has few files by design.
    pub(crate) fn note(
        &mut self,
        group: &Group,
        parent: &Group,
        root: &Root,
        tick: &Tick,
        gaps: &mut Gaps,
    ) {
        let above = if parent.parent().is_none() { self.at_root } else { parent.files };
        for mark in Controller::ALL.map(Controller::mark) {
            if above.has(mark) && !group.files.has(mark) {
                let none = || (parent.path().clone(), FileSet::default());
                self.withheld.entry(parent.id).or_insert_with(none).1.add(mark);
            }
        }
        for file in expected(group).without(group.files).files() {
            let gap = group.gap(file, GapReason::Unsupported, "this kernel does not have it", root);
            gaps.add_of(file.name(), gap);
        }
        // Without PSI on the node, the gap of the node is enough.
        if tick.pressure.cpu.is_some() {
            note_pressure(group, root, gaps);
        }
    }

    /// Reports the controllers that are not enabled for children.
    pub(crate) fn finish(self, root: &Root, gaps: &mut Gaps) {
        for (path, marks) in self.withheld.into_values() {
            for controller in Controller::ALL.into_iter().filter(|c| marks.has(c.mark())) {
                let object = root.path_of(&path, "cgroup.subtree_control");
                let name = controller.name();
                let detail =
                    format!("the {name} controller is off below: write +{name} to enable it");
                gaps.add(unsupported(object.display(), &detail));
            }
        }
    }
}

/// The controllers in the root's `cgroup.controllers`.
fn controllers(root: &Root, reader: &mut Reader) -> Result<FileSet, ReadError> {
    let path = || root.path_of(&CgroupPath::root(), "cgroup.controllers");
    let text = reader
        .read_once(root.dir.as_fd(), c"cgroup.controllers")
        .map_err(|errno| ReadError::io(&path(), errno))?;
    let names = parse::names(text).map_err(|torn| ReadError::format(&path(), torn))?;
    let known = names.filter_map(|name| {
        Controller::ALL.into_iter().find(|known| known.name().as_bytes() == name)
    });
    Ok(known.map(Controller::mark).collect())
}

/// The files, pressure files excepted, that a cgroup with these controllers has on a kernel with
/// every feature.
fn expected(group: &Group) -> FileSet {
    File::all()
        .filter(|file| !File::PRESSURE.contains(file))
        .filter(|file| file.controller().is_none_or(|of| group.files.has(of.mark())))
        .collect()
}

fn note_pressure(group: &Group, root: &Root, gaps: &mut Gaps) {
    for file in group.unsupported.files() {
        let gap = group.gap(file, GapReason::Unsupported, "the kernel answers EOPNOTSUPP", root);
        gaps.add_of(file.name(), gap);
    }
    // A cgroup has irq.pressure if and only if the node has, and the node's gap reports it.
    if group.files.has(File::CpuPressure) {
        return;
    }
    if group.has_pressure_switch {
        let object = root.path_of(group.path(), "cgroup.pressure");
        let gap = unsupported(object.display(), "is 0: write 1 to account this cgroup's pressure");
        // The operator sets it cgroup by cgroup, so each that fits the list is named.
        gaps.add_up_to(8, "cgroup.pressure", gap);
    } else {
        let detail = "no pressure files: boot without cgroup_disable=pressure";
        let gap = group.gap(File::CpuPressure, GapReason::Unsupported, detail, root);
        gaps.add_of("*.pressure", gap);
    }
}

fn unsupported(object: impl ToString, detail: &str) -> Gap {
    Gap { object: object.to_string(), why: GapReason::Unsupported, detail: detail.into() }
}
