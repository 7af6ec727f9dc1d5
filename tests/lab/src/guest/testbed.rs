//! The test bed of a play, inside the guest: swap, disk, the tree of cgroups as the kubelet makes it,
//! and what runs in it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::CgroupDriver;

use super::disks::{make_files, swap_off, swap_on};
use super::driver;
use super::pods::{self, Placed};
use crate::amount::Memory;
use crate::cgroup::Group;
use crate::facts::{BYSTANDER, Limit};
use crate::form::Form;
use crate::form::group::{Load, Pod};

/// Where services of the system lie.
const SYSTEM: &str = "/system.slice";
/// The kubelet's default hard threshold.
const HARD: u64 = 100 << 20;
/// A process that waits for a page from a slow disk dies only when it has come.
const DIES_WITHIN: Duration = Duration::from_secs(60);
/// Files that relief may change for a time.
const SQUEEZED: [&str; 4] = ["memory.high", "memory.max", "cpu.weight", "io.weight"];
/// The loads begin when this file is there.
pub(super) const GO: &str = "/tmp/go";
/// The bystander's line to the outside.
const TTY: &str = "/dev/ttyS2";

/// What stands; it goes with this value.
pub(super) struct Testbed {
    mount: PathBuf,
    driver: CgroupDriver,
    /// Everything that work runs in.
    pub(super) places: Vec<Place>,
    pods: Vec<Placed>,
    /// In the order in which they were made.
    groups: Vec<Group>,
    swap: Option<&'static str>,
    /// Where each limit stands, and what it was.
    before: Vec<(PathBuf, Limit)>,
}

/// A pod's container, a service or another cgroup.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// With its number, where there are several alike; a cgroup's is its path.
    pub(super) name: String,
    /// The name without the number.
    pub(super) kind: String,
    pub(super) path: String,
    /// The cgroup of a pod's sandbox.
    sandbox: Option<String>,
    oom_score_adj: i32,
    pub(super) loads: Vec<Load>,
}

impl Testbed {
    /// Puts up all that stands still.
    pub(super) fn up(form: &Form, mount: &Path) -> Result<Self> {
        // As the kubelet has it.
        fs::write("/proc/sys/vm/overcommit_memory", "1").context("cannot allow overcommitting")?;
        make_files(form)?;
        let swap = form.swap.map(swap_on).transpose()?;
        // What was read to get here belongs to no working testbed.
        fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop caches")?;
        let (mount, groups, before) = (mount.into(), Vec::new(), Vec::new());
        let (places, pods, driver) = (Vec::new(), Vec::new(), form.driver);
        let mut testbed = Self { mount, driver, places, pods, groups, swap, before };
        if form.has_node() {
            testbed.node(form)?;
        }
        for cgroup in &form.cgroup {
            let path = cgroup.path.get_ref();
            testbed.make_all(path)?;
            for (file, value) in &cgroup.write {
                testbed.group(path)?.write(file, value)?;
            }
            if cgroup.owner.is_some() {
                chown(testbed.below(path), cgroup.owner, None)
                    .with_context(|| format!("cannot hand {path} over"))?;
            }
            testbed.places.push(Place::plain(path, path.clone(), &cgroup.load));
        }
        Ok(testbed)
    }

    /// The tree that the kubelet makes, with the scenario's pods, the bystander and services.
    fn node(&mut self, form: &Form) -> Result<()> {
        let capacity = capacity()?;
        self.pods = pods::placed(form, capacity);
        self.pods.push(bystander(capacity, form.driver)?);
        self.make(SYSTEM)?;
        for service in &form.service {
            let name = service.name.get_ref();
            let path = format!("{SYSTEM}/{name}.service");
            self.make(&path)?;
            self.places.push(Place::plain(name, path, &service.load));
        }
        let limit = form.kubepods.unwrap_or(Memory(capacity.saturating_sub(HARD))).0;
        let kubepods = driver::class(form.driver, QosClass::Guaranteed);
        self.make(&kubepods)?.write("memory.max", &limit.to_string())?;
        let weight = pods::weight(2000).to_string();
        self.group(&kubepods)?.write("cpu.weight", &weight)?;
        for class in [QosClass::BestEffort, QosClass::Burstable] {
            self.make(&driver::class(form.driver, class))?.write("cpu.weight", "1")?;
        }
        for pod in self.pods.clone() {
            self.pod(&pod)?;
        }
        Ok(())
    }

