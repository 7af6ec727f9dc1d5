//! Which processes of a cgroup use the CPUs, while other cgroups wait for them: its name alone may say
//! little, and that of the root cgroup says nothing.
//! In: which cgroup cost others most, or that nobody knows which. Out: its busiest processes, or those
//! of the machine, for [`Sample::runners`].
//!
//! [`Sample::runners`]: isobar_core::model::sample::Sample::runners

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, str};

use super::gap;
use super::lines::{Torn, lines, number, words};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::{Moment, Runner};
use isobar_core::model::units::{MilliCpu, Nanos};
use isobar_core::view::aggressor::Suspect;

/// Processes that are looked at, the youngest first, and the next ones the next time: a look at each
/// takes some 10 µs.
const LOOKED_AT: usize = 512;
/// Before all were looked at, only one that uses so much is named: others may use more than a lesser.
const CERTAIN: MilliCpu = MilliCpu(500);
/// Processes that are named.
const NAMED: usize = 3;
/// Between the two looks of a pair, at least.
const APART: Nanos = Nanos(Nanos::SECOND.0 / 2);
/// From one pair of looks to the next.
const REST: Nanos = Nanos(10 * Nanos::SECOND.0);

/// See the module.
#[derive(Debug)]
pub struct Runners {
    proc: PathBuf,
    cgroup_root: PathBuf,
    ticks_per_second: u64,
    /// Whose processes are looked at next.
    next: Option<Suspect>,
    before: Option<(Look, Suspect)>,
    /// What the last two looks found.
    found: Vec<Runner>,
    looked: Option<Nanos>,
    sweep: Sweep,
}

/// A look at all processes of a suspect, in parts.
#[derive(Debug, Default)]
struct Sweep {
    whose: Option<Suspect>,
    /// How many of the youngest were looked at.
    next: usize,
    is_whole: bool,
    /// The busiest so far, which are looked at each time.
    best: Vec<u32>,
}

/// CPU time of processes, in ticks of the kernel's clock for user space, by pid and time of start.
#[derive(Debug)]
struct Look {
    at: Nanos,
    used: BTreeMap<(u32, u64), u64>,
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    used: u64,
    started: u64,
}

impl Runners {
    #[must_use]
    pub fn new(proc: &Path, cgroup_root: &Path) -> Self {
        Self {
            proc: proc.into(),
            cgroup_root: cgroup_root.into(),
            ticks_per_second: rustix::param::clock_ticks_per_second().max(1),
            next: None,
            before: None,
            found: Vec::new(),
            looked: None,
            sweep: Sweep::default(),
        }
    }

