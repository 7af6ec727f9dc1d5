//! `cargo xtask test`: everything, from nothing. What CI runs is this and no more.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, anyhow};

use crate::build;
use crate::relief;
use crate::scenario::Scenario;
use crate::setup::{self, Kernel, Series};
use crate::shell::{loudly, spelled};
use crate::vm::{self, Lab, Told, Verdict};

/// Machines at a time: each keeps one CPU of the host busy.
const MACHINES: usize = 2;

/// Set up, then run all tests: format, lints, tests here, scenarios on four kernels.
#[derive(clap::Args)]
pub(crate) struct Test {}

/// How many of what; a line each has been printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    n_passed: usize,
    n_failed: usize,
    n_skipped: usize,
}

impl Test {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut tally = Tally::default();
        let object = build::object(&setup::toolchain()?)?;
        setup::browser()?;
        for args in [
            &["fmt", "--all", "--check"][..],
            &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        ] {
            tally.command(build::cargo(&object).args(args));
        }
        tally.cargo_test(&object)?;
        tally.machines(&object)?;
        println!("{tally}");
        Ok(if tally.n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.n_passed, self.n_failed)?;
        if self.n_skipped > 0 {
            write!(f, ", {} skipped", self.n_skipped)?;
        }
        Ok(())
    }
}

impl Tally {
    fn command(&mut self, command: &mut Command) {
        let name: Vec<String> = command.get_args().map(|a| a.to_string_lossy().into()).collect();
        let name = format!("test cargo {}", name[0]);
        match loudly(command) {
            Ok(()) => {
                self.n_passed += 1;
                println!("{name} ... ok");
            }
            Err(why) => {
                self.n_failed += 1;
                println!("{name} ... FAILED\n{why:#}");
            }
        }
    }

    /// The workspace's own tests.
    fn cargo_test(&mut self, object: &Path) -> Result<()> {
        let mut cargo = build::cargo(object);
        // What a test prints is shown, because one that cannot run says so.
        cargo.args(["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
        let name = spelled(&cargo);
        let mut cargo = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(name)?;
        let before = self.n_failed;
        let mut said = Said::default();
        if let Some(stdout) = cargo.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                if let Some(line) = said.hear(&line?, self) {
                    println!("{line}");
                }
            }
        }
        if !cargo.wait()?.success() && self.n_failed == before {
            self.n_failed += 1;
            println!("test cargo test ... FAILED: it did not come to the tests");
        }
        Ok(())
    }

    /// All scenarios on all kernels.
    fn machines(&mut self, object: &Path) -> Result<()> {
        let scenarios = vm::scenarios()?;
        let lab = match Lab::with(object, false) {
            Ok(lab) => lab,
            Err(why) => {
                self.missing("virtual machines", &format!("{why:#}"));
                return Ok(());
            }
        };
        let mut kernels = VecDeque::new();
        for series in Series::ALL {
            match setup::kernel(series) {
                Ok(kernel) => kernels.push_back(kernel),
                Err(why) => self.missing(&format!("kernel {series}"), &format!("{why:#}")),
            }
        }
        let overloaded = kernels.iter().find(|kernel| kernel.series == Series::V6_12).cloned();
        let (queue, tally) = (Mutex::new(kernels), Mutex::new(self));
        thread::scope(|scope| {
            for _ in 0..MACHINES {
                scope.spawn(|| play(&lab, &scenarios, &queue, &tally));
            }
        });
        let Some(kernel) = overloaded else { return Ok(()) };
        // By itself: what users of an overloaded node see is measured in milliseconds.
        let tally = tally.into_inner().map_err(|_| anyhow!("a machine's thread panicked"))?;
        relief::quick(&lab, &kernel, &mut |line, failed| {
            println!("test {line}");
            match failed {
                true => tally.n_failed += 1,
                false => tally.n_passed += 1,
            }
        })
    }

    fn told(&mut self, told: &Told) {
        println!("{}", told.line());
        match &told.verdict {
            Verdict::Skipped(_) => self.n_skipped += 1,
            verdict if verdict.failed() => self.n_failed += 1,
            _ => self.n_passed += 1,
        }
        if let Verdict::Ran(report) = &told.verdict {
            print!("{}", report.table());
        }
    }

    /// Something could not be had: CI must have it, a developer's machine need not.
    fn missing(&mut self, what: &str, why: &str) {
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            self.n_failed += 1;
            println!("test {what} ... FAILED\n{why}");
        } else {
            self.n_skipped += 1;
            println!("test {what} ... skipped: {why}");
        }
    }
}

/// Takes one kernel after the other from the queue until there is none.
fn play(
    lab: &Lab,
    scenarios: &[Scenario],
    queue: &Mutex<VecDeque<Kernel>>,
    tally: &Mutex<&mut Tally>,
) {
    let next = || queue.lock().ok()?.pop_front();
    let count = |told: Told| {
        if let Ok(mut tally) = tally.lock() {
            tally.told(&told);
        }
    };
    while let Some(kernel) = next() {
        let mut failed = Vec::new();
        lab.play(&kernel, scenarios, &mut |told| match told.verdict.failed() {
            true => failed.push(told),
            false => count(told),
        });
        // An emulated machine stands still whenever the host has something else to do, and what is
        // measured meanwhile is wrong. What fails twice fails; the first time is shown all the same.
        let again: Vec<Scenario> = scenarios
            .iter()
            .filter(|s| failed.iter().any(|f| f.scenario == s.name))
            .cloned()
            .collect();
        for told in &failed {
            println!("{}\n(is played once more)", told.line());
            if let Verdict::Ran(report) = &told.verdict {
                print!("{}", report.table());
            }
        }
        if !again.is_empty() {
            lab.play(&kernel, &again, &mut |told| count(told));
        }
    }
}

/// Where in libtest's output we are.
#[derive(Default)]
struct Said {
    /// Between `successes:` and the next summary: what tests that passed had printed.
    in_successes: bool,
}

impl Said {
    /// Counts what `line` reports and returns it if it is worth printing.
    fn hear<'a>(&mut self, line: &'a str, tally: &mut Tally) -> Option<&'a str> {
        if let Some(summary) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            let count = |word: &str| {
                let of = summary.split([';', '.']).map(str::trim);
                of.filter_map(|part| part.strip_suffix(word)?.trim().parse::<usize>().ok()).sum()
            };
            let (passed, failed, ignored): (usize, usize, usize) =
                (count("passed"), count("failed"), count("ignored"));
            tally.n_passed += passed;
            tally.n_failed += failed;
            tally.n_skipped += ignored;
            return Some(line);
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if !self.in_successes {
            return Some(line);
        }
        if !line.starts_with("skipped: ") {
            return None;
        }
        // libtest counts it as passed.
        tally.n_passed = tally.n_passed.saturating_sub(1);
        tally.n_skipped += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_as_libtest_reports_them_and_skipped_ones_apart() {
        let said = "running 4 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\n\
                    skipped: no perf here\nnoise\n\nsuccesses:\n    a\n\nfailures:\n    b\n\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        let (mut tally, mut state) = (Tally { n_passed: 5, ..Tally::default() }, Said::default());
        let shown: Vec<&str> = said.lines().filter_map(|l| state.hear(l, &mut tally)).collect();
        assert_eq!(tally, Tally { n_passed: 7, n_failed: 1, n_skipped: 1 });
        assert!(shown.contains(&"skipped: no perf here") && !shown.contains(&"noise"));
        assert_eq!(tally.to_string(), "7 passed, 1 failed, 1 skipped");
    }
}
