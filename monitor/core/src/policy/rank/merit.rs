//! How candidates compare: as numbers that sort fast, and as keys that people read.
//! Both come from the same figures, in the same order.

use super::contender::{Contender, Harm};
use super::need::{Need, Promised};
use super::purpose::Purpose;
use crate::model::cgroup::Preference;
use crate::model::decision::{Candidate, Key, KeyValue, MeritKey, Order, SparedReason};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::takers::OF_LARGEST;

/// By which figures candidates are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    order: Order,
    resource: Resource,
    /// What makes a candidate a cause, in the order `cause` for memory.
    cause: Option<Cause>,
    /// Some candidate has no statistics, so the key decides.
    some_lack_stats: bool,
    /// Some candidate has a preference, so the key decides first.
    some_prefer: bool,
    /// Of several takers some took more or less lately than all along, so the key decides.
    some_lasting: bool,
}

/// A candidate's place in the order: smaller goes first, and the first different field decides.
///
/// Built once per candidate, so that a comparison reads numbers only.
#[derive(Debug, Clone, Copy)]
struct Merit {
    /// Preference, then by the order: class, request, priority; in `cause` who took, and frees enough.
    rank: u64,
    /// Complement of harm, or of what a taker took all along: the larger goes first.
    figure: u64,
    /// Complement of what a taker took.
    taken: u64,
    /// Of takers: class in the upper half, priority in the lower.
    class: u64,
    known: u8,
    /// In billionths, larger first.
    amount: i128,
    /// Youngest first.
    started: i64,
    /// Index in the list that is sorted.
    at: u32,
}

/// A candidate from which figure on is a cause of the shortage.
#[derive(Debug, Clone, Copy)]
struct Cause {
    by: By,
    /// A smaller gain is no real part of what is missing.
    real_part: Bytes,
}

#[derive(Debug, Clone, Copy)]
enum By {
    /// It took memory.
    Taken(Bytes),
    /// It holds what others were promised, and its end frees that.
    Holds(Promised),
    /// Others wait because of it.
    Harm(Nanos),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Yes,
    Unknown,
    No,
}

impl Scale {
    pub(super) fn new(
        contenders: &[Contender],
        order: Order,
        purpose: Purpose,
        need: &Need,
    ) -> Self {
        let resource = purpose.resource();
        let most_harm = contenders.iter().filter_map(|one| Some(one.harm?.others)).max();
        let most_harm = most_harm.max(need.outside_harm).filter(|most| most.0 >= 1_000_000);
        let by = match (most_harm.filter(|_| purpose.is_about_waiting()), need.promised) {
            (Some(most), _) => By::Harm(Nanos(most.0 / OF_LARGEST)),
            (None, Some(promised)) => By::Holds(promised),
            (None, None) => {
                By::Taken(need.taker_from.unwrap_or_else(|| Need::taker_from(contenders)))
            }
        };
        let real_part = need.shortfall.real_part();
        let is_by_cause = order == Order::Cause && resource == Resource::Memory;
        let cause = is_by_cause.then_some(Cause { by, real_part });
        let some_lack_stats = contenders.iter().any(|contender| contender.usage.is_none());
        let some_prefer = contenders.iter().any(|contender| contender.preference.is_some());
        let is_taker = |one: &&Contender| cause.is_some_and(|cause| cause.is_taker(one));
        let takers = || contenders.iter().filter(is_taker);
        let are_several = matches!(by, By::Taken(_)) && takers().count() > 1;
        let some_lasting = are_several && takers().any(Contender::took_otherwise);
        Self { order, resource, cause, some_lack_stats, some_prefer, some_lasting }
    }

    pub(super) fn order(self) -> Order {
        self.order
    }

    /// The resource that is short.
    pub(super) fn resource(self) -> Resource {
        self.resource
    }

    /// Whether the candidate is a cause of the shortage; false in other orders than `cause`.
    pub(super) fn is_taker(self, contender: &Contender) -> bool {
        self.cause.is_some_and(|cause| cause.is_taker(contender))
    }

    /// In the order `cause` a Guaranteed pod within its request is not ended for the node's memory.
    pub(super) fn promised(self, contender: &Contender) -> Option<SparedReason> {
        let is_promised = self.cause.is_some()
            && contender.class == QosClass::Guaranteed
            && self.exceeds(contender) != Some(Answer::Yes);
        is_promised.then_some(SparedReason::WithinRequest)
    }

