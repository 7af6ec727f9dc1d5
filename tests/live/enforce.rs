//! The built agent as one who may act, in a configuration by which there is never a reason to:
//! only one does on a node, it remembers across a kill, and the service manager hears of it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::host::{Agent, Group, HARMLESS, free_port, skip};
use crate::program::isobar;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{Action, StepKind, StepReason, Target, made};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Nanos, Percent};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a configuration and room for what is remembered.
struct Node {
    dir: TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.yaml"), HARMLESS).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn arguments(&self, mode: &str) -> Vec<String> {
        let (config, state) = (self.path("config.yaml"), self.path("state"));
        let all = ["--probes", "none", "--config", &config, "--state-dir", &state, "--mode", mode];
        all.map(str::to_owned).to_vec()
    }

    fn start(&self, mode: &str) -> Agent {
        let arguments = self.arguments(mode);
        Agent::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn capability<'a>(snapshot: &'a Value, name: &str) -> &'a Value {
    let all = snapshot["capabilities"].as_array().unwrap();
    all.iter().find(|c| c["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn enforce_only_one_agent() {
    let node = Node::new();
    let mut first = node.start("enforce");
    let told = capability(&first.snapshot(), "relief").clone();
    assert!(told["detail"].as_str().unwrap().starts_with("enforcing nothing"), "{told}");
    assert!(first.stderr().contains("enforcing nothing"), "{}", first.stderr());

    let port = free_port().to_string();
    let second = isobar(&["run", "--listen", &port]).args(node.arguments("enforce")).output();
    let second = second.unwrap();
    let stderr = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "nothing was attached before: {stderr}");
    for word in [&format!("process {}", first.pid()), "--mode observe", &node.path("state/lock")] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
    // Whoever only looks is in nobody's way.
    let mut observer = node.start("observe");
    assert_eq!(capability(&observer.snapshot(), "relief")["detail"], "observing");
    assert!(observer.stderr().contains("observing"), "{}", observer.stderr());
    assert_eq!(observer.stop().code(), Some(0));

    assert_eq!(first.stop().code(), Some(0));
    let mut third = node.start("enforce");
    assert_eq!(third.stop().code(), Some(0));
}

#[test]
fn observe_keeps_averages_alone() {
    let node = Node::new();
    let mut agent = node.start("observe");
    agent.wait_for("a second sample", |snapshot| snapshot["tick"].as_u64() > Some(1));
    assert_eq!(agent.stop().code(), Some(0));
    let kept = fs::read_dir(node.path("state")).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(kept.collect::<Vec<_>>(), ["averages.json"]);
}

/// A kill of `group` that was decided, of which nothing has been seen yet.
fn kill(group: &Group) -> Action {
    let reason = made::pressed(PressureSignal::Memory(Percent(60_00)));
    Action {
        id: 5,
        target: Target {
            name: group.path().into(),
            uid: "made-up".into(),
            cgroup: Some(CgroupId(fs::metadata(group.dir()).unwrap().ino())),
            path: Some(CgroupPath(group.path().into())),
            ..Target::default()
        },
        why: StepReason::Emergency,
        deadline: Nanos(1 << 60),
        ..made::action(StepKind::KillContainers, reason)
    }
}

#[test]
fn observe_names_squeezes_of_another_agent() {
    let Some(squeezed) = Group::make("squeezed") else { return };
    let node = Node::new();
    let state = node.path("state");
    fs::create_dir(&state).unwrap();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let action = Action { step: StepKind::Squeeze, ..kill(&squeezed) };
    let entry = json!({ "action": action, "since": 0, "held": null, "phase": "squeezed" });
    let ledger = json!({ "boot": boot_id.trim(), "actions": [entry], "overrides": [] });
    let file = Path::new(&state).join("ledger.json");
    fs::write(&file, ledger.to_string()).unwrap();
    let mut agent = node.start("observe");
    agent.wait_for("a second sample", |snapshot| snapshot["tick"].as_u64() > Some(1));
    let told = agent.stderr();
    assert!(told.contains("1 squeezes of another agent are in force"), "{told}");
    assert_eq!(agent.stop().code(), Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), ledger.to_string(), "it is left alone");
}

