//! The QoS class of each pod in a file, and the OOM score of each container.

use std::io::Write;
use std::num::NonZeroU64;

use anyhow::Result;
use isobar::config::pods::Manifest;
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::workload::Pod;
use isobar_core::view::Document;
use isobar_kubelet::swap::swap_max;
use isobar_kubelet::{oom, qos};
use serde::Serialize;

use super::{Args, full_name};
use crate::cli::table::Table;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
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
    /// Bytes, with `--node-swap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_swap_max: Option<u64>,
}

impl<'a> Report<'a> {
    fn of(pod: &'a Pod, capacity: NonZeroU64, swap: Option<Quantity>) -> Self {
        let Pod { namespace, name, uid, containers, .. } = pod;
        let scored = containers.iter().map(|container| Scored {
            name: &container.name,
            oom_score_adj: oom::score(pod, container, capacity),
            memory_swap_max: swap.map(|swap| swap_max(pod, container, capacity, swap.to_u64())),
        });
        Self {
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
    let reports: Vec<_> =
        manifest.pods.iter().map(|pod| Report::of(pod, capacity, args.node_swap)).collect();
    let table = table(&manifest.pods, &reports, args);
    let write = |out: &mut dyn Write| Ok(table.write(out, args.output.width())?);
    let documents: Vec<_> = reports.iter().map(|one| Document::new("QosReport", one)).collect();
    match documents.as_slice() {
        // A list stays a list, even with one pod in it: scripts depend on that.
        [one] if !manifest.is_list => args.output.print(one, write),
        all => args.output.print(&all, write),
    }
}

fn table(pods: &[Pod], reports: &[Report<'_>], args: &Args) -> Table {
    let is_wide = args.output.is_wide();
    let swap = if args.node_swap.is_some() { "MEMORY.SWAP.MAX>" } else { "" };
    let more = if is_wide { "NODE-MEMORY> UID" } else { "" };
    let mut table = Table::new(&format!("POD~ QOS CONTAINER~ OOM_SCORE_ADJ> {swap} {more}"));
    for (pod, report) in pods.iter().zip(reports) {
        for container in &report.containers {
            let mut row = vec![
                full_name(pod),
                format!("{:?}", report.qos_class),
                container.name.to_owned(),
                container.oom_score_adj.to_string(),
            ];
            row.extend(container.memory_swap_max.map(|bytes| bytes.to_string()));
            if is_wide {
                let uid = if report.uid.is_empty() { "-" } else { report.uid };
                row.extend([report.node_memory.to_string(), uid.to_owned()]);
            }
            table.row(row);
        }
    }
    table
}
