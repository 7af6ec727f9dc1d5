//! A relief scenario's file: what a node is made to suffer, and what must come of it.
//! The words are explained in tests/scenarios/relief/README.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use toml::Spanned;

use super::amount::{Cpu, Memory, Seconds};
use super::pods;
use crate::scenario::Only;

/// The configuration for scenarios that have none of their own.
const USUAL: &str = "usual.yaml";

/// One scenario.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The file's name: `s01-slow-leak`.
    pub(crate) name: String,
    /// The first line of its comment.
    pub(crate) why: String,
    pub(crate) form: Form,
}

/// What the file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// How long is measured, from the moment at which the loads start.
    pub(crate) seconds: Seconds,
    /// How long nothing happens before that, for the probe's own jitter.
    #[serde(default = "three")]
    pub(crate) idle: Seconds,
    /// `zram 900MiB` or `disk 1GiB`.
    pub(crate) swap: Option<Swap>,
    /// Files on the disk, which is mounted at /disk.
    #[serde(default)]
    pub(crate) file: Vec<Prepared>,
    /// More of the kernel's command line, which takes a boot of its own.
    #[serde(default)]
    pub(crate) boot: String,
    /// One of those that `cargo xtask test` plays.
    #[serde(default)]
    pub(crate) quick: bool,
    /// Why it cannot be played.
    pub(crate) skip: Option<String>,
    pub(crate) kernels: Option<Only>,
    /// `memory.max` of kubepods.slice; what the node has, less 100 MiB, without it.
    pub(crate) kubepods: Option<Memory>,
    /// A configuration for agents that take isobar's; that of usual.yaml without it.
    pub(crate) config: Option<String>,
    /// More of the agent's environment.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) pod: Vec<Pod>,
    #[serde(default)]
    pub(crate) service: Vec<Service>,
    pub(crate) churn: Option<Churn>,
    /// What is done to the agent, and when.
    #[serde(default)]
    pub(crate) agent: Vec<Order>,
    pub(crate) expect: Expect,
}

/// Where memory can be swapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Swap {
    /// Compressed memory of this size.
    Zram(Memory),
    /// The second disk, this much of it.
    Disk(Memory),
}

/// A file that is made before anything else, outside of all pods.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepared {
    /// Below /disk.
    pub(crate) path: Spanned<String>,
    pub(crate) size: Memory,
}

/// A pod of one container.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pod {
    pub(crate) name: Spanned<String>,
    /// `BestEffort`, `Burstable` or `Guaranteed`; must be what requests and limits make of it.
    pub(crate) class: Spanned<String>,
    /// So many alike, called NAME-1 and so on.
    pub(crate) count: Option<usize>,
    pub(crate) memory_request: Option<Memory>,
    pub(crate) memory_limit: Option<Memory>,
    pub(crate) cpu_request: Option<Cpu>,
    pub(crate) cpu_limit: Option<Cpu>,
    #[serde(default)]
    pub(crate) priority: i32,
    /// More of what is written to the files of the container's cgroup.
    #[serde(default)]
    pub(crate) write: BTreeMap<String, String>,
    /// The arguments of `xtask load`.
    pub(crate) run: String,
    /// So long after the onset.
    #[serde(default)]
    pub(crate) after: Seconds,
    /// Runs before the idle time already, and is no part of the onset.
    #[serde(default)]
    pub(crate) steady: bool,
    /// May end before it is told to.
    #[serde(default)]
    pub(crate) ends: bool,
}

/// A service of the system.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) name: Spanned<String>,
    /// The arguments of `xtask load`.
    pub(crate) run: String,
    /// So long after the onset.
    #[serde(default)]
    pub(crate) after: Seconds,
    /// Runs before the idle time already, and is no part of the onset.
    #[serde(default)]
    pub(crate) steady: bool,
    /// May end before it is told to.
    #[serde(default)]
    pub(crate) ends: bool,
}

/// What runs in a pod or service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Work {
    pub(crate) run: String,
    pub(crate) after: Seconds,
    pub(crate) steady: bool,
    pub(crate) ends: bool,
}

impl Pod {
    /// What runs in its container.
    pub(crate) fn work(&self) -> Work {
        let Self { run, after, steady, ends, .. } = self.clone();
        Work { run, after, steady, ends }
    }
}

impl Service {
    /// What runs in it.
    pub(crate) fn work(&self) -> Work {
        let Self { run, after, steady, ends, .. } = self.clone();
        Work { run, after, steady, ends }
    }
}

/// Pods that come and go.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Churn {
    pub(crate) per_second: u32,
}

/// One thing that is done to the agent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Since the onset, or the first kill; negative is before the onset.
    pub(crate) after: Seconds,
    /// It counts from the first death of a victim, whenever that is.
    #[serde(default)]
    pub(crate) since_kill: bool,
    #[serde(rename = "do")]
    pub(crate) what: What,
}

/// See [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Cont,
    /// SIGKILL.
    Kill,
    /// Started again, as it was the first time.
    Restart,
}

