//! An incident as one paragraph: when, what held, who waited because of whom, what isobar did, and
//! what came of it.

use std::cmp::Reverse;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::watch::CALM;
use super::{Deed, Held, Incident, Kind, LeftOut, Score, Stall, Trigger, Wait};
use isobar_core::model::duration::GoDuration;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::view::waiting::with_process;

/// Deeds, kills, conditions and gaps that a paragraph tells; more are counted.
const TOLD: usize = 4;

/// All that is known, as sentences.
pub fn paragraph(incident: &Incident) -> String {
    let mut all = vec![opening(incident)];
    if incident.ticks == 0 {
        all.push(ending(incident));
        return all.join(" ");
    }
    all.extend(incident.taken.iter().map(|taken| format!("Of memory {taken}.")));
    all.extend(incident.moved.iter().map(|moved| format!("While tasks waited for IO: {moved}")));
    all.extend(incident.conditions.iter().take(TOLD).map(|one| held(one, incident)));
    all.extend(more(incident.conditions.len(), "spans of conditions"));
    // The first trigger is told in the opening.
    let drifts = || incident.triggers.iter().skip(1).filter(|one| one.kind == Kind::Drift);
    let drift = |one: &Trigger| format!("At {}, {}.", hour(one.at.wall), one.text);
    all.extend(drifts().take(TOLD).map(drift));
    all.extend(more(drifts().count(), "changes of limits"));
    all.extend(incident.is_about_cpu.then(|| waits(incident)).flatten());
    all.extend(incident.is_about_memory.then(|| stalls(incident)).flatten());
    let told = gravest(&incident.kills, TOLD);
    let add = |n: u64, kill: &Score| n.saturating_add(kill.processes());
    let unlisted = incident.more_kills.map_or(0, |more| more.own.saturating_add(more.others));
    let all_kills = incident.kills.iter().fold(unlisted, add);
    let untold = all_kills.saturating_sub(told.iter().copied().fold(0, add));
    all.extend(told.into_iter().map(killed));
    all.extend((untold > 0).then(|| format!("More OOM kills are in the record: {untold}.")));
    let has_step = incident.deeds.iter().any(|deed| deed.is_step);
    let was_step = incident.kinds.iter().any(|kind| matches!(kind, Kind::Kill | Kind::Action));
    // Why it did nothing about a kill stands beside the kill.
    match has_step || incident.kills.is_empty() {
        _ if was_step && !has_step => {
            all.push("isobar decided on a step, and the ticks that have it are lost.".into());
        }
        // What it did about a limit stands beside that.
        _ if incident.kinds == [Kind::Drift] => {}
        true => all.extend(deeds(&incident.deeds)),
        false => all.push("isobar took no step.".into()),
    }
    let reload = |at: &Moment| format!("The configuration was reloaded at {}.", hour(at.wall));
    all.extend(incident.reloads.iter().take(TOLD).map(reload));
    all.extend(more(incident.reloads.len(), "reloads"));
    all.extend(incident.left_out.iter().take(TOLD).map(left_out));
    all.extend(more(incident.left_out.len(), "such gaps"));
    all.push(ending(incident));
    all.join(" ")
}

fn opening(incident: &Incident) -> String {
    let first = incident.triggers.first().map_or("something happened", |first| &first.text);
    let node = if incident.node.is_empty() { "this node" } else { &incident.node };
    format!("On {node} at {}, {first}.", clock(incident.begin.wall))
}

fn held(held: &Held, incident: &Incident) -> String {
    let Held { name, figure, from, to, peak } = held;
    let peak = peak.map(|peak| format!("; {figure} reached {peak} % over a minute"));
    let peak = peak.unwrap_or_default();
    let (before, or_more) =
        if held.is_older(incident.from) { ("before ", " or more") } else { ("", "") };
    let day = |wall| printed(wall, "%Y-%m-%d");
    let since = match day(from.wall) == day(incident.begin.wall) {
        true => hour(from.wall),
        false => clock(from.wall),
    };
    match to {
        Some(to) => {
            let (lasted, to) = (time(to.boot.since(from.boot)), hour(to.wall));
            format!("{name} was True from {before}{since} to {to} ({lasted}{or_more}){peak}.")
        }
        None => format!("{name} has been True since {before}{since}{peak}."),
    }
}

