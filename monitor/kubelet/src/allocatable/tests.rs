use super::*;
use crate::enforce::Enforced;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::fraction::Fraction;
use isobar_core::model::settings::Eviction;
use isobar_core::model::threshold::Threshold;
use isobar_core::model::units::Nanos;

/// `cpu=10 memory=32Gi`, as a list.
fn list(text: &str) -> ResourceList {
    let pair = |pair: &str| {
        let (name, amount) = pair.split_once('=').unwrap();
        (name.to_owned(), amount.parse().unwrap())
    };
    text.split_whitespace().map(pair).collect()
}

/// A hard threshold, `memory.available=100Mi`, or several.
fn hard(text: &str) -> Vec<Threshold> {
    let one = |pair: &str| {
        let (signal, value) = pair.split_once('=').unwrap();
        let value = match value.strip_suffix('%') {
            Some(percent) => {
                Amount::Percentage(Fraction::of_percent(percent.parse().unwrap()).unwrap())
            }
            None => Amount::Quantity(value.parse().unwrap()),
        };
        let signal = Signal::of(signal).unwrap();
        Threshold { signal, value, grace: Nanos(0), min_reclaim: None }
    };
    text.split_whitespace().map(one).collect()
}

fn settings(kube: &str, system: &str, thresholds: &str) -> Settings {
    let eviction = Eviction { thresholds: hard(thresholds), ..Eviction::default() };
    let node = Node { kube_reserved: list(kube), system_reserved: list(system), ..Node::default() };
    Settings { eviction, node, ..Settings::default() }
}

fn pods_may(settings: &Settings, capacity: &ResourceList) -> Vec<Option<u64>> {
    let reservation = Reservation::of(settings, capacity);
    let pods = Enforced::of(&settings.node, capacity, &reservation).pods;
    vec![pods.cpu_shares, pods.memory_max]
}

#[test]
fn allocatable_of_reservations() {
    let ten = "cpu=10 memory=10Gi";
    let mi = |n: u64| n << 20;
    #[rustfmt::skip]
    let table = [
        // row, kube, system, hard, capacity, reserved, shares and bytes of kubepods
        ("A1", "cpu=100m memory=100Mi", "cpu=50m memory=50Mi", "", ten, "cpu=150m memory=150Mi", (10_086, mi(10_090))),
        ("A2", "cpu=100m memory=100Mi", "cpu=50m memory=50Mi", "memory.available=100Mi", ten, "cpu=150m memory=250Mi", (10_086, mi(10_090))),
        ("A4", "", "", "", ten, "", (10_240, mi(10_240))),
        ("A5", "memory=100Mi", "cpu=50m memory=50Mi", "", ten, "cpu=50m memory=150Mi", (10_188, mi(10_090))),
        ("A6", "cpu=50m memory=100Mi", "memory=50Mi", "", ten, "cpu=50m memory=150Mi", (10_188, mi(10_090))),
        ("A14", "cpu=6", "cpu=6", "", ten, "cpu=12", (2, mi(10_240))),
    ];
    for (row, kube, system, hard, capacity, reserved, (shares, memory)) in table {
        let (settings, capacity) = (settings(kube, system, hard), list(capacity));
        let reservation = Reservation::of(&settings, &capacity);
        assert_eq!(reservation.total(), list(reserved), "{row}");
        let want = vec![Some(shares), Some(memory)];
        assert_eq!(pods_may(&settings, &capacity), want, "{row}");
    }
}

#[test]
fn allocatable_of_disk() {
    #[rustfmt::skip]
    let table = [
        // row, kube, hard, capacity, reserved, allocatable
        ("A9",  "100Mi", "",                         "10Gi",  104_857_600, 10_632_560_640),
        ("A10", "100Mi", "nodefs.available=100Mi",   "10Gi",  209_715_200, 10_527_703_040),
        ("A11", "150Mi", "nodefs.available=5%",      "10Gi",  694_157_320, 10_043_260_920),
        ("A16", "0",     "nodefs.available=10%",     "100Gi", 10_737_418_400_u64, 96_636_764_000_u64),
        ("the last of several wins",
                "0",     "nodefs.available=1Gi nodefs.available=1Mi", "10Gi", 1_048_576, 10_736_369_664),
        ("no other signal counts",
                "0",     "imagefs.available=1Gi pid.available=10% nodefs.inodesFree=5%", "10Gi", 0, 10_737_418_240),
    ];
    for (row, kube, hard, capacity, reserved, left) in table {
        let settings = settings(&format!("ephemeral-storage={kube}"), "", hard);
        let capacity = list(&format!("ephemeral-storage={capacity}"));
        let reservation = Reservation::of(&settings, &capacity);
        let got = reservation.total()[EPHEMERAL_STORAGE].to_u64();
        assert_eq!(got, reserved, "{row}");
        let got = reservation.allocatable(&capacity)[EPHEMERAL_STORAGE].to_u64();
        assert_eq!(got, left, "{row}");
    }
}

