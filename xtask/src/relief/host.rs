//! The host's side: boots machines, hands each its plays, pings the bystander, works out figures.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::facts::{Facts, Line, Play};
use super::figures::Figures;
use super::file::Scenario;
use super::judge::{Verdict, judge};
use super::latency::on_guest_clock;
use super::probe::{Ping, Probe};
use crate::setup::Kernel;
use crate::vm::Lab;

/// What a play takes beside its own seconds: set, agent, end, on a slow machine.
pub(super) const AROUND: f64 = 22.0;
/// The same, before it is given up.
const PATIENCE: f64 = 150.0;

/// So many machines that end before they have played anything are no accident.
const USELESS: usize = 3;

/// One play, over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Played {
    pub(crate) play: Play,
    pub(crate) figures: Option<Figures>,
    /// Victims that should not have been any.
    pub(crate) wrong: usize,
    pub(crate) verdicts: Vec<Verdict>,
    /// Why there are no figures.
    pub(crate) broke: Option<String>,
    pub(crate) facts: Option<Box<Facts>>,
    /// Of each ping the second since the onset and the milliseconds that it took; `None` where no
    /// answer came.
    pub(crate) pings: Vec<(f64, Option<f64>)>,
}

impl Played {
    /// True if it could be played and all that was expected came to be.
    pub(crate) fn passed(&self) -> bool {
        self.broke.is_none() && self.verdicts.iter().all(|verdict| verdict.passed)
    }

    /// True if somebody has to look at it.
    pub(crate) fn counts_as_failed(&self) -> bool {
        let judged = Agent::named(&self.play.agent).is_ok_and(|agent| agent.is_judged);
        (judged || self.broke.is_some()) && !self.passed()
    }

    fn broke(play: Play, why: String) -> Self {
        Self {
            play,
            figures: None,
            wrong: 0,
            verdicts: Vec::new(),
            broke: Some(why),
            facts: None,
            pings: Vec::new(),
        }
    }

    fn of(scenario: &Scenario, play: Play, facts: Box<Facts>, pings: &[Ping]) -> Self {
        let figures = Figures::of(&facts, pings);
        let verdicts = judge(scenario, &facts, &figures);
        let expect = &scenario.form.expect;
        let allowed = |name: &&String| {
            let group = facts.groups.iter().find(|group| group.name == **name);
            let kind = group.map_or(name.as_str(), |group| group.kind.as_str());
            expect.act.iter().chain(&expect.may).any(|allowed| allowed.get_ref() == kind)
        };
        let wrong = figures.victims.iter().filter(|name| !allowed(name)).count();
        let onset = facts.onset_ns as f64;
        let of = |(sent, answered): (u64, Option<u64>)| {
            let ms = answered.map(|answered| answered.saturating_sub(sent) as f64 / 1e6);
            ((sent as f64 - onset) / 1e9, ms)
        };
        Self {
            play,
            figures: Some(figures),
            wrong,
            verdicts,
            broke: None,
            facts: Some(facts),
            pings: on_guest_clock(pings).into_iter().map(of).collect(),
        }
    }

    /// One line, then one for each verdict that failed.
    pub(crate) fn line(&self) -> String {
        let Play { scenario, agent, run } = &self.play;
        let mut text = format!("scenario {scenario} / {agent} #{run} ... ");
        match (&self.broke, &self.figures) {
            (Some(why), _) => text += &format!("BROKE\n    {}", why.replace('\n', "\n    ")),
            (None, Some(f)) => {
                text += if self.passed() { "ok" } else { "FAILED" };
                let seconds = |at: Option<f64>| at.map_or("-".into(), |at| format!("{at:.1} s"));
                text += &format!(
                    " (kill {}, recovered {}, victims {}, kernel kills {}, p99 {:.0} ms, idle {:.0} ms, gap {:.0} ms, still {:.1} s)",
                    seconds(f.kill_s),
                    seconds(f.recover_s),
                    if f.victims.is_empty() { "none".into() } else { f.victims.join(" ") },
                    f.kernel_oom_kills,
                    f.during.p99_ms,
                    f.idle.p99_ms,
                    f.during.longest_gap_ms,
                    f.still_s,
                );
            }
            (None, None) => {}
        }
        for verdict in self.verdicts.iter().filter(|verdict| !verdict.passed) {
            text += &format!("\n    FAIL {}: {}", verdict.what, verdict.seen);
        }
        text
    }
}