/// How long waits were counted.
fn waited(incident: &Incident) -> Nanos {
    let Incident { from, to, waits_from, paused, .. } = incident;
    to.boot.since(waits_from.unwrap_or(*from).boot).since(*paused)
}

fn waits(incident: &Incident) -> Option<String> {
    let all = by_aggressor(incident.waits.iter());
    let (_, worst) = all.first()?;
    let aggressor = who_ran(worst);
    let span = time(waited(incident));
    let next = all.get(1).map_or_else(String::new, |(_, waits)| {
        format!("; while {} ran, {}", who_ran(waits), who_waited(waits))
    });
    Some(format!(
        "Most was lost by waiting for a CPU while {aggressor} ran: {}{next} (summed over tasks, within \
         {span}).",
        who_waited(worst)
    ))
}

/// Who waited for a hundredth of the time or more.
fn stalls(incident: &Incident) -> Option<String> {
    let span = waited(incident);
    let worst = incident.stalls.iter().filter(|stall| stall.time >= Nanos(span.0 / 100));
    let told =
        worst.map(|Stall { sufferer, time: waited }| format!("{sufferer} {}", time(*waited)));
    let told: Vec<_> = told.take(TOLD).collect();
    let all = (!told.is_empty()).then(|| told.join(", "))?;
    Some(format!("For memory waited: {all} (summed over tasks, within {}).", time(span)))
}

/// Each aggressor with the waits that it caused, the greatest loss first.
pub fn by_aggressor<'a>(waits: impl Iterator<Item = &'a Wait>) -> Vec<(&'a str, Vec<&'a Wait>)> {
    let mut all: Vec<(&str, Vec<&Wait>)> = Vec::new();
    for wait in waits {
        match all.iter_mut().find(|(aggressor, _)| *aggressor == wait.aggressor) {
            Some((_, own)) => own.push(wait),
            None => all.push((&wait.aggressor, vec![wait])),
        }
    }
    let loss = |waits: &[&Wait]| waits.iter().fold(Nanos(0), |sum, wait| sum.plus(wait.loss));
    all.sort_by_key(|(_, waits)| Reverse(loss(waits)));
    all
}

/// The aggressor of waits that are all its own, with its busiest process.
pub fn who_ran(waits: &[&Wait]) -> String {
    let Some(Wait { aggressor, process, .. }) = waits.first() else { return String::new() };
    process.as_ref().map_or_else(|| aggressor.clone(), |process| with_process(aggressor, process))
}

