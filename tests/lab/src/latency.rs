//! How long the bystander's users waited, on the guest's clock, and what of that was the
//! measuring machine's own fault.

use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Frozen};
use crate::host::Ping;

/// A ping that is sent later than this was kept back by the host.
const HOST_LATE_NS: u64 = 50_000_000;

/// How a bystander answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Latency {
    pub(crate) n_pings: usize,
    pub(crate) n_unanswered: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    /// The longest time without any answer.
    pub(crate) longest_gap_ms: f64,
}

/// Pings with their times on the guest's clock.
pub(crate) fn on_guest_clock(pings: &[Ping]) -> Vec<(u64, Option<u64>)> {
    let Some(guest) = clock(pings) else { return Vec::new() };
    pings.iter().map(|ping| (guest(ping.sent_ns), ping.answered_ns.map(&guest))).collect()
}

/// From the host's clock to the guest's. Of all answers, the one that was fastest back tells how
/// far the two are apart; both run at the same speed.
fn clock(pings: &[Ping]) -> Option<impl Fn(u64) -> u64> {
    let offsets = pings
        .iter()
        .filter_map(|ping| Some(i128::from(ping.answered_ns?) - i128::from(ping.guest_ns)));
    let offset = offsets.min()?;
    Some(move |host: u64| u64::try_from(i128::from(host) - offset).unwrap_or(0))
}

/// When the guest was frozen, as it noticed, and when the host did, as late pings show; in
/// order, and none overlaps another.
pub(crate) fn frozen(facts: &Facts, pings: &[Ping]) -> Vec<Frozen> {
    let mut all = facts.frozen.clone();
    if let Some(guest) = clock(pings) {
        let late = pings.iter().filter(|ping| ping.late_ns > HOST_LATE_NS);
        all.extend(late.map(|ping| {
            let from = ping.sent_ns.saturating_sub(ping.late_ns);
            Frozen { from_ns: guest(from), to_ns: guest(ping.sent_ns) }
        }));
    }
    all.sort_by_key(|frozen| frozen.from_ns);
    let mut apart: Vec<Frozen> = Vec::new();
    for frozen in all {
        match apart.last_mut() {
            Some(last) if frozen.from_ns <= last.to_ns => last.to_ns = last.to_ns.max(frozen.to_ns),
            _ => apart.push(frozen),
        }
    }
    apart
}

/// How much of the time from `from` to `to` it was frozen.
pub(crate) fn within(frozen: &[Frozen], from: u64, to: u64) -> u64 {
    frozen.iter().map(|s| s.to_ns.min(to).saturating_sub(s.from_ns.max(from))).sum()
}

impl Latency {
    /// Of the pings sent from `from` to `to`; one without an answer has waited until `to`. Time
    /// in which the machine was frozen is no wait.
    pub(crate) fn of(pings: &[(u64, Option<u64>)], frozen: &[Frozen], from: u64, to: u64) -> Self {
        let ms = |from: u64, to: u64| {
            to.saturating_sub(from).saturating_sub(within(frozen, from, to)) as f64 / 1e6
        };
        let sent = pings.iter().filter(|(sent, _)| (from..to).contains(sent));
        let mut waits: Vec<f64> =
            sent.clone().map(|(sent, answered)| ms(*sent, answered.unwrap_or(to))).collect();
        waits.sort_by(f64::total_cmp);
        let mut answers: Vec<u64> = pings.iter().filter_map(|(_, answered)| *answered).collect();
        answers.retain(|at| (from..to).contains(at));
        answers.extend([from, to]);
        answers.sort_unstable();
        let gaps = answers.windows(2).map(|pair| ms(pair[0], pair[1]));
        Self {
            n_pings: waits.len(),
            n_unanswered: sent.filter(|(_, answered)| answered.is_none()).count(),
            p50_ms: percentile(&waits, 0.5),
            p99_ms: percentile(&waits, 0.99),
            p999_ms: percentile(&waits, 0.999),
            longest_gap_ms: if waits.is_empty() { 0.0 } else { gaps.fold(0.0, f64::max) },
        }
    }
}

