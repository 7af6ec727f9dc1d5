//! Who waits for memory, and whom the kernel's OOM killer took.

use super::*;
use crate::model::snapshot::{MemoryCauseWait, MemoryWait};
use crate::model::stall::MemoryCause::{OwnLimit, Refault};

#[test]
fn headline_names_first_who_waits_beyond_its_limits() {
    #[rustfmt::skip]
    let table = [
        // why a waits for 900 ms, what is said; b waits for 60 to read back
        (Refault,  "a.service waits most: 900 ms per second, mostly because of "),
        (OwnLimit, "b.service waits most at no limit of its own: 60 ms per second, mostly because of "),
    ];
    for (cause, want) in table {
        let mut snapshot = node(0, &[]);
        for (id, cause, ms) in [(2, cause, 900), (3, Refault, 60)] {
            let (union, time) = (waited(ms), waited(ms));
            let wait = MemoryCauseWait { union, time, ..MemoryCauseWait::default() };
            let memory = MemoryWait { any: waited(ms), causes: [(cause, wait)].into() };
            snapshot.scopes.entry(CgroupId(id)).and_modify(|scope| scope.memory = Some(memory));
        }
        let verdicts = [verdict(Resource::Memory, Mood::Pressed)];
        let told = headline(&snapshot, &verdicts, &Decision::default(), &[]).text;
        assert!(told.contains(want), "{told}");
    }
}

/// A recording may say what it likes.
#[test]
fn headline_adds_up_kills_within_bounds() {
    let kill = OomKill { more: u64::MAX, ..OomKill::default() };
    let kills = [(); 3].map(|()| OomRecord { kill: kill.clone(), ..OomRecord::default() });
    let told = headline(&node(0, &[]), &[], &Decision::default(), &kills).text;
    assert!(told.contains("after 8388608 more"), "{told}");
}
