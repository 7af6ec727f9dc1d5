//! Reads the figures that a scenario asks for: most from what the agent served during the measured
//! time, some from the machine itself.

use std::collections::BTreeSet;
use std::path::Path;

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::snapshot::{Scope, Union};
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};
use isobar_core::view::{OomRecord, View};

use super::answer;
use crate::facts::Reading;
use crate::form::expect::Claim;
use crate::form::figure::{Figure, Kills, Of};

/// What there is to read from.
pub(super) struct Seen<'a> {
    /// What the agent served over the measured time, oldest first.
    pub(super) views: &'a [View],
    /// Where cgroup v2 is mounted.
    pub(super) mount: &'a Path,
}

/// A figure; `None` where the agent says that it does not know it.
type Read = Result<Option<f64>, String>;

/// Both numbers of a claim.
pub(super) fn read(claim: &Claim, seen: &Seen<'_>) -> Reading {
    let figure = seen.read(&claim.figure);
    let of = claim.of.as_ref().map_or(Ok(None), |of| seen.read(of));
    let why: Vec<String> =
        [figure.as_ref().err(), of.as_ref().err()].into_iter().flatten().cloned().collect();
    Reading {
        figure: figure.ok().flatten(),
        of: of.ok().flatten(),
        error: (!why.is_empty()).then(|| why.join("; ")),
    }
}

