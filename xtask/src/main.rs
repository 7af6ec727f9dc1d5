//! isobar's errands.
fn main() {}
