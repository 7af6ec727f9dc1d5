//! The bystander as its users see it: pinged from outside the machine, every ten milliseconds,
//! however long it takes to answer.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::clock::Since;

/// Between two pings.
const EVERY: Duration = Duration::from_millis(10);

/// One ping; times are nanoseconds of the host's clock since the probe began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ping {
    pub(crate) sent_ns: u64,
    pub(crate) answered_ns: Option<u64>,
    /// How much later than it should have been: the host had something else to do.
    pub(crate) late_ns: u64,
    /// The guest's clock when it answered.
    pub(crate) guest_ns: u64,
}

/// Pings while a bystander is there.
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Log>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Log {
    pings: Vec<Ping>,
    /// The number of the first of them: late answers to older ones do not count.
    first: usize,
    /// A bystander has said hello and was not taken leave of since.
    asked: bool,
}

impl Probe {
    /// Begins as soon as the machine opens `socket` and the bystander says hello.
    pub(super) fn start(socket: PathBuf) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(Log::default()));
        let (told, shared) = (Arc::clone(&stop), Arc::clone(&log));
        let thread = thread::Builder::new().spawn(move || {
            let is_on = || !told.load(Ordering::Relaxed);
            while is_on() {
                if let Ok(line) = UnixStream::connect(&socket) {
                    // It ends with the machine.
                    let _ = ping(line, &shared, is_on);
                    return;
                }
                thread::sleep(EVERY);
            }
        })?;
        Ok(Self { stop, log, thread: Some(thread) })
    }

    /// All pings since the last time; none are sent until the next hello.
    pub(super) fn take(&self) -> Vec<Ping> {
        let Ok(mut log) = self.log.lock() else { return Vec::new() };
        log.asked = false;
        log.first += log.pings.len();
        std::mem::take(&mut log.pings)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Fails only if it panicked, which it has said then.
            let _ = thread.join();
        }
    }
}

fn ping(mut line: UnixStream, log: &Mutex<Log>, is_on: impl Fn() -> bool) -> std::io::Result<()> {
    line.set_read_timeout(Some(Duration::from_millis(1)))?;
    line.set_write_timeout(Some(Duration::from_millis(1)))?;
    let since = Since::now();
    let now = || since.elapsed().as_nanos() as u64;
    let (mut rest, mut block, mut next) = (String::new(), [0; 4096], 0);
    while is_on() {
        let at = now();
        if at >= next {
            let late_ns = if next == 0 { 0 } else { at - next };
            next = at + EVERY.as_nanos() as u64;
            let number = log.lock().ok().and_then(|mut log| log.send(at, late_ns));
            if let Some(number) = number {
                // A machine that stands still reads nothing: then this ping is lost.
                let _ = line.write(format!("{number:x}\n").as_bytes());
            }
        }
        match line.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                let at = now();
                rest += &String::from_utf8_lossy(&block[..n]);
                while let Some((line, more)) = rest.split_once('\n') {
                    if let Ok(mut log) = log.lock() {
                        log.hear(line.trim(), at);
                    }
                    rest = more.to_owned();
                }
            }
            // Nothing within a millisecond.
            Err(_) => {}
        }
    }
    Ok(())
}

impl Log {
    /// The number of the next ping, if one is to be sent.
    fn send(&mut self, sent_ns: u64, late_ns: u64) -> Option<usize> {
        if !self.asked {
            return None;
        }
        self.pings.push(Ping { sent_ns, answered_ns: None, late_ns, guest_ns: 0 });
        Some(self.first + self.pings.len() - 1)
    }

    fn hear(&mut self, line: &str, at_ns: u64) {
        if line == "hello" {
            self.asked = true;
            return;
        }
        let Some((number, guest)) = line.split_once(' ') else { return };
        let number = usize::from_str_radix(number, 16).ok();
        let number = number.and_then(|number| number.checked_sub(self.first));
        let (Some(number), Ok(guest_ns)) = (number, u64::from_str_radix(guest, 16)) else { return };
        if let Some(ping) = self.pings.get_mut(number).filter(|ping| ping.answered_ns.is_none()) {
            (ping.answered_ns, ping.guest_ns) = (Some(at_ns), guest_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pings_of_this_play_are_answered_and_only_after_a_hello() {
        let mut log = Log::default();
        assert_eq!(log.send(1, 0), None);
        log.hear("hello", 2);
        assert_eq!((log.send(10, 0), log.send(20, 0)), (Some(0), Some(1)));
        for line in ["1 ff", "1 aaaa", "7 1", "zz 1", "", "0"] {
            log.hear(line, 25);
        }
        assert_eq!(
            log.pings[1],
            Ping { sent_ns: 20, answered_ns: Some(25), late_ns: 0, guest_ns: 255 }
        );
        assert_eq!(log.pings[0].answered_ns, None);
        let log = Mutex::new(log);
        let probe = Probe { stop: Arc::default(), log: Arc::new(log), thread: None };
        assert_eq!(probe.take().len(), 2);
        let mut log = probe.log.lock().unwrap();
        assert_eq!(log.send(30, 0), None, "the bystander has gone");
        log.hear("hello", 40);
        assert_eq!(log.send(50, 0), Some(2));
        log.hear("1 ff", 60);
        assert_eq!(log.pings[0].answered_ns, None, "an answer to the play before");
    }
}
