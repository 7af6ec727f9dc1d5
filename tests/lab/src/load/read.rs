//! A file that is read from end to end: once, as a backup does, which leaves page cache that is not needed
//! again, or several times, which the kernel takes for cache in use.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Until;

/// Read a file from beginning to end, then rest.
#[derive(clap::Args)]
pub(super) struct Read {
    /// The file, which must be there.
    #[arg(long)]
    path: PathBuf,
    /// How many times.
    #[arg(long, default_value_t = 1)]
    passes: u32,
}

impl Read {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let name = self.path.display();
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {name}"))?;
        let (mut block, mut n_bytes, mut left) = (vec![0; 1 << 20], 0u64, self.passes);
        while until.goes_on() && left > 0 {
            match file.read(&mut block).with_context(|| format!("cannot read {name}"))? {
                0 => {
                    left -= 1;
                    file.rewind()?;
                }
                n => n_bytes += n as u64,
            }
        }
        drop(block);
        until.sleep(until.rest());
        Ok(json!({ "load": "read", "bytes": n_bytes }))
    }
}
