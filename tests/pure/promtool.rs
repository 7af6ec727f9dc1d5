//! Prometheus' own check of metrics and rules.

use std::env;
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

/// Where it is, if it is not in `PATH`; `cargo xtask test` fetches it.
const PLACE: &str = "ISOBAR_PROMTOOL";

/// Has promtool look at its arguments and `stdin`, and holds that it finds nothing wrong. Skipped
/// where there is none.
#[track_caller]
pub(crate) fn promtool(arguments: &[&str], stdin: &str) {
    let program = env::var_os(PLACE).unwrap_or_else(|| OsString::from("promtool"));
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = match command.spawn() {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return println!("skipped: no promtool: `cargo xtask test` fetches it");
        }
        process => process.unwrap(),
    };
    process.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // `check metrics` warns without failing.
    let is_warning = arguments == ["check", "metrics"] && !said.is_empty();
    assert!(output.status.success() && !is_warning, "promtool {arguments:?}: {said}");
}
