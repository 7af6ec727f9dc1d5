//! What the cluster is told of each tick: conditions, taints and events, out of a decision and what
//! came of earlier ones.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use crate::act::evict::Way;
use crate::config::kubernetes::{Access, Publish};
use crate::kube::{About, ApiServer, Note, Wanted};
use isobar_core::model::capability::Capability;
use isobar_core::model::decision::{
    Action, Decision, Event, Outcome, OutcomeResult, StepKind, Target,
};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Pods;
use isobar_core::policy::assess::taint;
use isobar_core::policy::explain::relief as words;
use isobar_core::view::OomRecord;

/// Of so many actions the targets are remembered: outcomes come seconds later.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(super) struct Cluster {
    api: ApiServer,
    /// Targets of the last actions that end work, by action.
    ending: VecDeque<(u64, Target)>,
}

impl Cluster {
    /// Begins to talk to the API server.
    ///
    /// # Errors
    /// If no thread can be made.
    pub(super) fn begin(access: Access) -> io::Result<Self> {
        Ok(Self { api: ApiServer::begin(access)?, ending: VecDeque::new() })
    }

    /// The pods of this node, as the API server has them; `None` before it has listed them.
    pub(super) fn pods(&self) -> Option<Pods> {
        self.api.pods()
    }

    /// The way by which the actuator evicts.
    pub(super) fn way(&self) -> Way {
        self.api.way()
    }

    pub(super) fn capabilities(&self) -> Vec<Capability> {
        self.api.capabilities()
    }

    /// Tells what one tick came to. Never waits.
    pub(super) fn tell(
        &mut self,
        settings: &Settings,
        publish: Publish,
        sample: &Sample,
        decision: &Decision,
        kills: &[OomRecord],
    ) {
        self.api.publish(Wanted {
            publish: Some(publish),
            conditions: decision.assessment.conditions.clone(),
            taints: decision.assessment.taints.clone(),
            taint_keys: taint::keys(&settings.conditions.prefix),
            is_last: false,
        });
        if publish.events {
            self.notes(sample, decision, kills).into_iter().for_each(|note| self.api.note(note));
        }
    }

    /// The last word, within this time.
    pub(super) fn leave(self, within: Duration) {
        self.api.leave(within);
    }

    fn notes(&mut self, sample: &Sample, decision: &Decision, kills: &[OomRecord]) -> Vec<Note> {
        let at = decision.at.wall;
        let mut notes: Vec<Note> = kills.iter().map(|kill| oom_kill(kill, at)).collect();
        for outcome in &sample.outcomes {
            let target = self.ending.iter().find(|(action, _)| *action == outcome.action);
            notes.extend(target.and_then(|(_, target)| came_to(outcome, target, at)));
        }
        // That a condition can be judged stands in the condition.
        let changes = decision.events().filter(|event| event.reason != "PressureKnown");
        notes.extend(changes.map(|event| change(event, at)));
        for action in &decision.relief.actions {
            notes.extend(begun(action, decision.at.boot, at));
            if action.step.is_final() && action.is_enforced {
                self.ending.push_back((action.id, action.target.clone()));
            }
        }
        let n = self.ending.len();
        self.ending.drain(..n.saturating_sub(REMEMBERED));
        notes
    }
}

/// A change of a condition, or of relief.
fn change(Event { reason, message, is_warning }: &Event, at: Nanos) -> Note {
    // The condition's type, as a rule: two conditions that change are two series.
    let subject = message.split(' ').next().unwrap_or_default().to_owned();
    Note { is_warning: *is_warning, subject, ..note(at, reason, message) }
}

/// An action: on the node, and if it ends a pod, on the pod as the kubelet would put it.
fn begun(action: &Action, now: Nanos, at: Nanos) -> Vec<Note> {
    let step = action.step.name();
    let text = format!("{}; {}", words::action(action, now), words::choice(action));
    let reason = if action.is_enforced { "Relief" } else { "ReliefObserved" };
    let on_node = Note {
        is_warning: action.is_enforced && action.step.is_final(),
        action: step.into(),
        subject: format!("{step} {}", action.target.uid),
        ..note(at, reason, &text)
    };
    let reason = match action.step {
        StepKind::Evict => "Evicted",
        StepKind::StopContainers | StepKind::KillContainers => "Killing",
        _ => return vec![on_node],
    };
    let Some(about) = pod(&action.target).filter(|_| action.is_enforced) else {
        return vec![on_node];
    };
    let text = if action.message.is_empty() { &text } else { &action.message };
    let on_pod = Note {
        about,
        is_warning: true,
        action: step.into(),
        annotations: action.annotations.clone(),
        ..note(at, reason, text)
    };
    vec![on_node, on_pod]
}

/// An action that ended work, or was to.
fn came_to(outcome: &Outcome, target: &Target, at: Nanos) -> Option<Note> {
    let who = target.full_name();
    let (reason, is_warning) = match outcome.result {
        OutcomeResult::Done if outcome.freed.is_some() => ("ReliefDone", false),
        OutcomeResult::Done => return None,
        OutcomeResult::Refused => ("ReliefRefused", true),
        OutcomeResult::Failed => ("ReliefFailed", true),
    };
    let text = format!("{who}: {}", outcome.detail);
    Some(Note { is_warning, subject: target.uid.clone(), ..note(at, reason, &text) })
}

fn oom_kill(record: &OomRecord, at: Nanos) -> Note {
    let path = record.victim_path.as_ref().map_or("a cgroup that is gone", |path| &*path.0);
    let limit = match (&record.limit_path, record.kill.limit_known) {
        (Some(limit), _) => format!("at the limit of {limit}"),
        (None, true) if record.kill.limit.is_none() => "because the node was out of memory".into(),
        _ => "at a limit that is not known".into(),
    };
    let pid = record.kill.victim_pid;
    let text = format!("the kernel's OOM killer killed process {pid} of {path} {limit}");
    Note { is_warning: true, subject: path.into(), ..note(at, "OOMKilled", &text) }
}

/// A note about the node, of something that was seen.
fn note(at: Nanos, reason: &str, text: &str) -> Note {
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

/// The pod that a target is, if the API knows it.
fn pod(target: &Target) -> Option<About> {
    let Target { namespace, name, uid, .. } = target.clone();
    (!namespace.is_empty()).then_some(About::Pod { namespace, name, uid })
}
