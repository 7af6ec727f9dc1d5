//! Reclaim on a thread of its own: the kernel may work at one piece for seconds, and whoever acts
//! must stay free to end somebody meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use super::cgroup::Group;
use super::failure::Failure;
use super::reclaim::{Reclaimed, reclaim, wanted};
use super::steps::Done;
use isobar_core::model::units::{Bytes, Nanos};

/// So long it is waited for; what takes longer is told later.
const PATIENCE: Duration = Duration::from_millis(20);

/// One reclaim under way.
#[derive(Debug)]
pub(super) struct Reclaiming {
    pub(super) action: u64,
    pub(super) began: Nanos,
    result: Receiver<Result<Done, Failure>>,
}

impl Reclaiming {
    /// Begins to take memory back from `groups`, until the boot clock shows `until`.
    ///
    /// # Errors
    /// If no thread can be made: nothing is done then.
    pub(super) fn begin(
        (action, began): (u64, Nanos),
        groups: Vec<Group>,
        want: Option<Bytes>,
        until: Nanos,
    ) -> Result<Self, Failure> {
        let (tell, result) = sync_channel(1);
        let work = move || {
            // Nobody listens any more once the agent leaves.
            let _ = tell.send(all(&groups, want, until));
        };
        let thread = thread::Builder::new().name("act-reclaim".into()).spawn(work);
        thread.map_err(|why| Failure::Told(format!("cannot make a thread: {why}")))?;
        Ok(Self { action, began, result })
    }

    /// What came of it, if that is soon.
    pub(super) fn soon(&self) -> Option<Result<Done, Failure>> {
        match self.result.recv_timeout(PATIENCE) {
            Ok(done) => Some(done),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(ended())),
        }
    }

    /// What came of it, if it is over.
    pub(super) fn look(&self) -> Option<Result<Done, Failure>> {
        match self.result.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(ended())),
        }
    }
}

fn ended() -> Failure {
    Failure::Told("reclaim has ended, and nobody knows how".into())
}

/// One cgroup after the other, until there is enough. A failure counts only where nothing came back.
fn all(groups: &[Group], mut want: Option<Bytes>, until: Nanos) -> Result<Done, Failure> {
    let (mut told, mut freed, mut failed) = (Vec::new(), None, None);
    for group in groups {
        let done = wanted(group, want).and_then(|want| reclaim(group, want, until));
        let Reclaimed { freed: part, detail } = match done {
            Ok(done) => done,
            Err(why) => {
                failed = failed.or(Some(why));
                continue;
            }
        };
        told.push(detail);
        freed = freed.into_iter().chain(part).reduce(|a: Bytes, b| Bytes(a.0 + b.0));
        want = want.map(|want| Bytes(want.0.saturating_sub(part.unwrap_or_default().0)));
        if want == Some(Bytes(0)) {
            break;
        }
    }
    match failed.filter(|_| told.is_empty()) {
        Some(why) => Err(why),
        None => Ok(Done { detail: told.join("; "), freed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_later_and_never_waited_for() {
        let (tell, result) = sync_channel(1);
        let reclaiming = Reclaiming { action: 7, began: Nanos(0), result };
        assert!(reclaiming.soon().is_none() && reclaiming.look().is_none());
        tell.send(Ok(Done::from("x".to_owned()))).unwrap();
        assert_eq!(reclaiming.look().unwrap().unwrap().detail, "x");
        drop(tell);
        let lost = reclaiming.look().unwrap();
        assert_eq!(lost.err(), Some(ended()), "a thread that died is told of");
    }
}
