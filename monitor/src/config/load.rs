//! From files to settings: ours, the kubelet's that it names, and the defaults, in layers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use isobar_core::model::decision::{Order, StepKind};
use isobar_core::model::settings::{Enforcement, Ranking, Relief, Settings};
use isobar_core::model::units::Bytes;

use super::fields::Fields;
use super::found::{Found, Layers};
use super::keys::{API_VERSION, KIND, KUBELET, OURS, pattern};
use super::problem::{Invalid, Place, Problem, Problems};
use super::yaml::{self, Node};
use super::{eviction, node, pressure, print, workload};

/// A configuration: what it means, and how it would be written out in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// What it means.
    pub settings: Settings,
    /// Every key with the value that holds, as YAML that means the same.
    pub yaml: String,
}

/// Larger files are refused.
const LARGEST_FILE: u64 = 64 << 20;

/// Reads a configuration of ours, or the kubelet's own, and the file that it names.
///
/// # Errors
/// With everything that is wrong with it; also if it cannot be read.
pub fn load(path: &Path) -> Result<Settings, Invalid> {
    read(path).map(|effective| effective.settings)
}

/// Like [`load`], with the text that it comes to.
///
/// # Errors
/// As [`load`].
pub fn read(path: &Path) -> Result<Effective, Invalid> {
    effective(&contents(path)?, &path.display().to_string(), directory(path))
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// What holds without any file.
#[must_use]
pub fn defaults() -> Effective {
    let nothing = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    effective(nothing.as_bytes(), "", Path::new(""))
        .expect("the defaults are right, a test says so")
}

/// Like [`load`], of a text. `file` is what problems call it, `dir` where relative paths begin.
///
/// # Errors
/// As [`load`].
pub fn settings(text: &str, file: &str, dir: &Path) -> Result<Settings, Invalid> {
    effective(text.as_bytes(), file, dir).map(|effective| effective.settings)
}

/// Reads the kubelet's own configuration: its file, what its `/configz` answers, or fields without
/// a head. A file of ours is taken as well. Fields that are not used here are ignored.
///
/// # Errors
/// With everything that is wrong with the fields that are used.
pub fn kubelet(path: &Path) -> Result<Settings, Invalid> {
    let (bytes, name) = (contents(path)?, path.display().to_string());
    let effective = merged(&bytes, &name, directory(path), Headless::Kubelets);
    effective.map(|effective| effective.settings)
}

/// What a file without `apiVersion` and `kind` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Headless {
    /// No configuration.
    Nobodys,
    /// The kubelet's.
    Kubelets,
}

fn contents(path: &Path) -> Result<Vec<u8>, Invalid> {
    let failed = |message: String| {
        let problem = Problem { at: Place::START, path: String::new(), message };
        Invalid::one(&path.display().to_string(), problem)
    };
    let cannot = |error: io::Error| failed(format!("cannot read: {error}"));
    let mut bytes = Vec::new();
    // Not by the length that it claims: a device has none, and no end either.
    let file = File::open(path).map_err(cannot)?;
    let n = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if n as u64 > LARGEST_FILE {
        return Err(failed(format!("larger than {} MiB", LARGEST_FILE >> 20)));
    }
    Ok(bytes)
}

/// The only document of a file.
fn document(bytes: &[u8], file: &str) -> Result<Node, Invalid> {
    let one = |problem| Invalid::one(file, problem);
    let mut documents = yaml::parse(yaml::utf8(bytes).map_err(one)?).map_err(one)?;
    if let Some(second) = documents.get(1) {
        let message = "expected one document, this is the second".into();
        return Err(one(Problem { at: second.at, path: String::new(), message }));
    }
    Ok(documents.remove(0))
}

/// Reads `bytes` as [`load`] does.
///
/// # Errors
/// As [`load`].
pub fn effective(bytes: &[u8], file: &str, dir: &Path) -> Result<Effective, Invalid> {
    merged(bytes, file, dir, Headless::Nobodys)
}

