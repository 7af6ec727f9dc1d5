//! The kernel's own cgroup tree. A test makes its cgroups below a directory of its own and
//! samples that, so that nobody else's coming and going is seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::{process, thread};

use crate::host::{alone, skip};
use crate::sampling::{cgroup, gaps, paths, sample, sampler};
use isobar::source::{Awake, Roots, Sampler};
use isobar_core::model::sample::{Cause, Gap, GapReason};

/// A cgroup that is removed with all below it when this is dropped.
struct Made(PathBuf);

impl Made {
    /// `None`, with a word why, where cgroups cannot be made.
    fn new(name: &str) -> Option<Self> {
        let found = match Sampler::open(&Roots::default()) {
            Ok(sampler) => sampler.cgroup_root().to_path_buf(),
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        };
        let path = found.join(format!("isobar-source-{}-{name}", process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                skip(&format!("cannot make {}: {error}", path.display()));
                None
            }
        }
    }

    fn make(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    below.filter(|entry| entry.path().is_dir()).for_each(|entry| remove(&entry.path()));
    if let Err(error) = fs::remove_dir(path) {
        eprintln!("cannot remove {}: {error}", path.display());
    }
}

/// Descriptors of this process that lie below `path`, removed cgroups included. Other tests'
/// are not counted.
fn descriptors_below(path: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(path))).count()
}

#[test]
fn kernel_births_and_deaths() {
    let Some(top) = Made::new("tick") else { return };
    let mut sampler = sampler(&top.0);
    assert_eq!(paths(&sample(&mut sampler, 1)), ["/"]);

    top.make("a");
    let inner = top.make("a/b");
    let read = sample(&mut sampler, 2);
    assert_eq!(paths(&read), ["/", "/a", "/a/b"]);
    let made = cgroup(&read, "/a/b");
    assert!(made.cpu.usage.is_some() && made.n_procs == Some(0), "{made:?}");

    fs::remove_dir(inner).unwrap();
    let read = sample(&mut sampler, 3);
    assert_eq!(paths(&read), ["/", "/a"]);
    assert!(read.gaps.iter().all(|gap| gap.why != GapReason::Gone), "{:?}", read.gaps);
}

#[test]
fn kernel_death_hidden_by_birth() {
    let Some(top) = Made::new("swap") else { return };
    let old = top.make("old");
    let mut sampler = sampler(&top.0);
    // Not their turn to be listed: only the dead child can tell.
    for tick in 1..=20 {
        let before = sample(&mut sampler, tick * 2);
        assert_eq!(before.cgroups.len(), 2, "tick {tick}");
        let (from, to) = if tick % 2 == 1 { (&old, "new") } else { (&top.0.join("new"), "old") };
        fs::remove_dir(from).unwrap();
        top.make(to);
        let read = sample(&mut sampler, tick * 2 + 1);
        assert_eq!(paths(&read), ["/", &format!("/{to}")], "tick {tick}");
    }
}

