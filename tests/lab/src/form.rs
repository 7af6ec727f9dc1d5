//! A scenario's file: what a node or a kernel is made to do, and what must come of it.
//! The words are explained in tests/lab/README.md.

mod check;
pub(crate) mod expect;
pub(crate) mod figure;
pub(crate) mod group;
mod kernels;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use isobar_core::model::settings::CgroupDriver;
use serde::Deserialize;

use crate::amount::{Cpu, Memory, Seconds};
use crate::machine::Series;
use crate::shell::root;
use expect::Expect;
use group::{Api, Cgroup, Churn, Load, Order, Pod, Prepared, Service, Swap};
use kernels::{Kernels, NeverOn};

/// The configuration for scenarios with pods that have none of their own.
const USUAL: &str = "usual.yaml";

/// One scenario, or one variant of it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The file's name, with the values of a variant: `throttled-beside-contended/threads=10`.
    pub name: String,
    /// The first sentence of its comment.
    pub why: String,
    pub(crate) form: Form,
    /// The file, in which claims are quoted.
    pub(crate) text: String,
}

/// What the file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// How long is measured.
    pub(crate) seconds: Seconds,
    /// How long nothing happens before the loads start, for the probe's own jitter: 3s with pods,
    /// else not at all.
    idle: Option<Seconds>,
    /// How long the loads run before the measured time: not at all with pods, else 3s.
    settle: Option<Seconds>,
    /// On which kernels `cargo xtask test` plays it.
    #[serde(default)]
    kernels: Kernels,
    /// `cargo xtask test` plays it with `--all` alone.
    #[serde(default)]
    nightly: bool,
    never_on: Option<NeverOn>,
    /// Why it cannot be played at all.
    skip: Option<String>,
    /// See [`Template`].
    #[serde(default, rename = "each")]
    _each: BTreeMap<String, Vec<toml::Value>>,
    /// More of the kernel's command line, which takes a boot of its own.
    #[serde(default)]
    pub(crate) boot: String,
    /// `zram 900MiB` or `disk 1GiB`.
    pub(crate) swap: Option<Swap>,
    /// Files on the disk, which is mounted at /disk.
    #[serde(default)]
    pub(crate) file: Vec<Prepared>,
    /// `isobar run --mode`; as configured without it.
    pub(crate) mode: Option<Mode>,
    /// `isobar run --probes`.
    #[serde(default = "all")]
    pub(crate) probes: String,
    /// A `MonitorConfiguration`; that of usual.yaml without it, if there are pods.
    pub(crate) config: Option<String>,
    /// The pods that the agent is told of where there is no [[pod]], as manifests.
    pub(crate) manifests: Option<String>,
    /// The agent records; the recording must replay to the same bytes on the host.
    #[serde(default)]
    pub(crate) record: bool,
    /// The agent has the capabilities that these components of deploy/kustomize list, and no other.
    #[serde(default)]
    pub(crate) components: Vec<String>,
    /// `resources.limits.cpu` of the agent: `cpu.max` of its cgroup.
    pub(crate) agent_limit: Option<Cpu>,
    /// More of the agent's environment.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// How the kubelet of a node with pods names their cgroups.
    #[serde(default = "systemd")]
    pub(crate) driver: CgroupDriver,
    /// `memory.max` of the cgroup of all pods; what the node has, less 100 MiB, without it.
    pub(crate) kubepods: Option<Memory>,
    #[serde(default)]
    pub(crate) cgroup: Vec<Cgroup>,
    #[serde(default)]
    pub(crate) pod: Vec<Pod>,
    #[serde(default)]
    pub(crate) service: Vec<Service>,
    pub(crate) churn: Option<Churn>,
    /// An API server, which tells the agent of the pods.
    pub(crate) api: Option<Api>,
    /// What is done to the agent, and when.
    #[serde(default)]
    pub(crate) agent: Vec<Order>,
    pub(crate) expect: Expect,
}

/// What is read of a file before its variants are made: one for each combination of values, where
/// `{name}` stands for the value, and `"{name}"` for a number.
#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    each: BTreeMap<String, Vec<toml::Value>>,
}

/// Whether the agent acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Observe,
    Enforce,
}

fn systemd() -> CgroupDriver {
    CgroupDriver::Systemd
}

fn all() -> String {
    "all".into()
}

impl Form {
    /// True if it is about a node as the kubelet makes it, with a bystander; else about cgroups.
    pub(crate) fn has_node(&self) -> bool {
        !self.pod.is_empty() || !self.service.is_empty()
    }

    pub(crate) fn idle(&self) -> f64 {
        self.idle.map_or(if self.has_node() { 3.0 } else { 0.0 }, |idle| idle.0)
    }

