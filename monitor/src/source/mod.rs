//! Everything that reads the machine.

pub mod kernel;
