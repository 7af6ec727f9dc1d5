//! A scenario: pods as somebody describes them, what is short, and by which keys to rank.
//! In: YAML or JSON. Out: a [`Scenario`], or all that is wrong with the file.

use std::collections::BTreeMap;

use jiff::fmt::temporal::DateTimeParser;

use crate::config::yaml::{Node, Value};
use crate::config::{API_VERSION, Field, Fields, Invalid, Problems, yaml};
use isobar_core::model::decision::{Order, SparedReason};
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings;
use isobar_core::model::threshold::Resource;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::{Owner, Pod};
use isobar_core::policy::rank::{Contender, Harm, Purpose};

/// What a file asks.
#[derive(Debug)]
pub struct Scenario {
    /// What is short; `None` if the file does not say.
    pub purpose: Option<Purpose>,
    /// By which keys; `None` if the file does not say.
    pub order: Option<Order>,
    pods: Vec<Described>,
}

/// One pod of a file.
#[derive(Debug)]
struct Described {
    pod: Pod,
    class: QosClass,
    request: ResourceList,
    usage: Option<ResourceList>,
    harm: Option<Harm>,
    /// It is said to be one of these, whatever its annotations.
    spared: Option<SparedReason>,
}

/// What a pod can be said to ask for; extended resources and huge pages are not looked at.
const REQUESTS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What a pod can be said to use.
const USES: [&str; 6] = ["cpu", "memory", "ephemeral-storage", "inodes", "pids", "io"];
/// Priorities that the API gives these classes. Source: Kubernetes `pkg/apis/scheduling/types.go`.
const CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Reads the text of `file`, which its problems are named after.
///
/// # Errors
/// With everything that is wrong with it.
pub fn parse(file: &str, text: &str) -> Result<Scenario, Invalid> {
    let documents = yaml::parse(text).map_err(|problem| Invalid::one(file, problem))?;
    let problems = Problems::default();
    if let [_, second, ..] = &documents[..] {
        problems.push(second.at, "", "expected one document, this is another");
    }
    let scenario = documents.first().and_then(|document| scenario(document, &problems));
    // Whatever gives no scenario is a problem that has been told.
    let empty = Scenario { purpose: None, order: None, pods: Vec::new() };
    problems.unless_any(file, scenario.unwrap_or(empty))
}

fn scenario(document: &Node, problems: &Problems) -> Option<Scenario> {
    let mut fields = Fields::of(document, problems)?;
    for (key, want) in [("apiVersion", API_VERSION), ("kind", "Scenario")] {
        if let Some(field) = fields.field(key) {
            // Tells what is wrong by itself.
            let _ = field.one_of(&[(want, ())]);
        }
    }
    let purpose = fields.field("signal").and_then(|field| {
        let name = field.scalar("a signal")?;
        let purpose = Purpose::named(name);
        if purpose.is_none() {
            let expected = signals();
            field.problem(format!("unsupported signal {name:?}, expected one of {expected}"));
        }
        purpose
    });
    let order = fields.field("order");
    let order =
        order.and_then(|field| field.one_of(&[("qos", Order::Qos), ("kubelet", Order::Kubelet)]));
    let pods = fields.required("pods").and_then(|field| field.list()).unwrap_or_default();
    let mut uids = BTreeMap::new();
    let pods = pods.iter().filter_map(|field| {
        let described = described(field)?;
        if let Some(first) = uids.insert(described.pod.uid.clone(), field.at()) {
            let uid = &described.pod.uid;
            field.problem(format!("the uid {uid:?} is that of the pod at {first}, too"));
        }
        Some(described)
    });
    let pods = pods.collect();
    fields.finish();
    Some(Scenario { purpose, order, pods })
}

/// Every signal's name, for messages.
#[must_use]
pub fn signals() -> String {
    Purpose::all().map(Purpose::name).collect::<Vec<_>>().join(", ")
}

