//! Each pod: at most seven series, for at most [`MOST`] pods.

use std::collections::BTreeSet;
use std::fmt;

use super::catalogue::{
    POD_CONTENTION, POD_STALLED, POD_THROTTLED, POD_WAITING, PODS, PODS_BELOW_REQUEST, PODS_DROPPED,
};
use super::families::Families;
use super::pressure::{lines, throttled};
use crate::serve::totals::{Names, Totals};
use isobar_core::model::pod::Place;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::view::View;
use isobar_core::view::waiting::below_request;

/// Pods with series: more than a kubelet runs, so that only a node full of cgroups meets it.
const MOST: usize = 500;
/// Resources of which a pod's waiting is shown, and of which its stalls. That a pod is stalled on a
/// CPU, and interrupts, say nothing that waiting and contention do not.
const WAITING: [&str; 3] = ["cpu", "memory", "io"];
const STALLED: [&str; 2] = ["memory", "io"];

/// A pod, by what it is called as far as that is known.
struct Pod<'a> {
    /// Namespace, name, uid.
    labels: [&'a str; 3],
    scope: &'a Scope,
}

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let mut pods = pods(&view.snapshot, &totals.names);
    families.write(&PODS, [([], pods.len() as u64)])?;
    let is_known = view.snapshot.covers.waits && view.snapshot.pods.is_some();
    let below = is_known.then(|| ([], below_request(&view.snapshot).len() as u64));
    families.write(&PODS_BELOW_REQUEST, below)?;
    families.write(&PODS_DROPPED, [([], pods.len().saturating_sub(MOST) as u64)])?;
    pods.truncate(MOST);

    let pressed = |among: &'static [&str], line: fn(&Pressure) -> Option<Line>| {
        pods.iter().flat_map(move |Pod { labels: [namespace, name, uid], scope }| {
            let shown = lines(&scope.pressure, line).filter(|(of, _)| among.contains(of));
            shown.map(move |(resource, line)| ([*namespace, name, uid, resource], line.total))
        })
    };
    families.write(&POD_WAITING, pressed(&WAITING, |file| file.some))?;
    families.write(&POD_STALLED, pressed(&STALLED, |file| file.full))?;
    let contention = pods.iter().filter_map(|pod| Some((pod.labels, pod.scope.contention?.total)));
    families.write(&POD_CONTENTION, contention)?;
    let of_quotas = |pod: &Pod<'_>| throttled(pod.scope.cpu.as_ref()?);
    let throttled = pods.iter().filter_map(|pod| Some((pod.labels, of_quotas(pod)?)));
    families.write(&POD_THROTTLED, throttled)
}

/// The oldest first, so that a pod that has series keeps them. Of two cgroups that claim one uid
/// the older counts: a series that comes twice would fail the scrape.
fn pods<'a>(snapshot: &'a Snapshot, names: &'a Names) -> Vec<Pod<'a>> {
    let mut seen = BTreeSet::new();
    let pod = |scope: &'a Scope| match &scope.place {
        Place::Pod { uid, .. } => seen.insert(uid).then(|| {
            let (namespace, name) = names.get(&**uid).map_or(("", ""), |(of, name)| (of, name));
            Pod { labels: [namespace, name, uid], scope }
        }),
        _ => None,
    };
    snapshot.scopes.values().filter_map(pod).collect()
}
