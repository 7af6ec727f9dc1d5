//! From files to settings: isobar's own file, what the kubelet answers or else its file that isobar's
//! names, and the defaults, in layers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use isobar_core::model::decision::StepKind;
use isobar_core::model::settings::{Enforcement, Ranking, Relief, Settings};
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
    pub kubelet: KubeletSource,
    /// The file has `relief.enforce`, be it an empty list.
    pub names_steps: bool,
    /// Every key with its effective value, as YAML that means the same.
    pub yaml: String,
}

/// Where the kubelet's fields come from that isobar's own file does not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KubeletSource {
    /// Nothing told them: the defaults hold.
    #[default]
    Nowhere,
    /// The file that the operator named is not there, and the running kubelet has not answered yet: the
    /// defaults hold.
    Missing,
    /// The configuration file of the kubelet, which the operator named.
    File,
    /// What the running kubelet answers to `/configz`.
    Configz,
}

/// The only version of the kubelet's configuration.
const KUBELET_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// Larger configurations are refused.
const LARGEST_FILE: u64 = 64 << 20;
/// The name of the kubelet's answer in problems.
const CONFIGZ: &str = "the kubelet's /configz";
/// A kubelet leaves empty maps and lists out of its answer; in a file the same keys have defaults.
const LEFT_OUT: &[u8] = b"evictionHard: {}\nenforceNodeAllocatable: []\n";

/// Reads a `MonitorConfiguration` with the kubelet's file that it names, or the kubelet's file
/// alone.
pub fn load(path: &Path) -> Result<Settings, Invalid> {
    read(Some(path), None).map(|effective| effective.settings)
}

/// Like [`load`], with the effective configuration as text; the defaults without a file. `configz`
/// is what the kubelet answers: it holds where isobar's file sets nothing, in place of the kubelet's
/// file, in which neither its drop-ins nor its flags are.
pub fn read(path: Option<&Path>, configz: Option<&[u8]>) -> Result<Effective, Invalid> {
    match path {
        Some(path) => over(&contents(path)?, &path.display().to_string(), directory(path), configz),
        None => of_nothing(configz),
    }
}

/// Like [`read`], where the running kubelet may answer later: until it has, it is no mistake that the
/// file that is named is not there.
pub fn read_awaiting(path: Option<&Path>, configz: Option<&[u8]>) -> Result<Effective, Invalid> {
    let Some(path) = path else { return of_nothing(configz) };
    let told = configz.map_or(Told::Awaited, Told::Answer);
    let (bytes, name) = (contents(path)?, path.display().to_string());
    merged(&bytes, &name, directory(path), Headless::Refused, told)
}

