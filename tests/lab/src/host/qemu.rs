//! One boot of one guest: started, listened to, and ended in time.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::clock::Since;
use crate::machine::{Kernel, Machine};
use crate::shell::{step, tail};
use crate::signals::Stop;

/// A guest that is ready to boot.
pub(super) struct Guest {
    pub(super) kernel: Kernel,
    /// Holds its root file system, and what it says.
    pub(super) dir: PathBuf,
    /// More of the kernel's command line.
    pub(super) boot: String,
    /// `kvm`, or the emulator.
    pub(super) accel: Accel,
    /// The socket of a third serial line, for what is asked from outside.
    pub(super) line: PathBuf,
    /// It ends with this process.
    pub(super) stop: Stop,
}

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accel {
    /// The processor itself.
    Kvm,
    /// The emulator. One thread for all of the guest's CPUs: with more, QEMU 7.2 crashed a guest
    /// while a tracepoint was being patched (self-modifying code).
    Tcg,
}

impl Guest {
    /// What the guest's console said.
    pub(super) fn console(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// What the guest reported, line by line.
    pub(super) fn results(&self) -> PathBuf {
        self.dir.join("results.jsonl")
    }

    /// Boots the guest and hands each line of its results to `hear`, until it switches itself
    /// off. An error names the console's last words.
    pub(super) fn boot(
        &self,
        machine: &Machine,
        limit: Duration,
        mut hear: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        for file in [self.console(), self.results()] {
            fs::write(file, "")?;
        }
        let mut qemu = self.qemu(machine, "");
        qemu.args(["-display", "none", "-monitor", "none"]);
        qemu.arg("-serial").arg(file_of(&self.console()));
        qemu.arg("-serial").arg(file_of(&self.results()));
        qemu.stdin(Stdio::null()).stdout(Stdio::null());
        qemu.stderr(File::create(self.dir.join("qemu.log"))?);
        let socket = format!("socket,id=line,path={},server=on,wait=off", self.line.display());
        qemu.args(["-chardev", &socket]);
        // An interrupt of its own: PCs share the first line's, and edges are lost that way.
        qemu.args(["-device", "isa-serial,chardev=line,index=2,iobase=0x3e8,irq=5"]);
        let mut qemu = Running(qemu.spawn().context("cannot start QEMU")?);
        let mut lines = Lines { file: File::open(self.results())?, rest: String::new() };
        let since = Since::now();
        let status = loop {
            let ended = qemu.0.try_wait()?;
            for line in lines.new_ones()? {
                hear(&line)?;
            }
            if let Some(status) = ended {
                break status;
            }
            if self.stop.requested() {
                bail!("stopped by a signal");
            }
            if !since.within(limit) {
                bail!("the guest was still running after {limit:?}\n{}", self.last_words());
            }
            thread::sleep(Duration::from_millis(200));
        };
        if !status.success() {
            let why = fs::read_to_string(self.dir.join("qemu.log")).unwrap_or_default();
            bail!("QEMU: {status}\n{why}{}", self.last_words());
        }
        Ok(())
    }

    /// Boots the guest to a shell on this terminal.
    pub(super) fn shell(&self, machine: &Machine) -> Result<()> {
        let mut qemu = self.qemu(machine, "isobar.shell");
        qemu.args(["-display", "none", "-serial", "mon:stdio", "-serial", "null"]);
        let status = qemu.status().context("cannot start QEMU")?;
        if !status.success() {
            bail!("QEMU: {status}");
        }
        Ok(())
    }

    /// Removes what it needed only while it ran: its disks hold gigabytes.
    pub(super) fn clear(&self) -> Result<()> {
        for file in ["initramfs", "disk", "swap"] {
            let file = self.dir.join(file);
            fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        // The line may never have been opened.
        let _ = fs::remove_file(&self.line);
        Ok(())
    }

    /// The console's last lines, and where the rest is.
    pub(super) fn last_words(&self) -> String {
        let said = fs::read(self.console()).unwrap_or_default();
        let said = tail(&String::from_utf8_lossy(&said), 40);
        format!("{said}\n(console: {})", self.console().display())
    }

    fn qemu(&self, machine: &Machine, more: &str) -> Command {
        let boot = &self.boot;
        let mut qemu = Command::new(&machine.qemu);
        match self.accel {
            Accel::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
            Accel::Tcg => qemu.args(["-accel", "tcg,thread=single", "-cpu", "max"]),
        };
        qemu.args(["-smp", "2", "-m", "1024", "-no-reboot", "-nodefaults"]);
        qemu.arg("-kernel").arg(&self.kernel.vmlinuz);
        qemu.arg("-initrd").arg(self.dir.join("initramfs"));
        for disk in ["disk", "swap"].map(|name| self.dir.join(name)) {
            let disk = format!("file={},if=virtio,format=raw,cache=unsafe", disk.display());
            // As slow as a disk: out of the host's memory, nothing would wait for it.
            qemu.arg("-drive").arg(format!("{disk},throttling.iops-total=500"));
        }
        if let Some(peers) = &machine.peers {
            // Shared by all guests, and as fast as can be: what isobar is made of is in memory.
            let disk = format!("file={},if=virtio,format=raw,readonly=on", peers.display());
            qemu.arg("-drive").arg(disk);
        }
        qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 psi=1 {boot} {more}"));
        qemu
    }
}

fn file_of(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// QEMU, which does not outlive this process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole lines of a file that grows.
struct Lines {
    file: File,
    rest: String,
}

impl Lines {
    fn new_ones(&mut self) -> Result<Vec<String>> {
        // QEMU truncates the file when it starts.
        let at = self.file.stream_position()?;
        if self.file.metadata()?.len() < at {
            self.file.seek(SeekFrom::Start(0))?;
        }
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        self.rest += &String::from_utf8_lossy(&bytes);
        let Some(end) = self.rest.rfind('\n') else { return Ok(Vec::new()) };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        Ok(whole.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect())
    }
}

/// Finds out once per boot of this machine whether KVM works: on some nested machines a guest
/// hangs without a word.
pub(super) fn accel(machine: &Machine, guest: &Guest) -> Result<Accel> {
    let device = File::options().read(true).write(true).open("/dev/kvm");
    if device.is_err() {
        return Ok(Accel::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = machine.cache.join("kvm");
    let answer = fs::read_to_string(&known).unwrap_or_default();
    let answer = answer.strip_prefix(boot.trim()).map(str::trim).map(str::to_owned);
    let works = match answer.as_deref() {
        Some("works") => true,
        Some("fails") => false,
        _ => {
            let works = step("does KVM work here?", || Ok(boots(machine, guest)))?;
            let word = if works { "works" } else { "fails" };
            fs::write(&known, format!("{} {word}\n", boot.trim()))?;
            works
        }
    };
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

fn boots(machine: &Machine, guest: &Guest) -> bool {
    let probe = Guest {
        kernel: guest.kernel.clone(),
        dir: guest.dir.clone(),
        boot: "isobar.alive".into(),
        line: guest.line.clone(),
        accel: Accel::Kvm,
        stop: guest.stop.clone(),
    };
    let mut alive = false;
    let ended = probe.boot(machine, Duration::from_secs(20), |line| {
        alive |= line == "alive";
        Ok(())
    });
    ended.is_ok() && alive
}
