//! A pod's `spec`: its requests and limits, its priority, its containers.

use std::collections::{BTreeMap, BTreeSet};

use super::told::FEW;
use crate::config::fields::{Field, Fields};
use crate::config::json::Keys;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::{
    Container, ContainerKind, Pod, Resources, RestartPolicy, RestartRule, Toleration, Volume,
};

/// What is read of it.
pub(super) const READ: Keys = Keys::Only(&[
    ("nodeName", Keys::All),
    ("priority", Keys::All),
    ("priorityClassName", Keys::All),
    ("terminationGracePeriodSeconds", Keys::All),
    ("restartPolicy", Keys::All),
    ("resources", FEW),
    ("overhead", FEW),
    ("tolerations", Keys::Within(32 << 10, &Keys::All)),
    ("volumes", VOLUMES),
    ("initContainers", CONTAINERS),
    ("containers", CONTAINERS),
    ("ephemeralContainers", CONTAINERS),
]);
const VOLUMES: Keys = Keys::Within(
    64 << 10,
    &Keys::Only(&[
        ("name", Keys::All),
        ("emptyDir", Keys::All),
        ("hostPath", EMPTY),
        ("configMap", EMPTY),
        ("gitRepo", EMPTY),
    ]),
);
/// In 128 KiB there is room for some sixty containers with requests and limits.
const CONTAINERS: Keys = Keys::Within(
    128 << 10,
    &Keys::Only(&[
        ("name", Keys::All),
        ("resources", Keys::All),
        ("restartPolicy", Keys::All),
        ("restartPolicyRules", Keys::All),
    ]),
);
/// That it is there is enough.
const EMPTY: Keys = Keys::Only(&[]);

pub(super) fn read(mut spec: Fields<'_>, pod: &mut Pod) {
    pod.priority = spec.number("priority");
    pod.priority_class = spec.text("priorityClassName").unwrap_or_default().into();
    pod.termination_grace = spec.number("terminationGracePeriodSeconds");
    pod.restart_policy = Some(restart_policy(&mut spec).unwrap_or(RestartPolicy::Always));
    pod.resources = spec.field("resources").map(|field| resources(&field));
    pod.overhead = quantities(spec.field("overhead"));
    for toleration in spec.list("tolerations").unwrap_or_default() {
        pod.tolerations.extend(toleration.map().map(tolerated));
    }
    for field in spec.list("volumes").unwrap_or_default() {
        pod.volumes.extend(field.map().and_then(volume));
    }
    let mut names = BTreeSet::new();
    let lists = [
        (spec.field("initContainers"), ContainerKind::Init),
        (spec.required("containers"), ContainerKind::Regular),
        (spec.field("ephemeralContainers"), ContainerKind::Ephemeral),
    ];
    for (list, kind) in lists {
        let Some(fields) = list.and_then(|list| list.list()) else { continue };
        if fields.is_empty() && kind == ContainerKind::Regular {
            spec.problem("containers", "expected at least one container");
        }
        for field in fields {
            let Some(container) = container(&field, kind) else { continue };
            if !names.insert(container.name.clone()) {
                field.problem(format!("a second container is named {:?}", container.name));
            }
            pod.containers.push(container);
        }
    }
}

/// `None` if it takes nothing of the node.
fn volume(mut fields: Fields<'_>) -> Option<Volume> {
    /// Source: kubelet `pkg/kubelet/eviction/helpers.go`, `localVolumeNames`.
    const LOCAL: [&str; 3] = ["hostPath", "configMap", "gitRepo"];
    let name = fields.required("name")?.text()?.to_owned();
    match fields.field("emptyDir") {
        Some(field) => {
            let mut options = field.map();
            let medium = options.as_mut().and_then(|options| options.text("medium"));
            let is_local = medium.is_none_or(|medium| medium != "Memory");
            let limit = options.as_mut().and_then(|options| options.field("sizeLimit"));
            let limit = limit.and_then(|field| quantity(&field)).filter(|limit| !limit.is_zero());
            Some(Volume { name, is_local, limit })
        }
        None if LOCAL.into_iter().any(|kind| fields.field(kind).is_some()) => {
            Some(Volume { name, is_local: true, limit: None })
        }
        None => None,
    }
}

