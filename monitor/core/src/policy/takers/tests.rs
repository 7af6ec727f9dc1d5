mod heirs;
mod restart;
mod told_apart;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupPath, Limit, MemoryFiles, MemoryStat};
use crate::model::condition::ScopeName;
use crate::model::node::Meminfo;
use crate::model::sample::{Gap, GapReason, Moment};
use crate::model::snapshot::Averages;
use crate::policy::workload::Workloads;

const MIB: u64 = 1 << 20;

fn cgroup(path: &str, anon_mib: u64, max: Limit) -> Cgroup {
    let anon = Bytes(anon_mib * MIB);
    // Cache of the same size, which nobody has to die for.
    let stat = MemoryStat { anon, file: anon, active_file: anon, ..MemoryStat::default() };
    let current = Some(Bytes(2 * anon_mib * MIB));
    let memory =
        MemoryFiles { current, max: Some(max), stat: Some(stat), ..MemoryFiles::default() };
    Cgroup { path: CgroupPath(path.into()), memory, ..Cgroup::default() }
}

/// A node of 1 GiB at a second, with `used` MiB of it in use.
fn sample(second: u64, used: u64, groups: &[(&str, u64)]) -> Sample {
    let at = Nanos(second * Nanos::SECOND.0);
    let total = Bytes(1024 * MIB);
    let available = Bytes((1024 - used) * MIB);
    let memory = Meminfo { total, free: available, available, ..Meminfo::default() };
    let ids: BTreeMap<&str, CgroupId> =
        groups.iter().zip(1..).map(|((path, _), id)| (*path, CgroupId(id))).collect();
    let group = |(path, mib): &(&str, u64)| {
        let parent = path.rsplit_once('/').and_then(|(above, _)| ids.get(above).copied());
        (ids[path], Arc::new(Cgroup { parent, ..cgroup(path, *mib, Limit::Max) }))
    };
    let mut sample = Sample { at: Moment { boot: at, wall: at }, ..Sample::default() };
    sample.cgroups = groups.iter().map(group).collect();
    sample.node.memory = Some(memory);
    sample
}

/// Takes in one sample after the other; the snapshot of the last.
fn take_in(standing: &mut TakerStanding, samples: &[Sample]) -> Snapshot {
    let mut averages = Averages::new(1);
    let (mut last, mut before) = (Snapshot::default(), None);
    for sample in samples {
        last = Snapshot::between(None, sample, &mut averages);
        standing.update(before, sample, &Workloads::default().parties(&last));
        before = Some(sample);
    }
    last
}

/// The most that a party took, or none.
fn largest(lost: &Lost) -> u64 {
    let all = lost.outside(|_| false);
    all.largest.max(all.unattributed)
}

fn takers(samples: &[Sample]) -> (u64, Vec<(String, u64)>, u64) {
    let mut standing = TakerStanding::default();
    let snapshot = take_in(&mut standing, samples);
    let sample = samples.last().unwrap();
    let lost = standing.loss(ScopeName::System, Counts::Held, sample, &snapshot).unwrap();
    let told = lost.told(
        &snapshot,
        sample,
        taker_from(largest(&lost), Resource::Memory),
        |_| false,
        |_, _| false,
    );
    let each = told.takers.iter().map(|taker| (taker.full_name(), taker.taken.0 / MIB));
    (told.over.0 / Nanos::SECOND.0, each.collect(), told.unattributed.0 / MIB)
}

const POD: &str = "/kubepods/besteffort/podu1";
const INSIDE: &str = "/kubepods/besteffort/podu1/inside";
const DAEMON: &str = "/system.slice/leaky.service";
const OTHER: &str = "/system.slice/other.service";

#[test]
fn loss_of_the_first_seconds_is_known_if_it_is_large() {
    #[rustfmt::skip]
    let table = [
        // seconds watched, MiB of 1024 that the daemon takes in each, in huge pages; what is known of it
        (1,  200, 0,   None),
        (2,  20,  0,   None), // less than a twentieth
        (2,  26,  0,   Some(52)),
        (9,  5,   0,   None),
        (9,  6,   0,   Some(54)),
        (10, 3,   0,   Some(30)),
        (2,  12,  512, None),
        (2,  13,  512, Some(26)),
    ];
    for (seconds, each, huge, want) in table {
        let mut samples: Vec<_> = (0..=seconds)
            .map(|t| sample(t, huge + 100 + each * t, &[(DAEMON, 10 + each * t), (OTHER, 50)]))
            .collect();
        for sample in &mut samples {
            sample.node.memory.as_mut().unwrap().hugetlb = Bytes(huge * MIB);
        }
        let mut standing = TakerStanding::default();
        let snapshot = take_in(&mut standing, &samples);
        let sample = samples.last().unwrap();
        let lost = standing.loss(ScopeName::System, Counts::Held, sample, &snapshot);
        let lost = lost.map(|lost| lost.lost / MIB);
        assert_eq!(lost, want, "{each} MiB in each of {seconds} s, {huge}");
    }
}

