//! Lengths of time and moments as people write them: the one grammar of options and of the API. Keys
//! of the configuration are written as the kubelet's are, in Go's grammar.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, ToSpan as _};

use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// What [`length`] takes.
pub const LENGTH: &str =
    "a length of time such as 90s, 10m, 1h30m, \"2 minutes\" or 7d, or whole seconds";
/// What [`When::parse`] takes.
pub const MOMENT: &str = "now, a time ago such as -10m or \"10 min ago\", a time of day such as \
    02:40, a time in RFC 3339, or seconds since 1970";

/// A day is 24 hours.
pub fn length(text: &str) -> Option<Nanos> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(Nanos::SECOND.0).map(Nanos);
    }
    let time = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(time.as_nanos()).ok().map(Nanos)
}

/// A moment that somebody named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So long before the present.
    Ago(Nanos),
    /// At this time of the wall clock.
    Wall(Nanos),
}

impl When {
    /// A time of day is the last one, in this zone, that is not after `now`; a date and a time without
    /// an offset are of this zone, too.
    pub fn parse(text: &str, now: Moment, zone: &TimeZone) -> Option<Self> {
        let text = text.trim();
        if text == "now" {
            return Some(Self::Ago(Nanos(0)));
        }
        if let Some(ago) = text.strip_prefix('-').or_else(|| text.strip_suffix("ago")) {
            return length(ago).map(Self::Ago);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return length(text).map(Self::Wall);
        }
        let here = |at: DateTime| at.to_zoned(zone.clone()).ok().map(|at| at.timestamp());
        let at = match DateTimeParser::new().parse_timestamp(text) {
            Ok(at) => at,
            Err(_) => match text.parse::<DateTime>() {
                Ok(at) => here(at)?,
                Err(_) => {
                    let time: Time = text.parse().ok()?;
                    let of = |days| last(time, days, now, zone);
                    of(0).or_else(|| of(1))?
                }
            },
        };
        at.as_nanosecond().try_into().ok().map(|at| Self::Wall(Nanos(at)))
    }

    /// Whether [`When::parse`] takes it for yesterday's, because today's is yet to come.
    pub fn is_yesterdays(text: &str, now: Moment, zone: &TimeZone) -> bool {
        time_of_day(text).is_some_and(|time| last(time, 0, now, zone).is_none())
    }

    /// Whether it is a time of day that was today and comes again, because the clock was set back.
    pub fn comes_again(text: &str, now: Moment, zone: &TimeZone) -> bool {
        let both = time_of_day(text).and_then(|time| both(time, 0, now, zone));
        both.is_some_and(|both| both.iter().any(|at| at.as_nanosecond() > now.wall.0.into()))
            && !Self::is_yesterdays(text, now, zone)
    }

    /// The time of the wall clock.
    pub fn wall(self, now: Moment) -> Nanos {
        match self {
            Self::Ago(ago) => now.wall.since(ago),
            Self::Wall(wall) => wall,
        }
    }

    /// How long before the present; 0 for what is yet to come. The wall clock is taken as it goes now,
    /// also for times before it was set.
    pub fn ago(self, now: Moment) -> Nanos {
        match self {
            Self::Ago(ago) => ago,
            Self::Wall(wall) => now.wall.since(wall),
        }
    }
}

fn time_of_day(text: &str) -> Option<Time> {
    let text = text.trim();
    text.parse::<Time>().ok().filter(|_| text.parse::<DateTime>().is_err())
}

/// When it was this time of day, so many days before the day of `now`; `None` if that is yet to come.
fn last(time: Time, days: i64, now: Moment, zone: &TimeZone) -> Option<Timestamp> {
    both(time, days, now, zone)?.into_iter().find(|at| at.as_nanosecond() <= now.wall.0.into())
}

/// This time of day, so many days before the day of `now`, the later one first: where the clock is set
/// back, it comes twice.
fn both(time: Time, days: i64, now: Moment, zone: &TimeZone) -> Option<[Timestamp; 2]> {
    let present = Timestamp::from_nanosecond(now.wall.0.into()).ok()?;
    let day = present.to_zoned(zone.clone()).date().checked_sub(days.days()).ok()?;
    let at = zone.to_ambiguous_zoned(day.to_datetime(time));
    let (later, earlier) = (at.clone().later().ok()?, at.compatible().ok()?);
    Some([later.timestamp(), earlier.timestamp()])
}

#[cfg(test)]
mod tests;
