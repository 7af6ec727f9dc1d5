//! Counts what passed and what did not, and names at the very end what must be looked at.

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use isobar_lab::shell::{loudly, spelled};

/// So many scenarios may pass on a second try alone: more, and the machine or isobar is at fault.
const FLAKES: usize = 2;

/// How many of what; a line each has been printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    n_passed: usize,
    n_skipped: usize,
    /// By name.
    failed: Vec<String>,
    /// Failed, and passed on a second try; by name.
    flaky: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, flaky) = (self.failed.len(), self.flaky.len());
        write!(f, "{} passed, {failed} failed, {flaky} flaky", self.n_passed)?;
        if self.n_skipped > 0 {
            write!(f, ", {} skipped", self.n_skipped)?;
        }
        if flaky > FLAKES {
            write!(f, "; more than {FLAKES} flaky ones are a failure")?;
        }
        let flaky = self.flaky.iter().map(|name| ("flaky: ", name));
        for (word, name) in flaky.chain(self.failed.iter().map(|name| ("FAILED:", name))) {
            write!(f, "\n{word} {name}")?;
        }
        Ok(())
    }
}

impl Tally {
    /// True if nothing failed, and few enough were flaky.
    pub(super) fn passed(&self) -> bool {
        self.failed.is_empty() && self.flaky.len() <= FLAKES
    }

    pub(super) fn passed_one(&mut self) {
        self.n_passed += 1;
    }

    pub(super) fn failed_one(&mut self, name: &str) {
        self.failed.push(name.into());
    }

    pub(super) fn flaky_one(&mut self, name: &str) {
        self.flaky.push(name.into());
    }

    pub(super) fn skipped(&mut self, what: &str, why: &str) {
        self.n_skipped += 1;
        println!("test {what} ... skipped: {why}");
    }

    /// Something could not be had: CI must have it, a developer's machine need not.
    pub(super) fn missing(&mut self, what: &str, why: &str) {
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            self.failed_one(what);
            println!("test {what} ... FAILED\n{why}");
        } else {
            self.skipped(what, why);
        }
    }

    /// One command that passes or fails as a whole: of cargo's, or of npm's.
    pub(super) fn command(&mut self, command: &mut Command) {
        let program = Path::new(command.get_program()).file_name().unwrap_or_default();
        let verbs = command.get_args().take_while(|arg| !arg.to_string_lossy().starts_with('-'));
        let words: Vec<_> =
            [program].into_iter().chain(verbs).map(OsStr::to_string_lossy).collect();
        let name = words.join(" ");
        match loudly(command) {
            Ok(()) => {
                self.passed_one();
                println!("test {name} ... ok");
            }
            Err(why) => {
                self.failed_one(&name);
                println!("test {name} ... FAILED\n{why:#}");
            }
        }
    }

    /// The workspace's own tests of these `targets`, by a cargo that is set up for them, each binary
    /// with `threads`.
    pub(super) fn cargo_test(
        &mut self,
        mut cargo: Command,
        targets: &[&str],
        threads: usize,
    ) -> Result<()> {
        cargo.args(["test", "--workspace", "--no-fail-fast"]).args(targets);
        // What a test prints is shown, because one that cannot run says so.
        cargo.args(["--", "--show-output", "--test-threads"]).arg(threads.to_string());
        let name = spelled(&cargo);
        let mut cargo = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(name)?;
        let before = self.failed.len();
        let mut said = Said::default();
        if let Some(stdout) = cargo.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                if let Some(line) = said.hear(&line?, self) {
                    println!("{line}");
                }
            }
        }
        if !cargo.wait()?.success() && self.failed.len() == before {
            self.failed_one("cargo test");
            println!("test cargo test ... FAILED: it did not come to the tests");
        }
        Ok(())
    }
}

/// The place in libtest's output.
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
            let (passed, ignored): (usize, usize) = (count("passed"), count("ignored"));
            tally.n_passed += passed;
            tally.n_skipped += ignored;
            return Some(line);
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if !self.in_successes {
            let failed =
                line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
            tally.failed.extend(failed.map(str::to_owned));
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
        let said = "running 4 tests\ntest a ... ok\ntest m::b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\n\
                    skipped: no perf here\nnoise\n\nsuccesses:\n    a\n\nfailures:\n    m::b\n\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        let (mut tally, mut state) = (Tally { n_passed: 5, ..Tally::default() }, Said::default());
        let shown: Vec<&str> = said.lines().filter_map(|l| state.hear(l, &mut tally)).collect();
        let failed = vec!["m::b".to_owned()];
        assert_eq!(tally, Tally { n_passed: 7, n_skipped: 1, failed, ..Tally::default() });
        assert!(shown.contains(&"skipped: no perf here") && !shown.contains(&"noise"));
    }

    #[test]
    fn the_summary_ends_with_the_names_of_what_failed() {
        let mut tally = Tally { n_passed: 7, n_skipped: 1, ..Tally::default() };
        assert_eq!(tally.to_string(), "7 passed, 0 failed, 0 flaky, 1 skipped");
        for name in ["x", "y"] {
            tally.flaky_one(name);
        }
        assert!(tally.passed(), "two flakes are an emulator's");
        tally.flaky_one("z");
        assert!(!tally.passed(), "three are not");
        tally.failed_one("m::b");
        let end = "\nflaky:  x\nflaky:  y\nflaky:  z\nFAILED: m::b";
        assert!(tally.to_string().ends_with(end), "{tally}");
    }
}