    fn pod(&mut self, pod: &Placed) -> Result<()> {
        for path in [&pod.cgroup, &pod.sandbox, &pod.container].into_iter().chain(&pod.others) {
            self.make(path)?;
        }
        for (file, value) in &pod.write {
            self.group(&pod.cgroup)?.write(file, value)?;
            self.group(&pod.container)?.write(file, value)?;
        }
        // Since Kubernetes 1.28 a container is killed as a whole.
        self.group(&pod.container)?.write("memory.oom.group", "1")?;
        for (file, value) in &pod.write_container {
            self.group(&pod.container)?.write(file, value)?;
        }
        for file in SQUEEZED {
            for (what, path) in [("pod", &pod.cgroup), ("container", &pod.container)] {
                let (at, name) = (self.below(path).join(file), format!("{what}/{file}"));
                let before = fs::read_to_string(&at).with_context(|| at.display().to_string())?;
                let before = Limit {
                    name: pod.name.clone(),
                    file: name,
                    before: before.trim().into(),
                    after: String::new(),
                };
                self.before.push((at, before));
            }
        }
        self.places.push(Place {
            name: pod.name.clone(),
            kind: pod.kind.clone(),
            path: pod.container.clone(),
            sandbox: Some(pod.sandbox.clone()),
            oom_score_adj: pod.oom_score_adj,
            loads: pod.loads.clone(),
        });
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

    /// Makes a cgroup and those above it that are not there.
    fn make_all(&mut self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        for end in ends {
            if !self.below(&path[..end]).exists() {
                self.make(&path[..end])?;
            }
        }
        Ok(())
    }

    /// Where an agent lives: a service among services, or beside the scenario's cgroups.
    pub(super) fn agents_path(&self, name: &str) -> PathBuf {
        match self.has_bystander() {
            true => self.below(&format!("{SYSTEM}/{name}.service")),
            false => self.below(name),
        }
    }

    /// True if users outside of the machine ping a pod.
    pub(super) fn has_bystander(&self) -> bool {
        !self.pods.is_empty()
    }

    fn group(&self, path: &str) -> Result<&Group> {
        let dir = self.below(path);
        let found = self.groups.iter().find(|group| group.dir() == dir);
        found.with_context(|| format!("{path} was never made"))
    }

    /// Where cgroup v2 is mounted.
    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    /// How the kubelet names cgroups here.
    pub(super) fn driver(&self) -> CgroupDriver {
        self.driver
    }

    /// The directory of a cgroup.
    pub(super) fn below(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The manifests of all pods.
    pub(super) fn manifests(&self) -> String {
        self.pods.iter().map(|pod| pod.manifest.as_str()).collect()
    }

    /// All pods as the API has them, with the directories of their containers.
    pub(super) fn objects(&self) -> Result<Vec<(serde_json::Value, PathBuf)>> {
        let object = |pod: &Placed| {
            let json = pod.manifest.trim_start_matches("---\n");
            Ok((serde_json::from_str(json)?, self.below(&pod.container)))
        };
        self.pods.iter().map(object).collect()
    }

    /// Starts the sandbox of a place, if it has one.
    pub(super) fn sandbox(&self, place: &Place) -> Result<Option<Child>> {
        place.sandbox.as_ref().map(|path| sleeper(&self.below(path), -998)).transpose()
    }

    /// Starts one load of a place.
    pub(super) fn load(&self, place: &Place, load: &Load, more: &Loading) -> Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("load").arg("--cgroup").arg(self.below(&place.path));
        command.arg(format!("--oom-score-adj={}", place.oom_score_adj));
        command.arg(format!("--seconds={}", more.seconds));
        command.arg(format!("--after-seconds={}", load.after.0.max(0.0)));
        if !load.steady {
            command.args(["--tell-begin", "--wait-for", GO]);
        }
        // Last, because the words may be another program's.
        command.args(load.run.split_whitespace());
        command.stdin(Stdio::null()).stdout(more.said.try_clone()?);
        // A container is no part of its runtime's process group.
        command.process_group(0);
        command.spawn().with_context(|| format!("cannot start {:?}", load.run))
    }

    /// Limits that are not what they were.
    pub(super) fn changed(&self) -> Vec<Limit> {
        let now = |(at, limit): &(PathBuf, Limit)| {
            let after = fs::read_to_string(at).ok()?.trim().to_owned();
            (after != limit.before).then(|| Limit { after, ..limit.clone() })
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

impl Place {
    fn plain(name: &str, path: String, loads: &[Load]) -> Self {
        let (name, kind, loads) = (name.to_owned(), name.to_owned(), loads.to_vec());
        Self { name, kind, path, sandbox: None, oom_score_adj: 0, loads }
    }
}

impl Drop for Testbed {
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
    shell.process_group(0).spawn().context("cannot start a sandbox")
}

/// The Guaranteed pod that answers pings.
fn bystander(capacity: u64, driver: CgroupDriver) -> Result<Placed> {
    let text = format!(
        "name = \"{BYSTANDER}\"\nclass = \"Guaranteed\"\nmemory_limit = \"64MiB\"\n\
         cpu_limit = \"500m\"\npriority = 1000\nload = [{{ run = \"echo --tty {TTY}\", steady = true }}]\n"
    );
    let pod: Pod = toml::from_str(&text)?;
    Ok(pods::place(&pod, BYSTANDER.into(), 999, capacity, driver))
}

/// All memory of the node.
fn capacity() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo has no MemTotal")? << 10)
}
