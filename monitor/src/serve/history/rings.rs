//! One hour of seconds, and one day of ten seconds made from it. A slot is a second of the boot
//! clock and not a tick; one for which there is nothing is a gap.

use std::ops::Range;

use super::series::{Code, Keeps, Series};
use isobar_core::model::units::Nanos;

/// Slots of one second.
pub(super) const SECONDS: u64 = 3_600;
/// Slots of [`COARSE`] seconds.
const COARSE_SLOTS: u64 = 8_640;
pub(super) const COARSE: u64 = 10;
/// The longest time back, in seconds.
pub(super) const REACH: u64 = COARSE * COARSE_SLOTS;
/// Ticks come once a second; one that comes later than this has missed one.
const MISSED: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Rows that are allocated together.
const BLOCK: u64 = 60;

/// Rows of equal width by slot, of which the newest are kept.
#[derive(Debug)]
struct Ring {
    slots: u64,
    width: usize,
    /// Allocated as they are needed: the first day of an agent is to cost no more than it keeps.
    blocks: Vec<Box<[u16]>>,
    /// The slots that were first and last written to.
    span: Option<(u64, u64)>,
}

impl Ring {
    fn new(slots: u64, width: usize) -> Self {
        Self { slots, width, blocks: Vec::new(), span: None }
    }

    /// The block of a slot, and where its row is in it.
    fn place(&self, first: u64, slot: u64) -> (usize, Range<usize>) {
        let index = slot.saturating_sub(first) % self.slots;
        let part = |n: u64| usize::try_from(n).expect("below the number of slots");
        let at = part(index % BLOCK) * self.width;
        (part(index / BLOCK), at..at + self.width)
    }

    fn row(&self, slot: u64) -> Option<&[u16]> {
        let (first, last) = self.span?;
        let is_kept = slot >= first && slot <= last && last - slot < self.slots;
        let (block, row) = self.place(first, slot);
        self.blocks.get(block).filter(|_| is_kept)?.get(row)
    }

    /// The row of a slot, all unknown where nothing was written; `None` for one that is older than
    /// the last.
    fn row_mut(&mut self, slot: u64) -> Option<&mut [u16]> {
        let (first, last) = *self.span.get_or_insert((slot, slot));
        if slot < last {
            return None;
        }
        for passed in (last + 1).max(slot.saturating_sub(self.slots - 1))..=slot {
            let (block, row) = self.place(first, passed);
            if let Some(block) = self.blocks.get_mut(block) {
                block[row].fill(Code::UNKNOWN);
            }
        }
        self.span = Some((first, slot));
        let (block, row) = self.place(first, slot);
        let rows = usize::try_from(BLOCK).expect("it is small");
        while self.blocks.len() <= block {
            self.blocks.push(vec![Code::UNKNOWN; rows * self.width].into());
        }
        self.blocks[block].get_mut(row)
    }
}

/// Both rings.
#[derive(Debug)]
pub(super) struct Rings {
    /// Of what a row is.
    series: &'static [Series],
    fine: Ring,
    /// A row as in `fine`, and after it the peaks.
    coarse: Ring,
    /// Of each series, the place of its peak in a coarse row.
    peaks: Vec<Option<usize>>,
    /// How much of the newest second the ticks in it were about.
    weight: (u64, Nanos),
}

/// One value, and its peak where one is kept.
pub(super) type Point = (Option<Code>, Option<Code>);

impl Rings {
    pub(super) fn new(series: &'static [Series]) -> Self {
        let mut width = series.len();
        let place = |keeps| {
            let has_peak = keeps == Keeps::MeanAndPeak;
            width += usize::from(has_peak);
            has_peak.then(|| width - 1)
        };
        let peaks = series.iter().map(|series| series.keeps).map(place).collect();
        let (fine, coarse) = (Ring::new(SECONDS, series.len()), Ring::new(COARSE_SLOTS, width));
        Self { series, fine, coarse, peaks, weight: Default::default() }
    }

    /// The end of the last second for which there is something.
    pub(super) fn newest(&self) -> Nanos {
        let last = self.fine.span.map_or(0, |(_, last)| last + 1);
        Nanos(last.saturating_mul(Nanos::SECOND.0))
    }

