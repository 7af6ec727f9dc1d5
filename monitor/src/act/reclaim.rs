//! Memory that is taken back from cgroups (`memory.reclaim`): as a step of relief, and of the page
//! cache that victims leave behind. The kernel may work at one piece for seconds, so each reclaim
//! has a thread of its own and the actuator never waits long for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::cgroup::CgroupDir;
use super::error::{ActError, Done};
use crate::clock;
use isobar_core::model::units::{Bytes, Nanos};

/// Asked for at once: some milliseconds of work, so that the time is looked at often enough.
const PIECE: u64 = 4 << 20;
/// Without an amount, this part of what the cgroup holds is asked for.
const PART: u64 = 8;
/// The actuator waits so long for a reclaim; what takes longer is reported later.
const PATIENCE: Duration = Duration::from_millis(20);
/// Page cache of the dead below this amount stays where it is.
const LEFT_BEHIND: u64 = 4 << 20;
/// A limit for taking back page cache: clean pages go at a gigabyte a second and more.
const LONGEST: Nanos = Nanos(5 * Nanos::SECOND.0);

/// One reclaim under way.
#[derive(Debug)]
pub(super) struct Reclaim {
    pub(super) action: u64,
    pub(super) began: Nanos,
    /// It takes back what a victim left behind, and is no step of its own.
    pub(super) is_leftover: bool,
    result: Receiver<Result<Done, ActError>>,
}

impl Reclaim {
    /// Begins to take `want` back from `groups`, until the boot clock shows `until`.
    ///
    /// # Errors
    /// If no thread can be made: nothing is done then.
    pub(super) fn begin(
        (action, began): (u64, Nanos),
        groups: Vec<CgroupDir>,
        want: Option<Bytes>,
        until: Nanos,
    ) -> Result<Self, ActError> {
        let (report, result) = sync_channel(1);
        let work = move || {
            // The agent may have left meanwhile; then there is no receiver.
            let _ = report.send(from_all(&groups, want, until));
        };
        let thread = thread::Builder::new().name("act-reclaim".into()).spawn(work);
        thread.map_err(|why| ActError::Other(format!("cannot make a thread: {why}")))?;
        Ok(Self { action, began, is_leftover: false, result })
    }

    /// Begins to take back the page cache that is charged to the cgroups of a victim that has
    /// ended. It counts as used for as long as the cgroup is there, and a node that goes by that
    /// figure would end the next pod for it. `None` if it is little, or cannot be taken back.
    pub(super) fn of_leftovers(
        action: u64,
        groups: impl Iterator<Item = CgroupDir>,
    ) -> Option<Self> {
        let holds = |group: &CgroupDir| group.bytes("memory.current").unwrap_or(0);
        // What was started again in it is in use.
        let is_left = |group: &CgroupDir| holds(group) >= LEFT_BEHIND && !group.is_populated();
        let groups: Vec<_> = groups.filter(is_left).collect();
        if groups.is_empty() {
            return None;
        }
        let now = clock::now().boot;
        let all = Some(Bytes(u64::MAX));
        let begun = Self::begin((action, now), groups, all, now.plus(LONGEST));
        begun.ok().map(|reclaim| Self { is_leftover: true, ..reclaim })
    }

    /// The result, if it comes soon.
    pub(super) fn soon(&self) -> Option<Result<Done, ActError>> {
        match self.result.recv_timeout(PATIENCE) {
            Ok(done) => Some(done),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(panicked())),
        }
    }

    /// The result, if it is there.
    pub(super) fn poll(&self) -> Option<Result<Done, ActError>> {
        match self.result.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(panicked())),
        }
    }
}

fn panicked() -> ActError {
    ActError::Other("the thread that reclaimed has ended without a result".into())
}

/// How much is asked of `group`.
pub(super) fn wanted(group: &CgroupDir, want: Option<Bytes>) -> Result<Bytes, ActError> {
    match (want, group.bytes("memory.current")) {
        (Some(want), _) => Ok(want),
        (None, Some(current)) => Ok(Bytes(current / PART)),
        (None, None) => Err(ActError::Lacking { path: group.path.clone(), file: "memory.current" }),
    }
}

/// One cgroup after the other, until there is enough. An error counts only where nothing came back.
fn from_all(groups: &[CgroupDir], mut want: Option<Bytes>, until: Nanos) -> Result<Done, ActError> {
    let (mut details, mut freed, mut failed) = (Vec::new(), None, None);
    for group in groups {
        let done = wanted(group, want).and_then(|want| from_one(group, want, until));
        let Done { freed: part, detail } = match done {
            Ok(done) => done,
            Err(why) => {
                failed = failed.or(Some(why));
                continue;
            }
        };
        details.push(detail);
        freed = freed.into_iter().chain(part).reduce(|a: Bytes, b| Bytes(a.0 + b.0));
        want = want.map(|want| Bytes(want.0.saturating_sub(part.unwrap_or_default().0)));
        if want == Some(Bytes(0)) {
            break;
        }
    }
    match failed.filter(|_| details.is_empty()) {
        Some(why) => Err(why),
        None => Ok(Done { detail: details.join("; "), freed }),
    }
}

/// Reclaims `want` from `group` until the boot clock shows `until`. That less came back than was
/// asked is no error, but that nothing did is.
fn from_one(group: &CgroupDir, want: Bytes, until: Nanos) -> Result<Done, ActError> {
    const FILE: &str = "memory.reclaim";
    let path = &group.path;
    let before = group.bytes("memory.current");
    let (mut given, mut end) = (0, "");
    while given < want.0 {
        let piece = PIECE.min(want.0 - given);
        match group.write(FILE, &piece.to_string()) {
            Ok(()) => given += piece,
            // Some of the piece may have come back.
            Err(ActError::Write { why: Errno::AGAIN, .. }) => {
                end = "; the kernel found no more";
                break;
            }
            Err(error) => return Err(error),
        }
        if clock::now().boot >= until {
            end = "; the time was over";
            break;
        }
    }
    let now = group.bytes("memory.current");
    let freed = before.zip(now).map(|(before, now)| Bytes(before.saturating_sub(now)));
    let measured = freed.map_or("unknown".into(), |freed| freed.to_string());
    let asked = if want.0 > i64::MAX as u64 { "all".into() } else { want.to_string() };
    if given == 0 && freed.is_none_or(|freed| freed.0 == 0) {
        return Err(ActError::Other(format!("{path}: none of {asked} could be taken back")));
    }
    Ok(Done { detail: format!("{path}: {asked} asked, {measured} came back{end}"), freed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reclaim_that_takes_long_is_reported_later() {
        let (report, result) = sync_channel(1);
        let reclaim = Reclaim { action: 7, began: Nanos(0), is_leftover: false, result };
        assert!(reclaim.soon().is_none() && reclaim.poll().is_none());
        report.send(Ok(Done { detail: "x".into(), freed: None })).unwrap();
        assert_eq!(reclaim.poll().unwrap().unwrap().detail, "x");
        drop(report);
        assert_eq!(
            reclaim.poll().unwrap().err(),
            Some(panicked()),
            "a thread that died is reported"
        );
    }
}