#[test]
fn enforce_after_a_kill() {
    let Some(mut victim) = Group::make("victim") else { return };
    victim.run("exec sleep 1000");
    let node = Node::new();
    let state = node.path("state");
    fs::create_dir(&state).unwrap();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: u64 = uptime.split_once('.').unwrap().0.parse().unwrap();
    let begun = seconds * 1_000_000_000;
    let keep = |boot: &str, since: u64| {
        let ending =
            json!({ "action": kill(&victim), "since": since, "held": null, "phase": "ending" });
        let ledger = json!({ "boot": boot, "actions": [ending], "overrides": [] });
        fs::write(Path::new(&state).join("ledger.json"), ledger.to_string()).unwrap();
    };
    let held = |agent: &Agent| {
        let snapshot = agent.wait_for("a second sample", |s| s["tick"].as_u64() > Some(1));
        snapshot["decision"]["relief"]["held"]["settling"]["action"].as_u64()
    };
    keep(boot_id.trim(), begun);
    let first = node.start("enforce");
    assert_eq!(held(&first), Some(5), "{}", first.stderr());
    let metrics = first.get("/metrics").unwrap();
    for series in [
        "isobar_steps_in_force{step=\"killContainers\"} 1\n",
        "isobar_decisions_total{result=\"held\",reason=\"settling\"} ",
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
    // Dropped, it is killed without a chance to write anything down.
    drop(first);
    let mut second = node.start("enforce");
    assert_eq!(held(&second), Some(5), "{}", second.stderr());
    assert!(
        second.stderr().contains("action 5 of an earlier agent is under way"),
        "{}",
        second.stderr()
    );
    assert_eq!(second.stop().code(), Some(0));
    // What is of another boot is about other processes and another clock.
    // Nor is a kill waited for that began two minutes ago and that no agent follows.
    for (boot, since) in [("another boot", begun), (boot_id.trim(), begun - 121 * 1_000_000_000)] {
        keep(boot, since);
        let mut third = node.start("enforce");
        assert_eq!(held(&third), None, "{}", third.stderr());
        assert_eq!(third.stop().code(), Some(0));
    }
    assert!(!fs::read_to_string(victim.dir().join("cgroup.procs")).unwrap().is_empty());
}

#[test]
fn enforce_on_hangup() {
    let node = Node::new();
    let arguments = node.arguments("");
    let without_mode = &arguments[..arguments.len() - 2];
    let start = || Agent::start(&without_mode.iter().map(String::as_str).collect::<Vec<_>>());
    let (first, second) = (start(), start());
    let enforcing = HARMLESS.replace("{steps: []}", "{steps: [squeeze], enforce: [squeeze]}");
    fs::write(node.path("config.yaml"), enforcing).unwrap();
    let relief = |agent: &Agent, word: &str| {
        agent.wait_for(word, |s| capability(s, "relief")["detail"].as_str() == Some(word));
    };
    first.hang_up();
    relief(&first, "enforcing squeeze");
    let metrics = first.get("/metrics").unwrap();
    for line in [
        "isobar_mode{mode=\"enforce\"} 1\n",
        "isobar_step_enforced{step=\"squeeze\"} 1\n",
        "isobar_config_generation 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    second.hang_up();
    let told = format!("process {}", first.pid());
    second.wait_for("the refusal", |_| second.stderr().contains(&told));
    relief(&second, "observing");
}

/// What the agent tells its service manager, message by message.
struct Manager {
    socket: UnixDatagram,
    path: String,
    _dir: TempDir,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        Self { socket, path: path.to_str().unwrap().to_owned(), _dir: dir }
    }

    /// The next message that has `word` in it.
    #[track_caller]
    fn hears(&self, word: &str) -> String {
        let mut buffer = [0; 4096];
        let mut before = Vec::new();
        loop {
            let n = self.socket.recv(&mut buffer).unwrap_or_else(|why| {
                panic!("{word} was not told: {why}; before that: {before:?}")
            });
            let told = String::from_utf8(buffer[..n].to_vec()).unwrap();
            if told.contains(word) {
                return told;
            }
            before.push(told);
        }
    }
}

#[test]
fn notify_service_manager() {
    let manager = Manager::new();
    let node = Node::new();
    let arguments = node.arguments("observe");
    let mut agent =
        Agent::start_told(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &manager.path);
    let ready = manager.hears("READY=1");
    assert!(ready.contains("STATUS=observing; 0 thresholds are met"), "{ready}");
    for _ in 0..2 {
        let alive = manager.hears("WATCHDOG=1");
        assert!(!alive.contains("READY"), "{alive}");
    }
    agent.hang_up();
    let reloading = manager.hears("RELOADING=1");
    let moment = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(moment.parse::<u64>().unwrap() > 0, "{reloading}");
    manager.hears("READY=1");
    assert_eq!(agent.stop().code(), Some(0));
    manager.hears("STOPPING=1");
}

#[test]
fn unit_verifies() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd/isobar.service");
    let text = fs::read_to_string(unit).unwrap();
    // The program is where the unit says only once it is installed.
    let text = text.replace("/usr/local/bin/isobar", env!("CARGO_BIN_EXE_isobar"));
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("isobar.service");
    fs::write(&unit, text).unwrap();
    let Ok(verdict) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else {
        return skip("systemd-analyze is not installed");
    };
    let told = String::from_utf8_lossy(&verdict.stderr).into_owned();
    // Of units of the machine's own it complains, too.
    let ours: Vec<_> = told.lines().filter(|line| line.contains("isobar.service")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}
