//! A file that is read over and over: page cache that is in use.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::Until;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Read a file's pages in no order, again and again; the file is made if it is not there.
#[derive(clap::Args)]
pub(super) struct File {
    /// The file.
    #[arg(long)]
    path: PathBuf,
    /// How much of it is read, and its size if it is made.
    #[arg(long)]
    mib: u64,
}

impl File {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let name = self.path.display();
        if self.mib == 0 {
            bail!("file needs at least one MiB");
        }
        if !self.path.exists() {
            self.make().with_context(|| format!("cannot make {name}"))?;
        }
        let file = fs::File::open(&self.path).with_context(|| format!("cannot open {name}"))?;
        // Read-ahead would bring pages in before they are waited for.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
        let n_pages = self.mib * MIB / PAGE;
        let mut page = [0u8; PAGE as usize];
        let (mut n_reads, mut random) = (0u64, 1u64);
        while until.goes_on() {
            // Knuth's MMIX constants: every page comes, in an order that read-ahead cannot guess.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) % n_pages * PAGE;
            file.read_exact_at(&mut page, at).with_context(|| format!("cannot read {name}"))?;
            n_reads += 1;
        }
        Ok(json!({ "load": "file", "mib": self.mib, "reads": n_reads }))
    }

    fn make(&self) -> Result<()> {
        let mut file = fs::File::create(&self.path)?;
        let block = vec![0x5a; MIB as usize];
        for _ in 0..self.mib {
            file.write_all(&block)?;
            // A dirty page cannot be taken away, only a clean one: below a tight memory.max a
            // backlog of them gets us killed.
            file.sync_data()?;
        }
        Ok(())
    }
}
