//! Options that are a length of time.

use std::time::Duration;

use isobar::clock::written::{LENGTH, length};

/// More than zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match length(text) {
        None => Err(format!("expected {LENGTH}")),
        Some(time) if time.0 == 0 => Err("must be longer than 0s".into()),
        Some(time) => Ok(Duration::from_nanos(time.0)),
    }
}
