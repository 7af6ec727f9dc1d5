//! From files to settings: isobar's own file, the kubelet's file that it names, and the defaults,
//! in layers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use isobar_core::model::decision::{Order, StepKind};
use isobar_core::model::settings::{Deletion, Enforcement, Ranking, Relief, Settings};
use isobar_core::model::units::Bytes;

use super::fields::Fields;
use super::keys::{API_VERSION, ISOBAR, KIND, KUBELET, pattern};
use super::kubernetes::{self, Publish};
use super::layers::{Layer, Layers};
use super::problem::{Invalid, Problem, Problems};
use super::yaml::{self, Node};
use super::{eviction, node, pressure, print, workload};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub settings: Settings,
    pub publish: Publish,
    /// Every key with its effective value, as YAML that means the same.
    pub yaml: String,
}

/// The only version of the kubelet's configuration.
const KUBELET_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// Larger configurations are refused.
const LARGEST_FILE: u64 = 64 << 20;

/// Reads a `MonitorConfiguration` with the kubelet's file that it names, or the kubelet's file
/// alone.
pub fn load(path: &Path) -> Result<Settings, Invalid> {
    read(path).map(|effective| effective.settings)
}

/// Like [`load`], with the effective configuration as text.
pub fn read(path: &Path) -> Result<Effective, Invalid> {
    effective(&contents(path)?, &path.display().to_string(), directory(path))
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The configuration of a node without any file.
pub fn defaults() -> Effective {
    let nothing = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    effective(nothing.as_bytes(), "", Path::new("")).expect("a test reads the defaults")
}

/// Like [`load`], of a text. `file` is its name in problems, `dir` is where relative paths begin.
pub fn settings(text: &str, file: &str, dir: &Path) -> Result<Settings, Invalid> {
    effective(text.as_bytes(), file, dir).map(|effective| effective.settings)
}

/// Reads the kubelet's configuration: its file, an answer of its `/configz`, or fields without
/// `apiVersion` and `kind`. A `MonitorConfiguration` is accepted as well. Fields that isobar does
/// not use are ignored.
pub fn kubelet(path: &Path) -> Result<Settings, Invalid> {
    let (bytes, name) = (contents(path)?, path.display().to_string());
    merged(&bytes, &name, directory(path), Headless::Kubelet).map(|effective| effective.settings)
}

/// Like [`kubelet`], of an answer of its `/configz`.
pub fn kubelet_of(answer: &str) -> Result<Settings, Invalid> {
    let (bytes, dir) = (answer.as_bytes(), Path::new(""));
    merged(bytes, "/configz", dir, Headless::Kubelet).map(|effective| effective.settings)
}

/// Like [`load`], of bytes.
pub fn effective(bytes: &[u8], file: &str, dir: &Path) -> Result<Effective, Invalid> {
    merged(bytes, file, dir, Headless::Refused)
}

/// What a file without `apiVersion` and `kind` is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Headless {
    Refused,
    Kubelet,
}

