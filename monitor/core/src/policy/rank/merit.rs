//! How candidates compare: as numbers that sort fast, and as keys that people read.
//! Both come from the same figures, in the same order.

use super::contender::{Contender, Harm};
use super::scale::{Answer, By, Scale};
use crate::model::cgroup::Preference;
use crate::model::decision::{Candidate, Key, KeyValue, MeritKey, Order};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;

/// A candidate's place in the order: smaller goes first, and the first different field decides.
///
/// Built once per candidate, so that a comparison reads numbers only.
#[derive(Debug, Clone, Copy)]
struct Merit {
    /// Preference, then by the order: class, request, priority; in `cause` who took, and frees enough.
    rank: u64,
    /// Complement of harm. Of takers also of what they took all along and lately; and class and priority,
    /// before these where takers took alike.
    figures: [u64; 3],
    known: u8,
    /// In billionths, larger first.
    amount: i128,
    /// Youngest first.
    started: i64,
    /// Index in the list that is sorted.
    at: u32,
}

impl Scale {
    /// The indices of the first `head` of `contenders`, in order. The order is total: equal
    /// figures are decided by uid, and equal uids by name.
    ///
    /// The rest is split off without sorting it: it is most of a large node.
    pub(super) fn sorted(
        self,
        contenders: &[&Contender],
        head: usize,
    ) -> impl Iterator<Item = usize> {
        let merit = |(at, contender): (usize, &&Contender)| {
            self.merit(contender, u32::try_from(at).unwrap_or(u32::MAX))
        };
        let mut merits: Vec<Merit> = contenders.iter().enumerate().map(merit).collect();
        let name = |merit: &Merit| {
            let contender = contenders[merit.at as usize];
            (&contender.uid, &contender.namespace, &contender.name)
        };
        let by_merit = |a: &Merit, b: &Merit| {
            a.figures().cmp(&b.figures()).then_with(|| name(a).cmp(&name(b)))
        };
        if head < merits.len() {
            merits.select_nth_unstable_by(head, by_merit);
            merits.truncate(head);
        }
        merits.sort_unstable_by(by_merit);
        merits.into_iter().map(|merit| merit.at as usize)
    }

    fn merit(self, contender: &Contender, at: u32) -> Merit {
        let priority = u64::from(contender.priority.cast_unsigned() ^ (1 << 31));
        let has_stats = contender.usage.is_some();
        let excess = self.excess(contender);
        let amount = excess.or(contender.usage).unwrap_or(Quantity::ZERO);
        let preference = match contender.preference {
            Some(Preference::Prefer) => 0,
            None => 1,
            Some(Preference::Avoid | Preference::Omit) => 2,
        };
        let place = |class: u64| (preference << 48) | (class << 32) | priority;
        let exceeds = self.exceeds(contender).map_or(0, |answer| answer as u64);
        let merit = Merit {
            rank: place(0),
            figures: [0; 3],
            known: u8::from(has_stats),
            amount: -amount.nanos(),
            started: 0,
            at,
        };
        if let Some(by) = self.cause {
            let is_taker = self.is_taker(contender);
            let frees_enough = self.frees_enough(contender).is_some_and(|enough| enough);
            let lacks = u64::from(self.must_free() && !frees_enough);
            let taken = u64::MAX - by.figure(contender);
            let figure = u64::MAX - self.first_figure(by, contender);
            let merit = Merit { started: contender.youngest_first(), ..merit };
            return match is_taker {
                true if matches!(by, By::Uses(_)) => Merit { rank: place(lacks), ..merit },
                // Who took most goes first, whatever its class.
                true => {
                    let class = match contender.class {
                        QosClass::BestEffort => 0,
                        QosClass::Burstable => 1,
                        QosClass::Guaranteed => 2,
                    };
                    let class = (class << 32) | priority;
                    let (is_less, figures) = match self.is_alike(contender) {
                        Some(true) => (0, [class, figure, taken]),
                        is_alike => (u64::from(is_alike.is_some()), [figure, taken, class]),
                    };
                    Merit { rank: (preference << 48) | (lacks << 32) | is_less, figures, ..merit }
                }
                false => {
                    let harm = if matches!(by, By::Harm { .. }) { taken } else { u64::MAX };
                    let rank = place(2 + 3 * lacks + exceeds);
                    Merit { rank, figures: [harm, 0, 0], ..merit }
                }
            };
        }
        match (self.order, self.has_requests()) {
            // The first of the kubelet's comparators that looks at statistics sorts pods without
            // any first.
            (Order::Kubelet, true) => Merit {
                rank: place(u64::from(has_stats) << 2 | exceeds),
                known: u8::from(excess.is_none()),
                ..merit
            },
            (Order::Kubelet, false) => merit,
            (Order::Qos | Order::Cause, _) => Merit {
                rank: place(match contender.class {
                    QosClass::BestEffort => 0,
                    QosClass::Burstable => 1 + exceeds,
                    QosClass::Guaranteed => 4,
                }),
                figures: [by_harm(contender), 0, 0],
                known: match (has_stats, excess) {
                    (true, Some(_)) => 0,
                    (true, None) => 1,
                    (false, _) => 2,
                },
                started: contender.youngest_first(),
                ..merit
            },
        }
    }

