//! Trees made on the spot, to change between two ticks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sampling::{cgroup, data, gaps, moment, paths, sample, sampler};
use isobar::source::{Awake, Directories, OpenError, Roots, Sampler};
use isobar_core::model::cgroup::Limit;
use isobar_core::model::sample::GapReason::{self, Torn, Unsupported};
use isobar_core::model::sample::{Cause, Gap, Sample};
use isobar_core::model::units::{Bytes, Micros};
use tempfile::TempDir;

/// A tree that lasts as long as this.
pub(super) struct Fake(TempDir);

impl Fake {
    pub(super) fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.write("/cgroup.controllers", "memory\n");
        fake.write("/cpu.stat", "usage_usec 1\n");
        fake.write("/cgroup.procs", "");
        fake.write_pressure("", 1);
        fake
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    pub(super) fn write_pressure(&self, path: &str, total: u64) {
        for name in ["cpu", "memory", "io"] {
            let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            self.write(&format!("{path}/{name}.pressure"), &text);
        }
    }

    /// A cgroup with the memory controller.
    pub(super) fn make(&self, path: &str) {
        fs::create_dir(self.at(path)).unwrap();
        for name in ["max", "high", "low", "min", "swap.max"] {
            self.write(&format!("{path}/memory.{name}"), "max\n");
        }
        for name in ["current", "swap.current"] {
            self.write(&format!("{path}/memory.{name}"), "7\n");
        }
        self.write(&format!("{path}/memory.events"), "oom_kill 0\n");
        self.write(&format!("{path}/memory.stat"), "anon 1\ninactive_file 2\n");
        self.write(&format!("{path}/cpu.stat"), "usage_usec 1\n");
        self.write(&format!("{path}/cgroup.procs"), "");
        self.write_pressure(path, 1);
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.at(path)).unwrap();
    }
}

