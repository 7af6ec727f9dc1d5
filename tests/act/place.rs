//! Cgroups and processes made for one test, and gone with it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use isobar::act::{Actor, Options};
use isobar::clock;
use isobar::model::cgroup::{CgroupId, CgroupPath};
use isobar::model::condition::ScopeName;
use isobar::model::decision::{Action, Met, StepKind, StepReason, Target, Trigger};
use isobar::model::threshold::{PressureSignal, PressureThreshold};
use isobar::model::units::Nanos;
use tempfile::TempDir;

/// A cgroup below the host's mount.
pub(crate) struct Cgroup {
    pub(crate) dir: PathBuf,
    pub(crate) path: CgroupPath,
    children: Mutex<Vec<Child>>,
}

/// Where the whole hierarchy is mounted; `None` if this process may not use it.
fn mount() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = text.lines().find(|line| line.contains(" - cgroup2 "));
    let path = line.and_then(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let why = match &path {
        None => "cgroup v2 is not mounted",
        Some(path) if fs::create_dir_all(path.join("isobar-test")).is_err() => {
            "no cgroup can be made: not root, or mounted read-only"
        }
        Some(_) => return path,
    };
    println!("skipped: {why}");
    None
}

impl Cgroup {
    /// A cgroup for one test; `None`, with a word about it, where none can be made.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let root = mount()?;
        let path = CgroupPath(format!("/isobar-test/{name}-{}", std::process::id()));
        let dir = root.join(path.0.trim_start_matches('/'));
        fs::create_dir(&dir).unwrap();
        Some(Self { dir, path, children: Mutex::default() })
    }

    /// A cgroup below it.
    pub(crate) fn child(&self, name: &str) -> Self {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        Self { dir, path: self.path.child(name), children: Mutex::default() }
    }

    /// Runs a script in it.
    pub(crate) fn spawn(&self, script: &str) {
        self.run(Command::new("sh").args(["-c", script]));
    }

    /// Runs a command in it; it begins once it is there.
    pub(crate) fn run(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt;
        let procs = self.dir.join("cgroup.procs");
        let enter = move || fs::write(&procs, "0");
        // SAFETY: between fork and exec it writes one file, and no lock of this process is needed
        // for it but the allocator's, which glibc keeps usable after a fork.
        unsafe { command.pre_exec(enter) };
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.lock().unwrap().push(quiet.spawn().unwrap());
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until so many processes are in it.
    pub(crate) fn wait_for(&self, n: usize) {
        wait("processes have come", || self.pids().len() >= n);
    }

    pub(crate) fn id(&self) -> CgroupId {
        CgroupId(fs::metadata(&self.dir).unwrap().ino())
    }

    pub(crate) fn target(&self) -> Target {
        self.target_with_id(self.id().0)
    }

    pub(crate) fn target_with_id(&self, id: u64) -> Target {
        Target {
            name: self.path.0.clone(),
            cgroup: Some(CgroupId(id)),
            path: Some(self.path.clone()),
            ..Target::default()
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.dir.join("cgroup.freeze"), "0");
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
        for mut child in self.children.lock().unwrap().drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        // The last test to leave takes it away.
        let _ = fs::remove_dir(self.dir.parent().unwrap_or(Path::new("/nowhere")));
    }
}

/// Waits for something that comes soon.
#[track_caller]
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("waited ten seconds in vain: {what}");
}

/// An actor for this host, and the directory that it remembers things in.
pub(crate) fn actor() -> (Actor, TempDir) {
    actor_of(&mount().unwrap())
}

/// An actor for a tree of one's own.
pub(crate) fn actor_of(root: &Path) -> (Actor, TempDir) {
    let state = tempfile::tempdir().unwrap();
    (Actor::open(options(root, state.path())).unwrap(), state)
}

pub(crate) fn options(root: &Path, state: &Path) -> Options {
    Options {
        cgroup_root: root.into(),
        proc: "/proc".into(),
        state: state.into(),
        never_touch: Vec::new(),
    }
}

/// An action that is only recorded, against memory that runs out.
pub(crate) fn action(step: StepKind, target: Target) -> Action {
    let on = PressureSignal::Exhaustion(Nanos(Nanos::SECOND.0));
    against(on, step, target)
}

pub(crate) fn against(on: PressureSignal, step: StepKind, target: Target) -> Action {
    let grace = Nanos(Nanos::SECOND.0);
    let threshold = Trigger::Pressure(PressureThreshold { scope: ScopeName::System, on, grace });
    Action {
        id: 7,
        step,
        target,
        reason: Met { threshold, since: Nanos(1), is_due: true, measured: 1, missing: None },
        why: StepReason::Gentlest,
        want: None,
        grace: Some(grace),
        deadline: clock::now().boot.plus(Nanos(5 * Nanos::SECOND.0)),
        escalates_to: None,
        is_enforced: false,
        message: String::new(),
        annotations: BTreeMap::new(),
    }
}

/// One that is really done.
pub(crate) fn enforced(step: StepKind, target: Target) -> Action {
    Action { is_enforced: true, ..action(step, target) }
}
