//! The built agent and its parts on this machine: root's cgroups, the real kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod act;
mod agent;
mod attack;
mod attribution;
mod budget;
#[path = "../capabilities.rs"]
mod capabilities;
mod churn;
mod cluster;
mod disks;
mod enforce;
mod figures;
mod host;
mod incidents;
mod judged;
mod named;
mod profile;
#[path = "../program.rs"]
mod program;
mod prometheus;
mod qos;
mod recording;
#[path = "../sampling.rs"]
mod sampling;
mod source;
mod verbs;
