//! From the root down to one cgroup, name by name.
//!
//! A path is text, and a name need not be: U+FFFD in a path stands for bytes that are no UTF-8, so
//! several directories can have that path. Each of them is tried, and the id tells which it is.
//! Otherwise a user could take his cgroups out of reach by a name.

use std::ffi::CString;
use std::rc::Rc;

use super::{CgroupDir, Root};
use crate::act::error::ActError;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};

/// A directory to open on the way down.
struct Way<'a> {
    above: Rc<CgroupDir>,
    name: CString,
    /// The names that follow.
    below: &'a [&'a str],
}

impl CgroupDir {
    /// Opens the cgroup at `path`, if it is still the one with this id.
    pub(in crate::act) fn open(
        root: &Root,
        path: &CgroupPath,
        id: CgroupId,
    ) -> Result<Self, ActError> {
        let names = names(path)?;
        let top = Self::top(root)?;
        if names.is_empty() {
            return top.checked(id);
        }
        let mut failed = ActError::Gone(path.clone());
        let mut ways = Rc::new(top).ways(&names)?;
        while let Some(Way { above, name, below }) = ways.pop() {
            let found = above.child(&name).and_then(|found| match below {
                [] => found.checked(id).map(Some),
                below => Rc::new(found).ways(below).map(|more| {
                    ways.extend(more);
                    None
                }),
            });
            match found {
                Ok(Some(found)) => return Ok(found),
                // Of several, one that could not be looked at may have been it.
                Err(why) if !matches!(why, ActError::Gone(_)) && failed.is_gone() => failed = why,
                Ok(None) | Err(_) => {}
            }
        }
        Err(failed)
    }

    fn checked(self, id: CgroupId) -> Result<Self, ActError> {
        match self.id == id {
            true => Ok(self),
            false => Err(ActError::Stranger { path: self.path, found: self.id, want: id }),
        }
    }

    /// The directories in this one that the first of these names may mean.
    fn ways<'a>(self: Rc<Self>, names: &'a [&'a str]) -> Result<Vec<Way<'a>>, ActError> {
        let Some((first, below)) = names.split_first() else { return Ok(Vec::new()) };
        let spelled = match first.contains(char::REPLACEMENT_CHARACTER) {
            false => vec![CString::new(*first).map_err(|_| ActError::Path(self.path.clone()))?],
            true => {
                let mut all = self.names(usize::MAX).map_err(|why| self.unread("", why))?;
                all.retain(|name| name.to_string_lossy() == *first);
                all
            }
        };
        let way = |name| Way { above: Rc::clone(&self), name, below };
        Ok(spelled.into_iter().map(way).collect())
    }
}

/// The names on the way down; none for the root.
fn names(path: &CgroupPath) -> Result<Vec<&str>, ActError> {
    if path.is_root() {
        return Ok(Vec::new());
    }
    let names = path.0.strip_prefix('/').ok_or_else(|| ActError::Path(path.clone()))?;
    let names: Vec<&str> = names.split('/').collect();
    match names.iter().any(|name| matches!(*name, "" | "." | "..")) {
        true => Err(ActError::Path(path.clone())),
        false => Ok(names),
    }
}