    /// The same as text and numbers, in the order in which they decide.
    pub(super) fn keys(self, contender: &Contender) -> Vec<MeritKey> {
        let stats = self.some_lack_stats.then(|| {
            let has_stats = contender.usage.is_some();
            (Key::HasStats, KeyValue::Bool(has_stats))
        });
        let preference = self.some_prefer.then(|| {
            let word = match contender.preference {
                Some(Preference::Prefer) => "prefer",
                None => "none",
                Some(Preference::Avoid) => "avoid",
                Some(Preference::Omit) => "omit",
            };
            (Key::Preference, KeyValue::Text(word.into()))
        });
        let exceeds = self.exceeds(contender).map(|answer| {
            let value = match answer {
                Answer::Yes => KeyValue::Bool(true),
                Answer::Unknown => KeyValue::Unknown,
                Answer::No => KeyValue::Bool(false),
            };
            (Key::ExceedsRequest, value)
        });
        let priority = Some((Key::Priority, KeyValue::Number(contender.priority.into())));
        let uid = Some((Key::Uid, KeyValue::Text(contender.uid.clone())));
        let started = contender.started.map_or(KeyValue::Unknown, KeyValue::Number);
        let started = Some((Key::Started, started));
        let [amount, usage] = self.amounts(contender);
        let enough = self.frees_enough(contender).map_or(KeyValue::Unknown, KeyValue::Bool);
        let enough = self.must_free().then_some((Key::FreesEnough, enough));
        let taker = |key| Some((key, KeyValue::Bool(self.is_taker(contender))));
        let lasting = self.some_lasting.then(|| (Key::Lasting, self.amount(contender.lasting)));
        let taken = Some((Key::Taken, self.amount(contender.taken)));
        let harm = Some((Key::Harm, number(contender.harm.map(Harm::millis))));
        let disk = contender.disk_share().map(|share| (Key::DiskShare, number(Some(share))));
        let qos = Some((Key::Qos, KeyValue::Class(contender.class)));
        let all = match (self.cause, self.order) {
            (Some(by), _) => {
                let first = match by {
                    By::Holds(_) => taker(Key::HoldsPromised),
                    By::Taken(_) | By::Harm { .. } | By::Uses(_) => taker(Key::Taker),
                };
                let is_alike = self.is_alike(contender).filter(|_| self.is_taker(contender));
                let alike = is_alike.map(|is| (Key::AmongLargest, KeyValue::Bool(is)));
                let [figure, taken] = match by {
                    By::Taken(_) => [lasting, taken],
                    By::Harm { .. } => [disk, harm],
                    By::Holds(_) | By::Uses(_) => [None, None],
                };
                let then = match (self.is_taker(contender), by) {
                    (false, By::Harm { .. }) => [exceeds, priority, taken, None],
                    (false, _) | (true, By::Uses(_)) => [exceeds, priority, None, None],
                    (true, _) if is_alike == Some(true) => [qos, priority, figure, taken],
                    (true, _) => [figure, taken, qos, priority],
                };
                let last = [stats, amount, usage, started, uid];
                [first, enough, alike].into_iter().chain(then).chain(last).collect()
            }
            (None, Order::Kubelet) => match self.has_requests() {
                true => vec![stats, exceeds, priority, amount, usage, uid],
                false => vec![priority, stats, amount, uid],
            },
            (None, Order::Qos | Order::Cause) => {
                // It decides among Burstable pods only.
                let exceeds = exceeds.filter(|_| contender.class == QosClass::Burstable);
                vec![qos, exceeds, priority, harm, stats, amount, usage, started, uid]
            }
        };
        std::iter::once(preference)
            .chain(all)
            .flatten()
            .map(|(key, value)| MeritKey { key, value })
            .collect()
    }

    /// What was taken, in bytes, inodes or threads.
    fn amount(self, taken: Option<u64>) -> KeyValue {
        match self.resource {
            Resource::Pids | Resource::Inodes => number(taken),
            _ => taken.map_or(KeyValue::Unknown, |n| KeyValue::Quantity(Quantity::bytes(n))),
        }
    }

    /// Excess over the request; usage where there is no request.
    fn amounts(self, contender: &Contender) -> [Option<(Key, KeyValue)>; 2] {
        let usage = contender.usage.map_or(KeyValue::Unknown, KeyValue::Quantity);
        match self.resource {
            Resource::Pids => {
                let count = contender.usage.map(Quantity::to_u64);
                [Some((Key::Processes, number(count))), None]
            }
            Resource::Io => [Some((Key::Usage, usage)), None],
            _ => {
                let excess = self.excess(contender);
                let value = excess.map_or(KeyValue::Unknown, KeyValue::Quantity);
                let is_all = excess.is_some() || contender.usage.is_none();
                [Some((Key::Excess, value)), (!is_all).then_some((Key::Usage, usage))]
            }
        }
    }
}

impl Merit {
    fn figures(&self) -> (u64, [u64; 3], u8, i128, i64) {
        (self.rank, self.figures, self.known, self.amount, self.started)
    }
}

/// Complement of harm: the larger goes first, and that of who was not measured last.
fn by_harm(contender: &Contender) -> u64 {
    u64::MAX - contender.harm.map_or(0, |harm| harm.millis().saturating_add(1))
}

fn number(n: Option<u64>) -> KeyValue {
    n.map_or(KeyValue::Unknown, |n| KeyValue::Number(i64::try_from(n).unwrap_or(i64::MAX)))
}

/// The first key in which two candidates of one ranking differ, with the value of each: why `a`
/// goes before `b`. `None` if they are equal in every key.
pub fn why_before<'a>(a: &'a Candidate, b: &'a Candidate) -> Option<(&'a MeritKey, &'a MeritKey)> {
    a.keys.iter().zip(&b.keys).find(|(a, b)| a != b)
}
