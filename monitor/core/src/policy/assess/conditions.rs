//! KEP-4205's contention conditions of the node and its pods, one per scope and resource.
//! In: a `Snapshot` and the state of the last tick. Out: conditions, and events for changes.
//! Rules: KEP-4205, phase 2 (now KEP-5394): docs/policy.md, "Conditions".

mod events;
mod figures;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::condition::{Condition, ConditionName, Phase, Status};
use crate::model::decision::Event;
use crate::model::sample::Moment;
use crate::model::settings::Conditions;
use crate::model::snapshot::{Averaged, Snapshot};
use crate::model::units::{Nanos, Percent};

/// The state of all conditions from tick to tick, by name without prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConditionStanding(BTreeMap<String, Held>);

/// The state of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Held {
    status: Status,
    since: Moment,
    /// When the condition was last measured.
    judged: Option<Moment>,
    /// The result of the last measurement.
    phase: Phase,
    /// Since when there has been a reason to change the status.
    turning: Option<Nanos>,
}

impl Held {
    fn new(at: Moment) -> Self {
        let (status, phase) = (Status::Unknown, Phase::Unknown);
        Self { status, since: at, judged: None, phase, turning: None }
    }

    /// A status that is stale, because nothing was measured or no agent ran, becomes Unknown.
    fn expire(&mut self, settings: &Conditions, at: Moment, interval: Nanos) {
        let is_fresh = self.judged.is_some_and(|judged| {
            judged.boot <= at.boot && at.boot.since(judged.boot) <= settings.stale_after
        });
        if is_fresh {
            return;
        }
        self.turning = None;
        if self.status != Status::Unknown {
            (self.status, self.since) = (Status::Unknown, at);
        }
        if interval > Nanos(0) {
            self.phase = Phase::Unknown;
        }
    }

    /// Whether it was known, or was with the agent's first sample, and is not any more. That sample has
    /// no rates: what an agent that ended long ago had judged is Unknown with it, and known again with
    /// the second as a rule, which alone is worth an event.
    fn is_lost(self, now: Status, interval: Nanos) -> bool {
        let was_known = self.status != Status::Unknown || self.phase != Phase::Unknown;
        was_known && now == Status::Unknown && interval > Nanos(0)
    }

    /// How long there has been a reason to change; starts again if the clock ran backwards.
    fn turning_for(&mut self, now: Nanos) -> Nanos {
        let from = self.turning.filter(|from| *from <= now).unwrap_or(now);
        self.turning = Some(from);
        now.since(from)
    }
}

/// Judges every condition that has a rule, in fixed order.
pub fn judge(
    settings: &Conditions,
    snapshot: &Snapshot,
    standing: &mut ConditionStanding,
) -> (Vec<Condition>, Vec<Event>) {
    let (mut conditions, mut all_events) = (Vec::new(), Vec::new());
    for name in ConditionName::ALL {
        let kind = format!("{}{name}", settings.prefix);
        // KEP-5394: a threshold of 0 switches the condition off, since any value would be high.
        let rule = settings.rules.get(name.name()).filter(|rule| rule.threshold > Percent(0));
        let Some(rule) = rule.copied() else {
            let dropped = standing.0.remove(name.name());
            all_events.extend(dropped.and_then(|held| events::dropped(&kind, held.status)));
            continue;
        };
        let held = standing.0.entry(name.name().into()).or_insert(Held::new(snapshot.at));
        let before = *held;
        held.expire(settings, snapshot.at, snapshot.interval);
        let figures = figures::of(name, rule, snapshot);
        let wanted = figures.as_ref().map_err(Clone::clone).and_then(|figures| {
            let wanted = phase(rule.threshold, figures.within, held.status);
            wanted.ok_or_else(|| figures.undecided(rule, name))
        });
        let phase = match wanted {
            Ok(wanted) => measured(held, wanted, settings, snapshot.at),
            Err(_) => unmeasured(held),
        };
        let known = figures.ok();
        let condition = Condition {
            name,
            kind,
            status: held.status,
            phase,
            measure: rule.measure,
            threshold: rule.threshold,
            avg10: known.map(|figures| figures.avg10),
            avg60: known.map(|figures| figures.avg60),
            seen: known.and_then(|figures| figures.seen),
            since: held.since,
            judged: held.judged,
            why: wanted.err(),
        };
        let is_lost = before.is_lost(held.status, snapshot.interval);
        let of_known = if before.status == Status::Unknown { Phase::Unknown } else { before.phase };
        let before = (before.status, of_known);
        all_events.extend(events::of(before, held.phase, is_lost, &condition));
        conditions.push(condition);
    }
    (conditions, all_events)
}

/// KEP-4205's rules; `last` is the last status. Equality counts as high. Where both contended and
/// trending lower match, it is contended. `None` while what was measured does not decide.
fn phase(threshold: Percent, averaged: Averaged, last: Status) -> Option<Phase> {
    let holds = last == Status::True;
    Some(match (averaged.avg60.reach(threshold)?, averaged.avg10.reach(threshold), holds) {
        (false, _, true) => Phase::Cleared,
        (false, _, false) => Phase::Calm,
        (true, high10, holds) => match (high10?, holds) {
            (true, _) => Phase::Contended,
            (false, true) => Phase::Easing,
            (false, false) => Phase::High,
        },
    })
}

/// Applies a measurement.
fn measured(held: &mut Held, wanted: Phase, settings: &Conditions, at: Moment) -> Phase {
    let holds = held.status == Status::True;
    let (phase, status) = match (wanted, holds) {
        (Phase::Contended, false) if held.turning_for(at.boot) < settings.raise_after => {
            (Phase::High, Status::False)
        }
        (Phase::Cleared, true) if held.turning_for(at.boot) < settings.clear_after => {
            (Phase::Easing, Status::True)
        }
        (Phase::Contended | Phase::Easing, _) => {
            held.turning = None;
            (wanted, Status::True)
        }
        _ => {
            held.turning = None;
            (wanted, Status::False)
        }
    };
    if status != held.status {
        (held.status, held.since) = (status, at);
    }
    (held.judged, held.phase) = (Some(at), phase);
    phase
}

/// Keeps the last status; [`Held::expire`] ends it. Never sets a condition to True.
fn unmeasured(held: &mut Held) -> Phase {
    held.turning = None;
    Phase::Unknown
}

#[cfg(test)]
mod tests;
