use isobar_core::model::cgroup::{Cgroup, IoStat};
use isobar_core::model::sample::{GapReason, Moment};
use tempfile::TempDir;

use super::process::{Stat, moved, stat};
use super::*;

#[test]
fn stat_of_a_process() {
    let rest = "R 1 1 1 0 -1 4194304 1 2 3 4 14 15 0 0 20 0 1 0 22 9 24 9\n";
    #[rustfmt::skip]
    let table = [
        // text, name
        (format!("7 (a) {rest}"),                 Some("a")),
        (format!("7 (a) (b\n) R 1) {rest}"),      Some("a) (b\n) R 1")),
        (format!("7 () {rest}"),                  Some("")),
        ("7 (a) R 1\n".into(),                    None),
        (format!("7 )a( {rest}"),                 None),
        (format!("7 (a) {}", rest.trim_end()),    None),
        (format!("7 (a) {}", rest.replace("14 15", "-1 15")), None),
        (String::new(),                           None),
    ];
    for (text, name) in table {
        let want = name.map(|name| Stat {
            name: name.into(),
            used: 29,
            started: 22,
            resident: 24,
            reaped: 2,
        });
        assert_eq!(stat(text.as_bytes()).ok(), want, "{text:?}");
    }
    let name = stat(&[b"7 (\xff) ", rest.as_bytes()].concat()).unwrap().name;
    assert_eq!(name, "\\xff");
}

struct Host(TempDir);

impl Host {
    fn new(pids: &str) -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("cgroup.procs"), pids).unwrap();
        Self(dir)
    }

    fn ran(&self, pid: u32, started: u64, ticks: u64) {
        self.has(pid, started, ticks, 24);
    }

    /// With so many pages of memory.
    fn has(&self, pid: u32, started: u64, ticks: u64, pages: u64) {
        self.stat(pid, started, ticks, pages, 0);
    }

    /// Having waited for children that had so many page faults.
    fn stat(&self, pid: u32, started: u64, ticks: u64, pages: u64, reaped: u64) {
        let dir = self.0.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let text = format!(
            "{pid} (p{pid}) R 1 1 1 0 -1 4194304 1 {reaped} 3 4 {ticks} 0 0 0 20 0 1 0 {started} 9 {pages}\n"
        );
        fs::write(dir.join("stat"), text).unwrap();
    }

    fn moved(&self, pid: u32, bytes: u64) {
        let text = format!("rchar: 7\nread_bytes: {bytes}\nwrite_bytes: 5\n");
        fs::write(self.0.path().join(pid.to_string()).join("io"), text).unwrap();
    }
}

/// A reading, and whom it makes suspect.
fn tick(runners: &mut Runners, second: u64, suspect: Option<Suspect>) -> Vec<Runner> {
    let mut sample = at(second);
    runners.read(&mut sample);
    if runners.is_due(sample.at.boot) {
        runners.suspect(suspect, sample.at.boot);
    }
    sample.runners
}

fn at(second: u64) -> Sample {
    let boot = Nanos(second * Nanos::SECOND.0);
    Sample { at: Moment { boot, ..Moment::default() }, ..Sample::default() }
}

#[test]
fn runners_are_named_on_suspicion() {
    let host = Host::new("0\n1\n2\n3\n4\n5\n6\n2\n");
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let mut read = |second: u64, suspect: Option<Suspect>| {
        let found = tick(&mut runners, second, suspect);
        found.iter().map(|runner| (runner.pid, runner.used.0)).collect::<Vec<_>>()
    };
    let root = || Some(Suspect::Cgroup { id: CgroupId(1), paths: vec![CgroupPath::root()] });
    (1..=5).for_each(|pid| host.ran(pid, 22, 1_000));
    assert_eq!(read(1, root()), [], "not suspected before");
    assert_eq!(read(2, root()), [], "the first look");
    host.ran(1, 22, 1_010);
    host.ran(2, 22, 1_090);
    host.ran(3, 22, 1_040);
    host.ran(4, 23, 1_100); // another process with this pid
    host.ran(5, 22, 1_001);
    let found = [(2, 900), (3, 400), (1, 100)];
    assert_eq!(read(3, None), found, "the second look");
    host.ran(1, 22, 2_000);
    assert_eq!(read(12, root()), found, "a rest");
    assert_eq!(read(13, root()), found, "the first look");
    host.ran(1, 22, 2_050);
    assert_eq!(read(14, root()), [(1, 500)]);
    assert_eq!(read(15, None), [(1, 500)], "known to be calm only after the tick");
    assert_eq!(read(16, None), [], "no suspicion any more");
}