/// What must come of it. What is not said is not judged.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// One of these pods must be killed, and nobody else.
    pub(crate) act: Vec<Spanned<String>>,
    /// These may be killed, and nobody else.
    pub(crate) may: Vec<Spanned<String>>,
    /// Nobody may be.
    pub(crate) no_kill: bool,
    /// By when the first must be dead, since the onset.
    pub(crate) within: Option<Seconds>,
    /// Of those who lose processes nobody is left in the end.
    pub(crate) whole: bool,
    /// How many may lose processes.
    pub(crate) victims: Option<usize>,
    /// How many kills by the kernel there may be.
    pub(crate) oom_kills: Option<u64>,
    /// By when the node must have recovered: since the first kill, or the onset without one.
    pub(crate) recover: Option<Seconds>,
    /// How many times its idle 99th percentile the bystander's may be.
    pub(crate) slower: Option<f64>,
    /// No condition of the node may become true.
    pub(crate) no_condition: bool,
    /// These must become true.
    pub(crate) conditions: Vec<String>,
    /// These may not.
    pub(crate) conditions_false: Vec<String>,
    /// What the agent must have said in its explanation.
    pub(crate) says: Vec<String>,
    /// What it may not have said.
    pub(crate) never_says: Vec<String>,
    /// `memory.high`, `memory.max` and `cpu.weight` of all pods are what they were.
    pub(crate) limits_restored: bool,
    /// How much of one CPU the agent may take.
    pub(crate) agent_cpu: Option<f64>,
}

fn three() -> Seconds {
    Seconds(3.0)
}

impl TryFrom<String> for Swap {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected `zram SIZE` or `disk SIZE`");
        let (kind, size) = text.split_once(' ').ok_or_else(wrong)?;
        let size = Memory::try_from(size.to_owned())?;
        match kind {
            "zram" => Ok(Self::Zram(size)),
            "disk" => Ok(Self::Disk(size)),
            _ => Err(wrong()),
        }
    }
}

impl Scenario {
    /// Reads one file.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let why = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let why = why.context("line 1: expected a comment that says why there is this scenario")?;
        let form: Form = toml::from_str(text)?;
        let scenario = Self { name: name.into(), why: why.into(), form };
        scenario.check().map_err(|(at, why)| {
            let line = text[..at].matches('\n').count() + 1;
            anyhow::anyhow!("line {line}: {why}")
        })?;
        Ok(scenario)
    }

    /// What one field alone cannot tell: the mistake, and where it stands.
    fn check(&self) -> Result<(), (usize, String)> {
        let form = &self.form;
        for (i, pod) in form.pod.iter().enumerate() {
            let (at, name) = (pod.name.span().start, pod.name.get_ref());
            if form.pod[..i].iter().any(|other| other.name.get_ref() == name) {
                return Err((at, format!("there are two pods called {name}")));
            }
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                return Err((at, format!("{name:?}: expected a pod's name in lower case")));
            }
            let (said, made) = (pod.class.get_ref(), pods::class(pod).name());
            if said != made {
                let what = "requests and limits make it";
                return Err((
                    pod.class.span().start,
                    format!("{name} is {said}, but {what} {made}"),
                ));
            }
        }
        for file in &form.file {
            if !file.path.get_ref().starts_with("/disk/") {
                return Err((file.path.span().start, "expected a path below /disk/".into()));
            }
        }
        let expect = &form.expect;
        for name in expect.act.iter().chain(&expect.may) {
            let pods = form.pod.iter().map(|pod| pod.name.get_ref());
            let mut known = pods.chain(form.service.iter().map(|service| service.name.get_ref()));
            if !known.any(|known| known == name.get_ref()) {
                let why = format!("no pod or service is called {}", name.get_ref());
                return Err((name.span().start, why));
            }
        }
        if expect.no_kill && !(expect.act.is_empty() && expect.may.is_empty()) {
            let why = "`no_kill` and victims contradict each other".into();
            return Err((
                expect.act.iter().chain(&expect.may).next().map_or(0, |n| n.span().start),
                why,
            ));
        }
        if !expect.judges_something() && form.skip.is_none() {
            return Err((0, "`expect` judges nothing: such a scenario cannot fail".into()));
        }
        Ok(())
    }

    /// Why it is not played on the kernels of `series`, if it is not.
    pub(crate) fn not_on(&self, series: &str) -> Option<&str> {
        let elsewhere = self.form.kernels.as_ref();
        let elsewhere = elsewhere.filter(|only| !only.only.iter().any(|s| s == series));
        self.form.skip.as_deref().or(elsewhere.map(|only| only.reason.as_str()))
    }

    /// True if `wanted` is its name, or its number: `s07`, `7`.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        let number = self.name.split('-').next().unwrap_or_default();
        let digits = number.trim_start_matches('s').trim_start_matches('0');
        self.name == wanted || number.eq_ignore_ascii_case(wanted) || {
            let wanted = wanted.trim_start_matches(['s', 'S']).trim_start_matches('0');
            !wanted.is_empty() && digits == wanted
        }
    }
}

impl Expect {
    fn judges_something(&self) -> bool {
        let kills = self.no_kill || !self.act.is_empty() || !self.may.is_empty();
        let counts = self.victims.is_some() || self.oom_kills.is_some() || self.recover.is_some();
        let said = self.no_condition || !self.conditions.is_empty() || !self.says.is_empty();
        kills || counts || said || self.agent_cpu.is_some() || self.limits_restored
    }
}

/// All scenarios below `dir`, by name.
pub(crate) fn read_all(dir: &Path) -> Result<Vec<Scenario>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let usual = dir.join(USUAL);
    let usual = fs::read_to_string(&usual).with_context(|| usual.display().to_string())?;
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file)?;
        let name = file.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let mut scenario =
            Scenario::parse(&name, &text).with_context(|| file.display().to_string())?;
        scenario.form.config.get_or_insert_with(|| usual.clone());
        Ok(scenario)
    };
    let all: Result<Vec<Scenario>> = files.iter().map(read).collect();
    let all = all?;
    if all.is_empty() {
        bail!("there are no scenarios below {}", dir.display());
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
