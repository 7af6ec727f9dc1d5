//! A file that is read once from end to end, as a backup does: page cache that is not needed again.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Until;

/// Read a file once from beginning to end, then rest.
#[derive(clap::Args)]
pub(super) struct Read {
    /// The file, which must be there.
    #[arg(long)]
    path: PathBuf,
}

impl Read {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let name = self.path.display();
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {name}"))?;
        let (mut block, mut n_bytes) = (vec![0; 1 << 20], 0u64);
        while until.goes_on() {
            match file.read(&mut block).with_context(|| format!("cannot read {name}"))? {
                0 => break,
                n => n_bytes += n as u64,
            }
        }
        drop(block);
        until.sleep(until.rest());
        Ok(json!({ "load": "read", "bytes": n_bytes }))
    }
}
