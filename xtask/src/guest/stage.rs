//! The set of a scenario: its cgroups, swap, disk and loads, put up and taken down again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::scenario::{Form, Work};
use crate::shell::quietly;
use crate::v2::Group;

/// The set; whatever of it still stands goes with this value.
pub(super) struct Stage {
    loads: Vec<Running>,
    /// In the order in which they were made.
    groups: Vec<Group>,
    swap: Option<Swap>,
    disk: Option<Disk>,
}

impl Stage {
    /// Puts it up below `mount`; the loads are running then.
    pub(super) fn set(form: &Form, mount: &Path) -> Result<Self> {
        let swap = form.swap.as_deref().map(Swap::on).transpose()?;
        let disk = form.disk.as_deref().map(Disk::mount).transpose()?;
        let mut stage = Self { loads: Vec::new(), groups: Vec::new(), swap, disk };
        for group in &form.cgroup {
            let dir = below(mount, &group.path);
            let parent = stage.groups.iter().find(|g| dir.parent() == Some(g.dir()));
            if let Some(parent) = parent {
                parent.pass_on_controllers()?;
            }
            let made = Group::make(dir)?;
            for (file, value) in &group.write {
                made.write(file, value)?;
            }
            stage.groups.push(made);
        }
        for work in &form.load {
            // Longer than is measured: they are ended, they do not end.
            let seconds = form.settle + form.seconds + 60.0;
            stage.loads.push(Running::start(work, &below(mount, &work.cgroup), seconds)?);
        }
        Ok(stage)
    }

    /// Takes it down. An error if a load had not run all the time.
    pub(super) fn strike(mut self) -> Result<()> {
        let ended: Vec<String> = self.loads.iter_mut().filter_map(Running::ended).collect();
        for group in self.groups.iter().rev() {
            group.remove()?;
        }
        for load in &mut self.loads {
            load.process.wait()?;
        }
        self.swap.take().map_or(Ok(()), Swap::off)?;
        self.disk.take().map_or(Ok(()), Disk::unmount)?;
        if let Some(load) = ended.first() {
            bail!("a load did not last: {load}");
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A cgroup can only go when those below it have gone.
        while self.groups.pop().is_some() {}
    }
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// A running load.
struct Running {
    process: Child,
    run: String,
    may_end: bool,
}

impl Running {
    fn start(work: &Work, group: &Path, seconds: f64) -> Result<Self> {
        let mut load = Command::new("/proc/self/exe");
        load.arg("load").arg("--cgroup").arg(group);
        load.arg(format!("--seconds={seconds}")).arg(format!("--after-seconds={}", work.after));
        // Last, because the words may be another program's.
        load.args(work.run.split_whitespace());
        let process = load.stdin(Stdio::null()).spawn().context("cannot start a load")?;
        Ok(Self { process, run: work.run.clone(), may_end: work.ends })
    }

    /// How it ended, if it has and should not have.
    fn ended(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok().flatten()?;
        (!self.may_end).then(|| format!("{}: {status}", self.run))
    }
}

/// Swap in compressed memory.
struct Swap;

impl Swap {
    fn on(wanted: &str) -> Result<Self> {
        let Some(size) = wanted.strip_prefix("zram ") else {
            bail!("swap = {wanted:?}: expected `zram SIZE`");
        };
        zram("disksize", size)?;
        quietly(Command::new("mkswap").arg("/dev/zram0"))?;
        quietly(Command::new("swapon").arg("/dev/zram0"))?;
        Ok(Self)
    }

    fn off(self) -> Result<()> {
        quietly(Command::new("swapoff").arg("/dev/zram0"))?;
        zram("reset", "1")
    }
}

fn zram(file: &str, value: &str) -> Result<()> {
    let file = Path::new("/sys/block/zram0").join(file);
    fs::write(&file, value).with_context(|| format!("cannot write to {}", file.display()))
}

/// An empty file system on the guest's disk.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &str) -> Result<Self> {
        fs::create_dir_all(at)?;
        quietly(Command::new("mke2fs").args(["-F", "/dev/vda"]))?;
        quietly(Command::new("mount").args(["-t", "ext4", "/dev/vda", at]))?;
        Ok(Self(at.into()))
    }

    fn unmount(self) -> Result<()> {
        quietly(Command::new("umount").arg(self.0))?;
        Ok(())
    }
}