fn merged(bytes: &[u8], file: &str, dir: &Path, headless: Headless) -> Result<Effective, Invalid> {
    let ours = document(bytes, file)?;
    let problems = Problems::default();
    let defaults = document(print::defaults().as_bytes(), "defaults")?;
    let no_problems = Problems::default();
    let Some(mut fields) = Fields::of(&ours, &problems) else {
        return Err(problems.unless_any(file, ()).expect_err("it is no mapping"));
    };
    let mut layers = Layers { files: Vec::new(), defaults: Found::default() };
    if let Some(mut fields) = Fields::of(&defaults, &no_problems) {
        layers.defaults.take(&mut fields, OURS, "");
        layers.defaults.take(&mut fields, KUBELET, "");
    }
    let mut found = Found::default();
    let has_head = fields.node("apiVersion").is_some() || fields.node("kind").is_some();
    if is_kubelets(&mut fields) || (!has_head && headless == Headless::Kubelets) {
        take_kubelets(&mut found, fields.lenient());
        layers.files.push(found);
        let made = make(&layers, None);
        return problems.unless_any(file, made);
    }
    for key in ["apiVersion", "kind"] {
        let _ = fields.required(key);
    }
    found.take(&mut fields, OURS, "");
    found.take(&mut fields, KUBELET, "");
    fields.finish();
    layers.files.push(found);
    let beside = |path: &str| {
        let name = layers.given(path)?.text()?;
        Some(dir.join(name))
    };
    let pods = beside("pods");
    let named = layers.given("kubeletConfig").cloned().zip(beside("kubeletConfig"));
    let Some((field, path)) = named else {
        let made = make(&layers, pods);
        return problems.unless_any(file, made);
    };
    // What is wrong with the other file stands in ours as well: at the key that names it.
    let tell = |problems: Vec<Problem>| {
        for problem in problems {
            field.problem(format!("{}:{problem}", path.display()));
        }
    };
    let name = path.display().to_string();
    let theirs = contents(&path).and_then(|bytes| document(&bytes, &name));
    let theirs = theirs.map_err(|invalid| tell(invalid.problems)).ok();
    let their_problems = Problems::default();
    let fields = theirs.as_ref().and_then(|node| Fields::of(node, &their_problems));
    if let Some(mut fields) = fields {
        if is_kubelets(&mut fields) {
            let mut found = Found::default();
            take_kubelets(&mut found, fields.lenient());
            layers.files.push(found);
        } else {
            fields.problem("kind", "expected the kind KubeletConfiguration");
        }
    }
    let made = make(&layers, pods);
    tell(their_problems.take_sorted());
    problems.unless_any(file, made)
}

/// True for the kubelet's own file, and for what its `/configz` answers.
fn is_kubelets(fields: &mut Fields<'_>) -> bool {
    if fields.node("kubeletconfig").is_some() {
        return true;
    }
    let text = |node: Option<&Node>| match node.map(|node| &node.value) {
        Some(yaml::Value::Scalar(scalar)) => scalar.text.clone(),
        _ => String::new(),
    };
    let version = text(fields.node("apiVersion"));
    text(fields.node("kind")) == "KubeletConfiguration"
        && version.starts_with("kubelet.config.k8s.io/")
}

fn take_kubelets<'a>(found: &mut Found<'a>, mut fields: Fields<'a>) {
    match fields.field("kubeletconfig") {
        Some(inner) => {
            if let Some(mut inner) = inner.map() {
                found.take(&mut inner, KUBELET, "");
                inner.finish();
            }
        }
        None => found.take(&mut fields, KUBELET, ""),
    }
    fields.finish();
}

fn make(layers: &Layers<'_>, pods: Option<PathBuf>) -> Effective {
    let mut node = node::settings(layers);
    node.pods_file = pods.map(|path| path.display().to_string()).unwrap_or_default();
    let settings = Settings {
        generation: 0,
        eviction: eviction::settings(layers, node.enforce.contains(&Enforcement::Pods)),
        conditions: pressure::conditions(layers),
        ranking: ranking(layers),
        relief: relief(layers),
        node,
        workloads: workload::rules(layers),
    };
    let yaml = print::effective(layers, &settings);
    Effective { settings, yaml }
}

fn ranking(layers: &Layers<'_>) -> Ranking {
    Ranking {
        order: match layers.text("ranking.order") {
            "kubelet" => Order::Kubelet,
            _ => Order::Qos,
        },
        opt_out_label: layers.text("ranking.optOutLabel").into(),
        group_below: Bytes(layers.quantity("ranking.groupBelow").to_u64()),
    }
}

/// Each step, by its name in configurations.
const STEPS: [(&str, StepKind); 6] = [
    ("reclaim", StepKind::Reclaim),
    ("squeeze", StepKind::Squeeze),
    ("evict", StepKind::Evict),
    ("stopContainers", StepKind::StopContainers),
    ("killContainers", StepKind::KillContainers),
    ("releaseMemory", StepKind::ReleaseMemory),
];

fn relief(layers: &Layers<'_>) -> Relief {
    let named = |path| {
        let items = layers.list(path).into_iter();
        items.filter_map(|item| Some((item.one_of(&STEPS)?, item))).collect::<Vec<_>>()
    };
    let steps: BTreeMap<StepKind, _> = named("relief.steps").into_iter().collect();
    let enforce = named("relief.enforce");
    for (step, item) in &enforce {
        if !steps.contains_key(step) {
            item.problem("this step is not among relief.steps, so it is never taken");
        }
    }
    let deadline = |(name, step): (&str, StepKind)| {
        let path = format!("relief.deadlines.{name}");
        let time = layers.time(&path);
        if let (0, Some(field)) = (time.0, layers.given(&path)) {
            field.problem("expected a length of time of more than 0s");
        }
        (step, time)
    };
    Relief {
        enforce: enforce.into_iter().map(|(step, _)| step).collect(),
        steps: steps.into_keys().collect(),
        deadlines: STEPS.into_iter().map(deadline).collect(),
        budget: layers.number("relief.budget"),
        budget_window: layers.time("relief.budgetWindow"),
        cool_down: layers.time("relief.coolDown"),
        harm_budget: layers.time("relief.harmBudget"),
        never_touch: layers.list("relief.neverTouch").iter().filter_map(pattern).collect(),
    }
}