/// A daemon that held 320 MiB ends between its own figure and the node's, which is read later.
#[test]
fn what_ends_just_now_is_never_looked_for_later() {
    #[rustfmt::skip]
    let table = [
        // what the daemon holds by its own figure as it ends, what the kernel takes each second;
        // what belongs to no party ten seconds later
        (Some(320), 0, 0),
        (Some(100), 0, 0),
        (None,      0, 0), // its cgroup has been removed
        (Some(320), 8, 80),
        (None,      8, 80),
    ];
    for (own, each, want) in table {
        for seen in 0..12 {
            let samples: Vec<_> = (0..=40 + seen)
                .map(|t| {
                    let daemon = match t {
                        0..40 => Some(320),
                        40 => own,
                        _ => None,
                    };
                    let parties: Vec<_> = daemon
                        .map(|held| (DAEMON, held))
                        .into_iter()
                        .chain([(OTHER, 50)])
                        .collect();
                    sample(t, 50 + if t < 40 { 320 } else { 0 } + each * t, &parties)
                })
                .collect();
            let mut standing = TakerStanding::default();
            let snapshot = take_in(&mut standing, &samples);
            let sample = samples.last().unwrap();
            let lost = standing.loss(ScopeName::System, Counts::Held, sample, &snapshot);
            let unattributed = lost.map_or(0, |lost| lost.unattributed / MIB);
            // Just then it is missing in what belongs to none; compared with that second, one more is seen.
            let least = if seen == 0 { 0 } else { want };
            let is_right = (least..=want + each).contains(&unattributed);
            assert!(is_right, "{own:?}, {each}, {seen} s later: {unattributed}");
        }
    }
}

