//! Replaces every name in an incident that is given away: of nodes, namespaces, pods, containers,
//! services and cgroups, labels and annotations, patterns and prefixes in settings, whatever a user or
//! a cluster chose. The same name becomes the same other one wherever it stands, so that the copy
//! replays. Its decisions are made anew, but for those that come to something else than what was
//! decided. Uids and ids become others of the same form: a namespace may look like one. What stays is
//! what is listed here: words that are the same everywhere, amounts, and all that is no text.

mod veil;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::veil::Veil;
use super::freeze::{FreezeError, Span, line_of};
use super::shelf::{Draft, ShelfError};
use super::within::Within;
use super::{Change, Incident, Kind, Trigger, name_of};
use crate::record::reader::Recording;
use crate::record::segments::path_of;
use isobar_core::model::capability::Capability;
use isobar_core::model::decision::{Decision, Hold};
use isobar_core::model::sample::Sample;
use isobar_core::model::workload;
use isobar_core::policy::known::is_known;
use isobar_core::room;

/// Words beside those that decisions depend on: fields of structs that are written as maps, kinds of
/// owners, systemd's slices, the kubelet's directory, and limits of cgroups. They tell of no node.
#[rustfmt::skip]
const WORDS: [&str; 45] = [
    "scope", "resource", "type", "status", "phase", "measure", "threshold", "avg10", "avg60", "seen", "since", "judged", "why",
    "others", "own", "taken", "late", "limited", "short", "cost", "ReplicaSet", "DaemonSet", "StatefulSet", "Job",
    "ReplicationController", "Node", "system-cluster-critical", "system", "user", "machine",
    "kubelet", "/var/lib/kubelet",
    "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io", "/proc/pressure/irq",
    "memory.min", "memory.high", "memory.max", "memory.swap.max", "cpu.weight", "cpu.max",
    "cpuset.cpus", "pids.max", "hugetlb.2MB.max",
];
/// What cgroups of containers begin with, before the runtime's id.
const RUNTIMES: [&str; 5] = ["cri-containerd-", "crio-", "crio-conmon-", "docker-", "libpod-"];
const SLICE: &str = ".slice";
const SUFFIXES: [&str; 5] = [".service", ".scope", ".mount", ".socket", ".swap"];
const POD: &str = "pod";
/// Hexadecimal digits of a uid, and of a container's id.
const UID: usize = 32;
const ID: usize = 64;

/// Bytes that names and the other names for them may take. Those of a node of 500 cgroups take less
/// than one MiB; a file that was made to take much may have a new one in each tick.
const LARGEST: usize = 64 << 20;
/// Bytes that a name takes beside its text and that of the other one.
const ENTRY: usize = 128;

/// Other names for names.
#[derive(Debug, Default)]
pub struct Names {
    others: BTreeMap<String, String>,
    /// Bytes that they take; more than [`LARGEST`] once there was no room for one.
    held: usize,
}

/// Writes a redacted copy of an incident's file.
///
/// # Errors
/// If `from` is no incident, or the copy cannot be written.
pub fn redact(from: File, to: File, path: &Path) -> Result<Incident, FreezeError> {
    let place = path_of(&from);
    let incident = line_of(&place)?.incident;
    let mut names = Names::default();
    let incident = names.incident(incident);
    names.has_room()?;
    let draft = Draft { path: path.into(), file: to, is_in_memory: false };
    let span = Span::new(Within::EVERYTHING, Some(&draft)).redacted(names);
    let told = span.take(Recording::open_alone(&place)?, incident)?;
    draft.file.sync_all().map_err(|source| ShelfError::Io { path: path.into(), source })?;
    Ok(told)
}

impl Names {
    /// The same with other names.
    ///
    /// # Errors
    /// If a value that is no name stands where names do, or if the names take too much memory.
    pub fn of<T: Serialize + DeserializeOwned>(&mut self, what: &T) -> Result<T, FreezeError> {
        let names = RefCell::new(std::mem::take(self));
        let mut json = Vec::new();
        let written =
            what.serialize(Veil::new(&mut serde_json::Serializer::new(&mut json), &names));
        *self = names.into_inner();
        self.has_room()?;
        written.map_err(|_| FreezeError::Redact)?;
        room::from_slice(&json).map_err(|_| FreezeError::Redact)
    }

    fn has_room(&self) -> Result<(), FreezeError> {
        match self.held > LARGEST {
            true => Err(FreezeError::ManyNames(LARGEST >> 20)),
            false => Ok(()),
        }
    }

    /// A sample under other names; of what came of steps, the figures in place of the sentences.
    pub(super) fn sample(&mut self, sample: &Sample) -> Result<Sample, FreezeError> {
        let mut sample = self.of(sample)?;
        for outcome in &mut sample.outcomes {
            let ended = outcome.ended.map(|n| format!("{n} processes ended"));
            let freed = outcome.freed.map(|freed| format!("{freed} came back"));
            outcome.detail = ended.into_iter().chain(freed).collect::<Vec<_>>().join(", ");
        }
        Ok(sample)
    }

