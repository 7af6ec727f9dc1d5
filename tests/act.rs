//! The actor, on real processes in real cgroups below the host's cgroup v2 mount, and on plain
//! files where the host has no controller to write to.
//! Whoever makes a cgroup here removes it; where there is none to be had, the test says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "act/ends.rs"]
mod ends;
#[path = "act/files.rs"]
mod files;
#[path = "act/place.rs"]
mod place;
#[path = "act/pods.rs"]
mod pods;
#[path = "act/refused.rs"]
mod refused;
#[path = "act/stuck.rs"]
mod stuck;