impl Seen<'_> {
    fn read(&self, figure: &Figure) -> Read {
        let known = |value: f64| Ok(Some(value));
        match figure {
            Figure::Wall => known(self.wall()?),
            Figure::CpuWait(of) => self.time(of, |s| Some(s.cpu.as_ref()?.wait.total)),
            Figure::CpuContention(of) => self.time(of, |s| Some(s.cpu.as_ref()?.contention?.total)),
            Figure::ThrottledOwn(of) => self.throttled_own(of),
            Figure::ThrottledAncestor(of) => {
                self.time(of, |s| Some(s.cpu.as_ref()?.throttled_ancestor?.total))
            }
            Figure::ThrottledShare(of) => {
                let wait = self.read(&Figure::CpuWait(of.clone()))?;
                share(self.throttled_own(of)?, wait)
            }
            Figure::ThrottledShareByFiles { of, threads } => {
                let (throttled, used) = (self.throttled_by_file(of)?, self.usage(of)?);
                let threads = f64::from(*threads);
                let wanted = threads * self.wall()?;
                share(throttled.map(|t| threads * t), used.map(|used| wanted - used))
            }
            Figure::Contention(of) => self.time(of, |s| Some(s.contention?.total)),
            Figure::ContentionAvg10(of) => self.average(of, |s| s.contention, |u| u.avg10),
            Figure::ContentionAvg60(of) => self.average(of, |s| s.contention, |u| u.avg60),
            Figure::ContentionOnCpu(cpu) => {
                let each = &self.last()?.snapshot.whole.contention_per_cpu;
                Ok(each.get(*cpu).copied().map(fraction))
            }
            Figure::Harm { by, to } => known(self.harm(by, to)),
            Figure::ThrottledByFile(of) => self.throttled_by_file(of),
            Figure::CpuUsage(of) => self.usage(of),
            Figure::PsiCpu(of) => self.time(of, |s| Some(s.pressure.cpu?.some?.total.into())),
            Figure::PsiCpuAvg60(of) => {
                let last = scope(self.last()?, of)?;
                Ok(last.pressure.cpu.and_then(|cpu| cpu.some).map(|some| fraction(some.avg60)))
            }
            Figure::PsiMemory(of) => self.time(of, |s| Some(s.pressure.memory?.some?.total.into())),
            Figure::MemoryStall(of) => self.time(of, |s| Some(s.memory.as_ref()?.any.total)),
            Figure::MemoryStallBy { of, cause } => self.time(of, |s| {
                let cause = s.memory.as_ref()?.causes.get(cause);
                Some(cause.map_or(Nanos(0), |wait| wait.union.total))
            }),
            Figure::MemoryTimeBy { of, cause } => self.time(of, |s| {
                let cause = s.memory.as_ref()?.causes.get(cause);
                Some(cause.map_or(Nanos(0), |wait| wait.time.total))
            }),
            Figure::Shortage(of) => self.time(of, |s| Some(s.shortage?.total)),
            Figure::ShortageAvg60(of) => self.average(of, |s| s.shortage, |u| u.avg60),
            Figure::OomKillEvents(of) => self.grown(of, oom_kill_events),
            Figure::OomKillEventsEver(of) => {
                Ok(oom_kill_events(scope(self.last()?, of)?).map(|n| n as f64))
            }
            Figure::OomKills(kills) => known(self.oom_kills(kills)?),
            Figure::Condition { name, status } => {
                let had = |view: &&View| {
                    let mut all = view.decision.assessment.conditions.iter();
                    all.any(|one| one.name == name.0 && one.status == *status)
                };
                known(self.views.iter().filter(had).count() as f64)
            }
            Figure::Actions { step, target } => {
                let all = self.views.iter().flat_map(|view| &view.decision.relief.actions);
                let fits = all.filter(|action| {
                    step.is_none_or(|step| action.step == step)
                        && target.as_ref().is_none_or(|target| action.target.name == *target)
                });
                known(fits.map(|action| action.id).collect::<BTreeSet<_>>().len() as f64)
            }
            Figure::Limits(result) => {
                let all = self.views.iter().flat_map(|view| &view.limits);
                let those = all.filter(|limit| limit.result == *result);
                let files = those.map(|limit| (&limit.write.cgroup, &limit.write.file));
                known(files.collect::<BTreeSet<_>>().len() as f64)
            }
            Figure::LostCgroups => known(self.counted(|view| view.snapshot.lost.cgroups)?),
            Figure::MapMemory => {
                Ok(self.last()?.cost.kernel.map_bytes.map(|Bytes(bytes)| bytes as f64))
            }
            Figure::LostStalls => known(self.counted(|view| view.snapshot.lost.stalls)?),
            Figure::LostEvents => known(self.counted(|view| view.snapshot.lost.events)?),
            Figure::BackwardsCounters => {
                known(self.counted(|view| view.snapshot.doubts.backwards)?)
            }
            Figure::NodeMemoryLess(less) => {
                let memory = self.last()?.snapshot.node.memory;
                Ok(memory.map(|memory| memory.total.0 as f64 - less.0 as f64))
            }
            Figure::File { cgroup, name } => known(answer::file(self.mount, cgroup, name)?),
            Figure::CpusAllowed { cgroup, cpu } => {
                known(answer::cpus_allowed(self.mount, cgroup, *cpu)? as f64)
            }
            Figure::Sum(figures) => {
                let all: Result<Option<Vec<f64>>, String> =
                    figures.iter().map(|figure| self.read(figure)).collect();
                Ok(all?.map(|all| all.into_iter().sum()))
            }
        }
    }

    fn first(&self) -> Result<&View, String> {
        self.views.first().ok_or_else(|| "the agent served nothing".into())
    }

    fn last(&self) -> Result<&View, String> {
        self.views.last().ok_or_else(|| "the agent served nothing".into())
    }

    /// From the first view to the last, by the clock that never jumps.
    fn wall(&self) -> Result<f64, String> {
        self.counted(|view| view.snapshot.at.boot.0)
    }

    fn counted(&self, of: impl Fn(&View) -> u64) -> Result<f64, String> {
        Ok(of(self.last()?) as f64 - of(self.first()?) as f64)
    }

    /// How much a counter of a scope has grown.
    fn grown(&self, of: &Of, count: impl Fn(&Scope) -> Option<u64>) -> Read {
        let (first, last) = (scope(self.first()?, of)?, scope(self.last()?, of)?);
        let both = count(first).zip(count(last));
        Ok(both.map(|(first, last)| last as f64 - first as f64))
    }

    fn time(&self, of: &Of, total: impl Fn(&Scope) -> Option<Nanos>) -> Read {
        self.grown(of, |scope| total(scope).map(|time| time.0))
    }

    fn average(
        &self,
        of: &Of,
        union: impl Fn(&Scope) -> Option<Union>,
        window: impl Fn(Union) -> Percent,
    ) -> Read {
        Ok(union(scope(self.last()?, of)?).map(|union| fraction(window(union))))
    }

    fn throttled_own(&self, of: &Of) -> Read {
        self.time(of, |s| Some(s.cpu.as_ref()?.throttled_own?.total))
    }

    fn throttled_by_file(&self, of: &Of) -> Read {
        self.time(of, |s| s.files.as_ref()?.cpu.throttled.map(Nanos::from))
    }

    fn usage(&self, of: &Of) -> Read {
        let usage = |s: &Scope| -> Option<Micros> { s.files.as_ref()?.cpu.usage };
        self.time(of, |s| usage(s).map(Nanos::from))
    }

    /// A pair is listed only in intervals in which it occurred; the first one ends where the measured
    /// time begins.
    fn harm(&self, by: &str, to: &str) -> f64 {
        let is =
            |path: &Option<CgroupPath>, name: &str| path.as_ref().is_some_and(|p| &*p.0 == name);
        let measured = self.views.iter().skip(1);
        let all = measured.flat_map(|view| &view.snapshot.aggressions);
        let ours = all.filter(|one| is(&one.victim_path, to) && is(&one.aggressor_path, by));
        ours.map(|blame| blame.time.0 as f64).sum()
    }

    /// Kills after the first view that fit. Those of a tick that was not heard are among the recent
    /// ones of the next.
    fn oom_kills(&self, wanted: &Kills) -> Result<f64, String> {
        let key = |record: &OomRecord| (record.kill.at, record.kill.victim_pid);
        let known: BTreeSet<_> = self.first()?.recent_oom_kills.iter().map(key).collect();
        let all = self.views[1..].iter().flat_map(|view| &view.recent_oom_kills);
        let fits = all.filter(|record| !known.contains(&key(record)) && fits(record, wanted));
        Ok(fits.map(key).collect::<BTreeSet<_>>().len() as f64)
    }
}

