//! The host's side: boots machines, hands each its plays, pings the bystander, judges what was seen.

mod cpio;
mod probe;
mod qemu;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::FlockOperation;

use crate::clock::Since;
use crate::facts::{Facts, Line, Play};
use crate::form::Scenario;
use crate::judge::Tried;
use crate::machine::{Kernel, Machine, Programs, Series};
use crate::report::Played;
use crate::shell::{quietly, root};
use crate::signals::Stop;
use cpio::Cpio;
pub(crate) use probe::Ping;
use probe::Probe;
use qemu::{Accel, Guest};

/// What a play takes beside its own seconds: set, agent, end, on a slow machine.
const AROUND: f64 = 15.0;
/// The same, before it is given up.
const PATIENCE: f64 = 150.0;
/// So many machines that end before they have played anything are no accident.
const USELESS: usize = 3;
/// A disk from which twice the guest's memory can be read.
const DISK: u64 = 5 << 29;
/// What a guest may swap to.
const SWAP: u64 = 1 << 30;

/// All that guests are made of but for their kernels, and where they live.
pub struct Lab {
    machine: Machine,
    programs: Programs,
    dir: PathBuf,
    /// Keeps what machines said also when all went well.
    keep: bool,
    stop: Stop,
    n_boots: AtomicUsize,
    _lock: File,
}

/// Plays of one kernel.
pub struct Plays<'a> {
    /// What is booted.
    pub kernel: &'a Kernel,
    /// All scenarios that are named.
    pub scenarios: &'a [Scenario],
    /// Which, with which agent, how often.
    pub plays: Vec<Play>,
}

impl Plays<'_> {
    fn scenario(&self, play: &Play) -> Result<&Scenario> {
        let found = self.scenarios.iter().find(|scenario| scenario.name == play.scenario);
        found.with_context(|| format!("no scenario is called {}", play.scenario))
    }

    fn boot(&self, play: &Play) -> &str {
        self.scenario(play).map_or("", |scenario| scenario.form.boot.as_str())
    }
}

/// Seconds that a play of a scenario should take.
pub fn expected_seconds(scenario: &Scenario) -> f64 {
    let form = &scenario.form;
    form.idle() + form.settle() + form.seconds.0 + if form.has_node() { AROUND } else { 4.0 }
}

