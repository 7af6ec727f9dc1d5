//! The figures of one play, worked out from what the guest saw and what its users saw; and the
//! median and the worst of several.

use serde::{Deserialize, Serialize};

use crate::facts::{Death, Facts, Frozen};
use crate::host::Ping;
use crate::latency::{Latency, frozen, on_guest_clock, within};
use crate::report::reaction::Reaction;

/// Below this share of wall time a second of `full` memory pressure is no pressure.
const CALM: f64 = 0.05;
/// Emulated CPUs jitter: twice an idle percentile means nothing below this.
const JITTER_MS: f64 = 20.0;

/// The figures of one play. `None` is a thing that did not happen, or was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Figures {
    /// From the onset to the first step that the agent says it took.
    pub(crate) act_s: Option<f64>,
    /// From the onset to the first death of a victim.
    pub(crate) kill_s: Option<f64>,
    /// From the first death to the end of the first calm second; without one, from the onset to the
    /// end of the last that was not calm.
    pub(crate) recover_s: Option<f64>,
    /// Pods and services that lost processes, in the order of their first death.
    pub(crate) victims: Vec<String>,
    /// Processes killed, orphans with them.
    pub(crate) n_killed: usize,
    pub(crate) kernel_oom_kills: u64,
    pub(crate) idle: Latency,
    pub(crate) during: Latency,
    /// For how long the machine, or the one that measures, was frozen. No wait counts then.
    pub(crate) frozen_s: f64,
    /// The bystander's 99th percentile, in multiples of its idle one.
    pub(crate) slower: Option<f64>,
    pub(crate) full_pressure_s: f64,
    pub(crate) swapped_in: u64,
    pub(crate) swapped_out: u64,
    pub(crate) refaults: u64,
    pub(crate) major_faults: u64,
    pub(crate) agent_rss_mib: Option<f64>,
    /// Of one CPU, over the measured time.
    pub(crate) agent_cpu: Option<f64>,
    pub(crate) agent_major_faults: Option<u64>,
    pub(crate) longest_tick_ms: Option<u64>,
    pub(crate) reaction: Option<Reaction>,
}

impl Figures {
    /// Works them out.
    pub(crate) fn of(facts: &Facts, pings: &[Ping]) -> Self {
        let frozen = frozen(facts, pings);
        let pings = on_guest_clock(pings);
        let during = facts.onset_ns..facts.end_ns;
        let idle = Latency::of(&pings, &frozen, facts.idle_ns, during.start);
        let users = Latency::of(&pings, &frozen, during.start, during.end);
        let mut victims: Vec<String> = Vec::new();
        for name in facts.deaths.iter().filter(|d| counts(d)).map(|death| &death.name) {
            if !name.is_empty() && !victims.contains(name) {
                victims.push(name.clone());
            }
        }
        let first = facts.deaths.iter().filter(|death| counts(death)).map(|d| d.at_ns).min();
        let from = first.unwrap_or(during.start);
        let calm = Calm { facts, pings: &pings, frozen: &frozen, idle: &idle };
        let calm = if first.is_some() { calm.first(from) } else { calm.last(from) };
        let agent = facts.agent.as_ref();
        let seconds = seconds(during.start, during.end).max(1.0);
        let acted = agent.and_then(|agent| agent.served.as_ref()).and_then(|served| {
            let enforced = served.actions.iter().filter(|action| action.enforced);
            enforced.map(|action| action.at_ns).find(|at| *at >= during.start)
        });
        Self {
            act_s: acted.map(|at| self::seconds(during.start, at)),
            kill_s: first.map(|at| self::seconds(during.start, at)),
            recover_s: calm.map(|at| self::seconds(from, at)),
            victims,
            n_killed: facts.deaths.iter().filter(|death| death.signal.is_some()).count(),
            kernel_oom_kills: facts.kernel_oom_kills,
            idle,
            during: users,
            frozen_s: within(&frozen, during.start, during.end) as f64 / 1e9,
            slower: (idle.p99_ms > 0.0).then(|| users.p99_ms / idle.p99_ms),
            full_pressure_s: full_pressure(facts),
            swapped_in: facts.vmstat.swapped_in,
            swapped_out: facts.vmstat.swapped_out,
            refaults: facts.vmstat.refaults_anon + facts.vmstat.refaults_file,
            major_faults: facts.vmstat.major_faults,
            agent_rss_mib: agent.map(|agent| agent.rss_max_kib as f64 / 1024.0),
            agent_cpu: agent.map(|agent| agent.cpu_ms as f64 / 1000.0 / seconds),
            agent_major_faults: agent.map(|agent| agent.major_faults),
            longest_tick_ms: agent.and_then(|agent| Some(agent.served.as_ref()?.longest_tick_ms)),
            reaction: agent.and_then(|one| Reaction::of(facts, one.served.as_ref()?)),
        }
    }
}