    /// Whether it wants to know whom to suspect: twice in ten seconds it looks, and at one cgroup.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        let has_rested = self.looked.is_none_or(|last| now.since(last) >= REST);
        self.before.is_none() && self.next.is_none() && has_rested
    }

    /// Whose processes are looked at next; `None` if no cgroup is suspected.
    pub fn suspect(&mut self, whose: Option<Suspect>) {
        if whose.is_none() {
            self.found.clear();
        }
        self.next = whose;
    }

    /// What the last two looks found. It is kept until the next two, or until no cgroup is suspected.
    pub fn read(&mut self, at: Moment) -> Vec<Runner> {
        let now = at.boot;
        // An urgent tick comes too soon for the kernel's clock, which counts hundredths of a second.
        let is_due = |(before, _): &mut (Look, Suspect)| now.since(before.at) >= APART;
        if let Some((before, whose)) = self.before.take_if(is_due) {
            self.found = self.busiest(&before, &whose, now);
        } else if let Some(suspect) = self.next.take() {
            self.looked = Some(now);
            self.before = Some((self.look(&suspect, now), suspect));
        }
        self.found.clone()
    }

    fn look(&mut self, whose: &Suspect, at: Nanos) -> Look {
        let pids = match whose {
            Suspect::Cgroup { path, .. } => self.pids(path),
            Suspect::Machine => self.all_pids(),
        };
        let pids = self.sweep.part(whose, &pids);
        let all = pids.into_iter().filter_map(|pid| {
            let Stat { used, started, .. } = self.stat(pid)?;
            Some(((pid, started), used))
        });
        Look { at, used: all.collect() }
    }

    fn busiest(&mut self, before: &Look, whose: &Suspect, now: Nanos) -> Vec<Runner> {
        let passed = u128::from(now.since(before.at).0.max(1));
        let per_tick = u128::from(Nanos::SECOND.0 / self.ticks_per_second);
        let (cgroup, is_of_machine) = match whose {
            Suspect::Cgroup { id, path } => (Some(*id).filter(|_| !path.is_root()), false),
            Suspect::Machine => (None, true),
        };
        let mut all: Vec<_> = before
            .used
            .iter()
            .filter_map(|((pid, started), used_before)| {
                let stat = self.stat(*pid).filter(|stat| stat.started == *started)?;
                let ticks = u128::from(stat.used.saturating_sub(*used_before));
                let used = u64::try_from(ticks * per_tick * 1_000 / passed).ok()?;
                let (pid, name, used) = (*pid, stat.name, MilliCpu(used));
                Some(Runner { pid, name, used, cgroup, is_of_machine })
            })
            .filter(|runner| runner.used > MilliCpu(0))
            .collect();
        all.sort_unstable_by_key(|runner| (Reverse(runner.used), runner.pid));
        all.truncate(NAMED);
        self.sweep.best = all.iter().map(|runner| runner.pid).collect();
        let is_certain = self.sweep.is_whole || all.iter().any(|one| one.used >= CERTAIN);
        if is_certain { all } else { Vec::new() }
    }

    /// The youngest first, without those of another PID namespace, which the kernel lists as 0.
    fn pids(&self, cgroup: &CgroupPath) -> Vec<u32> {
        let parse = |text: &[u8]| {
            let all = lines(text).map(|line| {
                let (n, line) = line?;
                let pid = number(line).and_then(|pid| u32::try_from(pid).ok());
                pid.ok_or_else(|| Torn::new(n, "a pid", line))
            });
            all.collect::<Result<Vec<_>, _>>()
        };
        let dir = self.cgroup_root.join(cgroup.0.trim_start_matches('/'));
        let mut pids = gap::read(&dir.join("cgroup.procs"), parse).unwrap_or_default();
        pids.sort_unstable();
        pids.dedup();
        pids.into_iter().rev().filter(|pid| *pid > 0).collect()
    }

    /// Every process of the machine, the youngest first: its directories in procfs.
    fn all_pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable_by_key(|pid| Reverse(*pid));
        pids
    }

    /// `None` if the process is gone.
    fn stat(&self, pid: u32) -> Option<Stat> {
        gap::read(&self.proc.join(pid.to_string()).join("stat"), stat).ok()
    }
}

impl Sweep {
    /// Those to be looked at now.
    fn part(&mut self, whose: &Suspect, all: &[u32]) -> Vec<u32> {
        if self.whose.as_ref() != Some(whose) {
            *self = Self { whose: Some(whose.clone()), ..Self::default() };
        }
        let begin = if self.next < all.len() { self.next } else { 0 };
        let end = all.len().min(begin + LOOKED_AT);
        self.next = end;
        self.is_whole |= end == all.len();
        let mut part = all[begin..end].to_vec();
        part.extend(self.best.iter().filter(|pid| !all[begin..end].contains(pid)));
        part
    }
}

fn stat(text: &[u8]) -> Result<Stat, Torn> {
    let (name, fields) = split(text)?;
    // proc_pid_stat(5) counts from 1, pid and name included.
    let field = |n: usize| {
        let field = fields.get(n - 3).copied().and_then(number);
        field.ok_or_else(|| Torn::new(1, SHAPE, text))
    };
    Ok(Stat {
        name: str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned),
        used: field(14)?.saturating_add(field(15)?),
        started: field(22)?,
    })
}

const SHAPE: &str = "`pid (name) state ..` with 22 fields";

/// `PID (NAME) STATE PPID ..`, as the name and the fields from the third on: a name may have
/// parentheses, spaces and line feeds.
pub(super) fn split(text: &[u8]) -> Result<(&[u8], Vec<&[u8]>), Torn> {
    let torn = || Torn::new(1, SHAPE, text);
    let open = text.iter().position(|byte| *byte == b'(').ok_or_else(torn)?;
    let close = text.iter().rposition(|byte| *byte == b')').ok_or_else(torn)?;
    let (name, rest) = text.split_at_checked(close).ok_or_else(torn)?;
    let name = name.get(open + 1..).ok_or_else(torn)?;
    let rest = rest.strip_suffix(b"\n").and_then(|rest| rest.get(1..)).ok_or_else(torn)?;
    Ok((name, words(rest).collect()))
}