fn described(field: &Field<'_>) -> Option<Described> {
    let mut fields = field.map()?;
    let name = fields.required("name").and_then(|field| word(&field, "a name"));
    let namespace = fields.field("namespace").and_then(|field| word(&field, "a namespace"));
    let uid = fields.field("uid").and_then(|field| word(&field, "a uid"));
    let qos = [
        ("Guaranteed", QosClass::Guaranteed),
        ("Burstable", QosClass::Burstable),
        ("BestEffort", QosClass::BestEffort),
    ];
    let class = fields.field("qosClass").and_then(|field| field.one_of(&qos));
    let request = fields.field("request").map(|field| amounts(&field, &REQUESTS, true));
    let request = request.unwrap_or_default();
    let usage = fields.field("usage").map(|field| amounts(&field, &USES, false));
    let harm = fields.field("harm").and_then(|field| harm(&field));
    let flags = [
        ("critical", SparedReason::Critical),
        ("static", SparedReason::Static),
        ("mirror", SparedReason::Mirror),
    ];
    let flags: Vec<_> = flags.map(|(key, why)| (fields.flag(key) == Some(true), why)).into();
    let spared = flags.into_iter().find(|(is_set, _)| *is_set).map(|(_, why)| why);
    let priority_class = fields.text("priorityClassName").unwrap_or_default();
    let priority = fields.number("priority").or_else(|| priority_of(priority_class));
    let pod = Pod {
        namespace: namespace.unwrap_or_default(),
        labels: fields.field("labels").map(|field| words(&field)).unwrap_or_default(),
        annotations: fields.field("annotations").map(|field| words(&field)).unwrap_or_default(),
        owner: fields.field("owner").and_then(|field| owner(&field)),
        started: fields.field("started").and_then(|field| started(&field)),
        priority,
        priority_class: priority_class.into(),
        ..Pod::default()
    };
    fields.finish();
    let name = name?;
    let uid = uid.unwrap_or_else(|| match pod.namespace.as_str() {
        "" => name.clone(),
        namespace => format!("{namespace}/{name}"),
    });
    let class = class.unwrap_or_else(|| class_of(&request));
    Some(Described { pod: Pod { name, uid, ..pod }, class, request, usage, harm, spared })
}

/// A name; one that looks like a number is a name all the same.
fn word(field: &Field<'_>, what: &str) -> Option<String> {
    let text = field.scalar(what)?;
    if text.is_empty() {
        field.problem(format!("expected {what}, found an empty text"));
        return None;
    }
    Some(text.into())
}

/// Labels and annotations: `true` is as good as `"true"` here.
fn words(field: &Field<'_>) -> BTreeMap<String, String> {
    let Some(mut map) = field.map() else { return BTreeMap::new() };
    let each = map.each().into_iter();
    let words = each.filter_map(|(key, field)| Some((key.into(), field.scalar("a text")?.into())));
    let words = words.collect();
    map.finish();
    words
}

/// Quantities by name, none of them negative, and no name that means nothing here: what is
/// misspelled must not count as 0.
fn amounts(field: &Field<'_>, known: &[&'static str], may_be_extended: bool) -> ResourceList {
    let Some(mut map) = field.map() else { return ResourceList::new() };
    let mut amounts = ResourceList::new();
    for &name in known {
        let Some(field) = map.field(name) else { continue };
        let Some(amount) = field.quantity() else { continue };
        if amount.is_negative() {
            field.problem(format!("expected 0 or more, found {amount}"));
        }
        amounts.insert(name.into(), amount);
    }
    if may_be_extended {
        let is_extended = |key: &str| key.contains('/') || key.starts_with("hugepages-");
        for (key, field) in map.each() {
            if is_extended(key) {
                // Nothing that is short is measured in it; it has to be a quantity all the same.
                let _ = field.quantity();
            } else {
                field.problem(format!("unknown resource, expected one of {}", known.join(", ")));
            }
        }
    }
    map.finish();
    amounts
}