/// `tasks of a waited 3s, of b 2s`: the longest first, whatever was lost by it.
pub fn who_waited(waits: &[&Wait]) -> String {
    let mut waits = waits.to_vec();
    waits.sort_by_key(|wait| Reverse(wait.time));
    let told = waits.iter().enumerate().map(|(n, Wait { sufferer, time: waited, .. })| match n {
        0 => format!("tasks of {sufferer} waited {}", time(*waited)),
        _ => format!("of {sufferer} {}", time(*waited)),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// So many of them in their order, those for want of the node's memory before the others.
pub fn gravest(kills: &[Score], n: usize) -> Vec<&Score> {
    let mut all: Vec<_> = kills.iter().enumerate().collect();
    all.sort_by_key(|(_, kill)| kill.limit.is_some());
    all.truncate(n);
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, kill)| kill).collect()
}

fn killed(score: &Score) -> String {
    let Score { at, victim, limit, used, request, foreseen, why, .. } = score;
    let process = score.process();
    let below = used.zip(*request).filter(|(used, request)| used < request);
    let below = below.map_or(String::new(), |(used, request)| {
        format!(", which at the tick before used {used} of the {request} that it requests")
    });
    let at = hour(at.wall);
    let kill = format!("At {at} the kernel's OOM killer killed {process} of {victim}{below}");
    if limit.is_some() {
        let seen = foreseen.map(|before| format!("; a shortage was foreseen for {}", time(before)));
        return format!("{kill}: {why}{}.", seen.unwrap_or_default());
    }
    let foreseen = match foreseen {
        Some(before) => format!("isobar had foreseen it for {}", time(*before)),
        None => "isobar had not foreseen it".into(),
    };
    format!("{kill}; {foreseen}; why isobar did not prevent it: {why}.")
}

/// Each step with the last that is known of it; without a step, why there was none.
fn deeds(deeds: &[Deed]) -> Vec<String> {
    let steps: Vec<_> = deeds.iter().filter(|deed| deed.is_step).collect();
    if steps.is_empty() {
        // What is about a step is of one that was decided before the span.
        let hold = deeds.iter().find(|deed| deed.action == 0);
        let why = hold.map(|deed| format!(": {}", deed.text)).unwrap_or_default();
        return vec![format!("isobar took no step{why}.")];
    }
    let tell = |step: &&Deed| {
        let only = if step.is_enforced { "" } else { " (only observed)" };
        let last = outcome(step, deeds).map(|deed| format!("; {}", deed.text)).unwrap_or_default();
        format!("At {} isobar: {}{only}{last}.", hour(step.at.wall), step.text)
    };
    steps.iter().take(TOLD).map(tell).chain(more(steps.len(), "steps")).collect()
}

/// The last that came of a step before the next one was taken: what comes later is the other's, too.
/// Nothing comes of a step that was not taken.
pub fn outcome<'a>(step: &Deed, deeds: &'a [Deed]) -> Option<&'a Deed> {
    if !step.is_enforced {
        return None;
    }
    let is_later = |deed: &&Deed| deed.is_step && deed.at.boot > step.at.boot;
    let next = deeds.iter().find(is_later).map(|deed| deed.at.boot);
    let mut of_it = deeds.iter().filter(|deed| deed.action == step.action && !deed.is_step);
    let first = of_it.next()?;
    Some(
        of_it
            .take_while(|deed| next.is_none_or(|next| deed.at.boot <= next))
            .last()
            .unwrap_or(first),
    )
}

fn more(n: usize, what: &str) -> Option<String> {
    (n > TOLD).then(|| format!("More {what} are in the record: {}.", n - TOLD))
}

fn left_out(LeftOut { from, to }: &LeftOut) -> String {
    format!("Its file has no ticks from {} to {}.", hour(from.wall), hour(to.wall))
}

/// Whether it is over, and after how long.
pub fn ending(incident: &Incident) -> String {
    match incident.end {
        // An agent that goes on with it has written none of its ticks yet.
        None if incident.ticks == 0 || incident.to.boot < incident.begin.boot => {
            "It is not over in this record.".into()
        }
        None => {
            let calm = time(CALM);
            format!("The record ends at {}, before it was calm for {calm}.", hour(incident.to.wall))
        }
        // A condition may outlast it: the kubelet's hold for its transition period, others for days.
        Some(end) if incident.is_cut => {
            format!("The record ends at {}, and it was not over.", hour(end.wall))
        }
        Some(end) => {
            let lasted = time(end.boot.since(incident.begin.boot));
            format!("It was calm again at {}, after {lasted}.", hour(end.wall))
        }
    }
}

/// Whole seconds, as Go writes durations; less in milliseconds.
pub fn time(time: Nanos) -> String {
    let unit = if time < Nanos::SECOND { Nanos::SECOND.0 / 1_000 } else { Nanos::SECOND.0 };
    GoDuration::from(Nanos(time.0 / unit * unit)).to_string()
}

/// A moment of the wall clock in UTC, as in `2026-11-22 02:40:03Z`.
pub fn clock(wall: Nanos) -> String {
    printed(wall, "%Y-%m-%d %H:%M:%SZ")
}

/// The same without the day, which the beginning of a paragraph names.
fn hour(wall: Nanos) -> String {
    printed(wall, "%H:%M:%SZ")
}

/// The same in RFC 3339, with milliseconds.
pub fn precise(wall: Nanos) -> String {
    printed(wall, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

/// The same for a file name.
pub fn compact(wall: Nanos) -> String {
    printed(wall, "%Y%m%dT%H%M%SZ")
}

/// A clock after the year 9999 prints as its nanoseconds.
fn printed(wall: Nanos, form: &str) -> String {
    let at = Timestamp::from_nanosecond(wall.0.into()).ok();
    at.map_or_else(
        || wall.0.to_string(),
        |at| at.to_zoned(TimeZone::UTC).strftime(form).to_string(),
    )
}

#[cfg(test)]
mod tests;
