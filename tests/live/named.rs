//! Who makes others wait is told within three seconds, everywhere by the same name.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use isobar::clock;
use isobar_core::model::units::Nanos;
use serde_json::Value;

use crate::host::{Agent, Group, alone, last_cpu};
use crate::program::{isobar, text};

const WITHIN: Nanos = Nanos(3 * Nanos::SECOND.0);
/// Ticks come once a second, so a look just after one is a second late.
const LOOK: Duration = Duration::from_millis(50);

/// Where the aggressor must be named.
const READERS: [&str; 4] = ["the page", "top", "/metrics", "explain"];
/// In the headline, while other work of this machine is the aggressor.
const ROOT: &str = "mostly while the root cgroup";

#[test]
fn aggressor_is_named_within_three_seconds() {
    let _alone = alone();
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    let address = agent.address().to_string();
    let last = last_cpu();
    for is_busy in [false, true] {
        let make = |name: &str| Group::make(&format!("{name}-{is_busy}"));
        let (Some(mut victim), Some(mut aggressor), Some(mut crowd)) =
            (make("victim"), make("aggressor"), make("crowd"))
        else {
            return;
        };
        if is_busy {
            // All other CPUs are busy, too.
            (0..last).for_each(|cpu| _ = crowd.spin(cpu));
        }
        let begun = clock::now().boot;
        let patience = begun.plus(Nanos(20 * WITHIN.0));
        let spin = format!("taskset -c {last} sh -c 'while :; do :; done'");
        victim.run(&format!("exec nice -n 5 {spin}"));
        // Above other work of this machine, or that would be the aggressor; not so far above that the
        // victim never runs, for a wait is told once it ends. Where the kernel groups processes by
        // session, a session's nice value counts, and else the process's.
        let first = format!("echo -5 > /proc/self/autogroup; exec nice -n -5 {spin}");
        aggressor.run(&format!("exec setsid sh -c \"{first}\""));
        let name = aggressor.path().rsplit('/').next().unwrap().to_owned();
        let sufferer = victim.path().rsplit('/').next().unwrap().to_owned();
        let is_named = |headline: &str| {
            headline.contains(&format!("{sufferer} loses most by waiting"))
                && headline.contains(&format!("mostly while {name}"))
        };
        let ask = |verb: &[&str]| {
            text(&isobar(&[verb, &["--agent", &address]].concat()).output().unwrap().stdout)
        };
        // Whether it is named first but for other work of this machine, and what is told.
        let look = |reader: &str| match reader {
            "the page" => {
                let sent = agent.snapshot();
                let mut pairs = sent["aggressions"].as_array().unwrap().iter();
                let first = pairs.find(|pair| pair["aggressorPath"] != "/").unwrap_or(&Value::Null);
                let is_first = first["victimPath"] == victim.path()
                    && first["aggressorPath"] == aggressor.path();
                (is_first && is_named(sent["headline"].as_str().unwrap()), sent.to_string())
            }
            "top" => {
                let top = ask(&["top", "--once"]);
                let pairs = top.lines().skip_while(|line| !line.starts_with("SUFFERER")).skip(1);
                let first = { pairs }.find(|line| !line.contains("the root cgroup"));
                let is_first = first.is_some_and(|line| {
                    line.starts_with(victim.path()) && line.contains(aggressor.path())
                });
                (is_first && top.lines().next().is_some_and(is_named), top)
            }
            "/metrics" => {
                let metrics = agent.get("/metrics").unwrap();
                let has_lost = metrics.lines().any(|line| {
                    line.starts_with("isobar_headline_wait_seconds_per_second{")
                        && line.contains(&format!("aggressor=\"{}\"", aggressor.path()))
                        && line.contains(&format!("victim=\"{}\"", victim.path()))
                });
                (has_lost, metrics)
            }
            _ => {
                let explained = ask(&["explain"]);
                (explained.lines().next().is_some_and(is_named), explained)
            }
        };
        let watch = |reader: &str| {
            let mut begun = begun;
            loop {
                let (is_named, told) = look(reader);
                let took = clock::now().boot.since(begun);
                let headline = || agent.snapshot()["headline"].to_string();
                // Other work of this machine takes more than the aggressor: not what is asked here.
                if !is_named && begun < patience && headline().contains(ROOT) {
                    begun = clock::now().boot;
                } else {
                    assert!(took < WITHIN, "busy {is_busy}: {reader} after {took:?}: {told}");
                }
                if is_named {
                    return println!("busy {is_busy}: named by {reader} after {took:?}");
                }
                thread::sleep(LOOK);
            }
        };
        thread::scope(|scope| {
            let watch = &watch;
            READERS.map(|reader| scope.spawn(move || watch(reader))).map(joined)
        });
    }
}

