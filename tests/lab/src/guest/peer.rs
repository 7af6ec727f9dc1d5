//! What a peer needs around it: its disk among the guest's own file systems, and somebody who tells
//! systemd-oomd what to watch, as the service manager does.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::agents::peers::{Managed, ROOT};
use crate::shell::quietly;

/// The disk with the peers' packages.
const DISK: &str = "/dev/vdc";
/// The guest's own file systems, which a peer sees as it would on a machine of its own.
const SHARED: [&str; 5] = ["/dev", "/proc", "/sys", "/tmp", "/run"];
/// Where systemd-oomd 252 asks, by Varlink (https://varlink.org).
const ASKED_AT: &str = "/run/systemd/io.system.ManagedOOM";

/// Mounts the disk, once a boot.
pub(super) fn mount() -> Result<()> {
    if Path::new(ROOT).exists() {
        return Ok(());
    }
    fs::create_dir_all("/run/systemd/oom")?;
    fs::create_dir(ROOT)?;
    quietly(Command::new("mount").args(["-t", "ext4", "-o", "ro", DISK, ROOT]))?;
    for dir in SHARED {
        quietly(Command::new("mount").args(["-o", "rbind", dir, &format!("{ROOT}{dir}")]))?;
    }
    Ok(())
}

/// Stands in for the service manager while a peer runs.
pub(super) struct Manager {
    asked: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Answers with `managed` whoever asks what to watch.
    pub(super) fn start(managed: &[Managed]) -> Result<Self> {
        if Path::new(ASKED_AT).exists() {
            fs::remove_file(ASKED_AT)?;
        }
        let listener = UnixListener::bind(ASKED_AT).context(ASKED_AT)?;
        listener.set_nonblocking(true)?;
        let (asked, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (answer, flags) = (answer(managed), (Arc::clone(&asked), Arc::clone(&end)));
        let thread = thread::spawn(move || {
            // An answer may be followed by others for as long as the connection stands.
            let mut open = Vec::new();
            while !flags.1.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let answered = tell(stream, &answer);
                        flags.0.fetch_or(answered.is_ok(), Ordering::Relaxed);
                        open.extend(answered);
                    }
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(50));
                    }
                    Err(why) => return eprintln!("{ASKED_AT}: {why}"),
                }
            }
        });
        Ok(Self { asked, end, thread: Some(thread) })
    }

    /// True once somebody knows what to watch.
    pub(super) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // It fails only if the thread has panicked, which was said.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Varlink: JSON that ends in a NUL, the question first.
fn tell(mut stream: UnixStream, answer: &Value) -> Result<UnixStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 && byte != [0] {}
    stream.write_all(format!("{answer}\0").as_bytes())?;
    Ok(stream)
}

fn answer(managed: &[Managed]) -> Value {
    let cgroups = managed.iter().map(|unit| {
        // A share of all that 32 bits hold.
        let limit = unit.limit.map_or(0, |percent| u64::from(u32::MAX) * u64::from(percent) / 100);
        json!({"mode": "kill", "path": unit.cgroup, "property": unit.property, "limit": limit})
    });
    json!({"parameters": {"cgroups": cgroups.collect::<Value>()}, "continues": true})
}
