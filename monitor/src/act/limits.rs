//! Limits of the node: written, kept written, and taken back on request.
//! In: what is to stand in which file. Out: how it stands. What stood there before is on disk
//! before the first write, so that it can be taken back when this process is long gone.

mod file;
mod refusal;
mod remembered;
mod suspects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use file::{Cgroup, normal};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::limit::{LimitResult, LimitState, LimitWrite};
use isobar_core::model::settings::WrittenLimit;
use isobar_core::model::units::Nanos;
use remembered::{Entry, Remembered};

/// How long the changes of another writer are counted. Shorter, and one that writes once a minute,
/// or once an hour, is fought for ever.
const WATCHED: Nanos = Nanos(6 * 3600 * Nanos::SECOND.0);
/// A file that another writer changes so often within [`WATCHED`] is left to it: the two would
/// write for ever.
const TOO_OFTEN: usize = 3;

/// Where limits are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Where cgroup v2 is mounted.
    pub cgroup_root: PathBuf,
    /// Where procfs is mounted.
    pub proc: PathBuf,
    /// Where it is remembered what stood there before.
    pub state: PathBuf,
}

/// Who writes limits.
#[derive(Debug)]
pub struct Limits {
    places: Places,
    /// When another writer changed a file of isobar's, file by file.
    contested: BTreeMap<LimitWrite, Contest>,
    /// Of those that others write: what stood as it should at an earlier look.
    stood: BTreeSet<LimitWrite>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Contest {
    /// Lately, oldest first.
    at: Vec<Nanos>,
    /// It is not written again until it holds what it should.
    is_lost: bool,
}

/// What is to be done about one file.
enum Step {
    /// Nothing: it stands as this says.
    Leave(LimitResult, String),
    /// It is to be written, because of this.
    Write(LimitResult, String),
}

impl Limits {
    /// Acts there, and reads nothing yet.
    pub fn new(places: Places) -> Self {
        Self { places, contested: BTreeMap::new(), stood: BTreeSet::new() }
    }

    /// Compares what others are to write. What is not there has nothing to compare.
    pub fn compare(&mut self, wanted: &[LimitWrite]) -> Vec<LimitState> {
        self.stood.retain(|write| wanted.contains(write));
        let one = |write: &LimitWrite| {
            let live = self.cgroup(&write.cgroup).read(&write.file).ok()?;
            let (result, detail) =
                if normal(&write.file, &live) == normal(&write.file, &write.value) {
                    (LimitResult::Kept, String::new())
                } else if self.stood.contains(write) {
                    let detail = format!(
                        "another writer changed {} to {live:?}; without writeLimits it stays so",
                        write.value
                    );
                    (LimitResult::Drifted, detail)
                } else {
                    let detail =
                        format!("{live:?} is in force, the configuration says {}", write.value);
                    (LimitResult::Observed, detail)
                };
            Some(LimitState { live: Some(live), ..state(write, result, detail) })
        };
        let states: Vec<_> = wanted.iter().filter_map(one).collect();
        let kept = states.iter().filter(|state| state.result == LimitResult::Kept);
        self.stood.extend(kept.map(|state| state.write.clone()));
        states
    }

    /// Sees to it that `writes` stand; looks alone if they are not enforced.
    pub fn hold(
        &mut self,
        writes: &[LimitWrite],
        is_enforced: bool,
        now: Nanos,
    ) -> Vec<LimitState> {
        // What was given up and is no longer wanted starts anew if it ever is again.
        self.contested.retain(|write, _| writes.contains(write));
        let mut remembered =
            match Remembered::open(&self.places.state, &self.places.proc, is_enforced) {
                Ok(remembered) => remembered,
                Err(why) => {
                    let failed = |write: &LimitWrite| LimitState {
                        live: self.cgroup(&write.cgroup).read(&write.file).ok(),
                        ..state(write, LimitResult::Failed, why.to_string())
                    };
                    return writes.iter().map(failed).collect();
                }
            };
        writes.iter().map(|write| self.one(write, is_enforced, now, &mut remembered)).collect()
    }