impl Lab {
    /// Takes the directory of this clone's machines, once no other run has it.
    ///
    /// # Errors
    /// The directory cannot be made or locked, or signals not be listened to.
    pub fn open(machine: Machine, programs: Programs, keep: bool) -> Result<Self> {
        let dir = root().join("target/lab");
        fs::create_dir_all(&dir)?;
        let lock = File::create(dir.join("lock"))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("other virtual machines of this clone are running: waiting for them");
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        }
        let (stop, n_boots) = (Stop::listen()?, AtomicUsize::new(0));
        Ok(Self { machine, programs, dir, keep, stop, n_boots, _lock: lock })
    }

    /// True once ctrl-c was pressed.
    pub fn is_stopped(&self) -> bool {
        self.stop.requested()
    }

    /// Boots a guest to a shell on this terminal.
    ///
    /// # Errors
    /// The guest cannot be made, or QEMU fails.
    pub fn shell(&self, kernel: &Kernel) -> Result<()> {
        self.guest(kernel, "", "")?.shell(&self.machine)
    }

    /// Plays all of `plays`, one boot for each kernel command line, and tells how each went.
    pub fn play(&self, plays: &Plays<'_>, tell: &mut dyn FnMut(Played)) {
        let mut boots: Vec<&str> = plays.plays.iter().map(|play| plays.boot(play)).collect();
        boots.sort_unstable();
        boots.dedup();
        for boot in boots {
            let all = plays.plays.iter().filter(|play| plays.boot(play) == boot);
            self.play_with(plays, boot, all.cloned().collect(), tell);
        }
    }

    /// A machine that is lost takes one play with it; the rest get another.
    fn play_with(
        &self,
        plays: &Plays<'_>,
        boot: &str,
        mut open: Vec<Play>,
        tell: &mut dyn FnMut(Played),
    ) {
        let series = plays.kernel.series;
        let mut n_useless = 0;
        while !open.is_empty() {
            let before = open.len();
            let ended = self.one_boot(plays, boot, &open.clone(), &mut |played| {
                open.retain(|play| *play != played.play);
                tell(played);
            });
            n_useless = if open.len() == before { n_useless + 1 } else { 0 };
            let why = match ended {
                Err(_) if self.is_stopped() => return,
                Err(why) => format!("{why:#}"),
                Ok(()) if open.len() == before => "the machine ended without a word".into(),
                Ok(()) => continue,
            };
            if n_useless == USELESS {
                let why = format!("{USELESS} machines in a row played nothing\n{why}");
                open.drain(..).for_each(|play| tell(Played::broke(series, play, why.clone())));
            } else if !open.is_empty() {
                tell(Played::broke(series, open.remove(0), why));
            }
        }
    }

    fn one_boot(
        &self,
        plays: &Plays<'_>,
        boot: &str,
        open: &[Play],
        tell: &mut dyn FnMut(Played),
    ) -> Result<()> {
        let series = plays.kernel.series;
        let plan: Result<Vec<String>, _> = open.iter().map(serde_json::to_string).collect();
        let guest = self.guest(plays.kernel, boot, &plan?.join("\n"))?;
        let probe = Probe::start(guest.line.clone())?;
        let seconds: Result<f64> =
            open.iter().map(|play| Ok(expected_seconds(plays.scenario(play)?) + PATIENCE)).sum();
        let limit = Duration::try_from_secs_f64(60.0 + seconds?)?;
        let (mut done, mut failed) = (false, false);
        let mut replayed: Option<Result<()>> = None;
        let (mut scenario, mut since) = (String::new(), Since::now());
        let ended = guest.boot(&self.machine, limit, |line| {
            let line = serde_json::from_str(line)
                .with_context(|| format!("the guest reported {line:?}"))?;
            match line {
                Line::Up { .. } => {}
                Line::Begin { play } => {
                    (replayed, scenario, since) = (None, play.scenario, Since::now());
                    drop(probe.take());
                }
                Line::Recording { name, base64 } => {
                    let one = self.replay(plays.kernel, &format!("{scenario}{name}"), &base64);
                    replayed = Some(replayed.take().unwrap_or(Ok(())).and(one));
                }
                Line::Ran { play, facts } => {
                    let scenario = plays.scenario(&play)?;
                    let (replayed, alerts) =
                        (replayed.take(), self.alerts(series, scenario, &facts));
                    let tried = Tried { replayed, alerts };
                    let played = Played::of(series, scenario, play, facts, &probe.take(), &tried);
                    failed |= played.counts_as_failed();
                    tell(played.in_time(since.elapsed()));
                }
                Line::Broke { play, why } => {
                    drop(probe.take());
                    failed = true;
                    tell(Played::broke(series, play, why));
                }
                Line::Spent | Line::Done => done = true,
            }
            Ok(())
        });
        guest.clear()?;
        ended?;
        if !done {
            bail!("the guest ended too early\n{}", guest.last_words());
        }
        if failed {
            println!("{}", guest.last_words());
        } else if !self.keep {
            fs::remove_dir_all(&guest.dir)?;
        }
        Ok(())
    }

    /// Keeps a recording, and holds its decisions against those that the code makes of it here.
    fn replay(&self, kernel: &Kernel, what: &str, base64: &str) -> Result<()> {
        let dir = self.dir.join("recordings");
        fs::create_dir_all(&dir)?;
        let name = format!("{what}-{}.isobar", kernel.series).replace('/', "-");
        let file = dir.join(name);
        fs::write(&file, BASE64_STANDARD.decode(base64).context("the recording is no base64")?)?;
        quietly(Command::new(&self.programs.isobar).args(["replay", "--check"]).arg(&file))
            .with_context(|| format!("{} does not replay as it was decided", file.display()))?;
        Ok(())
    }

    /// Tries the alert rules over what was scraped.
    fn alerts(&self, series: Series, scenario: &Scenario, facts: &Facts) -> Option<Result<()>> {
        let scrapes = facts.agent.as_ref()?.scrapes.as_ref()?;
        let wanted = scenario.form.expect.alerts.as_ref()?;
        let promtool = self.machine.promtool.as_deref().context("there is no promtool");
        // Machines of several kernels play beside each other.
        let name = format!("{}-{series}.test.yaml", scenario.name).replace('/', "-");
        let check = |promtool| scrapes.check(wanted, promtool, &self.dir.join(name));
        Some(promtool.and_then(check))
    }

    /// Makes a guest that plays `plan`, with a line to the outside, a disk, and another to swap to.
    fn guest(&self, kernel: &Kernel, boot: &str, plan: &str) -> Result<Guest> {
        let number = self.n_boots.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{boot}-{number}", kernel.series).replace([' ', '/'], "_");
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        let mut cpio = self.root(kernel)?;
        copy_all(&mut cpio, "scenarios", &root().join("tests/lab/scenarios"))?;
        cpio.file("scenarios/plan", plan.as_bytes());
        fs::write(dir.join("initramfs"), cpio.finish())?;
        // Sparse: for those scenarios that want one.
        File::create(dir.join("disk"))?.set_len(DISK)?;
        File::create(dir.join("swap"))?.set_len(SWAP)?;
        let line = format!("isobar-lab-{}-{number}.sock", std::process::id());
        let mut guest = Guest {
            kernel: kernel.clone(),
            dir,
            boot: boot.into(),
            accel: Accel::Tcg,
            line: std::env::temp_dir().join(line),
            stop: self.stop.clone(),
        };
        guest.accel = qemu::accel(&self.machine, &guest)?;
        Ok(guest)
    }

    /// A guest's root file system but for what it is to play.
    fn root(&self, kernel: &Kernel) -> Result<Cpio> {
        let mut cpio = Cpio::default();
        for dir in ["bin", "dev", "proc", "sys", "tmp", "lib", "lib/modules", "scenarios"] {
            cpio.directory(dir);
        }
        cpio.console();
        cpio.file("init", include_bytes!("host/init.sh"));
        cpio.copy("bin/busybox", &self.machine.busybox)?;
        cpio.copy("bin/isobar", &self.programs.isobar)?;
        cpio.copy("bin/lab", &self.programs.lab)?;
        let modules = format!("lib/modules/{}", kernel.release);
        cpio.directory(&modules);
        copy_all(&mut cpio, &modules, &kernel.modules)?;
        Ok(cpio)
    }
}

fn copy_all(cpio: &mut Cpio, into: &str, from: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        if entry.path().is_dir() {
            continue;
        }
        cpio.copy(&format!("{into}/{}", entry.file_name().to_string_lossy()), &entry.path())?;
    }
    Ok(())
}
