//! The QoS class of each pod in a file, and the OOM score of each container.

use std::io::Write;
use std::num::NonZeroU64;

use anyhow::Result;
use isobar::config::pods::Manifest;
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::workload::Pod;
use isobar_core::view::API_VERSION;
use isobar_kubelet::{oom, qos};
use serde::Serialize;

use super::{Args, full_name};
use crate::cli::table::Table;
use crate::cli::terminal;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    qos_class: QosClass,
    /// The capacity that the scores are computed from.
    node_memory: Quantity,
    /// In the order of the spec, init containers first.
    containers: Vec<Scored<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Scored<'a> {
    name: &'a str,
    oom_score_adj: i32,
}

impl<'a> Report<'a> {
    fn of(pod: &'a Pod, capacity: NonZeroU64) -> Self {
        let Pod { namespace, name, uid, containers, .. } = pod;
        let scored = containers.iter().map(|container| Scored {
            name: &container.name,
            oom_score_adj: oom::score(pod, container, capacity),
        });
        Self {
            api_version: API_VERSION,
            kind: "QosReport",
            namespace,
            name,
            uid,
            qos_class: qos::class(pod),
            node_memory: Quantity::bytes(capacity.get()),
            containers: scored.collect(),
        }
    }
}

pub(super) fn write(args: &Args, manifest: &Manifest) -> Result<()> {
    let capacity = args.capacity()?;
    let reports: Vec<_> = manifest.pods.iter().map(|pod| Report::of(pod, capacity)).collect();
    let table = table(&manifest.pods, &reports);
    let write = |out: &mut dyn Write| Ok(table.write(out, terminal::width())?);
    match reports.as_slice() {
        // A list stays a list, even with one pod in it: scripts depend on that.
        [one] if !manifest.is_list => args.output.print(one, write),
        all => args.output.print(&all, write),
    }
}

fn table(pods: &[Pod], reports: &[Report<'_>]) -> Table {
    let mut table = Table::new("POD~ QOS CONTAINER~ OOM_SCORE_ADJ>");
    for (pod, report) in pods.iter().zip(reports) {
        for container in &report.containers {
            table.row([
                full_name(pod),
                format!("{:?}", report.qos_class),
                container.name.to_owned(),
                container.oom_score_adj.to_string(),
            ]);
        }
    }
    table
}
