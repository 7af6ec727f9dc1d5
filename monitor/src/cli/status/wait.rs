//! `isobar status --wait CONDITION[=STATUS]`: until it is so.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail};
use isobar::clock;
use isobar::record::incident::words::time;
use isobar_core::model::condition::{ConditionName, Status};
use isobar_core::model::decision::NodePressure;
use isobar_core::model::units::Nanos;
use isobar_core::policy::assess::thresholds::condition;
use isobar_core::view::View;
use isobar_core::view::verdict::{Mood, Resource};

use crate::cli::ask::{Eye, TICK, is_refusal};
use crate::cli::exit::Misused;

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    name: String,
    status: Status,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, status) = text.split_once('=').unwrap_or((text, "true"));
        let found = Status::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(status));
        match found {
            Some(status) if !name.is_empty() => Ok(Self { name: name.into(), status }),
            _ => Err("expected CONDITION=true, =false or =unknown, as memory=false".into()),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.status.name())
    }
}

/// The first view in which it is so.
pub(super) fn run(mut eye: Eye, wish: &Wish, timeout: Duration) -> Result<View> {
    let timeout = Nanos::from(timeout);
    let until = Nanos(clock::now().boot.0.saturating_add(timeout.0));
    let unmet = || format!("{wish} was not met within {}", time(timeout));
    let mut pause = Duration::ZERO;
    loop {
        let view = eye.look_after(pause, Some(until));
        // A refusal ends it before the timeout.
        let view = view.map_err(|why| if is_refusal(&why) { why } else { why.context(unmet()) })?;
        let status = wish.found(&view).ok_or_else(|| Misused(wish.unknown(&view)))?;
        if status == wish.status {
            return Ok(view);
        }
        if clock::now().boot >= until {
            bail!("{}: it is {}", unmet(), status.name());
        }
        pause = TICK;
    }
}

const RESOURCES: [(&str, Resource); 3] =
    [("cpu", Resource::Cpu), ("memory", Resource::Memory), ("io", Resource::Io)];

impl Wish {
    /// The status of the resource or condition that is named; `None` if there is none of this name.
    fn found(&self, view: &View) -> Option<Status> {
        let is = |name: &str| name.eq_ignore_ascii_case(&self.name);
        let assessment = &view.decision.assessment;
        if let Some((_, resource)) = RESOURCES.iter().find(|(name, _)| is(name)) {
            let verdict = view.verdict.iter().find(|verdict| verdict.resource == *resource);
            return Some(match verdict.map_or(Mood::Unknown, |verdict| verdict.mood) {
                Mood::Pressed => Status::True,
                Mood::Calm | Mood::Waits => Status::False,
                Mood::Unknown => Status::Unknown,
            });
        }
        let its = |kind: &str, name: ConditionName| is(kind) || is(name.name());
        let judged = assessment.conditions.iter().find(|c| its(&c.kind, c.name));
        if let Some(judged) = judged {
            return Some(judged.status);
        }
        if let Some(pressure) = NodePressure::ALL.into_iter().find(|one| is(one.name())) {
            let is_unread =
                assessment.unobserved.iter().any(|one| condition(one.signal) == pressure);
            return Some(match (assessment.node_pressure.contains(&pressure), is_unread) {
                (true, _) => Status::True,
                (false, true) => Status::Unknown,
                (false, false) => Status::False,
            });
        }
        // Not judged yet.
        ConditionName::ALL.into_iter().any(|name| is(name.name())).then_some(Status::Unknown)
    }

    fn unknown(&self, view: &View) -> String {
        let resources = RESOURCES.iter().map(|(name, _)| (*name).to_owned());
        let judged = view.decision.assessment.conditions.iter().map(|c| c.kind.clone());
        let pressures = NodePressure::ALL.into_iter().map(|one| one.name().to_owned());
        let all: Vec<_> = resources.chain(judged).chain(pressures).collect();
        format!("no condition is called {:?}, expected one of {}", self.name, all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::decision::Unobserved;
    use isobar_core::model::threshold::Signal;
    use isobar_core::view::verdict::Verdict;

    use super::*;

    #[test]
    fn wish_grammar() {
        #[rustfmt::skip]
        let table = [
            // text, printed
            ("memory=false",   Some("memory=False")),
            ("memory",         Some("memory=True")),
            ("X=UNKNOWN",      Some("X=Unknown")),
            ("memory=",        None),
            ("memory=maybe",   None),
            ("=true",          None),
            ("",               None),
            ("a=b=true",       None),
        ];
        for (text, want) in table {
            let got = text.parse::<Wish>().ok().map(|wish| wish.to_string());
            assert_eq!(got.as_deref(), want, "{text:?}");
        }
    }
    #[test]
    fn wish_found_in_a_view() {
        let mut view = View::default();
        let verdict =
            |resource, mood| Verdict { resource, mood, is_short: false, text: String::new() };
        view.verdict.push(verdict(Resource::Cpu, Mood::Pressed));
        view.verdict.push(verdict(Resource::Memory, Mood::Waits));
        let assessment = &mut view.decision.assessment;
        assessment.node_pressure.push(NodePressure::DiskPressure);
        assessment.unobserved.push(Unobserved { signal: Signal::PidAvailable, why: "".into() });
        #[rustfmt::skip]
        let table = [
            // condition, status
            ("CPU",                             Some(Status::True)),
            ("memory",                          Some(Status::False)),
            ("io",                              Some(Status::Unknown)), // no verdict
            ("diskPressure",                    Some(Status::True)),
            ("MemoryPressure",                  Some(Status::False)),
            ("PIDPressure",                     Some(Status::Unknown)), // no reading
            ("SystemCPUContentionPressure",     Some(Status::Unknown)), // not judged
            ("moon",                            None),
        ];
        for (name, want) in table {
            let wish = Wish { name: name.into(), status: Status::True };
            assert_eq!(wish.found(&view), want, "{name}");
        }
    }
}
