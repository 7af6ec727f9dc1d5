//! The checks of `doctor`. They change nothing on the node.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use isobar::agent::LISTEN;
use procfs::process::Process;
use rustix::process::{Resource, getrlimit};
use rustix::system::uname;
use rustix::thread::{CapabilitySet, capabilities};

use super::{By, Finding};

/// The oldest kernel that the eBPF programs are tested on.
const FLOOR: (u32, u32) = (6, 1);
/// Descriptors for 500 cgroups with about 14 open files each.
const DESCRIPTORS: u64 = 8_192;

/// All checks, the most important first.
pub(super) fn all(by: By) -> Vec<Finding> {
    let mut findings = vec![kernel(&uname().release().to_string_lossy()), btf(), psi()];
    let mounts = cgroup_mounts();
    findings.push(cgroup_v2(&mounts));
    if let Ok(Mounts { v2: Some(root), .. }) = &mounts {
        findings.push(controllers(root));
    }
    if by != By::Agent {
        findings.extend(privileges());
        findings.push(descriptors());
    }
    findings.push(port(by, TcpListener::bind(LISTEN).map(drop)));
    findings
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let name = "kernel";
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= FLOOR => Finding::ok(name, release),
        (Some(Ok(_)), Some(Ok(_))) => Finding::missing(
            name,
            format!("{release} is older than {}.{}", FLOOR.0, FLOOR.1),
            "boot a newer kernel, or run with --probes none: pressure files only",
        ),
        _ => Finding::unknown(name, format!("cannot parse the release {release:?}")),
    }
    .needed()
}

fn btf() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    match File::open(path) {
        Ok(_) => Finding::ok("BTF", path),
        Err(why) => Finding::missing(
            "BTF",
            format!("{path}: {why}"),
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
        ),
    }
    .needed()
}

fn psi() -> Finding {
    let path = "/proc/pressure/cpu";
    // With `psi=0` the file opens, and reading it fails.
    let read = File::open(path).and_then(|mut file| file.read(&mut [0; 256]));
    match read {
        Ok(_) => Finding::ok("PSI", "/proc/pressure"),
        Err(why) => Finding::missing(
            "PSI",
            format!("{path}: {why}"),
            "boot with psi=1 on a kernel with CONFIG_PSI=y",
        ),
    }
    .needed()
}

struct Mounts {
    v2: Option<PathBuf>,
    v1: Option<PathBuf>,
}

fn cgroup_mounts() -> Result<Mounts, procfs::ProcError> {
    let mounts = Process::myself()?.mountinfo()?;
    let of = |kind: &str| {
        let its = mounts.0.iter().filter(|mount| mount.fs_type == kind);
        its.map(|mount| mount.mount_point.clone()).collect::<Vec<_>>()
    };
    // `cgroup_ino() == 1` is how the kernel itself recognises the root.
    let is_whole = |point: &Path| fs::metadata(point).is_ok_and(|stat| stat.ino() == 1);
    Ok(Mounts { v2: whole(of("cgroup2"), is_whole), v1: of("cgroup").into_iter().next() })
}

/// Of several mounts the one that shows the whole tree: a container's own shows the container's part.
fn whole(points: Vec<PathBuf>, is_whole: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let found = points.iter().position(|point| is_whole(point)).unwrap_or(0);
    points.into_iter().nth(found)
}

fn cgroup_v2(mounts: &Result<Mounts, procfs::ProcError>) -> Finding {
    let name = "cgroup v2";
    let unified = "boot with systemd.unified_cgroup_hierarchy=1";
    match mounts {
        Err(why) => Finding::unknown(name, format!("/proc/self/mountinfo: {why}")),
        Ok(Mounts { v2: Some(v2), v1: None }) => Finding::ok(name, v2.display().to_string()),
        // Sufficient: pressure and all waits except throttling are measured.
        Ok(Mounts { v2: Some(v2), v1: Some(v1) }) => Finding {
            remedy: Some(unified),
            ..Finding::ok(name, format!("{}, beside v1 at {} (hybrid)", v2.display(), v1.display()))
        },
        Ok(Mounts { v2: None, .. }) => Finding::missing(name, "not mounted", unified),
    }
    .needed()
}

fn controllers(root: &Path) -> Finding {
    let name = "controllers";
    let wanted = ["cpu", "memory", "io", "pids"];
    match fs::read_to_string(root.join("cgroup.subtree_control")) {
        Err(why) => Finding::unknown(name, format!("cgroup.subtree_control: {why}")),
        Ok(enabled) => {
            let is_off = |c: &&str| !enabled.split_whitespace().any(|on| on == *c);
            let off: Vec<_> = wanted.into_iter().filter(is_off).collect();
            if off.is_empty() {
                return Finding::ok(name, enabled.trim());
            }
            Finding::missing(
                name,
                format!("not enabled in cgroup.subtree_control of the root: {}", off.join(", ")),
                "enable them through systemd or the kubelet; on a hybrid node they belong to cgroup v1",
            )
        }
    }
}

