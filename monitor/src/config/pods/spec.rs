//! A pod's `spec`: what it asks for, and what it is worth.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::yaml::{Field, Fields};
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::{Container, ContainerKind, Pod, Resources, Toleration};

/// Reads all of it.
pub(super) fn read(mut spec: Fields<'_>, pod: &mut Pod) {
    pod.priority = spec.number("priority");
    pod.priority_class = spec.text("priorityClassName").unwrap_or_default().into();
    pod.termination_grace = spec.number("terminationGracePeriodSeconds");
    pod.resources = spec.field("resources").map(|field| resources(&field));
    pod.overhead = quantities(spec.field("overhead"));
    for toleration in spec.list("tolerations").unwrap_or_default() {
        pod.tolerations.extend(toleration.map().map(tolerated));
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
    spec.finish();
}

fn container(field: &Field<'_>, kind: ContainerKind) -> Option<Container> {
    let mut container = field.map()?;
    let name = container.required("name").and_then(|name| name.text());
    let resources = container.field("resources").map(|field| resources(&field));
    let policy = container.text("restartPolicy");
    container.finish();
    let kind = match (kind, policy) {
        (ContainerKind::Init, Some("Always")) => ContainerKind::Sidecar,
        (kind, _) => kind,
    };
    Some(Container { name: name?.into(), kind, resources: resources.unwrap_or_default(), id: None })
}

fn resources(field: &Field<'_>) -> Resources {
    let Some(mut map) = field.map() else { return Resources::default() };
    let read = Resources {
        requests: quantities(map.field("requests")),
        limits: quantities(map.field("limits")),
    };
    map.finish();
    read
}

/// Quantities that may not be negative, by the names of resources.
fn quantities(field: Option<Field<'_>>) -> ResourceList {
    let Some(mut map) = field.and_then(|field| field.map()) else { return ResourceList::new() };
    let each = map.each().into_iter();
    let list = each.filter_map(|(name, field)| Some((name.into(), quantity(&field)?))).collect();
    map.finish();
    list
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    // The API takes spaces around it.
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

/// A mapping from texts to texts, such as labels. What is null is empty, as for the API.
pub(super) fn texts(fields: &mut Fields<'_>, key: &'static str) -> BTreeMap<String, String> {
    let Some(mut map) = fields.map(key) else { return BTreeMap::new() };
    let mut texts = BTreeMap::new();
    for (key, field) in map.each() {
        let text = if field.node().is_null() { Some("") } else { field.text() };
        texts.extend(text.map(|text| (key.to_owned(), text.to_owned())));
    }
    map.finish();
    texts
}

fn tolerated(mut toleration: Fields<'_>) -> Toleration {
    let mut text = |key| toleration.text(key).unwrap_or_default().to_owned();
    let read = Toleration {
        key: text("key"),
        operator: text("operator"),
        value: text("value"),
        effect: text("effect"),
    };
    toleration.finish();
    read
}
