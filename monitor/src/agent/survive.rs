//! What keeps the agent able to decide and act on a node that has no memory left: nothing that it
//! uses is swapped out or dropped, its heap has something in hand, the kernel does not choose it
//! to kill, and it gets a CPU. Each measure is taken if it is permitted; otherwise a capability says
//! why not.
//!
//! Locked are heap, stacks and data, and of files what is used once the first ticks are over: a page
//! from its first use on, with what the kernel maps around it. While the agent enforces, that is all
//! code but what a release keeps apart as hardly needed (cold.ld).

mod cgroup;

use std::fs;
use std::io;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use rustix::mm::{Advice, MlockAllFlags, madvise, mlockall, munlockall};
use rustix::process::{Resource, getrlimit, setpriority_process};
use rustix::thread::{CapabilitySet, capabilities};

pub(super) use self::cgroup::Protected;
use super::meter::own_memory;
use crate::{clock, heap};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::units::Bytes;

/// Spared by the kernel's OOM killer before almost all other processes, but not for ever: an agent that
/// leaks must not take the node with it.
const OOM_SCORE: i32 = -999;
/// Before almost all work, behind none of the kernel's. Scheduling in real time would let a defect
/// of the agent hold a CPU.
const NICE: i32 = -15;
/// What a tick allocates and gives back at 500 cgroups, and as much again.
const RESERVE: usize = 4 << 20;
/// Pages that were never touched are left out, or each thread's stack of megabytes would count: the
/// budget of resident memory is 24 MiB.
const LOCKED: MlockAllFlags =
    MlockAllFlags::CURRENT.union(MlockAllFlags::FUTURE).union(MlockAllFlags::ONFAULT);
/// Code that is read in beforehand, at most. A release build has less; one for debugging, which
/// has more, is not meant to be relied upon.
const CODE: u64 = 12 << 20;

/// So much resident memory above the least that there was is given back, as far as it is free: after
/// cgroups by the thousand have gone, or a large document was sent.
const SURPLUS: u64 = 3 << 20;
/// Ticks until it is given back once more: where there is half as much again, or half as much was given
/// back the last time, as in the middle of a burst that ends; and where neither is so. How much of it
/// is in use no allocator tells.
const TICKS_IF_MORE: u32 = 20;
const TICKS_IF_NOT: u32 = 60;

/// What was had of it.
#[derive(Debug, Default)]
pub struct Survival {
    is_heap_settled: bool,
    is_locked: bool,
    has_tried_code: bool,
    /// All code that may be needed is kept in memory, not only what has run.
    has_code: bool,
    /// What the start and the first ticks left was given back.
    has_begun: bool,
    /// The least resident memory so far.
    least: Option<Bytes>,
    /// What was left above it when memory was last given back, how much that was, and the ticks since.
    left: u64,
    given: u64,
    ticks: u32,
    capabilities: Vec<Capability>,
}

impl Survival {
    /// What has to be asked for before any thread is made: they inherit it.
    pub fn begin() -> Self {
        let capabilities = vec![score(), priority()];
        Self { is_heap_settled: heap::settle(), capabilities, ..Self::default() }
    }

    /// Locks memory once everything is open and memory of the start was given back: a page that is
    /// locked stays.
    pub(super) fn lock(&mut self) {
        self.capabilities.push(reserve(self.is_heap_settled));
        let lock = lock();
        self.is_locked = lock.state == CapabilityState::Attached;
        self.capabilities.push(lock);
    }

    /// Reads code in, once, if memory is locked. What is needed to kill has never run: it would be
    /// read from a disk for which everybody waits.
    pub(super) fn keep_code(&mut self) {
        if self.is_locked && !std::mem::replace(&mut self.has_tried_code, true) {
            let read = read_code();
            self.has_code = read.is_ok();
            self.capabilities.push(match read {
                Ok(told) => had("code in memory", &told),
                Err(why) => {
                    let remedy = "give the agent's cgroup more memory, if it has a limit";
                    absent("code in memory", &why.to_string(), remedy)
                }
            });
        }
    }

    /// Called once a tick: gives memory back that a burst has left, and the first ticks.
    pub(super) fn give_back(&mut self, resident: Option<Bytes>) {
        let Some(resident) = resident else { return };
        let least = self.least.map_or(resident, |least| least.min(resident));
        self.least = Some(least);
        self.ticks += 1;
        let surplus = resident.0 - least.0;
        if self.has_begun && surplus < SURPLUS {
            return;
        }
        let has_more =
            !self.has_begun || surplus.saturating_sub(self.left).max(self.given) > SURPLUS / 2;
        if self.ticks < if has_more { TICKS_IF_MORE } else { TICKS_IF_NOT } {
            return;
        }
        self.ticks = 0;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let begun = clock::now().boot;
        self.unlocked(|| {
            heap::trim(RESERVE);
            if is_first && let Err(why) = drop_files() {
                tracing::debug!("what the start has read of files stays in memory: {why}");
            }
        });
        let now = own_memory().0.unwrap_or(resident);
        self.left = now.0.saturating_sub(least.0);
        self.given = resident.0.saturating_sub(now.0);
        let ms = clock::now().boot.since(begun).0 / 1_000_000;
        tracing::debug!("gave free memory back in {ms} ms: {resident} were resident, {now} are");
    }

    /// What is locked the kernel does not take back, so nothing is locked for that moment.
    fn unlocked(&self, give_back: impl FnOnce()) {
        let unlocked = self.is_locked && munlockall().is_ok();
        give_back();
        if unlocked {
            let locked = mlockall(LOCKED).map_err(io::Error::from);
            // Code that was dropped in that moment is read in again.
            let again =
                locked.and_then(|()| if self.has_code { read_code().map(drop) } else { Ok(()) });
            if let Err(why) = again {
                tracing::warn!("memory is no longer locked: {why}");
            }
        }
    }