fn joined(watch: thread::ScopedJoinHandle<'_, ()>) {
    watch.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
}

/// A process in the root cgroup that keeps the last CPU busy, called as no other one is.
struct Spinner(Child);

impl Spinner {
    const NAME: &str = "isobar-spin";

    fn begin(root: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(Self::NAME);
        symlink("/bin/sh", &program).unwrap();
        let cpu = last_cpu().to_string();
        // Above other work of this machine, or that would be the busiest.
        let mut spin = Command::new("nice");
        spin.args(["-n", "-5", "taskset", "-c", &cpu]);
        let child = spin.arg(&program).args(["-c", "echo; while :; do :; done"]);
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        // It has its name once it writes: then the link may go.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        fs::write(root.join("cgroup.procs"), child.id().to_string()).unwrap();
        Self(child)
    }

    /// How it is named.
    fn named(&self) -> String {
        format!("{}, pid {}", Self::NAME, self.0.id())
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn process_is_named_with_and_without_the_kernel_side() {
    let _alone = alone();
    let Some(mut victim) = Group::make("waits") else { return };
    let root = victim.dir().to_str().unwrap().strip_suffix(victim.path()).unwrap().to_owned();
    let spinner = Spinner::begin(root.as_ref());
    let last = last_cpu();
    victim.run(&format!("exec nice -n 5 taskset -c {last} sh -c 'while :; do :; done'"));
    let process = spinner.named();
    #[rustfmt::skip]
    let table = [
        // arguments, the runner is of the machine, the headline says
        (&[][..],                  false, format!("the root cgroup (most of all {process})")),
        (&["--probes", "none"][..], true, format!("busiest: {process} (by usage, not by harm)")),
    ];
    for (arguments, is_of_machine, says) in table {
        let agent = Agent::start(arguments);
        if !is_of_machine && !agent.sees_waits() {
            continue;
        }
        let is_its = |runner: &Value| {
            runner["pid"] == spinner.0.id()
                && runner["name"] == Spinner::NAME
                && runner["cgroup"].is_null()
                && (runner["isOfMachine"] == true) == is_of_machine
        };
        // Looked for once in ten seconds; other work of this machine may come first meanwhile.
        let begun = clock::now().boot;
        let mut seen = agent.snapshot();
        while !seen["headline"].as_str().unwrap().contains(&says) {
            let took = clock::now().boot.since(begun);
            assert!(took < Nanos(60 * Nanos::SECOND.0), "{says}: {seen:#}");
            seen = agent.next(&seen);
        }
        assert!(seen["runners"].as_array().unwrap().iter().any(is_its), "{}", seen["runners"]);
        println!("{arguments:?}: {}", seen["headline"]);
        let top = isobar(&["top", "--once", "--agent", &agent.address().to_string()]).output();
        let top = text(&top.unwrap().stdout);
        let (pid, mut lines) = (spinner.0.id().to_string(), top.lines());
        lines.find(|line| line.starts_with("PROCESS")).expect("processes have a table");
        let is_its = |line: &str| line.starts_with(Spinner::NAME) && line.contains(&pid);
        assert!(lines.any(is_its), "{top}");
    }
}
