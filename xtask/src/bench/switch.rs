//! The price of a context switch: two threads wake each other through pipes on one CPU, with this
//! or that attached. Everything is measured once a round, in an order that turns, so that what
//! comes over the machine meanwhile falls on all alike.

mod figures;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::empty::Empty;
use super::rig::Rig;
use super::running::Agent;
use super::tool::Tool;
use crate::demo;
use crate::running::Running;
use isobar_lab::cgroup::Group;

pub(super) use self::figures::Figures;

/// Enough for a second, which is enough for one run to repeat within 1 %.
const SWITCHES: u64 = 400_000;

/// Like a container's: slice, class, pod, container.
const NESTED: [&str; 3] = ["burstable", "pod", "container"];

/// What is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Observer {
    Nothing,
    Empty,
    Isobar,
    Runqlat,
    Bpftrace,
}

impl Observer {
    const ALL: [Self; 5] =
        [Self::Nothing, Self::Empty, Self::Isobar, Self::Runqlat, Self::Bpftrace];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Empty => "an empty program",
            Self::Isobar => "isobar, always-on set",
            Self::Runqlat => "libbpf-tools runqlat",
            Self::Bpftrace => "bpftrace runqlat.bt",
        }
    }

    /// Seconds that attaching and detaching should take.
    fn attaching(self) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::Empty | Self::Isobar => 6.0,
            Self::Runqlat | Self::Bpftrace => 2.0,
        }
    }

    fn attach(self, rig: &Rig) -> Result<Attached> {
        match self {
            Self::Nothing => Ok(Attached::Nothing),
            Self::Empty => Empty::attach(&rig.object).map(Attached::Empty),
            Self::Isobar => Self::agent(rig),
            Self::Runqlat => Tool::runqlat().map(Attached::Tool),
            Self::Bpftrace => Tool::bpftrace().map(Attached::Tool),
        }
    }

    fn agent(rig: &Rig) -> Result<Attached> {
        let mut agent = rig.agent()?;
        let snapshot = rig.metered(&mut agent)?;
        let programs = snapshot["capabilities"].as_array().cloned().unwrap_or_default();
        // The programs are named by what they hook.
        let attached = programs.iter().any(|program| {
            program["state"] == "attached"
                && program["name"].as_str().is_some_and(|name| name.starts_with("sched_switch"))
        });
        if !attached {
            bail!("isobar did not attach to context switches");
        }
        Ok(Attached::Agent(agent))
    }
}

/// What is attached, until this value goes.
enum Attached {
    Nothing,
    #[expect(dead_code, reason = "held for its end")]
    Empty(Empty),
    #[expect(dead_code, reason = "held for its end")]
    Agent(Agent),
    Tool(Tool),
}

/// Who waits while the two take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Case {
    /// The woken one does not preempt the waker, which sleeps before anybody has to wait.
    NobodyWaits,
    /// The woken one waits for the waker, or the waker for the woken one.
    SomebodyWaits,
    /// As before, and another cgroup wants the same CPU all the time.
    SpinnerBeside,
}

impl Case {
    const ALL: [Self; 3] = [Self::NobodyWaits, Self::SomebodyWaits, Self::SpinnerBeside];

    fn name(self) -> &'static str {
        match self {
            Self::NobodyWaits => "nobody waits (SCHED_BATCH)",
            Self::SomebodyWaits => "somebody waits",
            Self::SpinnerBeside => "somebody waits, a spinner of another cgroup beside",
        }
    }

    /// The budget: of what runqlat adds, isobar may add this share.
    fn limit(self) -> f64 {
        match self {
            Self::NobodyWaits => 0.35,
            Self::SomebodyWaits | Self::SpinnerBeside => 0.6,
        }
    }
}

/// One run of the two, as it reports itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    ns_per_switch: f64,
    cpu_ns_per_switch: f64,
}

/// One run and what it was.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    round: u32,
    case: Case,
    observer: Observer,
    #[serde(flatten)]
    run: Run,
}

/// Seconds that all rounds should take.
pub(super) fn expected(rounds: u32) -> f64 {
    f64::from(rounds) * Observer::ALL.into_iter().map(for_one).sum::<f64>()
}

