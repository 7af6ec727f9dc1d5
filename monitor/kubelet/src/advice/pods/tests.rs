use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::{Enforcement, Settings};
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Pod;

use super::*;
use crate::advice::tests::{MIB, sample};
use crate::advice::{Advice, Record, Tally};

const ALL: &str = "/kubepods.slice";
const LEAK: &str = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu1.slice";
const WEB: &str = "/kubepods.slice/kubepods-podu2.slice";

/// Two pods: web holds 20 MiB and uses half a CPU, leak the rest of `memory` MiB and of `cpu`, in
/// milliseconds so far.
fn node(second: u64, memory: u64, cpu: u64) -> Sample {
    let web = second * 500;
    let cgroups = [(ALL, memory, cpu), (LEAK, memory - 20, cpu - web), (WEB, 20, web)];
    let mut sample = sample(second, &cgroups, 500);
    let pod = |uid: &str, name: &str| Pod {
        uid: uid.into(),
        namespace: "shop".into(),
        name: name.into(),
        ..Pod::default()
    };
    let pods = [pod("u1", "leak"), pod("u2", "web")].map(|pod| (pod.uid.clone(), pod));
    sample.pods = Some(Arc::new(pods.into()));
    sample
}

fn limited(mut sample: Sample, limit: Limit) -> Sample {
    for cgroup in sample.cgroups.values_mut().filter(|one| &*one.path.0 == ALL) {
        Arc::make_mut(cgroup).memory.max = Some(limit);
    }
    sample
}

fn advice(settings: Settings, samples: impl IntoIterator<Item = Sample>) -> Advice {
    let mut record = Record::new(settings, Some(4));
    samples.into_iter().for_each(|sample| record.add(&sample));
    record.advice().unwrap()
}

fn of<'a>(advice: &'a Advice, limit: &str) -> &'a Reached {
    advice.pods.iter().find(|one| one.limit == limit).unwrap()
}

fn shares(all: &[crate::advice::Share]) -> Vec<String> {
    all.iter().map(|one| format!("{} {}", one.pod, one.amount)).collect()
}

#[test]
fn memory_near_a_limit() {
    let brief =
        |Tally { ticks, lasted, times, .. }: Tally| (ticks, lasted.0 / Nanos::SECOND.0, times);
    type Series<'a> = &'a [(u64, u64)];
    type Row<'a> = (Series<'a>, (u64, u64, u64), (u64, u64, u64), Option<(u64, u64)>);
    #[rustfmt::skip]
    let table: [Row<'_>; 8] = [
        // (second, MiB of all pods) with 100 MiB allowed,
        //     ticks, seconds and times above, the same from 95 on, the longest of these
        (&[(0, 50), (1, 94), (2, 60)],                               (0, 0, 0), (0, 0, 0), None),
        (&[(0, 50), (1, 95), (2, 100), (3, 80)],                     (0, 0, 0), (2, 2, 1), Some((0, 2))),
        (&[(0, 50), (1, 101), (2, 101), (3, 96), (4, 50)],           (2, 2, 1), (3, 3, 1), Some((0, 3))),
        (&[(0, 50), (1, 99), (2, 50), (3, 99), (4, 101), (5, 50)],   (1, 1, 1), (3, 3, 2), Some((2, 4))),
        (&[(0, 50), (1, 99), (2, 99), (3, 50), (4, 99)],             (0, 0, 0), (3, 3, 2), Some((0, 2))),
        (&[(0, 99), (1, 50)],                                        (0, 0, 0), (1, 0, 1), Some((0, 0))), // it began before the record
        (&[(0, 99), (1, 99), (100, 99), (101, 99)],                  (0, 0, 0), (4, 2, 2), Some((0, 1))), // a pause tells nothing
        (&[(0, 50), (1, 99), (2, 99)],                               (0, 0, 0), (2, 2, 1), Some((0, 2))), // to the end
    ];
    for (series, above, close, longest) in table {
        let ticks = series.iter().map(|(second, memory)| {
            limited(node(*second, *memory, second * 500), Limit::At(100 * MIB))
        });
        let advice = advice(Settings::default(), ticks);
        let met = of(&advice, "inForce").met.as_ref().unwrap();
        assert_eq!((brief(met.above), brief(met.close)), (above, close), "{series:?}");
        let seconds =
            met.longest.map(|span| [span.from, span.to].map(|at| at.boot.0 / Nanos::SECOND.0));
        assert_eq!(seconds.map(|[from, to]| (from, to)), longest, "{series:?}");
        let most = series.iter().map(|(_, memory)| *memory).max().unwrap();
        assert_eq!((met.ticks, met.most), (series.len() as u64, Quantity::bytes(most * MIB)));
        let excess = (most > 100).then(|| Quantity::bytes((most - 100) * MIB));
        assert_eq!(met.excess, excess, "{series:?}");
    }
}

