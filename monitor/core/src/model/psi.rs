//! Pressure stall information as the kernel prints it, for the node and for one cgroup alike.

use serde::{Deserialize, Serialize};

use super::units::{Micros, Percent};

/// One line of a pressure file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub avg10: Percent,
    pub avg60: Percent,
    pub avg300: Percent,
    /// Since boot, or since the cgroup was created.
    pub total: Micros,
}

/// One pressure file. A line that this kernel does not print is `None`:
/// `cpu` has no `full` before Linux 5.13, `irq` never has `some`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    pub some: Option<Line>,
    pub full: Option<Line>,
}

/// The pressure files of one cgroup, or of the node. A file that gave no reading is `None`, and
/// the sample's gaps say why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressures {
    pub cpu: Option<Pressure>,
    pub memory: Option<Pressure>,
    pub io: Option<Pressure>,
    /// Linux 6.1+ with interrupt time accounting.
    pub irq: Option<Pressure>,
}
