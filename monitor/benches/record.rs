//! What a recording of a node of 500 cgroups takes: bytes, time to write, time to replay, time to show
//! moments of a full segment, or of so many: `-- --segments 7` has 448 MiB. `cargo xtask bench record` judges the figures.
//! Prints JSON, one line for each node. To write is measured in CPU time, the rest as it is waited
//! for.
//! Named a recording, it measures that one, written anew: `cargo bench --bench record -- FILE`.

#[expect(clippy::unwrap_used, reason = "the nodes are those of the tests")]
#[path = "../../tests/pure/busy.rs"]
mod busy;
#[path = "../../tests/pure/dice.rs"]
mod dice;

use std::ffi::OsString;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use isobar::clock;
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::moment;
use isobar::record::reader::{Entry, Recording};
use isobar::record::replay::{Replay, Replayed};
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Standing};
use tempfile::TempDir;

use busy::{Load, Node};

/// Ticks of a chapter.
const CHAPTER: u64 = 300;
/// Ticks before those that are measured: who has met whom takes a while.
const WARM_UP: u64 = 40;
/// A figure is the median of so many.
const ROUNDS: usize = 11;

/// A pressed node judges its pods in every tick.
const CONFIGURATION: &str = "apiVersion: isobar/v1alpha1
kind: MonitorConfiguration
evictionPressure: [{scope: kubepods, signal: cpu, threshold: 1%}]
";

fn main() -> Result<()> {
    let mut args: Vec<OsString> =
        std::env::args_os().skip(1).filter(|arg| arg != "--bench").collect();
    let mut n_segments = 1;
    if let Some(at) = args.iter().position(|arg| arg == "--segments") {
        let n = args.drain(at..).nth(1).context("--segments needs a number")?;
        n_segments = n.to_string_lossy().parse()?;
    }
    let files: Vec<PathBuf> = args.into_iter().map(PathBuf::from).collect();
    for file in &files {
        let name = file.display().to_string();
        measure(&name, n_segments, samples(file)?)?;
    }
    if files.is_empty() {
        for (name, load) in [("a fifth busy", Load::Fifth), ("pressed", Load::Pressed)] {
            let mut node = Node::new(load);
            measure(name, n_segments, std::iter::repeat_with(move || node.tick()))?;
        }
    }
    Ok(())
}

/// The samples of a recording.
fn samples(file: &Path) -> Result<impl Iterator<Item = Sample>> {
    let entries = Recording::open(file)?;
    Ok(entries.filter_map(|entry| match entry {
        Ok(Entry::Frame(recorded)) => Some(recorded.sample),
        _ => None,
    }))
}

fn measure(name: &str, n_segments: u64, samples: impl Iterator<Item = Sample>) -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("recording");
    let mut samples = samples.fuse();
    let settings = isobar::config::settings(CONFIGURATION, "bench", dir.path())?;
    let mut engine = Engine::new(settings.clone(), Standing::new(8));
    for sample in samples.by_ref().take(usize::try_from(WARM_UP)?) {
        engine.step(sample);
    }
    let standing = engine.standing().clone();
    let at = standing.before.as_ref().map_or(Moment::default(), |before| before.at);
    let start = Start { settings: settings.clone(), standing, at, ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default())?;
    // The chapter's header, its marks and all its ticks but the last, which begins the next one.
    let (mut n, mut took) = (0, Nanos(0));
    for sample in samples.by_ref().take(usize::try_from(CHAPTER - 1)?) {
        let decision = engine.step(sample.clone()).decision;
        let before = clock::used_by_this_process();
        journal.write(&sample, &decision, engine.standing())?;
        took = took.plus(clock::used_by_this_process().since(before));
        n += 1;
    }
    drop(journal);
    let bytes = fs::metadata(&path)?.len();
    let replay = median(|| {
        let before = clock::now().boot;
        for replayed in Replay::new(Recording::open(&path)?, None) {
            if let Replayed::Tick(judged) = replayed? {
                anyhow::ensure!(judged.recorded == judged.text, "tick {} differs", judged.tick);
            }
        }
        Ok(clock::now().boot.since(before))
    })?;
    // Whole segments after it, and moments all over them.
    let standing = engine.standing().clone();
    let at = standing.before.as_ref().map_or(Moment::default(), |before| before.at);
    let start = Start { settings, standing, at, ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default())?;
    let mut walls = vec![at.wall];
    let next = dir.path().join(format!("recording.{}", n_segments + 1));
    while !next.exists()
        && let Some(sample) = samples.next()
    {
        walls.push(sample.at.wall);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing())?;
    }
    drop((journal, engine));
    let (mut nth, n_walls) = (0, walls.len());
    let moment = median(|| {
        nth += 1;
        let wall = walls[(nth * n_walls / (ROUNDS + 1)).min(n_walls - 1)];
        let before = clock::now().boot;
        black_box(moment::at(&path, wall)?.context("no tick")?);
        Ok(clock::now().boot.since(before))
    })?;
    println!(
        r#"{{"node":"{name}","ticks":{n},"bytesATick":{},"writeNs":{},"momentNs":{},"replayNs":{},"peakBytes":{}}}"#,
        bytes / n,
        took.0 / n,
        moment.0,
        replay.0 / n,
        peak()?,
    );
    Ok(())
}

fn median(mut one: impl FnMut() -> Result<Nanos>) -> Result<Nanos> {
    let mut all = (0..ROUNDS).map(|_| one()).collect::<Result<Vec<_>>>()?;
    all.sort_unstable();
    Ok(all[ROUNDS / 2])
}

/// The most memory that was resident.
fn peak() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
