//! A scenario for `isobar rank -f`: pods with their requests and usage, and what is short.
//! In: YAML or JSON, or pods as Kubernetes writes them. Out: a [`Scenario`], or everything that is
//! wrong with the file.

mod manifest;

use std::collections::BTreeMap;

use jiff::fmt::temporal::DateTimeParser;

use crate::config::yaml::{self, Node, Value};
use crate::config::{API_VERSION, Field, Fields, Invalid, Problems, json};
use isobar_core::model::decision::{Order, SparedReason};
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings;
use isobar_core::model::threshold::Resource;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::{Owner, Pod};
use isobar_core::policy::rank::{Contender, Harm, Purpose};

#[derive(Debug, Default)]
pub struct Scenario {
    /// What is short; `None` if the file does not say.
    pub purpose: Option<Purpose>,
    pub order: Option<Order>,
    /// What was ignored, and what the file cannot tell.
    pub notes: Vec<String>,
    /// Some note names a place in the file.
    has_places: bool,
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
    /// What it took of the memory that was lost, and what its end would give back.
    taken: Option<u64>,
    frees: Option<u64>,
    /// From the keys `critical`, `static` and `mirror`, whatever the annotations say.
    spared: Option<SparedReason>,
}

/// Extended resources and huge pages are accepted in `request` and not used.
const REQUESTS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const USES: [&str; 6] = ["cpu", "memory", "ephemeral-storage", "inodes", "pids", "io"];

/// Priorities that the API assigns to these classes. Source: Kubernetes
/// `pkg/apis/scheduling/types.go`.
const CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Reads the content of `file`.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Scenario, Invalid> {
    // Read again for the places, if anything is to be said of one.
    let unplaced = json::document(bytes).map(|document| of(file, &[document]));
    match unplaced {
        Some(Ok(scenario)) if !scenario.has_places => Ok(scenario),
        _ => of(file, &yaml::documents(file, bytes)?),
    }
}

fn of(file: &str, documents: &[Node]) -> Result<Scenario, Invalid> {
    if documents.first().is_some_and(manifest::is_manifest) {
        return manifest::read(file, documents);
    }
    let problems = Problems::default();
    if let [_, second, ..] = documents {
        problems.push(second.at, "", "expected one document, this is the second");
    }
    let scenario = documents.first().and_then(|document| scenario(document, &problems));
    // If there is no scenario, there is a problem.
    problems.unless_any(file, scenario.unwrap_or_default())
}

fn scenario(document: &Node, problems: &Problems) -> Option<Scenario> {
    let mut fields = Fields::of(document, problems)?;
    for (key, want) in [("apiVersion", API_VERSION), ("kind", "Scenario")] {
        // Reports any other value.
        let _ = fields.field(key).and_then(|field| field.one_of(&[(want, ())]));
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
    let orders = [("cause", Order::Cause), ("qos", Order::Qos), ("kubelet", Order::Kubelet)];
    let order = order.and_then(|field| field.one_of(&orders));
    let pods = fields.required("pods").and_then(|field| field.list()).unwrap_or_default();
    let mut uids = BTreeMap::new();
    let pods = pods.iter().filter_map(|field| {
        let described = described(field)?;
        if let Some(first) = uids.insert(described.pod.uid.clone(), field.at()) {
            let uid = &described.pod.uid;
            field.problem(format!("the pod at {first} has the same uid {uid:?}"));
        }
        Some(described)
    });
    Some(Scenario { purpose, order, pods: pods.collect(), ..Scenario::default() })
}

/// The names of all signals, for messages.
pub fn signals() -> String {
    Purpose::all().map(|purpose| purpose.name).collect::<Vec<_>>().join(", ")
}

fn described(field: &Field<'_>) -> Option<Described> {
    let mut fields = field.map()?;
    let name = fields.required("name").and_then(|field| name(&field, "a name"));
    let namespace = fields.field("namespace").and_then(|field| self::name(&field, "a namespace"));
    let uid = fields.field("uid").and_then(|field| self::name(&field, "a uid"));
    let class = fields.field("qosClass").and_then(|field| field.one_of(&QosClass::NAMED));
    let request = fields.field("request").map(|field| amounts(&field, &REQUESTS, true));
    let request = request.unwrap_or_default();
    let usage = fields.field("usage").map(|field| amounts(&field, &USES, false));
    let harm = fields.field("harm").and_then(|field| harm(&field));
    let mut amount = |key| fields.field(key).and_then(|field| amount(&field));
    let (taken, frees) = (amount("taken"), amount("frees"));
    let flags = [
        ("critical", SparedReason::Critical),
        ("static", SparedReason::Static),
        ("mirror", SparedReason::Mirror),
    ];
    let flags = flags.map(|(key, why)| (fields.flag(key) == Some(true)).then_some(why));
    let priority_class = fields.text("priorityClassName").unwrap_or_default();
    let named = CLASSES.iter().find(|(class, _)| *class == priority_class);
    let pod = Pod {
        namespace: namespace.unwrap_or_default(),
        labels: fields.field("labels").map(|field| texts(&field)).unwrap_or_default(),
        annotations: fields.field("annotations").map(|field| texts(&field)).unwrap_or_default(),
        owner: fields.field("owner").and_then(|field| owner(&field)),
        started: fields.field("started").and_then(|field| started(&field)),
        priority: fields.number("priority").or(named.map(|(_, priority)| *priority)),
        priority_class: priority_class.into(),
        ..Pod::default()
    };
    let name = name?;
    let uid = uid.unwrap_or_else(|| match pod.namespace.as_str() {
        "" => name.clone(),
        namespace => format!("{namespace}/{name}"),
    });
    Some(Described {
        pod: Pod { name, uid, ..pod },
        class: class.unwrap_or_else(|| class_of(&request)),
        request,
        usage,
        harm,
        taken,
        frees,
        spared: flags.into_iter().flatten().next(),
    })
}

/// A name that is not empty; one that looks like a number is accepted.
fn name(field: &Field<'_>, what: &str) -> Option<String> {
    let text = field.scalar(what)?;
    if text.is_empty() {
        field.problem(format!("expected {what}, found an empty text"));
        return None;
    }
    Some(text.into())
}

/// Labels and annotations: `true` is accepted for `"true"`.
fn texts(field: &Field<'_>) -> BTreeMap<String, String> {
    let each = field.map().map(|mut map| map.each()).unwrap_or_default().into_iter();
    each.filter_map(|(key, field)| Some((key.into(), field.scalar("a text")?.into()))).collect()
}

/// Quantities by name. Unknown names are refused: a misspelled one must not count as 0.
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
                // Not used; only checked.
                let _ = field.quantity();
            } else {
                field.problem(format!("unknown resource, expected one of {}", known.join(", ")));
            }
        }
    }
    amounts
}