fn container(field: &Field<'_>, kind: ContainerKind) -> Option<Container> {
    let mut container = field.map()?;
    let name = container.required("name").and_then(|name| name.text());
    let resources = container.field("resources").map(|field| resources(&field));
    let (kind, restart_policy) = match (kind, restart_policy(&mut container)) {
        (ContainerKind::Init, Some(RestartPolicy::Always)) => (ContainerKind::Sidecar, None),
        own => own,
    };
    let rules = container.list("restartPolicyRules").unwrap_or_default();
    Some(Container {
        name: name?.into(),
        kind,
        resources: resources.unwrap_or_default(),
        restart_policy,
        restart_rules: rules.iter().filter_map(restart_rule).collect(),
        ..Container::default()
    })
}

fn restart_policy(fields: &mut Fields<'_>) -> Option<RestartPolicy> {
    let named = |name: &str| RestartPolicy::ALL.into_iter().find(|one| one.name() == name);
    named(fields.text("restartPolicy")?)
}

/// `None` for an action or an operator that this kubelet would not know either: no code matches it.
fn restart_rule(field: &Field<'_>) -> Option<RestartRule> {
    let mut rule = field.map()?;
    let is_for_all = match rule.text("action")? {
        "Restart" => false,
        "RestartAllContainers" => true,
        _ => return None,
    };
    let mut codes = rule.map("exitCodes")?;
    let is_for_others = match codes.text("operator")? {
        "In" => false,
        "NotIn" => true,
        _ => return None,
    };
    let values = codes.list("values").unwrap_or_default();
    let exit_codes = values.iter().filter_map(Field::number).collect();
    Some(RestartRule { is_for_all, is_for_others, exit_codes })
}

pub(super) fn resources(field: &Field<'_>) -> Resources {
    let Some(mut map) = field.map() else { return Resources::default() };
    let (requests, limits) = (map.field("requests"), map.field("limits"));
    Resources { requests: quantities(requests), limits: quantities(limits) }
}

/// Quantities that may not be negative, by the names of resources.
pub(super) fn quantities(field: Option<Field<'_>>) -> ResourceList {
    let map = field.and_then(|field| field.map());
    let each = map.map(|mut map| map.each()).unwrap_or_default().into_iter();
    each.filter_map(|(name, field)| Some((name.into(), quantity(&field)?))).collect()
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    // The API accepts spaces around it.
    let text = field.scalar("a quantity such as 500m or 2Gi")?.trim();
    match text.parse::<Quantity>() {
        Ok(quantity) if quantity.is_negative() => {
            field.problem(format!("expected a quantity that is not negative, found {text:?}"));
            None
        }
        Ok(quantity) => Some(quantity),
        Err(error) => {
            let example = "expected a quantity such as 500m or 2Gi";
            field.problem(format!("{example}, found {text:?}: {error}"));
            None
        }
    }
}

/// A mapping from texts to texts, such as labels. Null is empty, as for the API.
pub(super) fn texts(fields: &mut Fields<'_>, key: &'static str) -> BTreeMap<String, String> {
    let each = fields.map(key).map(|mut map| map.each()).unwrap_or_default().into_iter();
    let text = |(key, field): (&str, Field<'_>)| {
        let text = if field.node().is_null() { Some("") } else { field.text() };
        Some((key.to_owned(), text?.to_owned()))
    };
    each.filter_map(text).collect()
}

fn tolerated(mut toleration: Fields<'_>) -> Toleration {
    let mut text = |key| toleration.text(key).unwrap_or_default().to_owned();
    Toleration {
        key: text("key"),
        operator: text("operator"),
        value: text("value"),
        effect: text("effect"),
    }
}