/// Plays all of `plays`, one boot for each kernel command line, and tells of each.
pub(crate) fn play(
    lab: &Lab,
    kernel: &Kernel,
    scenarios: &[Scenario],
    plays: &[Play],
    tell: &mut dyn FnMut(Played),
) {
    let boot_of = |play: &Play| {
        let scenario = scenarios.iter().find(|scenario| scenario.name == play.scenario);
        scenario.map_or("", |scenario| scenario.form.boot.as_str())
    };
    let mut boots: Vec<&str> = plays.iter().map(boot_of).collect();
    boots.sort_unstable();
    boots.dedup();
    for boot in boots {
        let mut open: Vec<Play> =
            plays.iter().filter(|play| boot_of(play) == boot).cloned().collect();
        // A machine that is lost takes one play with it; the rest get another.
        let mut n_useless = 0;
        while !open.is_empty() {
            let before = open.len();
            let ended = one_boot(lab, kernel, scenarios, boot, &open.clone(), &mut |played| {
                open.retain(|play| *play != played.play);
                tell(played);
            });
            n_useless = if open.len() == before { n_useless + 1 } else { 0 };
            if let Err(why) = ended {
                if lab.told_to_end() {
                    return;
                }
                if n_useless == USELESS {
                    let why = format!("{USELESS} machines in a row played nothing\n{why:#}");
                    open.drain(..).for_each(|play| tell(Played::broke(play, why.clone())));
                    return;
                }
                let lost = open.remove(0);
                tell(Played::broke(lost, format!("{why:#}")));
            } else if open.len() == before {
                let lost = open.remove(0);
                tell(Played::broke(lost, "the machine ended without a word".into()));
            }
        }
    }
}

fn one_boot(
    lab: &Lab,
    kernel: &Kernel,
    scenarios: &[Scenario],
    boot: &str,
    plays: &[Play],
    tell: &mut dyn FnMut(Played),
) -> Result<()> {
    let plan: Result<Vec<String>, _> = plays.iter().map(serde_json::to_string).collect();
    let socket = std::env::temp_dir().join(format!("isobar-probe-{}.sock", std::process::id()));
    let guest = lab.relief_guest(kernel, boot, &plan?.join("\n"), socket.clone())?;
    let probe = Probe::start(socket.clone())?;
    let of = |play: &Play| {
        let found = scenarios.iter().find(|scenario| scenario.name == play.scenario);
        found.with_context(|| format!("the guest played {}, which nobody knows", play.scenario))
    };
    let seconds: Result<f64> = plays
        .iter()
        .map(|play| of(play).map(|s| s.form.idle.0 + s.form.seconds.0 + AROUND + PATIENCE))
        .sum();
    let mut done = false;
    let ended = lab.boot(&guest, Duration::try_from_secs_f64(60.0 + seconds?)?, |line| {
        match serde_json::from_str(line).with_context(|| format!("the guest reported {line:?}"))? {
            Line::Up { .. } => {}
            Line::Begin { .. } => drop(probe.take()),
            Line::Ran { play, facts } => {
                let pings = probe.take();
                tell(Played::of(of(&play)?, play, facts, &pings));
            }
            Line::Broke { play, why } => {
                drop(probe.take());
                tell(Played::broke(play, why));
            }
            Line::Spent | Line::Done => done = true,
        }
        Ok(())
    });
    // It may never have been made.
    let _ = fs::remove_file(&socket);
    lab.clear(&guest)?;
    ended?;
    if !done {
        bail!("the machine ended too early\n{}", lab.last_words(&guest));
    }
    Ok(())
}

/// Where results are kept.
pub(super) fn kept(name: &str) -> PathBuf {
    crate::shell::root().join("target/scenario").join(format!("{name}.json"))
}
