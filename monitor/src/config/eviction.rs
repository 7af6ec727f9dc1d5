//! Eviction thresholds, parsed as the kubelet does, with its error texts.
//! Source: kubelet `pkg/kubelet/eviction/helpers.go`, `ParseThresholdConfig`. Refused here and
//! accepted there: hexadecimal floats and `NaN` as a percentage (such a threshold is never met),
//! and a minimum reclaim of more than 100 % (it could never be reached).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::fraction::Fraction;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::settings::Eviction;
use isobar_core::model::threshold::{Amount, Signal, Threshold};
use isobar_core::model::units::Nanos;

use super::fields::Field;
use super::layers::{Layers, entries};
use super::pressure;

/// `evictionPressureTransitionPeriod`, where the file says 0s.
const USUAL_TRANSITION: Nanos = Nanos(300 * Nanos::SECOND.0);

pub(super) fn settings(layers: &Layers<'_>, enforces_pods: bool) -> Eviction {
    let transition = layers.time("evictionPressureTransitionPeriod");
    let (thresholds, soft_at_once) = thresholds(layers, enforces_pods);
    Eviction {
        thresholds,
        soft_at_once,
        pressure: pressure::thresholds(layers),
        transition_period: if transition.0 == 0 { USUAL_TRANSITION } else { transition },
        max_pod_grace: layers.number("evictionMaxPodGracePeriod"),
    }
}

/// Hard thresholds, soft ones, then copies of the hard memory threshold for the allocatable; each
/// group sorted by signal name. And the signals of soft ones without a grace period.
fn thresholds(layers: &Layers<'_>, enforces_pods: bool) -> (Vec<Threshold>, Vec<Signal>) {
    let mut hard = layers.entries("evictionHard");
    if layers.flag("mergeDefaultEvictionSettings") {
        let defaults = entries(layers.default_of("evictionHard"));
        let new = |(signal, _): &(&str, _)| hard.iter().all(|(given, _)| given != signal);
        hard.extend(defaults.into_iter().filter(new).collect::<Vec<_>>());
        hard.sort_unstable_by_key(|(signal, _)| *signal);
    }
    let graces = values(layers, "evictionSoftGracePeriod", grace);
    let reclaims = values(layers, "evictionMinimumReclaim", reclaim);
    let mut all: Vec<Threshold> = Vec::new();
    for (signal, value) in hard.iter().filter_map(|(name, field)| one(name, field)) {
        all.push(Threshold { signal, value, grace: Nanos(0), min_reclaim: None });
    }
    let n_hard = all.len();
    for (name, field) in layers.entries("evictionSoft") {
        let Some((signal, value)) = one(name, &field) else { continue };
        match graces.get(&signal) {
            Some(grace) => all.push(Threshold {
                signal,
                value,
                grace: grace.unwrap_or_default(),
                min_reclaim: None,
            }),
            None => field.problem(format!(
                "grace period must be specified for the soft eviction threshold {signal}"
            )),
        }
    }
    let at_once = all[n_hard..].iter().filter(|one| one.is_hard()).map(|one| one.signal).collect();
    for threshold in &mut all {
        threshold.min_reclaim = reclaims.get(&threshold.signal).copied().flatten();
    }
    if enforces_pods {
        let memory = all.iter().filter(|t| t.signal == Signal::MemoryAvailable && t.is_hard());
        let copy = |t: &Threshold| Threshold { signal: Signal::AllocatableMemoryAvailable, ..*t };
        let copies: Vec<Threshold> = memory.map(copy).collect();
        all.extend(copies);
    }
    (all, at_once)
}

/// A signal and its amount; `None` if the threshold is disabled or wrong.
fn one(name: &str, field: &Field<'_>) -> Option<(Signal, Amount)> {
    let signal = signal_of(name, field)?;
    let amount = or_problem(field, threshold(signal, field.scalar("an amount")?))??;
    Some((signal, amount))
}

/// A map by signal; `None` for a value that is wrong, which is already a problem.
fn values<T>(
    layers: &Layers<'_>,
    path: &str,
    parse: impl Fn(Signal, &str) -> Result<T, String>,
) -> BTreeMap<Signal, Option<T>> {
    let entries = layers.entries(path).into_iter();
    let value = |(signal, field): (&str, Field<'_>)| {
        let signal = signal_of(signal, &field)?;
        Some((signal, or_problem(&field, parse(signal, field.scalar("a value")?))))
    };
    entries.filter_map(value).collect()
}

fn signal_of(name: &str, field: &Field<'_>) -> Option<Signal> {
    let signal = Signal::of(name);
    if signal.is_none() {
        field.problem(format!("unsupported eviction signal {name}"));
    }
    signal
}

/// The value, or a problem with `field`.
fn or_problem<T>(field: &Field<'_>, parsed: Result<T, String>) -> Option<T> {
    parsed.map_err(|error| field.problem(error)).ok()
}

/// `None` for `0%` and `100%`, which disable a threshold.
fn threshold(signal: Signal, text: &str) -> Result<Option<Amount>, String> {
    if text == "0%" || text == "100%" {
        return Ok(None);
    }
    if text.ends_with('%') {
        let percent = percent(text)?;
        if percent < 0.0 {
            return Err(format!("eviction percentage threshold {signal} must be >= 0%: {text}"));
        }
        let fraction = Fraction::of_percent(percent).ok_or_else(|| {
            format!("eviction percentage threshold {signal} must be <= 100%: {text}")
        })?;
        return Ok(Some(Amount::Percentage(fraction)));
    }
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    if quantity.is_zero() || quantity.is_negative() {
        return Err(format!("eviction threshold {signal} must be positive: {quantity}"));
    }
    Ok(Some(Amount::Quantity(quantity)))
}

fn grace(_: Signal, text: &str) -> Result<Nanos, String> {
    let time: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    if time.0 < 0 {
        return Err(format!(
            "invalid eviction grace period specified: {text}, must be a positive value"
        ));
    }
    Ok(time.nanos())
}

fn reclaim(signal: Signal, text: &str) -> Result<Amount, String> {
    if text.ends_with('%') {
        let percent = percent(text)?;
        if percent <= 0.0 {
            return Err(format!(
                "eviction percentage minimum reclaim {signal} must be positive: {text}"
            ));
        }
        let fraction = Fraction::of_percent(percent).ok_or_else(|| {
            format!("eviction percentage minimum reclaim {signal} must be <= 100%: {text}")
        })?;
        return Ok(Amount::Percentage(fraction));
    }
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    if quantity.is_negative() {
        return Err(format!("negative eviction minimum reclaim specified for {signal}"));
    }
    Ok(Amount::Quantity(quantity))
}

/// The number before `%`, in single precision; several `%` are all removed, as in Go.
fn percent(text: &str) -> Result<f32, String> {
    let number = text.trim_end_matches('%');
    let is_decimal = number.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b));
    let parsed = number.parse::<f32>().ok().filter(|n| is_decimal && n.is_finite());
    parsed.ok_or_else(|| format!("strconv.ParseFloat: parsing {number:?}: invalid syntax"))
}
