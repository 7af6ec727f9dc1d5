//! Users without rights who mean harm: the agent ticks on, stays small, and answers others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::host::{Agent, Group, alone};
use isobar::clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use socket2::SockRef;

/// Growth of resident memory while an attack lasts: connections and their buffers.
const GROWTH: u64 = 12 << 20;
const READERS: usize = 20;
/// For an answer while the agent is attacked.
const PATIENCE: Duration = Duration::from_secs(3);

fn resident(snapshot: &Value) -> u64 {
    snapshot["cost"]["resident"].as_u64().unwrap()
}

/// Bytes that the agent has allocated and that are in memory: without its code, of which more is read
/// in once more of it has run.
fn allocated(agent: &Agent) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Bytes that the kernel keeps for connections of this node.
fn in_sockets() -> u64 {
    let status = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let line = status.lines().find(|line| line.starts_with("TCP:")).unwrap();
    let pages = line.split_once(" mem ").unwrap().1.trim();
    pages.parse::<u64>().unwrap() * 4_096
}

/// The longest time between two ticks since the start, in milliseconds.
fn longest_gap(snapshot: &Value) -> u64 {
    snapshot["cost"]["longestGap"].as_u64().unwrap() / 1_000_000
}

/// Asks as an honest client would, and returns how long that took.
fn answer_time(agent: &Agent) -> Duration {
    let begun = clock::now().boot;
    let mut socket = TcpStream::connect(agent.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer in time");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    Duration::from_nanos(clock::now().boot.since(begun).0)
}

#[test]
fn attack_by_half_open_connections() {
    let _alone = alone();
    // As many as this process may open.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let n_most = usize::try_from(maximum.unwrap_or(u64::MAX).min(10_500) - 500).unwrap();

    let agent = Agent::start(&[]);
    let start = agent.wait_for("a steady state", |s| s["tick"].as_u64() >= Some(6));
    let mut sockets = Vec::new();
    let mut slowest = Duration::ZERO;
    // A stream that nobody reads holds no place.
    for _ in 0..300 {
        let mut socket = TcpStream::connect(agent.address()).unwrap();
        let _ = socket.write_all(b"HEAD /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
        sockets.push(socket);
    }
    for n in 0..n_most {
        let mut socket = TcpStream::connect(agent.address()).unwrap();
        // The agent may have closed it already: then there is nothing to write to.
        let _ = socket.write_all(b"GET / HTTP/1.1\r\n");
        sockets.push(socket);
        // Faster, and the kernel drops what is not accepted yet: each tries again after a second.
        if n % 100 == 99 {
            sleep(Duration::from_millis(30));
        }
        if n % 1_000 == 999 {
            slowest = slowest.max(answer_time(&agent));
        }
    }
    let under = agent.snapshot();
    let grown = resident(&under).saturating_sub(resident(&start));
    assert!(grown < GROWTH, "{n_most} connections, and {grown} bytes more");
    let n_open = agent.n_sockets();
    assert!(n_open <= 150, "{n_open} sockets are open");
    let longest = longest_gap(&under);
    assert!(longest < 2_500, "{longest} ms without a tick");
    drop(sockets);
    println!("{n_most} connections, {n_open} open, {grown} bytes more, answers within {slowest:?}");
}

#[test]
fn attack_by_slow_readers() {
    let _alone = alone();
    let Some(above) = Group::make("slow-readers") else { return };
    // So many that a snapshot is far larger than what two sockets buffer.
    let many: Vec<_> = (0..1_500).map(|n| above.child(&format!("{n:0100}"))).collect();
    let agent = Agent::start(&["--max-cgroups", "4096"]);
    let mut last = agent.wait_for("all of them", |s| {
        s["tick"].as_u64() >= Some(6)
            && s["scopes"].as_object().is_some_and(|all| all.len() > 1_500)
    });
    let size = agent.get("/api/v1/snapshot").unwrap().len() as u64;
    last = agent.next(&last);
    let start = resident(&last);
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut socket = TcpStream::connect(agent.address()).unwrap();
        socket.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        socket.read_exact(&mut [0; 100]).unwrap();
        readers.push(socket);
        last = agent.next(&last);
    }
    let grown = resident(&last).saturating_sub(start);
    let bound = (16 << 20) + 3 * size + GROWTH;
    assert!(
        grown < bound,
        "{grown} bytes more for {READERS} readers of {size} bytes; {bound} may be"
    );
    assert!(longest_gap(&last) < 2_500, "{} ms without a tick", longest_gap(&last));
    drop(readers);
    drop(many);
    println!("{READERS} readers of {size} bytes: {grown} bytes more");
}

#[test]
fn attack_by_streams() {
    let agent = Agent::start(&["--probes=none"]);
    let open = |_| {
        let mut socket = TcpStream::connect(agent.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).expect("an answer in time");
        assert_eq!(&status, b"HTTP/1.1 200");
        socket
    };
    let streams: Vec<_> = (0..200).map(open).collect();
    agent.snapshot();
    let n_open = agent.n_sockets();
    assert!(n_open < 80, "{n_open} sockets are open");
    drop(streams);
}

/// Answers that were made for one client each, in the agent and in the kernel.
#[test]
fn attack_by_slow_readers_of_the_past() {
    /// The ticks that are asked for.
    const FIRST: u64 = 6;
    const TICKS: u64 = 30;
    /// A piece of a response in the agent, and what the kernel keeps of it.
    const CONNECTION: u64 = (64 << 10) + (256 << 10);
    let _alone = alone();
    let Some(above) = Group::make("slow-past") else { return };
    let many: Vec<_> = (0..1_500).map(|n| above.child(&format!("{n:0100}"))).collect();
    let dir = tempfile::tempdir().unwrap();
    let record = format!("--record={}/", dir.path().display());
    let agent = Agent::start(&["--max-cgroups", "4096", "--probes=none", &record]);
    let mut last = agent.wait_for("all of them", |s| {
        s["tick"].as_u64() >= Some(FIRST)
            && s["scopes"].as_object().is_some_and(|all| all.len() > 1_500)
    });
    let first = last["at"]["wall"].as_u64().unwrap();
    while last["tick"].as_u64() < Some(FIRST + TICKS + 4) {
        last = agent.next(&last);
    }
    let moment = |n: u64| {
        let at = jiff::Timestamp::from_nanosecond((first + n * 1_000_000_000).into()).unwrap();
        format!("/api/v1/cgroups?at={at}")
    };
    let hour = |_| "/api/v1/history?begin=-1h&series=system,kubepods,agent".to_owned();
    let attacks: [(u64, &dyn Fn(u64) -> String); 2] = [(TICKS, &moment), (100, &hour)];
    for (n, path) in attacks {
        // What is read and kept for one client is there for the next one.
        let size = agent.get(&path(0)).unwrap().len() as u64;
        last = agent.next(&last);
        let start = resident(&last) + in_sockets();
        let open = |n| {
            let mut socket = TcpStream::connect(agent.address()).unwrap();
            SockRef::from(&socket).set_recv_buffer_size(4_096).unwrap();
            let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path(n));
            socket.write_all(request.as_bytes()).unwrap();
            socket.read_exact(&mut [0; 100]).unwrap();
            socket
        };
        let readers: Vec<_> = (0..n).map(open).collect();
        let honest = agent.get(&path(n)).expect("an answer for one that reads");
        assert!(serde_json::from_str::<Value>(&honest).is_ok(), "{} is cut off", path(n));
        last = agent.next(&last);
        let grown = (resident(&last) + in_sockets()).saturating_sub(start);
        let told = format!("{n} readers of {size} bytes of {}: {grown} bytes more", path(0));
        println!("{told}");
        let bound = (16 << 20) + 3 * size + n * CONNECTION + GROWTH;
        assert!(grown < bound, "{told}; {bound} may be");
        assert!(longest_gap(&last) < 2_500, "{} ms without a tick", longest_gap(&last));
        drop(readers);
    }
    drop(many);
}

