//! `isobar qos`: the class and the OOM scores that pods would have, or whether those that run here
//! have what they should.

mod live;
mod report;

use std::io::{self, Write as _};
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
use super::output::Plain;
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Manifests of pods, or of what makes them; `-` is standard input. Without: the containers
    /// that run here.
    #[arg(short, long = "file", value_name = "FILE", group = "from")]
    files: Vec<PathBuf>,
    /// What the API server says of the pods that run here (`kubectl get pods -A -o json
    /// --field-selector spec.nodeName=..`), so that each score is known exactly.
    #[arg(long, value_name = "FILE", group = "from")]
    pods: Option<PathBuf>,
    /// Fill missing requests from limits first, as the API server does.
    #[arg(long, requires = "from")]
    admitted: bool,
    /// Memory of the node that the pods would run on; this one's if not given.
    #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true)]
    node_memory: Option<String>,
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
    /// Where procfs is mounted.
    #[arg(long, value_name = "PATH", default_value = "/proc")]
    proc: PathBuf,
    /// Where cgroup v2 is mounted; found by itself if not given.
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
The class and the scores are the kubelet's own for what the file says; rules and sources are in
docs/policy.md. A score that differs does not change the exit code: it is in the output.";

pub(crate) fn run(args: &Args) -> Result<Code> {
    let mut out = io::stdout().lock();
    if args.files.is_empty() {
        let pods = match &args.pods {
            Some(file) => args.read(file)?.pods,
            None => Vec::new(),
        };
        live::write(&mut out, args, &pods)?;
    } else {
        let mut all = Manifest::default();
        for file in &args.files {
            let Manifest { pods, is_list, .. } = args.read(file)?;
            all.pods.extend(pods);
            all.is_list |= is_list;
        }
        report::write(&mut out, args, &all)?;
    }
    out.flush()?;
    Ok(Code::Ok)
}

impl Args {
    /// Reads a file, says what it passes over and what the API server would change.
    fn read(&self, file: &Path) -> Result<Manifest> {
        let (name, mut found) = input::pods(file)?;
        for other in &found.others {
            eprintln!("{}", harmless(&format!("{name}:{other}")));
        }
        for pod in &mut found.pods {
            let as_admitted = admitted(pod);
            let (raw, after) = (qos::class(pod), qos::class(&as_admitted));
            if self.admitted {
                *pod = as_admitted;
            }
            if raw != after {
                let (done, hint) = match self.admitted {
                    true => ("stand in", ""),
                    false => ("would stand in", "; see --admitted"),
                };
                let text = format!(
                    "{name}: {}: {raw:?} as it is written, {after:?} once admitted: limits {done} \
                     for missing requests{hint}",
                    full_name(pod)
                );
                eprintln!("{}", harmless(&text));
            }
        }
        Ok(found)
    }

    /// Memory of the node in question.
    fn capacity(&self) -> Result<NonZeroU64> {
        if let Some(text) = &self.node_memory {
            return Ok(memory(text)?);
        }
        let total = source::memory_total(&self.proc)
            .context("cannot tell how much memory this node has; give it with --node-memory")?;
        NonZeroU64::new(total.0).context("this node says that it has no memory; see --node-memory")
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
    let refused = |why: &str| Refused(format!("--node-memory {text:?}: {why}; give it as 32Gi"));
    let quantity: Quantity = text.parse().map_err(|e: QuantityError| refused(&e.to_string()))?;
    NonZeroU64::new(quantity.to_u64()).ok_or_else(|| refused("a node has some memory"))
}
