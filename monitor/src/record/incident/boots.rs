//! How long a node was up, boot by boot, as its agents noted it: incidents age by that. The wall clock
//! may be wrong by years, and another agent may have seen it before it was set.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::shelf::ShelfError;
use crate::state;
use isobar_core::model::units::Nanos;

/// With more boots the oldest are forgotten: what is of them is then as old as the boots after them say.
const KEPT: usize = 128;

/// The boots of a node, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Boots(Vec<Boot>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Boot {
    boot_id: String,
    /// Since the node was started, when an agent noted it last.
    up: Nanos,
}

impl Boots {
    /// Those that are noted in the directory; none if they never were, or the file is damaged.
    pub(super) fn read(dir: &Path) -> Result<Self, ShelfError> {
        match state::read(&file(dir)) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ShelfError::Io { path: file(dir), source }),
        }
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), ShelfError> {
        let text = serde_json::to_vec(self).expect("numbers and texts");
        state::replace_flushed(&file(dir), &text)
            .map_err(|source| ShelfError::Io { path: file(dir), source })
    }

    /// The same at `now`, in the boot `boot_id`.
    #[must_use]
    pub(super) fn at(mut self, boot_id: &str, now: Nanos) -> Self {
        match self.0.last_mut().filter(|last| last.boot_id == boot_id) {
            Some(last) => last.up = last.up.max(now),
            None => self.0.push(Boot { boot_id: boot_id.into(), up: now }),
        }
        let beyond = self.0.len().saturating_sub(KEPT);
        self.0.drain(..beyond);
        self
    }

    /// How long the node was up, at least, since the moment `at` of a boot. One that is not noted was
    /// before all that are.
    pub(super) fn since(&self, boot_id: &str, at: Nanos) -> Nanos {
        let own = self.0.iter().rposition(|boot| boot.boot_id == boot_id);
        let rest = own.map_or(Nanos(0), |own| self.0[own].up.since(at));
        let later = &self.0[own.map_or(0, |own| own + 1)..];
        later.iter().fold(rest, |sum, boot| sum.plus(boot.up))
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join("boots.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_adds_the_boots_after_the_moment() {
        let noted = [("a", 5), ("a", 7), ("b", 20), ("c", 1), ("c", 3)];
        let boots =
            noted.into_iter().fold(Boots::default(), |boots, (id, up)| boots.at(id, Nanos(up)));
        #[rustfmt::skip]
        let table = [
            // boot, moment in it, how long ago it is
            ("c",    1, 2),
            ("c",    9, 0),
            ("b",   15, 8),
            ("a",    6, 24),
            ("none", 6, 30),
        ];
        for (boot_id, at, want) in table {
            assert_eq!(boots.since(boot_id, Nanos(at)), Nanos(want), "{boot_id} {at}");
        }
    }

    #[test]
    fn read_begins_anew_where_the_file_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Boots::read(dir.path()).unwrap(), Boots::default());
        let many =
            (0..KEPT + 2).fold(Boots::default(), |boots, n| boots.at(&n.to_string(), Nanos(1)));
        many.write(dir.path()).unwrap();
        assert_eq!(Boots::read(dir.path()).unwrap(), many);
        assert_eq!(many.since("0", Nanos(0)), Nanos(KEPT as u64), "the oldest is forgotten");
        std::fs::write(file(dir.path()), "{").unwrap();
        assert_eq!(Boots::read(dir.path()).unwrap(), Boots::default());
    }
}