#[test]
fn runners_of_another_suspect_are_named_soon() {
    let host = Host::new("");
    fs::create_dir(host.0.path().join("c")).unwrap();
    fs::write(host.0.path().join("c/cgroup.procs"), "1\n").unwrap();
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let named = (1..=12).map(|second| {
        host.ran(1, 22, 90 * second);
        // The suspect of each tick, in whose cgroup the process runs.
        let id = CgroupId(if second < 5 { 7 } else { 8 });
        let whose = Suspect::Cgroup { id, paths: vec![CgroupPath("/c".into())] };
        let found = tick(&mut runners, second, Some(whose));
        found.first().and_then(|runner| runner.cgroup).map_or(0, |id| id.0)
    });
    assert_eq!(named.collect::<Vec<_>>(), [0, 0, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8]);
}

#[test]
fn runners_among_more_than_one_look_takes() {
    let all: Vec<_> = (1..=1_200).map(|pid: u32| pid.to_string()).collect();
    let host = Host::new(&all.join("\n"));
    fs::write(host.0.path().join("cgroup.procs"), all.join("\n") + "\n").unwrap();
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let root = || Suspect::Cgroup { id: CgroupId(1), paths: vec![CgroupPath::root()] };
    // A process that is old uses most; a young one uses a little, or enough to be named at once.
    for young in [30, 60] {
        let mut looks = Vec::new();
        for round in 0..4 {
            for (second, ticks) in [(0, 0), (1, 1)] {
                let mut sample = at(1_000 * young + 20 * round + second);
                host.ran(7, 22, round * 90 + ticks * 90);
                host.ran(1_199, 22, round * young + ticks * young);
                runners.suspect(Some(root()), sample.at.boot);
                runners.read(&mut sample);
                if second == 1 {
                    looks.push(sample.runners.first().map(|runner| runner.pid));
                }
            }
        }
        let first = (young >= 50).then_some(1_199);
        assert_eq!(looks, [first, first, Some(7), Some(7)], "{young}");
        runners.progress = Progress::default();
    }
}

#[test]
fn runners_in_more_cgroups_than_one_look_lists() {
    let host = Host::new("");
    let add = |n: u32| {
        let path = CgroupPath(format!("/{n}").into());
        fs::create_dir_all(host.0.path().join(&path.0[1..])).unwrap();
        fs::write(host.0.path().join(&path.0[1..]).join("cgroup.procs"), format!("{n}\n")).unwrap();
        path
    };
    let mut paths: Vec<_> = (1..=150).map(add).collect();
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let mut looks = Vec::new();
    // The one that uses most, a little, is in the last cgroup; another one comes with each look.
    for round in 0..4 {
        for second in [0, 1] {
            host.ran(5, 22, 10 * second);
            host.ran(150, 22, 20 * second);
            let mut sample = at(20 * round + second);
            let whose = Suspect::Cgroup { id: CgroupId(7), paths: paths.clone() };
            runners.suspect(Some(whose), sample.at.boot);
            runners.read(&mut sample);
            if second == 1 {
                looks.push(sample.runners.iter().map(|one| one.pid).collect::<Vec<_>>());
            }
        }
        paths.push(CgroupPath(format!("/new/{round}").into()));
    }
    assert_eq!(looks, [vec![], vec![], vec![150, 5], vec![150, 5]]);
}

