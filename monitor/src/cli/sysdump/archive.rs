//! The archive: tar in zstd, for its owner alone.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write as _};

use anyhow::Result;
use isobar::clock;
use serde::Serialize;
use tar::{Builder, EntryType, Header};
use zstd::stream::write::Encoder;

/// As recordings are packed.
const LEVEL: i32 = 3;

pub(super) struct Archive {
    tar: Builder<Encoder<'static, File>>,
    problems: Vec<String>,
}

impl Archive {
    pub(super) fn begin(file: File) -> io::Result<Self> {
        Ok(Self { tar: Builder::new(Encoder::new(file, LEVEL)?), problems: Vec::new() })
    }

    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.entry(name, text.len() as u64, text.as_bytes())
    }

    pub(super) fn json(&mut self, name: &str, what: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(what)?;
        Ok(self.text(name, &format!("{text}\n"))?)
    }

    /// The same for what may have failed.
    pub(super) fn had(&mut self, name: &str, what: Result<impl Serialize>) -> Result<()> {
        match what {
            Ok(what) => self.json(name, &what),
            Err(why) => {
                self.lacks(name, &format!("{why:#}"));
                Ok(())
            }
        }
    }

    pub(super) fn file(&mut self, name: &str, file: &mut File) -> io::Result<()> {
        let size = file.metadata()?.len();
        self.entry(name, size, file)
    }

    /// Notes that something is missing.
    pub(super) fn lacks(&mut self, name: &str, why: &(impl Display + ?Sized)) {
        self.problems.push(format!("{name}: {why}\n"));
    }

    fn entry(&mut self, name: &str, size: u64, content: impl io::Read) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_size(size);
        header.set_mtime(clock::now().wall.0 / 1_000_000_000);
        self.tar.append_data(&mut header, name, content)
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        let problems = std::mem::take(&mut self.problems).concat();
        self.text("problems.txt", &problems)?;
        let mut file = self.tar.into_inner()?.finish()?;
        file.flush()?;
        file.sync_all()
    }
}