#[test]
fn attack_by_cgroups_that_come_and_go() {
    const CGROUPS: usize = 5_000;
    /// What stays of it.
    const KEPT: u64 = 5 << 20;
    let _alone = alone();
    let Some(above) = Group::make("come-and-go") else { return };
    let agent = Agent::start(&["--max-cgroups", "1024"]);
    agent.wait_for("a steady state", |s| s["tick"].as_u64() >= Some(6));
    let start = allocated(&agent);
    let n_of = |s: &Value| s["scopes"].as_object().map_or(0, serde_json::Map::len);
    let is_kept = || allocated(&agent).saturating_sub(start) < KEPT;
    // What one burst has left, and what was given back of it, must not hide the next one.
    for _ in 0..2 {
        let many: Vec<_> = (0..CGROUPS).map(|n| above.child(&format!("{n:0200}"))).collect();
        agent.wait_for("all of them", |s| n_of(s) > CGROUPS);
        let under = allocated(&agent);
        drop(many);
        let mut last = agent.wait_for("none of them", |s| n_of(s) < CGROUPS / 2);
        // Memory is given back some twenty ticks after it was the last time, or after sixty if that was
        // nothing: what the half that is still there holds then, twenty ticks later.
        for _ in 0..100 {
            if is_kept() {
                break;
            }
            last = agent.next(&last);
        }
        let [start, under, end] = [start, under, allocated(&agent)].map(|bytes| bytes >> 10);
        println!(
            "allocated: {start} KiB, {under} KiB with {CGROUPS} cgroups, {end} KiB afterwards"
        );
        assert!(is_kept(), "{start} KiB before, {end} KiB after");
        assert!(longest_gap(&last) < 5_000, "{} ms without a tick", longest_gap(&last));
    }
}
