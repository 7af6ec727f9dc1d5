//! A pod that comes in place of one that ended, and takes what that held.

use super::*;
use crate::model::cgroup::MemoryEvents;
use crate::model::decision::{InForce, Phase, StepKind, Trigger, made};
use crate::model::quantity::Quantity;
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::workload::{Owner, Pod, Pods};

/// MiB that the daemon takes in a second.
const LEAK: u64 = 3;
/// When the first pod ends, in seconds.
const END: u64 = 60;

fn pod(uid: &str, owner: Option<(&str, &str, &str)>) -> Pod {
    let labels = owner.map(|(_, _, version)| ("pod-template-hash".into(), version.into()));
    let owner = owner.map(|(kind, name, _)| Owner {
        kind: kind.into(),
        name: name.into(),
        ..Owner::default()
    });
    let labels = labels.into_iter().collect();
    Pod {
        uid: uid.into(),
        name: uid.into(),
        namespace: "shop".into(),
        labels,
        owner,
        ..Pod::default()
    }
}

/// How the first pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    ByItself,
    ByIsobar,
    /// By isobar, because a disk was full.
    ForADisk,
    /// By isobar, for what others took.
    AsPayer,
    /// The same without the API; and later by the kubelet, which isobar has no part in.
    AsPayerAndByTheKubelet,
    ByTheKubelet,
    /// By itself, and what it held was a tmpfs, which stays.
    OfSharedMemory,
}

/// The first pod, ended by isobar.
fn killed(step: StepKind, is_payer: bool) -> InForce {
    killed_because(Trigger::Pressure(made::usual_pressure_thresholds()[0]), step, is_payer)
}

fn killed_because(threshold: Trigger, step: StepKind, is_payer: bool) -> InForce {
    let mut action = made::action(step, made::met(threshold));
    action.target.cgroup = Some(CgroupId(3));
    action.target.path = Some(CgroupPath(POD.into()));
    action.target.is_payer = is_payer;
    let phase = Phase::Ended { at: Nanos(END * Nanos::SECOND.0) };
    InForce { action, since: Nanos(0), held: None, phase, largest: None }
}

fn disk() -> Trigger {
    let value = Amount::Quantity(Quantity::bytes(MIB));
    let (signal, grace) = (Signal::NodefsAvailable, Nanos(0));
    Trigger::Eviction(Threshold { signal, value, grace, min_reclaim: None })
}

/// A pod that comes at a second, and takes 60 MiB in each until it holds so many.
struct Second {
    owner: Option<(&'static str, &'static str, &'static str)>,
    comes: u64,
    until: u64,
}

/// Takers 12 s after the first pod has ended, in whose place these have come.
fn told(first: Option<(&str, &str, &str)>, others: &[Second], end: End) -> Vec<(String, u64)> {
    let uids: Vec<String> = (2..).map(|n| format!("u{n}")).take(others.len()).collect();
    // The agent tells of its own evictions as of the kubelet's.
    let is_evicted = matches!(end, End::ByTheKubelet | End::AsPayer | End::AsPayerAndByTheKubelet);
    let pods: Pods = std::iter::once(Pod { is_evicted, ..pod("u1", first) })
        .chain(uids.iter().zip(others).map(|(uid, other)| pod(uid, other.owner)))
        .map(|pod| (pod.uid.clone(), pod))
        .collect::<BTreeMap<_, _>>()
        .into();
    let at = |t: u64| {
        let mut groups = vec![(DAEMON.to_owned(), 1, 10 + LEAK * t)];
        groups.extend((t < END).then(|| (POD.to_owned(), 2, 300)));
        let here = uids.iter().zip(others).zip(3..).filter(|((_, other), _)| other.comes <= t);
        groups.extend(here.map(|((uid, other), id)| {
            let held = (60 * (t - other.comes)).min(other.until);
            (format!("/kubepods/besteffort/pod{uid}"), id, held)
        }));
        let used = groups.iter().map(|(_, _, held)| held).sum();
        let mut sample = sample(t, used, &[("/kubepods", 0)]);
        let cgroups = groups
            .into_iter()
            .map(|(path, id, held)| (CgroupId(id + 1), Arc::new(cgroup(&path, held, Limit::Max))));
        sample.cgroups.extend(cgroups);
        sample.pods = Some(Pods::clone(&pods));
        let killed = match end {
            End::ByIsobar => Some(killed(StepKind::KillContainers, false)),
            End::ForADisk => Some(killed_because(disk(), StepKind::KillContainers, false)),
            End::AsPayer => Some(killed(StepKind::Evict, true)),
            End::AsPayerAndByTheKubelet => Some(killed(StepKind::KillContainers, true)),
            _ => None,
        };
        sample.in_force.extend(killed.filter(|_| t >= END));
        let first = sample.cgroups.get_mut(&CgroupId(3));
        if let Some(first) = first.filter(|_| end == End::OfSharedMemory) {
            let stat = Arc::make_mut(first).memory.stat.as_mut().unwrap();
            (stat.shmem, stat.anon) = (stat.anon, Bytes(0));
        }
        sample
    };
    takers(&(0..=END + 12).map(at).collect::<Vec<_>>()).1
}

#[test]
fn what_a_pod_held_is_no_growth_of_the_one_that_comes_in_its_place() {
    let web = Some(("ReplicaSet", "web-6d4c", "6d4c"));
    let next = Some(("ReplicaSet", "web-7f9b", "7f9b"));
    let second = |owner, comes, until| Second { owner, comes, until };
    type Row<'a> =
        (&'a str, Option<(&'a str, &'a str, &'a str)>, Vec<Second>, &'a [(&'a str, u64)]);
    #[rustfmt::skip]
    let table: [Row<'_>; 9] = [
        // what, the owner of the first pod, who comes; takers, and how much pods took
        ("of the same owner",      web,  vec![second(web, END + 2, 290)],  &[(DAEMON, 0)]),
        ("of another version",     web,  vec![second(next, END + 2, 290)], &[(DAEMON, 0)]),
        ("before the first ends",  web,  vec![second(next, END - 5, 290)], &[(DAEMON, 0)]),
        ("in the same second",     web,  vec![second(next, END, 290)],     &[(DAEMON, 0)]),
        ("and takes more",         web,  vec![second(web, END + 2, 500)],  &[(DAEMON, 0), ("shop/u2", 200)]),
        ("two",                    web,  vec![second(web, END + 2, 290), second(web, END + 2, 290)], &[("shop/u3", 290), (DAEMON, 0)]),
        ("of another workload",    web,  vec![second(Some(("ReplicaSet", "db-6d4c", "6d4c")), END + 2, 290)], &[("shop/u2", 290), (DAEMON, 0)]),
        ("of another kind",        web,  vec![second(Some(("Job", "web-6d4c", "6d4c")), END + 2, 290)], &[("shop/u2", 290), (DAEMON, 0)]),
        ("of no owner",            None, vec![second(None, END + 2, 290)], &[("shop/u2", 290), (DAEMON, 0)]),
    ];
    for (what, first, others, want) in table {
        // The leak is looked at over a longer time where it is all that was lost.
        let amount = |name: &str, mib| if name == DAEMON { 0 } else { mib };
        let of = |end| -> Vec<_> {
            let large = told(first, &others, end).into_iter().filter(|(_, mib)| *mib >= 30);
            large.map(|(name, mib)| (name.clone(), amount(&name, mib))).collect()
        };
        let want: Vec<_> = want.iter().map(|(name, mib)| ((*name).to_owned(), *mib)).collect();
        for end in [End::ByItself, End::AsPayer, End::ForADisk] {
            assert_eq!(of(end), want, "{what}, {end:?}");
        }
        for end in
            [End::ByIsobar, End::ByTheKubelet, End::AsPayerAndByTheKubelet, End::OfSharedMemory]
        {
            let taken = of(end).iter().any(|(name, mib)| name == "shop/u2" && *mib > 100);
            assert!(taken, "{what}, {end:?}");
        }
    }
}

