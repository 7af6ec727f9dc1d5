//! What is built for: an architecture, and its names with compilers, images and packages.

use std::fmt;

/// An architecture that isobar is released for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    X86,
    Arm,
}

impl Target {
    pub(crate) const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// The architecture of this machine, if isobar is released for it.
    pub(crate) fn here() -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == std::env::consts::ARCH)
    }

    /// The kernel's and Rust's name, `uname -m`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Debian's and Go's name, which images use as well.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Rust's target: musl, because glibc cannot be linked in whole.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-musl",
            Self::Arm => "aarch64-unknown-linux-musl",
        }
    }

    /// How the GNU compiler for it begins its name where it is not the machine's own.
    pub(crate) fn gnu(self) -> String {
        format!("{}-linux-gnu", self.name())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
