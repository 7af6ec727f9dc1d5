//! A recording that is read ahead of its replay, on a thread of its own: to read a tick takes longer
//! than to judge it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::reader::{Entry, ReadError, Recording};

/// Entries that wait for the replay. A tick may take as long as eight others.
const ENTRIES: usize = 8;

type Read = Result<Entry, ReadError>;

/// The entries of a recording in their order.
pub(super) struct Ahead {
    entries: Receiver<Read>,
    reader: Option<JoinHandle<()>>,
}

impl Ahead {
    pub(super) fn of(mut recording: Recording) -> Self {
        let path = recording.path().to_owned();
        let (sender, entries) = sync_channel(ENTRIES);
        let failed = SyncSender::clone(&sender);
        // Until the end of the recording, or of its replay.
        let read = move || {
            let _ = recording.try_for_each(|entry| sender.send(entry));
        };
        let reader = thread::Builder::new().name("read".into()).spawn(read);
        let reader = reader.map_err(|source| failed.send(Err(ReadError::Io { path, source })));
        Self { entries, reader: reader.ok() }
    }
}

impl Iterator for Ahead {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        self.entries.recv().ok().or_else(|| {
            let ended = self.reader.take()?.join();
            ended.err().map(|_| Err(ReadError::Unreadable("its reader panicked".into())))
        })
    }
}