#[cfg(test)]
mod tests {
    use isobar_core::model::cgroup::CgroupId;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn stat_of_a_process() {
        let rest = "R 1 1 1 0 -1 4194304 1 2 3 4 14 15 0 0 20 0 1 0 22 9 9\n";
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
            let want = name.map(|name| Stat { name: name.into(), used: 29, started: 22 });
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
            let dir = self.0.path().join(pid.to_string());
            fs::create_dir_all(&dir).unwrap();
            let text = format!(
                "{pid} (p{pid}) R 1 1 1 0 -1 4194304 1 2 3 4 {ticks} 0 0 0 20 0 1 0 {started} 9\n"
            );
            fs::write(dir.join("stat"), text).unwrap();
        }
    }

    /// A reading, and whom it makes suspect.
    fn tick(runners: &mut Runners, second: u64, suspect: Option<Suspect>) -> Vec<Runner> {
        let boot = Nanos(second * Nanos::SECOND.0);
        let found = runners.read(Moment { boot, ..Moment::default() });
        if runners.is_due(boot) {
            runners.suspect(suspect);
        }
        found
    }

    #[test]
    fn runners_are_named_on_suspicion() {
        let host = Host::new("0\n1\n2\n3\n4\n5\n6\n2\n");
        let mut runners = Runners::new(host.0.path(), host.0.path());
        runners.ticks_per_second = 100;
        let mut read = |second: u64, suspect: Option<Suspect>| {
            let found = tick(&mut runners, second, suspect);
            found.iter().map(|runner| (runner.pid, runner.used.0)).collect::<Vec<_>>()
        };
        let root = || Some(Suspect::Cgroup { id: CgroupId(1), path: CgroupPath::root() });
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
        assert_eq!(read(22, None), [(1, 500)]);
        assert_eq!(read(23, None), [(1, 500)], "known to be calm only after the tick");
        assert_eq!(read(24, None), [], "no suspicion any more");
    }

    #[test]
    fn runners_among_more_than_one_look_takes() {
        let all: Vec<_> = (1..=1_200).map(|pid: u32| pid.to_string()).collect();
        let host = Host::new(&all.join("\n"));
        fs::write(host.0.path().join("cgroup.procs"), all.join("\n") + "\n").unwrap();
        let mut runners = Runners::new(host.0.path(), host.0.path());
        runners.ticks_per_second = 100;
        let root = || Suspect::Cgroup { id: CgroupId(1), path: CgroupPath::root() };
        // A process that is old uses most; a young one uses a little, or enough to be named at once.
        for young in [30, 60] {
            let mut looks = Vec::new();
            for round in 0..4 {
                for (second, ticks) in [(0, 0), (1, 1)] {
                    let boot = Nanos((1_000 * young + 20 * round + second) * Nanos::SECOND.0);
                    host.ran(7, 22, round * 90 + ticks * 90);
                    host.ran(1_199, 22, round * young + ticks * young);
                    runners.suspect(Some(root()));
                    let found = runners.read(Moment { boot, ..Moment::default() });
                    if second == 1 {
                        looks.push(found.first().map(|runner| runner.pid));
                    }
                }
            }
            let first = (young >= 50).then_some(1_199);
            assert_eq!(looks, [first, first, Some(7), Some(7)], "{young}");
            runners.sweep = Sweep::default();
        }
    }

    #[test]
    fn runners_of_a_container() {
        let host = Host::new("1\n2\n");
        let inside = host.0.path().join("kubepods/pod7/c");
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("cgroup.procs"), "2\n").unwrap();
        let mut runners = Runners::new(host.0.path(), host.0.path());
        runners.ticks_per_second = 100;
        let path = CgroupPath("/kubepods/pod7/c".into());
        let suspect = Suspect::Cgroup { id: CgroupId(7), path };
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
        let mut runners = Runners::new(host.0.path(), host.0.path());
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
}
