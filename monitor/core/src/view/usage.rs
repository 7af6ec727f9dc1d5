//! Who uses what others may wait for. Usage is not harm: that is in the snapshot's aggressions.

use serde::{Deserialize, Serialize};

use super::holders::{Holder, holders};
use super::movers::{Mover, is_partial, movers};
use super::suspects::is_short_of_memory;
use crate::model::decision::Decision;
use crate::model::snapshot::Snapshot;

/// Pods and services named for each resource.
const NAMED: usize = 3;

/// The pods and services that use most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Those that hold most memory that cannot be dropped, three at most; of pods alone where their
    /// common limit is reached.
    pub memory: Vec<Holder>,
    /// Work waits for memory, a threshold of memory is met, or it is foretold to run out.
    pub is_short_of_memory: bool,
    /// Those that do the greatest share of the IO, three at most; `null` where no cgroup's is known.
    pub io: Option<Vec<Mover>>,
    /// Of some pod or service the IO is not known.
    pub is_io_partial: bool,
}

impl Usage {
    pub fn of(snapshot: &Snapshot, decision: &Decision) -> Self {
        let (mut memory, mut io) = (holders(snapshot), movers(snapshot));
        memory.truncate(NAMED);
        if let Some(io) = &mut io {
            io.truncate(NAMED);
        }
        let is_short_of_memory = is_short_of_memory(snapshot, decision);
        Self { memory, is_short_of_memory, io, is_io_partial: is_partial(snapshot) }
    }
}
