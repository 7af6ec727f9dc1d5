//! What a client asks of the history: `begin`, `end`, `step` and `series`, or why it cannot have it.

use jiff::tz::TimeZone;

use super::rings::{COARSE, Grid, REACH, SECONDS};
use super::series::{Series, named};
use crate::clock::written::{LENGTH, MOMENT, When, length};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// Points of a series in one answer.
pub(super) const POINTS: u64 = 3_600;

/// From when to when, on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
}

/// The values of these parameters.
///
/// # Errors
/// If there is any other.
pub(in crate::serve) fn only<const N: usize>(
    pairs: &[(String, String)],
    names: [&str; N],
) -> Result<[Option<String>; N], String> {
    if let Some((other, _)) = pairs.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return Err(format!("there is no parameter {other:?}, only {}", names.join(", ")));
    }
    let value = |of: &str| Some(pairs.iter().find(|(name, _)| name == of)?.1.clone());
    Ok(names.map(value))
}

impl Stretch {
    /// The last `usual` seconds, unless another stretch is asked for.
    pub(super) fn parse(
        begin: Option<&str>,
        end: Option<&str>,
        usual: u64,
        now: Moment,
    ) -> Result<Self, String> {
        let ago = |name, text: Option<&str>| text.map(|text| ago(name, text, now)).transpose();
        let end = ago("end", end)?.unwrap_or_default();
        let usual = end.plus(Nanos(usual * Nanos::SECOND.0));
        let begin = ago("begin", begin)?.unwrap_or(usual);
        if begin <= end {
            return Err("begin must be before end, and before now".into());
        }
        if begin > Nanos(REACH * Nanos::SECOND.0) {
            return Err(format!("begin is too long ago: history goes back {} h", REACH / SECONDS));
        }
        let (begin, end) = (now.boot.since(begin), now.boot.since(end));
        Ok(Self { begin, end })
    }

    /// Its points, where `newest` is the end of what is kept.
    pub(super) fn points(self, step: Option<&str>, newest: Nanos) -> Result<Grid, String> {
        let (begin, end) = (self.begin.0 / Nanos::SECOND.0, self.end.0.div_ceil(Nanos::SECOND.0));
        let oldest = newest.0.div_ceil(Nanos::SECOND.0).saturating_sub(SECONDS);
        let is_fine = begin >= oldest;
        let finest = if is_fine { 1 } else { COARSE };
        let fits = (end - begin).div_ceil(POINTS).max(1).next_multiple_of(finest);
        let step = step.map(|text| whole_seconds("step", text)).transpose()?;
        let step = step.unwrap_or(fits);
        if step == 0 || step % finest != 0 || step > REACH {
            return Err(format!(
                "step must be a multiple of {finest} s, and {} h at most; points of 1 s go back \
                 {SECONDS} s, those of {COARSE} s {} h",
                REACH / SECONDS,
                REACH / SECONDS
            ));
        }
        if (end - begin).div_ceil(step) > POINTS {
            return Err(format!(
                "these are more than {POINTS} points a series; a step of {fits} s has fewer"
            ));
        }
        // What ten seconds were up to a moment in them is not kept: of the past they are left out.
        let until = match (is_fine, newest > self.end) {
            (true, _) => end,
            (false, true) => end - end % COARSE,
            (false, false) => end.next_multiple_of(COARSE),
        };
        let begin = begin - begin % step;
        Ok(Grid { begin, end: until.next_multiple_of(step), until, step, is_fine })
    }
}

/// The series that are asked for, by their places in a row.
pub(super) fn wanted(of: &[Series], list: &str) -> Result<Vec<usize>, String> {
    let mut all = Vec::new();
    for name in list.split(',') {
        let found = named(of, name);
        if found.is_empty() {
            let names: Vec<_> = of.iter().map(|series| series.name.as_str()).collect();
            return Err(format!(
                "there is no series {name:?}; there are {}, and what stands before a dot in them \
                 names all that begin so",
                names.join(", ")
            ));
        }
        all.extend(found);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// How long ago that is; 0 for a time that is yet to come.
pub(in crate::serve) fn ago(name: &str, text: &str, now: Moment) -> Result<Nanos, String> {
    let when = When::parse(text, now, &TimeZone::system());
    let wrong = || format!("{name}: expected {MOMENT}, where + is %2B; found {text:?}");
    Ok(when.ok_or_else(wrong)?.ago(now))
}

/// Whole seconds.
fn whole_seconds(name: &str, text: &str) -> Result<u64, String> {
    let time = length(text).filter(|time| time.0.is_multiple_of(Nanos::SECOND.0));
    let wrong = || format!("{name}: expected {LENGTH}; found {text:?}");
    Ok(time.ok_or_else(wrong)?.0 / Nanos::SECOND.0)
}

#[cfg(test)]
mod tests;