#[test]
fn memory_of_whom() {
    let ticks = [(0, 50), (1, 60), (2, 97), (3, 99), (4, 30), (5, 96)];
    let ticks = ticks
        .map(|(second, memory)| limited(node(second, memory, second * 500), Limit::At(100 * MIB)));
    let found = advice(Settings::default(), ticks);
    let met = of(&found, "inForce").met.as_ref().unwrap();
    assert_eq!(met.at.boot, Nanos(3 * Nanos::SECOND.0), "when use was highest");
    assert_eq!(shares(&met.largest), ["shop/leak 79Mi", "shop/web 20Mi"]);
    assert_eq!(shares(&met.grew), ["shop/leak 39Mi"], "since the tick before it was close");
    // The whole node is the limit where nothing is reserved.
    let configured = of(&found, "configured");
    assert_eq!(configured.amount, Some(Quantity::bytes(1_000 * MIB)));
    let met = configured.met.as_ref().unwrap();
    assert_eq!((met.close.ticks, met.longest, shares(&met.largest)), (0, None, vec![]));
}

#[test]
fn memory_of_reservations() {
    let mib = |n: u64| [("memory".to_owned(), Quantity::bytes(n * MIB))].into();
    let mut settings = Settings::default();
    (settings.node.kube_reserved, settings.node.system_reserved) = (mib(600), mib(340));
    let ticks = || (0..10).map(|second| node(second, 40 + 5 * second, second * 500));
    let found = advice(settings.clone(), ticks());
    let configured = of(&found, "configured");
    assert_eq!(configured.amount, Some(Quantity::bytes(60 * MIB)));
    assert_eq!(configured.met.as_ref().unwrap().above.ticks, 5, "65 to 85");
    assert!(!found.pods.iter().any(|one| one.limit == "inForce"), "none was");
    // Pods that are not limited may have all of it.
    settings.node.enforce.remove(&Enforcement::Pods);
    assert_eq!(
        of(&advice(settings.clone(), ticks()), "configured").amount,
        Some(Quantity::bytes(1_000 * MIB))
    );
    settings.node.kube_reserved = mib(700);
    let refused = advice(settings, ticks());
    let Reached { amount, met, .. } = of(&refused, "configured");
    assert_eq!((amount, met), (&None, &None), "the kubelet would not start");
    let said = refused.problems.join("\n");
    assert!(said.contains("has a reservation of 1040Mi but capacity of 1000Mi"), "{said}");
}

