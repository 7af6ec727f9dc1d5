//! `isobar qos`: QoS class and OOM scores of the pods in a file, or a check of the containers that
//! run on this node.

mod live;
mod report;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use isobar::config::pods::Manifest;
use isobar::source;
use isobar_core::model::quantity::{Quantity, QuantityError};
use isobar_core::model::workload::Pod;
use isobar_kubelet::admitted::admitted;
use isobar_kubelet::qos;

use super::exit::{Code, Refused};
use super::input;
use super::node::ConfigArgs;
use super::output::{Format, say};

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// File with manifests of pods, or of objects that make pods; - for standard input [default:
    /// the containers that run on this node].
    #[arg(short, long = "file", value_name = "FILE", group = "from")]
    files: Vec<PathBuf>,
    /// File with the pods of this node, to check exact scores: the output of `kubectl get pods -A
    /// -o json --field-selector spec.nodeName=..`.
    #[arg(long, value_name = "FILE", group = "from")]
    pods: Option<PathBuf>,
    /// Take pods as written: without the defaults that the API server fills in before the kubelet
    /// sees a pod (requests from limits, priority from priorityClassName).
    #[arg(long, requires = "from")]
    raw: bool,
    /// Memory capacity of the node, such as 32Gi [default: this machine's].
    #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true, requires = "from")]
    node_memory: Option<String>,
    /// Swap of the node, such as 4Gi: also show how much of it each container may use, as a kubelet
    /// with swapBehavior LimitedSwap sets it.
    #[arg(long, value_name = "QUANTITY", requires = "files")]
    node_swap: Option<Quantity>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Mount point of procfs.
    #[arg(long, value_name = "PATH", default_value = "/proc")]
    proc: PathBuf,
    /// Mount point of cgroup v2 [default: from /proc/self/mountinfo].
    #[arg(long, value_name = "PATH", conflicts_with = "files")]
    cgroup_root: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Class and scores are those that the kubelet computes from the file; docs/kubelet.md has rules and
sources. A process with another score does not change the exit code: the output shows it.";

pub(crate) fn run(args: &Args) -> Result<Code> {
    if args.files.is_empty() {
        let pods = match &args.pods {
            Some(file) => args.read(file)?.pods,
            None => Vec::new(),
        };
        live::write(args, &pods)?;
    } else {
        let mut all = Manifest::default();
        for file in &args.files {
            let Manifest { pods, is_list, .. } = args.read(file)?;
            all.pods.extend(pods);
            all.is_list |= is_list;
        }
        report::write(args, &all)?;
    }
    Ok(Code::Ok)
}

impl Args {
    /// Reads a file. Reports on stderr what is ignored, and classes that the defaults change.
    fn read(&self, file: &Path) -> Result<Manifest> {
        let (name, mut found) = input::pods(file)?;
        for other in &found.others {
            say(format_args!("{name}:{other}"));
        }
        for pod in &mut found.pods {
            let with_defaults = admitted(pod);
            let (raw, after) = (qos::class(pod), qos::class(&with_defaults));
            if !self.raw {
                *pod = with_defaults;
            }
            if raw != after {
                let hint = if self.raw { "" } else { "; --raw takes it as written" };
                let text = format!(
                    "{name}: {}: {raw:?} as written, {after:?} once admitted, because the API server \
                     sets missing requests to the limits{hint}",
                    full_name(pod)
                );
                say(text);
            }
        }
        Ok(found)
    }

    fn capacity(&self) -> Result<NonZeroU64> {
        if let Some(text) = &self.node_memory {
            return Ok(memory(text)?);
        }
        let total = source::memory_total(&self.proc)
            .context("cannot read the memory capacity of this node; set it with --node-memory")?;
        NonZeroU64::new(total.0)
            .context("the memory capacity of this node reads 0; set it with --node-memory")
    }
}

/// `NAMESPACE/NAME`.
fn full_name(pod: &Pod) -> String {
    match (pod.namespace.as_str(), pod.name.as_str()) {
        (_, "") => "(no name)".into(),
        ("", name) => name.into(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn memory(text: &str) -> Result<NonZeroU64, Refused> {
    let refused = |why: &str| {
        Refused(format!("--node-memory {text:?}: {why}; expected a quantity such as 32Gi"))
    };
    let quantity: Quantity = text.parse().map_err(|e: QuantityError| refused(&e.to_string()))?;
    NonZeroU64::new(quantity.to_u64()).ok_or_else(|| refused("it must be more than 0"))
}
