//! Cgroups that are no pods and may be chosen all the same: `workloads`.

use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::WorkloadRule;

use super::fields::Field;
use super::found::{Item, Layers};
use super::keys::pattern;

/// Each class of service, by its name in configurations.
const CLASSES: [(&str, QosClass); 3] = [
    ("Guaranteed", QosClass::Guaranteed),
    ("Burstable", QosClass::Burstable),
    ("BestEffort", QosClass::BestEffort),
];

pub(super) fn rules(layers: &Layers<'_>) -> Vec<WorkloadRule> {
    layers.items("workloads").iter().filter_map(rule).collect()
}

/// `None` if something that it must have is missing or wrong, which is a problem by now.
fn rule(item: &Item<'_>) -> Option<WorkloadRule> {
    let request = |name: &str| {
        let quantity = item.get(&format!("requests.{name}"))?.quantity()?;
        Some((name.to_owned(), quantity))
    };
    Some(WorkloadRule {
        path: pattern(item.get("path")?)?,
        qos_class: item
            .get("qosClass")
            .and_then(|field| field.one_of(&CLASSES))
            .unwrap_or(QosClass::Burstable),
        priority: item.get("priority").and_then(Field::number).unwrap_or(0),
        requests: ["cpu", "memory"].into_iter().filter_map(request).collect(),
    })
}
