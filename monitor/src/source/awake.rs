//! Who ran since the last reading. The kernel side sees every switch, so files of cgroups that have
//! slept need not be read again.

use std::collections::BTreeSet;

use isobar_core::model::cgroup::CgroupId;

/// The cgroups whose own tasks may have run since the last reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Awake {
    /// Not known: all.
    #[default]
    Unknown,
    /// All others have slept.
    These {
        cgroups: BTreeSet<CgroupId>,
        /// What runs without a switch is known by its run queue alone, which only cgroups with the
        /// cpu controller have of their own.
        by_queue: bool,
    },
}
