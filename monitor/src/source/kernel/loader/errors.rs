//! What can go wrong with the object, its maps and its programs.

use std::fmt::Display;
use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use rustix::io::Errno;

use isobar_core::model::sample::{Gap, GapReason};

/// Why the kernel side cannot be used at all. A single program that cannot be attached is not an
/// error: it becomes an absent capability.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The build had no eBPF toolchain. `cargo xtask run` builds with it.
    #[error("kernel probes not built")]
    NotBuilt,
    /// The maps cannot be created: a missing capability, or no memory.
    #[error("cannot load the eBPF object")]
    Load(#[source] Box<EbpfError>),
    #[error("cannot read the kernel's BTF")]
    Btf(#[source] Box<aya::BtfError>),
    /// The length of a per-CPU value depends on the number of possible CPUs.
    #[error("cannot read the number of possible CPUs")]
    Cpus(#[source] io::Error),
    #[error("cannot use the map {name}")]
    Map { name: &'static str, source: Box<MapError> },
}

/// Why one program is not attached.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum AttachFailure {
    /// EPERM: the agent lacks a capability, or the kernel refuses this type of program.
    #[error("not permitted")]
    Denied,
    #[error("the kernel has no such function or tracepoint")]
    NoTarget,
    /// By the verifier, or for any other reason.
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
        match failed.and_then(Errno::from_io_error) {
            // Not EACCES: the verifier rejects with that.
            Some(Errno::PERM) => Self::Denied,
            Some(Errno::NOENT | Errno::SRCH) => Self::NoTarget,
            // The verifier's log may have thousands of lines: the last ones give the reason.
            _ => Self::Rejected(last_lines(&format!("{error:#}"))),
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}

/// A map of the kernel side cannot be read. This tick's counters are then unknown, because zeros
/// would look like no pressure; the next tick may read them, and nothing in between is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the map {map}: {reason}")]
pub struct MapReadError {
    map: &'static str,
    reason: String,
}

impl MapReadError {
    /// The map's name, and the kernel's error.
    pub fn new(map: &'static str, reason: impl Display) -> Self {
        Self { map, reason: reason.to_string() }
    }

    /// As the sample reports it.
    pub fn gap(&self) -> Gap {
        Gap { object: "kernel side".into(), why: GapReason::Failed, detail: self.to_string() }
    }
}
