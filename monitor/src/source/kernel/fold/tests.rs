use super::*;

const POD: u64 = 10;
const LEFT: u64 = 11;
const RIGHT: u64 = 12;

fn cpu(last: u64) -> Cpu {
    Cpu { last, last_switch: last, switches: 1, idle: 1, ..Cpu::default() }
}

/// A pod with two containers on one CPU.
fn maps(left: Group, right: Group, pod: Group) -> Maps {
    let below = |group: Group| Group { parent: POD, ..group };
    Maps {
        cpus: vec![cpu(1_000)],
        groups: BTreeMap::from([
            (POD, vec![(0, Group { parent: 1, ..pod })]),
            (LEFT, vec![(0, below(left))]),
            (RIGHT, vec![(0, below(right))]),
        ]),
        has_unions: true,
        ..Maps::default()
    }
}

fn union(stalls: &KernelStalls, id: u64) -> (u64, u64) {
    let cpu = stalls.groups[&CgroupId(id)].cpus[0];
    (cpu.contention.0, cpu.nonidle.0)
}

#[test]
fn fold_adds_fast_parts_to_every_ancestor() {
    let left = Group { slow: 100, fast: 7, run: 50, both: 20, fast_both: 3, ..Group::default() };
    let right = Group { fast: 5, run: 30, wait: 5, n_waits: 1, ..Group::default() };
    let pod = Group { slow: 120, both: 40, wait: 0, ..Group::default() };
    let stalls = CounterTree::default().fold(&maps(left, right, pod), |_| true);
    // contention = slow + fast below; nonidle = contention + run below - what is in both.
    assert_eq!(union(&stalls, LEFT), (107, 107 + 50 - 20 - 3));
    assert_eq!(union(&stalls, RIGHT), (5, 35));
    assert_eq!(union(&stalls, POD), (120 + 12, 132 + 80 - 40 - 3));
    assert_eq!(stalls.groups[&CgroupId(POD)].wait, Nanos(5));
}

#[test]
fn fold_tells_what_has_not_changed_as_the_same() {
    let mut tree = CounterTree::default();
    let slow = |slow| Group { slow, ..Group::default() };
    let before = tree.fold(&maps(slow(9), slow(5), slow(0)), |_| true);
    let after = tree.fold(&maps(slow(9), slow(6), slow(0)), |_| true);
    let is_same = |id| Arc::ptr_eq(&before.groups[&CgroupId(id)], &after.groups[&CgroupId(id)]);
    assert_eq!([LEFT, RIGHT].map(is_same), [true, false]);
    assert_eq!(union(&after, RIGHT).0, 6);
}

#[test]
fn fold_keeps_counters_of_removed_cgroups() {
    let mut counters = CounterTree::default();
    let left = Group { fast: 7, run: 50, wait: 9, n_waits: 2, ..Group::default() };
    let mut before = maps(left, Group::default(), Group::default());
    let mut stalled = Memory::default();
    stalled.time[isobar_ebpf::Cause::Global as usize] = 44;
    stalled.count[isobar_ebpf::Cause::Global as usize] = 1;
    before.memory.insert(LEFT, stalled);
    let alive = counters.fold(&before, |_| true);
    counters.remove_all(&BTreeSet::from([LEFT]), &before);
    let mut after = before.clone();
    after.groups.remove(&LEFT);
    after.memory.clear();
    let dead = counters.fold(&after, |id| id != LEFT);
    assert!(!dead.groups.contains_key(&CgroupId(LEFT)));
    let (then, now) = (&alive.groups[&CgroupId(POD)], &dead.groups[&CgroupId(POD)]);
    assert_eq!(then, now, "the pod's own counters must not run backwards");
    assert_eq!(now.memory.causes[&MemoryCause::Global].time, Nanos(44));
}

#[test]
fn remove_all_passes_counters_of_a_whole_tree_to_the_root() {
    const ROOT: u64 = 1;
    let mut counters = CounterTree::default();
    let left = Group { wait: 9, n_waits: 2, ..Group::default() };
    let mut before = maps(left, Group::default(), Group::default());
    before.groups.insert(ROOT, vec![(0, Group::default())]);
    let alive = counters.fold(&before, |_| true);
    assert_eq!(alive.groups[&CgroupId(ROOT)].wait, Nanos(9));
    let mut late = counters.clone();
    counters.remove_all(&BTreeSet::from([POD, LEFT, RIGHT]), &before);
    let mut after = before.clone();
    after.groups.retain(|id, _| *id == ROOT);
    // One that is found to be gone only by what it keeps of others.
    late.remove_all(&BTreeSet::from([LEFT, RIGHT]), &before);
    assert_eq!(late.heirs().collect::<Vec<_>>(), [POD]);
    late.remove_all(&BTreeSet::from([POD]), &after);
    assert_eq!(late.heirs().collect::<Vec<_>>(), [ROOT]);
    assert_eq!(late.fold(&after, |id| id == ROOT).groups[&CgroupId(ROOT)].wait, Nanos(9));
    let dead = counters.fold(&after, |id| id == ROOT);
    assert_eq!(dead.groups[&CgroupId(ROOT)].wait, Nanos(9), "nothing runs backwards");
}

