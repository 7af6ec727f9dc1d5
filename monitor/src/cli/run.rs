//! `isobar run`: the agent in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use isobar::agent::{
    self, LISTEN, Live, Mode, OpenError, Options, Orders, STATE_DIR, SourceOptions, Survival,
};
use isobar::record::journal::Bounds;
use isobar::source::kernel::{self, Probes};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::{Bytes, Nanos, Percent};

use super::exit::Code;
use super::plan::PlanArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the page and the API here.
    #[arg(long, value_name = "ADDR", default_value = LISTEN, env = "ISOBAR_LISTEN")]
    listen: SocketAddr,
    /// Leave after this long, such as 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// What the agent may do on the node; without it, what the configuration names in
    /// `relief.enforce`, and that is nothing by default.
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Remember here what is done, beyond the agent's life.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "ISOBAR_STATE_DIR")]
    state_dir: PathBuf,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// What to keep for a replay.
#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// Record every tick, to be judged again by `isobar replay`. Goes on in a new segment where a
    /// recording exists.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Keep so much of it: the oldest goes.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", requires = "record")]
    record_max_size: Quantity,
    /// Keep it for so long.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration, requires = "record")]
    record_max_age: Duration,
}

impl RecordArgs {
    fn bounds(&self) -> Bounds {
        let age = Nanos(u64::try_from(self.record_max_age.as_nanos()).unwrap_or(u64::MAX));
        Bounds { size: Bytes(self.record_max_size.to_u64()), age }
    }
}

/// What to read: the same for an agent and for `top` on its own.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// Which kernel programs to attach.
    #[arg(long, value_enum, default_value_t = ProbesArg::All, env = "ISOBAR_PROBES")]
    probes: ProbesArg,
    /// Cgroups for which the kernel side has room.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_cgroups: u32,
    /// Percent of the node's CPU time that following context switches may take. Above it waits are
    /// unknown for ten minutes or longer.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, env = "ISOBAR_PROBE_BUDGET")]
    probe_budget: Percent,
    /// Where cgroup v2 is mounted; found by itself if not given.
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Look, and touch nothing, whatever the configuration names.
    Observe,
    /// Take the steps that the configuration names in `relief.enforce`, or every step if it names
    /// none.
    Enforce,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProbesArg {
    /// All that this kernel takes.
    All,
    /// Tracepoints alone.
    Tracepoints,
    /// None: pressure files and cgroup files only.
    None,
}

impl SourceArgs {
    /// What to read on a node whose kubelet keeps its files in `kubelet_root`.
    pub(crate) fn options(&self, kubelet_root: &str) -> SourceOptions {
        let probes = match self.probes {
            ProbesArg::All => Probes::All,
            ProbesArg::Tracepoints => Probes::Tracepoints,
            ProbesArg::None => Probes::None,
        };
        SourceOptions {
            kernel: kernel::Options {
                probes,
                max_cgroups: self.max_cgroups,
                budget: self.probe_budget,
            },
            cgroup_root: self.cgroup_root.clone(),
            kubelet_root: kubelet_root.into(),
        }
    }
}

fn percent(text: &str) -> Result<Percent, String> {
    // Percentages are read in one way everywhere: as the number that they are in JSON.
    let read = serde_json::from_str::<Percent>(text).ok();
    read.filter(|percent| *percent <= Percent::FULL).ok_or("a number from 0 to 100".into())
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let plan = args.plan.plan()?;
    let sources = args.sources.options(&plan.settings.node.kubelet_root);
    let mut orders = Orders::new(plan, args.plan.clone().again());
    if let Some(path) = &args.record.record {
        orders = orders.recording(path.clone(), args.record.bounds());
    }
    let options = Options {
        listen: args.listen,
        duration: args.duration,
        orders,
        mode: match args.mode {
            None => Mode::Configured,
            Some(ModeArg::Observe) => Mode::Observe,
            Some(ModeArg::Enforce) => Mode::Enforce,
        },
        state_dir: args.state_dir.clone(),
        survival: Some(Survival::begin()),
    };
    agent::run::<Live, OpenError>(options, || Live::open(&sources).inspect(Live::tell))?;
    Ok(Code::Ok)
}

/// A length of time as people write it; not negative, not zero.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|why| format!("{why}"))?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("must be longer than nothing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        #[rustfmt::skip]
        let table = [
            // text, seconds
            ("10s",     Some(10)),
            ("5m",      Some(300)),
            ("1h30m",   Some(5_400)),
            ("2 minutes", Some(120)),
            ("0s",      None),
            ("-5s",     None),
            ("10",      None), // of what?
            ("soon",    None),
            ("",        None),
        ];
        for (text, want) in table {
            assert_eq!(duration(text).ok(), want.map(Duration::from_secs), "{text:?}");
        }
    }
}
