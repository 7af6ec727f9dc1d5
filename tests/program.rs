//! The built binary, as a user calls it.

use std::process::{Command, Stdio};

/// `isobar` with these arguments, and nothing of our environment that would change them.
pub(crate) fn isobar(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isobar"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["AGENT", "CONFIG", "LISTEN", "PROBES", "PROBE_BUDGET", "LOG", "STATE_DIR"] {
        command.env_remove(format!("ISOBAR_{name}"));
    }
    // Tests that run in a pod are not to talk to its API server.
    for name in ["NOTIFY_SOCKET", "KUBERNETES_SERVICE_HOST", "ISOBAR_KUBECONFIG", "NODE_NAME"] {
        command.env_remove(name);
    }
    // Nor do they leave anything in the node's own recording.
    command.env_remove("ISOBAR_RECORD").env("ISOBAR_NO_RECORD", "true");
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