#[test]
fn allocatable_is_not_reduced_by_soft_thresholds() {
    #[rustfmt::skip]
    let table = [
        // thresholds without a grace period, the signal of the soft one, reserved
        ("memory.available=1Gi",                          Signal::NodefsAvailable, "memory=1Gi"),
        ("memory.available=1Gi",                          Signal::MemoryAvailable, ""),
        ("memory.available=1Gi memory.available=2Gi",     Signal::MemoryAvailable, "memory=1Gi"),
        ("nodefs.available=1Gi memory.available=2Gi",     Signal::NodefsAvailable, "memory=2Gi"),
    ];
    for (thresholds, soft, reserved) in table {
        let mut settings = settings("", "", thresholds);
        settings.eviction.soft_at_once = vec![soft];
        let capacity = list("memory=10Gi ephemeral-storage=10Gi");
        let got = Reservation::of(&settings, &capacity).total();
        assert_eq!(got, list(reserved), "{thresholds} {soft}");
    }
}

#[test]
fn allocatable_status_and_limits() {
    let hard = "memory.available=100Mi";
    #[rustfmt::skip]
    let table = [
        // row, capacity, allocatable memory, printed, memory.max of kubepods
        ("A13", "memory=32Gi",                                       31_033_655_296, "29596Mi",  31_138_512_896),
        ("huge pages", "memory=32Gi hugepages-2Mi=1Gi hugepages-1Gi=2Gi", 27_812_429_824, "26524Mi", 31_138_512_896),
        ("more huge pages than memory", "memory=32Gi hugepages-1Gi=40Gi", 0, "0", 31_138_512_896_u64),
    ];
    for (row, capacity, left, printed, max) in table {
        let (settings, capacity) = (settings("memory=2Gi", "memory=1Gi", hard), list(capacity));
        let got = Reservation::of(&settings, &capacity).allocatable(&capacity)[MEMORY];
        assert_eq!((got.to_u64(), got.to_string().as_str()), (left, printed), "{row}");
        assert_eq!(pods_may(&settings, &capacity), [None, Some(max)], "{row}");
    }
}

#[test]
fn allocatable_refuses_overcommit() {
    let cpu = "Resource \"cpu\" has a reservation of 12 but capacity of 10. Expected capacity >= \
               reservation.";
    let memory = "Resource \"memory\" has a reservation of 22Gi but capacity of 11Gi. Expected \
                  capacity >= reservation.";
    #[rustfmt::skip]
    let table = [
        // row, kube, system, hard, capacity, what is refused
        ("A8",  "cpu=5 memory=10Gi", "cpu=5 memory=10Gi", "memory.available=2Gi", "cpu=10 memory=11Gi", vec![memory]),
        ("A14", "cpu=6",             "cpu=6",             "",                     "cpu=10",             vec![cpu]),
        ("both", "cpu=6 memory=10Gi", "cpu=6 memory=10Gi", "memory.available=2Gi", "cpu=10 memory=11Gi", vec![cpu, memory]),
        ("all of it", "cpu=10",      "",                  "",                     "cpu=10",             vec![]),
        ("unknown capacity", "pid=9", "",                 "",                     "cpu=10",             vec![]),
    ];
    for (row, kube, system, hard, capacity, refused) in table {
        let capacity = list(capacity);
        let got = Reservation::of(&settings(kube, system, hard), &capacity).refusal(&capacity);
        let want = (!refused.is_empty())
            .then(|| format!("invalid Node Allocatable configuration. {}", refused.join(" ")));
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn allocatable_reserved_cpus() {
    let mut settings = settings("cpu=1 memory=1Gi", "cpu=500m pid=100", "");
    settings.node.reserved_cpus = Some("0-1,8".parse::<CpuSet>().unwrap());
    let reservation = Reservation::of(&settings, &list("cpu=16"));
    assert_eq!(reservation.kube, list("memory=1Gi"));
    assert_eq!(reservation.system, list("cpu=3 pid=100"));
    assert_eq!(reservation.allocatable(&list("cpu=16")), list("cpu=13"));
}

#[test]
fn allocatable_pids() {
    let (settings, capacity) = (settings("pid=1000", "pid=24", ""), list("pid=32768 pods=110"));
    let reservation = Reservation::of(&settings, &capacity);
    assert_eq!(reservation.allocatable(&capacity), list("pods=110"));
    let enforced = Enforced::of(&settings.node, &capacity, &reservation);
    assert_eq!(enforced.pods.pids_max, Some(31_744));
}

#[test]
fn allocatable_thresholds_as_amounts() {
    let hard = "memory.available=10% nodefs.available=10% imagefs.available=15% \
                nodefs.inodesFree=5% pid.available=10% allocatableMemory.available=10%";
    let settings = settings("", "", hard);
    let known = signal_capacities(&list("memory=32Gi pid=1000"));
    let got = hard_thresholds(&settings, &known);
    let got: Vec<_> = got.iter().map(|(name, value)| format!("{name}<{value}")).collect();
    let want = [
        "imagefs.available<15%",
        "memory.available<3435973888",
        "nodefs.available<10%",
        "nodefs.inodesFree<5%",
        "pid.available<100",
    ];
    assert_eq!(got, want);
}