/// An orphan without a name dies with a process that has one, or is its work.
fn counts(death: &Death) -> bool {
    !death.name.is_empty()
}

fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

/// Tells calm seconds: little `full` pressure, and the bystander about as fast as when idle.
struct Calm<'a> {
    facts: &'a Facts,
    pings: &'a [(u64, Option<u64>)],
    frozen: &'a [Frozen],
    idle: &'a Latency,
}

impl Calm<'_> {
    /// The seconds that begin after `from`: when each ends, and whether it is calm.
    fn seconds(&self, from: u64) -> impl DoubleEndedIterator<Item = (u64, bool)> {
        let fast = (2.0 * self.idle.p99_ms).max(self.idle.p99_ms + JITTER_MS);
        let pairs = self.facts.moments.windows(2).filter(move |pair| pair[0].at_ns >= from);
        pairs.map(move |pair| {
            let (a, b) = (&pair[0], &pair[1]);
            let full = b.full_us.saturating_sub(a.full_us) as f64 / 1e6;
            let users = Latency::of(self.pings, self.frozen, a.at_ns, b.at_ns);
            let is_fast = self.pings.is_empty() || (users.n_pings > 0 && users.p99_ms < fast);
            (b.at_ns, full / seconds(a.at_ns, b.at_ns) < CALM && is_fast)
        })
    }

    /// The end of the first.
    fn first(&self, from: u64) -> Option<u64> {
        self.seconds(from).find_map(|(end, calm)| calm.then_some(end))
    }

    /// From when on there were no others; `None` if it did not end calmly.
    fn last(&self, from: u64) -> Option<u64> {
        let mut all = self.seconds(from).rev().peekable();
        if !all.peek()?.1 {
            return None;
        }
        Some(all.find_map(|(end, calm)| (!calm).then_some(end)).unwrap_or(from))
    }
}

/// Seconds in which all work waited for memory, since the onset.
fn full_pressure(facts: &Facts) -> f64 {
    let mut during = facts.moments.iter().filter(|moment| moment.at_ns >= facts.onset_ns);
    let first = during.next().map_or(0, |moment| moment.full_us);
    facts.moments.last().map_or(0.0, |last| last.full_us.saturating_sub(first) as f64 / 1e6)
}

/// The median and the worst, which is the largest, of what was measured.
pub(crate) fn median_and_worst(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let worst = *sorted.last()?;
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    };
    Some((median, worst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Agent, Moment};

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_median_is_the_middle_and_the_worst_the_largest() {
        #[rustfmt::skip]
        type Row = (&'static [f64], Option<(f64, f64)>);
        let table: [Row; 4] = [
            (&[], None),
            (&[3.0], Some((3.0, 3.0))),
            (&[9.0, 1.0], Some((5.0, 9.0))),
            (&[9.0, 1.0, 2.0], Some((2.0, 9.0))),
        ];
        for (values, want) in table {
            assert_eq!(median_and_worst(values), want, "{values:?}");
        }
    }

    #[test]
    fn the_figures_of_a_play_count_from_the_onset() {
        let death = |at_s: u64, name: &str| Death {
            at_ns: at_s * S,
            pid: 1,
            name: name.into(),
            signal: Some(9),
            code: None,
            sandbox: false,
        };
        let moment = |at: u64, full_ms: u64| Moment { at_ns: at * S, full_us: full_ms * 1000 };
        let facts = Facts {
            idle_ns: 0,
            onset_ns: 10 * S,
            end_ns: 20 * S,
            deaths: vec![death(13, ""), death(14, "hog"), death(15, "hog"), death(16, "web")],
            moments: vec![
                moment(10, 0),
                moment(13, 900),
                moment(14, 1800),
                moment(15, 2400),
                moment(16, 2410),
            ],
            agent: Some(Agent { cpu_ms: 500, rss_max_kib: 2048, ..Agent::default() }),
            ..Facts::default()
        };
        let figures = Figures::of(&facts, &[]);
        assert_eq!((figures.kill_s, figures.recover_s), (Some(4.0), Some(2.0)));
        assert_eq!(figures.victims, ["hog", "web"]);
        assert_eq!((figures.n_killed, figures.full_pressure_s), (4, 2.41));
        assert_eq!((figures.agent_cpu, figures.agent_rss_mib), (Some(0.05), Some(2.0)));
    }
}
