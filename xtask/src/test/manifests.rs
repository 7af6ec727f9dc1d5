//! The manifests against the schemas of the oldest, a middle and the newest Kubernetes supported.

use std::path::Path;
use std::process::Command;

use isobar_lab::shell::{quietly, root};

use super::tally::Tally;

const VERSIONS: [&str; 3] = ["1.33", "1.35", "1.37"];
const MANIFESTS: [&str; 2] = ["deploy/isobar.yaml", "deploy/isobar-enforce.yaml"];

/// Checks each strictly: an unknown key is an error. `python` has kubernetes-validate.
pub(super) fn check(python: &Path, tally: &mut Tally) {
    for version in VERSIONS {
        let name = format!("manifests against Kubernetes {version}");
        let mut validate = Command::new(python);
        validate.args(["-m", "kubernetes_validate", "--strict", "-k", version]);
        match quietly(validate.args(MANIFESTS).current_dir(root())) {
            Ok(_) => {
                tally.passed_one();
                println!("test {name} ... ok");
            }
            Err(why) => {
                tally.failed_one(&name);
                println!("test {name} ... FAILED\n{why:#}");
            }
        }
    }
}
