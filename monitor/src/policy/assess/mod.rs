//! Whether something is short, for whom, and since when.

pub mod critical;
