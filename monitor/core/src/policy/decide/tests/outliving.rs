//! Victims whose memory outlives their processes.

use super::*;

#[test]
fn decide_waits_for_what_outlives_the_victim() {
    let ended = |shmem: u64, swap: u64, current: u64| Cgroup {
        path: CgroupPath("/kubepods/besteffort/poda".into()),
        pids_current: Some(0),
        memory: MemoryFiles {
            current: Some(Bytes(current * MIB)),
            swap_current: Some(Bytes(swap * MIB)),
            stat: Some(MemoryStat { shmem: Bytes(shmem * MIB), ..MemoryStat::default() }),
            ..MemoryFiles::default()
        },
        ..Cgroup::default()
    };
    let (memory, pids) = (Signal::MemoryAvailable, Signal::PidAvailable);
    #[rustfmt::skip]
    let table = [
        // short of, held by the emptied pod: MiB of shmem, swap, all; is it back, of 400
        (memory,     0,   0,   3, true),
        (memory,     0,   0, 300, true), // page cache
        (memory,    50,   0, 300, true),
        (memory,    51,   0,  51, false),
        (memory,   300,   0, 300, false),
        (memory,     0, 300,   0, true), // the rest of what it held in memory is back
        (memory,    40, 300, 100, false),
        (pids,     300,   0, 300, true),
    ];
    for (signal, shmem, swap, current, is_back) in table {
        let short_of = [met(threshold(signal, Nanos(0)))];
        let mut node = Node::new();
        node.relief.steps.remove(&Evict);
        assert_eq!(short(&node.at(1, &short_of)), Some(("a", StopContainers)));
        node.sample.cgroups.insert(CgroupId(10), Arc::new(ended(shmem, swap, current)));
        let name = format!("{}, {shmem} of {current} and {swap}", signal.name());
        let verdict = node.at(2, &short_of);
        let is_resting = matches!(verdict.held, Some(Hold::CoolingDown { .. }));
        assert_eq!(is_resting, is_back, "{name}: {:?}", verdict.held);
        if !is_back {
            // A kill would end nothing more, and nothing is waited for.
            let [failed] = &verdict.events[..] else { panic!("{name}: {:?}", verdict.events) };
            let left = Bytes((shmem + swap) * MIB);
            let want = format!("a has ended, and {left} of its shared memory outlive it; ");
            assert!(failed.message.starts_with(&want), "{name}: {}", failed.message);
            assert_eq!(short(&verdict), Some(("b", StopContainers)), "{name}");
        }
    }
}
