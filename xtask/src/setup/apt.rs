//! Debian packages that must be installed, not only unpacked.

use std::process::Command;

use anyhow::{Result, bail};

use isobar_lab::shell::{found, quietly, step};

/// Installs those of `packages` that are missing; `why` says what for.
pub(super) fn install(packages: &[&str], why: &str) -> Result<()> {
    if found("apt-get").is_none() || found("dpkg-query").is_none() {
        bail!("{why}: there is no apt-get here to install {}", packages.join(" "));
    }
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let all = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("{why}: as root, `apt-get install --no-install-recommends {all}`");
    }
    // Only where needed: an update fetches tens of megabytes, and a mirror may be out of reach.
    if missing.iter().any(|name| !known(name)) {
        step("apt-get update", || quietly(&mut apt_get(&["update"])))?;
    }
    if let Some(unknown) = missing.iter().find(|name| !known(name)) {
        bail!("{why}: this system's package sources have no {unknown}");
    }
    let install = || {
        step(&format!("apt-get install {all}"), || {
            let mut command = apt_get(&["install", "--yes", "--no-install-recommends"]);
            quietly(command.args(&missing)).map(drop)
        })
    };
    // The lists may tell of a version that the mirror no longer has.
    install().or_else(|_| {
        step("apt-get update", || quietly(&mut apt_get(&["update"])))?;
        install()
    })
}

fn apt_get(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    // Somebody else's apt-get ends some time: better wait than fail.
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(args);
    command
}

fn installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    quietly(&mut query).is_ok_and(|status| status == "installed")
}

fn known(package: &str) -> bool {
    let mut show = Command::new("apt-cache");
    show.args(["show", "--no-all-versions", package]);
    quietly(&mut show).is_ok_and(|text| !text.is_empty())
}
