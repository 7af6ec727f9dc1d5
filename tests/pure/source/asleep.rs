//! Files that are not read in each tick, because the cgroup is idle or has slept.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use super::fake::{Fake, total_of};
use crate::sampling::{cgroup, moment, sample, sampler};
use isobar::source::Awake;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Cause;
use isobar_core::model::units::{Bytes, Micros};

#[test]
fn sampler_quiet_cgroup() {
    let fake = Fake::new();
    fake.make("/a");
    let mut sampler = sampler(fake.root());
    let mut seen = |tick, in_file| {
        // What grows in it grows in its parent too.
        ["", "/a"].iter().for_each(|path| fake.write_pressure(path, in_file));
        fake.write("/a/memory.events", &format!("oom_kill {in_file}\n"));
        let read = sample(&mut sampler, tick);
        let total = total_of(&read, "/a").unwrap();
        let events = cgroup(&read, "/a").memory.events.unwrap();
        assert_eq!(events.oom_kill, total.0, "read and carried together, tick {tick}");
        total.0
    };
    (1..=2).for_each(|tick| assert_eq!(seen(tick, 1), 1));
    // Quiet from here on: what changes behind its back is seen at its turn, whichever tick that is.
    let turn = (3..=12).find(|tick| seen(*tick, 2) == 2).unwrap();
    assert_eq!(seen(turn + 1, 3), 3, "it grew in the reading before: read each tick");
    assert_eq!(seen(turn + 2, 3), 3, "stands still");
    (3..=9).for_each(|later| assert_eq!(seen(turn + later, 4), 3, "{later} ticks later"));
    assert_eq!(seen(turn + 10, 4), 4, "its turn again");
    assert_eq!((seen(turn + 11, 4), seen(turn + 12, 5)), (4, 4), "quiet again");
    ["", "/a"].iter().for_each(|path| fake.write(&format!("{path}/cpu.stat"), "usage_usec 2\n"));
    assert_eq!(seen(turn + 13, 5), 5, "it ran");
}

#[test]
fn sampler_running_below_a_quiet_parent() {
    let fake = Fake::new();
    fake.make("/a");
    // The root's is of the disks' own statistics, and stands still where a queue keeps none.
    fake.write("/io.stat", "8:0 rbytes=1 wbytes=0 rios=0 wios=0 dbytes=0 dios=0\n");
    fake.write("/a/io.stat", "");
    let mut sampler = sampler(fake.root());
    let text = |total| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
    let mut tick = 0;
    let mut seen = |parent: u64, child: u64| {
        tick += 1;
        fake.write("/memory.pressure", &text(parent));
        fake.write("/a/memory.pressure", &text(child));
        let io = format!("8:0 rbytes={tick} wbytes=0 rios=0 wios=0 dbytes=0 dios=0\n");
        fake.write("/a/io.stat", &io);
        // It runs, and waits for a CPU.
        for path in ["", "/a"] {
            fake.write(&format!("{path}/cpu.stat"), &format!("usage_usec {tick}\n"));
            fake.write(&format!("{path}/cpu.pressure"), &text(tick));
        }
        let read = sample(&mut sampler, tick);
        let psi = cgroup(&read, "/a").pressure;
        assert_eq!(psi.cpu.unwrap().some.unwrap().total, Micros(tick), "read in each tick");
        assert_eq!(cgroup(&read, "/a").io.unwrap().read, Bytes(tick), "whatever the root's says");
        psi.memory.unwrap().some.unwrap().total.0
    };
    assert_eq!([seen(1, 1), seen(1, 2)], [1, 2], "the parent's was not compared before");
    let carried = (3..=22).filter(|n| seen(1, *n) != *n).count();
    assert_eq!(carried, 18, "but for its turn, one tick in ten");
    assert_eq!(seen(2, 23), 23, "it grew in the parent");
    let carried = (24..=33).filter(|n| seen(2, *n) != *n).count();
    assert_eq!(carried, 9, "and stands still again");
    assert_eq!(seen(3, 34), 34);
}

