//! What another node has for pods, as its agent tells: amounts, and the limits that enforce them.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use isobar_core::model::limit::{LimitState, NodeResources};
use serde::Deserialize;
use serde_json::Value;

use super::print::amounts;
use crate::cli::ask::Place;
use crate::cli::elsewhere::document;
use crate::cli::output::Format;
use crate::cli::table::Table;
use crate::cli::terminal::{harmless, width};

#[derive(Deserialize)]
struct Told {
    resources: NodeResources,
    limits: Vec<LimitState>,
}

/// The agent's own document, or a table of it.
pub(super) fn write(place: &Place, output: Format) -> Result<()> {
    let whole: Value = document(place, "/api/v1/allocatable", "what it has for pods")?;
    let told = Told::deserialize(&whole);
    let told = told.with_context(|| {
        format!("the agent on {place} does not know yet what the node has for pods")
    })?;
    output.print(&whole, |out| Ok(told.write(out)?))
}

impl Told {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let NodeResources { capacity, kube_reserved, system_reserved, eviction_hard, allocatable } =
            &self.resources;
        amounts([capacity, kube_reserved, system_reserved, allocatable]).write(out, width())?;
        if !eviction_hard.is_empty() {
            let all: Vec<_> =
                eviction_hard.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
            writeln!(out, "\nreserved by hard eviction thresholds: {}", all.join(", "))?;
        }
        if self.limits.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::new("LIMIT~ CONFIGURED> LIVE> RESULT");
        for LimitState { write, live, result, .. } in &self.limits {
            let live = live.clone().unwrap_or_else(|| "-".into());
            let cells = [write.path(), write.value.clone(), live, result.name().into()];
            table.row(cells.map(|cell| harmless(&cell)));
        }
        table.write(out, width())
    }
}
