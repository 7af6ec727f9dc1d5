//! What the cluster is told of each tick: conditions, taints and events, out of a decision and what
//! came of earlier ones.

mod changes;
mod configz;
mod node;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use self::changes::{Changes, change};
use self::configz::Standing;
use self::requests::Requests;
use crate::config::kubernetes::{Access, Publish};
pub(super) use crate::kube::Configz;
use crate::kube::{About, ApiServer, Note, Wanted};
use crate::record::incident::watch::Seen;
use isobar_core::model::capability::Capability;
use isobar_core::model::decision::{Action, Event, Outcome, OutcomeResult, StepKind, Target};
use isobar_core::model::limit::NodeResources;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::{Deletion, Relief, Settings};
use isobar_core::model::workload::Pod;
use isobar_core::policy::assess::nearly::may_kubelet_evict;
use isobar_core::policy::assess::taint;
use isobar_core::policy::explain::relief as words;
use isobar_core::view::OomRecord;

/// Of so many actions the targets are remembered: outcomes come seconds later.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) api: ApiServer,
    /// The last actions that end work, and the pods that they end.
    ending: VecDeque<(Action, Vec<About>)>,
    /// Which of the kubelet's answers the agent has read its configuration with.
    pub(super) kubelet: Standing,
    requests: Requests,
    changes: Changes,
}

impl Cluster {
    /// Begins to talk to the API server.
    ///
    /// # Errors
    /// If no thread can be made.
    pub(super) fn begin(access: Access, relief: &Relief) -> io::Result<Self> {
        let api = ApiServer::begin(access, evictions(relief))?;
        let (ending, kubelet, requests, changes) = Default::default();
        Ok(Self { api, ending, kubelet, requests, changes })
    }

    /// Whether that should be taken up, and was not tried yet.
    pub(super) fn has_news(&self) -> bool {
        self.api.configz().is_some_and(|configz| self.kubelet.is_news(&configz))
    }

    /// What works and what does not; `own` is what isobar works out that the node has for pods.
    pub(super) fn capabilities(&self, own: Option<&NodeResources>) -> Vec<Capability> {
        let mut all = self.api.capabilities();
        if let Some((published, own)) = self.api.allocatable().zip(own) {
            node::compare(&mut all, &published, own);
        }
        self.kubelet.complete(&mut all);
        all.extend(self.requests.capability());
        all
    }

    /// Tells what one tick came to. Never waits.
    pub(super) fn tell(&mut self, settings: &Settings, publish: Publish, seen: Seen<'_>) {
        let Seen { sample, decision, .. } = seen;
        if let Some(configz) = self.api.configz() {
            self.kubelet.compare(settings, configz);
        }
        self.api.set_evictions(evictions(&settings.relief));
        let ends = settings.relief.enforce.iter().any(|step| step.is_final());
        let observations = &decision.assessment.observations;
        self.api.set_may_kubelet_evict(ends && may_kubelet_evict(&settings.eviction, observations));
        self.api.publish(Wanted {
            publish: Some(publish),
            conditions: decision.assessment.conditions.clone(),
            taints: decision.assessment.taints.clone(),
            taint_keys: taint::keys(&settings.conditions.prefix),
            former_keys: BTreeSet::new(),
            is_last: false,
        });
        let over = self.add_up(sample);
        over.iter().for_each(|text| tracing::warn!("{text}"));
        if publish.events {
            for message in over {
                let (reason, is_warning) = ("NodeOvercommitted".into(), true);
                let event = Event { reason, message, is_warning };
                self.api.note(change(&event, true, decision.at));
            }
            let enforces = !settings.relief.enforce.is_empty();
            self.notes(seen, enforces).into_iter().for_each(|note| self.api.note(note));
        }
    }

    /// What pods request beyond what the node has, as far as it is new.
    fn add_up(&mut self, sample: &Sample) -> Vec<String> {
        let allocatable = self.api.allocatable();
        let Some((pods, allocatable)) = sample.pods.as_ref().zip(allocatable) else {
            return Vec::new();
        };
        self.requests.update(pods, &allocatable)
    }