    /// A recorded decision under other names: the one that is made `now` under them, which has its
    /// sentences, unless it comes to something else, as one of another version may.
    pub(super) fn decision(
        &mut self,
        recorded: &Decision,
        now: Decision,
    ) -> Result<Decision, FreezeError> {
        let mut then = match self.of(recorded) {
            // A word of another version that this one takes for a name.
            Err(FreezeError::Redact) => return Ok(now),
            then => then?,
        };
        if gist(&then) == gist(&now) {
            return Ok(now);
        }
        let Decision { assessment, relief, .. } = &mut then;
        // Its name is made of parts, which are no names by themselves.
        for taint in &mut assessment.taints {
            let same = now.assessment.taints.iter().find(|one| one.because == taint.because);
            taint.key = same.map(|one| one.key.clone()).unwrap_or_default();
        }
        for action in &mut relief.actions {
            (action.message, action.annotations) = Default::default();
        }
        assessment.conditions.iter_mut().for_each(|one| one.why = None);
        assessment.unobserved.iter_mut().for_each(|one| one.why.clear());
        assessment.events.clear();
        relief.events.clear();
        Ok(then)
    }

    /// What is left of an incident before its ticks are read again.
    fn incident(&mut self, incident: Incident) -> Incident {
        let Incident {
            state, kinds, begin, end, to, is_cut, triggers, more_triggers, node, ..
        } = incident;
        // Their names are isobar's own; the words behind them may name what is the node's.
        let bare = |one: Capability| Capability { detail: String::new(), remedy: None, ..one };
        let capabilities = incident.capabilities.into_iter().map(bare).collect();
        let changes = incident.changes.into_iter();
        let changes =
            changes.map(|one| Change { capability: bare(one.capability), ..one }).collect();
        let triggers: Vec<_> = triggers.into_iter().map(|one| self.trigger(one)).collect();
        let name = triggers.first().map(name_of).unwrap_or_default();
        let who = triggers.first().map(|first| first.who.clone()).unwrap_or_default();
        let node = self.text(&node);
        let told = Incident {
            name,
            state,
            node,
            kinds,
            who,
            begin,
            end,
            to,
            is_cut,
            more_triggers,
            ..Incident::default()
        };
        Incident { triggers, capabilities, changes, ..told }
    }

    fn trigger(&mut self, trigger: Trigger) -> Trigger {
        let who = self.who(&trigger.who);
        let text = match trigger.kind {
            Kind::OomKill => format!("the kernel's OOM killer killed a process of {who}"),
            Kind::Kill => format!("isobar decided to end {who}"),
            Kind::Condition => format!("{who} became True"),
            Kind::Action => format!("isobar decided on a step on {who}"),
            Kind::Exhaustion => format!("{who} is met"),
            Kind::Drift => match change(&trigger.text) {
                Some(change) => format!("{who}: {change}"),
                None => format!("another writer changed {who}"),
            },
        };
        Trigger { who, text, ..trigger }
    }

    /// A container is told with its pod.
    fn who(&mut self, who: &str) -> String {
        let named = who.strip_prefix("container ").and_then(|rest| rest.split_once(" of "));
        let nameless =
            || who.strip_prefix("a container of ")?.strip_suffix(')')?.split_once(" (id ");
        match (named, nameless()) {
            (Some((container, pod)), _) => {
                format!("container {} of {}", self.text(container), self.text(pod))
            }
            (None, Some((pod, id))) => workload::nameless(&self.text(pod), &self.text(id)),
            (None, None) => self.text(who),
        }
    }

    /// What is written in place of a text: the parts of a path, or of a name with its namespace or
    /// domain, each by itself.
    pub fn text(&mut self, text: &str) -> String {
        if is_word(text) {
            return text.into();
        }
        let parts: Vec<_> = text.split('/').map(|part| self.part(part)).collect();
        parts.join("/")
    }

    fn part(&mut self, part: &str) -> String {
        if let Some(slice) = part.strip_suffix(SLICE) {
            let levels: Vec<_> = slice.split('-').map(|level| self.level(level)).collect();
            return format!("{}{SLICE}", levels.join("-"));
        }
        let suffix = SUFFIXES.iter().find(|suffix| part.ends_with(**suffix)).unwrap_or(&"");
        format!("{}{suffix}", self.stem(part.strip_suffix(suffix).unwrap_or(part)))
    }

    /// One level of a slice, in which a dash is written as an underscore.
    fn level(&mut self, level: &str) -> String {
        self.stem(&level.replace('_', "-")).replace('-', "_")
    }

