//! Who does the IO: what pods and services read from devices and write to them. Whose requests made
//! others wait is not measured, so this is told as usage, not as harm.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Told};
use super::verdict::Resource;
use super::waiting::{
    self, Level, busiest, busiest_of_machine, innermost, short_name, with_process,
};
use crate::model::cgroup::CgroupId;
use crate::model::snapshot::{IoRate, Scope, Snapshot};
use crate::model::units::{Bytes, Percent};

/// Who does less than such a part of the IO is not named for it: it is spread.
pub(super) const MUCH: Percent = Percent(25_00);
/// Less than this a second in fewer requests keeps no disk busy.
const LITTLE: Bytes = Bytes(1 << 20);
const FEW: u64 = 50;

/// A pod or service that does IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mover {
    pub cgroup: CgroupId,
    pub io: IoRate,
    /// Of the node's bytes or of its requests, whichever is more: a disk is kept busy by many small
    /// requests as well as by large ones.
    pub share: Percent,
}

/// Those first that do the greatest share; `None` where no cgroup's IO is known. Who does none is
/// left out, and so is whose IO is not known, and a unit of which one inside does half or more.
pub(super) fn movers(snapshot: &Snapshot) -> Option<Vec<Mover>> {
    let all = node(snapshot)?;
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let moving = units.filter_map(|(id, scope)| {
        let is_of_now = |rate: &IoRate| !is_late(*rate, snapshot.whole.io);
        let rate = scope.io.filter(|rate| rate.operations() > 0 || rate.bytes() > Bytes(0))?;
        let rate = Some(rate).filter(is_of_now)?;
        Some(Mover { cgroup: *id, io: rate, share: rate.share_of(all) })
    });
    let mut moving = innermost(snapshot, moving.collect(), |one| (one.cgroup, one.share.0.into()));
    moving.sort_by_key(|one| (Reverse((one.share, one.io.bytes())), one.cgroup));
    Some(moving)
}

/// A cgroup that slept is read at its next turn, and what it did meanwhile seems to be of one tick: more
/// than twice what the root did in it.
fn is_late(rate: IoRate, root: Option<IoRate>) -> bool {
    root.is_some_and(|root| rate.bytes().0 > root.bytes().0.saturating_mul(2))
}

/// Whether of some pod or service it is not known: the IO of services is accounted where that is asked
/// for.
pub(super) fn is_partial(snapshot: &Snapshot) -> bool {
    snapshot.scopes.values().any(|scope| Level::Units.shows(scope) && scope.io.is_none())
}

/// The IO of all: bytes and requests by the root's file, or by the sum of the topmost cgroups where
/// that is more, because requests of cgroups count before they are merged. `None` where no cgroup's is known: the root's file
/// alone tells nothing of who does it.
pub fn node(snapshot: &Snapshot) -> Option<IoRate> {
    snapshot.scopes.values().find_map(|scope| scope.io)?;
    let sum = of_cgroups(snapshot).unwrap_or_default();
    let root = snapshot.whole.io.unwrap_or_default();
    let IoRate { read, written, .. } = if root.bytes() >= sum.bytes() { root } else { sum };
    Some(IoRate { read, written, ..if root.operations() >= sum.operations() { root } else { sum } })
}

/// What all cgroups below the root do; `None` where it cannot be of this tick.
fn of_cgroups(snapshot: &Snapshot) -> Option<IoRate> {
    let scopes = &snapshot.scopes;
    let is_top = |scope: &&Scope| scope.parent.is_none_or(|above| !scopes.contains_key(&above));
    let tops = scopes.values().filter(is_top).filter_map(|scope| scope.io);
    let sum = tops.fold(IoRate::default(), IoRate::plus);
    (!is_late(sum, snapshot.whole.io)).then_some(sum)
}

/// What tasks in the root cgroup itself do, kernel threads among them, and its share, if that is more
/// than any pod or service does. `None` where a cgroup's IO is not known: it may be that one's.
pub(super) fn root(snapshot: &Snapshot) -> Option<(IoRate, Percent)> {
    let (all, below) = snapshot.whole.io.zip(of_cgroups(snapshot))?;
    let rate = all.minus(below);
    let share = rate.share_of(node(snapshot)?);
    let most = movers(snapshot)?.first().map_or(Percent(0), |one| one.share);
    (!is_partial(snapshot) && share >= MUCH && share > most).then_some((rate, share))
}

