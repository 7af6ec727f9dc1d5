//! The built binary where it has to look at this node: what it answers, and how it ends.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::host::{Agent, Group, free_port, skip};
use crate::program::{isobar, text};
use isobar::clock;
use isobar_core::model::units::Nanos;
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn run_ends_on_signals() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut agent = Agent::start(&["--probes", "none"]);
        // A reader that never leaves must not hold the agent back.
        let _reader =
            ureq::get(format!("http://{}/api/v1/stream", agent.address())).call().unwrap();
        let asked = clock::now().boot;
        let status = agent.end_by(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}");
        let took = clock::now().boot.since(asked);
        assert!(took < Nanos::SECOND, "{signal:?}: {took:?}");
    }
}

#[test]
fn status_logs_nothing() {
    let got = isobar(&["status", "-o", "json"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&got.stderr);
    if !matches!(got.status.code(), Some(0 | 10)) {
        return skip(&format!("nothing can be sampled here: {stderr}"));
    }
    assert!(!stderr.contains("INFO") && !stderr.contains("WARN"), "{stderr}");
}

#[test]
fn top_and_status_ask_an_agent() {
    let agent = Agent::start(&["--probes", "none"]);
    let address = agent.address().to_string();
    let got = isobar(&["top", "--once", "-o", "ndjson", "--agent", &address]).output().unwrap();
    let line: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(line["apiVersion"], "isobar/v1alpha1");
    assert_eq!(text(&got.stdout).lines().count(), 1);

    let got = isobar(&["status", "-o", "json", "--agent", &address]).output().unwrap();
    let status: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["facts"]["kernel"], rustix::system::uname().release().to_str().unwrap());
}

#[test]
fn run_duration() {
    let begun = clock::now().boot;
    let address = free_port().to_string();
    let got = isobar(&["run", "--probes", "none", "--duration", "1s", "--listen", &address])
        .output()
        .unwrap();
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let took = clock::now().boot.since(begun);
    assert!(Nanos::SECOND <= took && took < Nanos(3 * Nanos::SECOND.0), "{took:?}");
    assert!(got.stdout.is_empty(), "diagnostics belong on stderr");
}

/// `isobar` with these arguments, started by another program, such as `unshare -rn`.
fn isobar_by(program: &[&str], arguments: &[&str]) -> Command {
    let plain = isobar(arguments);
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(plain.get_program()).args(arguments).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn own_samples_in_a_network_namespace_without_loopback() {
    let unshare = ["unshare", "-rn"];
    if !Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|is| is.success()) {
        return skip("no network namespace can be made");
    }
    #[rustfmt::skip]
    let table: &[(&[&str], &[i32], &str)] = &[
        // arguments, codes, what stderr says
        (&["status"],                                    &[0, 10], ""),
        (&["status", "--wait=cpu", "--timeout=2s"],      &[0, 1],  ""),
        (&["explain"],                                   &[0],     ""),
        (&["top", "--once", "-o", "ndjson"],             &[0],     ""),
        (&["status", "--agent", "127.0.0.1:9"],          &[1],     "no agent listens on 127.0.0.1:9"),
        (&["status", "--agent", "192.0.2.1:9"],          &[1],     "cannot ask the agent on 192.0.2.1:9: "),
    ];
    for (arguments, codes, told) in table {
        let is_own = !arguments.contains(&"--agent");
        let sampling: &[&str] = if is_own { &["--probes", "none"] } else { &[] };
        let got = isobar_by(&unshare, &[*arguments, sampling].concat()).output().unwrap();
        let stderr = text(&got.stderr);
        assert!(codes.contains(&got.status.code().unwrap()), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        assert!(!is_own || !stderr.contains("the agent on"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn rank_tells_what_hides_pods() {
    let by = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let Some(root) = Group::make("rank") else { return };
    let kubepods = root.child("kubepods");
    let classes = ["besteffort", "burstable"].map(|class| kubepods.child(class));
    let _pod = classes[0].child("pod0d3a");
    #[rustfmt::skip]
    let table: [(&[&Group], i32, bool); 4] = [
        // what cannot be listed, code, a pod is seen
        (&[],                         0, true),
        (&[&classes[1]],              0, true),
        (&[&classes[0], &classes[1]], 4, false),
        (&[&kubepods],                4, false),
    ];
    for (hidden, code, is_seen) in table {
        let mode = |mode| {
            let set =
                |group: &&Group| fs::set_permissions(group.dir(), Permissions::from_mode(mode));
            hidden.iter().map(set).for_each(Result::unwrap);
        };
        mode(0o000);
        let arguments = ["rank", "--probes=none", "--cgroup-root", root.dir().to_str().unwrap()];
        let got = isobar_by(&by, &arguments).output().unwrap();
        mode(0o755);
        let (stdout, stderr) = (text(&got.stdout), text(&got.stderr));
        assert_eq!(got.status.code(), Some(code), "{stdout}{stderr}");
        assert_eq!((stdout.contains("0d3a"), stdout.is_empty()), (is_seen, !is_seen), "{stdout}");
        for group in hidden {
            let told = format!("cannot read {}/: Permission denied", group.dir().display());
            assert!(stderr.contains(&told), "{stderr}");
        }
        let told = "no pod is seen, and cgroups are hidden in ";
        assert_eq!(stderr.contains(told), code != 0, "{stderr}");
    }
}

#[test]
fn run_refuses_to_open_few_files() {
    let address = free_port().to_string();
    let by = ["prlimit", "--nofile=40:40"];
    let arguments = ["run", "--probes=none", "--duration=1s", "--listen", &address];
    let got = isobar_by(&by, &arguments).output().unwrap();
    let stderr = text(&got.stderr);
    assert_eq!((got.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    for told in ["may open 40 files", "needs at least 256", "LimitNOFILE", "`ulimit -n`"] {
        assert!(stderr.contains(told), "{stderr}");
    }
}

#[test]
fn run_gives_its_server_no_priority() {
    let agent = Agent::start(&["--probes", "none"]);
    // The fields of stat(5) after the name, which may contain anything.
    let nice = |of: &str| {
        let tasks = fs::read_dir(format!("/proc/{}/task", agent.pid())).unwrap();
        let stats =
            tasks.map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
        let found = stats.filter_map(|stat| {
            let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
            let nice = fields.split(' ').nth(16)?.parse::<i32>().unwrap();
            (name == of).then_some(nice)
        });
        found.collect::<Vec<_>>()
    };
    let first = nice("isobar");
    if first.iter().any(|nice| *nice >= 0) {
        return skip("no priority can be raised here");
    }
    assert!(!first.is_empty(), "the thread of the event loop");
    assert_eq!(nice("server"), [0]);
}
