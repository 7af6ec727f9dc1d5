//! Why a file gave no reading, and how that is told in a sample.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::lines::Torn;
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::{Gap, GapReason};

/// Why one file gave no reading. Becomes a [`Gap`]; nobody stops for it.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The cgroup ended between listing and reading. Routine: it is left out.
    #[error("cgroup {0} is gone")]
    Gone(CgroupPath),
    /// The file cannot be opened or read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel printed something else than this version understands.
    #[error("{path} line {line}: expected {wanted}, found {found:?}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What should be there.
        wanted: &'static str,
        /// The line's beginning.
        found: String,
    },
    /// As [`ReadError::Format`], where a crate reads the file and knows no line.
    #[error("{path} is not understood: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// In the crate's words.
        reason: String,
    },
}

impl ReadError {
    pub(crate) fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }

    pub(crate) fn torn(path: &Path, torn: Torn) -> Self {
        let Torn { line, wanted, found } = torn;
        Self::Format { path: path.into(), line, wanted, found }
    }

    pub(crate) fn reason(&self) -> GapReason {
        match self {
            Self::Gone(_) => GapReason::Gone,
            Self::Format { .. } | Self::Foreign { .. } => GapReason::Torn,
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
            Self::Format { path, .. } | Self::Foreign { path, .. } => {
                (path.display().to_string(), self.to_string())
            }
        };
        Gap { object, why: self.reason(), detail }
    }
}

/// A line that is new to this version: what it does know was read.
pub(crate) fn unknown_line(path: &Path, line: usize) -> Gap {
    Gap {
        object: path.display().to_string(),
        why: GapReason::Unsupported,
        detail: format!("line {line} has something that this version does not know"),
    }
}

/// The gaps of one tick. What befalls the same file of many cgroups alike is told a few times
/// and then counted, so that a node with a thousand cgroups has a readable list.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    told: Vec<Gap>,
    alike: BTreeMap<(&'static str, GapReason), Alike>,
}

#[derive(Debug, Default)]
struct Alike {
    told: usize,
    untold: usize,
    /// The one told last, which carries the count of the rest.
    last: usize,
}

impl Gaps {
    /// Notes a gap of a `kind`, mostly the file's name.
    pub(crate) fn note(&mut self, kind: &'static str, gap: Gap) {
        let room = match gap.why {
            // What the kernel does not offer, it does not offer anywhere: one will do.
            GapReason::Unsupported => 1,
            _ => 8,
        };
        self.note_up_to(room, kind, gap);
    }

    /// As [`Gaps::note`]; the first `room` of a kind are told, the others counted.
    pub(crate) fn note_up_to(&mut self, room: usize, kind: &'static str, gap: Gap) {
        let alike = self.alike.entry((kind, gap.why)).or_default();
        if alike.told < room {
            alike.told += 1;
            alike.last = self.told.len();
            self.told.push(gap);
        } else {
            alike.untold += 1;
        }
    }

    /// Notes a gap that is told in full, however many there are like it.
    pub(crate) fn tell(&mut self, gap: Gap) {
        self.told.push(gap);
    }

    /// All gaps, in the order in which they were met.
    pub(crate) fn finish(mut self) -> Vec<Gap> {
        for alike in self.alike.values().filter(|alike| alike.untold > 0) {
            let detail = &mut self.told[alike.last].detail;
            detail.push_str(&format!("; and alike in {} more cgroups", alike.untold));
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_every_cgroup_is_told_a_few_times_and_counted() {
        #[rustfmt::skip]
        let table = [
            // why, how many, told, end of the last
            (GapReason::Unsupported, 1,     1, "no"),
            (GapReason::Unsupported, 1_000, 1, "no; and alike in 999 more cgroups"),
            (GapReason::Torn,        8,     8, "no"),
            (GapReason::Torn,        9,     8, "no; and alike in 1 more cgroups"),
        ];
        for (why, n, told, end) in table {
            let mut gaps = Gaps::default();
            for object in 0..n {
                gaps.note("cpu.stat", Gap { object: object.to_string(), why, detail: "no".into() });
            }
            let all = gaps.finish();
            assert_eq!(all.len(), told, "{why:?} {n}");
            assert_eq!(all.last().unwrap().detail, end, "{why:?} {n}");
        }
    }

    #[test]
    fn a_gap_says_what_the_kernel_said() {
        let io = |errno: Errno| ReadError::io(Path::new("/f"), errno);
        let torn = Torn::new(3, "a number", b"x");
        #[rustfmt::skip]
        let table = [
            (ReadError::Gone(CgroupPath("/a".into())), GapReason::Gone, "/a", "cgroup /a is gone"),
            (io(Errno::NOENT), GapReason::Unsupported, "/f", "No such file or directory (os error 2)"),
            (io(Errno::OPNOTSUPP), GapReason::Unsupported, "/f", "Operation not supported (os error 95)"),
            (io(Errno::ACCESS), GapReason::Denied, "/f", "Permission denied (os error 13)"),
            (io(Errno::MFILE), GapReason::Failed, "/f", "Too many open files (os error 24)"),
            (ReadError::torn(Path::new("/f"), torn), GapReason::Torn, "/f", "/f line 3: expected a number, found \"x\""),
        ];
        for (error, why, object, detail) in table {
            let want = Gap { object: object.into(), why, detail: detail.into() };
            assert_eq!(error.gap(), want, "{error:?}");
        }
    }
}
