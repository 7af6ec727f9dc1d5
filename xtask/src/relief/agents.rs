//! The agents that can be judged: how each is started, when it is ready, what it offers.
//! isobar is one of them; nothing else here knows any agent.

use std::process::Command;
use std::time::Duration;

/// Where an agent finds its configuration, and the node's pods.
pub(super) const CONFIG: &str = "/tmp/config.yaml";
/// See [`CONFIG`].
pub(super) const PODS: &str = "/tmp/pods.yaml";
/// Where isobar listens.
pub(super) const ADDRESS: &str = "127.0.0.1:9797";

/// One agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agent {
    /// As `--agent` has it.
    pub(crate) name: &'static str,
    /// The program and its arguments; `None` starts nothing.
    line: Option<&'static [&'static str]>,
    /// More arguments if the scenario has a configuration, and if it has pods.
    config: &'static [&'static str],
    /// What it remembers beyond its life: gone before each play.
    pub(super) state: Option<&'static str>,
    pods: &'static [&'static str],
    /// More of its environment, where the scenario has none of that name.
    environment: &'static [(&'static str, &'static str)],
    ready: Ready,
    /// Answers questions about itself as isobar does.
    pub(super) offers_snapshot: bool,
    /// What it fails counts: the others are measured only.
    pub(crate) is_judged: bool,
}

/// How it is known that an agent is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// After so many milliseconds, if it still lives then.
    After(u64),
    /// Once this answers 200.
    Answers(&'static str),
}

const ISOBAR: &str = "/bin/isobar";
const WITH_CONFIG: &[&str] = &["--config", CONFIG];
const WITH_PODS: &[&str] = &["--pods", PODS];
/// An emulated CPU makes probes ten to twenty times dearer than they are.
const DEAR_PROBES: &[(&str, &str)] = &[("ISOBAR_PROBE_BUDGET", "100")];
const READYZ: Ready = Ready::Answers("http://127.0.0.1:9797/readyz");
const STATE: &str = "/tmp/isobar";

/// All of them.
pub(crate) const AGENTS: [Agent; 4] = [
    Agent {
        name: "none",
        state: None,
        line: None,
        config: &[],
        pods: &[],
        environment: &[],
        ready: Ready::After(0),
        offers_snapshot: false,
        is_judged: false,
    },
    Agent {
        name: "isobar",
        state: Some(STATE),
        line: Some(&[
            ISOBAR,
            "run",
            "--listen",
            ADDRESS,
            "--mode",
            "enforce",
            "--state-dir",
            STATE,
        ]),
        config: WITH_CONFIG,
        pods: WITH_PODS,
        environment: DEAR_PROBES,
        ready: READYZ,
        offers_snapshot: true,
        is_judged: true,
    },
    // What the kernel side is worth.
    Agent {
        name: "isobar-no-ebpf",
        state: Some(STATE),
        line: Some(&[
            ISOBAR,
            "run",
            "--listen",
            ADDRESS,
            "--mode",
            "enforce",
            "--state-dir",
            STATE,
            "--probes",
            "none",
        ]),
        config: WITH_CONFIG,
        pods: WITH_PODS,
        environment: DEAR_PROBES,
        ready: READYZ,
        offers_snapshot: true,
        is_judged: false,
    },
    // What it would have said, and what watching costs.
    Agent {
        name: "isobar-observe",
        state: None,
        line: Some(&[ISOBAR, "run", "--listen", ADDRESS, "--mode", "observe"]),
        config: WITH_CONFIG,
        pods: WITH_PODS,
        environment: DEAR_PROBES,
        ready: READYZ,
        offers_snapshot: true,
        is_judged: false,
    },
];

impl Agent {
    /// The agent of that name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        let found = AGENTS.into_iter().find(|agent| agent.name == name);
        found.ok_or_else(|| format!("there is no agent {name:?}; there are {}", names.join(", ")))
    }

    /// How it is started; `None` if there is nothing to be started.
    pub(super) fn command(&self, has_config: bool, has_pods: bool) -> Option<Command> {
        let (program, args) = self.line?.split_first()?;
        let mut command = Command::new(program);
        command.args(args);
        if has_config {
            command.args(self.config);
        }
        if has_pods {
            command.args(self.pods);
        }
        // The console is a terminal, but what is said there is read from a file.
        command.env("NO_COLOR", "1").envs(self.environment.iter().copied());
        Some(command)
    }

    /// When it is at work.
    pub(super) fn ready(&self) -> Ready {
        self.ready
    }
}

/// An emulated machine is slow to load programs into its kernel.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::spelled;

    #[test]
    fn an_agent_is_started_with_what_the_scenario_has_for_it() {
        #[rustfmt::skip]
        let table = [
            // name,           config, pods,  line
            ("none",           true,   true,  None),
            ("isobar-observe", false,  true,  Some("/bin/isobar run --listen 127.0.0.1:9797 --mode observe --pods /tmp/pods.yaml")),
            ("isobar-observe", true,   false, Some("/bin/isobar run --listen 127.0.0.1:9797 --mode observe --config /tmp/config.yaml")),
        ];
        for (name, config, pods, want) in table {
            let line = Agent::named(name).unwrap().command(config, pods);
            assert_eq!(line.map(|line| spelled(&line)).as_deref(), want, "{name}");
        }
        let why = Agent::named("oomd").unwrap_err();
        assert!(why.contains("none, isobar, isobar-no-ebpf, isobar-observe"), "{why}");
    }
}
