//! Files of an archive, in memory, and the archive: the same bytes for the same files. Names are
//! sorted, all belongs to root, and every time is that of the release.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// Files and directories by their path, without a slash at either end.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<String, Node>);

#[derive(Debug)]
enum Node {
    Dir { mode: u32 },
    File { mode: u32, content: Vec<u8> },
}

impl Tree {
    /// Adds a file, and the directories above it.
    pub(super) fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        for (at, _) in path.match_indices('/') {
            self.0.entry(path[..at].to_owned()).or_insert(Node::Dir { mode: 0o755 });
        }
        self.0.insert(path.to_owned(), Node::File { mode, content: content.into() });
    }

    pub(super) fn dir(&mut self, path: &str, mode: u32) {
        self.0.insert(path.to_owned(), Node::Dir { mode });
    }

    /// The paths of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let is_file = |node: &Node| matches!(node, Node::File { .. });
        self.0.iter().filter(move |(_, node)| is_file(node)).map(|(path, _)| path.as_str())
    }

    /// How much of a disk it takes, in KiB: files by themselves, and one for each directory.
    pub(super) fn kib(&self) -> usize {
        let kib = |node: &Node| match node {
            Node::Dir { .. } => 1,
            Node::File { content, .. } => content.len().div_ceil(1024),
        };
        self.0.values().map(kib).sum()
    }

    /// The tar archive, each path after `prefix`.
    pub(super) fn tar(&self, prefix: &str, epoch: u64) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, node) in &self.0 {
            let (path, mode, content, entry_type) = match node {
                Node::Dir { mode } => {
                    (format!("{prefix}{path}/"), *mode, &[][..], EntryType::Directory)
                }
                Node::File { mode, content } => {
                    (format!("{prefix}{path}"), *mode, content.as_slice(), EntryType::Regular)
                }
            };
            let mut header = Header::new_gnu();
            // By hand, because set_path drops the `./` that Debian's tools look for.
            let name = header.as_old_mut().name.get_mut(..path.len());
            name.with_context(|| format!("{path} is too long"))?.copy_from_slice(path.as_bytes());
            header.set_entry_type(entry_type);
            header.set_mode(mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root")?;
            header.set_groupname("root")?;
            header.set_mtime(epoch);
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append(&header, content)?;
        }
        Ok(tar.into_inner()?)
    }
}

/// Compresses `bytes`, without a time or the name of a machine.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// An `ar` archive as dpkg reads it.
pub(super) fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Result<Vec<u8>> {
    let mut ar = b"!<arch>\n".to_vec();
    for (name, content) in members {
        ensure!(name.len() <= 16, "{name} is too long for an ar archive");
        let size = content.len();
        writeln!(ar, "{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{size:<10}`", 0, 0, "100644")?;
        ar.extend_from_slice(content);
        if size % 2 == 1 {
            ar.push(b'\n');
        }
    }
    Ok(ar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_archives_the_same_bytes_with_directories_first() {
        let archive = |order: [&str; 2]| {
            let mut tree = Tree::default();
            order.iter().for_each(|path| tree.file(path, 0o644, *path));
            tree.dir("tmp", 0o1777);
            tree.tar("./", 7).unwrap()
        };
        let bytes = archive(["usr/bin/a", "etc/b"]);
        assert_eq!(bytes, archive(["etc/b", "usr/bin/a"]));
        let mut tar = tar::Archive::new(bytes.as_slice());
        let named = tar.entries().unwrap().map(|entry| {
            let header = entry.unwrap().header().clone();
            let name = String::from_utf8(header.path_bytes().into_owned()).unwrap();
            (name, header.mode().unwrap(), header.mtime().unwrap())
        });
        let want = [
            ("./etc/", 0o755),
            ("./etc/b", 0o644),
            ("./tmp/", 0o1777),
            ("./usr/", 0o755),
            ("./usr/bin/", 0o755),
            ("./usr/bin/a", 0o644),
        ];
        assert_eq!(named.collect::<Vec<_>>(), want.map(|(name, mode)| (name.to_owned(), mode, 7)));
    }

    #[test]
    fn ar_pads_members_to_even_offsets() {
        let bytes = ar(&[("odd", b"abc".to_vec()), ("even", b"de".to_vec())], 7).unwrap();
        let header = |name: &str, size: &str| {
            format!("{name:<16}7           0     0     100644  {size:<10}`\n")
        };
        let want = format!("!<arch>\n{}abc\n{}de", header("odd", "3"), header("even", "2"));
        assert_eq!(String::from_utf8(bytes).unwrap(), want);
    }
}