/// Milliseconds a second that others wait, or that and its own.
fn harm(field: &Field<'_>) -> Option<Harm> {
    if !matches!(field.node().value, Value::Map(_)) {
        return Some(Harm { others: millis(field)?, own: Nanos(0) });
    }
    let mut fields = field.map()?;
    let others = fields.required("others").and_then(|field| millis(&field));
    let own = fields.field("self").map(|field| millis(&field));
    fields.finish();
    Some(Harm { others: others?, own: own.unwrap_or(Some(Nanos(0)))? })
}

fn millis(field: &Field<'_>) -> Option<Nanos> {
    let amount: Quantity = field.parse("milliseconds a second")?;
    // Billionths of a millisecond are millionths of a nanosecond.
    let time = u64::try_from(amount.nanos() / 1_000).ok();
    if time.is_none() {
        field.problem(format!("expected milliseconds a second, 0 or more, found {amount}"));
    }
    time.map(Nanos)
}

/// Who made the pod: a name, or `kind`, `name` and `uid` as the API has them.
fn owner(field: &Field<'_>) -> Option<Owner> {
    if !matches!(field.node().value, Value::Map(_)) {
        let name = word(field, "an owner")?;
        return Some(Owner { kind: "Owner".into(), name, uid: String::new() });
    }
    let mut fields = field.map()?;
    let kind = fields.text("kind").unwrap_or("Owner").into();
    let name = fields.field("name").and_then(|field| word(&field, "a name"));
    let uid = fields.field("uid").and_then(|field| word(&field, "a uid"));
    if name.is_none() && uid.is_none() {
        field.problem("expected a name, a uid, or both");
    }
    fields.finish();
    let uid = uid.unwrap_or_default();
    Some(Owner { kind, name: name.unwrap_or_else(|| uid.clone()), uid })
}

/// A moment as the API prints it, or seconds since 1970.
fn started(field: &Field<'_>) -> Option<i64> {
    const WHAT: &str = "a time such as 2026-01-31T12:00:00Z, or seconds since 1970";
    let text = field.scalar(WHAT)?;
    let moment = || Some(DateTimeParser::new().parse_timestamp(text).ok()?.as_second());
    let started = text.parse().ok().or_else(moment);
    if started.is_none() {
        field.problem(format!("expected {WHAT}, found {text:?}"));
    }
    started
}

/// What the API would have made of the class; others than its own two it would have to be asked.
fn priority_of(class: &str) -> Option<i32> {
    CLASSES.iter().find(|(name, _)| *name == class).map(|(_, priority)| *priority)
}

/// Without a class in the file: only CPU and memory make one, as the kubelet computes it. That a
/// pod is Guaranteed would take its limits to see.
fn class_of(request: &ResourceList) -> QosClass {
    let asks = |name: &str| request.get(name).is_some_and(|amount| !amount.is_zero());
    if asks("cpu") || asks("memory") { QosClass::Burstable } else { QosClass::BestEffort }
}

impl Scenario {
    /// Its pods, by what is short.
    ///
    /// A pod without `usage` has no statistics; one with it uses nothing of what it does not name,
    /// as in the kubelet's. Where one pod's harm is given, those without do none.
    #[must_use]
    pub fn contenders(&self, purpose: Purpose, rules: &settings::Ranking) -> Vec<Contender> {
        let (used, asked) = match purpose.resource() {
            Resource::Memory => ("memory", "memory"),
            Resource::Cpu => ("cpu", "cpu"),
            Resource::Storage => ("ephemeral-storage", "ephemeral-storage"),
            Resource::Inodes => ("inodes", "ephemeral-storage"),
            Resource::Pids => ("pids", ""),
            Resource::Io => ("io", ""),
        };
        let is_measured = self.pods.iter().any(|described| described.harm.is_some());
        let of = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
        let contender = |described: &Described| {
            let known = Contender::of(&described.pod, described.class, rules);
            Contender {
                request: Some(of(&described.request, asked)),
                usage: described.usage.as_ref().map(|usage| of(usage, used)),
                harm: is_measured.then(|| described.harm.unwrap_or_default()),
                preference: None,
                spared: known.spared.or(described.spared),
                ..known
            }
        };
        self.pods.iter().map(contender).collect()
    }
}
