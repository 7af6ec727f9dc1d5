//! Who would go first, and for each of the others the first key that spared it.

use crate::model::decision::{
    Candidate, Decision, Key, KeyValue, Loss, Outsider, Ranking, Spared, SparedReason, Taker,
};
use crate::model::units::{Bytes, Nanos};
use crate::policy::rank::why_before;

/// The candidates, and what would make the second go instead of the first.
pub(super) fn sentences(decision: &Decision) -> (Vec<String>, Vec<String>) {
    let Some(ranking) = &decision.ranking else { return (Vec::new(), Vec::new()) };
    let mut told: Vec<String> = ranking.loss.iter().map(lost).collect();
    told.extend(match &ranking.candidates[..] {
        [] => vec!["no candidate may be chosen".into()],
        [first, others @ ..] => {
            let first_told = format!("first to go: {}: {}", first.full_name(), keys(first));
            let others = others.iter().map(|other| spared_by_key(first, other));
            std::iter::once(first_told).chain(others).collect::<Vec<_>>()
        }
    });
    told.extend(more(ranking.n_candidates, ranking.candidates.len(), "candidates"));
    told.extend(ranking.spared.iter().map(never));
    told.extend(more(ranking.n_spared, ranking.spared.len(), "pods that are never chosen"));
    told.extend(ranking.outsiders.iter().map(|one| {
        let Outsider { path, harm: time } = one;
        format!("no pod: {}", harm(path.told(), *time))
    }));
    (told, other_order(ranking).into_iter().collect())
}

/// Which party makes others wait, and how long.
pub fn harm(name: &str, time: Nanos) -> String {
    format!("{name}: others wait for it {} ms in each second", time.0 / 1_000_000)
}

/// What was lost and who took it: `shop/web took 1.9Gi of the 2.1Gi that were lost in 30s`.
pub fn lost(loss: &Loss) -> String {
    let Loss { lost, over, takers, unattributed } = loss;
    let one = |taker: &Taker| format!("{} took {}", taker.full_name(), taker.taken);
    let mut took: Vec<String> = takers.iter().map(one).collect();
    if loss.is_of_no_cgroup() {
        took.push(format!("{} belong to no cgroup", unattributed));
    }
    let of = format!("of the {} that were lost in {}", lost, super::time(*over));
    match took.is_empty() {
        true => format!("no party took a real part {of}"),
        false => format!("{} {of}", took.join(", ")),
    }
}

fn spared_by_key(first: &Candidate, other: &Candidate) -> String {
    match why_before(first, other) {
        Some((a, b)) => {
            let (first, other) = (first.full_name(), other.full_name());
            match (said(b.key, &b.value), said(a.key, &a.value)) {
                // Figures that differ by less than is said: to the byte.
                (b_said, a_said) if b_said == a_said => format!(
                    "spared: {other} has {} {}; {first} has {}",
                    word(b.key),
                    exact(&b.value),
                    exact(&a.value)
                ),
                (b_said, a_said) => format!("spared: {other} {b_said}; {first} {a_said}"),
            }
        }
        None => format!("equal in every key: {}", other.full_name()),
    }
}

fn other_order(ranking: &Ranking) -> Option<String> {
    let [first, second, ..] = &ranking.candidates[..] else { return None };
    let (_, b) = why_before(first, second)?;
    let (first, second) = (first.full_name(), second.full_name());
    Some(format!("{second} might go first if {first}, too, {}", said(b.key, &b.value)))
}

fn never(spared: &Spared) -> String {
    let why = match spared.why {
        SparedReason::Static => "a static pod",
        SparedReason::Mirror => "a mirror pod",
        SparedReason::Critical => "its priority is critical",
        SparedReason::Isobar => "isobar itself",
        SparedReason::OptedOut => "it has opted out",
        SparedReason::NeverTouch => "its cgroup is never touched",
        SparedReason::HarmsOnlyItself => "it makes only itself wait",
        SparedReason::WithinRequest => "Guaranteed, and within its request",
        SparedReason::OutsideLimit => "it lies outside the limit that is short",
        SparedReason::NotYetNamed => "isobar does not know its name yet",
    };
    format!("never chosen: {}: {why}", spared.full_name())
}

fn more(all: usize, told: usize, of_what: &str) -> Option<String> {
    let rest = all.checked_sub(told).filter(|rest| *rest > 0)?;
    Some(format!("and {rest} more {of_what}"))
}

fn keys(candidate: &Candidate) -> String {
    let told = candidate.keys.iter().filter(|key| key.key != Key::Uid);
    let told = told.map(|key| match quality(key.key, &key.value) {
        Some(words) => words.to_owned(),
        None => format!("{} {}", word(key.key), value(&key.value)),
    });
    let told: Vec<_> = told.collect();
    told.join(", ")
}

/// A key as people say it.
fn word(key: Key) -> &'static str {
    match key {
        Key::Preference => "preference",
        Key::HasStats => "statistics",
        Key::ExceedsRequest => "exceeds its request",
        Key::Priority => "priority",
        Key::Excess => "use above request",
        Key::Usage => "use",
        Key::Qos => "class",
        Key::Taker => "took what is short",
        Key::HoldsPromised => "holds what others were promised",
        Key::Lasting => "taken all along",
        Key::Taken => "taken",
        Key::AmongLargest => "among the largest",
        Key::FreesEnough => "frees enough",
        Key::Harm => "harm to others",
        Key::DiskShare => "its part of waits for disks",
        Key::Processes => "processes",
        Key::Started => "start",
        Key::Uid => "uid",
    }
}

/// What a key says of a candidate, after its name.
fn said(key: Key, value: &KeyValue) -> String {
    let quality = quality(key, value).map(str::to_owned);
    quality.unwrap_or_else(|| format!("has {} {}", word(key), self::value(value)))
}

/// A key that is true or not, in words.
fn quality(key: Key, value: &KeyValue) -> Option<&'static str> {
    let &KeyValue::Bool(is) = value else { return None };
    let (yes, no) = match key {
        Key::HasStats => ("has statistics", "has no statistics"),
        Key::ExceedsRequest => ("exceeds its request", "is within its request"),
        Key::Taker => ("took what is short", "did not take what is short"),
        Key::HoldsPromised => {
            ("holds what others were promised", "does not hold what others were promised")
        }
        Key::FreesEnough => ("frees enough", "does not free enough"),
        Key::AmongLargest => ("is among the largest", "is smaller"),
        _ => return None,
    };
    Some(if is { yes } else { no })
}

fn exact(of: &KeyValue) -> String {
    match of {
        KeyValue::Quantity(quantity) => quantity.to_string(),
        _ => value(of),
    }
}

fn value(value: &KeyValue) -> String {
    match value {
        KeyValue::Bool(true) => "yes".into(),
        KeyValue::Bool(false) => "no".into(),
        KeyValue::Number(number) => number.to_string(),
        KeyValue::Class(class) => format!("{class:?}"),
        KeyValue::Quantity(quantity) => match quantity.to_u64() {
            bytes @ 1_024.. => Bytes(bytes).to_string(),
            _ => quantity.to_string(),
        },
        KeyValue::Text(text) => text.clone(),
        KeyValue::Unknown => "unknown".into(),
    }
}
