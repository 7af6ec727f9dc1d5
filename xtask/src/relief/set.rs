//! The set of a play, inside the guest: swap, disk, the tree of cgroups as the kubelet makes it,
//! and what runs in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::amount::Memory;
use super::facts::Limit;
use super::file::{Form, Pod, Swap, Work};
use super::pods::{self, KUBEPODS, Placed};
use crate::shell::quietly;
use crate::v2::Group;

/// Where the disk is.
const DISK: &str = "/disk";
/// The kubelet's default hard threshold.
const HARD: u64 = 100 << 20;
/// Whoever waits for a page from a slow disk dies only when it has come.
const DIES_WITHIN: Duration = Duration::from_secs(60);
/// Files that relief may change for a time.
const SQUEEZED: [&str; 4] = ["memory.high", "memory.max", "cpu.weight", "io.weight"];
/// The pod that the outside pings.
pub(super) const BYSTANDER: &str = "bystander";
/// The loads begin when this file is there.
pub(super) const GO: &str = "/tmp/go";
/// Its line.
pub(super) const TTY: &str = "/dev/ttyS2";

/// What stands; it goes with this value.
pub(super) struct Set {
    mount: PathBuf,
    pub(super) pods: Vec<Placed>,
    /// Names and cgroups of services.
    pub(super) services: Vec<(String, String)>,
    /// In the order in which they were made.
    groups: Vec<Group>,
    swap: Option<&'static str>,
    before: Vec<(String, PathBuf, String)>,
}

impl Set {
    /// Puts up all that stands still.
    pub(super) fn up(form: &Form, mount: &Path) -> Result<Self> {
        // As the kubelet has it.
        fs::write("/proc/sys/vm/overcommit_memory", "1").context("cannot allow overcommitting")?;
        disk(form)?;
        let swap = form.swap.map(swap_on).transpose()?;
        // What was read to get here is nobody's working set.
        fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop caches")?;
        let capacity = capacity()?;
        let mut pods = pods::placed(form, capacity);
        pods.push(bystander(capacity)?);
        let services = form.service.iter().map(|service| {
            let name = service.name.get_ref().clone();
            let path = format!("/system.slice/{name}.service");
            (name, path)
        });
        let services = services.collect();
        let mut set = Self {
            mount: mount.into(),
            pods,
            services,
            groups: Vec::new(),
            swap,
            before: Vec::new(),
        };
        set.tree(form, capacity)?;
        for placed in &set.pods {
            for file in SQUEEZED {
                for path in [&placed.slice, &placed.container] {
                    let file = set.below(path).join(file);
                    let value =
                        fs::read_to_string(&file).with_context(|| file.display().to_string())?;
                    set.before.push((placed.name.clone(), file, value.trim().into()));
                }
            }
        }
        Ok(set)
    }

    fn tree(&mut self, form: &Form, capacity: u64) -> Result<()> {
        self.make("/system.slice")?;
        let services: Vec<String> = self.services.iter().map(|(_, path)| path.clone()).collect();
        for path in services {
            self.make(&path)?;
        }
        let limit = form.kubepods.unwrap_or(Memory(capacity.saturating_sub(HARD))).0;
        self.make(KUBEPODS)?.write("memory.max", &limit.to_string())?;
        let weight = pods::weight(2000).to_string();
        self.group(KUBEPODS)?.write("cpu.weight", &weight)?;
        for slice in ["besteffort", "burstable"] {
            let slice = format!("{KUBEPODS}/kubepods-{slice}.slice");
            self.make(&slice)?.write("cpu.weight", "1")?;
        }
        let extra: Vec<&Pod> = form.pod.iter().collect();
        for placed in self.pods.clone() {
            let more = extra.iter().find(|pod| *pod.name.get_ref() == placed.kind);
            self.make(&placed.slice)?;
            self.make(&placed.sandbox)?;
            self.make(&placed.container)?;
            for (file, value) in &placed.write {
                self.group(&placed.slice)?.write(file, value)?;
                self.group(&placed.container)?.write(file, value)?;
            }
            // Since Kubernetes 1.28 a container is killed as a whole.
            self.group(&placed.container)?.write("memory.oom.group", "1")?;
            for (file, value) in more.into_iter().flat_map(|pod| &pod.write) {
                self.group(&placed.container)?.write(file, value)?;
            }
        }
        Ok(())
    }

    fn make(&mut self, path: &str) -> Result<&Group> {
        let dir = self.below(path);
        if let Some(parent) = self.groups.iter().find(|group| dir.parent() == Some(group.dir())) {
            parent.pass_on_controllers()?;
        }
        self.groups.push(Group::make(dir)?);
        self.group(path)
    }

    /// The cgroup of a service that is not the scenario's, made if it is not there.
    pub(super) fn service(&mut self, name: &str) -> Result<PathBuf> {
        let path = format!("/system.slice/{name}.service");
        let dir = self.below(&path);
        if !dir.exists() {
            self.make(&path)?;
        }
        Ok(dir)
    }

    fn group(&self, path: &str) -> Result<&Group> {
        let dir = self.below(path);
        let found = self.groups.iter().find(|group| group.dir() == dir);
        found.with_context(|| format!("{path} was never made"))
    }

