//! What lies below a cgroup, and its processes. A tenant may make a tree of its own as deep and as
//! wide as it likes: a bounded part of it is looked at, with few descriptors and without recursion.

use rustix::io::Errno;

use super::CgroupDir;
use crate::act::error::ActError;

/// Cgroups below one that are looked at, at most. What is written to a cgroup holds for all below it
/// in any case; isobar, process 1 and what the configuration names do not lie among so many.
const MOST: usize = 2048;
/// Levels that are looked at, at most.
const DEEPEST: usize = 64;
/// How often processes are listed until all of them can be identified.
const TRIES: usize = 3;

impl CgroupDir {
    /// True if no process is in it or below it.
    pub(in crate::act) fn is_empty(&self) -> bool {
        let mut pids = Vec::new();
        self.pids(&mut pids).is_ok_and(|hidden| hidden == 0 && pids.is_empty())
    }

    /// Adds the processes in it and below it to `pids`; how many are there that cannot be seen
    /// from this PID namespace.
    pub(in crate::act) fn pids(&self, pids: &mut Vec<u32>) -> Result<u64, ActError> {
        let known = pids.len();
        let mut hidden = self.list(pids)?;
        // One that ends while it is listed cannot be identified either.
        for _ in 1..TRIES {
            if hidden == 0 {
                break;
            }
            pids.truncate(known);
            hidden = self.list(pids)?;
        }
        Ok(hidden)
    }

    fn list(&self, pids: &mut Vec<u32>) -> Result<u64, ActError> {
        let mut hidden = self.list_own(pids)?;
        self.each_below(|below| {
            hidden += match below.list_own(pids) {
                // A threaded one: its processes are listed in the cgroup above it.
                Err(ActError::Read { why: Errno::OPNOTSUPP, .. }) => 0,
                listed => listed?,
            };
            Ok(())
        })?;
        Ok(hidden)
    }

    /// The same of those that are in this cgroup itself.
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

    /// Looks at each cgroup below it, until one is an error.
    pub(in crate::act) fn each_below(
        &self,
        mut look: impl FnMut(&Self) -> Result<(), ActError>,
    ) -> Result<(), ActError> {
        let mut n_left = MOST;
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
            if way.len() < DEEPEST {
                let names = names_in(&below)?;
                way.push((Some(below), names));
            }
        }
        Ok(())
    }
}