#[test]
fn fold_counts_open_intervals_until_now() {
    let left = Group { slow: 10, waiting: 1, last: 900, ..Group::default() };
    let mut open = maps(left, Group { run: 1, ..Group::default() }, Group::default());
    open.cpus[0] = Cpu {
        last: 800,
        last_switch: 800,
        switches: 5,
        waiters: 1,
        current: RIGHT,
        pending_group: RIGHT,
        pending_run: 20,
        contention: 3,
        nonidle: 4,
        ..Cpu::default()
    };
    open.cpus.push(cpu(1_000));
    // On the second CPU none of them has an entry.
    let stalls = CounterTree::default().fold(&open, |_| true);
    assert_eq!(union(&stalls, LEFT), (110, 110));
    assert_eq!(union(&stalls, RIGHT), (0, 1 + 20 + 200));
    assert_eq!(stalls.cpus[0].contention, Nanos(203));
    assert_eq!(stalls.cpus[0].nonidle, Nanos(204));
    // A `waiting` from before the last time without waiting tasks is stale.
    open.cpus[0].uncontended_at = 901;
    assert_eq!(union(&CounterTree::default().fold(&open, |_| true), LEFT), (10, 10));
}

#[test]
fn fold_counts_the_open_memory_stall() {
    let mut memory = Memory::default();
    memory.unions[ANY] = Open { open: 1, sum: 0u64.wrapping_sub(400) };
    memory.unions[SHORTAGE] = Open { open: 0, sum: 70 };
    let maps =
        Maps { memory: [(NODE, memory), (LEFT, memory)].into(), now: 1_000, ..Maps::default() };
    let stalls = CounterTree::default().fold(&maps, |_| true);
    assert_eq!((stalls.memory.any, stalls.memory.shortage), (Nanos(600), Nanos(70)));
    assert_eq!(stalls.groups[&CgroupId(LEFT)].memory.any, Nanos(600));
    assert!(stalls.groups[&CgroupId(LEFT)].cpus.is_empty(), "no run queue, no union");
}

#[test]
fn cpu_stall_counts_io_wait_of_online_cpus_alone() {
    let sleeping = Cpu { iowait: 1, nonidle: 4, ..cpu(400) };
    #[rustfmt::skip]
    let table = [
        // offline, nonidle of CPU 0 at 1,000, why
        (vec![],  604, "a task that fell asleep for IO may still wake up there"),
        (vec![1], 604, "another CPU is offline"),
        (vec![0], 4,   "no switch will ever end the interval"),
    ];
    for (offline, want, why) in table {
        let cpus = vec![sleeping, cpu(1_000)];
        let maps = Maps { cpus, offline: offline.into_iter().collect(), ..Maps::default() };
        let stalls = CounterTree::default().fold(&maps, |_| true);
        assert_eq!(stalls.cpus[0].nonidle, Nanos(want), "{why}");
    }
}

#[test]
fn length_goes_by_the_sum_alone_where_both_were_read_apart() {
    let seconds = |n: i64| (n * 1_000_000_000).cast_unsigned();
    let (none, below) = (0, 0_u64.wrapping_sub(1));
    #[rustfmt::skip]
    let table = [
        // open, sum, length at 1,000 s
        (none,  seconds(70),         seconds(70)),
        (1,     seconds(70 - 900),   seconds(170)),
        (2,     seconds(70 - 900),   seconds(170)),
        (below, seconds(70),         seconds(70)),  // two CPUs closed the last interval at once
        (1,     seconds(70),         seconds(70)),  // opened between the two readings, or closed
        (none,  seconds(70 - 900),   seconds(170)), // closed between the two readings
        (1,     seconds(70 - 1_900), seconds(170)), // opened anew before the end of the last was added
        (none,  below,               0),            // closed by the clock of another CPU
        (1,     seconds(-1_000) + 5, 5),
    ];
    for (open, sum, want) in table {
        let got = length(Open { open, sum }, seconds(1_000));
        assert_eq!(got, Nanos(want), "{open} {}", sum.cast_signed());
    }
}

