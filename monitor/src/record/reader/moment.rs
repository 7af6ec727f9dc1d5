//! Opens a recording at a moment: at the header of its chapter, or at the mark before it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::passed::Passed;
use super::{Entry, ReadError, Recording, is_regular, segments_of};
use crate::record::index::{self, Place};
use crate::record::lines::{Lines, Piece};
use crate::record::segments::Ring;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::snapshot::Averages;
use isobar_core::model::stall::OomRecord;
use isobar_core::model::units::Nanos;
use isobar_core::recording::mark::Mark;
use isobar_core::room;
use isobar_core::view::pods::name_of;

/// Chapters without a tick of the moment that are passed over: each start of an agent that ends at
/// once leaves one.
const CHAPTERS: usize = 1_000;

/// How far a tick is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    NextChapter,
}

/// What is known at a mark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marked {
    /// The first tick of the chapter.
    pub begun: Moment,
    /// Within the chapter, newest first.
    pub oom_kills: Vec<OomRecord>,
    /// The sample of the tick before.
    pub before: Sample,
    pub averages: Averages,
}

impl Recording {
    /// Reads on from the chapter that holds the moment `wall`, or from the first one after it.
    pub fn open_at(path: &Path, wall: Nanos) -> Result<Self, ReadError> {
        Self::of_segments_at(path, &indexed(path)?, wall)
    }

