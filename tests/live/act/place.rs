//! Cgroups and processes made for one test, and gone with it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use crate::host::skip;
use isobar::act::{Actuator, Options};
use isobar::clock;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::condition::ScopeName;
use isobar_core::model::decision::{Action, Outcome, StepKind, Target, Trigger, made};
use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
use isobar_core::model::units::Nanos;
use tempfile::TempDir;

/// A cgroup below the host's mount.
pub(crate) struct Cgroup {
    pub(crate) dir: PathBuf,
    pub(crate) path: CgroupPath,
    children: Mutex<Vec<Child>>,
}

/// Where the whole hierarchy is mounted.
pub(crate) fn mount() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = text.lines().find(|line| line.contains(" - cgroup2 "));
    line.and_then(|line| line.split(' ').nth(4)).map(PathBuf::from)
}

impl Cgroup {
    /// A cgroup for one test; `None`, with a word about it, where none can be made.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let path = CgroupPath(format!("/isobar-test-{name}-{}", std::process::id()).into());
        let made = mount().map(|root| Self::at(root.join(path.0.trim_start_matches('/')), path));
        match made {
            None => skip("cgroup v2 is not mounted"),
            Some(Err(why)) => skip(&format!("no cgroup can be made: {why}")),
            Some(Ok(group)) => return Some(group),
        }
        None
    }

    /// One at this path below another: pods have names of their own.
    pub(crate) fn below(&self, path: &str) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for name in path.split('/') {
            let child = groups.last().unwrap_or(self).child(name);
            // The innermost is removed first.
            groups.push(child);
        }
        groups.reverse();
        groups
    }

    fn at(dir: PathBuf, path: CgroupPath) -> io::Result<Self> {
        fs::create_dir(&dir)?;
        Ok(Self { dir, path, children: Mutex::default() })
    }

    /// A cgroup below it.
    pub(crate) fn child(&self, name: impl AsRef<OsStr>) -> Self {
        let name = name.as_ref();
        Self::at(self.dir.join(name), self.path.child(&name.to_string_lossy())).unwrap()
    }

    /// Runs a script in it.
    pub(crate) fn spawn(&self, script: &str) {
        self.run(Command::new("sh").args(["-c", script]));
    }

    /// Runs a command in it; it begins once it is there.
    pub(crate) fn run(&self, command: &mut Command) {
        self.enter(command);
        self.begin(command);
    }

    /// Has a command enter it.
    pub(crate) fn enter(&self, command: &mut Command) {
        let procs = self.dir.join("cgroup.procs");
        let enter = move || fs::write(&procs, "0");
        // SAFETY: between fork and exec it writes one file, and no lock of this process is needed
        // for it but the allocator's, which glibc keeps usable after a fork.
        unsafe { command.pre_exec(enter) };
    }

    /// Begins a command that enters it.
    pub(crate) fn begin(&self, command: &mut Command) {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A program that was just written is busy while a child of another test has it open for writing,
        // which ends when that child begins its own.
        let child = loop {
            match quiet.spawn() {
                Err(why) if why.kind() == io::ErrorKind::ExecutableFileBusy => {
                    sleep(Duration::from_millis(10));
                }
                begun => break begun.unwrap(),
            }
        };
        self.children.lock().unwrap().push(child);
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.join(file), text).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap()
    }

    /// The state of each process in it, a letter each.
    pub(crate) fn states(&self) -> String {
        let stat = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let letter = |text: String| text.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned());
        self.pids().into_iter().filter_map(stat).filter_map(letter).collect()
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
            name: self.path.0.to_string(),
            cgroup: Some(CgroupId(id)),
            path: Some(self.path.clone()),
            ..Target::default()
        }
    }

    /// Ends all that is in it, and removes it.
    pub(crate) fn end(&self) {
        if !self.dir.exists() {
            return;
        }
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
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.end();
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

/// What a step comes to in the end, on a machine that is slow as well: what is told at once and
/// what is told later.
#[track_caller]
pub(crate) fn settle(actor: &mut Actuator, first: Outcome) -> Outcome {
    let mut told = vec![first];
    wait("it is over", || {
        told.extend(actor.poll());
        !actor.is_busy()
    });
    assert!(told.len() <= 2, "told more than once: {told:?}");
    let ended = told.iter().filter_map(|outcome| outcome.ended).reduce(|a, b| a + b);
    Outcome { ended, ..told.pop().unwrap() }
}

/// An actor for this host, and the directory that it remembers things in.
pub(crate) fn actor() -> (Actuator, TempDir) {
    actor_of(&mount().unwrap())
}

/// An actor for a tree of one's own.
pub(crate) fn actor_of(root: &Path) -> (Actuator, TempDir) {
    let state = tempfile::tempdir().unwrap();
    (Actuator::open(options(root, state.path())).unwrap(), state)
}

pub(crate) fn options(root: &Path, state: &Path) -> Options {
    Options {
        cgroup_root: root.into(),
        proc: "/proc".into(),
        state: Some(state.into()),
        never_touch: Vec::new(),
        evict_by: None,
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
        target,
        grace: Some(grace),
        deadline: clock::now().boot.plus(Nanos(5 * Nanos::SECOND.0)),
        is_enforced: false,
        ..made::action(step, made::met(threshold))
    }
}

/// One that is really done.
pub(crate) fn enforced(step: StepKind, target: Target) -> Action {
    Action { is_enforced: true, ..action(step, target) }
}

/// A pod as the kubelet and a runtime make it, with a container and a sandbox in it.
pub(crate) struct Pod {
    pub(crate) container: Cgroup,
    pub(crate) sandbox: Cgroup,
    /// The pod's cgroup, and those above it.
    above: Vec<Cgroup>,
    _program: TempDir,
}

impl Pod {
    pub(crate) const CONTAINER: &str =
        "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0";

    pub(crate) fn new(root: &Cgroup) -> Self {
        let above =
            root.below("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu.slice");
        let container = above[0].child(format!("cri-containerd-{}.scope", Self::CONTAINER));
        let sandbox = above[0].child(format!("cri-containerd-{}.scope", "5a".repeat(32)));
        let program = tempfile::tempdir().unwrap();
        let pause = program.path().join("pause");
        fs::copy("/bin/sleep", &pause).unwrap();
        container.spawn("exec sleep 100");
        sandbox.run(Command::new(&pause).arg("100"));
        container.wait_for(1);
        wait("the sandbox is called so", || {
            let pids = sandbox.pids();
            pids.len() == 1
                && fs::read_to_string(format!("/proc/{}/comm", pids[0])).unwrap() == "pause\n"
        });
        Self { container, sandbox, above, _program: program }
    }

    pub(crate) fn pod(&self) -> &Cgroup {
        &self.above[0]
    }

    pub(crate) fn target(&self) -> Target {
        Target { name: "hog".into(), namespace: "default".into(), ..self.pod().target() }
    }
}
