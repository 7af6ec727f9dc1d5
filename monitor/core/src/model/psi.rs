//! Pressure stall information (PSI) as the kernel prints it.

use serde::{Deserialize, Serialize};

use super::units::{Micros, Percent};

/// One line of a pressure file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub avg10: Percent,
    pub avg60: Percent,
    pub avg300: Percent,
    /// Since boot, or since the cgroup was created.
    pub total: Micros,
}

/// One pressure file: time in which some tasks, or all non-idle tasks, were stalled.
/// A line that the kernel does not print is `None`: `cpu` has no `full` before Linux 5.13, `irq`
/// never has `some`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    pub some: Option<Line>,
    pub full: Option<Line>,
}

/// The pressure files of a cgroup or of the node; `None` if unreadable, and the gaps tell why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pressures {
    pub cpu: Option<Pressure>,
    pub memory: Option<Pressure>,
    pub io: Option<Pressure>,
    /// Linux 6.1+ with interrupt time accounting.
    pub irq: Option<Pressure>,
}