    /// The directory of a cgroup.
    pub(super) fn below(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The manifests of all pods.
    pub(super) fn manifests(&self) -> String {
        self.pods.iter().map(|pod| pod.manifest.as_str()).collect()
    }

    /// Starts the sandbox of a pod.
    pub(super) fn sandbox(&self, pod: &Placed) -> Result<Child> {
        sleeper(&self.below(&pod.sandbox), -998)
    }

    /// Starts what runs in a pod or service.
    pub(super) fn load(&self, work: &Work, group: &str, adj: i32, more: &Loading) -> Result<Child> {
        let mut load = Command::new("/proc/self/exe");
        load.arg("load").args(work.run.split_whitespace()).arg("--cgroup").arg(self.below(group));
        load.arg(format!("--oom-score-adj={adj}")).arg(format!("--seconds={}", more.seconds));
        load.arg(format!("--after-seconds={}", work.after.0.max(0.0)));
        if !work.steady {
            load.args(["--tell-begin", "--wait-for", GO]);
        }
        load.stdin(Stdio::null()).stdout(more.said.try_clone()?);
        load.spawn().with_context(|| format!("cannot start {:?}", work.run))
    }

    /// Limits that are not what they were.
    pub(super) fn changed(&self) -> Vec<Limit> {
        let now = |(name, file, before): &(String, PathBuf, String)| {
            let after = fs::read_to_string(file).ok()?.trim().to_owned();
            let scope = file.parent()?.extension()?.to_string_lossy().into_owned();
            let file = format!("{scope}/{}", file.file_name()?.to_string_lossy());
            let (name, before) = (name.clone(), before.clone());
            (after != before).then_some(Limit { name, file, before, after })
        };
        self.before.iter().filter_map(now).collect()
    }

    /// Kills all that runs and takes down what stands.
    pub(super) fn down(mut self) -> Result<()> {
        while let Some(group) = self.groups.pop() {
            group.remove_within(DIES_WITHIN)?;
        }
        self.swap.take().map_or(Ok(()), swap_off)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // A cgroup can only go when those below it have gone.
        while self.groups.pop().is_some() {}
        if let Some(Err(why)) = self.swap.take().map(swap_off) {
            eprintln!("{why:#}");
        }
    }
}

/// What loads have in common.
pub(super) struct Loading {
    pub(super) seconds: f64,
    /// Where they say when they begin.
    pub(super) said: std::os::fd::OwnedFd,
}

/// A process that does nothing, in the cgroup `dir`.
pub(super) fn sleeper(dir: &Path, adj: i32) -> Result<Child> {
    let script = format!(
        "echo $$ >{}/cgroup.procs && echo {adj} >/proc/self/oom_score_adj && exec sleep 100000",
        dir.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
    shell.spawn().context("cannot start a sandbox")
}

/// The Guaranteed pod that answers pings.
fn bystander(capacity: u64) -> Result<Placed> {
    let text = format!(
        "name = \"{BYSTANDER}\"\nclass = \"Guaranteed\"\nmemory_limit = \"64MiB\"\n\
         cpu_limit = \"500m\"\npriority = 1000\nsteady = true\nrun = \"echo --tty {TTY}\"\n"
    );
    let pod: Pod = toml::from_str(&text)?;
    Ok(pods::place(&pod, BYSTANDER.into(), 999, capacity))
}

/// What runs in the pod that answers pings.
pub(super) fn echo() -> Work {
    Work {
        run: format!("echo --tty {TTY}"),
        after: super::amount::Seconds(0.0),
        steady: true,
        ends: false,
    }
}

/// All memory of the node.
fn capacity() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo has no MemTotal")? << 10)
}

/// The files that the scenario needs, on a disk that is formatted once a boot.
fn disk(form: &Form) -> Result<()> {
    if form.file.is_empty() {
        return Ok(());
    }
    if !Path::new(DISK).exists() {
        fs::create_dir(DISK)?;
        quietly(Command::new("mke2fs").args(["-F", "-i", "65536", "/dev/vda"]))?;
        quietly(Command::new("mount").args(["-t", "ext4", "/dev/vda", DISK]))?;
    }
    for file in &form.file {
        let (path, count) = (file.path.get_ref(), file.size.0 >> 20);
        if fs::metadata(path).is_ok_and(|there| there.len() >= file.size.0) {
            continue;
        }
        let mut dd = Command::new("dd");
        dd.args(["if=/bin/xtask", "bs=1M", "count=8"]).arg(format!("of={path}.part"));
        quietly(&mut dd)?;
        // Real bytes, not holes: a hole is never read from the disk.
        let mut repeat = Command::new("sh");
        let script =
            format!("for i in $(seq 0 8 {count}); do cat {path}.part; done >{path} && sync");
        quietly(repeat.args(["-c", &script]))?;
        fs::remove_file(format!("{path}.part"))?;
    }
    Ok(())
}

fn swap_on(swap: Swap) -> Result<&'static str> {
    let device = match swap {
        Swap::Zram(Memory(size)) => {
            let file = "/sys/block/zram0/disksize";
            fs::write(file, size.to_string()).with_context(|| format!("cannot write to {file}"))?;
            quietly(Command::new("mkswap").arg("/dev/zram0"))?;
            "/dev/zram0"
        }
        Swap::Disk(Memory(size)) => {
            let kib = (size >> 10).to_string();
            quietly(Command::new("mkswap").args(["/dev/vdb", &kib]))?;
            "/dev/vdb"
        }
    };
    quietly(Command::new("swapon").arg(device))?;
    Ok(device)
}

fn swap_off(device: &'static str) -> Result<()> {
    quietly(Command::new("swapoff").arg(device))?;
    if device == "/dev/zram0" {
        fs::write("/sys/block/zram0/reset", "1").context("cannot reset /dev/zram0")?;
    }
    Ok(())
}