/// Who does most of the IO, in a sentence; `None` if nobody does any.
pub fn told(snapshot: &Snapshot) -> Option<Told> {
    let process = busiest_of_machine(snapshot, Resource::Io);
    let unmeasured = "Which pod or service does most of the IO was not measured";
    let by_process = process
        .map(|process| format!("{unmeasured}; most of it: {process} (by usage, not by harm)."))
        .map(Told::plain);
    let Some((movers, all)) = movers(snapshot).zip(node(snapshot)) else { return by_process };
    let is_partial = is_partial(snapshot);
    let is_little = all.bytes() < LITTLE && all.operations() < FEW;
    if is_little && (snapshot.whole.io.is_some() || !is_partial) {
        return Some(Told::plain(
            "Little is read from devices or written to them: tasks wait for something else, as a \
             network file system, an io.max of their own, or a device that does not answer.",
        ));
    }
    // Without a process it may be the kernel's own, as what swaps.
    let of_root = root(snapshot).zip(busiest(None, snapshot, Resource::Io));
    if let Some(((rate, share), process)) = of_root {
        let name = with_process("The root cgroup", &process);
        let figures = vec![moves("/".into(), rate)];
        return Some(Told { text: does(&name, rate, share, all), figures });
    }
    let Some(&Mover { cgroup, io: rate, share }) = movers.first().filter(|one| one.share >= MUCH)
    else {
        let spread =
            |most: &Mover| format!("No pod or service does more than {} % of the IO.", most.share);
        return match is_partial {
            true => by_process.or_else(|| Some(Told::plain(format!("{unmeasured}.")))),
            false => movers.first().map(spread).map(Told::plain),
        };
    };
    let scope = snapshot.scopes.get(&cgroup)?;
    let figures = vec![moves(waiting::name(scope), rate)];
    let name = short_name(scope);
    let name = match busiest(Some(cgroup), snapshot, Resource::Io) {
        Some(process) => with_process(&name, &process),
        None => name,
    };
    Some(Told { text: does(&name, rate, share, all), figures })
}

fn moves(aggressor: String, rate: IoRate) -> Figure {
    Figure::Moves { aggressor, bytes_per_second: rate.bytes() }
}

