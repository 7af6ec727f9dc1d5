//! Files that an operator wrote, read into settings. All errors are reported together, each with
//! its line and column.

mod differences;
mod eviction;
mod fields;
pub mod json;
mod keys;
pub mod kubernetes;
mod layers;
mod load;
mod node;
pub mod pods;
mod pressure;
mod print;
mod problem;
mod schema;
mod workload;
pub mod yaml;

pub use differences::{Difference, differences};
pub use fields::{Field, Fields};
pub use keys::{API_VERSION, KIND};
pub use load::{
    Effective, KubeletSource, defaults, effective, kubelet, kubelet_of, load, over, read,
    read_awaiting, read_bounded, settings,
};
pub use print::defaults as default_file;
pub use problem::{Invalid, Place, Problem, Problems};
pub use schema::schema;
