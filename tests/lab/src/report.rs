//! What came of plays: a line for each with what failed, tables over many, all figures in a file.

pub(crate) mod reaction;
mod tables;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::agents::Agent;
use crate::facts::{Facts, Play};
use crate::figures::Figures;
use crate::form::Scenario;
use crate::host::Ping;
use crate::judge::{Tried, Verdict, judge};
use crate::latency::on_guest_clock;
use crate::machine::Series;

/// One play, over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Played {
    pub play: Play,
    /// On which kernel.
    kernel: String,
    /// How long it took, with all around it.
    seconds: f64,
    pub(crate) figures: Option<Figures>,
    /// Victims that should not have been any.
    pub(crate) wrong: usize,
    verdicts: Vec<Verdict>,
    /// Why there are no figures.
    broke: Option<String>,
    facts: Option<Box<Facts>>,
    /// Of each ping the second since the onset and the milliseconds that it took; `None` where no
    /// answer came.
    pings: Vec<(f64, Option<f64>)>,
}

impl Played {
    /// True if it could be played and all that was expected came to be.
    pub fn passed(&self) -> bool {
        self.broke.is_none() && self.verdicts.iter().all(|verdict| verdict.passed)
    }

    /// True if it failed and its agent is judged, not only measured.
    pub fn counts_as_failed(&self) -> bool {
        let judged = Agent::named(&self.play.agent).is_ok_and(|agent| agent.is_judged);
        (judged || self.broke.is_some()) && !self.passed()
    }

    pub(crate) fn broke(series: Series, play: Play, why: String) -> Self {
        Self {
            play,
            kernel: series.to_string(),
            seconds: 0.0,
            figures: None,
            wrong: 0,
            verdicts: Vec::new(),
            broke: Some(why),
            facts: None,
            pings: Vec::new(),
        }
    }

    pub(crate) fn of(
        series: Series,
        scenario: &Scenario,
        play: Play,
        facts: Box<Facts>,
        pings: &[Ping],
        tried: &Tried,
    ) -> Self {
        let figures = Figures::of(&facts, pings);
        let verdicts = judge(scenario, &facts, &figures, tried);
        let expect = &scenario.form.expect;
        let allowed = |name: &&String| {
            let group = facts.groups.iter().find(|group| group.name == **name);
            let kind = group.map_or(name.as_str(), |group| group.kind.as_str());
            expect.allowed().any(|allowed| allowed.get_ref() == kind)
        };
        let wrong = figures.victims.iter().filter(|name| !allowed(name)).count();
        let onset = facts.onset_ns as f64;
        let of = |(sent, answered): (u64, Option<u64>)| {
            let ms = answered.map(|answered| answered.saturating_sub(sent) as f64 / 1e6);
            ((sent as f64 - onset) / 1e9, ms)
        };
        let pings = on_guest_clock(pings).into_iter().map(of).collect();
        Self {
            play,
            kernel: series.to_string(),
            seconds: 0.0,
            figures: Some(figures),
            wrong,
            verdicts,
            broke: None,
            facts: Some(facts),
            pings,
        }
    }

    pub(crate) fn in_time(self, took: Duration) -> Self {
        Self { seconds: took.as_secs_f64(), ..self }
    }

    /// What a test is called: `6.12 two-spinners`.
    pub fn name(&self) -> String {
        let Play { scenario, agent, run } = &self.play;
        let agent = if agent == "isobar" { String::new() } else { format!(" / {agent}") };
        let run = if *run == 1 { String::new() } else { format!(" #{run}") };
        format!("kernel {} {scenario}{agent}{run}", self.kernel)
    }

    /// One line, then one for each figure of the agent's, and for each other verdict that failed.
    pub fn text(&self) -> String {
        let mut text = format!("test {} ... ", self.name());
        if let Some(why) = &self.broke {
            return text + &format!("BROKE\n    {}", why.replace('\n', "\n    "));
        }
        text += if self.passed() { "ok" } else { "FAILED" };
        text += &format!(", {:.0} s", self.seconds);
        if let Some(figures) = self.figures.as_ref().filter(|_| !self.pings.is_empty()) {
            text += &format!(" ({})", seen_from_outside(figures));
        }
        for verdict in self.verdicts.iter().filter(|verdict| verdict.is_figure || !verdict.passed) {
            let word = if verdict.passed { "ok  " } else { "FAIL" };
            text += &match verdict.is_figure {
                true => format!("\n    {word} {:>42}  {}", verdict.seen, verdict.what),
                false => format!("\n    {word} {}: {}", verdict.what, verdict.seen),
            };
        }
        text
    }
}

fn seen_from_outside(figures: &Figures) -> String {
    let seconds = |at: Option<f64>| at.map_or("-".into(), |at| format!("{at:.1} s"));
    let victims = figures.victims.join(" ");
    format!(
        "kill {}, recovered {}, victims {}, kernel kills {}, p99 {:.0} ms, idle {:.0} ms, \
         gap {:.0} ms, frozen {:.1} s",
        seconds(figures.kill_s),
        seconds(figures.recover_s),
        if victims.is_empty() { "none" } else { &victims },
        figures.kernel_oom_kills,
        figures.during.p99_ms,
        figures.idle.p99_ms,
        figures.during.longest_gap_ms,
        figures.frozen_s,
    )
}

/// Tables over all overloads: what was seen from outside, and how fast agents reacted.
pub fn tables(played: &[Played]) -> String {
    let overloads: Vec<&Played> = played.iter().filter(|one| !one.pings.is_empty()).collect();
    match overloads.is_empty() {
        true => String::new(),
        false => format!("\n{}\n{}\n", tables::all(&overloads), reaction::all(&overloads)),
    }
}

/// Writes all that is known of `played` to a file.
///
/// # Errors
/// The file cannot be written.
pub fn keep(file: &Path, played: &[Played]) -> Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(file, serde_json::to_string(played)?).with_context(|| file.display().to_string())
}
