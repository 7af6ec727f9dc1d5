//! What is fetched or built once and kept for the next clone: `$XDG_CACHE_HOME/isobar`.
//! Every entry is named by its version, so none is ever out of date, and appears whole or not
//! at all: it is made beside its place and renamed into it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::FlockOperation;

/// The cache directory, held for as long as this value lives.
pub(crate) struct Cache {
    root: PathBuf,
    _lock: File,
}

impl Cache {
    /// Opens the cache and waits for whoever else is using it.
    pub(crate) fn open() -> Result<Self> {
        Self::at(home()?.join("isobar"))
    }

    fn at(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let name = root.join("lock");
        let lock = File::create(&name)
            .with_context(|| format!("cannot write below the cache: {}", name.display()))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("another set-up is at work: waiting for {}", name.display());
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)
                .with_context(|| format!("cannot lock {}", name.display()))?;
        }
        Ok(Self { root, _lock: lock })
    }

    /// Where it lies.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The entry `key`, if it is there.
    pub(crate) fn kept(&self, key: &str) -> Option<PathBuf> {
        Some(self.root.join(key)).filter(|entry| entry.exists())
    }

    /// The entry `key`; if it is not there, `fill` makes it in the directory that it is given.
    pub(crate) fn keep(
        &self,
        key: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let entry = self.root.join(key);
        if entry.exists() {
            return Ok(entry);
        }
        // Left behind by a run that was killed: the lock says that nobody is still filling it.
        let unfinished = self.root.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished)?;
        fill(&unfinished)?;
        if let Some(dir) = entry.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::rename(&unfinished, &entry)
            .with_context(|| format!("cannot move {} into place", entry.display()))?;
        Ok(entry)
    }

    /// The names of the entries in the directory `dir` of the cache.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(dir)) else { return Vec::new() };
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn home() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        return Ok(dir.into());
    }
    let home = std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("isobar-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn an_entry_is_made_once_and_only_whole() {
        let root = scratch("once");
        let cache = Cache::at(root.clone()).unwrap();
        let torn = cache.keep("tool/1", |dir| {
            fs::write(dir.join("half"), "")?;
            anyhow::bail!("the power went")
        });
        assert!(torn.is_err() && cache.kept("tool/1").is_none());
        let whole = cache.keep("tool/1", |dir| Ok(fs::write(dir.join("all"), "")?)).unwrap();
        assert!(whole.join("all").exists() && !whole.join("half").exists());
        cache.keep("tool/1", |_| anyhow::bail!("made twice")).unwrap();
        assert_eq!(cache.names("tool"), ["1"]);
        fs::remove_dir_all(root).unwrap();
    }
}