    pub(super) fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

fn lock() -> Capability {
    let name = "memory locked";
    let remedy = "run with CAP_IPC_LOCK";
    // With a finite limit, locking could succeed now and a later allocation fail.
    let may_lock = capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
        || getrlimit(Resource::Memlock).current.is_none();
    if !may_lock {
        return absent(name, "not permitted", remedy);
    }
    match mlockall(LOCKED) {
        Ok(()) => had(name, "each page from its first use on"),
        Err(why) => absent(name, &why.to_string(), remedy),
    }
}

/// Unmaps what the start and the first ticks have read of files: most of it runs no more. What does
/// comes from the page cache again when it is next used, at once as a rule, and is locked then.
fn drop_files() -> io::Result<()> {
    let maps = Process::myself().and_then(|me| me.smaps()).map_err(io::Error::other)?;
    // A page that was written to, as by the loader, is in no file.
    let is_file = |map: &&MemoryMap| {
        matches!(map.pathname, MMapPath::Path(_))
            && map.perms.contains(MMPermissions::READ)
            && !map.perms.intersects(MMPermissions::WRITE | MMPermissions::SHARED)
            && map.extension.map.get("Anonymous") == Some(&0)
    };
    maps.0.iter().filter(is_file).try_for_each(|map| advise(map, Advice::LinuxDontNeed))
}

/// How much code was read in, in words: the shared libraries', and of the program what lies in one
/// piece with this function. A release has what it hardly needs in another one.
fn read_code() -> io::Result<String> {
    let maps = Process::myself().and_then(|me| me.maps()).map_err(io::Error::other)?;
    let here = (read_code as fn() -> io::Result<String> as *const ()).addr() as u64;
    let program = maps.0.iter().find(|map| (map.address.0..map.address.1).contains(&here));
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let is_code = |map: &&MemoryMap| {
        matches!(map.pathname, MMapPath::Path(_))
            && map.perms.contains(MMPermissions::READ | MMPermissions::EXECUTE)
            && (map.pathname != program.pathname || map.address == program.address)
    };
    let code: Vec<&MemoryMap> = maps.0.iter().filter(is_code).collect();
    let size: u64 = code.iter().map(|map| map.address.1 - map.address.0).sum();
    if size > CODE {
        return Ok(format!("only what has run: all of it would be {} MiB", size >> 20));
    }
    code.into_iter().try_for_each(|map| advise(map, Advice::LinuxPopulateRead))?;
    Ok(format!("all that may be needed, {} MiB", size >> 20))
}

/// Has the pages of a file that nothing writes to read in, or unmapped until they are next used.
fn advise(map: &MemoryMap, advice: Advice) -> io::Result<()> {
    let (from, to) = map.address;
    let start = usize::try_from(from).map_err(io::Error::other)?;
    let length = usize::try_from(to - from).map_err(io::Error::other)?;
    let start = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the pages hold what the file does, before and after; a range that is mapped no longer
    // is an error.
    unsafe { madvise(start, length, advice) }?;
    Ok(())
}

fn reserve(is_settled: bool) -> Capability {
    let name = "heap reserve";
    if !is_settled {
        return absent(
            name,
            "the allocator refused its settings",
            "build isobar for glibc or musl",
        );
    }
    heap::reserve(RESERVE);
    had(name, &format!("{} MiB", RESERVE >> 20))
}

fn score() -> Capability {
    let name = "OOM score";
    let file = "/proc/self/oom_score_adj";
    let lowered = fs::read_to_string(file).and_then(|text| match text.trim().parse::<i32>() {
        Ok(score) if score <= OOM_SCORE => Ok(score),
        _ => fs::write(file, OOM_SCORE.to_string()).map(|()| OOM_SCORE),
    });
    match lowered {
        Ok(score) => had(name, &format!("adjusted by {score}")),
        Err(why) => {
            absent(name, &format!("{file}: {why}"), "run with CAP_SYS_RESOURCE, or by systemd")
        }
    }
}

fn priority() -> Capability {
    match setpriority_process(None, NICE) {
        Ok(()) => had("scheduling", &format!("nice {NICE}")),
        Err(why) => absent("scheduling", &why.to_string(), "run with CAP_SYS_NICE"),
    }
}

fn had(name: &str, detail: &str) -> Capability {
    Capability::new(name, CapabilityState::Attached, detail)
}

fn absent(name: &str, detail: &str, remedy: &str) -> Capability {
    Capability::new(name, CapabilityState::Absent, detail).remedied(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survival_capabilities_name_a_remedy() {
        for Capability { name, state, detail, remedy } in
            [score(), priority(), reserve(true), reserve(false)]
        {
            let is_had = state == CapabilityState::Attached;
            assert!(!detail.is_empty(), "{name}");
            assert_eq!(remedy.is_none(), is_had, "{name}: {detail}");
        }
    }

    #[test]
    fn drop_files_leaves_less_in_memory_and_everything_usable() {
        let of_files = || Process::myself().unwrap().status().unwrap().rssfile.unwrap();
        read_code().unwrap();
        let before = of_files();
        drop_files().unwrap();
        let after = of_files();
        assert!(after < before, "{after} KiB after, {before} KiB before");
    }

    #[test]
    fn read_code_reports_its_size() {
        let told = read_code().unwrap();
        // The test's own program may be larger than an agent's.
        assert!(told.starts_with("all that") || told.starts_with("only what has run"), "{told}");
    }
}
