//! Reads which CPUs are online, and how they lie.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{names, parsed};
use crate::source::gap::ReadError;
use crate::source::lines::value;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::topology::{CpuPlace, Topology};

/// The CPUs below `dir`, `/sys/devices/system/cpu`.
pub(super) fn topology(dir: &Path) -> Result<Topology, ReadError> {
    let mut told = BTreeMap::new();
    for cpu in set(&dir.join("online"))?.0 {
        let dir = dir.join(format!("cpu{cpu}"));
        let siblings = dir.join("topology/thread_siblings_list");
        let core = if siblings.exists() { set(&siblings)?.0.first().copied() } else { None };
        let socket = dir.join("topology/physical_package_id");
        // -1 where firmware tells no socket, and no file at all in some virtual machines.
        let socket = parsed(&socket, value).ok().and_then(|id| u32::try_from(id).ok());
        let node = names(&dir)?.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
        let place = CpuPlace {
            core: core.unwrap_or(cpu),
            socket: socket.unwrap_or(0),
            node: node.unwrap_or(0),
        };
        told.insert(cpu, place);
    }
    Ok(Topology::of(&told))
}

/// A file that holds a set of CPUs.
fn set(path: &Path) -> Result<CpuSet, ReadError> {
    let text = fs::read_to_string(path).map_err(|error| ReadError::io(path, error))?;
    let foreign = |error: isobar_core::model::cpuset::CpuSetError| ReadError::Foreign {
        path: path.into(),
        reason: error.to_string(),
    };
    text.trim_end().parse().map_err(foreign)
}