/// Those at `paths` may have run.
fn awake(fake: &Fake, paths: &[&str]) -> Awake {
    let id = |path: &&str| CgroupId(fake.at(path).metadata().unwrap().ino());
    Awake::These { cgroups: paths.iter().map(id).collect::<BTreeSet<_>>(), by_queue: false }
}

#[test]
fn sampler_sleeping_cgroup() {
    let fake = Fake::new();
    ["/a", "/a/b", "/a/c"].iter().for_each(|path| fake.make(path));
    if fake.at("/a").metadata().unwrap().nlink() != 4 {
        return println!("skipped: directories are not counted as links here");
    }
    let mut sampler = sampler(fake.root());
    let mut tick = 0;
    let mut current = |who: &Awake, in_file: u64| {
        tick += 1;
        fake.write("/a/b/memory.current", &format!("{in_file}\n"));
        let read = sampler.sample_at(moment(tick * 1_000), tick, Cause::Timer, who);
        cgroup(&read, "/a/b").memory.current.unwrap().0
    };
    let nobody = awake(&fake, &[]);
    assert_eq!((current(&nobody, 1), current(&nobody, 2)), (1, 2), "not yet known to be idle");
    let turn = (3..=33_u64).find(|n| current(&nobody, *n) == *n).unwrap();
    #[rustfmt::skip]
    let table: [(&[&str], u64, u64, &str); 6] = [
        // awake,   in the file, seen, why
        (&[],       20,          turn, "asleep"),
        (&["/a/c"], 21,          turn, "its neighbour ran"),
        (&["/a"],   22,          turn, "its parent's own task ran"),
        (&["/a/b"], 23,          23,   "it ran"),
        (&[],       24,          23,   "asleep again"),
        (&["/a/c"], 25,          23,   "and its neighbour not"),
    ];
    for (who, in_file, want, why) in table {
        assert_eq!(current(&awake(&fake, who), in_file), want, "{why}");
    }
    assert_eq!(current(&Awake::Unknown, 26), 26, "nobody saw whether it ran");
    fake.write("/a/memory.stat", "anon 1\ninactive_file 2\npgscan 5\n");
    assert_eq!(current(&awake(&fake, &["/a/c"]), 27), 27, "memory was taken below its parent");
}

#[test]
fn sampler_sleeping_without_a_queue_of_its_own() {
    let fake = Fake::new();
    ["/a", "/a/b"].iter().for_each(|path| fake.make(path));
    if fake.at("/a").metadata().unwrap().nlink() != 3 {
        return println!("skipped: directories are not counted as links here");
    }
    let Awake::These { cgroups, .. } = awake(&fake, &["/a"]) else { unreachable!() };
    let mut sampler = sampler(fake.root());
    let mut seen = |tick, in_file: u64| {
        fake.write("/a/b/memory.current", &format!("{in_file}\n"));
        let who = Awake::These { cgroups: cgroups.clone(), by_queue: true };
        let read = sampler.sample_at(moment(tick * 1_000), tick, Cause::Timer, &who);
        cgroup(&read, "/a/b").memory.current.unwrap().0
    };
    // What runs in it runs on the queue of its parent.
    (1..=15).for_each(|tick| assert_eq!(seen(tick, tick), tick, "tick {tick}"));
}

/// Pressure of a cgroup is due in other ticks than that of its parent, which then tells nothing of it.
#[test]
fn sampler_pressure_of_a_cgroup_born_between_its_parents_readings() {
    let fake = Fake::new();
    let mut sampler = sampler(fake.root());
    let mut seen = |tick, ms| {
        ["", "/a"].iter().filter(|path| fake.at(path).exists()).for_each(|path| {
            fake.write_pressure(path, ms);
            fake.write(&format!("{path}/cpu.stat"), &format!("usage_usec {ms}\n"));
        });
        let read = sampler.sample_at(moment(ms), tick, Cause::Timer, &Awake::Unknown);
        if tick == 1 {
            fake.make("/a");
            return None;
        }
        total_of(&read, "/a").map(|total| total.0)
    };
    let table = [(1_000, None), (1_250, Some(1_250)), (2_000, Some(1_250)), (2_250, Some(2_250))];
    for (tick, (ms, want)) in (1..).zip(table) {
        assert_eq!(seen(tick, ms), want, "at {ms} ms");
    }
}
