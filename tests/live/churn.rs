//! Cgroups that come and go faster than the agent samples: it keeps nothing of the dead, misses
//! none without saying so, and complains of nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{scope as threads, sleep};
use std::time::Duration;

use crate::host::{Agent, Group, HARMLESS, alone, gaps};
use isobar::clock;
use isobar_core::model::units::Nanos;
use serde_json::Value;

const CGROUPS: u64 = 2_000;
/// Fifty a second.
const SPACING: Nanos = Nanos(20_000_000);
/// Every other cgroup goes at once; of the rest this many live at a time, each for about a second
/// and a half, so that the agent sees some of them once, some twice and some never.
const LIVING: usize = 37;
/// What the kernel side has room for: far more than live at a time, far fewer than come. Whatever
/// is kept of the dead fills it up.
const ROOM: &str = "256";
/// Growth of resident memory that is no leak: pages of buffers first used, a heap in pieces.
const GROWTH: u64 = 8 << 20;

/// A process that waits for a CPU and runs each time when it is told to.
struct Walker {
    cat: Child,
}

impl Walker {
    fn start() -> Self {
        let cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self { cat: cat.unwrap() }
    }

    fn enter(&self, dir: &Path) {
        fs::write(dir.join("cgroup.procs"), self.cat.id().to_string()).unwrap();
    }

    fn work(&mut self) {
        self.cat.stdin.as_mut().unwrap().write_all(b".").unwrap();
        self.cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        let _ = self.cat.kill();
        let _ = self.cat.wait();
    }
}

/// Makes and removes all of them below `above`.
fn churn(above: &Path) {
    let mut walker = Walker::start();
    let mut living: VecDeque<PathBuf> = VecDeque::new();
    let begun = clock::now().boot;
    for n in 0..CGROUPS {
        let due = begun.plus(Nanos(n * SPACING.0));
        sleep(Duration::from_nanos(due.since(clock::now().boot).0));
        let dir = above.join(n.to_string());
        fs::create_dir(&dir).unwrap();
        walker.enter(&dir);
        walker.work();
        walker.enter(above);
        living.push_back(dir);
        let dead = if n % 2 == 0 { living.pop_back() } else { None };
        let old = if living.len() > LIVING { living.pop_front() } else { None };
        for dir in dead.into_iter().chain(old) {
            fs::remove_dir(dir).unwrap();
        }
    }
    for dir in living {
        fs::remove_dir(dir).unwrap();
    }
}

/// What was seen on the way.
#[derive(Debug, Default)]
struct Seen {
    ticks: u64,
    /// Our cgroups, most at a time.
    most: usize,
    /// Gaps by their reason.
    gaps: BTreeMap<String, usize>,
}

impl Seen {
    fn look(&mut self, snapshot: &Value, above: &str) {
        self.ticks += 1;
        self.most = self.most.max(below(snapshot, above));
        // What the kernel side lost is counted in `lost`, and judged there at the end.
        let read = |gap: &&Value| gap["object"] != "kernel side";
        for gap in snapshot["gaps"].as_array().unwrap().iter().filter(read) {
            *self.gaps.entry(gap["why"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
}

/// How many cgroups below `above` the snapshot shows.
fn below(snapshot: &Value, above: &str) -> usize {
    let inside = format!("{above}/");
    let paths = snapshot["scopes"].as_object().unwrap().values().map(|scope| &scope["path"]);
    paths.filter(|path| path.as_str().unwrap().starts_with(&inside)).count()
}

/// Descriptors of maps, programs and the like: what is open on no file.
fn n_kernel_objects(open: &[String]) -> usize {
    open.iter().filter(|on| on.starts_with("anon_inode:")).count()
}

fn resident(snapshot: &Value) -> u64 {
    snapshot["cost"]["resident"].as_u64().unwrap()
}

#[test]
fn agent_churn() {
    let _alone = alone();
    let Some(above) = Group::make("churn") else { return };
    // A node that is short of something, such as the disk of this machine, is no part of this.
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    fs::write(&config, HARMLESS).unwrap();
    let mut agent = Agent::start(&["--max-cgroups", ROOM, "--config", config.to_str().unwrap()]);
    if !agent.sees_waits() {
        return;
    }
    // The first seconds make buffers, and meter the programs once.
    let start = agent.wait_for("a steady state", |s| s["tick"].as_u64() >= Some(6));
    let kernel_objects = n_kernel_objects(&agent.descriptors());

    let mut seen = Seen::default();
    threads(|scope| {
        let churning = scope.spawn(|| churn(above.dir()));
        let mut snapshot = start.clone();
        while !churning.is_finished() {
            snapshot = agent.next(&snapshot);
            seen.look(&snapshot, above.path());
        }
        churning.join().unwrap();
    });
    let end = agent.wait_for("none of them", |s| below(s, above.path()) == 0);
    let end = agent.next(&agent.next(&end));

    assert!(seen.most > 0 && seen.most <= LIVING + 2, "the agent saw them come and go: {seen:?}");
    // Each loss would be counted here: without room, or without an event.
    for what in ["cgroups", "stalls", "ioWaits", "events", "tooDeep", "recursions"] {
        assert_eq!(end["lost"][what], 0, "lost {what}: {}", end["lost"]);
    }
    // A table with room refuses an entry all the same while a lock of its bucket is held up: since
    // Linux 6.15 the kernel gives up on such a lock.
    assert!(end["lost"]["pairs"].as_u64() <= Some(3), "lost pairs: {}", end["lost"]);
    // On the way a cgroup may go while it is read, and is told as such; nothing else may fail.
    for (why, n) in &seen.gaps {
        assert!(["gone", "unsupported"].contains(&why.as_str()), "{n} gaps are {why}: {seen:?}");
    }
    let ours = format!("{}/", above.path());
    assert_eq!(gaps(&end, &ours).count(), 0, "{}", end["gaps"]);
    let open = agent.descriptors();
    // Their names are numbers, those of its own files are not.
    let is_child = |on: &&String| {
        on.split_once(&ours).is_some_and(|(_, name)| name.starts_with(|c: char| c.is_ascii_digit()))
    };
    let left: Vec<_> = open.iter().filter(is_child).collect();
    assert_eq!(left, Vec::<&String>::new(), "open on cgroups that are gone");
    // One more is open while the programs are metered, one tick in sixty.
    let n = n_kernel_objects(&open);
    assert!(n <= kernel_objects + 1, "{kernel_objects} at the start, {n} at the end: {open:?}");
    let grown = resident(&end).saturating_sub(resident(&start));
    assert!(grown < GROWTH, "resident memory grew by {grown} bytes");

    assert_eq!(agent.stop().code(), Some(0));
    let said = agent.stderr();
    // What this node lacks is told at the start, whatever comes and goes.
    let is_complaint = |line: &&str| {
        let is_loud = ["WARN", "ERROR", "panicked"].iter().any(|word| line.contains(word));
        is_loud && !line.contains("cannot measure or do everything")
    };
    assert_eq!(said.lines().filter(is_complaint).collect::<Vec<_>>(), Vec::<&str>::new());
    println!(
        "{} ticks, {} at a time, gaps {:?}, {} descriptors, {grown} bytes more",
        seen.ticks,
        seen.most,
        seen.gaps,
        open.len()
    );
}
