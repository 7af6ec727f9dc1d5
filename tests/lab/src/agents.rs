//! The agents that can be played with: how each is started, when it is ready, what it offers.
//! isobar is one of them; a peer is a row more in `peers`, and nothing else knows any agent.

pub(crate) mod peers;

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use crate::capabilities;
use crate::form::group::Api;
use crate::form::{Form, Mode};
use peers::{AtWork, PEERS, Peer};

/// Where an agent finds its configuration.
pub(crate) const CONFIG: &str = "/tmp/config.yaml";
/// Where it finds the node's pods.
pub(crate) const PODS: &str = "/tmp/pods.yaml";
/// What leads it to the API server, in scenarios that have one.
pub(crate) const KUBECONFIG: &str = "/tmp/kubeconfig";
/// Where that listens; the kubelet too, if there is one.
pub(crate) const API: &str = "127.0.0.1:6443";
/// The node's name there.
pub(crate) const NODE: &str = "worker-1";
/// The program.
pub(crate) const ISOBAR: &str = "/bin/isobar";
/// Where its log goes.
pub(crate) const LOG: &str = "/tmp/agent.log";
/// Where isobar listens.
pub(crate) const ADDRESS: &str = "127.0.0.1:9797";
/// What isobar remembers beyond its life.
const STATE: &str = "/tmp/isobar";
/// An emulated CPU makes probes ten to twenty times dearer than they are.
const BUDGET: (&str, &str) = ("ISOBAR_PROBE_BUDGET", "100");
/// An emulated machine is slow to load programs into its kernel, and slower where the agent has a limit.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// As `--agent` has it.
    pub name: &'static str,
    /// What it fails counts: the others are measured only.
    pub is_judged: bool,
    kind: Kind,
}

/// How it is started, and what it understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// There is none.
    Nothing,
    /// isobar as the scenario has it, but for these.
    Isobar { mode: Option<Mode>, probes: Option<&'static str>, is_alone: bool },
    /// An agent that is compared with isobar: see [`peers`].
    Peer(Peer),
}

/// How it is known that an agent is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    AtOnce,
    /// Once this answers 200.
    Answers(&'static str),
    /// Once a peer is.
    Peer(AtWork),
}

/// isobar in its forms, and nothing.
const OURS: [Agent; 5] = [
    Agent { name: "none", is_judged: false, kind: Kind::Nothing },
    Agent { name: "isobar", is_judged: true, kind: USUAL },
    // What the kernel side is worth.
    Agent {
        name: "isobar-no-ebpf",
        is_judged: false,
        kind: Kind::Isobar { mode: None, probes: Some("none"), is_alone: false },
    },
    // What it would have said, and what watching costs.
    Agent {
        name: "isobar-observe",
        is_judged: false,
        kind: Kind::Isobar { mode: Some(Mode::Observe), probes: None, is_alone: false },
    },
    // What talking to the API server and the kubelet costs: it is told of the pods by manifests.
    Agent {
        name: "isobar-alone",
        is_judged: false,
        kind: Kind::Isobar { mode: None, probes: None, is_alone: true },
    },
];

const USUAL: Kind = Kind::Isobar { mode: None, probes: None, is_alone: false };

impl Agent {
    /// The agent of that name.
    ///
    /// # Errors
    /// There is none of that name; the text lists those that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let peers =
            PEERS.map(|(name, peer)| Self { name, is_judged: false, kind: Kind::Peer(peer) });
        let all = || OURS.into_iter().chain(peers);
        let names: Vec<&str> = all().map(|agent| agent.name).collect();
        let found = all().find(|agent| agent.name == name);
        found.ok_or_else(|| format!("there is no agent {name:?}; there are {}", names.join(", ")))
    }

    /// What it is if it is not isobar.
    pub fn is_peer(&self) -> bool {
        self.peer().is_some()
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        match self.kind {
            Kind::Peer(peer) => Some(peer),
            Kind::Nothing | Kind::Isobar { .. } => None,
        }
    }

    /// How it is started; `None` if there is nothing to be started.
    pub(crate) fn command(&self, form: &Form) -> Option<Command> {
        let mut command = match self.kind {
            Kind::Nothing => return None,
            Kind::Isobar { mode, probes, is_alone } => {
                let api = form.api.as_ref().filter(|_| !is_alone);
                isobar(form, mode.or(form.mode), probes, api)
            }
            Kind::Peer(peer) => {
                let mut shell = Command::new("unshare");
                shell.args(["-m", "sh", "-c", &peer.line(CONFIG)]);
                shell.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
                shell
            }
        };
        if let Some(these) = capabilities::added(&form.components)
            && !form.components.is_empty()
            && self.offers_views()
        {
            // SAFETY: plain system calls on memory that was made before the fork.
            unsafe { command.pre_exec(move || capabilities::keep_alone(these)) };
        }
        // The console is a terminal, but what is said there is read from a file.
        command.env("NO_COLOR", "1").envs(&form.environment);
        Some(command)
    }

    /// What it remembers beyond its life: removed before each scenario of its own.
    pub(crate) fn state(&self) -> Option<&'static str> {
        self.offers_views().then_some(STATE)
    }

    /// The text of its configuration.
    pub(crate) fn configuration<'a>(&self, form: &'a Form) -> &'a str {
        match self.peer() {
            Some(peer) => peer.config.map_or("", |(_, text)| text),
            None => form.config.as_deref().unwrap_or_default(),
        }
    }

    /// Serves what isobar serves.
    pub(crate) fn offers_views(&self) -> bool {
        matches!(self.kind, Kind::Isobar { .. })
    }

    /// When it is at work.
    pub(crate) fn ready(&self) -> Ready {
        match self.kind {
            Kind::Nothing => Ready::AtOnce,
            Kind::Isobar { .. } => Ready::Answers("http://127.0.0.1:9797/readyz"),
            Kind::Peer(peer) => Ready::Peer(peer.at_work),
        }
    }
}

