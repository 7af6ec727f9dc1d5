//! One fuzz target: a program that is libFuzzer with one parser in it.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::corpus::{self, Corpus, Kept};
use isobar_lab::shell::{quietly, root, spelled, step};

/// A parser that needs longer for a few kilobytes does more than it should.
const SLOWEST_SECONDS: u32 = 10;

fn slowest() -> String {
    format!("-timeout={SLOWEST_SECONDS}")
}

pub(super) struct Target {
    name: String,
    program: PathBuf,
    /// All inputs that went another way than those before.
    corpus: PathBuf,
    /// The few of them that are in the repository, and where they are unpacked to.
    kept: Corpus,
    unpacked: PathBuf,
    artifacts: PathBuf,
    log: PathBuf,
}

/// What libFuzzer counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    executions: u64,
    a_second: u64,
    /// Edges of the program's flow that were taken.
    edges: u64,
}

impl Target {
    pub(super) fn new(name: &str, triple: &str) -> Self {
        let fuzz = root().join("target/fuzz");
        Self {
            name: name.into(),
            program: fuzz.join(triple).join("release").join(name),
            corpus: fuzz.join("corpus").join(name),
            kept: Corpus::of(name),
            unpacked: fuzz.join("kept").join(name),
            artifacts: fuzz.join("artifacts").join(name),
            log: fuzz.join(format!("{name}.log")),
        }
    }

    /// Inputs that once failed and no longer do are findings no more: they are fixed, or took long
    /// on a machine that had other things to do, for libFuzzer goes by the clock on the wall.
    pub(super) fn drop_what_passes(&self) -> Result<Vec<PathBuf>> {
        let mut fixed = Vec::new();
        for finding in self.findings()? {
            if quietly(self.fuzzer().arg(slowest()).arg(&finding)).is_ok() {
                fs::remove_file(&finding)?;
                fixed.push(finding);
            }
        }
        Ok(fixed)
    }

    /// Runs for that long, or until something fails.
    pub(super) fn feed(&self, minutes: u32) -> Result<Seen> {
        for dir in [&self.corpus, &self.artifacts] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        self.kept.unpack(&self.unpacked)?;
        let mut fuzzer = self.fuzzer();
        match minutes {
            0 => fuzzer.arg("-runs=0"),
            _ => fuzzer.arg(format!("-max_total_time={}", 60 * minutes)),
        };
        fuzzer.arg("-print_final_stats=1").arg(slowest());
        fuzzer.arg(format!("-artifact_prefix={}/", self.artifacts.display()));
        fuzzer.args([&self.corpus, &self.unpacked]);
        let log = File::create(&self.log)?;
        fuzzer.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let failed = step(&format!("{} for {minutes} min", self.name), || {
            Ok(!fuzzer.status().with_context(|| spelled(&fuzzer))?.success())
        })?;
        let log = fs::read(&self.log)?;
        if failed && self.findings()?.is_empty() {
            bail!("{} did not run: see {}", self.name, self.log.display());
        }
        Ok(Seen::read(&String::from_utf8_lossy(&log)))
    }

    /// Puts into the repository what covers most with least.
    pub(super) fn keep(&self) -> Result<Kept> {
        let covering = self.corpus.with_file_name(format!("{}.covering", self.name));
        self.kept.copy_named(&covering)?;
        let mut merge = self.fuzzer();
        // By edges alone: how often each is taken would ask for ten times as many inputs.
        merge.args(["-set_cover_merge=1", "-use_counters=0"]).args([
            &covering,
            &self.corpus,
            &self.unpacked,
        ]);
        quietly(&mut merge).with_context(|| format!("{} cannot be minimised", self.name))?;
        self.kept.replace_found(&covering)
    }

    /// Inputs that made the parser fail.
    pub(super) fn findings(&self) -> Result<Vec<PathBuf>> {
        corpus::files(&self.artifacts)
    }

    /// How to see a finding fail.
    pub(super) fn command_for(&self, finding: &Path) -> String {
        spelled(self.fuzzer().arg(finding))
    }

    fn fuzzer(&self) -> Command {
        Command::new(&self.program)
    }
}

impl Seen {
    /// From the last words of libFuzzer.
    fn read(log: &str) -> Self {
        let stat = |name: &str| {
            let of = log.lines().filter_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
            of.filter_map(|rest| rest.strip_prefix(':')?.trim().parse().ok()).next_back()
        };
        let cov = |line: &str| line.split_once(" cov: ")?.1.split(' ').next()?.parse().ok();
        Self {
            executions: stat("number_of_executed_units").unwrap_or(0),
            a_second: stat("average_exec_per_sec").unwrap_or(0),
            edges: log.lines().rev().find_map(cov).unwrap_or(0),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, a_second, edges } = self;
        write!(f, "{executions} executions, {a_second} a second, {edges} edges")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_counted_is_read_from_its_last_words() {
        let log = "INFO: Running with entropic power schedule (0xFF, 100).\n\
                   #4\tINITED cov: 81 ft: 82 corp: 1/1b exec/s: 0 rss: 60Mb\n\
                   #309180\tDONE   cov: 242 ft: 751 corp: 292/23Kb lim: 769 exec/s: 34353 rss: 248Mb\n\
                   Done 309180 runs in 9 second(s)\n\
                   stat::number_of_executed_units: 309180\n\
                   stat::average_exec_per_sec:     34353\n";
        let seen = Seen::read(log);
        assert_eq!(seen, Seen { executions: 309_180, a_second: 34_353, edges: 242 });
        assert_eq!(seen.to_string(), "309180 executions, 34353 a second, 242 edges");
        assert_eq!(Seen::read("killed"), Seen::default());
    }
}
