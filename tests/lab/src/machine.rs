//! What virtual machines are made of: kernels, the emulator, the programs that run in them.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// A line of kernels, of which the newest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Deserialize)]
pub enum Series {
    /// The oldest that isobar supports; Debian 12's own.
    #[value(name = "6.1")]
    #[serde(rename = "6.1")]
    V6_1,
    /// Debian 13's own.
    #[value(name = "6.12")]
    #[serde(rename = "6.12")]
    V6_12,
    /// The newest long-term one.
    #[value(name = "6.18")]
    #[serde(rename = "6.18")]
    V6_18,
    /// The newest there is.
    #[value(name = "7.x")]
    #[serde(rename = "7.x")]
    V7,
}

impl Series {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V6_1, Self::V6_12, Self::V6_18, Self::V7];
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V6_18 => "6.18",
            Self::V7 => "7.x",
        })
    }
}

/// A kernel to boot.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub series: Series,
    /// `uname -r`.
    pub release: String,
    pub vmlinuz: PathBuf,
    /// The modules that the guest may load, unpacked, with `modules.dep`.
    pub modules: PathBuf,
}

/// What boots a virtual machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `qemu-system-x86_64`.
    pub qemu: PathBuf,
    /// A busybox that needs no libraries.
    pub busybox: PathBuf,
    /// Where what is learnt about this machine is kept.
    pub cache: PathBuf,
    /// What tries the alert rules over what agents serve; `None` where it could not be had.
    pub promtool: Option<PathBuf>,
    /// The image of a disk with other agents, if they are played with.
    pub peers: Option<PathBuf>,
}

/// The two programs that a guest runs, without shared libraries.
#[derive(Debug, Clone)]
pub struct Programs {
    pub isobar: PathBuf,
    /// This crate's own: it plays scenarios in the guest, and is their loads.
    pub lab: PathBuf,
}