fn of_nothing(configz: Option<&[u8]>) -> Result<Effective, Invalid> {
    let nothing = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    over(nothing.as_bytes(), "", Path::new(""), configz)
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The configuration of a node without any file.
pub fn defaults() -> Effective {
    read(None, None).expect("a test reads the defaults")
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
    merged(&bytes, &name, directory(path), Headless::Kubelet, Told::Nothing)
        .map(|effective| effective.settings)
}

/// Like [`kubelet`], of an answer of its `/configz`.
pub fn kubelet_of(answer: &str) -> Result<Settings, Invalid> {
    let (bytes, dir) = (answer.as_bytes(), Path::new(""));
    merged(bytes, CONFIGZ, dir, Headless::Kubelet, Told::Nothing)
        .map(|effective| effective.settings)
}

/// Like [`load`], of bytes.
pub fn effective(bytes: &[u8], file: &str, dir: &Path) -> Result<Effective, Invalid> {
    over(bytes, file, dir, None)
}

/// Like [`read`], of bytes.
pub fn over(
    bytes: &[u8],
    file: &str,
    dir: &Path,
    configz: Option<&[u8]>,
) -> Result<Effective, Invalid> {
    let told = configz.map_or(Told::Nothing, Told::Answer);
    merged(bytes, file, dir, Headless::Refused, told)
}

/// What the running kubelet has told of its configuration.
#[derive(Debug, Clone, Copy)]
enum Told<'a> {
    Nothing,
    /// Nothing yet.
    Awaited,
    Answer(&'a [u8]),
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

fn merged(
    bytes: &[u8],
    file: &str,
    dir: &Path,
    headless: Headless,
    told: Told<'_>,
) -> Result<Effective, Invalid> {
    let configz = match told {
        Told::Answer(answer) => Some(answer),
        Told::Nothing | Told::Awaited => None,
    };
    let root = document(bytes, file)?;
    let empty = document(LEFT_OUT, "defaults")?;
    let defaults = document(print::defaults().as_bytes(), "defaults")?;
    let (problems, of_defaults, of_kubelet) =
        (Problems::default(), Problems::default(), Problems::default());
    let mut layers = Layers::default();
    if let Some(mut fields) = Fields::of(&defaults, &of_defaults) {
        layers.defaults.take(&mut fields, ISOBAR, "");
        layers.defaults.take(&mut fields, KUBELET, "");
    }
    let left_out = || Fields::of(&empty, &of_defaults);
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
        if configz.is_some() {
            return of_nothing(configz);
        }
        layers.files = kubelet_layers(fields, left_out());
        // All is the kubelet's, so no value is marked as such.
        let effective = make(&layers, None, KubeletSource::Nowhere);
        let effective = Effective { kubelet: KubeletSource::File, ..effective };
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
    let named = named.filter(|_| configz.is_none());
    let is_awaited = |path: &Path| {
        matches!(told, Told::Awaited) && path.try_exists().is_ok_and(|is_there| !is_there)
    };
    let (name, bytes, source) = match (&named, configz) {
        (Some((_, path)), _) if is_awaited(path) => {
            let effective = make(&layers, pods, KubeletSource::Missing);
            return problems.unless_any(file, effective);
        }
        (Some((_, path)), _) => (path.display().to_string(), contents(path), KubeletSource::File),
        (None, Some(answer)) => (CONFIGZ.into(), Ok(answer.into()), KubeletSource::Configz),
        (None, None) => {
            let effective = make(&layers, pods, KubeletSource::Nowhere);
            return problems.unless_any(file, effective);
        }
    };
    let root = bytes.and_then(|bytes| document(&bytes, &name));
    let fields = root.as_ref().ok().and_then(|node| Fields::of(node, &of_kubelet));
    if let Some(mut fields) = fields.map(Fields::lenient) {
        if is_kubelet(&mut fields) {
            layers.files.extend(kubelet_layers(fields, left_out()));
        } else {
            let what =
                format!("expected kind KubeletConfiguration of apiVersion {KUBELET_VERSION}");
            fields.problem("kind", what);
        }
    }
    let effective = make(&layers, pods, source);
    let mut found = of_kubelet.take_sorted();
    found.extend(root.as_ref().err().into_iter().flat_map(|invalid| invalid.problems.clone()));
    match &named {
        // Problems of the kubelet's file are reported at the key that names it.
        Some((field, _)) => found
            .into_iter()
            .for_each(|problem| field.problem(Invalid::one(&name, problem).to_string())),
        None if found.is_empty() => {}
        None => return Err(Invalid { file: name, problems: found }),
    }
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
    (!has_any(fields)).then(|| {
        format!("{}; the kubelet's file is mostly /var/lib/kubelet/config.yaml", without_fields())
    })
}

fn has_any(fields: &mut Fields<'_>) -> bool {
    KUBELET.iter().any(|key| fields.raw(key.name).is_some())
}

fn without_fields() -> String {
    format!("no field of a KubeletConfiguration ({KUBELET_VERSION}) is in it")
}

/// What the kubelet's file or answer says, and in an answer what it left out because it is empty.
fn kubelet_layers<'a>(fields: Fields<'a>, left_out: Option<Fields<'a>>) -> Vec<Layer<'a>> {
    let mut fields = fields.lenient();
    let (mut layer, mut empty) = (Layer::default(), Layer::default());
    match fields.field("kubeletconfig") {
        Some(inner) => {
            if let Some(mut keys) = inner.map() {
                // A kubelet answers with some of these in any case.
                if !has_any(&mut keys) {
                    inner.problem(without_fields());
                }
                // The kubelet gives this one a value in any case: it has answered all that it has.
                let is_whole = keys.field("evictionPressureTransitionPeriod").is_some();
                if let Some(mut left_out) = left_out.filter(|_| is_whole) {
                    empty.take(&mut left_out, KUBELET, "");
                }
                layer.take(&mut keys, KUBELET, "");
            }
        }
        None if fields.raw("kubeletconfig").is_some() => {
            fields.problem("kubeletconfig", without_fields());
        }
        None => layer.take(&mut fields, KUBELET, ""),
    }
    vec![layer, empty]
}

fn make(layers: &Layers<'_>, pods: Option<PathBuf>, kubelet: KubeletSource) -> Effective {
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
    let yaml = print::effective(layers, &settings, kubelet);
    let names_steps = layers.given("relief.enforce").is_some();
    Effective { settings, publish: kubernetes::publish(layers), kubelet, names_steps, yaml }
}

fn ranking(layers: &Layers<'_>) -> Ranking {
    Ranking {
        order: layers.word("ranking.order"),
        opt_out_label: layers.text("ranking.optOutLabel").into(),
        group_below: Bytes(layers.quantity("ranking.groupBelow").to_u64()),
    }
}

fn relief(layers: &Layers<'_>) -> Relief {
    let steps: BTreeMap<StepKind, _> =
        layers.words("relief.steps", &StepKind::NAMED).into_iter().collect();
    let enforce = layers.words("relief.enforce", &StepKind::NAMED);
    for (step, item) in &enforce {
        if !steps.contains_key(step) {
            item.problem("this step is not in relief.steps, so it is never taken");
        }
    }
    let positive = |path: &str| {
        let time = layers.time(path);
        if let (0, Some(field)) = (time.0, layers.given(path)) {
            field.problem("expected a length of time of more than 0s");
        }
        time
    };
    let deadline =
        |(name, step): (&str, StepKind)| (step, positive(&format!("relief.deadlines.{name}")));
    Relief {
        enforce: enforce.into_iter().map(|(step, _)| step).collect(),
        steps: steps.into_keys().collect(),
        deadlines: StepKind::NAMED.into_iter().map(deadline).collect(),
        budget: layers.number("relief.budget"),
        // In a window of no length no victim would count.
        budget_window: positive("relief.budgetWindow"),
        cool_down: layers.time("relief.coolDown"),
        harm_budget: layers.time("relief.harmBudget"),
        deletion: layers.word("relief.deletePods"),
        never_touch: layers.list("relief.neverTouch").iter().filter_map(pattern).collect(),
    }
}