    fn cgroup(&self, path: &CgroupPath) -> Cgroup {
        Cgroup::new(&self.places.cgroup_root, path)
    }

    fn one(
        &mut self,
        write: &LimitWrite,
        is_enforced: bool,
        now: Nanos,
        remembered: &mut Remembered,
    ) -> LimitState {
        let cgroup = self.cgroup(&write.cgroup);
        let (id, live) = match cgroup.id().and_then(|id| Ok((id, cgroup.read(&write.file)?))) {
            Ok(found) => found,
            Err(why) => return state(write, LimitResult::Failed, why),
        };
        let entry = remembered.entry(write, id).cloned();
        let before = entry.as_ref().map(|entry| entry.before.clone());
        let when = is_enforced.then_some(now);
        let step = self.step(write, &cgroup, entry.as_ref(), &live, when);
        let end = |result, live: &str, before: Option<String>, detail| LimitState {
            before,
            live: Some(live.into()),
            ..state(write, result, detail)
        };
        let (result, mut detail) = match step {
            Step::Leave(LimitResult::Kept, detail) => {
                // Also where another writer wrote the same value.
                let noted = match is_enforced {
                    true => remembered.confirm(write, id),
                    false => Ok(()),
                };
                let detail = noted.err().map_or(detail, |why| why.to_string());
                return end(LimitResult::Kept, &live, before, detail);
            }
            Step::Leave(result, detail) => return end(result, &live, before, detail),
            Step::Write(_, detail) if !is_enforced => {
                let detail = match detail.as_str() {
                    "" => format!("would write {} over {live:?}", write.value),
                    detail => detail.into(),
                };
                return end(LimitResult::Observed, &live, before, detail);
            }
            Step::Write(result, detail) => (result, detail),
        };
        if let Err(why) = remembered.announce(write, id, &live) {
            return end(LimitResult::Failed, &live, before, why.to_string());
        }
        let before = remembered.entry(write, id).map(|entry| entry.before.clone());
        let after = match cgroup.write(&write.file, &write.value) {
            Ok(after) => after,
            Err(why) => return end(LimitResult::Failed, &live, before, why),
        };
        if normal(&write.file, &after) != normal(&write.file, &write.value) {
            detail = format!("the kernel took {after:?} for {}", write.value);
            return end(LimitResult::Failed, &after, before, detail);
        }
        if let Err(why) = remembered.confirm(write, id) {
            detail = why.to_string();
        }
        end(result, &after, before, detail)
    }

    /// What `live` asks for. Without a `now` nothing will come of it.
    fn step(
        &mut self,
        write: &LimitWrite,
        cgroup: &Cgroup,
        entry: Option<&Entry>,
        live: &str,
        now: Option<Nanos>,
    ) -> Step {
        if normal(&write.file, live) == normal(&write.file, &write.value) {
            if self.contested.get(write).is_some_and(|contest| contest.is_lost) {
                // They gave in.
                self.contested.remove(write);
            }
            return Step::Leave(LimitResult::Kept, String::new());
        }
        if let Some(why) = cgroup.cannot_bear(&write.file, &write.value) {
            return Step::Leave(LimitResult::Failed, why);
        }
        let Some(entry) = entry.filter(|entry| entry.is_overwritten_by(live)) else {
            return Step::Write(LimitResult::Written, String::new());
        };
        let ours = entry.written.as_deref().unwrap_or_default();
        let detail = format!("another writer changed {ours} to {live:?}");
        let Some(now) = now else {
            return Step::Write(LimitResult::Drifted, format!("{detail}; would write it again"));
        };
        let contest = self.contested.entry(write.clone()).or_default();
        if !contest.is_lost {
            contest.at.retain(|at| now.since(*at) < WATCHED);
            contest.at.push(now);
            contest.is_lost = contest.at.len() >= TOO_OFTEN;
        }
        if !contest.is_lost {
            return Step::Write(LimitResult::Drifted, format!("{detail}; it was written again"));
        }
        let who = suspects::suspects(&self.places.proc, write);
        let times = format!("{TOO_OFTEN} times within six hours and is left to them");
        Step::Leave(LimitResult::Failed, format!("{detail}, {times}: {who}"))
    }