fn isobar(form: &Form, mode: Option<Mode>, probes: Option<&str>, api: Option<&Api>) -> Command {
    let mut isobar = Command::new(ISOBAR);
    isobar.args(["run", "--listen", ADDRESS, "--probes", probes.unwrap_or(&form.probes)]);
    isobar.args(["--state-dir", STATE]);
    match mode {
        Some(Mode::Enforce) => isobar.args(["--mode", "enforce"]),
        Some(Mode::Observe) => isobar.args(["--mode", "observe"]),
        None => &mut isobar,
    };
    if form.config.is_some() {
        isobar.args(["--config", CONFIG]);
    }
    if let Some(api) = api {
        isobar.args(["--kubeconfig", KUBECONFIG, "--node-name", NODE]);
        if api.full {
            isobar.args(["--kubelet", &format!("https://{API}")]);
        }
    } else if form.has_node() || form.manifests.is_some() {
        isobar.args(["--pods", PODS]);
    }
    if form.record {
        isobar.args(["--record", recording(form)]);
    } else {
        // What is written in a machine without a disk takes its memory.
        isobar.arg("--no-record");
    }
    isobar.env(BUDGET.0, BUDGET.1);
    isobar
}

/// Where it records: on the disk, if there is one.
pub(crate) fn recording(form: &Form) -> &'static str {
    if form.file.is_empty() { "/tmp/recording.isobar" } else { "/disk/recording.isobar" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Scenario;
    use crate::shell::spelled;

    #[test]
    fn an_agent_is_started_with_what_the_scenario_has_for_it() {
        const RUN: &str = "/bin/isobar run --listen 127.0.0.1:9797 --probes";
        let state = "--state-dir /tmp/isobar";
        let unrecorded = "--no-record";
        #[rustfmt::skip]
        let table = [
            // name,           of the scenario,                       line
            ("none",           "config = \"\"",                       None),
            ("isobar",         "",                                    Some(format!("{RUN} all {state} {unrecorded}"))),
            ("isobar",         "mode = \"enforce\"",                  Some(format!("{RUN} all {state} --mode enforce {unrecorded}"))),
            ("isobar",         "probes = \"none\"\nrecord = true",    Some(format!("{RUN} none {state} --record /tmp/recording.isobar"))),
            ("isobar-no-ebpf", "mode = \"enforce\"",                  Some(format!("{RUN} none {state} --mode enforce {unrecorded}"))),
            ("isobar-observe", "mode = \"enforce\"\nmanifests = \"\"", Some(format!("{RUN} all {state} --mode observe --pods /tmp/pods.yaml {unrecorded}"))),
            ("isobar-observe", "config = \"\"",                       Some(format!("{RUN} all {state} --mode observe --config /tmp/config.yaml {unrecorded}"))),
            ("isobar",         "api = {full = true}",                 Some(format!("{RUN} all {state} --kubeconfig /tmp/kubeconfig \
                --node-name worker-1 --kubelet https://127.0.0.1:6443 {unrecorded}"))),
            ("isobar-alone",   "api = {full = true}",                 Some(format!("{RUN} all {state} {unrecorded}"))),
            ("oomd",           "",                                    Some("unshare -m sh -c exec chroot /peers /bin/dash -c \
                'exec oomd --interval 1 --config /etc/oomd/oomd.json'".into())),
            ("oomd-tuned",     "",                                    Some("unshare -m sh -c mount -o bind /tmp/config.yaml \
                /peers/etc/oomd/oomd.json && exec chroot /peers /bin/dash -c \
                'exec oomd --interval 1 --config /etc/oomd/oomd.json'".into())),
        ];
        for (name, fields, want) in table {
            let text = format!("# Why.\nseconds = \"1s\"\n{fields}\n[expect]\nno_kill = true\n");
            let scenario = Scenario::parse("x".into(), text).unwrap();
            let line = Agent::named(name).unwrap().command(&scenario.form);
            assert_eq!(line.map(|line| spelled(&line)), want, "{name} {fields}");
        }
        let why = Agent::named("oom").unwrap_err();
        assert!(
            why.contains("none, isobar, isobar-no-ebpf, isobar-observe, isobar-alone, earlyoom"),
            "{why}"
        );
    }
}