    pub(crate) fn settle(&self) -> f64 {
        self.settle.map_or(if self.has_node() { 0.0 } else { 3.0 }, |settle| settle.0)
    }

    /// True if the agent of the scenario before will do: that is how it will live.
    pub(crate) fn shares_agent(&self) -> bool {
        let is_plain = self.config.is_none() && self.manifests.is_none() && self.mode.is_none();
        let is_watched = self.record || self.expect.alerts.is_some();
        is_plain
            && !is_watched
            && !self.has_node()
            && self.environment.is_empty()
            && self.components.is_empty()
    }

    /// All loads, whatever they run in.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &Load> {
        let pods = self.pod.iter().flat_map(|pod| &pod.load);
        let services = self.service.iter().flat_map(|service| &service.load);
        pods.chain(services).chain(self.cgroup.iter().flat_map(|cgroup| &cgroup.load))
    }
}

impl Scenario {
    /// The variants of one file; one, if it has no `each`.
    fn variants(name: &str, text: &str) -> Result<Vec<Self>> {
        let why = text.lines().next().and_then(|line| line.strip_prefix("# "));
        why.context("line 1: expected a comment that says why there is this scenario")?;
        let Template { each } = toml::from_str(text)?;
        let mut variants = vec![(name.to_owned(), text.to_owned())];
        for (key, values) in &each {
            let of = |(name, text): &(String, String)| {
                let (name, text) = (name.clone(), text.clone());
                values.iter().map(move |value| {
                    let (word, text) = match value.as_str() {
                        Some(word) => (word.to_owned(), text.clone()),
                        // A number is a number also where the form wants one.
                        None => {
                            let word = value.to_string();
                            (word.clone(), text.replace(&format!("\"{{{key}}}\""), &word))
                        }
                    };
                    (format!("{name}/{key}={word}"), text.replace(&format!("{{{key}}}"), &word))
                })
            };
            variants = variants.iter().flat_map(of).collect();
        }
        variants.into_iter().map(|(name, text)| Self::parse(name, text)).collect()
    }

    pub(crate) fn parse(name: String, text: String) -> Result<Self> {
        let form: Form = toml::from_str(&text)?;
        let scenario = Self { name, why: why(&text), form, text };
        scenario.check().map_err(|(at, why)| {
            let line = scenario.line(at);
            anyhow::anyhow!("line {line}: {why}")
        })?;
        Ok(scenario)
    }

    fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// Why it is not played on the kernels of `series`, if it is not.
    pub fn not_on(&self, series: Series) -> Option<&str> {
        let never = self.form.never_on.as_ref().filter(|never| never.kernels.contains(&series));
        self.form.skip.as_deref().or(never.map(|never| never.reason.as_str()))
    }

    /// True if `cargo xtask test` without `--all` plays it on that kernel.
    pub fn is_ordinary_on(&self, series: Series) -> bool {
        self.form.kernels.has(series) && !self.form.nightly
    }

    /// True if it overloads a node with pods, whose users' waiting is measured in milliseconds.
    pub fn is_overload(&self) -> bool {
        self.form.has_node()
    }

    /// True if `wanted` is its name, that of all variants of its file, or its number: `s07`, `7`.
    pub fn is(&self, wanted: &str) -> bool {
        let file = self.name.split('/').next().unwrap_or_default();
        let number = self.name.split('-').next().unwrap_or_default();
        let digits = |word: &str| {
            let word = word.trim_start_matches(['s', 'S']).trim_start_matches('0').to_owned();
            word.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
        };
        self.name == wanted
            || file == wanted
            || number.eq_ignore_ascii_case(wanted)
            || digits(wanted).is_some_and(|wanted| digits(number) == Some(wanted))
    }
}

/// The first sentence of the comment that a file begins with.
fn why(text: &str) -> String {
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let comment = comment.join(" ");
    comment.split_once(". ").map_or(comment.trim_end_matches('.'), |(first, _)| first).into()
}

/// The repository's scenarios.
///
/// # Errors
/// A file cannot be read, or holds a mistake: the error names file and line.
pub fn scenarios() -> Result<Vec<Scenario>> {
    read_all(&root().join("tests/lab/scenarios"))
}

/// All scenarios below `dir`, by name.
pub(crate) fn read_all(dir: &Path) -> Result<Vec<Scenario>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let usual = dir.join(USUAL);
    let usual = fs::read_to_string(&usual).with_context(|| usual.display().to_string())?;
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let name = file.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        all.extend(Scenario::variants(&name, &text).with_context(|| file.display().to_string())?);
    }
    for form in all.iter_mut().map(|one| &mut one.form).filter(|form| form.has_node()) {
        form.config.get_or_insert_with(|| usual.clone());
    }
    if all.is_empty() {
        bail!("there are no scenarios below {}", dir.display());
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
