//! `cargo xtask vm`: boots real kernels and plays tests/scenarios on them.

mod cpio;
mod qemu;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::FlockOperation;

use crate::build::{self, GuestPrograms};
use crate::scenario::report::{Line, Report};
use crate::scenario::{self, Scenario};
use crate::setup::{self, Kernel, Machine, Series};
use crate::shell::{quietly, root};
use crate::signals;
use cpio::Cpio;
use qemu::{Accel, Guest};

/// A guest's disk.
const DISK: u64 = 256 << 20;
/// A disk from which twice the guest's memory can be read.
const RELIEF_DISK: u64 = 5 << 29;
/// What a guest may swap to.
const RELIEF_SWAP: u64 = 1 << 30;

/// Play scenarios in virtual machines, or look around in one.
#[derive(clap::Args)]
pub(crate) struct Vm {
    /// A kernel, or `all`.
    #[arg(long, default_value = "6.12", value_parser = series)]
    kernel: Kernels,
    /// Only these; a file's name stands for all of its variants.
    #[arg(long, num_args = 1..)]
    scenario: Vec<String>,
    /// A shell instead of scenarios.
    #[arg(long)]
    shell: bool,
    /// Keep what the machines said also when all went well.
    #[arg(long)]
    keep: bool,
}

#[derive(Clone)]
struct Kernels(Vec<Series>);

fn series(word: &str) -> Result<Kernels, String> {
    use clap::ValueEnum as _;
    match word {
        "all" => Ok(Kernels(Series::ALL.into())),
        _ => Series::from_str(word, false).map(|one| Kernels(vec![one])),
    }
}