fn does(name: &str, rate: IoRate, share: Percent, all: IoRate) -> String {
    let does = match rate {
        IoRate { written: Bytes(0), .. } => "reads",
        IoRate { read: Bytes(0), .. } => "writes",
        _ => "reads and writes",
    };
    let is_of_bytes = Percent::share(rate.bytes().0, all.bytes().0.max(1)) == share;
    let figures = match is_of_bytes {
        true => format!("{}/s of the node's {}/s", rate.bytes(), all.bytes()),
        false => format!(
            "{}/s in {} of the node's {} requests per second",
            rate.bytes(),
            rate.operations(),
            all.operations()
        ),
    };
    format!("{name} {does} {figures} (by usage, not by harm).")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::CgroupPath;
    use crate::model::pod::{Place, QosClass, Runtime};
    use crate::model::sample::Runner;
    use crate::model::units::Nanos;

    const MIB: u64 = 1 << 20;

    /// MiB per second read and written, and requests of each kind.
    type Io = Option<(u64, u64, u64, u64)>;

    fn rate(io: Io) -> Option<IoRate> {
        let (read, written) = io.map(|(read, written, ..)| (read * MIB, written * MIB))?;
        let (.., reads, writes) = io?;
        Some(IoRate { read: Bytes(read), written: Bytes(written), reads, writes })
    }

    /// A pod with a container in it, and services beside it, below two slices.
    fn node_of(root: Io, pods: Io, services: &[Io]) -> Snapshot {
        let class = QosClass::Burstable;
        let pod = Place::Pod { uid: "u".into(), class };
        let (id, runtime) = ("c".into(), Runtime::CriO);
        let container = Place::Container { pod: "u".into(), class, id, runtime };
        let all = services.iter().flatten();
        let sum = |of: fn(&(u64, u64, u64, u64)) -> u64| all.clone().map(of).sum::<u64>();
        let is_known = services.iter().any(Option::is_some);
        let slice = is_known.then(|| (sum(|s| s.0), sum(|s| s.1), sum(|s| s.2), sum(|s| s.3)));
        let scope = |path: &str, place: Place, parent: Option<u64>, io| Scope {
            path: CgroupPath(path.into()),
            place,
            parent: parent.map(CgroupId),
            io: rate(io),
            ..Scope::default()
        };
        let mut scopes = vec![
            (2, scope("/kubepods", Place::Kubepods, Some(1), pods)),
            (3, scope("/kubepods/pod", pod, Some(2), pods)),
            (4, scope("/kubepods/pod/c", container, Some(3), pods)),
            (5, scope("/system.slice", Place::Other, Some(1), slice)),
        ];
        scopes.extend((6..).zip(services).map(|(id, io)| {
            let path = format!("/system.slice/s{id}.service");
            (id, scope(&path, Place::Other, Some(5), *io))
        }));
        Snapshot {
            interval: Nanos::SECOND,
            whole: Scope { io: rate(root), ..Scope::default() },
            scopes: scopes.into_iter().map(|(id, scope)| (CgroupId(id), scope)).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn root_cgroup_is_told_with_its_process() {
        let runner = |is_of_machine| Runner {
            pid: 7,
            name: "dd".into(),
            io: Some(Bytes(100 * MIB)),
            is_of_machine,
            ..Runner::default()
        };
        let told_of = |(name, mib): (&str, u64)| {
            format!("{name} reads {mib}Mi/s of the node's 200Mi/s (by usage, not by harm).")
        };
        let (dd, pod) = ("The root cgroup (most of all dd, pid 7)", "pod u");
        let spread = || "No pod or service does more than 5.00 % of the IO.".to_owned();
        #[rustfmt::skip]
        let table = [
            // MiB/s of the pod, a service is accounted for, the process, what is said
            (10,  true,  Some(runner(false)), told_of((dd, 189))),
            (10,  true,  None,                spread()), // swapping, say
            (10,  true,  Some(runner(true)),  spread()), // it may be the pod's
            (90,  true,  Some(runner(false)), told_of((dd, 109))),
            (110, true,  Some(runner(false)), told_of((pod, 110))),
            (10,  false, Some(runner(false)),
             "Which pod or service does most of the IO was not measured.".into()),
        ];
        for (of_pod, is_accounted, runner, want) in table {
            let service = is_accounted.then_some((1, 0, 1, 0));
            let mut snapshot =
                node_of(Some((200, 0, 200, 0)), Some((of_pod, 0, of_pod, 0)), &[service]);
            snapshot.runners = runner.into_iter().collect();
            let got = told(&snapshot).map(|told| told.text);
            assert_eq!(got, Some(want), "{of_pod} {is_accounted}");
        }
    }

    #[test]
    fn movers_are_named_by_what_they_do() {
        let small = [Some((1, 0, 10, 0)); 9];
        let usage = "(by usage, not by harm).";
        let little = "Little is read from devices or written to them: tasks wait for something else, as a \
                      network file system, an io.max of their own, or a device that does not answer.";
        type Row<'a> = (Io, Io, &'a [Io], &'a [u64], Option<String>);
        #[rustfmt::skip]
        let table: [Row<'_>; 13] = [
            // the node, the pod, services; who does most; what is said
            (Some((200, 0, 400, 0)), Some((180, 0, 180, 0)), &[Some((10, 0, 9, 0))], &[3, 6],
             Some(format!("pod u reads 180Mi/s of the node's 200Mi/s {usage}"))), // and not its container
            (Some((0, 200, 0, 400)), Some((10, 0, 9, 0)), &[Some((0, 180, 0, 180))], &[6, 3],
             Some(format!("s6.service writes 180Mi/s of the node's 200Mi/s {usage}"))),
            (Some((100, 100, 4, 4)), Some((90, 90, 4, 4)), &[], &[3],
             Some(format!("pod u reads and writes 180Mi/s in 8 of the node's 8 requests per second {usage}"))),
            // Small requests keep the disk as busy.
            (Some((200, 0, 20_000, 0)), Some((90, 0, 180, 0)), &[Some((76, 0, 19_500, 0))], &[6, 3],
             Some(format!("s6.service reads 76Mi/s in 19500 of the node's 20000 requests per second {usage}"))),
            // Many that do little each.
            (Some((9, 0, 90, 0)), Some((0, 0, 0, 0)), &small, &[6, 7, 8, 9, 10, 11, 12, 13, 14],
             Some("No pod or service does more than 11.11 % of the IO.".into())),
            // The root's file is not read: all cgroups together.
            (None, Some((30, 0, 30, 0)), &[Some((10, 0, 10, 0))], &[3, 6],
             Some(format!("pod u reads 30Mi/s of the node's 40Mi/s {usage}"))),
            // One has no file: unknown, and not idle.
            (Some((40, 0, 40, 0)), None, &[Some((30, 0, 30, 0)), None], &[6],
             Some(format!("s6.service reads 30Mi/s of the node's 40Mi/s {usage}"))),
            // Kernel threads do most.
            (Some((400, 0, 400, 0)), Some((30, 0, 30, 0)), &[], &[3],
             Some("No pod or service does more than 7.50 % of the IO.".into())),
            // Its requests are merged before they reach the disk.
            (Some((300, 0, 400, 0)), Some((2, 0, 500, 0)), &[Some((290, 0, 300, 0))], &[6, 3],
             Some(format!("s6.service reads 290Mi/s of the node's 300Mi/s {usage}"))),
            // The pod slept for thirty ticks, and all that was written back for it is read now.
            (Some((10, 0, 10, 0)), Some((0, 3_000, 0, 3_000)), &[Some((9, 0, 9, 0))], &[6],
             Some(format!("s6.service reads 9Mi/s of the node's 10Mi/s {usage}"))),
            // Who does it may be the service whose IO is not accounted for.
            (Some((200, 0, 400, 0)), Some((1, 0, 4, 0)), &[None], &[3],
             Some("Which pod or service does most of the IO was not measured.".into())),
            (Some((0, 0, 9, 0)), Some((0, 0, 9, 0)), &[], &[3], Some(little.into())),
            (Some((40, 0, 40, 0)), None, &[None], &[], None), // no io controller
        ];
        for (root, pod, services, order, want) in table {
            let snapshot = node_of(root, pod, services);
            let all = movers(&snapshot);
            let got: Vec<_> = all.iter().flatten().map(|one| one.cgroup.0).collect();
            assert_eq!(got, order, "{root:?} {pod:?}");
            let got = told(&snapshot).map(|told| told.text);
            assert_eq!(got, want, "{root:?} {pod:?}");
            let is_known = pod.is_some() || services.iter().any(Option::is_some);
            assert_eq!(all.is_some(), is_known, "{root:?} {pod:?}");
        }
    }
}
