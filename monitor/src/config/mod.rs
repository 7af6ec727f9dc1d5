//! Files that an operator wrote, read into settings: all errors together, each with its place.

mod eviction;
mod fields;
mod found;
mod keys;
mod load;
mod node;
pub mod pods;
mod pressure;
mod print;
mod problem;
mod schema;
mod workload;
pub mod yaml;

pub use fields::{Field, Fields};
pub use keys::{API_VERSION, KIND};
pub use load::{Effective, defaults, effective, kubelet, load, read, settings};
pub use print::defaults as default_file;
pub use problem::{Invalid, Place, Problem, Problems};
pub use schema::schema;
