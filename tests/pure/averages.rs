//! Our own averages against the kernel's, on recordings of a real `cpu.pressure`.
//!
//! Each line of `data/psi-recording-*.jsonl` is one reading of a cgroup's `cpu.pressure`, once a
//! second, with `CLOCK_BOOTTIME` right after the read. The cgroup held two endless loops pinned to
//! one CPU: `steady` from 20 s to 80 s of 120 s; `bursts` for 3, 1, 5, 15 and 2 s of 90 s.
//! Linux 6.18, HZ=250, without the cpu controller.

use std::fs;
use std::path::{Path, PathBuf};

use isobar_core::model::average::{Average, PERIOD, Reading};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::units::Nanos;
use serde::Deserialize;

/// Half a point. The kernel's worker reads the total at the end of each of its periods; we know it
/// once a second and draw a straight line between.
const TOLERANCE: u16 = 50;

/// One jiffy of the machine that recorded.
const TICK: Nanos = Nanos(4_000_000);

#[derive(Debug, Deserialize)]
struct Read {
    boot: Nanos,
    pressure: Pressure,
}

impl Read {
    fn some(&self) -> Line {
        self.pressure.some.expect("cpu.pressure always prints it")
    }

    fn reading(&self) -> Reading {
        Reading { at: self.boot, total: self.some().total.into() }
    }
}

#[test]
fn average_matches_recorded_psi() {
    for path in recordings() {
        let reads = load(&path);
        let top = reads.iter().map(|read| read.some().avg10).max().expect("it has lines");
        assert!(top.0 > 50_00, "{path:?} records hardly any pressure: {top}");
        let (phase, worst) = best_phase(&reads);
        eprintln!(
            "{}: avg10 off by up to {}.{:02}, avg60 by {}.{:02} points, phase {} ms",
            path.file_name().expect("it is a file").display(),
            worst[0] / 100,
            worst[0] % 100,
            worst[1] / 100,
            worst[1] % 100,
            phase.0 / 1_000_000,
        );
        assert!(worst.iter().all(|&off| off <= TOLERANCE), "{path:?} {worst:?} at phase {phase:?}");
    }
}

/// How long before the first reading the kernel's first period began, as far as the recording
/// tells, and how far off avg10 and avg60 then are at worst, in hundredths.
///
/// The kernel does not say when a cgroup's periods end, but `avg_next_update` moves by whole
/// periods only, so one number fits the whole recording or none does: it is found by the smallest
/// error.
fn best_phase(reads: &[Read]) -> (Nanos, [u16; 2]) {
    let phases = (0..PERIOD.0 / TICK.0).map(|n| Nanos(n * TICK.0));
    phases
        .map(|phase| (phase, worst_at(phase, reads)))
        .min_by_key(|(_, worst)| worst.iter().max().copied())
        .expect("there is more than one phase")
}

/// Replays the recording as `psi_show` and `psi_avgs_work` do: the averages move when somebody
/// reads, and while the cgroup is at work also from a worker. It starts a period after a task
/// first runs, goes on at the end of each period, and stops when nothing ran.
fn worst_at(phase: Nanos, reads: &[Read]) -> [u16; 2] {
    let first = reads[0].reading();
    let begun = first.at.since(phase);
    let mut average = Average::new(begun, first.total);
    let mut worker = None;
    let mut worst = [0; 2];
    for pair in reads.windows(2) {
        let (before, after) = (pair[0].reading(), pair[1].reading());
        let at_work = after.total > before.total;
        if at_work && worker.is_none() {
            worker = Some(before.at.plus(PERIOD));
        }
        while let Some(moment) = worker.filter(|moment| *moment <= after.at) {
            average.update(moment, before.on_the_way_to(after, moment));
            worker = at_work.then(|| end_of_period(begun, moment).plus(TICK));
        }
        average.update(after.at, after.total);
        let theirs = pair[1].some();
        let both = [(average.avg10(), theirs.avg10), (average.avg60(), theirs.avg60)];
        for (worst, (ours, theirs)) in worst.iter_mut().zip(both) {
            *worst = ours.0.abs_diff(theirs.0).max(*worst);
        }
    }
    worst
}

/// The end of the period in which `moment` lies.
fn end_of_period(begun: Nanos, moment: Nanos) -> Nanos {
    let n = moment.since(begun).0 / PERIOD.0 + 1;
    begun.plus(Nanos(n * PERIOD.0))
}

fn recordings() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut paths: Vec<PathBuf> = fs::read_dir(&data)
        .expect("tests/data is in the tree")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("psi-recording-")
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no recording in {data:?}");
    paths
}

fn load(path: &Path) -> Vec<Read> {
    let text = fs::read_to_string(path).expect("it can be read");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a reading")).collect()
}