    /// The same for these segments of the recording `path`, oldest first.
    pub fn of_segments_at(
        path: &Path,
        segments: &[PathBuf],
        wall: Nanos,
    ) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io { path: path.into(), source };
        let (mut later, mut damage): (Option<Place>, _) = (None, None);
        for _ in 0..CHAPTERS {
            let place = index::find(segments, wall, later.as_ref()).map_err(io)?;
            let is_first = (place.segment, place.chapter) == (0, 0);
            let opened = Self::from_place(path, segments, &place, wall);
            let lost = match &opened {
                Ok(recording) => recording.lost().cloned(),
                Err(why @ (ReadError::Unreadable(_) | ReadError::NotARecording(_))) => {
                    Some(why.to_string())
                }
                Err(_) => None,
            };
            if lost.is_some() && !is_first {
                (damage, later) = (lost, Some(place));
                continue;
            }
            let mut recording = opened?;
            // What follows the next chapter was looked at before.
            let until = if later.is_some() { Until::NextChapter } else { Until::End };
            match recording.without_ticks(wall, until)? {
                Some(at) if at.wall < wall && !is_first => later = Some(place),
                _ => {
                    let told = damage.map(|why| format!("{why}; reading from the chapter before"));
                    told.into_iter()
                        .for_each(|told| recording.waiting.push_front(Entry::Notice(told)));
                    return Ok(recording);
                }
            }
        }
        let why = format!("{CHAPTERS} chapters before this moment are without a tick of it");
        Err(ReadError::Unreadable(why))
    }

    /// The same up to the moment `end`, and no more than 15 ticks beyond the last that is no later.
    /// Ticks of other times may stand between, where the wall clock was set.
    pub fn open_between(path: &Path, wall: Nanos, end: Nanos) -> Result<Self, ReadError> {
        Self::of_segments_between(path, &indexed(path)?, wall, end)
    }

    /// The same for these segments of the recording `path`, oldest first.
    pub fn of_segments_between(
        path: &Path,
        segments: &[PathBuf],
        wall: Nanos,
        end: Nanos,
    ) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io { path: path.into(), source };
        let place = index::find(segments, end, None).map_err(io)?;
        let begun =
            |file: &File| index::Heads::new()?.moment_at(file, place.mark.unwrap_or(place.chapter));
        let last = place.file.as_deref().map(begun).transpose().map_err(io)?.flatten();
        let last = last.map(|last| match place.until == last.boot {
            true => last,
            // The clock was set after it.
            false => Moment { boot: place.until, wall: end },
        });
        let Some(last) = last.filter(|_| end < index::END && place.is_last) else {
            // Where the clock was set, the end may have been recorded before the begin.
            let begin = index::find(segments, wall, None).map_err(io)?;
            let is_first = (place.segment, place.chapter) < (begin.segment, begin.chapter);
            return Self::of_segments_at(path, segments, if is_first { end } else { wall });
        };
        let mut recording = Self::of_segments_at(path, &segments[..=place.segment], wall)?;
        recording.bound = Some(last);
        Ok(recording)
    }

    /// The same of segments that are written meanwhile. Those in memory last as long as the second
    /// part is held.
    pub fn open_ring(ring: &Ring, wall: Nanos) -> Result<(Self, Vec<File>), ReadError> {
        if let Ring::Files(path) = ring {
            return Ok((Self::open_at(path, wall)?, Vec::new()));
        }
        let path = Path::new("the recording in memory");
        let io = |source| ReadError::Io { path: path.into(), source };
        let (segments, held) = ring.segments().map_err(io)?;
        Ok((Self::of_segments_at(path, &segments, wall)?, held))
    }

    /// Reads on from the last mark before the moment `wall`, if its chapter has one: from where a
    /// moment is shown, but nothing can be replayed. The first entry is the header of the chapter.
    pub fn open_near(path: &Path, wall: Nanos) -> Result<(Self, Option<Marked>), ReadError> {
        let io = |source| ReadError::Io { path: path.into(), source };
        let segments = indexed(path)?;
        let place = index::find(&segments, wall, None).map_err(io)?;
        if let Some(byte) = place.mark
            && let Ok(mut recording) = Self::from_place(path, &segments, &place, wall)
            && recording.lost().is_none()
            && let Ok(Some(marked)) = recording.skip_to(byte)
        {
            return Ok((recording, Some(marked)));
        }
        // From the header it is a longer way to the same.
        Ok((Self::of_segments_at(path, &segments, wall)?, None))
    }

    fn from_place(
        path: &Path,
        segments: &[PathBuf],
        place: &Place,
        wall: Nanos,
    ) -> Result<Self, ReadError> {
        let from = segments.iter().skip(place.segment).cloned().collect();
        let mut recording = Self::unread(path, from);
        if let Some(file) = &place.file
            && let Some(first) = recording.segments.pop_front()
        {
            let io = |source| ReadError::Io { path: first.clone(), source };
            let lines = Lines::at(Arc::clone(file), place.chapter).map_err(io)?;
            recording.lines = lines.map(|lines| (first, lines));
        }
        if recording.lines.is_none() && !recording.next_segment()? {
            return Err(ReadError::Empty(path.into()));
        }
        recording.find_first()?;
        recording.sought.until = place.until;
        recording.sought.wall = if wall < index::END { wall } else { Nanos(0) };
        Ok(recording)
    }

    /// Why what stands before the first header that was found is lost.
    fn lost(&self) -> Option<&String> {
        self.waiting.iter().find_map(|entry| match entry {
            Entry::Lost(why) => Some(why),
            _ => None,
        })
    }

    /// The moment of the header if no tick up to `wall` follows it: a header is written before its
    /// first tick, and has the moment of the tick before, which is in the chapter before.
    fn without_ticks(&mut self, wall: Nanos, until: Until) -> Result<Option<Moment>, ReadError> {
        let mut passed = Passed::default();
        std::mem::take(&mut self.waiting).into_iter().for_each(|entry| passed.push(entry));
        let header = passed.0.iter().find_map(|entry| match entry {
            Entry::Header(header) => Some(header.at),
            _ => None,
        });
        while let Some(entry) = self.read()? {
            let is_later = match &entry {
                Entry::Frame(recorded) => Some(recorded.is_later(wall)),
                Entry::Header(_) if until == Until::NextChapter => Some(true),
                _ => None,
            };
            passed.push(entry);
            if let Some(is_later) = is_later {
                self.wait_for(passed);
                return Ok(header.filter(|_| is_later));
            }
        }
        self.wait_for(passed);
        Ok(header)
    }

    /// Goes from a header that has just been read to the mark at this byte of its segment; `None` if
    /// the two do not fit.
    fn skip_to(&mut self, byte: u64) -> io::Result<Option<Marked>> {
        let Some((path, lines)) = self.lines.take() else { return Ok(None) };
        let Some(mut lines) = Lines::at(Arc::clone(lines.file()), byte)? else { return Ok(None) };
        let Some(Piece::Line(line)) = lines.next()? else { return Ok(None) };
        self.lines = Some((path, lines));
        let header = self.waiting.iter().find_map(|entry| match entry {
            Entry::Header(header) => Some(header.standing.averages.of_scopes(None)),
            _ => None,
        });
        let Some((header, state)) = header.zip(self.state.as_mut()) else { return Ok(None) };
        let Ok(mark) = room::from_slice::<Mark>(&line) else { return Ok(None) };
        let (begun, mut oom_kills) = (mark.begun, mark.oom_kills.clone());
        let Ok(averages) = mark.apply(state, header) else { return Ok(None) };
        let Ok(before) = state.sample() else { return Ok(None) };
        // Another version may have called a container otherwise.
        for OomRecord { victim, victim_path, .. } in &mut oom_kills {
            let name = victim_path.as_ref().and_then(|path| name_of(path, &before));
            *victim = name.or(victim.take());
        }
        self.last = Some(before.at);
        Ok(Some(Marked { begun, oom_kills, before, averages }))
    }
}

