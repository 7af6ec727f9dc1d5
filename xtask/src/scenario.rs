//! Scenarios: what a guest is made to do, and what isobar must say about it.
//! One small file each, tests/scenarios/NAME.toml; docs are in that directory's README.

pub(crate) mod expect;
pub(crate) mod judge;
mod path;
pub(crate) mod quantity;
pub(crate) mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Deserialize;
use toml::Spanned;

use expect::Expectation;

/// One scenario, or one variant of it.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The file's name, with the values of a variant: `beside/threads=10`.
    pub(crate) name: String,
    pub(crate) form: Form,
    pub(crate) expect: Vec<Expected>,
}

/// One line of `expect`, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) meaning: Expectation,
}

/// A scenario's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// How long is measured.
    pub(crate) seconds: f64,
    /// How long the loads run before that.
    #[serde(default = "three")]
    pub(crate) settle: f64,
    /// `isobar run --probes`.
    #[serde(default = "all")]
    pub(crate) probes: String,
    /// More of the kernel's command line, which takes a boot of its own.
    #[serde(default)]
    pub(crate) boot: String,
    /// `zram 512M`: swap in compressed memory, of this size.
    pub(crate) swap: Option<String>,
    /// A file system on a disk for the loads, mounted here.
    pub(crate) disk: Option<String>,
    /// A `MonitorConfiguration` for the agent, which is then started for this scenario alone.
    pub(crate) config: Option<String>,
    /// `isobar run --mode`; as configured without it.
    pub(crate) mode: Option<String>,
    /// The pods of the node, as manifests; nobody tells the agent without them.
    pub(crate) pods: Option<String>,
    /// Has the agent record; the recording must replay to the same bytes on the host.
    #[serde(default)]
    pub(crate) record: bool,
    /// On which kernels; on all without it.
    pub(crate) kernels: Option<Only>,
    /// Makes a variant for each combination of values; `{name}` stands for the value.
    #[serde(default)]
    each: BTreeMap<String, Vec<toml::Value>>,
    /// Made in this order, removed in the other.
    #[serde(default)]
    pub(crate) cgroup: Vec<Group>,
    #[serde(default)]
    pub(crate) load: Vec<Work>,
    expect: Vec<Spanned<String>>,
}

/// Which kernels a scenario is for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Only {
    /// Series, as `--kernel` has them.
    pub(crate) only: Vec<String>,
    /// Why not on the others.
    pub(crate) reason: String,
}

/// A cgroup of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// Below the mount, with a leading `/`.
    pub(crate) path: String,
    /// What is written to its files.
    #[serde(default)]
    pub(crate) write: BTreeMap<String, String>,
}

/// A load of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    /// Which cgroup it runs in.
    pub(crate) cgroup: String,
    /// The arguments of `xtask load`.
    pub(crate) run: String,
    /// Starts only so many seconds after the others.
    #[serde(default)]
    pub(crate) after: f64,
    /// Ends early, as a process does that is killed for want of memory.
    #[serde(default)]
    pub(crate) ends: bool,
}

fn three() -> f64 {
    3.0
}

fn all() -> String {
    "all".into()
}

impl Scenario {
    /// True if every line of `expect` is about the two snapshots alone.
    pub(crate) fn needs_watching(&self) -> bool {
        self.expect.iter().any(|e| e.meaning.needs_watching())
    }

    /// Why this scenario is not for the kernels of `series`, if it is not.
    pub(crate) fn not_on(&self, series: &str) -> Option<&str> {
        let only = self.form.kernels.as_ref()?;
        (!only.only.iter().any(|s| s == series)).then_some(only.reason.as_str())
    }

    /// True if `wanted` names this scenario, or all variants of its file.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        self.name == wanted || self.name.split('/').next() == Some(wanted)
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
    let mut scenarios = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let name = file.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        scenarios.extend(parse(&name, &text).with_context(|| file.display().to_string())?);
    }
    Ok(scenarios)
}

/// The variants of one file; one, if it has no `each`.
fn parse(name: &str, text: &str) -> Result<Vec<Scenario>> {
    if !text.starts_with("# ") {
        bail!("line 1: expected a comment that says why there is this scenario");
    }
    let form: Form = toml::from_str(text)?;
    let mut variants = vec![(name.to_owned(), text.to_owned())];
    for (key, values) in &form.each {
        let of = |(name, text): &(String, String)| {
            let (name, text) = (name.clone(), text.clone());
            values.iter().map(move |value| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (format!("{name}/{key}={value}"), text.replace(&format!("{{{key}}}"), &value))
            })
        };
        variants = variants.iter().flat_map(of).collect();
    }
    variants.into_iter().map(|(name, text)| variant(name, &text)).collect()
}

fn variant(name: String, text: &str) -> Result<Scenario> {
    let form: Form = toml::from_str(text)?;
    let line_at = |at: usize| text[..at].matches('\n').count() + 1;
    let mut expect = Vec::new();
    for item in &form.expect {
        let line = line_at(item.span().start);
        let text = item.get_ref().clone();
        let meaning = Expectation::parse(&text).map_err(|why| anyhow!("line {line}: {why}"))?;
        expect.push(Expected { line, text, meaning });
    }
    if expect.is_empty() {
        bail!("`expect` is empty: such a scenario cannot fail");
    }
    let known = |path: &str| form.cgroup.iter().any(|group| group.path == path);
    if let Some(work) = form.load.iter().find(|work| !known(&work.cgroup)) {
        bail!("load {:?} runs in {}, which is no [[cgroup]] here", work.run, work.cgroup);
    }
    Ok(Scenario { name, form, expect })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"# Why.
seconds = 2
each = { n = [0, 10], cpu = ["a"] }
expect = [
    "wall > 1s",
    "diff cgroup:/a .cpu.wait.total < {n}ms",
]
[[cgroup]]
path = "/a"
write = { "cpu.max" = "20000 100000" }
[[load]]
cgroup = "/a"
run = "spin --threads {n}"
"#;

    #[test]
    fn every_scenario_of_the_repository_can_be_read() {
        let all = read_all(&crate::shell::root().join("tests/scenarios")).unwrap();
        assert!(all.len() > 10, "{} scenarios", all.len());
    }

    #[test]
    fn a_variant_is_made_for_each_combination() {
        let variants = parse("x", WHOLE).unwrap();
        let names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["x/cpu=a/n=0", "x/cpu=a/n=10"]);
        assert_eq!(variants[1].form.load[0].run, "spin --threads 10");
        assert_eq!(variants[1].expect[1].line, 6);
        assert!(variants[0].is("x") && variants[0].is("x/cpu=a/n=0") && !variants[0].is("y"));
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        #[rustfmt::skip]
        let table = [
            ("# Why.",        "Why.",          "line 1: expected a comment"),
            ("wall > 1s",     "wall > 1",      "line 5: the left side is a time"),
            ("wall > 1s",     "wall 1s",       "line 5: expected one of"),
            ("< {n}ms",       "<",             "line 6: expected a value"),
            ("< {n}ms",       "< {n}ms ms",    "line 6: \"ms\" is too much"),
            ("cgroup:/a",     "cgroup:a",      "line 6: expected node or cgroup:/PATH"),
            ("cgroup = \"/a", "cgroup = \"/b", "which is no [[cgroup]] here"),
            ("seconds = 2",   "second = 2",    "line 2"),
        ];
        for (from, to, want) in table {
            let why = parse("x", &WHOLE.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(why.contains(want), "{to:?}: {why}");
        }
    }
}
