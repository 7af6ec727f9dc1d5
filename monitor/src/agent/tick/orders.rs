//! Other orders while the agent runs: a configuration that was read again, or that the kubelet has
//! told, and an actuator for it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use super::{FAREWELL, Tick};
use crate::act::{self, Actuator};
use crate::agent::actuator::Handle;
use crate::agent::authority::LockError;
use crate::agent::cluster::{Cluster, Configz};
use crate::agent::log;
use crate::agent::plan::{Orders, Plan};
use crate::agent::sampler::Source;
use crate::causes::chain;
use crate::clock;
use crate::config::{self, Difference, KubeletSource};
use isobar_core::model::decision::InForce;
use isobar_core::model::settings::{Relief, Settings};

/// A configuration that was read, or why it could not be.
struct Read {
    plan: Result<Plan, Box<dyn Error>>,
    /// The answer of the kubelet with which it was.
    with: Option<Arc<Configz>>,
    /// Why it was not read with the newest answer, where it could be read with another, or with none.
    refused: Option<String>,
}

/// Reads the configuration with what the kubelet answers; where that is what is wrong with it, with the
/// answer that was used before, or without any. An answer that is in use already was right: then the
/// operator's own file is what is wrong.
fn read(orders: &mut Orders, newest: Option<Arc<Configz>>, used: Option<Arc<Configz>>) -> Read {
    let mut again = |with: &Option<Arc<Configz>>| {
        (orders.again)(with.as_ref().map(|one| one.answer.as_bytes()))
    };
    let mut why = match again(&newest) {
        Err(why) if newest.is_some() && newest != used => why,
        plan => return Read { plan, with: newest, refused: None },
    };
    let refused = Some(why.to_string());
    let others = used.map(Some).into_iter().chain([None]);
    for with in others {
        match again(&with) {
            Ok(plan) => return Read { plan: Ok(plan), with, refused },
            // What is wrong without any answer is the operator's own.
            Err(other) => why = other,
        }
    }
    Read { plan: Err(why), with: newest, refused: None }
}

impl<S: Source> Tick<S> {
    /// Takes up what the kubelet has told of its configuration since, if that is to be used.
    pub(in crate::agent) fn heed_kubelet(&mut self, orders: &mut Orders) {
        if self.cluster.as_ref().is_some_and(Cluster::has_news) {
            self.reload(orders);
        }
    }

