//! The built agent on this machine, and cgroups of our own below the real cgroup v2 mount.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use crate::program::isobar;
use isobar_core::model::cgroup::CgroupId;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use tempfile::TempDir;

/// Held by tests that need a CPU's time to themselves, that make cgroups by the thousand or one of
/// all pods, which every agent here would see, or that read all cgroups with descriptors of this
/// process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static CPU: Mutex<()> = Mutex::new(());
    CPU.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is ever met, and no step may be chosen.
pub(crate) const HARMLESS: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n\
                        evictionHard: {}\nevictionPressure: []\nrelief: {steps: []}\n";

/// Says why a test cannot run here. A CI machine runs as root and must be able to.
pub(crate) fn skip(why: &str) {
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true") && geteuid().is_root();
    assert!(!must, "cannot run here, and CI must be able to: {why}");
    println!("skipped: {why}");
}

/// An address of this host that nobody listens at, and that is given out once: below the ports that
/// the kernel gives out by itself, and in each process beginning somewhere else.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() * 101;
    loop {
        let port = 12_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// `isobar run`, killed however the test ends.
pub(crate) struct Agent {
    process: Child,
    address: SocketAddr,
    /// What it says on stderr, and the copy of the program that it may be.
    dir: TempDir,
}

impl Agent {
    /// Started, and ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::spawn(isobar(&["run"]), arguments, dir)
    }

    /// Started, and ready; it tells the socket at `notify` how it is.
    pub(crate) fn start_told(arguments: &[&str], notify: &str) -> Self {
        let mut command = isobar(&["run"]);
        command.env("NOTIFY_SOCKET", notify);
        Self::spawn(command, arguments, tempfile::tempdir().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// As nobody, who may read what everybody may.
    pub(crate) fn start_as_nobody(arguments: &[&str]) -> Self {
        const NOBODY: u32 = 65_534;
        let dir = tempfile::tempdir().unwrap();
        // A copy, because the target directory may lie where nobody may look.
        let program = dir.path().join("isobar");
        fs::copy(env!("CARGO_BIN_EXE_isobar"), &program).unwrap();
        for path in [dir.path(), &program] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new(program);
        command.arg("run").stdin(Stdio::null()).current_dir("/");
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Self::spawn(command, arguments, dir)
    }

    /// Where the kernel does not describe its types: in a mount namespace of its own, in which
    /// something lies over the description. Only root may do that.
    pub(crate) fn start_without_btf() -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can hide /sys/kernel/btf");
            return None;
        }
        Some(Self::start_over("mount -t tmpfs none /sys/kernel/btf", &[]))
    }

    /// In a mount namespace of its own, after `before`, a command of a shell.
    pub(crate) fn start_over(before: &str, arguments: &[&str]) -> Self {
        let script = format!("{before} && exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_isobar"), "run"]);
        command.stdin(Stdio::null());
        Self::spawn(command, arguments, tempfile::tempdir().unwrap())
    }

    /// As in a pod whose image has nothing but the program: with the service account in `account`, and
    /// without the system's certificates. Only root may mount.
    pub(crate) fn start_in_pod(
        account: &Path,
        server: SocketAddr,
        arguments: &[&str],
    ) -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can make a mount namespace");
            return None;
        }
        let place = "/run/secrets/kubernetes.io/serviceaccount";
        let pod = format!(
            "mount -t tmpfs none /run && mkdir -p {place} && mount --bind \"$ACCOUNT\" {place} && \
             mount -t tmpfs none /etc/ssl && exec \"$0\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &pod, env!("CARGO_BIN_EXE_isobar"), "run"]);
        command.stdin(Stdio::null()).env("ACCOUNT", account).env("NODE_NAME", "n1");
        command.env("KUBERNETES_SERVICE_HOST", server.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", server.port().to_string());
        Some(Self::spawn(command, arguments, tempfile::tempdir().unwrap()))
    }

    /// `command` with these arguments, ready; what it leaves is in `dir`.
    pub(crate) fn spawn(mut command: Command, arguments: &[&str], dir: TempDir) -> Self {
        let address = free_port();
        let stderr = File::create(dir.path().join("stderr")).unwrap();
        // What one agent leaves is not for another test's.
        command.env("ISOBAR_STATE_DIR", dir.path().join("state"));
        // Nor in the node's own recording.
        command.env("ISOBAR_NO_RECORD", "true");
        // On a busy machine the other tests alone would have the programs detached for a pause.
        command.env("ISOBAR_PROBE_BUDGET", "100");
        command.args(arguments).args(["--listen", &address.to_string()]).stderr(stderr);
        let agent = Self { process: command.spawn().unwrap(), address, dir };
        for _ in 0..200 {
            if agent.get("/readyz").is_ok() {
                return agent;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("the agent did not get ready within ten seconds: {}", agent.stderr());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn get(&self, path: &str) -> Result<String, ureq::Error> {
        let mut answer = ureq::get(format!("http://{}{path}", self.address)).call()?;
        // A node of many cgroups has a long snapshot.
        answer.body_mut().with_config().limit(1 << 28).read_to_string()
    }

    pub(crate) fn snapshot(&self) -> Value {
        serde_json::from_str(&self.get("/api/v1/snapshot").unwrap()).unwrap()
    }

    /// The first snapshot after tick `tick` that shows what is looked for; asks for 15 s.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, shown: impl Fn(&Value) -> bool) -> Value {
        let mut snapshot = Value::Null;
        for _ in 0..150 {
            snapshot = self.snapshot();
            if shown(&snapshot) {
                return snapshot;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("no snapshot within 15 s shows {what}: {snapshot:#}");
    }

    /// The snapshot of the next tick, as soon as it is there.
    pub(crate) fn next(&self, after: &Value) -> Value {
        loop {
            let snapshot = self.snapshot();
            if snapshot["tick"].as_u64() > after["tick"].as_u64() {
                return snapshot;
            }
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap()
    }

    /// Asks it to read its configuration again.
    pub(crate) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.process), Signal::HUP).unwrap();
    }

    /// Asks it to leave, and waits until it has left.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.end_by(Signal::TERM)
    }

    /// Sends it a signal, and waits until it has left.
    pub(crate) fn end_by(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap()
    }

    /// What its descriptors are open on, sockets of its readers left out: those come and go.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        self.open().filter(|of| !of.starts_with("socket:")).collect()
    }

    pub(crate) fn n_sockets(&self) -> usize {
        self.open().filter(|of| of.starts_with("socket:")).count()
    }

    fn open(&self) -> impl Iterator<Item = String> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        let of = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        of.map(|of| of.to_string_lossy().into_owned())
    }

    /// Whether the kernel side sees waits; if not, the reason is printed as that of a skip.
    pub(crate) fn sees_waits(&self) -> bool {
        let snapshot = self.snapshot();
        let seen = snapshot["covers"]["waits"] == true;
        if !seen {
            let listed = snapshot["capabilities"].as_array().unwrap();
            let why = listed.iter().filter(|c| ["kernel side", "sched_switch"].contains(&named(c)));
            let why: Vec<_> = why.filter_map(|c| c["detail"].as_str()).collect();
            skip(&format!("no waits are seen: {}", why.join("; ")));
        }
        seen
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn named(capability: &Value) -> &str {
    capability["name"].as_str().unwrap_or_default()
}

/// The scope of the cgroup at `path`.
pub(crate) fn scope<'a>(snapshot: &'a Value, path: &str) -> Option<&'a Value> {
    snapshot["scopes"].as_object()?.values().find(|scope| scope["path"] == path)
}