/// Everything that `from` gives, up to `most` bytes; more is an error.
pub fn read_bounded(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Not by the length that a file claims: a device has none, and no end either.
    let n = from.take(most + 1).read_to_end(&mut bytes)?;
    if n as u64 > most {
        return Err(io::Error::other(format!("larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

fn contents(path: &Path) -> Result<Vec<u8>, Invalid> {
    File::open(path).and_then(|file| read_bounded(file, LARGEST_FILE)).map_err(|error| {
        let message = format!("cannot read: {error}");
        let problem = Problem { at: None, path: String::new(), message };
        Invalid::one(&path.display().to_string(), problem)
    })
}

/// The only document of a file.
fn document(bytes: &[u8], file: &str) -> Result<Node, Invalid> {
    let mut documents = yaml::documents(file, bytes)?;
    if let Some(second) = documents.get(1) {
        let message = "expected one document, this is the second";
        return Err(Invalid::one(file, Problem::at(second.at, message)));
    }
    Ok(documents.remove(0))
}

fn merged(bytes: &[u8], file: &str, dir: &Path, headless: Headless) -> Result<Effective, Invalid> {
    let root = document(bytes, file)?;
    let defaults = document(print::defaults().as_bytes(), "defaults")?;
    let (problems, of_defaults, of_kubelet) =
        (Problems::default(), Problems::default(), Problems::default());
    let mut layers = Layers::default();
    if let Some(mut fields) = Fields::of(&defaults, &of_defaults) {
        layers.defaults.take(&mut fields, ISOBAR, "");
        layers.defaults.take(&mut fields, KUBELET, "");
    }
    let Some(mut fields) = Fields::of(&root, &problems) else {
        return Err(problems.unless_any(file, ()).expect_err("it is not a mapping"));
    };
    let has_head = fields.raw("apiVersion").is_some() || fields.raw("kind").is_some();
    let is_headless = !has_head && headless == Headless::Kubelet;
    if headless == Headless::Kubelet
        && let Some(why) = no_kubelet(&mut fields, has_head)
    {
        drop(fields);
        return Err(Invalid::one(file, Problem::at(root.at, why)));
    }
    if is_kubelet(&mut fields) || is_headless {
        layers.files.push(kubelet_layer(fields));
        let effective = make(&layers, None);
        return problems.unless_any(file, effective);
    }
    for key in ["apiVersion", "kind"] {
        fields.required(key);
    }
    let mut own = Layer::default();
    own.take(&mut fields, ISOBAR, "");
    own.take(&mut fields, KUBELET, "");
    drop(fields);
    layers.files.push(own);
    let beside = |path: &str| Some(dir.join(layers.given(path)?.text()?));
    let pods = beside("pods");
    let named = layers.given("kubeletConfig").cloned().zip(beside("kubeletConfig"));
    let Some((field, path)) = named else {
        let effective = make(&layers, pods);
        return problems.unless_any(file, effective);
    };
    // Problems of the kubelet's file are reported at the key that names it.
    let report = |problems: Vec<Problem>| {
        for problem in problems {
            let of_file = Invalid::one(&path.display().to_string(), problem);
            field.problem(of_file.to_string());
        }
    };
    let root = contents(&path).and_then(|bytes| document(&bytes, &path.display().to_string()));
    let root = root.map_err(|invalid| report(invalid.problems)).ok();
    let fields = root.as_ref().and_then(|node| Fields::of(node, &of_kubelet));
    if let Some(mut fields) = fields.map(Fields::lenient) {
        if is_kubelet(&mut fields) {
            layers.files.push(kubelet_layer(fields));
        } else {
            let what =
                format!("expected kind KubeletConfiguration of apiVersion {KUBELET_VERSION}");
            fields.problem("kind", what);
        }
    }
    let effective = make(&layers, pods);
    report(of_kubelet.take_sorted());
    problems.unless_any(file, effective)
}

/// True for the kubelet's own file, and for an answer of its `/configz`. Of its API group this
/// version alone has the kind.
fn is_kubelet(fields: &mut Fields<'_>) -> bool {
    fields.raw("kubeletconfig").is_some()
        || fields.raw("kind") == Some("KubeletConfiguration")
            && fields.raw("apiVersion") == Some(KUBELET_VERSION)
}

/// Why a file cannot be a kubelet's: a node without any reservation would follow from it.
fn no_kubelet(fields: &mut Fields<'_>, has_head: bool) -> Option<String> {
    if fields.raw("kubeletArguments").is_some() {
        return Some(
            "kubeletArguments are flags of OpenShift's node configuration; give the \
             KubeletConfiguration of the node, or what its /configz answers"
                .into(),
        );
    }
    let is_own = fields.raw("kind") == Some(KIND);
    if is_kubelet(fields) || is_own {
        return None;
    }
    if has_head {
        return Some(format!(
            "expected kind KubeletConfiguration of apiVersion {KUBELET_VERSION}, or kind {KIND}"
        ));
    }
    let has_any = KUBELET.iter().any(|key| fields.raw(key.name).is_some());
    (!has_any).then(|| {
        format!(
            "no field of a KubeletConfiguration ({KUBELET_VERSION}) is in it; the kubelet's file is \
             mostly /var/lib/kubelet/config.yaml"
        )
    })
}

fn kubelet_layer<'a>(fields: Fields<'a>) -> Layer<'a> {
    let mut fields = fields.lenient();
    let mut layer = Layer::default();
    match fields.field("kubeletconfig") {
        Some(inner) => {
            if let Some(mut inner) = inner.map() {
                layer.take(&mut inner, KUBELET, "");
            }
        }
        None => layer.take(&mut fields, KUBELET, ""),
    }
    layer
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
    Effective { settings, publish: kubernetes::publish(layers), yaml }
}

fn ranking(layers: &Layers<'_>) -> Ranking {
    Ranking {
        order: match layers.text("ranking.order") {
            "kubelet" => Order::Kubelet,
            "qos" => Order::Qos,
            _ => Order::Cause,
        },
        opt_out_label: layers.text("ranking.optOutLabel").into(),
        group_below: Bytes(layers.quantity("ranking.groupBelow").to_u64()),
    }
}

fn relief(layers: &Layers<'_>) -> Relief {
    let steps_by_name = StepKind::ALL.map(|step| (step.name(), step));
    let steps: BTreeMap<StepKind, _> =
        layers.words("relief.steps", &steps_by_name).into_iter().collect();
    let enforce = layers.words("relief.enforce", &steps_by_name);
    for (step, item) in &enforce {
        if !steps.contains_key(step) {
            item.problem("this step is not in relief.steps, so it is never taken");
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
        deadlines: steps_by_name.into_iter().map(deadline).collect(),
        budget: layers.number("relief.budget"),
        budget_window: layers.time("relief.budgetWindow"),
        cool_down: layers.time("relief.coolDown"),
        harm_budget: layers.time("relief.harmBudget"),
        deletion: match layers.text("relief.deletePods") {
            "noEviction" => Deletion::NoEviction,
            "overBudgets" => Deletion::OverBudgets,
            _ => Deletion::Never,
        },
        never_touch: layers.list("relief.neverTouch").iter().filter_map(pattern).collect(),
    }
}
