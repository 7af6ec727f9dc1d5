//! What a sample costs: makes cgroups, samples them, prints CPU time and memory.
//!
//! `cargo run --release --example sample_cost [N ..]`, as root. The cgroups are made below
//! `isobar-cost` in the cgroup v2 tree and removed again.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};
use isobar::source::{Roots, Sampler};
use isobar_core::model::sample::{Cause, Moment};
use isobar_core::model::units::Nanos;

const TICKS: u64 = 50;

fn main() -> Result<()> {
    let sizes: Vec<usize> = env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let sizes = if sizes.is_empty() { vec![10, 100, 500, 2000] } else { sizes };
    let top = Sampler::open(&Roots::default())?.cgroup_root().join("isobar-cost");
    println!("cgroups  first ms  CPU µs/tick  µs/cgroup  longest µs  kept fds  RSS KiB  slab KiB");
    for n in sizes {
        let made = Made::new(&top, n)?;
        let slab = number("/proc/meminfo", "Slab:")?;
        measure(&top, n, slab)?;
        drop(made);
    }
    Ok(())
}

fn measure(top: &Path, n: usize, slab: u64) -> Result<()> {
    let mut sampler = Sampler::open(&Roots { cgroup: Some(top.into()), ..Roots::default() })?;
    let ticks = (1..=TICKS).map(|tick| cost(&mut sampler, tick));
    let mut costs = ticks.collect::<Result<Vec<_>>>()?;
    let first = costs.remove(0);
    costs.sort_unstable();
    let mean = costs.iter().sum::<u64>() / costs.len() as u64;
    println!(
        "{n:7}  {:8.1}  {:11.1}  {:9.2}  {:10.1}  {:8}  {:7}  {:8}",
        first as f64 / 1e6,
        mean as f64 / 1e3,
        mean as f64 / 1e3 / (n + 1) as f64,
        costs[costs.len() - 1] as f64 / 1e3,
        sampler.n_kept(),
        number("/proc/self/status", "VmRSS:")?,
        number("/proc/meminfo", "Slab:")?.saturating_sub(slab),
    );
    Ok(())
}

/// Nanoseconds of CPU time for one sample, with a clock that says a second has gone by, so that
/// pressure is read each time.
fn cost(sampler: &mut Sampler, tick: u64) -> Result<u64> {
    let at = Moment { boot: Nanos(tick * Nanos::SECOND.0), wall: Nanos(0) };
    let before = cpu_time()?;
    drop(sampler.sample_at(at, tick, Cause::Timer));
    Ok(cpu_time()? - before)
}

/// What this thread has used, in nanoseconds.
fn cpu_time() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().context("no first field")?.parse()?)
}

fn number(file: &str, key: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find(|line| line.starts_with(key)).context(format!("no {key}"))?;
    Ok(line.split_whitespace().nth(1).context(format!("no number after {key}"))?.parse()?)
}

/// Cgroups that are removed when this is dropped.
struct Made(Vec<PathBuf>);

impl Made {
    /// `top` with `n` cgroups below it, twenty to a slice, as pods lie on a node.
    fn new(top: &Path, n: usize) -> Result<Self> {
        let mut made = Self(Vec::new());
        made.make(top.into())?;
        for slice in 0..n.div_ceil(20) {
            let slice_path = top.join(format!("slice-{slice}"));
            made.make(slice_path.clone())?;
            for one in 1..(n - slice * 20).min(20) {
                made.make(slice_path.join(format!("one-{one}")))?;
            }
        }
        Ok(made)
    }

    fn make(&mut self, path: PathBuf) -> Result<()> {
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        self.0.push(path);
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            if let Err(error) = fs::remove_dir(path) {
                eprintln!("cannot remove {}: {error}", path.display());
            }
        }
    }
}
