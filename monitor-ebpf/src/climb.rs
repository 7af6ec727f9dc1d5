// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Walks from a task's own run queue up towards the root, level by level.

use isobar_ebpf::LEVELS;

use crate::layout::{
    Object, SE_CFS_RQ, SE_PARENT, TASK_CFS_RQ, TASK_SE_DEPTH, TASK_SE_PARENT, load,
};

/// Repeats a block [`LEVELS`] times in the source. As a loop, the verifier gives up on it at a
/// million instructions (6.12).
macro_rules! each_level {
    ($label:lifetime, $body:block) => {
        $label: {
            $body $body $body $body $body $body $body $body
        }
    };
}

pub(crate) use each_level;

const _: () = assert!(LEVELS == 8, "each_level! writes out eight");

/// A walk from a task's own run queue up to the level below the root.
pub(crate) struct Climb {
    /// This level's run queue on the task's CPU.
    pub(crate) cfs_rq: Object,
    /// This level's group as an entity of the parent's run queue; NULL for the root.
    entity: Object,
    /// Levels below the root.
    pub(crate) depth: i32,
}

impl Climb {
    /// # Safety
    /// `task` is a `task_struct`.
    #[inline(always)]
    pub(crate) unsafe fn from(task: Object) -> Self {
        // SAFETY: member types as named.
        unsafe {
            Self {
                cfs_rq: load(task, &TASK_CFS_RQ),
                entity: load(task, &TASK_SE_PARENT),
                depth: load(task, &TASK_SE_DEPTH),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn is_at_root(&self) -> bool {
        self.entity.is_null()
    }

    /// This level's index into [`isobar_ebpf::Cpu::chain`].
    #[inline(always)]
    pub(crate) fn slot(&self) -> usize {
        (self.depth as usize) & (LEVELS - 1)
    }

    #[inline(always)]
    pub(crate) fn up(&mut self) {
        // SAFETY: not at the root, so `entity` is a `sched_entity`.
        unsafe {
            self.cfs_rq = load(self.entity, &SE_CFS_RQ);
            self.entity = load(self.entity, &SE_PARENT);
        }
        self.depth -= 1;
    }
}
