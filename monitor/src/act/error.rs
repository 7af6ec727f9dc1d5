//! What a step came to, and why one could not be taken, in words that name the object and the way
//! out.

use rustix::io::Errno;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::units::Bytes;
use std::fmt;

/// A step that is over.
#[derive(Debug)]
pub(super) struct Done {
    /// What was done, in words.
    pub(super) detail: String,
    /// Memory that came back, where it was measured.
    pub(super) freed: Option<Bytes>,
}

impl From<String> for Done {
    fn from(detail: String) -> Self {
        Self { detail, freed: None }
    }
}

/// Why a step could not be taken, or only on a part of the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ActError {
    #[error("cgroup {0} is gone")]
    Gone(CgroupPath),
    #[error("cgroup {path} is a different cgroup now: its id is {}, not {}", found.0, want.0)]
    Stranger { path: CgroupPath, found: CgroupId, want: CgroupId },
    #[error("{0:?} is no path of a cgroup: one begins with / and names each directory once")]
    Path(CgroupPath),
    #[error("cgroup {path} is never touched: {rule}")]
    Guarded { path: CgroupPath, rule: Rule },
    #[error("no cgroup of {0} is known")]
    Nowhere(String),
    #[error("{path}/{file} is not there: {}", lacking(file))]
    Lacking { path: CgroupPath, file: &'static str },
    #[error("cannot read {path}/{file}: {}", because(*why, file))]
    Read { path: CgroupPath, file: &'static str, why: Errno },
    #[error("cannot write {text:?} to {path}/{file}: {}", because(*why, file))]
    Write { path: CgroupPath, file: &'static str, text: String, why: Errno },
    #[error("cannot read {path}/{file}: expected {expected}, found {found:?}")]
    Text { path: CgroupPath, file: &'static str, expected: &'static str, found: String },
    #[error("cannot signal process {pid} of {path}: {}", unsent(*why))]
    Signal { path: CgroupPath, pid: u32, why: Errno },
    #[error(
        "{n} processes of {path} are in a PID namespace that this one does not show: run isobar \
             in the host's"
    )]
    Hidden { path: CgroupPath, n: u64 },
    #[error(
        "process {pid} of {path} has the oom_score_adj -997, which the kubelet gives to pods that \
             are critical to the node: nothing of it is ended"
    )]
    Critical { path: CgroupPath, pid: u32 },
    #[error("{path} has no cgroup that is certainly a container's: {why}")]
    NoWork { path: CgroupPath, why: &'static str },
    #[error("{0}")]
    Other(String),
}

impl ActError {
    /// True if the cgroup is not there any more. One that cannot be opened for want of memory or of
    /// file descriptors is.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Stranger { .. } | Self::Path(_))
    }
}

/// What was done with each cgroup of a target, without those that are gone: of a group the others are
/// left. The first that is gone is the error if none is.
pub(super) fn of_those_left<T>(
    each: impl Iterator<Item = Result<T, ActError>>,
) -> Result<Vec<T>, ActError> {
    let mut gone = None;
    let is_left = |one: &Result<T, ActError>| match one {
        Err(why) if why.is_gone() => {
            gone.get_or_insert_with(|| why.clone());
            false
        }
        _ => true,
    };
    let left = each.filter(is_left).collect::<Result<Vec<_>, _>>()?;
    gone.filter(|_| left.is_empty()).map_or(Ok(left), Err)
}

/// Why a cgroup is never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// `/`.
    Node,
    /// All pods, or all pods of a class.
    AllPods,
    /// `/init.scope`, or wherever process 1 is.
    Init,
    /// isobar runs in it, or below it.
    Own,
    /// It, a cgroup above it or one below it is configured so.
    Configured(PathPattern),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("it is the whole node"),
            Self::AllPods => f.write_str("it holds all pods, or all of a class"),
            Self::Init => f.write_str("process 1 runs in it"),
            Self::Own => f.write_str("isobar runs in it"),
            Self::Configured(pattern) => write!(f, "neverTouch names {pattern}"),
        }
    }
}

/// Why a cgroup has no such file.
fn lacking(file: &str) -> &'static str {
    match file {
        "memory.reclaim" => "the memory controller is off, or Linux is older than 5.19",
        "memory.high" | "memory.current" => "the memory controller is off here",
        "cpu.weight" => "the cpu controller is off here",
        "io.weight" | "io.bfq.weight" => {
            "the io controller is off here, or the scheduler of its disk knows no weight"
        }
        "cgroup.kill" => "Linux is older than 5.14, or the cgroup is threaded",
        _ => "its controller is off here",
    }
}

/// What an error of a file means to an operator, with the way out.
pub(super) fn because(why: Errno, file: &str) -> String {
    match why {
        Errno::ROFS => "the cgroup file system is mounted read-only here".into(),
        Errno::PERM | Errno::ACCESS => {
            "not permitted: run isobar as root, and let its profile write to cgroups".into()
        }
        Errno::INVAL | Errno::RANGE => "the kernel refuses this value".into(),
        Errno::OPNOTSUPP if file.starts_with("cgroup.") => "the cgroup is threaded".into(),
        why => why.to_string(),
    }
}

/// Why a signal was not sent.
fn unsent(why: Errno) -> String {
    match why {
        Errno::PERM => "not permitted: missing CAP_KILL".into(),
        Errno::NOSYS => "this kernel, or a system call filter, has no pidfd_open".into(),
        why => why.to_string(),
    }
}
