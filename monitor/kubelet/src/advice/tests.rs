use super::*;
use isobar_core::model::cgroup::{Cgroup, CgroupId, MemoryStat};
use isobar_core::model::node::Meminfo;
use isobar_core::model::units::Micros;

const MIB: u64 = 1 << 20;

/// A node at `second`: each cgroup with its memory in MiB and its CPU time in milliseconds.
fn sample(second: u64, cgroups: &[(&str, u64, u64)], left: u64) -> Sample {
    let boot = Nanos(second * Nanos::SECOND.0);
    let mut sample = Sample { at: Moment { boot, wall: boot }, ..Sample::default() };
    let available = Bytes(left * MIB);
    sample.node.memory = Some(Meminfo { available, ..Meminfo::default() });
    for (id, (path, memory, cpu)) in (1..).zip(cgroups) {
        let mut one = Cgroup { path: CgroupPath((*path).into()), ..Cgroup::default() };
        one.memory.current = Some(Bytes(memory * MIB));
        one.memory.stat = Some(MemoryStat::default());
        one.cpu.usage = Some(Micros(cpu * 1_000));
        sample.cgroups.insert(CgroupId(id), one.into());
    }
    sample
}

#[test]
fn readings_belong_to_one_group_each() {
    type Row<'a> = (&'a [(&'a str, u64, u64)], Option<u64>, Option<u64>);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // cgroups, MiB of the kubelet and the runtime, MiB of the system
        (&[("/system.slice", 500, 0), ("/system.slice/kubelet.service", 100, 0), ("/kubepods.slice", 900, 0)], Some(100), Some(400)),
        (&[("/podruntime.slice", 300, 0), ("/podruntime.slice/kubelet.service", 100, 0), ("/init.scope", 5, 0)], Some(300), Some(5)),
        (&[("/kubelet.slice", 950, 0), ("/kubelet.slice/kubelet-kubepods.slice", 900, 0), ("/user.slice", 7, 0)], Some(50), Some(7)),
        (&[("/system.slice", 500, 0), ("/kubepods", 900, 0)], None, Some(500)),
        (&[("/user.slice", 10, 0), ("/user.slice/kubepods", 4, 0)], None, Some(6)),
        (&[("/", 10, 0)], None, None),
    ];
    for (cgroups, kube, system) in table {
        let (a, b) = Readings::new(None).of(&sample(1, cgroups, 0), None);
        let mib = |used: &Used| used.memory.map(|bytes| bytes.0 / MIB);
        assert_eq!((mib(&a), mib(&b)), (kube, system), "{cgroups:?}");
    }
    let configured = CgroupPath("/mine.slice".into());
    let cgroups =
        [("/mine.slice", 30, 0), ("/system.slice", 20, 0), ("/system.slice/kubelet.service", 9, 0)];
    let (kube, system) = Readings::new(Some(configured)).of(&sample(1, &cgroups, 0), None);
    assert_eq!((kube.memory, system.memory), (Some(Bytes(30 * MIB)), Some(Bytes(20 * MIB))));
}

#[test]
fn advice_holds_the_record() {
    let mut record = Record::new(None);
    for second in 0..200 {
        // A peak of four seconds in two hundred; the node loses 300 MiB within five seconds.
        let is_peak = (100..104).contains(&second);
        let kube = if is_peak { 400 } else { 200 };
        let left = 4_000 - 60 * second.clamp(50, 55);
        let cgroups = [
            ("/system.slice", kube + 100, second * 150),
            ("/system.slice/kubelet.service", kube, second * 100),
        ];
        record.add(&sample(second, &cgroups, left));
    }
    let configured = [("memory".to_owned(), Quantity::bytes(256 * MIB))].into();
    let advice = record.advice(&configured, &ResourceList::new()).unwrap();
    let text = |list: &ResourceList| {
        list.iter().map(|(name, amount)| format!("{name} {amount}")).collect::<Vec<_>>()
    };
    // Half again, because it is less than an hour; rounded up.
    assert_eq!((advice.margin, advice.covered), (50, Nanos(199 * Nanos::SECOND.0)));
    assert_eq!(text(&advice.kube_reserved), ["cpu 150m", "memory 608Mi"]);
    assert_eq!(text(&advice.system_reserved), ["cpu 80m", "memory 160Mi"]);
    assert_eq!(advice.threshold.map(|one| one.to_string()).as_deref(), Some("464Mi"));
    let met = advice.preview.iter().filter(|one| one.daemons == Daemons::Kube);
    let met: Vec<_> = met
        .map(|one| (one.limit, one.ticks, one.first.map(|at| at.boot.0 / Nanos::SECOND.0)))
        .collect();
    assert_eq!(
        met,
        [
            ("p95", 4, Some(100)),
            ("p99", 0, None),
            ("recommended", 0, None),
            ("configured", 4, Some(100))
        ]
    );
    assert_eq!(advice.preview[0].by, Some(CgroupPath("/system.slice/kubelet.service".into())));
    assert_eq!(advice.problems.len(), 1, "little record: {:?}", advice.problems);
}

#[test]
fn advice_of_pauses_and_nothing() {
    assert_eq!(Record::new(None).advice(&ResourceList::new(), &ResourceList::new()), None);
    let mut record = Record::new(None);
    // An hour passed unrecorded; another boot begins at 5.
    for second in [0, 1, 3_600, 3_601, 5, 6] {
        record.add(&sample(
            second,
            &[("/system.slice", 1, second * 1_000)],
            4_000 - second % 2_000,
        ));
    }
    let advice = record.advice(&ResourceList::new(), &ResourceList::new()).unwrap();
    assert_eq!((advice.ticks, advice.covered), (6, Nanos(3 * Nanos::SECOND.0)));
    assert_eq!(
        advice.fastest_loss,
        Some(Quantity::bytes(MIB)),
        "what is lost in a pause took longer"
    );
    assert_eq!(advice.groups[1].cpu.as_ref().unwrap().max.to_string(), "1");
}

#[test]
fn percentile_of_few_and_many() {
    let many: Vec<u64> = (1..=200).collect();
    #[rustfmt::skip]
    let table: [(&[u64], usize, Option<u64>); 6] = [
        // values, share, value
        (&[],       50,  None),
        (&[7],      50,  Some(7)),
        (&[1, 2],   50,  Some(1)),
        (&[1, 2],   95,  Some(2)),
        (&many,     99,  Some(198)),
        (&many,     100, Some(200)),
    ];
    for (values, share, want) in table {
        assert_eq!(percentile(values, share), want, "{share} of {}", values.len());
    }
}
