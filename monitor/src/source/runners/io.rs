//! `/proc/PID/io`, read on a thread of its own: a process that executes a program holds the lock that the
//! read takes, and may wait meanwhile for a file system that does not answer (`do_io_accounting`,
//! fs/proc/base.c; `begin_new_exec`, fs/exec.c).
//! In: pids. Out: what is known of each of them in time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::super::gap::{self, ReadError};
use super::LOOKED_AT;
use super::process::moved;
use crate::clock;
use isobar_core::model::cgroup::IoStat;
use isobar_core::model::sample::{Runner, Sample};
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::view::suspects::Suspect;

/// A tick waits no longer for all of them: some 10 us each, if none hangs. A test may run on a machine
/// that has no CPU for it.
const PATIENCE: Nanos = Nanos(if cfg!(test) { 2_000_000_000 } else { 20_000_000 });

/// Bytes that each had read from devices, and written to them or to the page cache; or why that could
/// not be read.
pub(super) type Moved = BTreeMap<u32, Result<u64, ReadError>>;

/// The tick's end.
#[derive(Debug)]
pub(super) struct IoReader {
    proc: PathBuf,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    orders: SyncSender<Vec<u32>>,
    read: Receiver<(u32, Result<u64, ReadError>)>,
    /// Answers that are still to come: of those that were asked for before.
    n_due: usize,
}

impl IoReader {
    pub(super) fn new(proc: &Path) -> Self {
        Self { proc: proc.into(), thread: None }
    }

    /// What is known in time. A process that does not answer is left out, and so are those after it, also
    /// the next time, until it answers.
    pub(super) fn read(&mut self, pids: &[u32]) -> Moved {
        let mut moved = Moved::new();
        if self.thread.is_none() {
            self.thread = Thread::begin(self.proc.clone())
                .inspect_err(|why| tracing::warn!("cannot begin the thread that reads IO: {why}"))
                .ok();
        }
        let Some(thread) = &mut self.thread else { return moved };
        while thread.n_due > 0 && thread.read.try_recv().is_ok() {
            thread.n_due -= 1;
        }
        if thread.n_due > 0 || thread.orders.try_send(pids.to_vec()).is_err() {
            return moved;
        }
        thread.n_due = pids.len();
        let until = clock::monotonic().plus(PATIENCE);
        while thread.n_due > 0 {
            let left = Duration::from_nanos(until.since(clock::monotonic()).0);
            let Ok((pid, read)) = thread.read.recv_timeout(left) else { break };
            thread.n_due -= 1;
            moved.insert(pid, read);
        }
        moved
    }
}

impl Thread {
    fn begin(proc: PathBuf) -> io::Result<Self> {
        let (orders, from_orders) = sync_channel::<Vec<u32>>(1);
        let (to_read, read) = sync_channel(LOOKED_AT);
        thread::Builder::new().name("io".into()).spawn(move || {
            for pid in from_orders.into_iter().flatten() {
                let moved = gap::read(&proc.join(pid.to_string()).join("io"), moved);
                if to_read.send((pid, moved)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { orders, read, n_due: 0 })
    }
}

/// What a cgroup, or the machine, has read and written by the sample.
pub(super) fn moved_of(whose: &Suspect, sample: &Sample) -> Option<u64> {
    let cgroup = match whose {
        Suspect::Cgroup { id, .. } => sample.cgroups.get(id),
        Suspect::Machine => sample.cgroups.values().find(|cgroup| cgroup.path.is_root()),
    };
    cgroup?.io.map(IoStat::bytes)
}

/// A child that has ended leaves its parent all that it ever moved. Between the looks that is no more
/// than what all moved, less what the others did.
pub(super) fn bound(all: &mut Vec<Runner>, parents: &BTreeSet<u32>, Bytes(moved): Bytes) {
    let others = all.iter().filter(|one| !parents.contains(&one.pid)).filter_map(|one| one.io);
    let left = Bytes(moved.saturating_sub(others.fold(0, |sum, io| sum.saturating_add(io.0))));
    all.iter_mut()
        .filter(|one| parents.contains(&one.pid))
        .for_each(|one| one.io = one.io.min(Some(left)));
    all.retain(|one| one.io > Some(Bytes(0)));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn read_leaves_out_a_process_that_does_not_answer() {
        let proc = tempfile::tempdir().unwrap();
        let io = |pid: u32| proc.path().join(format!("{pid}/io"));
        (1..=3).for_each(|pid| fs::create_dir(proc.path().join(pid.to_string())).unwrap());
        let counted = "read_bytes: 4\nwrite_bytes: 3\n";
        [1, 3].iter().for_each(|pid| fs::write(io(*pid), counted).unwrap());
        // To open it waits for a writer.
        mknodat(CWD, io(2), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut reader = IoReader::new(proc.path());
        let mut read = |pids: &[u32]| {
            let known = reader.read(pids).into_iter();
            known.map(|(pid, moved)| (pid, moved.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(read(&[1, 2, 3]), [(1, 7)]);
        assert_eq!(read(&[1, 3]), [], "it is still waited for");
        fs::write(io(2), counted).unwrap();
        let answered = (0..1_000).map(|_| {
            thread::sleep(Duration::from_millis(5));
            read(&[1, 3])
        });
        let answered = answered.into_iter().find(|known| !known.is_empty());
        assert_eq!(answered, Some(vec![(1, 7), (3, 7)]), "it has answered");
    }
}
