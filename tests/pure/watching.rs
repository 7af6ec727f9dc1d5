//! `isobar status --watch` and `isobar top` in a pipe: how they end, and what ends them not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::cli::made_up_agent;
use crate::program::{isobar, text};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn status_watch_ends_on_sigterm() {
    let agent = made_up_agent().to_string();
    let mut watch = isobar(&["status", "--watch", "--agent", &agent])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (heading, first) = (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
    assert_eq!(heading, "TIME                  CPU      MEMORY   IO       CONDITIONS");
    assert!(first.ends_with("Z  PRESSED  calm     calm     -"), "{first}");
    let pid = Pid::from_raw(watch.id().cast_signed()).unwrap();
    // A test that a shell runs in the background has SIGINT ignored, and so has what it starts.
    kill_process(pid, Signal::TERM).unwrap();
    let ended = watch.wait_with_output().unwrap();
    assert_eq!((ended.status.signal(), text(&ended.stderr)), (Some(15), String::new()));
    assert!(lines.next().is_none(), "nothing has changed");
}

/// An agent that drops the second request, as one that is being started again does. Tells of the fourth.
fn interrupted_agent() -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, agent) = (listener.local_addr().unwrap(), made_up_agent());
    let (to, fourth) = channel();
    thread::spawn(move || {
        for (n, asked) in listener.incoming().enumerate().filter(|(n, _)| *n != 1) {
            hand_on(asked.unwrap(), agent);
            (n == 3).then(|| to.send(()));
        }
    });
    (here, fourth)
}

/// `asked` is a connection over TCP or a socket file: what a `UnixStream` does here is the same of both.
fn hand_on(asked: impl Into<OwnedFd>, agent: SocketAddr) {
    let mut asked = UnixStream::from(asked.into());
    let mut answers = TcpStream::connect(agent).unwrap();
    let (mut client, mut question) = (asked.try_clone().unwrap(), answers.try_clone().unwrap());
    thread::spawn(move || copy(&mut client, &mut question));
    thread::spawn(move || {
        let _ = copy(&mut answers, &mut asked);
        // Who asks by a socket file reads until its end. It fails only where the asker has gone.
        let _ = asked.shutdown(Shutdown::Write);
    });
}

/// An agent that answers the first request, and refuses all later ones.
pub(crate) fn refusing_agent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, agent) = (listener.local_addr().unwrap(), made_up_agent());
    thread::spawn(move || {
        hand_on(listener.accept().unwrap().0, agent);
        for asked in listener.incoming() {
            let mut asked = asked.unwrap();
            let _ = asked.read(&mut [0; 4096]).unwrap();
            let _ = asked
                .write_all(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    here
}

/// An agent that starts: its first two answers say that it has had no sample yet.
fn starting_agent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, agent) = (listener.local_addr().unwrap(), made_up_agent());
    thread::spawn(move || {
        for (n, asked) in listener.incoming().enumerate() {
            let mut asked = asked.unwrap();
            if n >= 2 {
                hand_on(asked, agent);
                continue;
            }
            let _ = asked.read(&mut [0; 4096]).unwrap();
            let _ = asked
                .write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    here
}

#[test]
fn verbs_wait_for_an_agent_that_starts() {
    #[rustfmt::skip]
    let table: &[(&[&str], i32)] = &[
        // verb, code
        (&["status"],                      10), // it prints PRESSED
        (&["explain"],                     0),
        (&["top", "--once", "-o=ndjson"],  0),
        (&["doctor"],                     1), // something is missing
    ];
    for (arguments, code) in table {
        let agent = format!("--agent={}", starting_agent());
        let ended = isobar(&[arguments, &[&*agent][..]].concat()).output().unwrap();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(*code), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("waiting for the agent on 127.0.0.1:"), "{stderr}");
    }
}

#[test]
fn watching_ends_where_the_agent_refuses() {
    #[rustfmt::skip]
    let table = [
        ["top",    "-o=ndjson"],
        ["status", "--watch"],
        ["status", "--wait=cpu=false"],
    ];
    for arguments in table {
        let agent = format!("--agent={}", refusing_agent());
        let ended = isobar(&[&arguments[..], &[&agent]].concat()).output().unwrap();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{arguments:?}: {stderr}");
        assert!(stderr.contains("it answers with 403; what listens there"), "{stderr}");
        assert!(!stderr.contains("was not met within"), "{stderr}");
    }
}

#[test]
fn status_wait_waits_for_an_agent_that_starts_later() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let agent = format!("--agent=unix:{}", socket.display());
    let ask = |timeout| isobar(&["status", "--wait=cpu", timeout, &agent]);
    let ended = ask("--timeout=1s").output().unwrap();
    let (unmet, stderr) =
        ("cpu=True was not met within 1s: no agent listens on", text(&ended.stderr));
    assert_eq!((ended.status.code(), stderr.lines().count()), (Some(1), 2), "{stderr}");
    assert!(stderr.contains(unmet), "{stderr}");

    let mut waiting = ask("--timeout=60s");
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    let listener = UnixListener::bind(socket).unwrap();
    let made_up = made_up_agent();
    thread::spawn(move || hand_on(listener.accept().unwrap().0, made_up));
    let ended = waiting.wait_with_output().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!((ended.status.code(), stderr.lines().count()), (Some(0), 2), "{stderr}");
    assert!(stderr.contains("; waiting for it") && stderr.contains("answers again"), "{stderr}");
}

#[test]
fn watching_goes_on_after_an_agent_that_did_not_answer() {
    #[rustfmt::skip]
    let table = [
        ["top",    "-o",               "ndjson"],
        ["status", "--watch",          "--output=ndjson"],
        ["status", "--wait=cpu=false", "--timeout=60s"],
    ];
    for arguments in table {
        let (agent, fourth) = interrupted_agent();
        let agent = format!("--agent={agent}");
        let mut watch = isobar(&[&arguments[..], &[&agent]].concat());
        let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let goes_on = fourth.recv_timeout(Duration::from_secs(20)).is_ok();
        let pid = Pid::from_raw(watch.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let ended = watch.wait_with_output().unwrap();
        let stderr = text(&ended.stderr);
        assert!(goes_on && ended.status.signal() == Some(15), "{arguments:?}: {stderr}");
        let told: Vec<_> = stderr.lines().collect();
        assert_eq!(told.len(), 2, "{arguments:?}: {stderr}");
        assert!(told[0].contains("cannot ask the agent on"), "{stderr}");
        assert!(told[1].contains("answers again"), "{stderr}");
    }
}
