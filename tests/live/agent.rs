//! The built agent where things are missing, wrong or scarce: what it cannot see it says, and what
//! it does see agrees with the kernel's own books.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::host::{Agent, Group, alone, free_port, gaps, last_cpu, scope, skip};
use crate::program::isobar;
use serde_json::Value;

fn nanos(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

/// `part` of `whole` in percent, by integers.
fn percent(part: u64, whole: u64) -> u64 {
    assert_ne!(whole, 0, "nothing was measured");
    part * 100 / whole
}

#[test]
fn agent_without_rights() {
    let mut agent = Agent::start_as_nobody(&[]);
    let snapshot = agent.wait_for("a second sample", |s| s["tick"].as_u64() > Some(1));
    assert!(snapshot["whole"]["pressure"]["cpu"]["some"]["avg10"].is_number(), "{snapshot:#}");
    // Not measured is null, never 0.
    for unknown in ["contention", "shortage", "cpu", "memory", "ioWait"] {
        assert_eq!(snapshot["whole"][unknown], Value::Null, "{unknown}");
    }
    assert!(snapshot["verdict"][0]["text"].as_str().unwrap().contains("contention unknown"));
    let metrics = agent.get("/metrics").unwrap();
    for known in ["isobar_pressure_waiting_seconds_total{", "isobar_covered{what=\"waits\"} 0\n"] {
        assert!(metrics.contains(known), "{known}: {metrics}");
    }
    assert!(!metrics.contains("isobar_cpu_contention_seconds_total"), "{metrics}");

    let ready = agent.get("/readyz?verbose").unwrap();
    assert!(ready.contains("[+]/proc/pressure/cpu attached"), "{ready}");
    assert!(ready.contains("[-]kernel side absent") && ready.contains("readyz check passed"));
    let status = isobar(&["status", "--agent", &agent.address().to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(text.contains("kernel side") && text.contains("`isobar doctor`"), "{status:?}");

    assert_eq!(agent.stop().code(), Some(0));
    let told = agent.stderr();
    assert!(told.contains("only pressure and files") && told.contains("to have it: "), "{told}");
}

#[test]
fn agent_without_btf() {
    let Some(mut agent) = Agent::start_without_btf() else { return };
    let snapshot = agent.wait_for("a second sample", |s| s["tick"].as_u64() > Some(1));
    assert!(snapshot["whole"]["pressure"]["cpu"]["some"]["avg10"].is_number(), "{snapshot:#}");
    assert_eq!(snapshot["whole"]["contention"], Value::Null, "{snapshot:#}");
    let ready = agent.get("/readyz?verbose").unwrap();
    let told = ready.lines().find(|line| line.starts_with("[-]kernel side")).unwrap().to_owned();
    // A build without the eBPF toolchain has nothing to load, and says that first.
    if told.contains("kernel probes not built") {
        return skip("the agent was built without its kernel side");
    }
    for word in ["/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"] {
        assert!(told.contains(word), "{told}");
    }
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn run_refuses_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (free, taken) = (free_port().to_string(), holder.local_addr().unwrap().to_string());
    let (dir, file) = (dir.path().to_str().unwrap(), file.to_str().unwrap());
    let absent = format!("{dir}/absent");
    #[rustfmt::skip]
    let table: [(&[&str], &[&str]); 4] = [
        // arguments, what the line says
        (&["--listen", &free, "--cgroup-root", dir],     &[dir, "is not a cgroup v2 directory"]),
        (&["--listen", &free, "--cgroup-root", file],    &[file, "Not a directory"]),
        (&["--listen", &free, "--cgroup-root", &absent], &[&absent, "No such file"]),
        (&["--listen", &taken],                          &[&taken, "--listen"]),
    ];
    for (arguments, told) in table {
        let got = isobar(&["run"]).args(arguments).output().unwrap();
        let stderr = String::from_utf8(got.stderr).unwrap();
        assert_eq!(got.status.code(), Some(1), "{arguments:?}: {stderr}");
        // Nothing was attached before, so nothing else is said.
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        for word in told {
            assert!(stderr.contains(word), "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn agent_max_cgroups() {
    let Some(above) = Group::make("room") else { return };
    let agent = Agent::start(&["--max-cgroups", "4"]);
    if !agent.sees_waits() {
        return;
    }
    // Each has an entry for each CPU on which it waits, and four on all CPUs there may ever be have room.
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last: usize = possible.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    let room = 4 * (last + 1);
    let mut crowd: Vec<_> = (0..room + 4).map(|n| above.child(&n.to_string())).collect();
    for group in &mut crowd {
        // Each waking up is a wait, however short.
        group.run("while :; do sleep 0.1; done");
    }
    let snapshot = agent.wait_for("waits that were not counted", |snapshot| {
        snapshot["lost"]["cgroups"].as_u64() > Some(0)
            && crowd.iter().all(|group| scope(snapshot, group.path()).is_some())
    });
    let told = gaps(&snapshot, "--max-cgroups").next().expect("a gap that names the option");
    assert_eq!(told["why"], "full", "{told}");
    let status = isobar(&["status", "--agent", &agent.address().to_string()]).output().unwrap();
    assert!(String::from_utf8_lossy(&status.stdout).contains("--max-cgroups"), "{status:?}");
    let waits = |group: &&Group| !scope(&snapshot, group.path()).unwrap()["cpu"].is_null();
    let counted = crowd.iter().filter(waits).count();
    assert!(
        counted <= room,
        "{counted} of {} cgroups have waits, with room for {room}",
        crowd.len()
    );
}

/// What two cgroups that spin on one CPU went through, summed over some ticks.
#[derive(Debug, Default)]
struct Contest {
    /// Each one's run-queue wait, and what of it was contention.
    wait: [u64; 2],
    contention: [u64; 2],
    /// How long each waited while the other ran, and while anybody else did.
    by_other: [u64; 2],
    by_strangers: [u64; 2],
}

impl Contest {
    fn watch(agent: &Agent, paths: [&str; 2], ticks: u32) -> Self {
        let mut sum = Self::default();
        let mut snapshot = agent.snapshot();
        for _ in 0..ticks {
            snapshot = agent.next(&snapshot);
            for (me, path) in paths.iter().enumerate() {
                let cpu = &scope(&snapshot, path).unwrap()["cpu"];
                sum.wait[me] += nanos(&cpu["wait"]["now"]);
                sum.contention[me] += nanos(&cpu["contention"]["now"]);
                let blames = snapshot["aggressions"].as_array().unwrap().iter();
                for blame in blames.filter(|blame| blame["victimPath"] == **path) {
                    let time = nanos(&blame["time"]);
                    match blame["aggressorPath"] == *paths[1 - me] {
                        true => sum.by_other[me] += time,
                        false => sum.by_strangers[me] += time,
                    }
                }
            }
        }
        sum
    }

    /// What is not as it must be.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for me in 0..2 {
            let contended = percent(self.contention[me], self.wait[me]);
            if contended < 90 {
                faults.push(format!("{contended} % of the wait of {me} is contention"));
            }
            // Others may use that CPU too: what is left is between the two.
            let between = self.contention[me].saturating_sub(self.by_strangers[me]);
            let blamed = percent(self.by_other[me], between);
            if !(90..=110).contains(&blamed) {
                faults
                    .push(format!("{blamed} % of what is left to the wait of {me} is the other's"));
            }
        }
        faults
    }
}

#[test]
fn agent_two_spinners() {
    let _alone = alone();
    let (Some(mut a), Some(mut b)) = (Group::make("a"), Group::make("b")) else { return };
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    let cpu = last_cpu();
    a.spin(cpu);
    b.spin(cpu);
    let paths = [a.path(), b.path()];
    agent.wait_for("both waiting", |snapshot| {
        paths.iter().all(|p| scope(snapshot, p).is_some_and(|s| !s["cpu"].is_null()))
    });
    // Once more if it fails: a neighbour may take the CPU away for seconds.
    let contest = Contest::watch(&agent, paths, 5);
    if contest.faults().is_empty() {
        return;
    }
    println!("again, because of {:?}", contest.faults());
    let contest = Contest::watch(&agent, paths, 5);
    assert_eq!(contest.faults(), Vec::<String>::new(), "{contest:?}");
}

/// The run-queue wait of a process with one thread, by the scheduler's own count: `sched_info`,
/// printed by `proc_pid_schedstat`, fs/proc/base.c.
fn run_delay(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// How far two counts of the same wait may lie apart, in percent: the file is read a few
/// milliseconds after the maps were.
const APART: u64 = 5;

#[test]
fn agent_agrees_with_schedstat() {
    let _alone = alone();
    let (Some(mut watched), Some(mut other)) = (Group::make("one"), Group::make("two")) else {
        return;
    };
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    let cpu = last_cpu();
    let pid = watched.spin(cpu);
    other.spin(cpu);
    if run_delay(pid).is_none() {
        return skip("this kernel has no /proc/PID/schedstat");
    }
    let read = |snapshot: &Value| {
        let wait = scope(snapshot, watched.path())?["cpu"]["wait"]["total"].as_u64()?;
        Some((wait, run_delay(pid)?))
    };
    let mut told = Vec::new();
    for _ in 0..2 {
        let begun = agent.next(&agent.wait_for("the wait", |snapshot| read(snapshot).is_some()));
        let before = read(&begun).unwrap();
        sleep(Duration::from_secs(5));
        let after = read(&agent.next(&agent.snapshot())).unwrap();
        let (ebpf, file) = (after.0 - before.0, after.1 - before.1);
        if percent(ebpf.abs_diff(file), file) <= APART {
            return;
        }
        told.push(format!("{ebpf} ns by eBPF, {file} ns by schedstat"));
    }
    panic!("further apart than {APART} %, twice: {told:?}");
}
