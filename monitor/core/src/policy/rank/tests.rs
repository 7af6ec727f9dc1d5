mod beside;
mod cause;
mod harm;
mod order;
mod presets;
mod upstream;

use super::*;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::{Key, KeyValue, SparedReason};
use crate::model::pod::{Place, QosClass};
use crate::model::quantity::Quantity;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::Owner;
use crate::policy::takers::Counts;

fn purpose(signal: &str) -> Purpose {
    Purpose::named(signal).unwrap_or_else(|| panic!("{signal} is no signal"))
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// A pod; a use of `-` is no statistics, a request of `-` one that is not known.
fn pod(name: &str, class: QosClass, priority: i32, request: &str, usage: &str) -> Contender {
    let given = |text: &str| (text != "-").then(|| quantity(text));
    Contender {
        priority,
        request: given(request),
        usage: given(usage),
        ..Contender::unknown(name, class)
    }
}

fn harm(others_ms: u64, own_ms: u64) -> Option<Harm> {
    let ms = |n: u64| Nanos(n * 1_000_000);
    Some(Harm { others: ms(others_ms), own: ms(own_ms) })
}

fn ranking(pods: &[Contender], signal: &str, order: Order) -> Ranking {
    rank_all(pods, purpose(signal), order, &settings::Ranking::default())
}

/// Names of candidates, first to go first.
fn names(ranking: &Ranking) -> Vec<&str> {
    ranking.candidates.iter().map(|candidate| candidate.name.as_str()).collect()
}

/// Keys as `key=value`, as JSON has them but without quotes.
fn keys(candidate: &Candidate) -> String {
    let keys = candidate.keys.iter().map(|merit| {
        let json = serde_json::to_value(merit).unwrap();
        format!("{}={}", json["key"], json["value"]).replace('"', "")
    });
    keys.collect::<Vec<_>>().join(" ")
}

/// The contenders of a node of which nothing else is known.
pub(super) fn contenders_of(
    sample: &Sample,
    snapshot: &Snapshot,
    harm: &HarmStanding,
    purpose: Purpose,
    settings: &Settings,
) -> Vec<Contender> {
    let node = Node { sample, snapshot, harm, takers: &TakerStanding::default(), settings };
    let protected = Protected::of(settings, sample, snapshot);
    contenders::of_node(node, purpose, (None, Counts::Held), &protected)
}

/// A tree of these paths, with ids from 1 in the order of the list.
pub(in crate::policy) fn tree(paths: &[&str]) -> Snapshot {
    let id = |path: &str| paths.iter().position(|p| *p == path).map(|at| CgroupId(at as u64 + 1));
    let scope = |path: &&str| {
        let parent = path.rsplit_once('/').and_then(|(above, _)| id(above));
        let path = CgroupPath((*path).into());
        Scope { place: Place::of(&path), path, parent, ..Scope::default() }
    };
    let scopes = paths.iter().map(|path| (id(path).unwrap(), scope(path))).collect();
    Snapshot { scopes, ..Snapshot::default() }
}