#[test]
fn runners_of_a_container() {
    let host = Host::new("1\n2\n");
    let inside = host.0.path().join("kubepods/pod7/c");
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("cgroup.procs"), "2\n").unwrap();
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let paths = ["/kubepods/pod7", "/kubepods/pod7/c"].map(|path| CgroupPath(path.into()));
    let suspect = Suspect::Cgroup { id: CgroupId(7), paths: paths.into() };
    let mut read = |second: u64, suspect: Option<Suspect>| {
        let found = tick(&mut runners, second, suspect);
        found.iter().map(|one| (one.pid, one.cgroup)).collect::<Vec<_>>()
    };
    [1, 2].iter().for_each(|pid| host.ran(*pid, 22, 1_000));
    assert_eq!(read(1, Some(suspect)), [], "not suspected before");
    assert_eq!(read(2, None), [], "the first look");
    [1, 2].iter().for_each(|pid| host.ran(*pid, 22, 1_050));
    // Whoever is suspected by now: it is what was looked at before.
    assert_eq!(read(3, None), [(2, Some(CgroupId(7)))]);
}

#[test]
fn runners_of_the_machine() {
    // Whatever cgroup they are in.
    let host = Host::new("");
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let ran = |ticks| {
        (1..=3).for_each(|pid| host.ran(pid, 22, 1_000 + u64::from(pid) * ticks));
    };
    ran(0);
    assert_eq!(tick(&mut runners, 1, Some(Suspect::Machine)), [], "not suspected before");
    assert_eq!(tick(&mut runners, 2, None), [], "the first look");
    ran(10);
    let found = tick(&mut runners, 3, None);
    let found: Vec<_> =
        found.iter().map(|one| (one.pid, one.used.0, one.cgroup, one.is_of_machine)).collect();
    assert_eq!(found, [(3, 300, None, true), (2, 200, None, true), (1, 100, None, true)]);
}

#[test]
fn runners_that_began_after_all_were_looked_at() {
    let host = Host::new("");
    let mut runners = Runners::new(Resource::Cpu, host.0.path(), host.0.path());
    runners.ticks_per_second = 100;
    let mut looks = Vec::new();
    // Each time there are two processes more, and the youngest is the busiest.
    for round in 1..=3_u32 {
        for (second, ticks) in [(0, 0), (1, 90)] {
            (1..2 * round).for_each(|pid| host.ran(pid, 22, u64::from(round)));
            host.ran(2 * round, 22, ticks);
            let mut sample = at(20 * u64::from(round) + second);
            runners.suspect(Some(Suspect::Machine), sample.at.boot);
            runners.read(&mut sample);
            looks.extend(sample.runners.first().filter(|_| second == 1).map(|one| one.pid));
        }
    }
    assert_eq!(looks, [2, 4, 6]);
}

#[test]
fn runners_for_memory_are_those_that_grow_or_else_the_largest() {
    const MIB: u64 = 256; // pages
    let root = || Some(Suspect::Machine);
    #[rustfmt::skip]
    let table = [
        // MiB of three processes, and two seconds later; pid, MiB and growth in MiB/s, in order
        ([400, 100, 0],   [400, 300, 0],   vec![(2, 300, 100), (1, 400, 0)]),
        ([400, 100, 50],  [400, 101, 50],  vec![(1, 400, 0), (2, 101, 0), (3, 50, 0)]), // it sways
        ([400, 100, 50],  [100, 100, 450], vec![(3, 450, 200), (1, 100, 0), (2, 100, 0)]),
    ];
    for (before, after, want) in table {
        let host = Host::new("");
        let mut runners = Runners::new(Resource::Memory, host.0.path(), host.0.path());
        runners.page_size = 4_096;
        let has = |all: [u64; 3]| {
            (1..).zip(all).for_each(|(pid, mib)| host.has(pid, 22, 0, mib * MIB));
        };
        has(before);
        assert_eq!(tick(&mut runners, 1, root()), [], "not suspected before");
        assert_eq!(tick(&mut runners, 2, None), [], "the first look");
        has(after);
        let found = tick(&mut runners, 4, None);
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                let Resident { held, growth } = one.memory.unwrap();
                assert_eq!((one.io, one.is_of_machine), (None, true));
                (one.pid, held.0 >> 20, growth.0 >> 20)
            })
            .collect();
        assert_eq!(found, want, "{before:?} {after:?}");
    }
}