#[test]
fn kernel_namesake() {
    let Some(top) = Made::new("namesake") else { return };
    let mut sampler = sampler(&top.0);
    let mut ids = Vec::new();
    for tick in 1..=5 {
        let same = top.make("same");
        let read = sample(&mut sampler, tick);
        let (id, _) = read.cgroups.iter().find(|(_, cgroup)| &*cgroup.path.0 == "/same").unwrap();
        ids.push(*id);
        fs::remove_dir(same).unwrap();
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn kernel_no_descriptor_left() {
    let _alone = alone();
    let Some(top) = Made::new("many") else { return };
    let mut sampler = sampler(&top.0);
    sample(&mut sampler, 1);
    let before = (sampler.n_kept(), descriptors_below(&top.0));
    for round in 0..4 {
        let made: Vec<_> = (0..500).map(|n| top.make(&format!("{round}-{n}"))).collect();
        let read = sample(&mut sampler, 2 + round * 2);
        assert_eq!(read.cgroups.len(), 501, "round {round}");
        assert!(descriptors_below(&top.0) >= 500, "round {round}");
        made.iter().for_each(|path| fs::remove_dir(path).unwrap());
        let read = sample(&mut sampler, 3 + round * 2);
        assert_eq!(read.cgroups.len(), 1, "round {round}");
        assert_eq!((sampler.n_kept(), descriptors_below(&top.0)), before, "round {round}");
    }
    drop(sampler);
    assert_eq!(descriptors_below(&top.0), 0);
}

#[test]
fn kernel_storm() {
    let _alone = alone();
    let Some(top) = Made::new("storm") else { return };
    let mut sampler = sampler(&top.0);
    sample(&mut sampler, 1);
    let before = descriptors_below(&top.0);
    thread::scope(|scope| {
        let storm = scope.spawn(|| {
            for n in 0..2_000 {
                let path = top.make(&format!("{}", n % 7));
                let inner = top.make(&format!("{}/inner", n % 7));
                fs::remove_dir(inner).and_then(|()| fs::remove_dir(path)).unwrap();
            }
        });
        for tick in 2.. {
            let over = storm.is_finished();
            let read = sample(&mut sampler, tick);
            for gap in &read.gaps {
                // A dying cgroup loses its files first, so for a moment it may look poor.
                let is_routine = matches!(gap.why, GapReason::Gone | GapReason::Unsupported);
                assert!(is_routine, "{gap:?}");
            }
            if over {
                assert_eq!(paths(&read), ["/"]);
                break;
            }
        }
    });
    assert_eq!(descriptors_below(&top.0), before);
}

#[test]
fn kernel_pressure_switched() {
    let Some(top) = Made::new("switch") else { return };
    let switch = top.make("a").join("cgroup.pressure");
    if !switch.exists() {
        println!("skipped: no cgroup.pressure before Linux 6.1");
        return;
    }
    let mut sampler = sampler(&top.0);
    assert!(cgroup(&sample(&mut sampler, 1), "/a").pressure.cpu.is_some());

    let off = (
        GapReason::Unsupported,
        "/a/cgroup.pressure",
        "is 0: write 1 to account this cgroup's pressure",
    );
    fs::write(&switch, "0").unwrap();
    for tick in 2..=13 {
        let read = sample(&mut sampler, tick);
        assert_eq!(cgroup(&read, "/a").pressure, Default::default(), "tick {tick}");
        assert!(gaps(&read, &top.0).contains(&off), "tick {tick}: {:?}", read.gaps);
    }
    fs::write(&switch, "1").unwrap();
    let back = (14..=43).map(|tick| sample(&mut sampler, tick)).last().unwrap();
    assert!(cgroup(&back, "/a").pressure.cpu.is_some());
    assert!(!gaps(&back, &top.0).contains(&off), "{:?}", back.gaps);
}

#[test]
fn kernel_this_machine() {
    let _alone = alone();
    let mut sampler = match Sampler::open(&Roots::default()) {
        Ok(sampler) => sampler,
        Err(error) => return skip(&error.to_string()),
    };
    let read = sampler.sample(1, Cause::Timer, &Awake::Unknown);
    let root = cgroup(&read, "/");
    assert_eq!(root.parent, None);
    if read.cgroups.keys().next().is_some_and(|id| id.0 == 1) {
        assert_eq!(root.pressure, read.node.pressure, "the kernel keeps them in one place");
    }
    assert!(read.node.memory.is_some_and(|memory| memory.total > memory.available));
    assert!(read.node.cpu.is_some() && read.node.max_threads.is_some());
    assert!(root.cpu.usage.is_some() && root.n_procs.is_some());
    let is_odd = |gap: &&Gap| matches!(gap.why, GapReason::Torn | GapReason::Failed);
    assert_eq!(read.gaps.iter().find(is_odd), None, "the kernel prints something unforeseen");
    let n_orphans = read
        .cgroups
        .values()
        .filter_map(|cgroup| cgroup.parent)
        .filter(|parent| !read.cgroups.contains_key(parent))
        .count();
    assert_eq!(n_orphans, 0);
}

#[test]
fn kernel_preference_by_owner() {
    use isobar_core::model::cgroup::Preference;
    use rustix::fs::{CWD, XattrFlags, setxattr};

    let Some(top) = Made::new("preference") else { return };
    #[rustfmt::skip]
    let table = [
        // cgroup, owner, said, heard
        ("roots",        0,     "user.oomd_avoid",  Some(Preference::Avoid)),
        ("users",        65534, "user.oomd_omit",   None),
        ("users/unit",   65534, "user.oomd_prefer", Some(Preference::Prefer)),
        ("users/others", 65533, "user.oomd_omit",   None),
        ("users/roots",  0,     "user.oomd_omit",   Some(Preference::Omit)),
    ];
    for (name, owner, said, _) in table {
        let path = top.make(name);
        if let Err(errno) = setxattr(&path, said, b"1", XattrFlags::empty()) {
            println!("skipped: cgroups here take no attributes: {errno}");
            return;
        }
        let owner = Some(rustix::fs::Uid::from_raw(owner));
        if let Err(errno) =
            rustix::fs::chownat(CWD, &path, owner, None, rustix::fs::AtFlags::empty())
        {
            println!("skipped: cgroups cannot be given to others here: {errno}");
            return;
        }
    }
    let mut sampler = sampler(&top.0);
    for tick in 1..=2 {
        let read = sample(&mut sampler, tick);
        for (name, _, said, want) in table {
            assert_eq!(cgroup(&read, &format!("/{name}")).preference, want, "{name} {said}");
        }
    }
}
