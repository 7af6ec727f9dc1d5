//! Why a file gave no reading, and how a sample reports it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::{Gap, GapReason};

/// Why one file gave no reading. Becomes a [`Gap`]; the rest of the sample is read all the same.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The cgroup was removed between listing and reading. Routine: the sample leaves it out.
    #[error("cgroup {0} is gone")]
    Gone(CgroupPath),
    #[error("cannot read {path}")]
    Io { path: PathBuf, source: io::Error },
    /// The kernel printed something that this version does not understand.
    #[error("cannot parse {path}: {reason}")]
    Format { path: PathBuf, reason: String },
}

impl ReadError {
    pub(crate) fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }

    pub(crate) fn format(path: &Path, reason: impl Display) -> Self {
        Self::Format { path: path.into(), reason: reason.to_string() }
    }

    pub(crate) fn reason(&self) -> GapReason {
        match self {
            Self::Gone(_) => GapReason::Gone,
            Self::Format { .. } => GapReason::Torn,
            Self::Io { source, .. } => match Errno::from_io_error(source) {
                Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => GapReason::Unsupported,
                Some(Errno::ACCESS | Errno::PERM) => GapReason::Denied,
                _ => GapReason::Failed,
            },
        }
    }

    pub(crate) fn gap(&self) -> Gap {
        let (object, detail) = match self {
            Self::Gone(path) => (path.to_string(), self.to_string()),
            Self::Io { path, source } => (path.display().to_string(), source.to_string()),
            Self::Format { path, reason } => (path.display().to_string(), reason.clone()),
        };
        Gap { object, why: self.reason(), detail }
    }
}

/// Reads a whole file and parses it.
pub(crate) fn read<T, E: Display>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<T, ReadError> {
    let text = fs::read(path).map_err(|error| ReadError::io(path, error))?;
    parse(&text).map_err(|error| ReadError::format(path, error))
}

/// A line with a key that this version does not know; the known keys were read.
pub(crate) fn unknown_line(path: &Path, line: usize) -> Gap {
    Gap {
        object: path.display().to_string(),
        why: GapReason::Unsupported,
        detail: format!("line {line} has a key that this version of isobar does not know"),
    }
}

/// The gaps of one tick. If the same file fails in many cgroups for the same reason, the first few
/// are listed and the others counted, so that the list stays readable with a thousand cgroups.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    listed: Vec<Gap>,
    by_kind: BTreeMap<(&'static str, GapReason), Kind>,
}

#[derive(Debug, Default)]
struct Kind {
    n_listed: usize,
    n_unlisted: usize,
    /// Index of the gap listed last: its text carries the count of those not listed.
    last: usize,
}

impl Gaps {
    /// Adds a gap unconditionally.
    pub(crate) fn add(&mut self, gap: Gap) {
        self.listed.push(gap);
    }

    /// The value, or `None` and a gap.
    pub(crate) fn ok<T>(&mut self, read: Result<T, ReadError>) -> Option<T> {
        read.map_err(|error| self.add(error.gap())).ok()
    }

    /// Adds a gap of a `kind` (usually the file's name) that many cgroups may have.
    pub(crate) fn add_of(&mut self, kind: &'static str, gap: Gap) {
        let room = match gap.why {
            // What this kernel lacks, it lacks in every cgroup: one example will do.
            GapReason::Unsupported => 1,
            _ => 8,
        };
        self.add_up_to(room, kind, gap);
    }

    /// As [`Gaps::add_of`]: lists the first `room` of a kind and counts the others.
    pub(crate) fn add_up_to(&mut self, room: usize, kind: &'static str, gap: Gap) {
        let kind = self.by_kind.entry((kind, gap.why)).or_default();
        if kind.n_listed < room {
            kind.n_listed += 1;
            kind.last = self.listed.len();
            self.listed.push(gap);
        } else {
            kind.n_unlisted += 1;
        }
    }

    /// All gaps, in the order in which they were found.
    pub(crate) fn finish(mut self) -> Vec<Gap> {
        for kind in self.by_kind.values().filter(|kind| kind.n_unlisted > 0) {
            let detail = &mut self.listed[kind.last].detail;
            detail.push_str(&format!("; the same in {} more cgroups", kind.n_unlisted));
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::lines::Torn;

    #[test]
    fn gaps_list_a_few_of_a_kind_and_count_the_rest() {
        #[rustfmt::skip]
        let table = [
            // reason, number, listed, end of the last
            (GapReason::Unsupported, 1,     1, "no"),
            (GapReason::Unsupported, 1_000, 1, "no; the same in 999 more cgroups"),
            (GapReason::Torn,        8,     8, "no"),
            (GapReason::Torn,        9,     8, "no; the same in 1 more cgroups"),
        ];
        for (why, n, listed, end) in table {
            let mut gaps = Gaps::default();
            for object in 0..n {
                gaps.add_of(
                    "cpu.stat",
                    Gap { object: object.to_string(), why, detail: "no".into() },
                );
            }
            let all = gaps.finish();
            assert_eq!(all.len(), listed, "{why:?} {n}");
            assert_eq!(all.last().unwrap().detail, end, "{why:?} {n}");
        }
    }

    #[test]
    fn read_error_gap_has_the_kernels_text() {
        let io = |errno: Errno| ReadError::io(Path::new("/f"), errno);
        let torn = Torn::new(3, "a number", b"x");
        #[rustfmt::skip]
        let table = [
            (ReadError::Gone(CgroupPath("/a".into())), GapReason::Gone, "/a", "cgroup /a is gone"),
            (io(Errno::NOENT), GapReason::Unsupported, "/f", "No such file or directory (os error 2)"),
            (io(Errno::OPNOTSUPP), GapReason::Unsupported, "/f", "Operation not supported (os error 95)"),
            (io(Errno::ACCESS), GapReason::Denied, "/f", "Permission denied (os error 13)"),
            (io(Errno::MFILE), GapReason::Failed, "/f", "Too many open files (os error 24)"),
            (ReadError::format(Path::new("/f"), torn), GapReason::Torn, "/f", "line 3: expected a number, found \"x\""),
        ];
        for (error, why, object, detail) in table {
            let want = Gap { object: object.into(), why, detail: detail.into() };
            assert_eq!(error.gap(), want, "{error:?}");
        }
    }
}