/// Milliseconds per second that others wait; or a mapping with that (`others`) and the pod's own
/// wait (`self`).
fn harm(field: &Field<'_>) -> Option<Harm> {
    if !matches!(field.node().value, Value::Map(_)) {
        return Some(Harm { others: millis(field)?, own: Nanos(0) });
    }
    let mut fields = field.map()?;
    let others = fields.required("others").and_then(|field| millis(&field));
    let own = fields.field("self").map(|field| millis(&field));
    Some(Harm { others: others?, own: own.unwrap_or(Some(Nanos(0)))? })
}

fn amount(field: &Field<'_>) -> Option<u64> {
    let amount = field.quantity()?;
    if amount.is_negative() {
        field.problem(format!("expected 0 or more, found {amount}"));
        return None;
    }
    Some(amount.to_u64())
}

fn millis(field: &Field<'_>) -> Option<Nanos> {
    let amount: Quantity = field.parse("milliseconds per second")?;
    // Billionths of a millisecond are millionths of a nanosecond.
    let time = u64::try_from(amount.nanos() / 1_000).ok();
    if time.is_none() {
        field.problem(format!("expected milliseconds per second, 0 or more, found {amount}"));
    }
    time.map(Nanos)
}

/// The pod's owner: a name, or `kind`, `name` and `uid` as the API has them.
fn owner(field: &Field<'_>) -> Option<Owner> {
    if !matches!(field.node().value, Value::Map(_)) {
        let name = name(field, "an owner")?;
        return Some(Owner { kind: "Owner".into(), name, uid: String::new() });
    }
    let mut fields = field.map()?;
    let kind = fields.text("kind").unwrap_or("Owner").into();
    let name = fields.field("name").and_then(|field| name(&field, "a name"));
    let uid = fields.field("uid").and_then(|field| self::name(&field, "a uid"));
    if name.is_none() && uid.is_none() {
        field.problem("expected a name, a uid, or both");
    }
    let uid = uid.unwrap_or_default();
    Some(Owner { kind, name: name.unwrap_or_else(|| uid.clone()), uid })
}

/// A time as the API prints it, or seconds since 1970.
fn started(field: &Field<'_>) -> Option<i64> {
    const WHAT: &str = "a time such as 2026-01-31T12:00:00Z, or seconds since 1970";
    let text = field.scalar(WHAT)?;
    let time = || Some(DateTimeParser::new().parse_timestamp(text).ok()?.as_second());
    let started = text.parse().ok().or_else(time);
    if started.is_none() {
        field.problem(format!("expected {WHAT}, found {text:?}"));
    }
    started
}

/// The class of a pod whose file names none, by the kubelet's rule: only CPU and memory count. A
/// Guaranteed pod cannot be recognised without its limits.
fn class_of(request: &ResourceList) -> QosClass {
    let has = |name: &str| request.get(name).is_some_and(|amount| !amount.is_zero());
    if has("cpu") || has("memory") { QosClass::Burstable } else { QosClass::BestEffort }
}

impl Scenario {
    /// Its pods, as candidates for what is short.
    ///
    /// A pod without `usage` has no statistics. A pod with `usage` uses 0 of what it does not name,
    /// as in the kubelet. If any pod has `harm`, pods without it have a harm of 0; the same
    /// holds for `taken`.
    pub fn contenders(&self, purpose: Purpose, rules: &settings::Ranking) -> Vec<Contender> {
        let (used, requested) = match purpose.resource {
            Resource::Memory => ("memory", "memory"),
            Resource::Cpu => ("cpu", "cpu"),
            Resource::Storage => ("ephemeral-storage", "ephemeral-storage"),
            Resource::Inodes => ("inodes", "ephemeral-storage"),
            Resource::Pids => ("pids", ""),
            Resource::Io => ("io", ""),
        };
        let is_told = self.pods.iter().any(|described| described.taken.is_some());
        let is_measured = self.pods.iter().any(|described| described.harm.is_some());
        let of = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
        let contender = |described: &Described| {
            let known = Contender::of(&described.pod, described.class, rules);
            Contender {
                request: Some(of(&described.request, requested)),
                usage: described.usage.as_ref().map(|usage| of(usage, used)),
                harm: is_measured.then(|| described.harm.unwrap_or_default()),
                taken: described.taken.or(is_told.then_some(0)),
                frees: described.frees,
                preference: None,
                spared: known.spared.or(described.spared),
                ..known
            }
        };
        self.pods.iter().map(contender).collect()
    }
}
