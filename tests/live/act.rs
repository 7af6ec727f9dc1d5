//! The actor, on real processes in real cgroups below the host's cgroup v2 mount, and on plain
//! files where the host has no controller to write to.
//! Whoever makes a cgroup here removes it; where there is none to be had, the test says so.

mod asked;
mod controllers;
mod ends;
mod files;
mod marks;
mod names;
mod place;
mod pods;
mod refused;
mod restricted;
mod stuck;
mod trees;
mod undone;

pub(crate) use place::mount;