    /// What both take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let blocks = self.fine.blocks.iter().chain(&self.coarse.blocks);
        blocks.map(|block| size_of_val(&**block)).sum()
    }

    /// Puts in what a tick at `at` measured. It stands for the seconds that have begun since the
    /// tick before it, unless one was missed between.
    pub(super) fn put(&mut self, at: Nanos, interval: Nanos, row: &[u16]) {
        let slot = at.0 / Nanos::SECOND.0;
        let before = at.since(interval).0 / Nanos::SECOND.0;
        let first = if interval <= MISSED { (before + 1).min(slot) } else { slot };
        for slot in first..=slot {
            self.second(slot, interval, row);
            self.thin(slot / COARSE);
        }
    }

    /// Of several ticks within a second, parts of time are weighed by what they are parts of; of
    /// everything else the worst counts.
    fn second(&mut self, slot: u64, interval: Nanos, new: &[u16]) {
        let own = interval.0.clamp(1, Nanos::SECOND.0);
        let had = if self.weight.0 == slot { self.weight.1.0 } else { 0 };
        let Some(row) = self.fine.row_mut(slot) else { return };
        for ((series, kept), new) in self.series.iter().zip(row).zip(new) {
            let (old, new) = (Code::read(*kept), Code::read(*new));
            let both = match (old, new, series.keeps) {
                (Some(old), Some(new), Keeps::Mean) => {
                    series.mean([(old, had), (new, own)].into_iter())
                }
                (Some(old), Some(new), Keeps::Min) => Some(old.min(new)),
                (Some(old), Some(new), _) => Some(old.max(new)),
                (old, new, _) => new.or(old),
            };
            *kept = Code::stored(both);
        }
        self.weight = (slot, Nanos(had.saturating_add(own)));
    }

    /// Makes a coarse slot anew from its seconds.
    fn thin(&mut self, slot: u64) {
        let Some(row) = self.coarse.row_mut(slot) else { return };
        let seconds = || (slot * COARSE..(slot + 1) * COARSE).filter_map(|at| self.fine.row(at));
        for (i, series) in self.series.iter().enumerate() {
            let values = || seconds().filter_map(|row| Code::read(row[i]));
            row[i] = Code::stored(one_of(series, values()));
            if let Some(peak) = self.peaks[i] {
                row[peak] = Code::stored(values().max());
            }
        }
    }

    /// The points of a series. A peak is given where the mean of a point may hide one.
    pub(super) fn read(&self, series: usize, range: Grid) -> impl Iterator<Item = Point> {
        let of = &self.series[series];
        let peak = self.peaks[series];
        range.points().map(move |from| {
            let seconds = from..range.until.min(from + range.step);
            if range.is_fine {
                let rows = || seconds.clone().filter_map(|slot| self.fine.row(slot));
                let values = || rows().filter_map(|row| Code::read(row[series]));
                return (one_of(of, values()), peak.and_then(|_| values().max()));
            }
            let slots = seconds.start / COARSE..seconds.end / COARSE;
            let rows = || slots.clone().filter_map(|slot| self.coarse.row(slot));
            let values = || rows().filter_map(|row| Code::read(row[series]));
            let peaks = |place| rows().filter_map(move |row: &[u16]| Code::read(row[place])).max();
            (one_of(of, values()), peak.and_then(peaks))
        })
    }
}

/// What is kept of several values; of none nothing.
fn one_of(series: &Series, values: impl Iterator<Item = Code>) -> Option<Code> {
    match series.keeps {
        Keeps::Max => values.max(),
        Keeps::Min => values.min(),
        Keeps::Mean | Keeps::MeanAndPeak => series.mean(values.map(|value| (value, 1))),
    }
}

/// Points in whole seconds of the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// The first second; a multiple of the step.
    pub(super) begin: u64,
    /// The last second is before this.
    pub(super) end: u64,
    /// Nothing of this second or a later one is told, also where a point goes on.
    pub(super) until: u64,
    pub(super) step: u64,
    /// Made of seconds, not of ten seconds each.
    pub(super) is_fine: bool,
}

impl Grid {
    /// The first seconds of its points.
    fn points(self) -> impl Iterator<Item = u64> {
        (self.begin..self.end).step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests;
