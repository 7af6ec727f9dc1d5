//! `isobar run`: the agent in the foreground.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use isobar::agent::{
    self, LISTEN, Live, Mode, OpenError, Options, Orders, RECORDING_DIR, Record, STATE_DIR,
    SourceOptions, Survival,
};
use isobar::config::kubernetes::{Access, Connection, Kubelet};
use isobar::record::journal::Bounds;
use isobar::serve::address::Address;
use isobar::source::kernel::{self, Probes};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::{Bytes, Percent};

use super::duration::duration;
use super::exit::Code;
use super::log;
use super::plan::{PlanArgs, host_name};

/// Where a kubelet listens unless it is told otherwise.
const KUBELET_PORT: u16 = 10250;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the page and the API: an IP address and a port, or a socket file as
    /// unix:/run/isobar/api.sock.
    #[arg(long, value_name = "ADDR", default_value = LISTEN, env = "ISOBAR_LISTEN")]
    listen: Address,
    /// Exit after this time, such as 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Whether the agent acts on the node [default: takes the steps in relief.enforce of the
    /// configuration, by default none].
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Directory for the state that outlives the agent: limits and squeezes in force, averages.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "ISOBAR_STATE_DIR")]
    state_dir: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// The API server. In a pod its service account is used; elsewhere there is none, unless a
/// kubeconfig is named.
#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// Do not talk to the API server, even in a pod.
    #[arg(long)]
    no_kubernetes: bool,
    /// Talk to the API server that this file names; by default the service account of the pod is
    /// used, and outside of pods no API server.
    #[arg(long, value_name = "FILE", env = "ISOBAR_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Name of this node in the cluster [default: the host name].
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Address of this node's kubelet, with the API server's credentials [default:
    /// https://$NODE_IP:10250 if NODE_IP is set].
    #[arg(long, value_name = "URL", env = "ISOBAR_KUBELET")]
    kubelet: Option<String>,
}

impl ClusterArgs {
    /// How the API server is reached, if it is to be.
    fn access(&self, kubelet_root: &str) -> Option<Access> {
        let is_in_pod = env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let connection = match &self.kubeconfig {
            _ if self.no_kubernetes => return None,
            Some(file) => Connection::Kubeconfig(file.clone()),
            None if is_in_pod => Connection::InCluster,
            None => return None,
        };
        let node = self.node_name.clone().unwrap_or_else(host_name);
        let reporter = env::var("POD_NAME").unwrap_or_else(|_| node.clone());
        let by_ip = || {
            let ip: IpAddr = env::var("NODE_IP").ok()?.parse().ok()?;
            // A port after an IPv6 address needs brackets.
            Some(format!("https://{}", SocketAddr::new(ip, KUBELET_PORT)))
        };
        let certificate = Path::new(kubelet_root).join("pki/kubelet.crt");
        let url = self.kubelet.clone().or_else(by_ip);
        let kubelet = url.map(|url| Kubelet { url, certificate });
        Some(Access { connection, kubelet, node, reporter })
    }
}

#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// Record every tick to this file, or into this directory (one that exists, or with a / at the
    /// end), for `isobar replay` and `--at`. An existing recording is continued in a new segment
    /// [default: /var/lib/isobar/recording where it may be written, else the last ten minutes in
    /// memory].
    #[arg(long, value_name = "DIR|FILE", env = "ISOBAR_RECORD")]
    record: Option<PathBuf>,
    /// Record nothing, and keep no incidents, unless --record says where.
    #[arg(long, env = "ISOBAR_NO_RECORD")]
    no_record: bool,
    /// Maximum size of the recording; of the oldest segments 15 ticks of each 300 are kept, and then
    /// none.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = record_size)]
    record_max_size: Quantity,
    /// Maximum age of the recording; older segments are deleted.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = record_age, allow_hyphen_values = true)]
    record_max_age: Duration,
}

impl RecordArgs {
    fn bounds(&self) -> Bounds {
        Bounds { size: Bytes(self.record_max_size.to_u64()), age: self.record_max_age.into() }
    }
}

fn record_size(text: &str) -> Result<Quantity, String> {
    let size = text.parse::<Quantity>().map_err(|why| why.to_string())?;
    let bounds = Bounds { size: Bytes(size.to_u64()), ..Bounds::default() };
    bounds.checked().map(|_| size).map_err(|why| why.to_string())
}

fn record_age(text: &str) -> Result<Duration, String> {
    let age = duration(text)?;
    let bounds = Bounds { age: age.into(), ..Bounds::default() };
    bounds.checked().map(|_| age).map_err(|why| why.to_string())
}