#[test]
fn what_a_payer_held_is_no_growth_of_its_next_container() {
    let by = |is_payer| killed(StepKind::KillContainers, is_payer);
    let for_a_disk = killed_because(disk(), StepKind::KillContainers, false);
    let mark = InForce { phase: Phase::Marked, ..killed(StepKind::Mark, false) };
    #[rustfmt::skip]
    let table = [
        // before its end and after it, in force; whether the kernel killed; the largest taker
        (None,       Some(by(true)),   false, DAEMON),
        (None,       Some(by(false)),  false, "shop/u1"),
        (None,       Some(for_a_disk), false, DAEMON),
        (None,       None,             true,  DAEMON),
        (Some(mark), None,             true,  "shop/u1"),
    ];
    for (marked, ended, is_killed, want) in table {
        let pods: Pods = BTreeMap::from([("u1".to_owned(), pod("u1", None))]).into();
        let at = |t: u64| {
            let held = if t < END { 300 } else { (60 * t.saturating_sub(END + 4)).min(290) };
            let own = 10 + LEAK * t;
            let mut sample = sample(t, held + own, &[("/kubepods", 0), (DAEMON, own), (POD, held)]);
            sample.pods = Some(Pods::clone(&pods));
            sample.in_force.extend(if t < END { marked.clone() } else { ended.clone() });
            let oom_kill = u64::from(is_killed && t >= END);
            let events = MemoryEvents { oom_kill, ..MemoryEvents::default() };
            let own = sample.cgroups.get_mut(&CgroupId(3)).unwrap();
            Arc::make_mut(own).memory.events = Some(events);
            sample
        };
        let (_, takers, _) = takers(&(0..=END + 14).map(at).collect::<Vec<_>>());
        assert_eq!(takers[0].0, want, "{is_killed} {takers:?}");
    }
}

#[test]
fn what_a_service_held_is_no_credit_where_others_chose_its_end_or_its_name() {
    const SLICE: CgroupId = CgroupId(1);
    let group = |parent, n_kills, is_delegated| {
        let path = CgroupPath(DAEMON.into());
        let mut group = Cgroup { path, parent, is_delegated, ..Cgroup::default() };
        let oom_kill = n_kills;
        group.memory.events = Some(MemoryEvents { oom_kill, ..MemoryEvents::default() });
        group
    };
    let of_slice = |n| Sample {
        cgroups: BTreeMap::from([(SLICE, Arc::new(group(None, n, false)))]),
        ..Sample::default()
    };
    #[rustfmt::skip]
    let table = [
        // kills in it, and in its slice before and after; the kernel killed in it
        (0, 3, 3, false),
        (1, 3, 3, true),
        (0, 3, 4, true),
    ];
    for (own, before, after, want) in table {
        let service = group(Some(SLICE), own, false);
        let got = was_killed(&service, &of_slice(before), &of_slice(after));
        assert_eq!(got, want, "{own} {before} {after}");
    }
    for is_delegated in [false, true] {
        let named = Named::at(&Place::Other, &group(None, 0, is_delegated), &Sample::default());
        assert_eq!(named.is_none(), is_delegated);
    }
}
