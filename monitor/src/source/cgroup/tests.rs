use std::fs;
use std::os::unix::fs::MetadataExt as _;

use isobar_core::model::sample::GapReason;
use rustix::fs::{CWD, mkdirat};
use rustix::io::Result;

use super::*;

#[test]
fn due_spreads_turns_evenly() {
    for apart in [1, 10, 13, 20, 80, 1 << 32] {
        let ids = (0..1_000).map(|n| CgroupId(1 + n * apart));
        let mut per_tick = [0_u32; 10];
        for id in ids {
            let turns: Vec<_> = (0..10).filter(|tick| due(*tick, id, 10)).collect();
            assert_eq!(turns.len(), 1, "each has one turn in ten ticks: {id:?}");
            per_tick[usize::try_from(turns[0]).unwrap()] += 1;
        }
        let most = per_tick.into_iter().max();
        assert!(most < Some(200), "{apart} apart: {per_tick:?}");
    }
}

fn tick(number: u64) -> Tick {
    Tick {
        number,
        now: Nanos(number * Nanos::SECOND.0),
        pressure: Pressures::default(),
        is_pressure_new: true,
        is_reclaimed: false,
    }
}

/// Directories within each other, each with a name of 200 bytes: from the 21st on the path is longer
/// than the 4,096 bytes that the kernel takes.
fn nest(top: &std::path::Path, n_levels: usize) -> Result<()> {
    let name = "x".repeat(200);
    let mut above = openat(CWD, top, DIRECTORY, Mode::empty())?;
    for _ in 0..n_levels {
        mkdirat(&above, &*name, Mode::RWXU)?;
        above = openat(&above, &*name, DIRECTORY, Mode::empty())?;
    }
    Ok(())
}

#[test]
fn read_tells_what_cannot_be_read_from_what_is_gone() {
    let top = tempfile::tempdir().unwrap();
    nest(top.path(), 21).unwrap();
    // Without a descriptor to keep each directory is opened by its path in each tick.
    let mut tree = Tree::new(Root::open(top.path()).unwrap(), Budget::of(0));
    for number in 1..=3 {
        let mut gaps = Gaps::default();
        let found = tree.read(&tick(number), &Awake::Unknown, &mut gaps);
        let last = found.values().max_by_key(|group| group.path.0.len()).unwrap();
        assert_eq!(last.path.segments().count(), 21, "each is there, in tick {number}");
        let gaps = gaps.finish().into_iter();
        let its: Vec<_> = gaps.filter(|gap| gap.object.contains(&*last.path.0)).collect();
        let [gap] = &its[..] else { panic!("{its:?}") };
        assert_eq!(gap.why, GapReason::Failed);
    }
    // The first directory, and with it all below.
    fs::remove_dir_all(top.path().join("x".repeat(200))).unwrap();
    let left = tree.read(&tick(4), &Awake::Unknown, &mut Gaps::default());
    assert_eq!(left.len(), 1, "the root is left");
}

/// A file is replaced after the agent has read it: only a descriptor that was kept shows what it was.
#[test]
fn sleepers_give_their_descriptors_to_those_that_run() {
    let top = tempfile::tempdir().unwrap();
    let write = |name: &str, usage: u64| {
        let dir = top.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        let still = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        fs::write(dir.join("cpu.pressure"), still).unwrap();
        let text = format!("usage_usec {usage}\nuser_usec 0\nsystem_usec 0\n");
        fs::write(dir.join("new"), text).unwrap();
        fs::rename(dir.join("new"), dir.join("cpu.stat")).unwrap();
    };
    let sleepers = ["a", "b", "c"];
    sleepers.iter().for_each(|name| write(name, 1));
    // The root and three directories, and the two files of each of the three.
    let mut tree = Tree::new(Root::open(top.path()).unwrap(), Budget::of(4 + 6));
    let mut number = 0;
    let mut usage = |who: &Awake, name: &str| {
        number += 1;
        let now = Nanos(number * Nanos::SECOND.0);
        let tick = Tick {
            number,
            now,
            pressure: Pressures::default(),
            is_pressure_new: true,
            is_reclaimed: false,
        };
        let found = tree.read(&tick, who, &mut Gaps::default());
        let one = found.iter().find(|(_, group)| group.path.0.ends_with(name));
        one.map(|(id, group)| (*id, group.cpu.usage.expect("known").0)).expect("it is there")
    };
    for _ in 0..3 {
        usage(&Awake::Unknown, "a");
    }
    write("runs", 1);
    let (id, first) = usage(&Awake::Unknown, "runs");
    assert_eq!(first, 1);
    let who = Awake::These { cgroups: [id].into(), by_queue: false };
    write("runs", 2);
    assert_eq!(usage(&who, "runs"), (id, 2), "it could keep no descriptor in its first tick");
    usage(&who, "runs");
    write("runs", 3);
    assert_eq!(usage(&who, "runs"), (id, 2), "the sleepers have given theirs back");
}

#[test]
fn oom_kills_are_counted_below_and_above_in_one_tick() {
    let top = tempfile::tempdir().unwrap();
    let (above, below) = (top.path().join("a"), top.path().join("a/b"));
    fs::create_dir_all(&below).unwrap();
    let write = |dir: &std::path::Path, file: &str, text: &str| {
        fs::write(dir.join(file), text).unwrap();
    };
    let none = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    let killed =
        |n: u64| format!("low 0\nhigh 0\nmax 0\noom {n}\noom_kill {n}\noom_group_kill 0\n");
    for dir in [&above, &below] {
        for file in ["cpu.pressure", "memory.pressure", "io.pressure"] {
            write(dir, file, none);
        }
        write(dir, "memory.events", &killed(0));
        write(dir, "cpu.stat", "usage_usec 5\n");
    }
    let mut tree = Tree::new(Root::open(top.path()).unwrap(), Budget::of(64));
    let running = CgroupId(fs::metadata(&above).unwrap().ino());
    let awake = Awake::These { cgroups: [running].into(), by_queue: false };
    let mut gaps = Gaps::default();
    let kills = |found: &BTreeMap<CgroupId, Arc<Cgroup>>| {
        let of =
            |path: &str| found.values().find(|one| &*one.path.0 == path).unwrap().memory.events;
        ["/a", "/a/b"].map(|path| of(path).unwrap().oom_kill)
    };
    for number in 1..=4 {
        assert_eq!(kills(&tree.read(&tick(number), &awake, &mut gaps)), [0, 0]);
    }
    // What is killed below has not run yet, and seems to be asleep.
    for n in 1..=12 {
        for dir in [&above, &below] {
            write(dir, "memory.events", &killed(n));
        }
        write(&above, "cpu.stat", &format!("usage_usec {}\n", 5 + n));
        assert_eq!(kills(&tree.read(&tick(4 + n), &awake, &mut gaps)), [n, n]);
    }
    // One comes while the tree is read, after what lies above.
    write(&below, "memory.events", &killed(13));
    write(&below, "cpu.stat", "usage_usec 6\n");
    let mut found = tree.read(&tick(17), &awake, &mut gaps);
    write(&above, "memory.events", &killed(13));
    tree.catch_up(&mut found, &tick(17), &mut gaps);
    assert_eq!(kills(&found), [13, 13]);
}