/// Options of the sampler, for an agent and for verbs that take their own samples.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// eBPF programs to attach.
    #[arg(long, value_enum, default_value_t = ProbesArg::All, env = "ISOBAR_PROBES")]
    probes: ProbesArg,
    /// Maximum number of cgroups that the eBPF maps have room for.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=65_536), env = "ISOBAR_MAX_CGROUPS")]
    max_cgroups: u32,
    /// Maximum share of the node's CPU time for tracing context switches. Above it the programs are
    /// detached for 30 to 60 seconds, and waits are unknown.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, env = "ISOBAR_PROBE_BUDGET")]
    probe_budget: Percent,
    /// Mount point of cgroup v2 [default: from /proc/self/mountinfo].
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Observe only: decide and record, but change nothing on the node.
    Observe,
    /// Take the steps in relief.enforce of the configuration, or all steps if it does not have that key.
    Enforce,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProbesArg {
    /// All programs that this kernel supports.
    All,
    /// Tracepoints only.
    Tracepoints,
    /// No programs: pressure files and cgroup files only.
    None,
}

impl SourceArgs {
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
            node_name: None,
        }
    }
}

fn percent(text: &str) -> Result<Percent, String> {
    // Parsed as in JSON, so that percentages have one grammar.
    let read = serde_json::from_str::<Percent>(text).ok();
    read.filter(|percent| *percent <= Percent::FULL).ok_or("expected a number from 0 to 100".into())
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let survival = Survival::begin();
    log::queue().context("cannot start the thread that writes the log")?;
    if !args.listen.is_local() {
        tracing::warn!(
            listen = %args.listen,
            "the page and the API have no authentication: any host that can connect can read them"
        );
    }
    let reader = PlanArgs {
        node_name: args.cluster.node_name.clone(),
        awaits_kubelet: args.cluster.access("").is_some_and(|access| access.kubelet.is_some()),
        enforces: matches!(args.mode, Some(ModeArg::Enforce)),
        ..args.plan.clone()
    };
    let plan = reader.plan(None)?;
    let mut sources = args.sources.options(&plan.settings.node.kubelet_root);
    sources.node_name = args.cluster.node_name.clone();
    let cluster = args.cluster.access(&plan.settings.node.kubelet_root);
    let mut orders = Orders::new(plan, reader.again());
    orders.record = match &args.record.record {
        Some(path) => Record::To(path.clone(), args.record.bounds()),
        None if args.record.no_record => Record::Off,
        None => Record::WherePossible(RECORDING_DIR.into(), args.record.bounds()),
    };
    let options = Options {
        listen: args.listen.clone(),
        duration: args.duration,
        orders,
        mode: match args.mode {
            Some(ModeArg::Observe) => Mode::Observe,
            Some(ModeArg::Enforce) | None => Mode::Configured,
        },
        cluster,
        state_dir: args.state_dir.clone(),
        survival: Some(survival),
    };
    agent::run::<Live, OpenError>(options, || Live::open(&sources).inspect(Live::tell))?;
    Ok(Code::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches as _};

    #[test]
    fn bounds_below_the_least_are_a_misuse() {
        let least = "a recording needs at least 1 MiB and 60 s";
        #[rustfmt::skip]
        let table = [
            // option, value, why it is refused
            ("--record-max-size", "1Mi",  None),
            ("--record-max-size", "1Ki",  Some(least)),
            ("--record-max-size", "0",    Some(least)),
            ("--record-max-size", "much", Some("much")),
            ("--record-max-age",  "60s",  None),
            ("--record-max-age",  "59s",  Some(least)),
            ("--record-max-age",  "0",    Some("must be longer than 0s")),
        ];
        for (option, value, want) in table {
            let command = RecordArgs::augment_args(Command::new("run"));
            let parsed = command.try_get_matches_from(["run", option, value]);
            match (parsed, want) {
                (Ok(parsed), None) => {
                    let bounds = RecordArgs::from_arg_matches(&parsed).unwrap().bounds();
                    assert!(bounds.checked().is_ok(), "{option} {value}");
                }
                (Err(why), Some(want)) => {
                    assert_eq!(why.exit_code(), Code::Usage as i32, "{option} {value}");
                    assert!(why.to_string().contains(want), "{option} {value}: {why}");
                }
                (parsed, want) => panic!("{option} {value}: {parsed:?}, {want:?}"),
            }
        }
    }
}
