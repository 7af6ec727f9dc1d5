//! `workloads`: cgroups other than pods that may be evicted.

use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::WorkloadRule;

use super::fields::Field;
use super::keys::pattern;
use super::layers::{Item, Layers};

pub(super) fn rules(layers: &Layers<'_>) -> Vec<WorkloadRule> {
    layers.items("workloads").iter().filter_map(rule).collect()
}

/// `None` if a required key is missing or wrong, which is already a problem.
fn rule(item: &Item<'_, '_>) -> Option<WorkloadRule> {
    let request = |name: &str| {
        let quantity = item.get(&format!("requests.{name}"))?.quantity()?;
        Some((name.to_owned(), quantity))
    };
    let class = item.get("qosClass").and_then(|field| field.one_of(&QosClass::NAMED));
    Some(WorkloadRule {
        path: pattern(item.get("path")?)?,
        qos_class: class.unwrap_or(QosClass::Burstable),
        priority: item.get("priority").and_then(Field::number).unwrap_or(0),
        requests: ["cpu", "memory"].into_iter().filter_map(request).collect(),
    })
}
