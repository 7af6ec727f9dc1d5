//! Who took memory is told from who has stopped, and from noise.

use super::*;

const SECOND: &str = "/kubepods/besteffort/podu2";

/// The takers, first to go first, of parties that hold so many MiB at each of these seconds.
fn told(seconds: u64, held: impl Fn(u64) -> Vec<(&'static str, u64)>) -> Vec<String> {
    let samples = (0..=seconds).map(|t| {
        let mut groups = held(t);
        let used = groups.iter().map(|(_, mib)| mib).sum();
        groups.insert(0, ("/kubepods", 0));
        sample(t + 1, used, &groups)
    });
    let (_, got, _) = takers(&samples.collect::<Vec<_>>());
    got.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn loss_names_last_who_has_stopped() {
    // What a pod and the daemon hold at a second, in MiB.
    type Row = (&'static str, u64, fn(u64) -> (u64, u64), &'static [&'static str]);
    #[rustfmt::skip]
    let table: [Row; 4] = [
        // what happens, seconds watched; takers, first to go first
        ("it has warmed up beside a leak",  14, |t| (10 + 20 * t.min(9), 10 + 8 * t), &[DAEMON, "u1"]),
        ("it still warms up",               14, |t| (10 + 20 * t.min(14), 10 + 8 * t), &["u1", DAEMON]),
        ("both have stopped",               14, |t| (10 + 20 * t.min(9), 10 + 8 * t.min(9)), &["u1", DAEMON]),
        // Watched for longer, it is told from the whole time.
        ("it takes much at times, and waits", 40, |t| (10 + 40 * (t / 4), 10 + 8 * (t % 4)), &["u1"]),
    ];
    for (what, seconds, held, want) in table {
        let got = told(seconds, |t| {
            let (pod, daemon) = held(t);
            vec![(POD, pod), (DAEMON, daemon)]
        });
        assert_eq!(got, want, "{what}");
    }
}

#[test]
fn loss_does_not_name_who_goes_up_and_down() {
    // Up in ten seconds and down in ten, to so many MiB each time.
    fn swings(t: u64, most: u64) -> u64 {
        10 + most * (t % 20).min(20 - t % 20) / 10
    }
    // What a pod and the daemon hold at a second, in MiB.
    type Row = (&'static str, fn(u64) -> (u64, u64), &'static [&'static str]);
    #[rustfmt::skip]
    let table: [Row; 8] = [
        ("a pod that goes up and down, beside a leak",  |t| (swings(t, 300), 10 + 2 * t),                   &[DAEMON]),
        ("it rests in between",                         |t| (swings(t.max(40), 300), 10 + 2 * t),           &[DAEMON]),
        ("it goes higher than before",                  |t| (swings(t, 200 + t), 10 + 2 * t),               &[DAEMON, "u1"]),
        ("it was never as high before",                 |t| (swings(t, if t < 100 { 20 } else { 300 }), 10 + t), &["u1", DAEMON]),
        ("no other party takes anything",               |t| (swings(t, 300), 10),                           &["u1"]),
        ("the other one takes little",                  |t| (swings(t, 300), 10 + t / 2),                   &[DAEMON]),
        ("the other one takes too little to matter",    |t| (swings(t, 300), 10 + t / 20),                  &["u1"]),
        ("it gives back less than a quarter",           |t| (300 + swings(t, 90), 10 + t / 5),              &[DAEMON]),
    ];
    for (what, held, want) in table {
        let got = told(110, |t| {
            let (pod, daemon) = held(t);
            vec![(POD, pod), (DAEMON, daemon)]
        });
        assert_eq!(got, want, "{what}");
    }
}

#[test]
fn loss_names_those_who_go_up_and_down_where_no_other_is_a_cause() {
    // By 280 MiB, each fourteen seconds, so many seconds later.
    fn swings(t: u64, late: u64) -> u64 {
        let t = t + late;
        10 + 40 * (t % 14).min(14 - t % 14)
    }
    // What two pods and the daemon hold at a second, in MiB.
    type Held = fn(u64) -> [u64; 3];
    #[rustfmt::skip]
    let table: [(&str, u64, Held, &[&str]); 3] = [
        ("two take turns, beside a leak", 119, |t| [swings(t, 0), swings(t, 7), 10 + 2 * t], &[DAEMON]),
        // Together they never held so much.
        ("both go up at once",            119, |t| [swings(t, 0), swings(t, if t < 112 { 7 } else { 0 }), 10 + t], &["u1", DAEMON, "u2"]),
        // What it took ten minutes ago is no cause.
        ("a service has started",         903, |t| [swings(t, 0), 0, 10 + t.min(200)], &["u1"]),
    ];
    for (what, seconds, held, want) in table {
        let got = told(seconds, |t| {
            let [one, two, daemon] = held(t);
            vec![(POD, one), (SECOND, two), (DAEMON, daemon)]
        });
        assert_eq!(got, want, "{what}");
    }
}

/// There was no room for it: memory was short each time.
#[test]
fn loss_names_who_goes_up_and_down_where_memory_was_short_before() {
    use crate::model::decision::{Trigger, made};
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, Signal, Threshold};
    let value = Amount::Quantity(Quantity::bytes(MIB));
    let after = |signal, grace| {
        made::met(Trigger::Eviction(Threshold { signal, value, grace, min_reclaim: None }))
    };
    let met = |signal| Some(after(signal, Nanos(0)));
    #[rustfmt::skip]
    let table = [
        (None,                                           DAEMON),
        (met(Signal::MemoryAvailable),                   "u1"),
        (Some(after(Signal::MemoryAvailable, Nanos(9))), DAEMON), // there is room beyond a soft one
        (met(Signal::AllocatableMemoryAvailable),        DAEMON),
        (met(Signal::NodefsAvailable),                   DAEMON),
    ];
    for (short, want) in table {
        let mut standing = TakerStanding::default();
        let (mut averages, mut before) = (Averages::new(1), None);
        let (mut last, mut snapshot) = (Sample::default(), Snapshot::default());
        for t in 0..=110 {
            let pod = 10 + 30 * (t % 20).min(20 - t % 20);
            let groups = [("/kubepods", 0), (POD, pod), (DAEMON, 10 + t / 2)];
            last = sample(t + 1, 20 + pod + t / 2, &groups);
            snapshot = Snapshot::between(None, &last, &mut averages);
            standing.update(before.as_ref(), &last, &Workloads::default().parties(&snapshot));
            if pod > 200 {
                standing.note_short(short.as_slice());
            }
            before = Some(last.clone());
        }
        let lost = standing.loss(ScopeName::System, Counts::Held, &last, &snapshot).unwrap();
        let told = lost.told(&snapshot, &last, 1, |_| false, |_, _| false);
        assert_eq!(told.takers[0].full_name(), want, "{short:?}");
    }
}

#[test]
fn loss_names_what_grows_beside_a_heap() {
    /// A heap that fills in so many seconds, from so many KiB by so many, and is collected.
    fn heap(t: u64, least: u64, by: u64, seconds: u64) -> u64 {
        least + by * (t % seconds) / seconds
    }
    // What a pod, another pod and the daemon hold at a second, in KiB.
    type Held = fn(u64) -> [u64; 3];
    #[rustfmt::skip]
    let table: [(&str, u64, Held, &[&str]); 5] = [
        ("a heap that gives back a sixth, beside a drip", 2_999, |t| [heap(t, 125_000, 25_000, 60), 0, 9_000 + 20 * t],  &[DAEMON]),
        ("it takes two minutes",                          2_999, |t| [heap(t, 125_000, 25_000, 120), 0, 9_000 + 20 * t], &[DAEMON]),
        ("the drip takes an hour",                        3_599, |t| [heap(t, 125_000, 25_000, 60), 0, 9_000 + 5 * t],   &[DAEMON]),
        ("many that go up and down a little",             2_999, |t| [heap(t, 50_000, 6_000, 40), heap(t + 20, 50_000, 6_000, 40), 9_000 + 20 * t], &[DAEMON]),
        // It leaks: each collection leaves more. The other pod came two minutes ago.
        ("a heap that leaks, and a pod that has started", 599,   |t| [heap(t, 50_000 + 250 * t, 100_000, 40), if t < 480 { 0 } else { 37_000 }, 9_000], &["u1", "u2"]),
    ];
    for (what, seconds, held, want) in table {
        let samples = (0..=seconds).map(|t| {
            let all = held(t);
            let names = ["/kubepods", POD, SECOND, DAEMON];
            let groups: Vec<_> = names.into_iter().zip([0].into_iter().chain(all)).collect();
            let mut sample = sample(t + 1, 0, &groups);
            for cgroup in sample.cgroups.values_mut() {
                let stat = Arc::make_mut(cgroup).memory.stat.as_mut().unwrap();
                *stat = MemoryStat { anon: Bytes(stat.anon.0 >> 10), ..MemoryStat::default() };
            }
            let node = sample.node.memory.as_mut().unwrap();
            node.free = Bytes(node.total.0 - all.iter().sum::<u64>() * 1_024);
            node.available = node.free;
            sample
        });
        let (_, got, _) = takers(&samples.collect::<Vec<_>>());
        let names: Vec<_> = got.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, want, "{what}: {got:?}");
    }
}

#[test]
fn loss_tells_a_slow_leak_from_noise() {
    #[rustfmt::skip]
    let table = [
        // KiB of 1 GiB that the pod takes in ten seconds; whether that is a cause after so many seconds
        (10,  300,   false),
        (10,  3_000, false),
        (30,  300,   false),
        (30,  3_000, true),
        (300, 300,   true),
    ];
    for (each, seconds, want) in table {
        let samples = (0..=seconds / 10).map(|n| {
            let held = 100 + each * n / 1_024;
            sample(n * 10 + 1, held, &[("/kubepods", 0), (POD, held)])
        });
        let samples: Vec<_> = samples.collect();
        let mut standing = TakerStanding::default();
        let snapshot = take_in(&mut standing, &samples);
        let sample = samples.last().unwrap();
        let lost = standing.loss(ScopeName::System, Counts::Held, sample, &snapshot).unwrap();
        assert_eq!(lost.is_established, want, "{each} KiB for {seconds} s: {lost:?}");
    }
}

#[test]
fn loss_looks_back_no_further_than_to_a_cause() {
    for (each, want) in [(30, 2_100), (300, 300)] {
        // The pod takes so many KiB in ten seconds, and the daemon started 46 minutes ago.
        let samples = (0..=300).map(|n| {
            let (pod, daemon) = (100 + each * n / 1_024, if n < 20 { 0 } else { 300 });
            let groups = [("/kubepods", 0), (POD, pod), (DAEMON, daemon)];
            sample(n * 10 + 1, pod + daemon, &groups)
        });
        let (over, got, _) = takers(&samples.collect::<Vec<_>>());
        let names: Vec<_> = got.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["u1"], "{each}: {got:?}");
        assert!(over.abs_diff(want) <= 500, "{each}: {over} s");
    }
}