#[test]
fn runners_for_io_are_named_if_all_may_be_looked_at() {
    let host = Host::new("");
    let mut runners = Runners::new(Resource::Io, host.0.path(), host.0.path());
    (1..=4).for_each(|pid| host.ran(pid, 22, 0));
    let mut pair = |round: u64, all: &[(u32, u64)]| {
        let mut gaps = Vec::new();
        for second in [0, 1] {
            all.iter().for_each(|(pid, bytes)| host.moved(*pid, second * bytes));
            let mut sample = at(20 * round + second);
            runners.suspect(Some(Suspect::Machine), sample.at.boot);
            runners.read(&mut sample);
            gaps.extend(sample.gaps.into_iter().map(|gap| (gap.why, gap.detail)));
            runners.next = None;
            if second == 1 {
                let found = sample.runners.iter().map(|one| (one.pid, one.io.unwrap().0));
                return (found.collect::<Vec<_>>(), gaps);
            }
        }
        unreachable!("two looks");
    };
    // The kernel refuses the fourth, as it does those of other users without CAP_SYS_PTRACE.
    let refused = host.0.path().join("4/io");
    std::os::unix::fs::symlink("io", &refused).unwrap();
    let used = [(1, 50), (2, 0), (3, 800)];
    let (found, gaps) = pair(0, &used);
    assert_eq!(found, [], "the fourth may do more");
    let [(GapReason::Failed, detail)] = &gaps[..] else { panic!("{gaps:?}") };
    assert!(detail.ends_with(": no process is named for IO"), "{detail}");
    assert_eq!(pair(1, &used), (vec![], vec![]), "told once");
    // It ends: its directory is there no more.
    fs::remove_dir_all(host.0.path().join("4")).unwrap();
    assert_eq!(pair(2, &used), (vec![(3, 800), (1, 50)], vec![]));
    host.ran(4, 22, 0);
    let (found, gaps) = pair(3, &used);
    assert_eq!((found, gaps.len()), (vec![], 1), "it is told again, and nobody named any more");
}

#[test]
fn runners_whose_children_ended_have_not_moved_all_that_these_ever_did() {
    const GIB: u64 = 1 << 30;
    #[rustfmt::skip]
    let table = [
        // bytes of a parent and of another process, whether children ended, by io.stat; named
        (100 * GIB, 50,  true,  Some(200),       vec![(1, 150), (2, 50)]),
        (100 * GIB, 150, true,  Some(200),       vec![(2, 150), (1, 50)]),
        (100 * GIB, 300, true,  Some(200),       vec![(2, 300)]), // the page cache takes it
        (100 * GIB, 50,  true,  None,            vec![(2, 50)]),
        (40,        50,  true,  Some(200),       vec![(2, 50), (1, 40)]),
        (100 * GIB, 50,  false, Some(200),       vec![(1, 100 * GIB), (2, 50)]), // as above
    ];
    for (parent, other, have_ended, unit, want) in table {
        let host = Host::new("1\n2\n");
        let mut runners = Runners::new(Resource::Io, host.0.path(), host.0.path());
        let mut found = Vec::new();
        for second in [0, 1] {
            host.stat(1, 22, 0, 24, if have_ended { second } else { 0 });
            host.ran(2, 22, 0);
            host.moved(1, second * parent);
            host.moved(2, second * other);
            let mut sample = at(second);
            let whose = Suspect::Cgroup { id: CgroupId(7), paths: vec![CgroupPath::root()] };
            runners.suspect(Some(whose), sample.at.boot);
            let io =
                unit.map(|bytes| IoStat { read: Bytes(9 + second * bytes), ..IoStat::default() });
            sample.cgroups.insert(CgroupId(7), Cgroup { io, ..Cgroup::default() }.into());
            runners.read(&mut sample);
            found = sample.runners;
        }
        let found: Vec<_> = found.iter().map(|one| (one.pid, one.io.unwrap().0)).collect();
        assert_eq!(found, want, "{parent} {other} {have_ended} {unit:?}");
    }
}

#[test]
fn moved_of_a_process() {
    #[rustfmt::skip]
    let table = [
        // text, bytes
        ("rchar: 9\nread_bytes: 4\nwrite_bytes: 3\ncancelled_write_bytes: 2\n", Some(7)),
        ("read_bytes: 4\n",  Some(4)),
        ("rchar: 9\n",       None),
        ("read_bytes: x\n",  None),
        ("read_bytes:\n",    None),
        ("",                 None),
    ];
    for (text, want) in table {
        assert_eq!(moved(text.as_bytes()).ok(), want, "{text:?}");
    }
}
