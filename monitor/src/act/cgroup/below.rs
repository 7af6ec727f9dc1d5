//! What lies below a cgroup, and its processes. A tenant may make a tree of its own as deep and as
//! wide as it likes: a bounded part of it is looked at, with few descriptors and without recursion.

use rustix::io::Errno;

use super::CgroupDir;
use crate::act::error::ActError;

/// Cgroups below one that are looked at, at most. What is written to a cgroup holds for all below it.
const MOST: usize = 2048;
/// Levels that are looked at, at most.
const DEEPEST: usize = 64;
/// How often processes are listed until all of them can be identified.
const TRIES: usize = 3;

/// What a list of the processes in and below a cgroup lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::act) struct Unlisted {
    /// Processes that this PID namespace does not show.
    pub(in crate::act) hidden: u64,
    /// There are more cgroups than are looked at.
    pub(in crate::act) is_cut: bool,
}

impl CgroupDir {
    /// True if no process is in it or below it.
    pub(in crate::act) fn is_empty(&self) -> bool {
        let mut pids = Vec::new();
        let none = Unlisted { hidden: 0, is_cut: false };
        self.pids(&mut pids).is_ok_and(|unlisted| unlisted == none && pids.is_empty())
    }

    /// True if the kernel says that a process is in it or below it.
    pub(in crate::act) fn is_populated(&self) -> bool {
        let events = self.read("cgroup.events");
        events.is_ok_and(|text| text.lines().any(|line| line == "populated 1"))
    }

    /// Adds the processes in it and below it to `pids`.
    pub(in crate::act) fn pids(&self, pids: &mut Vec<u32>) -> Result<Unlisted, ActError> {
        let known = pids.len();
        let mut unlisted = self.list(pids)?;
        // One that ends while it is listed cannot be identified either.
        for _ in 1..TRIES {
            if unlisted.hidden == 0 {
                break;
            }
            pids.truncate(known);
            unlisted = self.list(pids)?;
        }
        Ok(unlisted)
    }

    fn list(&self, pids: &mut Vec<u32>) -> Result<Unlisted, ActError> {
        let mut hidden = self.list_own(pids)?;
        let is_cut = self.each_below(|below| {
            hidden += match below.list_own(pids) {
                // A threaded one: its processes are listed in the cgroup above it.
                Err(ActError::Read { why: Errno::OPNOTSUPP, .. }) => 0,
                listed => listed?,
            };
            Ok(())
        })?;
        Ok(Unlisted { hidden, is_cut })
    }

    /// Adds those in this cgroup itself; how many are hidden.
    fn list_own(&self, pids: &mut Vec<u32>) -> Result<u64, ActError> {
        let text = match self.read("cgroup.procs") {
            Ok(text) => text,
            Err(ActError::Read { why: Errno::NODEV, .. } | ActError::Gone(_)) => return Ok(0),
            Err(failure) => return Err(failure),
        };
        let mut hidden = 0;
        for pid in text.lines().filter_map(|line| line.parse::<u32>().ok()) {
            match pid {
                0 => hidden += 1,
                pid => pids.push(pid),
            }
        }
        Ok(hidden)
    }

    /// Looks at each cgroup below it, until one is an error; whether there may be more.
    pub(in crate::act) fn each_below(
        &self,
        mut look: impl FnMut(&Self) -> Result<(), ActError>,
    ) -> Result<bool, ActError> {
        let (mut n_left, mut is_too_deep) = (MOST, false);
        let mut names_in = |dir: &Self| {
            let names = match dir.names(n_left) {
                // In one that is gone nothing is left.
                Err(Errno::NOENT | Errno::NODEV) => Ok(Vec::new()),
                names => names.map_err(|why| dir.unread("", why)),
            }?;
            n_left -= names.len();
            Ok::<_, ActError>(names)
        };
        // From this one down to where the walk is: each with the names in it that it has not come to.
        let mut way = vec![(None, names_in(self)?)];
        while let Some((dir, names)) = way.last_mut() {
            let Some(name) = names.pop() else {
                way.pop();
                continue;
            };
            let below = match dir.as_ref().unwrap_or(self).child(&name) {
                Err(ActError::Gone(_)) => continue,
                below => below?,
            };
            look(&below)?;
            is_too_deep |= way.len() == DEEPEST;
            if way.len() < DEEPEST {
                let names = names_in(&below)?;
                way.push((Some(below), names));
            }
        }
        Ok(is_too_deep || n_left == 0)
    }
}