fn fits(record: &OomRecord, wanted: &Kills) -> bool {
    let is = |path: &Option<CgroupPath>, name: &str| path.as_ref().is_some_and(|p| &*p.0 == name);
    let limit = match &wanted.limit {
        None => true,
        Some(_) if !record.kill.limit_known => false,
        Some(Of::Node) => record.kill.limit.is_none(),
        Some(Of::Cgroup(path)) => is(&record.limit_path, path),
    };
    limit
        && is(&record.victim_path, &wanted.of)
        && wanted.trigger.as_ref().is_none_or(|by| is(&record.trigger_path, by))
}

fn oom_kill_events(scope: &Scope) -> Option<u64> {
    Some(scope.files.as_ref()?.memory.events?.oom_kill)
}

fn scope<'a>(view: &'a View, of: &Of) -> Result<&'a Scope, String> {
    match of {
        Of::Node => Ok(&view.snapshot.whole),
        Of::Cgroup(path) => {
            let found = view.snapshot.scopes.values().find(|scope| *scope.path.0 == **path);
            found.ok_or_else(|| format!("the agent does not see cgroup {path}"))
        }
    }
}

fn fraction(percent: Percent) -> f64 {
    f64::from(percent.0) / 10_000.0
}

fn share(part: Option<f64>, whole: Option<f64>) -> Read {
    match part.zip(whole) {
        Some((_, 0.0)) => Err("a share of nothing".into()),
        both => Ok(both.map(|(part, whole)| part / whole)),
    }
}

#[cfg(test)]
mod tests;
