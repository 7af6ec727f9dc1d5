//! `isobar status --watch` and `isobar top` in a pipe: how they end, and what ends them not.

use std::io::{BufRead as _, BufReader, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
            let (mut asked, mut answers) = (asked.unwrap(), TcpStream::connect(agent).unwrap());
            let (mut client, mut question) =
                (asked.try_clone().unwrap(), answers.try_clone().unwrap());
            thread::spawn(move || copy(&mut client, &mut question));
            thread::spawn(move || copy(&mut answers, &mut asked));
            (n == 3).then(|| to.send(()));
        }
    });
    (here, fourth)
}

#[test]
fn watching_goes_on_after_an_agent_that_did_not_answer() {
    for arguments in [["top", "-o", "ndjson"], ["status", "--watch", "--output=ndjson"]] {
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
