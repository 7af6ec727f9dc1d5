//! One cgroup in a stretch of a recording: chapter by chapter, the newest first, so that what time does
//! not suffice for is the oldest. Each chapter begins with what its averages had come to, and no engine
//! runs: only the cgroup's own figures are made.

use std::mem;

use crate::record::journal::Ring;
use crate::record::reader::{Entry, ReadError, Recorded, Recording};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::snapshot::{Averages, Scope, Snapshot};
use isobar_core::model::units::Nanos;
use isobar_core::recording::format::Header;

/// Which ticks of which cgroup.
pub struct Wanted {
    pub boot_id: String,
    pub cgroup: CgroupPath,
    pub begin: Moment,
    pub end: Moment,
}

/// Tells `take` of each tick that has the cgroup, while `goes_on`; whether it has told of all.
///
/// # Errors
/// If the recording cannot be read.
pub fn past(
    ring: &Ring,
    of: &Wanted,
    mut goes_on: impl FnMut() -> bool,
    mut take: impl FnMut(&Snapshot, &Scope),
) -> Result<bool, ReadError> {
    let mut end = of.end.wall;
    loop {
        let (recording, _held) = Recording::open_ring(ring, end)?;
        let mut chapter = Chapter::default();
        for entry in recording {
            match entry? {
                Entry::Header(header) => chapter.begin(*header, of),
                Entry::Frame(recorded) if recorded.sample.at.wall > end => break,
                Entry::Frame(recorded) => chapter.tick(*recorded, of, &mut take),
                Entry::Lost(_) => chapter.known = None,
                Entry::Notice(_) | Entry::Other(_) => continue,
            }
            if !goes_on() {
                return Ok(false);
            }
        }
        // A chapter begins with the moment of the tick before its own first.
        match chapter.begun.filter(|begun| *begun < end && *begun >= of.begin.wall) {
            Some(begun) => end = begun,
            None => return Ok(true),
        }
    }
}

/// As far as it is read.
#[derive(Default)]
struct Chapter {
    /// `None` before its header, and of another boot.
    begun: Option<Nanos>,
    /// `None` after ticks that are missing.
    known: Option<(Option<Sample>, Averages)>,
}

impl Chapter {
    fn begin(&mut self, header: Header, of: &Wanted) {
        let is_same = header.facts.boot_id == of.boot_id;
        self.begun = self.begun.or(is_same.then_some(header.at.wall));
        if self.known.is_none() || !header.continues {
            let (before, averages) = (header.standing.before, header.standing.averages);
            self.known = is_same.then(|| (before.map(|before| only(before, of)), averages));
        }
    }

    fn tick(
        &mut self,
        Recorded { sample, .. }: Recorded,
        of: &Wanted,
        take: &mut impl FnMut(&Snapshot, &Scope),
    ) {
        let Some((before, averages)) = &mut self.known else { return };
        let sample = only(sample, of);
        let snapshot = Snapshot::between(before.as_ref(), &sample, averages);
        *before = Some(sample);
        let is_asked = (of.begin.boot..=of.end.boot).contains(&snapshot.at.boot);
        let scope = snapshot.scopes.values().next();
        if let Some(scope) = scope.filter(|_| is_asked) {
            take(&snapshot, scope);
        }
    }
}

/// What the cgroup's own figures are made from.
fn only(mut sample: Sample, of: &Wanted) -> Sample {
    sample.cgroups.retain(|_, cgroup| cgroup.path == of.cgroup);
    sample.pods = None;
    if let Some(kernel) = &mut sample.kernel {
        kernel.groups.retain(|id, _| sample.cgroups.contains_key(id));
        drop(mem::take(&mut kernel.matrix));
    }
    sample
}