    /// Takes back what was written because of `what`, also by another process, as far as it still
    /// stands.
    pub fn roll_back(&mut self, what: WrittenLimit) -> Vec<LimitState> {
        self.contested.retain(|write, _| write.what != what);
        let mut remembered = match Remembered::open(&self.places.state, &self.places.proc, true) {
            Ok(remembered) => remembered,
            Err(why) => {
                let cgroup = CgroupPath::root();
                let write = LimitWrite { what, cgroup, file: String::new(), value: String::new() };
                return vec![state(&write, LimitResult::Failed, why.to_string())];
            }
        };
        // As it was built up, from the top: a set of CPUs can have what the one above it has.
        let mut entries: Vec<_> = remembered.of(what).cloned().collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let states = entries.iter().map(|entry| self.back(entry)).collect::<Vec<_>>();
        entries.retain(|entry| {
            states.iter().any(|s| entry.is_of(&s.write) && s.result == LimitResult::Failed)
        });
        match remembered.leave(what, entries) {
            Ok(()) => states,
            Err(why) => {
                let doubted = |state| LimitState { detail: why.to_string(), ..state };
                states.into_iter().map(doubted).collect()
            }
        }
    }

    fn back(&self, entry: &Entry) -> LimitState {
        let write = entry.back();
        let cgroup = self.cgroup(&write.cgroup);
        let live = match cgroup.id() {
            Ok(id) if id == entry.id => cgroup.read(&write.file),
            _ => {
                let detail = "the cgroup has gone, and its limits with it".into();
                return state(&write, LimitResult::Kept, detail);
            }
        };
        let live = match live {
            Ok(live) => live,
            Err(why) => return state(&write, LimitResult::Failed, why),
        };
        let end = |result, live: &str, detail| LimitState {
            before: Some(entry.before.clone()),
            live: Some(live.into()),
            ..state(&write, result, detail)
        };
        if normal(&write.file, &live) == normal(&write.file, &write.value) {
            return end(LimitResult::Kept, &live, "it stands as it stood before".into());
        }
        if entry.is_overwritten_by(&live) {
            let ours = entry.written.as_deref().unwrap_or_default();
            let detail = format!("another writer changed {ours} to {live:?}, and that stays");
            return end(LimitResult::Drifted, &live, detail);
        }
        if let Some(why) = cgroup.cannot_bear(&write.file, &write.value) {
            return end(LimitResult::Failed, &live, why);
        }
        let is_emptied = write.file == "cpuset.cpus" && write.value.is_empty();
        match cgroup.write(&write.file, &write.value) {
            Err(_) if is_emptied => match cgroup.write_all_cpus(&write.file) {
                Ok(after) => {
                    let why = "no empty set is taken where something runs, so it has all CPUs";
                    end(LimitResult::Written, &after, why.into())
                }
                Err(why) => end(LimitResult::Failed, &live, why),
            },
            Ok(after) if normal(&write.file, &after) == normal(&write.file, &write.value) => {
                end(LimitResult::Written, &after, String::new())
            }
            Ok(after) => {
                let detail = format!("the kernel took {after:?} for {:?}", write.value);
                end(LimitResult::Failed, &after, detail)
            }
            Err(why) => end(LimitResult::Failed, &live, why),
        }
    }
}

fn state(write: &LimitWrite, result: LimitResult, detail: String) -> LimitState {
    LimitState { write: write.clone(), before: None, live: None, result, detail }
}

#[cfg(test)]
mod tests;
