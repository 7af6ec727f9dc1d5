//! By which figures candidates are compared, and from how much on one is a cause of the shortage.
//! Rules: docs/policy.md, "Ranking".

use super::contender::Contender;
use super::need::Need;
use super::purpose::Purpose;
use crate::model::cgroup::Preference;
use crate::model::decision::{Order, SparedReason};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;
use crate::policy::takers::{NOISE, OF_LARGEST};

/// By which figures candidates are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) order: Order,
    pub(super) resource: Resource,
    /// What makes a candidate a cause, in the order `cause`.
    pub(super) cause: Option<By>,
    /// A smaller gain is no real part of what is missing.
    real_part: u64,
    /// A candidate that took less is no cause by the harm that it does.
    reads_back_below: Option<u64>,
    /// Some candidate has no statistics, so the key decides.
    pub(super) some_lack_stats: bool,
    /// Some candidate has a preference, so the key decides first.
    pub(super) some_prefer: bool,
    /// Of several takers some took more or less lately than all along, so the key decides.
    pub(super) some_lasting: bool,
    /// Several takers reach it, and differ in class or priority, which decides among them.
    alike_from: Option<u64>,
}

/// A candidate from which figure on is a cause of the shortage.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    /// It took memory, threads, or of a disk.
    Taken(u64),
    /// It holds so much of what others were promised, and its end frees that.
    Holds(u64),
    /// Others wait because of it, and of all waiting it has that part.
    Harm { others: Nanos, part: Nanos },
    /// It uses so many billionths more of disk space, inodes or pids than it requests.
    Uses(i128),
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
        let resource = purpose.resource;
        let some_lack_stats = contenders.iter().any(|contender| contender.usage.is_none());
        let some_prefer = contenders.iter().any(|contender| contender.preference.is_some());
        let real_part = need.shortfall.real_part();
        let scale = Self {
            order,
            resource,
            cause: None,
            real_part,
            reads_back_below: need.reads_back_below,
            some_lack_stats,
            some_prefer,
            some_lasting: false,
            alike_from: None,
        };
        let is_by_cause = order == Order::Cause;
        let cause = is_by_cause.then(|| scale.cause_among(contenders, purpose, need)).flatten();
        Self { cause, ..scale }
    }

    /// For a comparison of these, groups among them.
    pub(super) fn among<'a>(self, candidates: impl Iterator<Item = &'a Contender> + Clone) -> Self {
        let takers = || candidates.clone().filter(|one| self.is_taker(one));
        let are_several = matches!(self.cause, Some(By::Taken(_))) && takers().count() > 1;
        let some_lasting = are_several && takers().any(Contender::took_otherwise);
        let scale = Self { some_lasting, ..self };
        let alike_from = self.cause.and_then(|by| {
            let figure = |one: &&Contender| scale.first_figure(by, one);
            let frees = |one: &Contender| !self.must_free() || self.frees_enough(one) == Some(true);
            let is_able =
                |one: &&Contender| frees(one) && one.preference != Some(Preference::Avoid);
            let able = || takers().filter(is_able);
            let most = able().map(|one| figure(&one)).max().filter(|most| *most > 0)?;
            let from = most - most / NOISE;
            let mut alike = able().filter(|one| figure(one) >= from);
            let first = alike.next()?;
            let differs =
                |one: &Contender| (one.class, one.priority) != (first.class, first.priority);
            alike.any(differs).then_some(from)
        });
        Self { alike_from, ..scale }
    }

    /// The first figure by which takers are compared: what they took all along, their part of waits for
    /// disks, or what `by` says.
    pub(super) fn first_figure(self, by: By, contender: &Contender) -> u64 {
        let lasting = contender.lasting.filter(|_| self.some_lasting);
        let disk = || contender.disk_share().filter(|_| matches!(by, By::Harm { .. }));
        lasting.or_else(disk).unwrap_or_else(|| by.figure(contender))
    }

    /// Whether it took as much as the largest but for noise; `None` where that decides nothing.
    pub(super) fn is_alike(self, contender: &Contender) -> Option<bool> {
        let by = self.cause?;
        self.alike_from.map(|from| self.first_figure(by, contender) >= from)
    }

    /// By which figure, and from how much on, a candidate is a cause; `None` if there is no such figure.
    fn cause_among(self, contenders: &[Contender], purpose: Purpose, need: &Need) -> Option<By> {
        let most = |is: &dyn Fn(&Contender) -> bool| {
            let those = contenders.iter().filter(|one| is(one));
            those.filter_map(|one| Some(one.harm?.others)).max().max(need.outside_harm)
        };
        let real = |most: Nanos| Nanos(most.0 / OF_LARGEST);
        let by_harm = |most: Option<Nanos>| {
            let others = real(most.filter(|most| most.0 >= 1_000_000)?);
            Some(By::Harm { others, part: real(need.largest_part) })
        };
        // A pod that reads back what another party took of its memory charges most of all: within its request,
        // or while others take far more, it is no cause. Beside it a pod that grew, and reads nothing back,
        // makes others wait for far too little.
        let of_memory = || {
            let beyond = most(&|one| !self.is_within_request(one) && !self.reads_back(one));
            by_harm(beyond.filter(|beyond| Some(*beyond) >= most(&|_| true).map(real)))
        };
        let by_use = || {
            let most = contenders.iter().filter_map(|one| self.much(one)).max()?.nanos();
            Some(By::Uses((most / i128::from(OF_LARGEST)).max(1)))
        };
        let by_taken = || match need.promised {
            Some(least) => By::Holds(least),
            None => By::Taken(need.taker_from.unwrap_or_else(|| Need::taker_from(contenders))),
        };
        match (self.resource, purpose.is_about_waiting) {
            (Resource::Memory, true) => of_memory().or_else(|| Some(by_taken())),
            (Resource::Memory, false) => Some(by_taken()),
            (_, true) => by_harm(most(&|_| true)),
            (_, false) if need.taker_from.is_some() => Some(by_taken()),
            (_, false) => by_use(),
        }
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
        self.cause.is_some_and(|by| match by {
            By::Taken(from) => contender.took().is_some_and(|taken| taken >= from),
            By::Holds(least) => contender.holds_promised(least),
            // Who runs within its request makes others wait for what they were not promised.
            By::Harm { others, part } => {
                let has_part = contender.part.is_none_or(|own| own >= part);
                let does_harm = contender.harm.is_some_and(|harm| harm.others >= others);
                let is_victim = self.is_within_request(contender) || self.reads_back(contender);
                !is_victim && has_part && does_harm
            }
            By::Uses(from) => self.much(contender).is_some_and(|much| much.nanos() >= from),
        })
    }

    /// Whether pods with these sums may be one candidate.
    pub(super) fn may_be_one(self, sum: &Contender) -> bool {
        self.cause.is_none_or(|by| !matches!(by, By::Holds(_)) && self.is_taker(sum))
    }

    fn is_within_request(self, contender: &Contender) -> bool {
        self.exceeds(contender) == Some(Answer::No)
    }

    /// Whether what it charges is what others took from it.
    fn reads_back(self, contender: &Contender) -> bool {
        let took = contender.took().unwrap_or_default();
        self.reads_back_below.is_some_and(|least| took < least)
    }

    /// Whether so little of what it took counts, because it requests the rest, that it is no cause.
    pub(super) fn took_what_was_promised(self, contender: &Contender) -> bool {
        matches!((self.cause, contender.took()), (Some(By::Taken(from)), Some(took)) if took < from)
    }

    /// In the order `cause` a Guaranteed pod within its request does not pay for others.
    pub(super) fn promised(self, contender: &Contender) -> Option<SparedReason> {
        let is_within = self.exceeds(contender).is_some_and(|answer| answer != Answer::Yes);
        let is_promised =
            self.cause.is_some() && contender.class == QosClass::Guaranteed && is_within;
        is_promised.then_some(SparedReason::WithinRequest)
    }

    /// Disk space, inodes or pids are short, and of no candidate it is known how much it uses.
    pub(super) fn is_use_unknown(self) -> bool {
        let is_used_up =
            matches!(self.resource, Resource::Storage | Resource::Inodes | Resource::Pids);
        is_used_up && self.order == Order::Cause && self.cause.is_none()
    }

    /// Whether candidates are compared by what they took of memory.
    pub(super) fn is_by_cause(self) -> bool {
        self.cause.is_some() && self.resource == Resource::Memory
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
    pub(super) fn excess(self, contender: &Contender) -> Option<Quantity> {
        let request = match (self.resource, self.order) {
            (Resource::Pids | Resource::Io, _) | (Resource::Inodes, Order::Qos | Order::Cause) => {
                Some(Quantity::ZERO)
            }
            _ => contender.request,
        };
        contender.usage.zip(request).map(|(usage, request)| usage.minus(request))
    }

    /// Usage above the request, or all of it where the request is not known.
    pub(super) fn much(self, contender: &Contender) -> Option<Quantity> {
        self.excess(contender).or(contender.usage)
    }

    pub(super) fn has_requests(self) -> bool {
        !matches!(self.resource, Resource::Pids | Resource::Io)
    }

    /// Whether what is short must come back. A CPU and a disk's time do once their user is slowed down.
    pub(super) fn must_free(self) -> bool {
        !matches!(self.resource, Resource::Cpu | Resource::Io)
    }

    /// A real part of what is missing and, of a taker, of what it took: shared memory stays.
    pub(super) fn frees_enough(self, contender: &Contender) -> Option<bool> {
        let took = matches!(self.cause, Some(By::Taken(_)));
        let part = contender.part_taken().filter(|_| took).unwrap_or_default();
        contender.frees.map(|frees| frees >= part.max(self.real_part))
    }
}

impl By {
    pub(super) fn figure(self, contender: &Contender) -> u64 {
        match self {
            By::Taken(_) => contender.taken.unwrap_or_default(),
            By::Harm { .. } => contender.harm.map_or(0, |harm| harm.others.0),
            By::Holds(_) | By::Uses(_) => 0,
        }
    }
}