    fn stem(&mut self, stem: &str) -> String {
        let (mut told, mut rest) = (String::new(), stem);
        loop {
            if let Some(form) = self.form(rest) {
                return told + &form;
            }
            let Some(uid) = rest.strip_prefix(POD).filter(|uid| !uid.is_empty()) else {
                return told + &self.unit(rest);
            };
            told.push_str(POD);
            rest = uid;
        }
    }

    /// What is written in place of a word or an id, or what ends with one; `None` for a name.
    fn form(&mut self, stem: &str) -> Option<String> {
        // A wildcard of a pattern, or nothing.
        let is_wild = stem.chars().all(|c| "*?".contains(c));
        if is_wild || is_word(stem) {
            return Some(stem.into());
        }
        if is_id(stem) {
            return Some(self.id(stem));
        }
        let (prefix, id) = id_at_end(stem)?;
        let prefix = if RUNTIMES.contains(&prefix) { prefix.into() } else { self.name(prefix) };
        Some(format!("{prefix}{}", self.id(id)))
    }

    /// What a unit of systemd is an instance of, such as sshd@1.service, stays.
    fn unit(&mut self, stem: &str) -> String {
        match stem.split_once(['.', '@']) {
            Some((unit, rest)) if is_word(unit) => {
                let sign = &stem[unit.len()..=unit.len()];
                format!("{unit}{sign}{}", self.name(rest))
            }
            _ => self.name(stem),
        }
    }

    /// Of the same form: the digits tell which it is.
    fn id(&mut self, id: &str) -> String {
        self.other(id, |mut n| {
            let mut text = id.as_bytes().to_vec();
            for digit in text.iter_mut().rev().filter(|byte| **byte != b'-') {
                (*digit, n) = (b"0123456789abcdef"[n % 16], n / 16);
            }
            String::from_utf8(text).expect("digits and dashes")
        })
    }

    /// Without a dash, which would make two levels of a slice of it.
    fn name(&mut self, name: &str) -> String {
        self.other(name, |n| format!("name{n}"))
    }

    /// The other name for a name: `make` makes one from its number. It is not kept once there is no room.
    fn other(&mut self, name: &str, make: impl FnOnce(usize) -> String) -> String {
        if let Some(other) = self.others.get(name) {
            return other.clone();
        }
        let other = make(self.others.len() + 1);
        self.held = self.held.saturating_add(name.len() + other.len() + ENTRY);
        if self.held <= LARGEST {
            self.others.insert(name.into(), other.clone());
        }
        other
    }
}

/// What a decision came to, whatever names there are in it.
fn gist(decision: &Decision) -> impl PartialEq + use<> {
    let Decision { assessment, relief, .. } = decision;
    let steps = relief.actions.iter().map(|one| {
        let groups = one.target.groups.iter().map(|group| group.id).collect::<Vec<_>>();
        (one.id, one.step, one.target.cgroup, groups, one.is_enforced)
    });
    let conditions = assessment.conditions.iter().map(|one| (one.name, one.status));
    let met = assessment.met.iter().map(|met| (met.threshold.resource(), met.is_due));
    (
        steps.collect::<Vec<_>>(),
        relief.held.as_ref().map(Hold::name),
        conditions.collect::<Vec<_>>(),
        met.collect::<Vec<_>>(),
        assessment.node_pressure.clone(),
        assessment.taints.len(),
    )
}

/// From which value to which a limit was changed, and whether it was written again.
fn change(text: &str) -> Option<String> {
    const CHANGED: &str = "another writer changed ";
    const THEN: [&str; 3] = [
        "; it was written again",
        "; without writeLimits it stays so",
        ", 3 times within six hours and is left to them",
    ];
    let told = &text[text.find(CHANGED)? + CHANGED.len()..];
    let words = told.split([';', ' ']).collect::<Vec<_>>();
    let [before, "to", after, ..] = words[..] else { return None };
    let [before, after] = [before, after].map(|value| value.trim_matches(['"', ',']));
    let is_figure = |value: &str| {
        value == "max" || value.bytes().all(|b| b.is_ascii_digit() || b"-,".contains(&b))
    };
    let then = THEN.iter().find(|then| told.contains(**then)).unwrap_or(&"");
    let is_known = is_figure(before) && is_figure(after);
    is_known.then(|| format!("{CHANGED}{before} to {after}{then}"))
}

fn is_word(text: &str) -> bool {
    WORDS.contains(&text) || is_known(text)
}

/// A uid, the id of a container or of a boot.
fn is_id(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_plain && text.bytes().filter(u8::is_ascii_hexdigit).count() >= UID
}

/// A container's id behind something.
fn id_at_end(text: &str) -> Option<(&str, &str)> {
    let (prefix, id) = text.split_at_checked(text.len().checked_sub(ID)?)?;
    id.bytes().all(|b| b.is_ascii_hexdigit()).then_some((prefix, id))
}

#[cfg(test)]
mod tests;