    /// Uses another configuration from the next tick on. A bad one changes nothing; a bad answer of the
    /// kubelet does not keep the operator's own from being used.
    pub(in crate::agent) fn reload(&mut self, orders: &mut Orders) {
        let configz = self.cluster.as_ref().and_then(|cluster| cluster.api.configz());
        let used = self.cluster.as_ref().and_then(|cluster| cluster.kubelet.used());
        let Read { plan, with, refused } = read(orders, configz.clone(), used);
        if let Some(cluster) = &mut self.cluster {
            let result = plan.as_ref().map(|plan| plan.kubelet).map_err(ToString::to_string);
            cluster.kubelet.took(with, result);
            if let Some(why) = refused {
                tracing::error!("cannot use what the kubelet answers to /configz: {why}");
                cluster.kubelet.did_without(configz, why);
            }
        }
        let Plan { mut settings, publish, kubelet, pods } = match plan {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!("cannot use the new configuration; keeping the old one: {why}");
                self.refused_plan = Some(why.to_string());
                return;
            }
        };
        self.refused_plan = None;
        let before = self.engine.settings();
        if kubelet == KubeletSource::Configz {
            for Difference { keys, before, after } in config::differences(before, &settings) {
                tracing::info!(%before, %after, "by the kubelet's /configz: {keys}");
            }
        }
        let root = &before.node.kubelet_root;
        if settings.node.kubelet_root != *root {
            tracing::warn!("kubeletRoot stays {root} until the next start");
            settings.node.kubelet_root.clone_from(root);
        }
        settings.generation = before.generation + 1;
        let (ledger_before, never) =
            (self.authority.ledger_dir().is_some(), before.relief.never_touch.clone());
        // What was in the way may have been mended.
        self.authority.unable = None;
        let bound = self.authority.bind(&mut settings).and_then(|()| {
            let has_ledger = self.authority.ledger_dir().is_some();
            self.is_outdated |= never != settings.relief.never_touch;
            // The node's ledger is read before anything is decided from it.
            if self.actuator.is_err() || has_ledger && !ledger_before {
                self.begin_to_act(&mut settings)?;
            }
            Ok(())
        });
        if let Err(why) = bound {
            tracing::error!("{why}");
            self.authority.only_observe(&mut settings);
            self.is_outdated = true;
        }
        if let Ok(actuator) = &self.actuator {
            actuator.enforce_only(&settings.relief.enforce);
        }
        self.engine = self.engine.with_settings(settings.clone());
        tracing::info!(
            generation = settings.generation,
            "configuration reloaded: {}",
            self.words()
        );
        if let Some(recorder) = &mut self.recorder {
            recorder.reload(settings, self.engine.standing(), clock::now());
        }
        (self.sampler.pods, self.publish, self.kubelet) = (pods, publish, kubelet);
    }

    /// Opens the actuator for these settings. If it cannot be, nothing is enforced, and the
    /// settings say so.
    pub(super) fn begin_to_act(&mut self, settings: &mut Settings) -> Result<(), LockError> {
        // One of an agent that enforced a moment ago may still write the ledger.
        let halted = self.actuator.as_ref().ok().map(|before| before.halt(FAREWELL));
        let opened = match &halted {
            Some(None) => Err("the actuator before it has not halted".into()),
            _ => self.open_actuator(&settings.relief),
        };
        match opened {
            Ok(opened) => {
                self.use_actuator(opened);
                self.is_outdated = false;
                Ok(())
            }
            Err(why) => {
                self.actuator = Err(why.clone());
                self.authority.unable = Some(why);
                self.authority.bind(settings)
            }
        }
    }

    pub(super) fn use_actuator(&mut self, opened: Handle) {
        let known = self.actuator.as_ref().map_or(&[][..], Handle::in_force);
        // Before, ids were counted without the ledger on disk: they do not tell actions apart.
        let is_new = |entry: &&InForce| known.iter().all(|one| one.action != entry.action);
        opened.in_force().iter().filter(is_new).for_each(log::adopted);
        self.actuator = Ok(opened);
    }

    pub(super) fn open_actuator(&self, relief: &Relief) -> Result<Handle, String> {
        let root = self.sampler.source.cgroup_root().ok_or("there is no cgroup tree")?;
        let options = act::Options {
            cgroup_root: root,
            proc: "/proc".into(),
            state: self.authority.ledger_dir().map(Path::to_owned),
            never_touch: relief.never_touch.clone(),
            evict_by: self.cluster.as_ref().map(|cluster| cluster.api.way()),
        };
        let actuator = Actuator::open(options).map_err(|why| chain(&why))?;
        let opened = Handle::begin(actuator);
        let opened = opened.map_err(|why| format!("no thread can be made: {why}"))?;
        opened.enforce_only(&relief.enforce);
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_does_without_an_answer_that_is_refused() {
        let of = |max_pods: u32| {
            let answer = format!("{{\"kubeletconfig\": {{\"maxPods\": {max_pods}}}}}");
            let settings = config::kubelet_of(&answer).unwrap();
            Arc::new(Configz { answer, settings })
        };
        let (first, second) = (of(1), of(2));
        #[rustfmt::skip]
        let table = [
            // newest, used before, what is refused with isobar's own file; read with, refused; None: nothing can be
            (None,          None,         vec![],          Some((None,            false))),
            (Some(&second), Some(&first), vec![],          Some((Some(&second),   false))),
            (Some(&second), Some(&first), vec!["2"],       Some((Some(&first),    true))),
            (Some(&second), Some(&first), vec!["1", "2"],  Some((None,            true))),
            (Some(&second), None,         vec!["2"],       Some((None,            true))),
            // The file itself is wrong.
            (Some(&first),  Some(&first), vec!["1"],       None),
            (Some(&second), Some(&first), vec![""],        None),
            (None,          None,         vec![""],        None),
        ];
        for (newest, used, refused, want) in table {
            let row = format!("{newest:?} {used:?} {refused:?}");
            let bad = refused.clone();
            let again = move |answer: Option<&[u8]>| {
                let text = String::from_utf8(answer.unwrap_or_default().into()).unwrap();
                match bad.iter().any(|part| text.contains(part)) {
                    true => Err("f:1:1: no".into()),
                    false => Ok(Plan::default()),
                }
            };
            let mut orders = Orders::new(Plan::default(), again);
            let got = read(&mut orders, newest.cloned(), used.cloned());
            let is_read = got.plan.is_ok().then_some((got.with.as_ref(), got.refused.is_some()));
            assert_eq!(is_read, want, "{row}");
        }
    }
}