fn privileges() -> Vec<Finding> {
    let effective = match capabilities(None) {
        Ok(sets) => sets.effective,
        Err(why) => return vec![Finding::unknown("capabilities", why.to_string())],
    };
    let admin = CapabilitySet::SYS_ADMIN;
    let give = "run as root, or add it to the capabilities of the container, or to AmbientCapabilities= of \
                the service";
    #[rustfmt::skip]
    let table = [
        // name, any of these, needed, purpose
        ("CAP_BPF",             CapabilitySet::BPF | admin,      true,  "to load programs and maps"),
        ("CAP_PERFMON",         CapabilitySet::PERFMON | admin,  true,  "to attach programs and read kernel memory"),
        ("CAP_SYS_ADMIN",       admin,                           false, "to meter programs (kernel.bpf_stats_enabled)"),
        ("CAP_SYS_RESOURCE",    CapabilitySet::SYS_RESOURCE,     false, "for pressure triggers shorter than 2 s, and to raise limits"),
        ("CAP_DAC_READ_SEARCH", CapabilitySet::DAC_READ_SEARCH,  false, "to read cgroups of other users"),
    ];
    let finding = |(name, any, needed, what): (_, CapabilitySet, _, &str)| {
        let held = effective.intersects(any);
        let finding =
            if held { Finding::ok(name, what) } else { Finding::missing(name, what, give) };
        Finding { needed, ..finding }
    };
    table.map(finding).into()
}

fn descriptors() -> Finding {
    let name = "RLIMIT_NOFILE";
    // `None` is no limit.
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < DESCRIPTORS => Finding::missing(
            name,
            format!("at most {most} open files; 500 cgroups need {DESCRIPTORS}"),
            "set LimitNOFILE=65536 in the unit",
        ),
        Some(most) => Finding::ok(name, format!("at most {most} open files")),
        None => Finding::ok(name, "no limit"),
    }
}

/// The usual port, by what came of listening there.
fn port(by: By, tried: io::Result<()>) -> Finding {
    let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
    match tried {
        Ok(()) => Finding::ok("port", format!("{LISTEN} is free")),
        Err(why) if is_taken(&why) && by == By::Agent => {
            Finding::ok("port", format!("{LISTEN} is in use, and an agent answers"))
        }
        Err(why) if is_taken(&why) && by == By::Asked => {
            Finding::ok("port", format!("{LISTEN} is in use; no agent was asked there"))
        }
        Err(why) if is_taken(&why) => Finding::missing(
            "port",
            format!("{LISTEN} is in use, and no agent answers"),
            "end what listens there, or choose another address with `isobar run --listen ADDR`; other \
             verbs sample without an agent by --no-agent",
        )
        .needed(),
        Err(why) => Finding::missing(
            "port",
            format!("{LISTEN}: {why}"),
            "choose another address with `isobar run --listen ADDR`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn kernel_compares_first_two_numbers() {
        #[rustfmt::skip]
        let table = [
            // release, state
            ("6.1.0",                State::Ok),
            ("6.1.0-37-amd64",       State::Ok),
            ("6.12.9+bpo-cloud",     State::Ok),
            ("7.0.0-rc1",            State::Ok),
            ("10.0",                 State::Ok),
            ("6.0.19",               State::Missing),
            ("5.15.0-1051-azure",    State::Missing),
            ("unknown",              State::Unknown),
            ("",                     State::Unknown),
        ];
        for (release, want) in table {
            let finding = kernel(release);
            assert_eq!(finding.state, want, "{release:?}");
            assert!(finding.needed, "{release:?}");
        }
    }

    #[test]
    fn port_is_needed_only_where_another_program_has_the_agents() {
        let taken = io::ErrorKind::AddrInUse;
        let denied = io::ErrorKind::PermissionDenied;
        #[rustfmt::skip]
        let table = [
            // what looked, why the port cannot be had, state, needed, detail
            (By::Doctor, None,         State::Ok,      false, "is free"),
            (By::Agent,  None,         State::Ok,      false, "is free"), // it listens elsewhere
            (By::Asked,  None,         State::Ok,      false, "is free"),
            (By::Agent,  Some(taken),  State::Ok,      false, "is in use, and an agent answers"),
            (By::Asked,  Some(taken),  State::Ok,      false, "is in use; no agent was asked there"),
            (By::Doctor, Some(taken),  State::Missing, true,  "is in use, and no agent answers"),
            (By::Doctor, Some(denied), State::Missing, false, "permission denied"),
        ];
        for (by, why, state, needed, detail) in table {
            let finding = port(by, why.map_or(Ok(()), |kind| Err(kind.into())));
            let row = format!("{by:?} {why:?}: {finding:?}");
            assert_eq!((finding.state, finding.needed), (state, needed), "{row}");
            assert!(finding.detail.contains(detail), "{row}");
        }
    }

    #[test]
    fn whole_prefers_the_tree_of_the_node() {
        #[rustfmt::skip]
        let table: [(&[&str], Option<&str>); 4] = [
            // mounts, the one that counts
            (&[],                               None),
            (&["/sys/fs/cgroup"],               Some("/sys/fs/cgroup")),
            (&["/sys/fs/cgroup", "/host/tree"], Some("/host/tree")),
            (&["/host/tree", "/sys/fs/cgroup"], Some("/host/tree")),
        ];
        for (points, want) in table {
            let got = whole(points.iter().map(PathBuf::from).collect(), |p| p.starts_with("/host"));
            assert_eq!(got.as_deref(), want.map(Path::new), "{points:?}");
        }
    }

    #[test]
    fn cgroup_v2_accepts_hybrid_and_requires_v2() {
        let at = |path: &str| Some(PathBuf::from(path));
        #[rustfmt::skip]
        let table = [
            // v2, v1, state, detail
            (at("/sys/fs/cgroup"),         None,                      State::Ok,      "/sys/fs/cgroup"),
            (at("/sys/fs/cgroup/unified"), at("/sys/fs/cgroup/cpu"),  State::Ok,      "hybrid"),
            (None,                         at("/sys/fs/cgroup/cpu"),  State::Missing, "not mounted"),
        ];
        for (v2, v1, want, detail) in table {
            let finding = cgroup_v2(&Ok(Mounts { v2, v1 }));
            assert_eq!(finding.state, want, "{finding:?}");
            assert!(finding.detail.contains(detail), "{finding:?}");
        }
    }
}
