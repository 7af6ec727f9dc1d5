//! Lines on their way to stderr, of an agent that must not wait for its reader: where a container runtime
//! reads no pipe because its disk hangs, the line after the last one that fits would hold up a tick.
//! In: lines, from any thread. Out: the same lines in their order, by one thread.

use std::io::Write;
use std::mem::take;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait, and as many that are being written: some 4,000 lines.
const ROOM: usize = 512 << 10;

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// How many more came after these, and found no room.
    n_left_out: usize,
    /// What was taken before these is not written yet.
    is_writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.n_left_out == 0
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        let waiting = Waiting { lines: Vec::new(), n_left_out: 0, is_writing: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Never waits for the reader. Once a line found no room, all are left out until what waits was
    /// taken: so the number is told where they are missing.
    pub(super) fn put(&self, line: &[u8]) {
        let mut waiting = self.lock();
        match waiting.n_left_out == 0 && waiting.lines.len() + line.len() <= ROOM {
            true => waiting.lines.extend_from_slice(line),
            false => waiting.n_left_out += 1,
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Writes what comes, for ever; `tell` says how many lines were left out.
    pub(super) fn write(&self, mut to: impl Write, tell: impl Fn(usize)) -> ! {
        loop {
            let waiting = self.changed.wait_while(self.lock(), |waiting| waiting.is_empty());
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let (lines, n_left_out) = (take(&mut waiting.lines), take(&mut waiting.n_left_out));
            waiting.is_writing = true;
            drop(waiting);
            // One after the other, as without a queue: up to 4 KiB no other writer gets in between.
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                // Without a reader of stderr there is no place for a diagnostic.
                let _ = to.write_all(line);
            }
            if n_left_out > 0 {
                tell(n_left_out);
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits until all is written, but not longer than `within`.
    pub(super) fn flush(&self, within: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.is_empty();
        // What is not written by then is lost.
        let _ = self.changed.wait_timeout_while(self.lock(), within, is_busy);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};
    use std::sync::Arc;
    use std::thread;

    use isobar::clock;
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn queue_tells_how_many_lines_a_full_pipe_has_cost() {
        let (mut reader, mut writer) = pipe().unwrap();
        let end = writer.try_clone().unwrap();
        let tell = move |n| drop(writeln!(&end, "{n} left out"));
        let queue = Arc::new(Queue::new());
        let of_thread = Arc::clone(&queue);
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while writer.write(b"x").is_ok() {}
        fcntl_setfl(&writer, OFlags::empty()).unwrap();
        thread::spawn(move || of_thread.write(writer, tell));
        let line = |n: usize| format!("{n:099}\n").into_bytes();
        // The first line is on its way, and the others wait.
        queue.put(&line(0));
        while !queue.lock().is_writing {
            thread::yield_now();
        }
        let begun = clock::now().boot;
        (1..20_000).for_each(|n| queue.put(&line(n)));
        // One that is shorter may not come before those that were left out.
        queue.put(b"short\n");
        queue.flush(SHORT);
        let took = clock::now().boot.since(begun).0 / 1_000_000;
        assert!(took < 5_000, "{took} ms");

        let (mut text, mut buffer) = (Vec::new(), [0; 8192]);
        while !text.ends_with(b"left out\n") {
            let n = reader.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..n]);
        }
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.trim_start_matches('x').lines().collect();
        let (told, kept) = lines.split_last().unwrap();
        let n_left_out: usize = told.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(kept.len() + n_left_out, 20_001);
        assert!(n_left_out > 10_000, "{n_left_out}");
        for (n, kept) in kept.iter().enumerate() {
            assert_eq!(kept.parse(), Ok(n));
        }
        queue.put(b"again\n");
        queue.flush(10 * SHORT);
        let n = reader.read(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"again\n");
    }
}
