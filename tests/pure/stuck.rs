//! An agent beside processes that no longer read what it tells them: they hold up no tick.

use std::fs::File;
use std::io::{PipeWriter, Read as _, Write as _, pipe};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use isobar::clock;
use isobar_core::model::units::Nanos;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::program::{isobar, text};

/// An agent that leaves after three seconds.
fn agent(dir: &Path) -> Command {
    let listen = format!("unix:{}", dir.join("api.sock").display());
    let mut agent = isobar(&["run", "--probes", "none", "--no-kubernetes", "--duration", "3s"]);
    agent.args(["--listen", &listen, "--state-dir"]).arg(dir).stdout(Stdio::null());
    agent
}

#[track_caller]
fn leaves(mut agent: Child) {
    let end = clock::now().boot.plus(Nanos(20 * Nanos::SECOND.0));
    while clock::now().boot < end {
        if let Some(status) = agent.try_wait().unwrap() {
            return assert!(status.success(), "{status}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    panic!("it is held up");
}

/// Until a writer would have to wait.
fn fill(pipe: &mut PipeWriter) {
    let flags = fcntl_getfl(&*pipe).unwrap();
    fcntl_setfl(&*pipe, flags | OFlags::NONBLOCK).unwrap();
    for piece in [&[b'x'; 4096][..], b"x"] {
        while pipe.write(piece).is_ok() {}
    }
    fcntl_setfl(&*pipe, flags).unwrap();
}

/// As of a container runtime whose disk hangs.
#[test]
fn stuck_reader_of_the_log_holds_up_no_tick() {
    for is_read in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, mut writer) = pipe().unwrap();
        fill(&mut writer);
        let agent = agent(dir.path()).stderr(writer).spawn().unwrap();
        let reading = is_read.then(|| {
            let mut reader = reader.try_clone().unwrap();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(1_500));
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| text(&all)).unwrap()
            })
        });
        leaves(agent);
        if let Some(reading) = reading {
            let log = reading.join().unwrap();
            let log = log.trim_start_matches('x');
            assert!(log.contains("started; the API is at") && !log.contains("left out"), "{log}");
        }
        // Until here the pipe has a reader.
        let _ = reader.read(&mut [0]);
    }
}

/// What cannot be told is told again.
#[test]
fn stuck_service_manager_holds_up_no_tick() {
    for is_read in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify.sock");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        let n = (0..).take_while(|_| other.send_to(b"X=1", &path).is_ok()).count();
        let log = File::create(dir.path().join("log")).unwrap();
        let agent = agent(dir.path()).env("NOTIFY_SOCKET", &path).stderr(log).spawn().unwrap();
        if is_read {
            thread::sleep(Duration::from_millis(1_500));
            let mut buffer = [0; 4096];
            let mut next = || manager.recv(&mut buffer).map(|n| text(&buffer[..n])).unwrap();
            (0..n).for_each(|_| assert_eq!(next(), "X=1"));
            let told = next();
            assert!(told.starts_with("READY=1\nWATCHDOG=1\nSTATUS="), "{told}");
        }
        leaves(agent);
    }
}