/// The node of tests/data without its `/proc/pressure`.
fn node_without_pressure() -> TempDir {
    let proc = tempfile::tempdir().unwrap();
    for dir in ["", "sys/kernel", "sys/kernel/random"] {
        let to = proc.path().join(dir);
        fs::create_dir_all(&to).unwrap();
        let files = fs::read_dir(data("proc-node").join(dir)).unwrap().flatten();
        for file in files.filter(|file| file.path().is_file()) {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    proc
}

pub(super) fn total_of(read: &Sample, path: &str) -> Option<Micros> {
    Some(cgroup(read, path).pressure.cpu?.some?.total)
}

#[test]
fn sampler_births_and_deaths() {
    let fake = Fake::new();
    let mut sampler = sampler(fake.root());
    let steps: [(&[&str], &[&str], &[&str]); 6] = [
        // removed, made, then known
        (&[], &[], &["/"]),
        (&[], &["/a", "/a/b", "/c"], &["/", "/a", "/a/b", "/c"]),
        (&["/c"], &[], &["/", "/a", "/a/b"]),
        (&["/a/b"], &["/a/d"], &["/", "/a", "/a/d"]), // as many as before
        (&["/a"], &["/e", "/e/f"], &["/", "/e", "/e/f"]),
        (&["/e/f"], &["/e/f"], &["/", "/e", "/e/f"]), // a namesake
    ];
    for (tick, (removed, made, want)) in (1..).zip(steps) {
        removed.iter().for_each(|path| fake.remove(path));
        made.iter().for_each(|path| fake.make(path));
        let read = sample(&mut sampler, tick);
        assert_eq!(paths(&read), want, "tick {tick}");
        let is_routine =
            |gap: &&Gap| gap.why == GapReason::Gone || gap.object.ends_with("cgroup.controllers");
        assert_eq!(read.gaps.iter().find(|gap| !is_routine(gap)), None, "tick {tick}");
    }
}

/// A tenant who nests cgroups until no path leads to the deepest.
#[test]
fn sampler_path_that_the_kernel_does_not_open() {
    let fake = Fake::new();
    let tree = |top: &str| {
        fake.make(top);
        let deeper = |path: String, _| {
            let path = format!("{path}/{}", "n".repeat(250));
            fake.make(&path);
            path
        };
        (0..9).fold(top.to_owned(), deeper)
    };
    let deepest = ["/a", "/b", "/c", "/d"].map(tree);
    for (above, name) in deepest.iter().zip(["b", "c", "d"]).rev() {
        fs::rename(fake.at(name), fake.at(above).join(name)).unwrap();
    }
    let mut sampler = sampler(fake.root());
    for tick in 1..=3 {
        let read = sample(&mut sampler, tick);
        let longest = paths(&read).iter().map(|path| path.len()).max();
        // The root, three trees of ten, and of the fourth what still has a path of less than 8 KiB.
        assert_eq!((read.cgroups.len(), longest), (1 + 30 + 6, Some(8_040)), "tick {tick}");
        let is_told = read.gaps.iter().any(|gap| gap.detail.contains("too long"));
        assert!(is_told, "tick {tick}: {:?}", read.gaps);
    }
}

#[test]
fn sampler_kept_descriptors() {
    let fake = Fake::new();
    fake.make("/a");
    let mut sampler = sampler(fake.root());
    for tick in 1..=3 {
        fake.write("/a/memory.current", &format!("{tick}\n"));
        let read = sample(&mut sampler, tick);
        assert_eq!(cgroup(&read, "/a").memory.current, Some(Bytes(tick)), "tick {tick}");
    }
    // The directories of both, and the files of this tick that each has.
    assert_eq!(sampler.n_kept(), 2 + 4 + 8);
    fake.remove("/a");
    sample(&mut sampler, 4);
    assert_eq!(sampler.n_kept(), 1 + 4);
}

#[test]
fn sampler_setting_within_ten_ticks() {
    let fake = Fake::new();
    fake.make("/a");
    let mut sampler = sampler(fake.root());
    let max = |tick, sampler: &mut _| cgroup(&sample(sampler, tick), "/a").memory.max;
    assert_eq!(max(1, &mut sampler), Some(Limit::Max), "a new cgroup's at once");
    fake.write("/a/memory.max", "4096\n");
    let seen: Vec<_> = (2..=11).map(|tick| max(tick, &mut sampler)).collect();
    assert!(seen.is_sorted_by_key(|max| *max != Some(Limit::Max)), "{seen:?}");
    assert_eq!(seen.last(), Some(&Some(Limit::At(4096))), "{seen:?}");
}

#[test]
fn sampler_setting_unread() {
    let fake = Fake::new();
    fake.make("/a");
    fake.write("/a/memory.max", "??\n");
    let mut sampler = sampler(fake.root());
    for tick in 1..=12 {
        let read = sample(&mut sampler, tick);
        let told: Vec<_> =
            gaps(&read, fake.root()).into_iter().filter(|gap| gap.0 == Torn).collect();
        assert_eq!((told.len(), told[0].1), (1, "/a/memory.max"), "tick {tick}");
    }
    fake.write("/a/memory.max", "1\n");
    let read = sample(&mut sampler, 13);
    assert_eq!(cgroup(&read, "/a").memory.max, Some(Limit::At(1)));
}

#[test]
fn sampler_pressure_once_a_second() {
    let fake = Fake::new();
    fake.make("/a");
    let mut sampler = sampler(fake.root());
    #[rustfmt::skip]
    let table = [
        // at, ms; total then in the file; total in the sample
        (1_000, 10, 10),
        (1_500, 20, 10),
        (1_899, 30, 10),
        (1_900, 40, 40),
    ];
    for (tick, (ms, in_file, want)) in (1..).zip(table) {
        fake.write_pressure("/a", in_file);
        fake.write_pressure("", in_file);
        let read = sampler.sample_at(moment(ms), tick, Cause::Timer, &Awake::Unknown);
        assert_eq!(total_of(&read, "/a"), Some(Micros(want)), "at {ms} ms");
        let read_before = (want != in_file).then_some(moment(1_000).boot);
        assert_eq!(read.node.pressure_read, read_before, "at {ms} ms");
    }
}

#[test]
fn sampler_not_quiet() {
    let zero = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
    #[rustfmt::skip]
    let table = [
        // file, what it says at each tick
        ("cpu.pressure", zero.replace("avg10=0.00", "avg10=0.01")),
        ("io.pressure", zero.replace("avg10=0.00", "avg10=0.01")),
        ("memory.pressure", format!("{zero}odd\n")),
        ("memory.pressure", "??\n".into()),
        ("memory.events", "oom_kill\n".into()),
    ];
    for (file, text) in table {
        let fake = Fake::new();
        fake.make("/a");
        fake.write(&format!("/a/{file}"), &text);
        let mut sampler = sampler(fake.root());
        let first = sample(&mut sampler, 1);
        for tick in 2..=12 {
            let other = if file == "cpu.pressure" { "io" } else { "cpu" };
            if tick > 3 {
                for path in ["", "/a"] {
                    fake.write(&format!("{path}/{other}.pressure"), &zero.replace("=1\n", "=9\n"));
                }
            }
            let read = sample(&mut sampler, tick);
            let psi = cgroup(&read, "/a").pressure;
            let read_on = if other == "io" { psi.io } else { psi.cpu };
            let want = if tick > 3 { 9 } else { 1 };
            assert_eq!(read_on.unwrap().some.unwrap().total, Micros(want), "{file}, tick {tick}");
            assert_eq!(read.gaps, first.gaps, "{file}, tick {tick}: told anew each time");
        }
    }
}

#[test]
fn sampler_pressure_failed() {
    let fake = Fake::new();
    fake.make("/a");
    fake.write("/a/cpu.pressure", "??\n");
    let mut sampler = sampler(fake.root());
    #[rustfmt::skip]
    let table = [
        // at, ms; why it is missing
        (1_000, Some(Torn)),
        (1_500, Some(GapReason::Failed)),
        (1_900, None),
    ];
    for (tick, (ms, why)) in (1..).zip(table) {
        let read = sampler.sample_at(moment(ms), tick, Cause::Timer, &Awake::Unknown);
        fake.write_pressure("/a", 1);
        let told: Vec<_> = gaps(&read, fake.root());
        let told = told.iter().find(|gap| gap.1 == "/a/cpu.pressure").map(|gap| gap.0);
        assert_eq!(told, why, "at {ms} ms");
        assert_eq!(total_of(&read, "/a").is_some(), why.is_none(), "at {ms} ms");
    }
}

#[test]
fn sampler_controller_switched() {
    let fake = Fake::new();
    fake.make("/a");
    let mut sampler = sampler(fake.root());
    sample(&mut sampler, 1);
    let hidden =
        ["current", "swap.current", "events", "stat", "max", "high", "low", "min", "swap.max"];
    let hide = |from: &str, to: &str| {
        for name in hidden {
            let at = |prefix| fake.at(&format!("/a/{prefix}memory.{name}"));
            fs::rename(at(from), at(to)).unwrap();
        }
    };
    hide("", "off-");
    let follow = |sampler: &mut _, ticks: std::ops::RangeInclusive<u64>| {
        let last = ticks.map(|tick| sample(sampler, tick)).last();
        last.unwrap()
    };
    // A directory is listed once in thirty ticks.
    let off = follow(&mut sampler, 2..=31);
    assert_eq!(cgroup(&off, "/a").memory, Default::default());
    let below = (
        Unsupported,
        "/cgroup.subtree_control",
        "the memory controller is off below: write +memory to enable it",
    );
    assert!(gaps(&off, fake.root()).contains(&below), "{:?}", off.gaps);

    hide("off-", "");
    let on = follow(&mut sampler, 32..=61);
    assert_eq!(cgroup(&on, "/a").memory.current, Some(Bytes(7)));
    assert_eq!(cgroup(&on, "/a").memory.max, Some(Limit::Max));
    assert!(!gaps(&on, fake.root()).contains(&below), "{:?}", on.gaps);
}

#[test]
fn sampler_kernel_without_psi() {
    let fake = Fake::new();
    fake.make("/a");
    for dir in ["", "/a"] {
        for name in ["cpu", "memory", "io"] {
            fs::remove_file(fake.at(&format!("{dir}/{name}.pressure"))).unwrap();
        }
    }
    let proc = node_without_pressure();
    let roots = Roots {
        proc: proc.path().into(),
        cgroup: Some(fake.root().into()),
        filesystems: Directories::none(),
    };
    let mut sampler = Sampler::open(&roots).unwrap();
    let read = sample(&mut sampler, 1);
    let want = "pressure stall information is off: boot with psi=1";
    let about: Vec<_> = read.gaps.iter().filter(|gap| gap.object.contains("pressure")).collect();
    assert_eq!(about.len(), 1, "{about:?}");
    assert_eq!((about[0].why, about[0].detail.as_str()), (Unsupported, want));
    assert_eq!(read.node.pressure, Default::default());
    assert!(read.node.memory.is_some());
}

#[test]
fn sampler_node_file_missing_or_torn() {
    let fake = Fake::new();
    let proc = node_without_pressure();
    fs::remove_file(proc.path().join("sys/kernel/pid_max")).unwrap();
    fs::write(proc.path().join("meminfo"), "MemTotal: lots\n").unwrap();
    fs::write(proc.path().join("loadavg"), [0xff, 0xfe]).unwrap();
    let roots = Roots {
        proc: proc.path().into(),
        cgroup: Some(fake.root().into()),
        filesystems: Directories::none(),
    };
    let read = sample(&mut Sampler::open(&roots).unwrap(), 1);
    let told: Vec<_> = gaps(&read, proc.path()).iter().map(|gap| (gap.0, gap.1)).collect();
    for want in [
        (Unsupported, "/pressure"),
        (Torn, "/meminfo"),
        (Torn, "/loadavg"),
        (Unsupported, "/sys/kernel/pid_max"),
    ] {
        assert!(told.contains(&want), "{want:?} is not among {told:?}");
    }
    assert!(read.node.cpu.is_some() && read.node.memory.is_none() && read.node.n_threads.is_none());
}

#[test]
fn sampler_open_refuses() {
    let empty = tempfile::tempdir().unwrap();
    let open = |proc: &Path, cgroup: Option<&Path>| {
        Sampler::open(&Roots {
            proc: proc.into(),
            cgroup: cgroup.map(Into::into),
            filesystems: Directories::none(),
        })
        .unwrap_err()
    };
    let node = data("proc-node");
    assert!(matches!(open(empty.path(), None), OpenError::Facts(_)));
    assert!(matches!(open(&node, None), OpenError::Mounts { .. }));
    let absent = empty.path().join("absent");
    assert!(matches!(open(&node, Some(&absent)), OpenError::Root { .. }));
}

#[test]
fn sampler_many_equal_gaps() {
    let fake = Fake::new();
    for n in 0..30 {
        fake.make(&format!("/{n}"));
        fake.write(&format!("/{n}/memory.stat"), "anon\n");
        fs::remove_file(fake.at(&format!("/{n}/memory.swap.current"))).unwrap();
    }
    let read = sample(&mut sampler(fake.root()), 1);
    let told = |why| read.gaps.iter().filter(|gap| gap.why == why).collect::<Vec<_>>();
    assert_eq!(told(Torn).len(), 8);
    assert!(told(Torn)[7].detail.ends_with("; the same in 22 more cgroups"), "{:?}", told(Torn)[7]);
    let swap: Vec<_> = told(Unsupported)
        .into_iter()
        .filter(|gap| gap.object.ends_with("memory.swap.current"))
        .collect();
    assert_eq!(swap.len(), 1);
    assert!(swap[0].detail.ends_with("; the same in 29 more cgroups"), "{:?}", swap[0]);
}
