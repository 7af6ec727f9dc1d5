//! Between which bounds an average lies whose window began before the first measurement.
//! After a start nothing is known of the time before; a rule may then be certainly met, certainly
//! not, or undecided. PSI has seen its window, and counts every wait that a union counts.

use super::{Scope, Union};
use crate::model::average::unseen;
use crate::model::psi::{Line, Pressure};
use crate::model::units::{Percent, scale};

/// By how much the eBPF programs' union may exceed PSI: two clocks, and two readings.
const TOLERANCE: Percent = Percent(2_00);

/// An average is at least `low` and at most `high`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    pub low: Percent,
    pub high: Percent,
}

impl Bounds {
    /// An average that has seen its window.
    pub fn exact(average: Percent) -> Self {
        Self { low: average, high: average }
    }

    /// Whether the average is at or above `threshold`; `None` if both is possible.
    pub fn reach(self, threshold: Percent) -> Option<bool> {
        match (self.low >= threshold, self.high >= threshold) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }

    /// Of the time that was measured, `average`; `unseen` is the weight of the rest.
    fn of_part(average: Percent, unseen: Percent) -> Self {
        let seen = Percent::FULL.0.saturating_sub(unseen.0);
        let part = scale(average.0.into(), seen.into(), Percent::FULL.0.into());
        let low = Percent(u16::try_from(part).unwrap_or(u16::MAX));
        Self { low, high: low.plus(unseen) }
    }

    fn at_most(self, high: Percent) -> Self {
        Self { high: self.high.min(high).max(self.low), ..self }
    }
}

/// One measure over ten seconds and over a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Averaged {
    pub avg10: Bounds,
    pub avg60: Bounds,
}

impl From<Line> for Averaged {
    fn from(line: Line) -> Self {
        Self { avg10: Bounds::exact(line.avg10), avg60: Bounds::exact(line.avg60) }
    }
}

impl From<Union> for Averaged {
    fn from(union: Union) -> Self {
        let [ten, minute, _] = union.seen.map(unseen).unwrap_or_default();
        Self {
            avg10: Bounds::of_part(union.avg10, ten),
            avg60: Bounds::of_part(union.avg60, minute),
        }
    }
}

impl Averaged {
    /// Not above `times` as much as PSI's `some`.
    fn within(self, psi: Option<Pressure>, times: usize) -> Self {
        let Some(line) = psi.and_then(|file| file.some) else { return self };
        let limit = |average: Percent| {
            let all = u64::from(average.0).saturating_mul(times as u64);
            Percent(u16::try_from(all).unwrap_or(u16::MAX)).plus(TOLERANCE)
        };
        Self {
            avg10: self.avg10.at_most(limit(line.avg10)),
            avg60: self.avg60.at_most(limit(line.avg60)),
        }
    }
}

impl Scope {
    /// Contention is a part of PSI's `some` of the CPU, and a mean over CPUs like it.
    pub fn averaged_contention(&self) -> Option<Averaged> {
        Some(Averaged::from(self.contention?).within(self.pressure.cpu, 1))
    }

    /// Shortage is a part of the memory stalls that PSI counts, but a union where PSI has the mean
    /// over CPUs: up to as many times as much as there are CPUs, while these are about equally busy.
    pub fn averaged_shortage(&self) -> Option<Averaged> {
        let averaged = Averaged::from(self.shortage?);
        Some(match self.contention_per_cpu.len() {
            0 => averaged,
            n_cpus => averaged.within(self.pressure.memory, n_cpus),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::psi::Pressures;
    use crate::model::units::Nanos;

    #[test]
    fn averaged_knows_no_more_than_was_measured() {
        #[rustfmt::skip]
        let table = [
            // seconds seen, measured %, PSI avg60 %; bounds of avg10 and avg60
            (None,      97_00, 97_00, (97_00, 97_00), (97_00, 97_00)),
            (Some(0),   97_00, 97_00, (0,     99_00), (0,     99_00)), // no period is complete
            (Some(0),   0,     0,     (0,     2_00),  (0,     2_00)),  // PSI has seen the minute
            (Some(5),   97_00, 97_00, (31_97, 99_00), (6_25,  99_00)),
            (Some(60),  97_00, 97_00, (96_71, 97_00), (60_01, 98_14)),
            (Some(60),  0,     97_00, (0,     29),  (0,     38_13)), // throttled
            (Some(299), 50_00, 97_00, (50_00, 50_00), (49_66, 50_34)),
        ];
        for (seen, measured, raw, ten, minute) in table {
            let average = Percent(measured);
            let seen = seen.map(|seconds| Nanos(seconds * Nanos::SECOND.0));
            let union = Union { avg10: average, avg60: average, seen, ..Union::default() };
            let line = Line { avg10: Percent(raw), avg60: Percent(raw), ..Line::default() };
            let cpu = Some(Pressure { some: Some(line), full: None });
            let pressure = Pressures { cpu, ..Pressures::default() };
            let scope = Scope { contention: Some(union), pressure, ..Scope::default() };
            let got = scope.averaged_contention().unwrap();
            let bounds = |b: Bounds| (b.low.0, b.high.0);
            assert_eq!(
                (bounds(got.avg10), bounds(got.avg60)),
                (ten, minute),
                "{seen:?} {measured}"
            );
        }
    }

    #[test]
    fn shortage_may_exceed_psi_by_the_number_of_cpus() {
        let union = Union { avg60: Percent(0), seen: Some(Nanos(0)), ..Union::default() };
        let line = Line { avg60: Percent(5_00), ..Line::default() };
        let memory = Some(Pressure { some: Some(line), full: None });
        let pressure = Pressures { memory, ..Pressures::default() };
        let scope = Scope { shortage: Some(union), pressure, ..Scope::default() };
        let four = Scope { contention_per_cpu: vec![Percent(0); 4], ..scope.clone() };
        assert_eq!(four.averaged_shortage().unwrap().avg60.high, Percent(22_00));
        assert_eq!(scope.averaged_shortage().unwrap().avg60.high, Percent(100_00), "how many?");
    }
}
