//! Tells which files no cgroup can have, once for the place where that is decided: a controller
//! that is off is one gap, not one for each file of each cgroup below.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use super::Turn;
use super::files::{Controller, File, FileSet};
use super::group::Group;
use super::kept::Reader;
use super::parse;
use crate::source::gap::{Gaps, ReadError};
use crate::source::mounts::{Extent, Root};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::sample::{Gap, GapReason};

/// What is missing in one tick's tree.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// The controllers of the root, each by its mark.
    at_root: FileSet,
    /// Cgroups that have a controller and do not pass it on, with the marks of those.
    withheld: BTreeMap<CgroupId, (CgroupPath, FileSet)>,
}

impl Lacking {
    /// Reads which controllers the tree's root has.
    pub(crate) fn from(
        root: &Root,
        dir: BorrowedFd<'_>,
        reader: &mut Reader,
        gaps: &mut Gaps,
    ) -> Self {
        if root.extent() == Extent::Part {
            gaps.tell(unsupported(root.path().display(), "shows a part of the hierarchy: give the agent the host's cgroup namespace to see the node"));
        }
        let at_root = controllers(root, dir, reader).unwrap_or_else(|error| {
            gaps.tell(error.gap());
            // Then each cgroup that lacks one is told.
            Controller::ALL.into_iter().map(Controller::mark).collect()
        });
        for controller in Controller::ALL.into_iter().filter(|c| !at_root.has(c.mark())) {
            let object = root.path_of(&CgroupPath::root(), "cgroup.controllers");
            let detail = format!("no {} controller on cgroup v2", controller.name());
            gaps.tell(unsupported(object.display(), &detail));
        }
        Self { at_root, withheld: BTreeMap::new() }
    }

    /// Notes what `group` lacks of what `parent` has, and what its own controllers should offer.
    /// The root has few of the files of others, by design.
    pub(crate) fn note(
        &mut self,
        group: &Group,
        parent: &Group,
        root: &Root,
        turn: &Turn,
        gaps: &mut Gaps,
    ) {
        let above = if parent.parent().is_none() { self.at_root } else { parent.files };
        for controller in Controller::ALL {
            let mark = controller.mark();
            if above.has(mark) && !group.files.has(mark) {
                let none = || (parent.path().clone(), FileSet::default());
                self.withheld.entry(parent.id).or_insert_with(none).1.add(mark);
            }
        }
        for file in offered(group).without(group.files).files() {
            let gap = group.gap(file, GapReason::Unsupported, "this kernel does not have it", root);
            gaps.note(file.name(), gap);
        }
        // Without PSI on the node that one gap says all there is to say.
        if turn.node.cpu.is_some() {
            note_pressure(group, root, gaps);
        }
    }

    /// Tells of the controllers that are not passed on.
    pub(crate) fn finish(self, root: &Root, gaps: &mut Gaps) {
        for (path, marks) in self.withheld.into_values() {
            for controller in Controller::ALL.into_iter().filter(|c| marks.has(c.mark())) {
                let object = root.path_of(&path, "cgroup.subtree_control");
                let detail = format!("the {} controller is off below", controller.name());
                gaps.tell(unsupported(object.display(), &detail));
            }
        }
    }
}

/// The controllers in the root's `cgroup.controllers`, each by its mark.
fn controllers(
    root: &Root,
    dir: BorrowedFd<'_>,
    reader: &mut Reader,
) -> Result<FileSet, ReadError> {
    let path = || root.path_of(&CgroupPath::root(), "cgroup.controllers");
    let text = reader
        .read_once(dir, c"cgroup.controllers")
        .map_err(|errno| ReadError::io(&path(), errno))?;
    let names = parse::names(text).map_err(|torn| ReadError::torn(&path(), torn))?;
    let known = names.filter_map(|name| {
        Controller::ALL.into_iter().find(|known| known.name().as_bytes() == name)
    });
    Ok(known.map(Controller::mark).collect())
}

/// What a cgroup with these controllers has on a kernel that has everything.
fn offered(group: &Group) -> FileSet {
    let pressure = |file: &File| File::PRESSURE.contains(file);
    File::all()
        .filter(|file| !pressure(file))
        .filter(|file| file.controller().is_none_or(|of| group.files.has(of.mark())))
        .collect()
}

fn note_pressure(group: &Group, root: &Root, gaps: &mut Gaps) {
    for file in group.unsupported.files() {
        let gap = group.gap(file, GapReason::Unsupported, "the kernel answers EOPNOTSUPP", root);
        gaps.note(file.name(), gap);
    }
    // irq.pressure is there if and only if the node has one, and the node's gap tells.
    if group.files.has(File::CpuPressure) {
        return;
    }
    if group.has_pressure_switch {
        let object = root.path_of(group.path(), "cgroup.pressure");
        let gap = unsupported(object.display(), "0: its pressure is not accounted");
        // Set one by one, so each that fits the list is named.
        gaps.note_up_to(8, "cgroup.pressure", gap);
    } else {
        let detail = "no pressure files: boot without cgroup_disable=pressure";
        gaps.note("*.pressure", group.gap(File::CpuPressure, GapReason::Unsupported, detail, root));
    }
}

fn unsupported(object: impl ToString, detail: &str) -> Gap {
    Gap { object: object.to_string(), why: GapReason::Unsupported, detail: detail.into() }
}
