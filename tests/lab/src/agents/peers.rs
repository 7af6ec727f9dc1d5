//! Other agents, as Debian packages them and as one would set them up for a node with pods. How each
//! is started is what its package's unit does; why it is set up so is said in the file itself.

/// Where the disk with their packages is mounted.
pub(crate) const ROOT: &str = "/peers";

/// How an agent of Debian is started and set up, and when it is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// What its unit starts, for a shell.
    start: &'static str,
    /// Its configuration where it is not the package's: which file it stands for, and its text.
    pub(crate) config: Option<(&'static str, &'static str)>,
    /// How it is known that it is at work.
    pub(crate) at_work: AtWork,
    /// What the service manager has it watch.
    pub(crate) managed: &'static [Managed],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtWork {
    /// Once it says this.
    Says(&'static str),
    /// Once it has asked the service manager what to watch.
    HasAsked,
}

/// A unit's `ManagedOOM...=kill`, as the service manager tells systemd-oomd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Managed {
    pub(crate) cgroup: &'static str,
    pub(crate) property: &'static str,
    /// Percent, where it is not the default.
    pub(crate) limit: Option<u32>,
}

impl Peer {
    /// A line for a shell: the peer among the files of its own disk, its configuration in place.
    pub(crate) fn line(&self, config: &str) -> String {
        let enter = format!("exec chroot {ROOT} /bin/dash -c '{}'", self.start);
        match self.config {
            Some((file, _)) => format!("mount -o bind {config} {ROOT}{file} && {enter}"),
            None => enter,
        }
    }
}

const fn earlyoom(config: Option<(&'static str, &'static str)>) -> Peer {
    Peer {
        // Its unit's words are split by systemd, which knows quotes.
        start: ". /etc/default/earlyoom; eval exec earlyoom \"$EARLYOOM_ARGS\"",
        config,
        at_work: AtWork::Says("sending SIGTERM when"),
        managed: &[],
    }
}

const fn nohang(config: Option<(&'static str, &'static str)>) -> Peer {
    Peer {
        start: "PYTHONUNBUFFERED=1 exec python3 /usr/sbin/nohang --monitor --config /etc/nohang/nohang.conf",
        config,
        at_work: AtWork::Says("Monitoring has started"),
        managed: &[],
    }
}

const fn oomd(config: Option<(&'static str, &'static str)>) -> Peer {
    Peer {
        // Without the package's --cgroup-fs, which is for machines that have cgroup v1 as well.
        start: "exec oomd --interval 1 --config /etc/oomd/oomd.json",
        config,
        at_work: AtWork::Says("oomd running with"),
        managed: &[],
    }
}

const fn systemd_oomd(
    config: Option<(&'static str, &'static str)>,
    managed: &'static [Managed],
) -> Peer {
    let start = "exec /lib/systemd/systemd-oomd";
    Peer { start, config, at_work: AtWork::HasAsked, managed }
}

/// Debian's own setting of the root slice.
const SWAP: Managed = Managed { cgroup: "/", property: "ManagedOOMSwap", limit: None };
const PODS: Managed =
    Managed { cgroup: "/kubepods.slice", property: "ManagedOOMMemoryPressure", limit: Some(50) };

/// By the name that `--agent` has; the first of each pair is as its package is installed.
#[rustfmt::skip]
pub(super) const PEERS: [(&str, Peer); 8] = [
    ("earlyoom", earlyoom(None)),
    ("earlyoom-tuned", earlyoom(Some(("/etc/default/earlyoom", include_str!("../../peers/earlyoom"))))),
    ("systemd-oomd", systemd_oomd(None, &[SWAP])),
    ("systemd-oomd-tuned", systemd_oomd(Some(("/usr/lib/systemd/oomd.conf.d/10-oomd-defaults.conf", include_str!("../../peers/systemd-oomd"))), &[SWAP, PODS])),
    ("oomd", oomd(None)),
    ("oomd-tuned", oomd(Some(("/etc/oomd/oomd.json", include_str!("../../peers/oomd.json"))))),
    ("nohang", nohang(None)),
    ("nohang-tuned", nohang(Some(("/etc/nohang/nohang.conf", include_str!("../../peers/nohang.conf"))))),
];
