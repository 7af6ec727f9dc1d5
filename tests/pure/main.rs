//! What needs neither root nor the kernel side: the built binary as a user calls it, recordings,
//! the HTTP surface, machines made of plain files, and the shape of the source.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod afar;
mod aggressor;
mod allocatable;
mod averages;
mod busy;
mod chart;
mod cli;
mod config;
mod corpus;
mod cpus;
mod dashboards;
mod dice;
mod dump;
mod history;
mod hostile;
mod http;
mod http_fuzz;
mod incident_page;
mod incidents;
mod judged;
#[path = "../kept.rs"]
mod kept;
mod kube;
mod layout;
mod machine;
#[path = "../made_up.rs"]
mod made_up;
mod manifest;
mod metrics;
mod moment;
mod openapi;
mod page_types;
mod past;
mod picture;
mod plugin;
mod pod_monitor;
#[path = "../program.rs"]
mod program;
mod promtool;
mod qos;
mod questions;
mod ranges;
mod rank;
mod recorded;
mod recording;
mod redact;
mod replay;
#[path = "../sampling.rs"]
mod sampling;
mod screen;
mod sessions;
mod source;
mod stream;
mod stuck;
mod summary;
mod sysdump;
mod ticks;
mod version_4;
mod watching;