/// The value below or at which that share of sorted values lies; 0 of none.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        #[rustfmt::skip]
        let table: [(&[f64], f64, f64); 6] = [
            // values,   share, value
            (&[],        0.99,  0.0),
            (&[7.0],     0.5,   7.0),
            (&[1.0, 9.0], 0.5,  1.0),
            (&[1.0, 9.0], 0.99, 9.0),
            (&hundred,   0.99,  99.0),
            (&hundred,   0.999, 100.0),
        ];
        for (values, share, want) in table {
            assert_eq!(percentile(values, share), want, "{share} of {values:?}");
        }
    }

    #[test]
    fn a_ping_without_an_answer_has_waited_until_the_end() {
        let pings = [(0, Some(2 * MS)), (10 * MS, Some(12 * MS)), (20 * MS, None), (99 * MS, None)];
        let latency = Latency::of(&pings, &[], 0, 50 * MS);
        assert_eq!((latency.n_pings, latency.n_unanswered), (3, 1));
        assert_eq!((latency.p50_ms, latency.p99_ms, latency.longest_gap_ms), (2.0, 30.0, 38.0));
    }

    #[test]
    fn time_in_which_a_machine_was_frozen_is_no_wait() {
        let of = |frozen: &[(u64, u64)]| {
            let frozen =
                frozen.iter().map(|(from, to)| Frozen { from_ns: from * MS, to_ns: to * MS });
            let pings = [(0, Some(2 * MS)), (10 * MS, Some(40 * MS))];
            let latency = Latency::of(&pings, &frozen.collect::<Vec<_>>(), 0, 42 * MS);
            (latency.p50_ms, latency.p99_ms, latency.longest_gap_ms)
        };
        type Row = (&'static [(u64, u64)], (f64, f64, f64));
        #[rustfmt::skip]
        let table: [Row; 4] = [
            // frozen,              p50, p99,  gap
            (&[],                  (2.0, 30.0, 38.0)),
            (&[(15, 35)],          (2.0, 10.0, 18.0)),
            (&[(0, 1), (5, 20)],   (1.0, 20.0, 23.0)),
            (&[(50, 90)],          (2.0, 30.0, 38.0)),
        ];
        for (frozen, want) in table {
            assert_eq!(of(frozen), want, "{frozen:?}");
        }
    }

    #[test]
    fn frozen_times_of_guest_and_host_are_put_together() {
        let ping = |sent_ms: u64, late_ms: u64| Ping {
            sent_ns: sent_ms * MS,
            answered_ns: Some((sent_ms + 1) * MS),
            late_ns: late_ms * MS,
            guest_ns: (1000 + sent_ms + 1) * MS,
        };
        let guest = Frozen { from_ns: 1250 * MS, to_ns: 1400 * MS };
        let facts = Facts { frozen: vec![guest], ..Facts::default() };
        let all = frozen(&facts, &[ping(100, 49), ping(300, 100), ping(900, 60)]);
        let ms: Vec<(u64, u64)> = all.iter().map(|s| (s.from_ns / MS, s.to_ns / MS)).collect();
        assert_eq!(ms, [(1200, 1400), (1840, 1900)]);
        assert_eq!(within(&all, 1300 * MS, 1850 * MS), 110 * MS);
    }

    #[test]
    fn clocks_are_aligned_by_the_fastest_answer() {
        let ping = |sent_ns, answered, guest_ns| Ping {
            sent_ns,
            answered_ns: answered,
            late_ns: 0,
            guest_ns,
        };
        let pings = [ping(100, Some(110), 1005), ping(200, Some(240), 1138), ping(300, None, 0)];
        let aligned = on_guest_clock(&pings);
        // 240 on the host is 1138 in the guest, or a little later.
        assert_eq!(aligned, [(998, Some(1008)), (1098, Some(1138)), (1198, None)]);
    }
}
