//! Node conditions for contention, and pressure thresholds: what the kubelet does not have.

use isobar_core::model::condition::{ConditionName, Measure, Resource, ScopeName};
use isobar_core::model::duration::GoDuration;
use isobar_core::model::settings::{ConditionRule, Conditions};
use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
use isobar_core::model::units::{Nanos, Percent};

use isobar_core::policy::assess::taint;

use super::fields::Field;
use super::keys::Share;
use super::layers::{Item, Layers};

pub(super) fn conditions(layers: &Layers<'_>) -> Conditions {
    let rules = ConditionName::ALL.into_iter();
    let prefix = layers.text("conditions.prefix");
    if let Some(field) = layers.given("conditions.prefix")
        && let Some(key) = taint::keys(prefix).into_iter().find(|key| !is_qualified(key))
    {
        field.problem(format!(
            "expected a prefix such as example.com/ or edge-: the API server takes no taint with the \
             key {key}"
        ));
    }
    Conditions {
        prefix: prefix.into(),
        taint_effect: layers.word("conditions.taintEffect"),
        rules: rules.filter_map(|name| Some((name.name().into(), rule(layers, name)?))).collect(),
        raise_after: layers.time("conditions.raiseAfter"),
        clear_after: layers.time("conditions.clearAfter"),
        stale_after: layers.time("conditions.staleAfter"),
    }
}

/// Whether the API server takes it for the key of a taint: `DOMAIN/NAME`, by `IsQualifiedName` of
/// k8s.io/apimachinery/pkg/util/validation.
fn is_qualified(key: &str) -> bool {
    let is_word = |text: &str, most: usize, inner: &[u8]| {
        let is_edge = |byte: &u8| byte.is_ascii_alphanumeric();
        let bytes = text.as_bytes();
        bytes.len() <= most
            && bytes.first().is_some_and(is_edge)
            && bytes.last().is_some_and(is_edge)
            && bytes.iter().all(|byte| is_edge(byte) || inner.contains(byte))
    };
    let is_lower = |text: &str| !text.bytes().any(|byte| byte.is_ascii_uppercase());
    key.split_once('/').is_some_and(|(domain, name)| {
        let mut labels = domain.split('.');
        let is_domain = labels.all(|label| is_lower(label) && is_word(label, 253, b"-"));
        domain.len() <= 253 && is_domain && is_word(name, 63, b"-_.")
    })
}

/// What one condition measures; `None` if it is disabled.
fn rule(layers: &Layers<'_>, name: ConditionName) -> Option<ConditionRule> {
    let scope = name.scope.name();
    let resource = match name.resource {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
        Resource::Disk => "disk",
    };
    let path = |key: &str| format!("conditions.{scope}.{resource}.{key}");
    let measure = measure(name, layers.text(&path("measure")), layers.text(&path("line")));
    let measure = measure.unwrap_or_else(|(key, why)| {
        if let Some(field) = layers.given(&path(key)).or_else(|| layers.given(&path("line"))) {
            field.problem(why);
        }
        Measure::RawSome
    });
    let threshold = layers.text(&path("threshold")).parse::<Share>();
    let threshold = threshold.map_or(Percent::FULL, |Share(threshold)| threshold);
    layers.flag(&path("enabled")).then_some(ConditionRule { measure, threshold })
}

/// The measure, or the key that makes it impossible and the reason.
fn measure(
    name: ConditionName,
    word: &str,
    line: &str,
) -> Result<Measure, (&'static str, &'static str)> {
    match (word, name.resource, line) {
        ("contention", Resource::Cpu, "" | "some") => Ok(Measure::Contention),
        ("shortage", Resource::Memory, "" | "some") => Ok(Measure::Shortage),
        ("contention", Resource::Cpu, _) => Err((
            "line",
            "contention is time in which at least one task waits: it has no line full",
        )),
        ("shortage", Resource::Memory, _) => {
            Err(("line", "shortage is time in which at least one task waits: it has no line full"))
        }
        ("contention", _, _) => {
            Err(("measure", "contention is measured for cpu only: use shortage or raw"))
        }
        ("shortage", _, _) => {
            Err(("measure", "shortage is measured for memory only: use contention or raw"))
        }
        (_, Resource::Cpu, "full") if name.scope == ScopeName::System => Err((
            "line",
            "the line full of the node's CPU pressure is always 0, because some task runs on \
             every busy CPU; use some",
        )),
        (_, Resource::Cpu, "") | (_, _, "some") => Ok(Measure::RawSome),
        _ => Ok(Measure::RawFull),
    }
}

/// `evictionPressure`.
pub(super) fn thresholds(layers: &Layers<'_>) -> Vec<PressureThreshold> {
    layers.items("evictionPressure").iter().filter_map(threshold).collect()
}

fn threshold(item: &Item<'_, '_>) -> Option<PressureThreshold> {
    let scope = match item.get("scope")?.scalar("a scope")? {
        "system" => ScopeName::System,
        _ => ScopeName::Kubepods,
    };
    let at = item.get("threshold")?;
    let share = || {
        let Share(share) = at.parse("a percentage such as 60%")?;
        if share == Percent(0) {
            at.problem("expected more than 0 %, which is always met");
        }
        Some(share)
    };
    let on = match item.get("signal")?.scalar("a signal")? {
        "cpu" => PressureSignal::Cpu(share()?),
        "memory" => PressureSignal::Memory(share()?),
        "disk" => PressureSignal::Disk(share()?),
        "exhaustion" => {
            let time = at.duration()?;
            if time.0 <= 0 {
                at.problem("expected a length of time of more than 0s");
            }
            PressureSignal::Exhaustion(time.nanos())
        }
        _ => {
            let pages: u64 = at.number()?;
            if pages == 0 {
                at.problem("expected at least 1 page per second: 0 is always met");
            }
            PressureSignal::Refaults(pages)
        }
    };
    let grace = item.get("gracePeriod").and_then(Field::duration);
    Some(PressureThreshold { scope, on, grace: grace.map_or(Nanos(0), GoDuration::nanos) })
}
