//! The guest's root file system: an archive in cpio's `newc` form, as the kernel unpacks it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// An archive in the making.
#[derive(Default)]
pub(super) struct Cpio {
    bytes: Vec<u8>,
    /// Inode numbers; two entries with the same one would become links.
    n_entries: u32,
}

impl Cpio {
    /// The directory `name`, without a leading `/`; its parents must have been added.
    pub(super) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, (0, 0), &[]);
    }

    /// /dev/console, without which the first process cannot be heard.
    pub(super) fn console(&mut self) {
        self.entry("dev/console", CONSOLE, (5, 1), &[]);
    }

    /// The file `name` with these bytes; all files may be run.
    pub(super) fn file(&mut self, name: &str, bytes: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), bytes);
    }

    /// The file `name`, copied from `from`.
    pub(super) fn copy(&mut self, name: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.file(name, &bytes);
        Ok(())
    }

    /// The archive's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), bytes: &[u8]) {
        self.n_entries += 1;
        let size = u32::try_from(bytes.len()).expect("no file of the guest has 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        // inode, mode, uid, gid, links, mtime, size, device, device of the node, name, checksum
        let (major, minor) = device;
        let fields = [self.n_entries, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Headers and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_header_of_110_digits_a_name_and_padded_bytes() {
        let mut cpio = Cpio::default();
        cpio.file("init", b"hello");
        let bytes = cpio.finish();
        assert!(bytes.starts_with(b"07070100000001000081ed"));
        assert_eq!(&bytes[110..124], b"init\0\0hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }
}
