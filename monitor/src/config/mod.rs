//! Files that an operator wrote, read into settings: all errors together, each with its place.

mod fields;
pub mod pods;
mod problem;
pub mod yaml;

pub use fields::{Field, Fields};
pub use problem::{Invalid, Place, Problem, Problems};