/// The gaps whose object or detail has `text`.
pub(crate) fn gaps<'a>(snapshot: &'a Value, text: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = snapshot["gaps"].as_array().unwrap().iter();
    all.filter(move |gap| gap.to_string().contains(text))
}

/// A cgroup of our own. What runs in it is killed, and it is removed, when this value goes.
pub(crate) struct Group {
    dir: PathBuf,
    path: String,
    inside: Vec<Child>,
}

impl Group {
    /// Made below the root of cgroup v2; `None`, with the reason printed, where that may not be.
    pub(crate) fn make(name: &str) -> Option<Self> {
        let name = format!("isobar-docs-{name}-{}", std::process::id());
        let Some(mount) = mount() else {
            skip("cgroup v2 is not mounted");
            return None;
        };
        match fs::create_dir(mount.join(&name)) {
            Ok(()) => {
                Some(Self { dir: mount.join(&name), path: format!("/{name}"), inside: vec![] })
            }
            Err(why) => {
                skip(&format!("no cgroup can be made below {}: {why}", mount.display()));
                None
            }
        }
    }

    /// One below it.
    pub(crate) fn child(&self, name: &str) -> Self {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        Self { dir, path: format!("{}/{name}", self.path), inside: vec![] }
    }

    /// Where it is, as the API has it.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its number, by which the kernel calls it.
    pub(crate) fn id(&self) -> CgroupId {
        CgroupId(fs::metadata(&self.dir).unwrap().ino())
    }

    pub(crate) fn write(&self, file: &str, value: &str) -> std::io::Result<()> {
        fs::write(self.dir.join(file), value)
    }

    /// Runs a shell script in it; returns the process's id.
    pub(crate) fn run(&mut self, script: &str) -> u32 {
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let id = child.id();
        self.inside.push(child);
        self.write("cgroup.procs", &id.to_string()).unwrap();
        id
    }

    /// Keeps the CPU `cpu` busy from within it, with one thread.
    pub(crate) fn spin(&mut self, cpu: usize) -> u32 {
        let id = self.run("while :; do :; done");
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(Pid::from_raw(id.cast_signed()), &only).unwrap();
        id
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.write("cgroup.kill", "1");
        for child in &mut self.inside {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Processes that its own had started leave it a moment after they are killed.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        eprintln!("left behind: {}", self.dir.display());
    }
}

fn mount() -> Option<PathBuf> {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    mounts.map(Path::new).into_iter().find(|at| at.join("cgroup.procs").exists()).map(Into::into)
}

/// The last CPU that we may use: the first has most of the interrupts.
pub(crate) fn last_cpu() -> usize {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// Another file system, in memory, until this value goes.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// `None`, with the reason printed, where nothing can be mounted.
    pub(crate) fn at(path: &Path, options: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(path).status();
        if status.is_ok_and(|status| status.success()) {
            return Some(Self(path.to_owned()));
        }
        skip("no file system can be mounted here");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "{} stays mounted", self.0.display());
    }
}
