//! Reads a pressure file: of the node (`/proc/pressure/*`) or of a cgroup (`*.pressure`).
//! In: its text. Out: the integers that it prints.
//! Source: `psi_show`, kernel/sched/psi.c, Linux 4.20+; cpu `full` since 5.13, irq since 6.1.

use super::lines::{Torn, key_value, lines, number, words};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::units::{Micros, Nanos, Percent};

/// The content of a pressure file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) pressure: Pressure,
    /// The first line with a word that this version does not know.
    pub(crate) unknown: Option<usize>,
}

/// The time at which a scope's pressure files were last read.
///
/// Each read makes the kernel add up its per-CPU times (`collect_percpu_times`): a CPU that was
/// busy for less than a jiffy since the last read counts as idle, and its stall is lost for every
/// reader. Measured: 8.4 % when read once a second is 0.000 % when read a hundred times a second.
#[derive(Debug, Default)]
pub(crate) struct LastRead(Option<Nanos>);

impl LastRead {
    /// Less than a second, so that a tick that comes a little early still reads.
    const SPACING: Nanos = Nanos(900_000_000);

    /// `None` before the first.
    pub(crate) fn at(&self) -> Option<Nanos> {
        self.0
    }

    /// Whether the files may be read `now`; if so, `now` becomes the time of the last read.
    pub(crate) fn may_read(&mut self, now: Nanos) -> bool {
        let due = self.0.is_none_or(|last| now.since(last) >= Self::SPACING);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

/// Parses a pressure file. Unknown lines and keys are skipped and noted; a known line without one
/// of its four numbers is torn, and so is a file without a known line.
pub(crate) fn parse(text: &[u8]) -> Result<Parsed, Torn> {
    let mut parsed = Parsed::default();
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let mut words = words(line);
        let slot = match words.next() {
            Some(b"some") => &mut parsed.pressure.some,
            Some(b"full") => &mut parsed.pressure.full,
            _ => {
                parsed.unknown.get_or_insert(n);
                continue;
            }
        };
        let (averages, all_known) = averages(words).ok_or_else(|| {
            Torn::new(n, "`some|full avg10=.. avg60=.. avg300=.. total=..`", line)
        })?;
        if slot.replace(averages).is_some() {
            return Err(Torn::new(n, "each line once", line));
        }
        if !all_known {
            parsed.unknown.get_or_insert(n);
        }
    }
    match parsed.pressure {
        Pressure { some: None, full: None } => Err(Torn::new(1, "a line `some` or `full`", text)),
        _ => Ok(parsed),
    }
}

/// The four numbers of a line, and whether it holds nothing else. `None` if a number is missing,
/// malformed or repeated.
fn averages<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<(Line, bool)> {
    let (mut avg10, mut avg60, mut avg300, mut total) = (None, None, None, None);
    let mut all_known = true;
    for word in words {
        let again = match key_value(word) {
            Some((b"avg10", value)) => avg10.replace(percent(value)?).is_some(),
            Some((b"avg60", value)) => avg60.replace(percent(value)?).is_some(),
            Some((b"avg300", value)) => avg300.replace(percent(value)?).is_some(),
            Some((b"total", value)) => total.replace(Micros(number(value)?)).is_some(),
            _ => {
                all_known = false;
                false
            }
        };
        if again {
            return None;
        }
    }
    Some((Line { avg10: avg10?, avg60: avg60?, avg300: avg300?, total: total? }, all_known))
}

/// `12.34` as hundredths. The kernel always prints two decimals.
fn percent(text: &[u8]) -> Option<Percent> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (whole, decimals) = (&text[..point], &text[point + 1..]);
    if decimals.len() != 2 {
        return None;
    }
    let hundredths = number(whole)?.checked_mul(100)?.checked_add(number(decimals)?)?;
    u16::try_from(hundredths).ok().map(Percent)
}

#[cfg(test)]
mod tests;
