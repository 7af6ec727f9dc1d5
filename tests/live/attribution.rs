//! Who is said to make others wait, where many short slices lie in one long wait: a hog among
//! pollers that wake together, beside a sufferer of little weight, on one CPU.

use std::collections::BTreeMap;

use crate::host::{Agent, Group, alone, last_cpu, scope};

/// Sleeps until the next multiple of so many microseconds, and works for a moment.
const POLLER: &str = "exec taskset -c CPU perl -MTime::HiRes=usleep,time -e '
    while (1) { usleep(EVERY - int(time * 1e6) % EVERY); for ($i = 0; $i < LOOPS; $i++) {} }'";
const HOG: &str = "exec taskset -c CPU sh -c 'while :; do :; done'";
const SUFFERER: &str = "exec nice -n 15 taskset -c CPU sh -c 'while :; do :; done'";

/// Seconds in which the shares are compared.
const MEASURED: usize = 10;

#[test]
fn attribution_follows_cpu_time_whatever_the_rhythm() {
    let _alone = alone();
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    #[rustfmt::skip]
    let table = [
        // pollers, each so often (µs), work
        (10, 2_000, 300),
        (3,    500,  50), // often
        (25, 7_000, 900), // more of them than slices of a wait are charged one by one
    ];
    for (n_pollers, every, loops) in table {
        follows_cpu_time(&agent, n_pollers, every, loops);
    }
}

fn follows_cpu_time(agent: &Agent, n_pollers: usize, every: u32, loops: u32) {
    let Some(above) = Group::make("attribution") else { return };
    let cpu = last_cpu().to_string();
    let start = |name: &str, script: &str| {
        let mut group = above.child(name);
        group.run(&script.replace("CPU", &cpu));
        group
    };
    let poller = POLLER.replace("EVERY", &every.to_string()).replace("LOOPS", &loops.to_string());
    let hog = start("hog", HOG);
    let pollers: Vec<_> = (0..n_pollers).map(|n| start(&format!("poller-{n}"), &poller)).collect();
    let sufferer = start("sufferer", SUFFERER);
    let first = agent.snapshot()["tick"].as_u64();
    let mut snapshot =
        agent.wait_for("a steady state", |s| s["tick"].as_u64() >= first.map(|tick| tick + 3));
    // Micros of CPU time by cgroup, and nanoseconds that the sufferer waited while it ran.
    let (mut ran, mut blamed) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    for _ in 0..MEASURED {
        snapshot = agent.next(&snapshot);
        for group in pollers.iter().chain([&hog]) {
            let usage = scope(&snapshot, group.path()).and_then(|scope| scope["cpuUsage"].as_u64());
            *ran.entry(group.path().into()).or_default() += usage.unwrap_or(0);
        }
        for blame in snapshot["aggressions"].as_array().unwrap() {
            if blame["victimPath"] == sufferer.path() {
                let by = blame["aggressorPath"].as_str().unwrap_or("unknown").to_owned();
                *blamed.entry(by).or_default() += blame["time"].as_u64().unwrap();
            }
        }
    }
    let all: u64 = blamed.values().sum();
    let percent = |of: Option<&u64>, all: u64| of.copied().unwrap_or(0) * 100 / all.max(1);
    let by_time = percent(ran.get(hog.path()), ran.values().sum());
    let by_blame = percent(blamed.get(hog.path()), all);
    let unknown = percent(blamed.get("unknown"), all);
    println!(
        "{n_pollers} pollers: the hog has {by_time} % of the CPU time, {by_blame} % of the blame; {unknown} % unknown"
    );
    println!("{blamed:?}\n{ran:?}");
    assert!(all > 2_000_000_000, "the sufferer waits: {blamed:?}");
    assert!(by_time.abs_diff(by_blame) <= 10, "{by_time} % of the time, {by_blame} % of the blame");
    assert!(unknown <= 10, "{unknown} % unknown");
}