#[test]
fn cpus_of_a_strict_set() {
    let of_settings = |reserved: Option<&str>, cpu: u64, is_strict: bool| {
        let mut settings = Settings::default();
        let node = &mut settings.node;
        node.reserved_cpus = reserved.map(|cpus| cpus.parse::<CpuSet>().unwrap());
        node.kube_reserved = [("cpu".to_owned(), Quantity::milli(cpu))].into();
        (node.static_cpus, node.strict_cpu_reservation) = (is_strict, is_strict);
        settings
    };
    type Row<'a> = (Option<&'a str>, u64, bool, Option<(&'a str, u64, Option<&'a str>)>, bool);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // reservedSystemCPUs, kubeReserved.cpu, strict,
        //     CPUs left to pods, ticks in which they used more, by how much; whether it is said to be loose
        (Some("0-1"), 500,   true,  Some(("2", 3, Some("1"))),    false),
        (Some("0-1"), 500,   false, Some(("2", 3, Some("1"))),    true),
        (None,        1_500, true,  Some(("2", 3, Some("1"))),    false),
        (Some("0"),   0,     true,  Some(("3", 0, None)),         false),
        (None,        1_500, false, None,                         false),
        (Some("0-9"), 0,     true,  Some(("unknown", 0, None)),   false), // refused
    ];
    // Three CPUs in seconds 3 to 5, one in others.
    let used = [0, 1_000, 2_000, 5_000, 8_000, 11_000, 12_000, 13_000];
    for (reserved, cpu, is_strict, want, is_loose) in table {
        let ticks = (0..).zip(used).map(|(second, cpu)| node(second, 50, cpu));
        let found = advice(of_settings(reserved, cpu, is_strict), ticks);
        let row = found.pods.iter().find(|one| one.limit == "strictCpus");
        let text = |amount: Option<Quantity>| amount.map(|amount| amount.to_string());
        let got = row.map(|one| {
            let met = one.met.as_ref();
            let above = met.map_or(0, |met| met.above.ticks);
            let left = text(one.amount).unwrap_or_else(|| "unknown".into());
            (left, above, text(met.and_then(|met| met.excess)))
        });
        let want =
            want.map(|(left, above, excess)| (left.to_owned(), above, excess.map(String::from)));
        assert_eq!(got, want, "{reserved:?} {cpu} {is_strict}");
        let said = found.problems.iter().any(|one| one.contains("is not strict"));
        assert_eq!(said, is_loose, "{reserved:?} {cpu} {is_strict}: {:?}", found.problems);
        let Some(met) = row.and_then(|one| one.met.as_ref()).filter(|met| met.close.ticks > 0)
        else {
            continue;
        };
        assert_eq!(shares(&met.largest), ["shop/leak 2500m", "shop/web 500m"]);
        assert_eq!((met.ticks, met.grew.len()), (7, 0), "the first tick has no rate");
    }
}

#[test]
fn unknown_is_not_zero() {
    let strict = || {
        let mut settings = Settings::default();
        settings.node.reserved_cpus = "0".parse().ok();
        (settings.node.static_cpus, settings.node.strict_cpu_reservation) = (true, true);
        settings
    };
    let without = |change: fn(&mut Sample)| {
        (0..5).map(move |second| {
            let mut sample = limited(node(second, 90, second * 500), Limit::At(100 * MIB));
            change(&mut sample);
            sample
        })
    };
    type Change = fn(&mut Sample);
    fn of_pods(sample: &mut Sample, change: fn(&mut Cgroup)) {
        let all = sample.cgroups.values_mut().filter(|one| &*one.path.0 == ALL);
        all.for_each(|cgroup| change(Arc::make_mut(cgroup)));
    }
    #[rustfmt::skip]
    let table: [(Change, &[&str], &str); 6] = [
        // what is not recorded; limits of which nothing is known; what is said
        (|_| (),                                                  &[],                                     ""),
        (|one| of_pods(one, |all| all.memory.current = None),     &["inForce", "configured"],              "is not recorded"),
        (|one| of_pods(one, |all| all.cpu.usage = None),          &["strictCpus"],                         "is not recorded"),
        (|one| one.node.memory = None,                            &["configured"],                         "is not recorded"),
        (|one| one.cgroups.clear(),                               &["configured", "strictCpus"],           "no cgroup of all pods"),
        (|one| of_pods(one, |all| all.memory.max = Some(Limit::Max)), &[],                                 ""),
    ];
    for (n, (change, unknown, said)) in table.into_iter().enumerate() {
        let found = advice(strict(), without(change));
        let missing = found.pods.iter().filter(|one| one.met.is_none());
        assert_eq!(missing.map(|one| one.limit).collect::<Vec<_>>(), unknown, "row {n}");
        let problems = found.problems.iter().filter(|one| one.contains("not known"));
        let problems: Vec<_> = problems.collect();
        assert_eq!(problems.is_empty(), said.is_empty(), "row {n}: {problems:?}");
        assert!(problems.iter().all(|one| one.contains(said)), "row {n}: {problems:?}");
    }
    // A tick that is not known ends what was close.
    let mut ticks: Vec<_> = without(|_| ()).collect();
    of_pods(&mut ticks[2], |all| all.memory.current = None);
    for tick in &mut ticks {
        of_pods(tick, |all| all.memory.max = Some(Limit::At(91 * MIB)));
    }
    let found = advice(Settings::default(), ticks);
    let met = of(&found, "inForce").met.as_ref().unwrap();
    assert_eq!((met.ticks, met.close.ticks, met.close.times), (4, 4, 2));
}