    fn notes(&mut self, seen: Seen<'_>, enforces: bool) -> Vec<Note> {
        let Seen { sample, decision, kills, limits } = seen;
        let at = decision.at;
        let mut notes: Vec<Note> = kills.iter().map(|kill| oom_kill(kill, at)).collect();
        for outcome in &sample.outcomes {
            let ending = self.ending.iter().find(|(action, _)| action.id == outcome.action);
            notes.extend(ending.map(|ending| came_to(outcome, ending, at)).unwrap_or_default());
        }
        // That a condition can be judged stands in the condition.
        let changes = decision.events().filter(|event| event.reason != "PressureKnown");
        notes.extend(changes.map(|event| change(event, enforces, at)));
        notes.extend(self.changes.notes(decision, limits));
        for action in &decision.relief.actions {
            let ending = (action.clone(), pods(&action.target, sample));
            notes.extend(begun(&ending, at));
            if action.step.is_final() && action.is_enforced {
                self.ending.push_back(ending);
            }
        }
        let n = self.ending.len();
        self.ending.drain(..n.saturating_sub(REMEMBERED));
        notes
    }
}

/// As [`ApiServer::set_evictions`] has them.
fn evictions(relief: &Relief) -> Option<Deletion> {
    relief.enforce.contains(&StepKind::Evict).then_some(relief.deletion)
}

/// An action: on the node, and if it ends a pod here, on the pod. Whether a pod is evicted the API
/// server says.
fn begun((action, pods): &(Action, Vec<About>), at: Moment) -> Vec<Note> {
    let step = action.step.name();
    let text = format!("{}; {}", words::action(action, at.boot), words::choice(action));
    let reason = if action.is_enforced { "Relief" } else { "ReliefObserved" };
    let on_node = Note {
        is_warning: action.is_enforced && action.step.is_final(),
        action: step.into(),
        subject: subject(action),
        ..note(at, reason, &text)
    };
    let is_ended_here = matches!(action.step, StepKind::StopContainers | StepKind::KillContainers);
    let ended = pods.iter().filter(|_| is_ended_here && action.is_enforced);
    let on_pods = ended.map(|pod| on_pod(pod, action, "Killing", &text, at));
    [on_node].into_iter().chain(on_pods).collect()
}

/// What befell one victim is a series for each step.
fn subject(action: &Action) -> String {
    format!("{} {}", action.step.name(), action.target.uid)
}

/// That a pod is ended, as the kubelet would put it where it would do the same.
fn on_pod(pod: &About, action: &Action, reason: &str, text: &str, at: Moment) -> Note {
    let text = if action.message.is_empty() { text } else { &action.message };
    Note {
        about: pod.clone(),
        is_warning: true,
        action: action.step.name().into(),
        annotations: action.annotations.clone(),
        ..note(at, reason, text)
    }
}

/// An action that ended work, or was to.
fn came_to(outcome: &Outcome, (action, pods): &(Action, Vec<About>), at: Moment) -> Vec<Note> {
    let has_ended = outcome.freed.is_some() || outcome.ended.is_some_and(|n| n > 0);
    let (reason, is_warning) = match outcome.result {
        OutcomeResult::Done if has_ended => ("ReliefDone", false),
        OutcomeResult::Done => return Vec::new(),
        OutcomeResult::Refused => ("ReliefRefused", true),
        OutcomeResult::Failed => ("ReliefFailed", true),
    };
    let text = format!("{}: {}", action.target.full_name(), outcome.detail);
    let on_node = Note { is_warning, subject: subject(action), ..note(at, reason, &text) };
    let is_evicted = action.step == StepKind::Evict && outcome.result == OutcomeResult::Done;
    let evicted = pods.iter().filter(|_| is_evicted);
    let on_pods = evicted.map(|pod| on_pod(pod, action, "Evicted", &text, at));
    [on_node].into_iter().chain(on_pods).collect()
}

fn oom_kill(record: &OomRecord, at: Moment) -> Note {
    let limit = match (&record.limit_path, record.kill.limit_known) {
        (Some(limit), _) => format!("at the limit of {limit}"),
        (None, true) if record.kill.limit.is_none() => "because the node was out of memory".into(),
        _ => "at a limit that is not known".into(),
    };
    let text = format!("{} {limit}", record.sentence());
    Note { is_warning: true, subject: record.who().into(), ..note(at, "OOMKilled", &text) }
}

/// A note about the node, of something that was seen.
fn note(at: Moment, reason: &str, text: &str) -> Note {
    Note {
        at,
        about: About::Node,
        reason: reason.into(),
        text: text.into(),
        is_warning: false,
        action: "judge".into(),
        annotations: BTreeMap::new(),
        subject: String::new(),
    }
}

/// The pod that a target is, or those of a group, as far as the API knows them.
fn pods(target: &Target, sample: &Sample) -> Vec<About> {
    let known = target.uids().filter_map(|uid| sample.pod(uid));
    let about = |Pod { namespace, name, uid, .. }: &Pod| About::Pod {
        namespace: namespace.clone(),
        name: name.clone(),
        uid: uid.clone(),
    };
    known.filter(|pod| !pod.namespace.is_empty()).map(about).collect()
}
