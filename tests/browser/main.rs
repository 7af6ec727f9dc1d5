//! The page in a real browser: what a reader sees, with a node that is made up or was recorded, and a recording.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod because;
mod binary;
mod chromium;
mod controls;
mod film;
mod going_back;
mod incident;
#[path = "../kept.rs"]
mod kept;
mod known;
#[path = "../made_up.rs"]
mod made_up;
mod page;
#[path = "../program.rs"]
mod program;
mod server;
mod views;