    /// Whether candidates are compared by what they took.
    pub(super) fn is_by_cause(self) -> bool {
        self.cause.is_some()
    }

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
            figure: 0,
            taken: 0,
            class: 0,
            known: u8::from(has_stats),
            amount: -amount.nanos(),
            started: 0,
            at,
        };
        if let Some(cause) = self.cause {
            let is_taker = cause.is_taker(contender);
            let lacks = u64::from(!cause.frees_enough(contender).is_some_and(|enough| enough));
            let taken = u64::MAX - cause.figure(contender);
            let lasting = contender.lasting.filter(|_| self.some_lasting);
            let figure = lasting.map_or(taken, |lasting| u64::MAX - lasting.0);
            let merit = Merit { started: contender.youngest_first(), ..merit };
            return match is_taker {
                // Who took most goes first, whatever its class.
                true => {
                    let class = match contender.class {
                        QosClass::BestEffort => 0,
                        QosClass::Burstable => 1,
                        QosClass::Guaranteed => 2,
                    };
                    let rank = (preference << 48) | (lacks << 32);
                    Merit { rank, figure, taken, class: (class << 32) | priority, ..merit }
                }
                false => Merit { rank: place(2 + 3 * lacks + exceeds), figure: u64::MAX, ..merit },
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
                figure: u64::MAX - contender.harm.map_or(0, |harm| harm.millis().saturating_add(1)),
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
        let of_cause = |cause: Cause| {
            let is_taker = cause.is_taker(contender);
            let (cause_of, figure) = match cause.by {
                By::Taken(_) => (Key::Taker, Some((Key::Taken, bytes(contender.taken)))),
                By::Holds(_) => (Key::HoldsPromised, None),
                By::Harm(_) => {
                    let harm = number(contender.harm.map(Harm::millis));
                    (Key::Taker, Some((Key::Harm, harm)))
                }
            };
            let enough = cause.frees_enough(contender).map_or(KeyValue::Unknown, KeyValue::Bool);
            let (taker, enough) =
                ((cause_of, KeyValue::Bool(is_taker)), (Key::FreesEnough, enough));
            let lasting = self.some_lasting.then(|| (Key::Lasting, bytes(contender.lasting)));
            let qos = (Key::Qos, KeyValue::Class(contender.class));
            match is_taker {
                true => [Some(taker), Some(enough), lasting, figure, Some(qos), priority.clone()],
                false => [Some(taker), Some(enough), exceeds.clone(), priority.clone(), None, None],
            }
            .into_iter()
            .chain([stats.clone(), amount.clone(), usage.clone(), started.clone(), uid.clone()])
            .collect()
        };
        let keys: Vec<Option<(Key, KeyValue)>> = match (self.order, self.has_requests()) {
            _ if self.cause.is_some() => self.cause.map(of_cause).unwrap_or_default(),
            (Order::Kubelet, true) => vec![stats, exceeds, priority, amount, usage, uid],
            (Order::Kubelet, false) => vec![priority, stats, amount, uid],
            (Order::Qos | Order::Cause, _) => {
                let qos = Some((Key::Qos, KeyValue::Class(contender.class)));
                // It decides among Burstable pods only.
                let exceeds = exceeds.filter(|_| contender.class == QosClass::Burstable);
                let harm = Some((Key::Harm, number(contender.harm.map(Harm::millis))));
                vec![qos, exceeds, priority, harm, stats, amount, usage, started, uid]
            }
        };
        std::iter::once(preference)
            .chain(keys)
            .flatten()
            .map(|(key, value)| MeritKey { key, value })
            .collect()
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

    /// Whether usage is strictly above the request; `None` if the resource has no requests.
    ///
    /// Inodes cannot be requested, so any usage exceeds.
    pub(super) fn exceeds(self, contender: &Contender) -> Option<Answer> {
        self.has_requests().then(|| {
            let request = match self.resource {
                Resource::Inodes => Some(Quantity::ZERO),
                _ => contender.request,
            };
            match contender.usage.zip(request) {
                None => Answer::Unknown,
                Some((usage, request)) if usage > request => Answer::Yes,
                Some(_) => Answer::No,
            }
        })
    }

    /// Usage above the request. For inodes the kubelet subtracts the request for bytes, and so
    /// does its order.
    fn excess(self, contender: &Contender) -> Option<Quantity> {
        let request = match (self.resource, self.order) {
            (Resource::Pids | Resource::Io, _) | (Resource::Inodes, Order::Qos | Order::Cause) => {
                Some(Quantity::ZERO)
            }
            _ => contender.request,
        };
        contender.usage.zip(request).map(|(usage, request)| usage.minus(request))
    }

    fn has_requests(self) -> bool {
        !matches!(self.resource, Resource::Pids | Resource::Io)
    }
}

impl Cause {
    fn is_taker(self, contender: &Contender) -> bool {
        match self.by {
            By::Taken(from) => contender.taken.is_some_and(|taken| taken >= from),
            By::Holds(promised) => contender.holds_promised(promised),
            By::Harm(from) => contender.harm.is_some_and(|harm| harm.others >= from),
        }
    }

    fn figure(self, contender: &Contender) -> u64 {
        match self.by {
            By::Taken(_) => contender.taken.map_or(0, |taken| taken.0),
            By::Holds(_) => 0,
            By::Harm(_) => contender.harm.map_or(0, |harm| harm.others.0),
        }
    }

    /// A real part of what is missing and, of who took memory, of that: shared memory stays.
    fn frees_enough(self, contender: &Contender) -> Option<bool> {
        let part = contender.part_taken().filter(|_| matches!(self.by, By::Taken(_)));
        contender.frees.map(|frees| frees >= self.real_part.max(part.unwrap_or_default()))
    }
}

impl Merit {
    fn figures(&self) -> (u64, [u64; 3], u8, i128, i64) {
        (self.rank, [self.figure, self.taken, self.class], self.known, self.amount, self.started)
    }
}

fn bytes(amount: Option<Bytes>) -> KeyValue {
    amount.map_or(KeyValue::Unknown, |Bytes(n)| KeyValue::Quantity(Quantity::bytes(n)))
}

fn number(n: Option<u64>) -> KeyValue {
    n.map_or(KeyValue::Unknown, |n| KeyValue::Number(i64::try_from(n).unwrap_or(i64::MAX)))
}

/// The first key in which two candidates of one ranking differ, with the value of each: why `a`
/// goes before `b`. `None` if they are equal in every key.
#[must_use]
pub fn why_before<'a>(a: &'a Candidate, b: &'a Candidate) -> Option<(&'a MeritKey, &'a MeritKey)> {
    a.keys.iter().zip(&b.keys).find(|(a, b)| a != b)
}
