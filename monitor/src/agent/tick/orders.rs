//! Other orders while the agent runs: a configuration that was read again, or that the kubelet has
//! told, and an actuator for it.

use std::path::Path;

use super::Tick;
use crate::act::{self, Actuator};
use crate::agent::actuator::Handle;
use crate::agent::authority::LockError;
use crate::agent::cluster::Cluster;
use crate::agent::log;
use crate::agent::plan::{Orders, Plan};
use crate::agent::sampler::Source;
use crate::causes::chain;
use crate::clock;
use crate::config::{self, Difference, KubeletSource};
use isobar_core::model::decision::InForce;
use isobar_core::model::settings::{Relief, Settings};

impl<S: Source> Tick<S> {
    /// Takes up what the kubelet has told of its configuration since, if that is to be used.
    pub(in crate::agent) fn heed_kubelet(&mut self, orders: &mut Orders) {
        if self.cluster.as_ref().is_some_and(Cluster::has_news) {
            self.reload(orders);
        }
    }

    /// Uses another configuration from the next tick on. A bad one changes nothing.
    pub(in crate::agent) fn reload(&mut self, orders: &mut Orders) {
        let configz = self.cluster.as_ref().and_then(Cluster::configz);
        let read = (orders.again)(configz.as_ref().map(|configz| configz.answer.as_bytes()));
        if let Some(cluster) = &mut self.cluster {
            let result = read.as_ref().map(|plan| plan.kubelet).map_err(ToString::to_string);
            cluster.took(configz, result);
        }
        let Plan { mut settings, publish, kubelet, pods } = match read {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!("cannot use the new configuration; keeping the old one: {why}");
                return;
            }
        };
        let before = self.engine.settings();
        if kubelet == KubeletSource::Configz {
            for Difference { keys, before, after } in config::differences(before, &settings) {
                tracing::info!(%before, %after, "by the kubelet's /configz: {keys}");
            }
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
        (self.sampler.pods, self.publish) = (pods, publish);
    }

    /// Opens the actuator for these settings. If it cannot be, nothing is enforced, and the
    /// settings say so.
    pub(super) fn begin_to_act(&mut self, settings: &mut Settings) -> Result<(), LockError> {
        match self.open_actuator(&settings.relief) {
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
            evict_by: self.cluster.as_ref().map(Cluster::way),
        };
        let actuator = Actuator::open(options).map_err(|why| chain(&why))?;
        let opened = Handle::begin(actuator);
        let opened = opened.map_err(|why| format!("no thread can be made: {why}"))?;
        opened.enforce_only(&relief.enforce);
        Ok(opened)
    }
}