#[test]
fn fold_maps_each_cause_to_its_number() {
    use isobar_ebpf::Cause;
    #[rustfmt::skip]
    let table = [
        // in the kernel, here
        (Cause::OwnLimit,         MemoryCause::OwnLimit),
        (Cause::OwnHigh,          MemoryCause::OwnHigh),
        (Cause::AncestorLimit,    MemoryCause::AncestorLimit),
        (Cause::AllocatableLimit, MemoryCause::AllocatableLimit),
        (Cause::SomeLimit,        MemoryCause::SomeLimit),
        (Cause::Global,           MemoryCause::Global),
        (Cause::Compaction,       MemoryCause::Compaction),
        (Cause::Refault,          MemoryCause::Refault),
        (Cause::SwapIn,           MemoryCause::SwapIn),
        (Cause::KernelThread,     MemoryCause::KernelThread),
        (Cause::Other,            MemoryCause::Other),
    ];
    assert_eq!(table.map(|(_, here)| here), MemoryCause::ALL);
    for (kernel, here) in table {
        let slot = kernel as usize;
        assert!(slot < ANY, "{here:?} would be taken for a union of several");
        let mut memory = Memory::default();
        (memory.time[slot], memory.count[slot]) = (5, 1);
        memory.unions[slot].sum = 3;
        let maps = Maps { memory: [(NODE, memory), (LEFT, memory)].into(), ..Maps::default() };
        let stalls = CounterTree::default().fold(&maps, |_| true);
        let stall = CauseStall { union: Nanos(3), time: Nanos(5), count: 1 };
        let want = BTreeMap::from([(here, stall)]);
        assert_eq!(stalls.memory.causes, want, "of the node: {kernel:?}");
        assert_eq!(stalls.groups[&CgroupId(LEFT)].memory.causes, want, "of a cgroup: {kernel:?}");
    }
}

#[test]
fn fold_ends_on_circular_parents() {
    let mut counters = CounterTree::default();
    counters.set_parent(LEFT, RIGHT);
    counters.set_parent(RIGHT, LEFT);
    let one = Group { wait: 1, ..Group::default() };
    let maps = Maps {
        cpus: vec![cpu(1)],
        groups: BTreeMap::from([(LEFT, vec![(0, one)])]),
        has_unions: true,
        ..Maps::default()
    };
    assert!(counters.fold(&maps, |_| true).groups.contains_key(&CgroupId(LEFT)));
}

#[test]
fn fold_reaches_the_root_from_any_depth() {
    const DEEPEST: u64 = 100;
    let mut counters = CounterTree::default();
    (2..=DEEPEST).for_each(|id| counters.set_parent(id, id - 1));
    let own = Group { fast: 7, wait: 9, n_waits: 2, waiting: 1, last: 900, ..Group::default() };
    let root = Group { waiting: 1, last: 900, ..Group::default() };
    let mut throttled = [0; LEVELS];
    throttled[LEVELS - 1] = 5;
    let maps = Maps {
        cpus: vec![Cpu { idle: 0, current: DEEPEST, ..cpu(1_000) }],
        groups: BTreeMap::from([
            (1, vec![(0, root)]),
            (DEEPEST, vec![(0, Group { throttled, ..own })]),
        ]),
        memory: [(DEEPEST, Memory { count: [3; SLOTS], ..Memory::default() })].into(),
        has_unions: true,
        ..Maps::default()
    };
    let stalls = counters.fold(&maps, |_| true);
    let sum = |id| {
        let group = &stalls.groups[&CgroupId(id)];
        (group.wait, group.memory.causes[&MemoryCause::Global].count)
    };
    assert_eq!(sum(1), (Nanos(9), 3));
    assert_eq!(sum(50), sum(1));
    // All of the time until now is waited, and run by the deepest.
    assert_eq!(union(&stalls, 1), (100 + 7, 7));
    let throttled = |id| stalls.groups[&CgroupId(id)].throttled_own.0;
    assert_eq!([DEEPEST, DEEPEST - 6, DEEPEST - 7, 1].map(throttled), [0, 0, 5, 5]);
}

#[test]
fn fold_counts_quotas_at_or_below_a_level_as_its_own() {
    let mut throttled = [0; LEVELS];
    (throttled[0], throttled[1], throttled[2]) = (1, 20, 300);
    let left = Group { throttled, ..Group::default() };
    let mut counters = CounterTree::default();
    let before = maps(left, Group::default(), Group::default());
    let split = |stalls: &KernelStalls, id: u64| {
        let group = &stalls.groups[&CgroupId(id)];
        (group.throttled_own.0, group.throttled_ancestor.0)
    };
    let alive = counters.fold(&before, |_| true);
    assert_eq!((split(&alive, LEFT), split(&alive, POD)), ((1, 320), (21, 300)));
    assert_eq!(split(&alive, 1), (321, 0), "nothing lies above the root");
    counters.remove_all(&BTreeSet::from([LEFT]), &before);
    let mut after = before.clone();
    after.groups.remove(&LEFT);
    assert_eq!(split(&counters.fold(&after, |_| true), POD), (21, 300));
}