fn for_one(observer: Observer) -> f64 {
    observer.attaching() + 5.0
}

pub(super) fn measure(rig: &mut Rig, rounds: u32) -> Result<Figures> {
    let cpu = demo::last_cpu()?;
    let bed = Bed::make(rig, cpu)?;
    let mut runs: Vec<Measured> = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    let mut observers = Observer::ALL.to_vec();
    for round in 1..=rounds {
        for observer in observers.clone() {
            let what = format!("switch, round {round} of {rounds}: {}", observer.name());
            rig.progress.step(&what, for_one(observer));
            match of_one(rig, &bed, observer) {
                Ok(measured) => {
                    let with = |(case, run)| Measured { round, case, observer, run };
                    runs.extend(measured.map(with));
                }
                // What is not there is compared with no more; isobar itself has to be there.
                Err(why) if matches!(observer, Observer::Runqlat | Observer::Bpftrace) => {
                    rig.go_on()?;
                    missing.push(format!("{}: {why:#}", observer.name()));
                    observers.retain(|other| *other != observer);
                }
                Err(why) => return Err(why),
            }
        }
        // Who comes first comes last in the next round.
        observers.rotate_left(1);
    }
    Ok(Figures::of(runs, rounds, cpu, bed.levels()?, missing))
}

/// All cases with one observer.
fn of_one(rig: &Rig, bed: &Bed, observer: Observer) -> Result<[(Case, Run); 3]> {
    let attached = observer.attach(rig)?;
    let mut runs = Case::ALL.map(|case| (case, Run { ns_per_switch: 0.0, cpu_ns_per_switch: 0.0 }));
    for (case, run) in &mut runs {
        rig.go_on()?;
        *run = bed.run(*case)?;
    }
    if let Attached::Tool(tool) = attached {
        tool.finish()?;
    }
    // What was detached is freed by the kernel in its own time.
    rig.pause(Duration::from_millis(300))?;
    Ok(runs)
}

/// The CPU, and the cgroups around it.
struct Bed {
    cpu: usize,
    /// Outermost first.
    nested: Vec<Group>,
    beside: Group,
}

impl Bed {
    fn make(rig: &Rig, cpu: usize) -> Result<Self> {
        let mut nested = vec![rig.group("switch")?];
        for name in NESTED {
            let above = nested.last().expect("the first is there");
            above.pass_on_controllers()?;
            let dir = above.dir().join(name);
            nested.push(Group::make(dir)?);
        }
        Ok(Self { cpu, nested, beside: rig.group("beside")? })
    }

    fn innermost(&self) -> &Path {
        self.nested.last().expect("never empty").dir()
    }

    /// Run queues between the two threads and the root.
    fn levels(&self) -> Result<usize> {
        let mut levels = 0;
        for group in &self.nested {
            let have = fs::read_to_string(group.dir().join("cgroup.controllers"))?;
            levels += usize::from(have.split_whitespace().any(|name| name == "cpu"));
        }
        Ok(levels)
    }

    fn run(&self, case: Case) -> Result<Run> {
        let beside = (case == Case::SpinnerBeside).then(|| self.spinner()).transpose()?;
        let mut load = match case {
            Case::NobodyWaits => {
                let mut batch = Command::new("chrt");
                batch.args(["--batch", "0"]).arg(std::env::current_exe()?);
                batch
            }
            Case::SomebodyWaits | Case::SpinnerBeside => Command::new(std::env::current_exe()?),
        };
        load.args(["load", "pingpong", "--switches", &SWITCHES.to_string(), "--seconds", "60"]);
        load.args(["--cpu", &self.cpu.to_string(), "--cgroup"]).arg(self.innermost());
        let said = isobar_lab::shell::quietly(&mut load)?;
        drop(beside);
        serde_json::from_str(&said).with_context(|| format!("the ping-pong said {said:?}"))
    }

    fn spinner(&self) -> Result<Running> {
        let cpu = self.cpu.to_string();
        Running::load(&["spin", "--seconds", "120", "--cpu", &cpu], self.beside.dir())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A cgroup can only go when those below it have gone.
        while self.nested.pop().is_some() {}
    }
}