impl Vm {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut scenarios = scenarios()?;
        if let Some(unknown) =
            self.scenario.iter().find(|name| !scenarios.iter().any(|s| s.is(name)))
        {
            bail!("no scenario is called {unknown}; there are {}", names(&scenarios).join(", "));
        }
        scenarios.retain(|s| self.scenario.is_empty() || self.scenario.iter().any(|n| s.is(n)));
        let lab = Lab::ready(self.keep)?;
        if self.shell {
            let kernel = setup::kernel(self.kernel.0[0])?;
            lab.guest(&kernel, "", &scenarios.iter().collect::<Vec<_>>())?.shell(&lab.machine)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (mut n_passed, mut n_failed, mut n_skipped) = (0, 0, 0);
        for series in self.kernel.0 {
            let kernel = setup::kernel(series)?;
            lab.play(&kernel, &scenarios, &mut |told| {
                println!("{}", told.line());
                if let Verdict::Ran(report) = &told.verdict {
                    print!("{}", report.table());
                }
                match &told.verdict {
                    Verdict::Skipped(_) => n_skipped += 1,
                    verdict if verdict.failed() => n_failed += 1,
                    _ => n_passed += 1,
                }
            });
        }
        println!("{n_passed} passed, {n_failed} failed, {n_skipped} skipped");
        Ok(if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The repository's scenarios.
pub(crate) fn scenarios() -> Result<Vec<Scenario>> {
    scenario::read_all(&root().join("tests/scenarios"))
}

fn names(scenarios: &[Scenario]) -> Vec<&str> {
    scenarios.iter().map(|s| s.name.as_str()).collect()
}

/// How one scenario went on one kernel.
pub(crate) struct Told {
    pub(crate) series: Series,
    pub(crate) scenario: String,
    pub(crate) verdict: Verdict,
}

/// How it went.
pub(crate) enum Verdict {
    Ran(Report),
    /// Not for this kernel, and why.
    Skipped(String),
    /// The machine ended before the scenario did.
    Lost(String),
}

impl Verdict {
    /// True if somebody has to look at it.
    pub(crate) fn failed(&self) -> bool {
        match self {
            Self::Ran(report) => !report.passed,
            Self::Skipped(_) => false,
            Self::Lost(_) => true,
        }
    }
}

impl Told {
    /// As an ordinary test's line.
    pub(crate) fn line(&self) -> String {
        let verdict = match &self.verdict {
            Verdict::Ran(Report { passed: true, seconds, .. }) => format!("ok ({seconds:.1} s)"),
            Verdict::Ran(_) => "FAILED".into(),
            Verdict::Skipped(why) => format!("skipped: {why}"),
            Verdict::Lost(why) => format!("FAILED\n{why}"),
        };
        format!("test kernel {} {} ... {verdict}", self.series, self.scenario)
    }
}

/// All that guests are made of but for their kernels, and where they live.
pub(crate) struct Lab {
    machine: Machine,
    programs: GuestPrograms,
    dir: PathBuf,
    keep: bool,
    told: signals::Told,
    _lock: File,
}

impl Lab {
    /// Sets up and builds.
    pub(crate) fn ready(keep: bool) -> Result<Self> {
        let object = build::object(&setup::toolchain()?)?;
        Self::with(&object, keep)
    }

    /// The same, for a kernel side that is built already.
    pub(crate) fn with(object: &Path, keep: bool) -> Result<Self> {
        let machine = setup::machine()?;
        let programs = build::for_guests(object)?;
        let dir = root().join("target/vm");
        fs::create_dir_all(&dir)?;
        let lock = File::create(dir.join("lock"))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("other virtual machines of this clone are running: waiting for them");
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        }
        let told = signals::Told::listen()?;
        Ok(Self { machine, programs, dir, keep, told, _lock: lock })
    }

    /// Plays `scenarios` on `kernel`, one boot for each command line, and tells how each went.
    pub(crate) fn play(&self, kernel: &Kernel, scenarios: &[Scenario], tell: &mut dyn FnMut(Told)) {
        let series = kernel.series;
        let name = series.to_string();
        let mut boots: Vec<(&str, Vec<&Scenario>)> = Vec::new();
        for scenario in scenarios {
            if let Some(why) = scenario.not_on(&name) {
                let verdict = Verdict::Skipped(why.into());
                tell(Told { series, scenario: scenario.name.clone(), verdict });
                continue;
            }
            let boot = scenario.form.boot.as_str();
            match boots.iter_mut().find(|(known, _)| *known == boot) {
                Some((_, those)) => those.push(scenario),
                None => boots.push((boot, vec![scenario])),
            }
        }
        for (boot, scenarios) in boots {
            let mut open: Vec<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
            let ended = self.boot_scenarios(kernel, boot, &scenarios, &mut |report| {
                open.retain(|name| *name != report.scenario);
                let scenario = report.scenario.clone();
                tell(Told { series, scenario, verdict: Verdict::Ran(report) });
            });
            // The first that is open is where the machine was; the others never had their turn.
            let why = ended.err().map_or_else(|| "it never ran".into(), |why| format!("{why:#}"));
            for (i, name) in open.into_iter().enumerate() {
                let why = if i == 0 { why.clone() } else { "the machine ended before".into() };
                tell(Told { series, scenario: name.into(), verdict: Verdict::Lost(why) });
            }
        }
    }

    fn boot_scenarios(
        &self,
        kernel: &Kernel,
        boot: &str,
        scenarios: &[&Scenario],
        ran: &mut dyn FnMut(Report),
    ) -> Result<()> {
        let guest = self.guest(kernel, boot, scenarios)?;
        let measured: f64 = scenarios.iter().map(|s| s.form.settle + s.form.seconds).sum();
        // Booting takes ten seconds, each scenario some more for its set; an emulator that shares
        // its CPU with other work takes longer.
        let slack = 180.0 + 30.0 * scenarios.len() as f64;
        let limit = Duration::try_from_secs_f64(measured + slack)?;
        let (mut done, mut failed) = (false, false);
        let mut replayed = None;
        guest.boot(&self.machine, limit, |line| {
            let what: Line = serde_json::from_str(line)
                .with_context(|| format!("the guest reported {line:?}"))?;
            match what {
                Line::Up { .. } | Line::Begin { .. } => {}
                Line::Recording { scenario, base64 } => {
                    replayed = Some((scenario.clone(), self.replay(kernel, &scenario, &base64)));
                }
                Line::Ran(mut report) => {
                    if let Some((_, Err(why))) =
                        replayed.take().filter(|(scenario, _)| *scenario == report.scenario)
                    {
                        report.passed = false;
                        report.error.get_or_insert(format!("{why:#}"));
                    }
                    failed |= !report.passed;
                    ran(report);
                }
                Line::Done => done = true,
            }
            Ok(())
        })?;
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
    fn replay(&self, kernel: &Kernel, scenario: &str, base64: &str) -> Result<()> {
        let dir = self.dir.join("recordings");
        fs::create_dir_all(&dir)?;
        let name = format!("{scenario}-{}.isobar", kernel.series).replace('/', "-");
        let file = dir.join(name);
        fs::write(&file, BASE64_STANDARD.decode(base64).context("the recording is no base64")?)?;
        quietly(Command::new(&self.programs.isobar).args(["replay", "--check"]).arg(&file))
            .with_context(|| format!("{} does not replay as it was decided", file.display()))?;
        Ok(())
    }

    /// Makes a guest that plays `scenarios`.
    fn guest(&self, kernel: &Kernel, boot: &str, scenarios: &[&Scenario]) -> Result<Guest> {
        let name: String = format!("{}{boot}", kernel.series).replace([' ', '/'], "_");
        let list: Vec<String> = scenarios.iter().map(|s| format!("{}\n", s.name)).collect();
        let mut cpio = self.root(kernel)?;
        copy_all(&mut cpio, "scenarios", &root().join("tests/scenarios"))?;
        cpio.file("scenarios/list", list.concat().as_bytes());
        self.boxed(kernel, boot, self.dir.join(name), cpio, DISK)
    }

    /// Makes a guest that plays `plan` of the relief scenarios, with a line to the outside, a
    /// large disk, and another to swap to.
    pub(crate) fn relief_guest(
        &self,
        kernel: &Kernel,
        boot: &str,
        plan: &str,
        line: PathBuf,
    ) -> Result<Guest> {
        let name: String = format!("relief-{}{boot}", kernel.series).replace([' ', '/'], "_");
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        let mut cpio = self.root(kernel)?;
        cpio.directory("scenarios/relief");
        copy_all(&mut cpio, "scenarios/relief", &root().join("tests/scenarios/relief"))?;
        cpio.file("scenarios/plan", plan.as_bytes());
        File::create(dir.join("swap"))?.set_len(RELIEF_SWAP)?;
        let guest = self.boxed(kernel, boot, dir, cpio, RELIEF_DISK)?;
        Ok(Guest { line: Some(line), ..guest })
    }

    /// Boots a guest and hands each line that it reports to `hear`.
    pub(crate) fn boot(
        &self,
        guest: &Guest,
        limit: Duration,
        hear: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        guest.boot(&self.machine, limit, hear)
    }

    /// What a guest said last.
    pub(crate) fn last_words(&self, guest: &Guest) -> String {
        guest.last_words()
    }

    /// True once somebody has pressed ctrl-c.
    pub(crate) fn told_to_end(&self) -> bool {
        self.told.to_end()
    }

    /// A guest's root file system but for what it is to play.
    fn root(&self, kernel: &Kernel) -> Result<Cpio> {
        let mut cpio = Cpio::default();
        for dir in ["bin", "dev", "proc", "sys", "tmp", "lib", "lib/modules", "scenarios"] {
            cpio.directory(dir);
        }
        cpio.console();
        cpio.file("init", include_bytes!("vm/init.sh"));
        cpio.copy("bin/busybox", &self.machine.busybox)?;
        cpio.copy("bin/isobar", &self.programs.isobar)?;
        cpio.copy("bin/xtask", &self.programs.xtask)?;
        let modules = format!("lib/modules/{}", kernel.release);
        cpio.directory(&modules);
        copy_all(&mut cpio, &modules, &kernel.modules)?;
        Ok(cpio)
    }

    fn boxed(
        &self,
        kernel: &Kernel,
        boot: &str,
        dir: PathBuf,
        cpio: Cpio,
        disk: u64,
    ) -> Result<Guest> {
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("initramfs"), cpio.finish())?;
        // Sparse: a disk for those scenarios that want one.
        File::create(dir.join("disk"))?.set_len(disk)?;
        let mut guest = Guest {
            kernel: kernel.clone(),
            dir,
            boot: boot.into(),
            accel: Accel::Tcg,
            line: None,
            told: self.told.clone(),
        };
        guest.accel = qemu::accel(&self.machine, &guest)?;
        Ok(guest)
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