#[test]
fn loss_names_who_took_it() {
    // What the pod, the daemon, another one and the kernel hold at a second, in MiB.
    type Held = fn(u64) -> (u64, u64, u64, u64);
    type Row = (&'static str, Held, &'static [(&'static str, u64)], u64);
    #[rustfmt::skip]
    let table: [Row; 6] = [
        // what happens for 40 s; takers of what was lost, and what belongs to none
        ("the pod",            |t| (10 + 8 * t, 50, 50, 10),         &[("u1", 80)],             0),
        ("the daemon",         |t| (50, 10 + 8 * t, 50, 10),         &[(DAEMON, 80)],           0),
        ("the kernel",         |t| (50, 50, 50, 10 + 8 * t),         &[],                       80),
        ("both",               |t| (10 + 4 * t, 10 + 6 * t, 50, 10), &[(DAEMON, 60), ("u1", 40)], 0),
        ("one and some noise", |t| (10 + 8 * t, 50 + t, 50, 10),     &[("u1", 80)],             0),
        // What had stopped before it ran short is not named.
        ("a burst before",     |t| (50 + 8 * t.saturating_sub(20), 50 + 20 * t.min(10), 50, 10), &[("u1", 80)], 0),
    ];
    for (what, held, want, unattributed) in table {
        let samples = (0..=40).map(|t| {
            let (pod, daemon, other, kernel) = held(t);
            let groups =
                [("/kubepods", 0), (POD, pod), (INSIDE, pod), (DAEMON, daemon), (OTHER, other)];
            sample(t + 1, pod + daemon + other + kernel, &groups)
        });
        let (over, got, rest) = takers(&samples.collect::<Vec<_>>());
        let got: Vec<_> = got.iter().map(|(name, mib)| (name.as_str(), *mib)).collect();
        assert_eq!((got.as_slice(), rest), (want, unattributed), "{what}");
        assert_eq!(over, 10, "{what}: a twentieth of a GiB is lost in ten seconds");
    }
}

#[test]
fn loss_names_first_who_took_it_all_along() {
    // What a pod and the daemon hold at a second, in MiB.
    type Row = (&'static str, fn(u64) -> (u64, u64), &'static [&'static str]);
    #[rustfmt::skip]
    let table: [Row; 4] = [
        // what happens for 60 s; takers, first to go first
        ("a leak while another one starts", |t| (20 * t.saturating_sub(54), 10 + 8 * t), &[DAEMON, "u1"]),
        ("a heap that has been emptied once, and a leak", |t| {
            (14 * if t < 50 { t.saturating_sub(41) } else { t - 50 }, 10 + 7 * t.saturating_sub(38))
        }, &[DAEMON, "u1"]),
        ("a heap that fills for ten of fifteen seconds, and a leak", |t| {
            let filled = (t + 9) % 15;
            (if filled < 10 { 14 * filled } else { 0 }, 10 + 8 * t)
        }, &[DAEMON]),
        ("the faster of two leaks that is younger", |t| (16 * t.saturating_sub(28), 10 + 8 * t), &["u1", DAEMON]),
    ];
    for (what, held, want) in table {
        let samples = (0..=60).map(|t| {
            let (pod, daemon) = held(t);
            let groups = [("/kubepods", 0), (POD, pod), (DAEMON, daemon)];
            sample(t + 1, pod + daemon, &groups)
        });
        let (_, got, _) = takers(&samples.collect::<Vec<_>>());
        let names: Vec<_> = got.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, want, "{what}: {got:?}");
    }
}

#[test]
fn loss_looks_back_further_the_slower_it_is() {
    for (mib_per_10_s, want) in [(80, 10), (20, 30), (5, 120)] {
        let samples = (0..=120).map(|t| {
            let held = 10 + mib_per_10_s * t / 10;
            sample(t + 1, held, &[("/kubepods", 0), (POD, held)])
        });
        let (over, got, _) = takers(&samples.collect::<Vec<_>>());
        assert!(over.abs_diff(want) <= 6, "{mib_per_10_s}: {over} s");
        assert_eq!(got.len(), 1, "{mib_per_10_s}");
    }
}

#[test]
fn end_gives_back_what_a_failed_reading_does_not() {
    // Whether the pod of 290 MiB has ended, or has no figures for twenty seconds.
    for has_ended in [true, false] {
        let grown = |n: u64| sample(n, 300 + 10 * n, &[(OTHER, 20), (POD, 10 * n)]);
        let mut samples: Vec<_> = (0..30).map(grown).collect();
        samples.extend((30..50).map(|n| {
            let mut sample = sample(n, 590, &[(OTHER, 20), (POD, 0)]);
            let last = CgroupId(2);
            let path = sample.cgroups.remove(&last).unwrap().path.clone();
            let unread = Arc::new(Cgroup { path, ..Cgroup::default() });
            sample.cgroups.extend((!has_ended).then_some((last, unread)));
            // It says nothing of any cgroup, and stands as long as the agent runs.
            let (object, detail) = ("kernel side".into(), String::new());
            sample.gaps = vec![Gap { object, why: GapReason::Full, detail }];
            sample
        }));
        let mut standing = TakerStanding::default();
        take_in(&mut standing, &samples);
        assert_eq!(standing.parties.len(), if has_ended { 1 } else { 2 });
        // The node has as much in use as before: the kernel, say, has taken what a pod gave back.
        assert_eq!(takers(&samples).2, if has_ended { 290 } else { 0 });
        // What comes back after it had ended has taken all that it has.
        samples.push(sample(50, 590, &[(OTHER, 20), (POD, 500)]));
        assert_eq!(takers(&samples).1[0].1, if has_ended { 500 } else { 500 - 290 });
    }
}

#[test]
fn rate_follows_growth_that_slows() {
    type Row = (fn(u64) -> u64, i64);
    #[rustfmt::skip]
    let table: [Row; 5] = [
        // held at a second, growth per second at second 20
        (|_| 100,                  0),
        (|t| 100 + 8 * t,          8),
        (|t| 1000 - 8 * t,         -8),
        (|t| 100 + 8 * t.min(18),  2),  // it stopped two seconds ago
        (|t| 100 + 8 * t.min(10),  0),  // ten seconds ago
    ];
    for (held, want) in table {
        let readings = (0..=20).rev().map(|t| (Nanos(t * Nanos::SECOND.0), held(t)));
        assert_eq!(rate(readings), Some(want));
    }
    assert_eq!(rate([(Nanos(5), 1), (Nanos(4), 0)].into_iter()), None, "too short to say");
}

#[test]
fn room_is_the_nearest_limit_of_its_own() {
    let at = |mib: u64| Limit::At(mib * MIB);
    #[rustfmt::skip]
    let table = [
        // limits of kubepods, the pod and its container; the room of a pod that holds 100 MiB, and as much cache
        (at(900),    at(500),    Limit::Max, Some(400)),
        (at(900),    Limit::Max, at(400),    Some(300)),
        (at(900),    Limit::Max, Limit::Max, None), // that of all pods is none of its own
        (Limit::Max, at(100),    Limit::Max, Some(0)),
    ];
    for (pods, pod, container, want) in table {
        let id = "0".repeat(64);
        let inside = format!("{POD}/{id}");
        let groups = [
            ("/kubepods".to_owned(), pods, None),
            ("/kubepods/besteffort".to_owned(), Limit::Max, Some(1)),
            (POD.to_owned(), pod, Some(2)),
            (inside, container, Some(3)),
        ];
        let mut sample = sample(1, 200, &[]);
        let groups = groups.map(|(path, max, parent)| {
            let parent = parent.map(CgroupId);
            Arc::new(Cgroup { parent, ..cgroup(&path, 100, max) })
        });
        sample.cgroups = (1..).map(CgroupId).zip(groups).collect();
        let snapshot = Snapshot::between(None, &sample, &mut Averages::new(1));
        let pod = CgroupId(3);
        let got = Rooms::of(&snapshot).left(pod, &snapshot.scopes[&pod]).map(|bytes| bytes / MIB);
        assert_eq!(got, want, "{pods} {container}");
    }
}

#[test]
fn room_ends_as_the_kubelet_means_memory_high_and_swap() {
    let at = |mib: u64| Some(Limit::At(mib * MIB));
    let no = Some(Limit::Max);
    #[rustfmt::skip]
    let table = [
        // max, high and swap.max of a container that holds 100 MiB and has swapped 20 of them; free swap; room
        (at(200), no,      at(0),  500, Some(120)), // NoSwap
        (at(200), no,      at(50), 500, Some(150)), // LimitedSwap: 30 more may be swapped out
        (at(200), no,      at(50), 10,  Some(130)), // if there is room for it
        (at(200), no,      no,     0,   Some(120)),
        (at(200), no,      None,   500, Some(120)), // unknown is no allowance
        (at(200), at(180), at(0),  500, Some(100)), // MemoryQoS: it sleeps from there on
        (no,      at(180), at(0),  500, Some(100)),
        (no,      at(50),  at(0),  500, Some(0)),
        (no,      no,      at(50), 500, None),
    ];
    for (max, high, swap_max, free, want) in table {
        let inside = format!("{POD}/{}", "0".repeat(64));
        let mut container = Cgroup { parent: Some(CgroupId(3)), ..cgroup(&inside, 80, Limit::Max) };
        let memory = &mut container.memory;
        (memory.max, memory.high, memory.swap_max) = (max, high, swap_max);
        memory.swap_current = Some(Bytes(20 * MIB));
        let mut sample = sample(1, 200, &[]);
        let mut node = sample.node.memory.unwrap_or_default();
        node.swap_free = Bytes(free * MIB);
        sample.node.memory = Some(node);
        let pod = cgroup(POD, 80, Limit::Max);
        sample.cgroups = [(CgroupId(3), pod.into()), (CgroupId(4), container.into())].into();
        let snapshot = Snapshot::between(None, &sample, &mut Averages::new(1));
        let pod = CgroupId(3);
        let got = Rooms::of(&snapshot).left(pod, &snapshot.scopes[&pod]).map(|bytes| bytes / MIB);
        assert_eq!(got, want, "{max:?} {high:?} {swap_max:?} {free}");
    }
}

proptest! {
    /// Whatever comes and goes, and however readings are thinned out, each that is kept is what was
    /// held then.
    #[test]
    fn readings_stay_with_their_moment(
        steps in prop::collection::vec((1u64..40, prop::collection::vec((0u64..6, 0u64..90), 0..6)), 1..120),
    ) {
        let mut standing = TakerStanding::default();
        let mut history: BTreeMap<Nanos, BTreeMap<CgroupId, u64>> = BTreeMap::new();
        let mut now = 1;
        let mut before: Option<Sample> = None;
        for (step, parties) in steps {
            now += step;
            let paths: Vec<_> =
                parties.iter().map(|(n, mib)| (*n, format!("/s/{n}"), *mib)).collect();
            let mut sample = sample(now, 100, &[]);
            for (n, path, mib) in paths {
                sample.cgroups.insert(CgroupId(n + 1), cgroup(&path, mib, Limit::Max).into());
            }
            let held = sample.cgroups.iter().map(|(id, group)| (*id, held(group).unwrap().0));
            history.insert(sample.at.boot, held.collect());
            let snapshot = Snapshot::between(None, &sample, &mut Averages::new(1));
            standing.update(before.as_ref(), &sample, &Workloads::default().parties(&snapshot));
            before = Some(sample);
            for (id, readings) in &standing.parties {
                prop_assert!(readings.len() <= standing.slots.len());
                let missing = standing.slots.len() - readings.len();
                for (reading, slot) in readings.iter().zip(standing.slots.iter().skip(missing)) {
                    prop_assert_eq!(Some(&reading.0), history[&slot.at].get(id));
                }
            }
            prop_assert!(standing.slots.len() <= 52);
        }
    }
}