/// The segments, which are read at any place.
fn indexed(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    is_regular(path)?;
    segments_of(path).map_err(|source| ReadError::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::journal::{Bounds, Journal, Start};
    use crate::record::thin::thin;
    use isobar_core::model::settings::Settings;
    use isobar_core::policy::engine::Engine;

    fn at(tick: u64) -> Moment {
        let wall = Nanos(tick * Nanos::SECOND.0);
        Moment { boot: wall, wall }
    }

    /// A segment with these ticks, of which one begins a chapter.
    fn record(path: &Path, ticks: std::ops::RangeInclusive<u64>, chapter: u64) {
        let mut engine = Engine::default();
        let mut journal = Journal::create(path, Start::default(), Bounds::default()).unwrap();
        for tick in ticks {
            if tick == chapter {
                journal.reload(Settings::default(), engine.standing(), at(tick - 1)).unwrap();
            }
            let sample = Sample { tick, at: at(tick), ..Sample::default() };
            let decision = engine.step(sample.clone()).decision;
            journal.write(&sample, &decision, engine.standing()).unwrap();
        }
    }

    fn ticks(recording: Recording) -> Vec<u64> {
        let tick = |entry| match entry {
            Ok(Entry::Frame(recorded)) => Some(recorded.sample.tick),
            Err(why) => panic!("{why}"),
            _ => None,
        };
        recording.filter_map(tick).collect()
    }

    #[test]
    fn from_place_reads_a_segment_that_was_thinned_since_it_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, thinner) = (dir.path().join("r"), dir.path().join("thinner"));
        record(&path, 1..=60, 36);
        let segments = [path.clone()];
        let place = index::find(&segments, at(58).wall, None).unwrap();
        thin(&mut File::open(&path).unwrap(), &mut File::create(&thinner).unwrap()).unwrap();
        fs::rename(thinner, &path).unwrap();
        let open = || Recording::from_place(&path, &segments, &place, index::END).unwrap();
        assert_eq!(ticks(open()), (36..=60).collect::<Vec<_>>());
        let mut near = open();
        let marked = near.skip_to(place.mark.unwrap()).unwrap().unwrap();
        assert_eq!((marked.before.tick, ticks(near)), (50, (51..=60).collect()));
    }

    #[test]
    fn open_between_reads_past_a_clock_that_was_wrong_and_not_to_the_end() {
        let hour = Nanos(3_600 * Nanos::SECOND.0);
        #[rustfmt::skip]
        let table = [
            // ticks that an hour was added to, the range, the first and the last tick that are read
            (0..0,     [40, 50],   16, 60), // to the next mark
            (20..21,   [10, 50],   1,  51), // a mark follows the tick after it
            (15..16,   [10, 50],   1,  61), // a chapter begins with it
            (300..301, [290, 310], 16, 315), // a mark begins with it
            (290..305, [280, 310], 16, 315),
            (20..200,  [10, 230],  1,  230),
        ];
        for (wrong, [begin, end], first, last) in table {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("r");
            let mut engine = Engine::default();
            let mut journal = Journal::create(&path, Start::default(), Bounds::default()).unwrap();
            for tick in 1..=400 {
                let Moment { boot, mut wall } = at(tick);
                if wrong.contains(&tick) {
                    wall = wall.plus(hour);
                }
                let sample = Sample { tick, at: Moment { boot, wall }, ..Sample::default() };
                let decision = engine.step(sample.clone()).decision;
                journal.write(&sample, &decision, engine.standing()).unwrap();
            }
            let read = Recording::open_between(&path, at(begin).wall, at(end).wall).unwrap();
            let read = ticks(read);
            let got = (read.first().copied(), read.last().copied());
            assert_eq!(got, (Some(first), Some(last)), "{wrong:?} {begin}..{end}");
        }
    }

    #[test]
    fn a_chapter_whose_header_is_damaged_is_read_from_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        record(&path, 1..=600, 400);
        let whole = fs::read(&path).unwrap();
        let segments = [path.clone()];
        let find = |wall| index::find(&segments, wall, None).unwrap();
        let chapter_of = |wall| find(at(wall).wall).chapter;
        let (chapter, last) = (chapter_of(399), chapter_of(600));
        // It is found by its first bytes, and cannot be read.
        let is_lost = |bytes: &[u8], chapter, wall| {
            fs::write(&path, bytes).unwrap();
            let place = find(at(wall).wall);
            let is_lost = match Recording::from_place(&path, &segments, &place, index::END) {
                Ok(recording) => recording.lost().is_some(),
                Err(_) => true,
            };
            place.chapter == chapter && is_lost
        };
        let torn = || (1..2_000).map(|n| whole[..last as usize + n].to_vec());
        let damaged = |chapter: u64| {
            let whole = whole.clone();
            (1..2_000).map(move |n| {
                let (mut bytes, at) = (whole.clone(), chapter as usize + n);
                bytes[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0xA5);
                bytes
            })
        };
        #[rustfmt::skip]
        let table = [
            // the file, the moment, the last tick that is no later
            (torn().find(|bytes| is_lost(bytes, last, 600)),            600, 399),
            (damaged(last).find(|bytes| is_lost(bytes, last, 600)),       600, 399),
            (damaged(last).find(|bytes| is_lost(bytes, last, 410)),       410, 399),
            (damaged(chapter).find(|bytes| is_lost(bytes, chapter, 350)), 350, 315), // a chapter follows it
        ];
        for (n, (bytes, moment, want)) in table.into_iter().enumerate() {
            fs::write(&path, bytes.unwrap()).unwrap();
            let wall = at(moment).wall;
            let read = Recording::open_at(&path, wall).unwrap();
            let is_told = |entry: &Entry| matches!(entry, Entry::Notice(told) if told.ends_with("the chapter before"));
            assert!(read.waiting.iter().any(is_told), "{n}");
            let found = crate::record::moment::at(&path, wall).unwrap().unwrap();
            assert_eq!(found.snapshot.tick, want, "{n}");
        }
    }

    #[test]
    fn segments_that_were_deleted_since_they_were_listed_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        for run in [1..=3, 4..=6, 7..=9] {
            record(&path, run, 0);
        }
        let (all, segments) = (Recording::open(&path).unwrap(), segments_of(&path).unwrap());
        fs::remove_file(&segments[1]).unwrap();
        assert_eq!(ticks(all), [1, 2, 3, 7, 8, 9]);
        fs::remove_file(&segments[0]).unwrap();
        let late = Recording::of_segments_at(&path, &segments, at(2).wall).unwrap();
        assert_eq!(ticks(late), [7, 8, 9]);
        fs::remove_file(&segments[2]).unwrap();
        assert!(Recording::of_segments_at(&path, &segments, at(2).wall).is_err());
    }
}
