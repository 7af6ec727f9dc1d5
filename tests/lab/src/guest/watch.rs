//! Watches a play from outside the agent: which processes die, when, and what the kernel counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::WaitOptions;

use super::churn::Known;
use super::testbed::Testbed;
use crate::clock::monotonic_ns;
use crate::facts::{Death, Group, Moment, Thread, Threads, Vmstat};

/// What a process is to the play.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// The pod or service.
    pub(super) name: String,
    pub(super) sandbox: bool,
    /// May end by itself.
    pub(super) ends: bool,
    /// May be killed for want of memory.
    pub(super) killed: bool,
}

/// The processes of a play, and what was seen of them.
#[derive(Default)]
pub(super) struct Watch {
    roles: BTreeMap<u32, Role>,
    pub(super) deaths: Vec<Death>,
    /// Ends of processes that are none of the play's: pid and status.
    pub(super) others: Vec<(u32, String)>,
    pub(super) moments: Vec<Moment>,
    groups: Vec<(Group, PathBuf)>,
    /// Processes of pods that come and go.
    pub(super) churned: Arc<Mutex<Known>>,
}

impl Watch {
    /// Watches everything that work of `testbed` runs in.
    pub(super) fn over(testbed: &Testbed) -> Self {
        let groups = testbed.places.iter().map(|place| {
            let (name, kind) = (place.name.clone(), place.kind.clone());
            (Group { name, kind, empty_ns: None }, testbed.below(&place.path))
        });
        Self { groups: groups.collect(), ..Self::default() }
    }

    /// From here on `pid` is a part of the play.
    pub(super) fn add(&mut self, pid: u32, role: Role) {
        self.roles.insert(pid, role);
    }

    /// Takes note of all processes that have ended. Cheap: one system call if none has.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let at_ns = monotonic_ns();
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            let (signal, code) = (status.terminating_signal(), status.exit_status());
            // Ended tidily because of SIGTERM: see `lab load`.
            let signal = signal.or((code == Some(143)).then_some(15));
            let churned = self.churned.lock().ok().filter(|known| known.alive.contains(&pid));
            match churned.map(|known| known.ending.contains(&pid)) {
                Some(true) => continue,
                Some(false) => self.add(pid, Role { name: "churn".into(), ..Role::default() }),
                None => {}
            }
            let Some(role) = self.roles.remove(&pid) else {
                let how = signal.map_or_else(
                    || format!("exit {}", code.unwrap_or(0)),
                    |s| format!("signal {s}"),
                );
                self.others.push((pid, how));
                // An orphan of a load: only a killed one matters.
                if let Some(signal) = signal {
                    let name = String::new();
                    self.deaths.push(Death {
                        at_ns,
                        pid,
                        name,
                        signal: Some(signal),
                        code,
                        sandbox: false,
                    });
                }
                continue;
            };
            let is_allowed = if signal.is_some() { role.killed } else { role.ends };
            if is_allowed {
                continue;
            }
            let Role { name, sandbox, .. } = role;
            self.deaths.push(Death { at_ns, pid, name, signal, code, sandbox });
        }
    }

    /// Takes the pid's end out of the watch: it was asked for.
    pub(super) fn forget(&mut self, pid: u32) {
        self.deaths.retain(|death| death.pid != pid);
        self.others.retain(|(other, _)| *other != pid);
    }

    /// Notes which containers have no process left; only those in which one was seen before.
    pub(super) fn look(&mut self, seen: &mut BTreeMap<String, bool>) {
        let at = monotonic_ns();
        for (group, dir) in &mut self.groups {
            if group.empty_ns.is_some() {
                continue;
            }
            let events = fs::read_to_string(dir.join("cgroup.events")).unwrap_or_default();
            let populated = number(&events, "populated") == Some(1);
            let was = seen.entry(group.name.clone()).or_default();
            if *was && !populated {
                group.empty_ns = Some(at);
            }
            *was |= populated;
        }
    }

    /// How much the node waits for memory. PSI loses what is less than a jiffy at each reading, so not
    /// more than once a second.
    pub(super) fn moment(&mut self) {
        let pressure = fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
        let full = pressure.lines().find_map(|line| line.strip_prefix("full")).unwrap_or_default();
        let total = full.split_whitespace().find_map(|word| word.strip_prefix("total="));
        let full_us = total.and_then(|total| total.parse().ok()).unwrap_or(0);
        self.moments.push(Moment { at_ns: monotonic_ns(), full_us });
    }

    /// Pods, services and cgroups as they were last seen.
    pub(super) fn groups(&self) -> Vec<Group> {
        self.groups.iter().map(|(group, _)| group.clone()).collect()
    }
}

/// The number after `name` in a file of names and numbers.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// Counters of the kernel by now, and OOM kills.
pub(super) fn vmstat() -> (Vmstat, u64) {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = |name: &str| number(&text, name).unwrap_or(0);
    let now = Vmstat {
        swapped_in: count("pswpin"),
        swapped_out: count("pswpout"),
        major_faults: count("pgmajfault"),
        refaults_anon: count("workingset_refault_anon"),
        refaults_file: count("workingset_refault_file"),
    };
    (now, count("oom_kill"))
}

impl Vmstat {
    /// What has been added since.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            swapped_in: self.swapped_in - before.swapped_in,
            swapped_out: self.swapped_out - before.swapped_out,
            major_faults: self.major_faults - before.major_faults,
            refaults_anon: self.refaults_anon - before.refaults_anon,
            refaults_file: self.refaults_file - before.refaults_file,
        }
    }
}

/// A process, from the outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) cpu_ms: u64,
    pub(super) major_faults: u64,
    pub(super) rss_kib: u64,
}

/// What /proc says of `pid`; `None` if it is gone.
pub(super) fn process(pid: u32) -> Option<Process> {
    let dir = Path::new("/proc").join(pid.to_string());
    stat(&fs::read_to_string(dir.join("stat")).ok()?)
}

/// What /proc says of the threads of `pid`; none if it is gone.
pub(super) fn threads(pid: u32) -> Threads {
    let mut all = Threads::new();
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    for task in tasks.into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, used, io) = (read("comm"), stat(&read("stat")), read("io"));
        let written = |what| number(&io, what).unwrap_or_default();
        all.entry(name.trim_end().to_owned()).or_default().add(Thread {
            cpu_ms: used.unwrap_or_default().cpu_ms,
            writes: written("syscw:"),
            written_bytes: written("wchar:"),
        });
    }
    all
}

/// /proc/PID/stat, whose second field may hold anything but ends with the last `)`.
fn stat(text: &str) -> Option<Process> {
    let rest: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| rest.get(number - 3)?.parse::<u64>().ok();
    // USER_HZ is 100 wherever eBPF is, and so is a page 4 KiB on the kernels that are tested.
    Some(Process {
        major_faults: field(12)?,
        cpu_ms: (field(14)? + field(15)?) * 10,
        rss_kib: field(24)? * 4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_past_whatever_it_is_called() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 10 0 7 0 12 3 0 0 20 0 4 0 99 1000 2560 18";
        let want = Process { cpu_ms: 150, major_faults: 7, rss_kib: 10_240 };
        assert_eq!(stat(text), Some(want));
        assert_eq!(stat("42 (a"), None);
    }

    #[test]
    fn a_number_is_that_of_the_whole_name() {
        let text = "oom 3\noom_kill 2\nMemAvailable:  77 kB\n";
        for (name, want) in
            [("oom_kill", Some(2)), ("oom", Some(3)), ("MemAvailable:", Some(77)), ("x", None)]
        {
            assert_eq!(number(text, name), want, "{name}");
        }
    }
}
