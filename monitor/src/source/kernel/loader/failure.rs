//! What can go wrong with the object, its maps and its programs.

use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use rustix::io::Errno;

const EPERM: i32 = Errno::PERM.raw_os_error();
const ENOENT: i32 = Errno::NOENT.raw_os_error();
const ESRCH: i32 = Errno::SRCH.raw_os_error();

/// Why the kernel side cannot be used at all. One program that cannot be attached is none of
/// these: it is a capability that is absent.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The agent was built without the eBPF toolchain: `cargo xtask run` builds with it.
    #[error("kernel probes not built")]
    NotBuilt,
    /// The maps could not be made: a missing capability, or no memory.
    #[error("cannot load the kernel side")]
    Load(#[source] Box<EbpfError>),
    /// The kernel's BTF, as aya reads it.
    #[error("cannot read the kernel's BTF")]
    Btf(#[source] Box<aya::BtfError>),
    /// How many CPUs there may be tells how long a value is.
    #[error("cannot tell how many CPUs there may be")]
    Cpus(#[source] io::Error),
    /// A map that the object should hold.
    #[error("cannot use map {name}")]
    Map {
        /// Which.
        name: &'static str,
        /// Why not.
        source: Box<MapError>,
    },
}

/// Why one program is not attached.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum AttachFailure {
    /// EPERM: the agent's rights, or the kernel's refusal of that kind of program.
    #[error("not permitted")]
    Denied,
    /// The running kernel has nothing of that name.
    #[error("the kernel has no such hook")]
    NoTarget,
    /// The verifier said no, or anything else went wrong.
    #[error("{0}")]
    Rejected(String),
}

impl From<ProgramError> for AttachFailure {
    fn from(error: ProgramError) -> Self {
        let failed = match &error {
            ProgramError::LoadError { io_error, .. } => Some(io_error),
            ProgramError::SyscallError(call) => Some(&call.io_error),
            ProgramError::Btf(_) => return Self::NoTarget,
            _ => None,
        };
        match failed.and_then(io::Error::raw_os_error) {
            // Not EACCES, with which the verifier rejects.
            Some(EPERM) => Self::Denied,
            Some(ENOENT | ESRCH) => Self::NoTarget,
            // The verifier's log may be thousands of lines: the last ones say why.
            _ => Self::Rejected(last_lines(&format!("{error:#}"))),
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}
