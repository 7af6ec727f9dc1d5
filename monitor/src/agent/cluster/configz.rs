//! What becomes of the configuration that the kubelet answers: it is taken up in place of the kubelet's
//! file, and compared.
//! In: the kubelet's answers, and how the agent took them up. Out: a capability.

use std::sync::Arc;

use crate::config::{self, KubeletSource};
use crate::kube::{CONFIGURATION, Configz};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::settings::Settings;

const REMEDY: &str = "leave these keys out of isobar's configuration";
const REMEDY_OF_FILE: &str = "mount the file that kubeletConfig names, or leave the key out";

/// How isobar's configuration stands to the kubelet's.
#[derive(Debug, Default)]
pub(in crate::agent) struct Standing {
    /// Where the kubelet's fields come from that are in force.
    from: KubeletSource,
    /// The answer that was taken up, or that could not be.
    tried: Option<Arc<Configz>>,
    /// The answer that was taken up last; `None` if none is in force.
    used: Option<Arc<Configz>>,
    /// Why it could not be.
    refused: Option<String>,
    /// The answer that was compared last, and with which of isobar's settings.
    compared: Option<(Arc<Configz>, u64)>,
    /// The keys whose values differ.
    differ: Vec<&'static str>,
}

impl Standing {
    /// Whether the agent should take this answer up.
    pub(super) fn is_news(&self, configz: &Arc<Configz>) -> bool {
        let is_same = |tried: &Arc<Configz>| Arc::ptr_eq(tried, configz);
        !self.tried.as_ref().is_some_and(is_same)
    }

    /// Whether the kubelet runs with the fields that are in use: not where its newest answer was refused.
    pub(in crate::agent) fn is_known(&self) -> bool {
        let is_read = matches!(self.from, KubeletSource::File | KubeletSource::Configz);
        is_read && (self.refused.is_none() || self.tried == self.used)
    }

    /// The agent has read its configuration with this answer, or could not.
    pub(in crate::agent) fn took(
        &mut self,
        configz: Option<Arc<Configz>>,
        result: Result<KubeletSource, String>,
    ) {
        self.tried.clone_from(&configz);
        match result {
            Ok(from) => (self.from, self.used, self.refused) = (from, configz, None),
            Err(why) => self.refused = Some(why),
        }
    }

    /// The configuration could be read without this answer alone, and was.
    pub(in crate::agent) fn did_without(&mut self, configz: Option<Arc<Configz>>, why: String) {
        (self.tried, self.refused) = (configz, Some(why));
    }

    /// The answer that is in force.
    pub(in crate::agent) fn used(&self) -> Option<Arc<Configz>> {
        self.used.clone()
    }

    /// Compares isobar's settings with the kubelet's when either has changed.
    pub(super) fn compare(&mut self, ours: &Settings, configz: Arc<Configz>) {
        let is_same = |(before, generation): &(Arc<Configz>, u64)| {
            Arc::ptr_eq(before, &configz) && *generation == ours.generation
        };
        if self.compared.as_ref().is_some_and(is_same) || self.is_news(&configz) {
            return;
        }
        let differ = config::differences(ours, &configz.settings);
        self.differ = differ.iter().map(|one| one.keys).collect();
        self.compared = Some((configz, ours.generation));
        if !self.differ.is_empty() {
            tracing::warn!(
                remedy = REMEDY,
                "the kubelet runs with other values of {}",
                self.keys()
            );
        }
    }

    /// Adds to the capability of the kubelet's answer what is made of it.
    pub(super) fn complete(&self, all: &mut Vec<Capability>) {
        let Some(told) = all.iter_mut().find(|one| one.name == CONFIGURATION) else {
            let (state, gap, remedy) = match self.from {
                KubeletSource::Nowhere => (CapabilityState::Off, "", None),
                KubeletSource::Missing => (
                    CapabilityState::Absent,
                    "the file that kubeletConfig names is not there, and ",
                    Some(REMEDY_OF_FILE.into()),
                ),
                KubeletSource::File | KubeletSource::Configz => return,
            };
            let detail = format!(
                "{gap}the kubelet has not told its configuration yet; isobar's own configuration \
                 and the defaults are used"
            );
            all.push(Capability { name: CONFIGURATION.into(), state, detail, remedy });
            return;
        };
        let is_known = told.state == CapabilityState::Attached;
        let words = match (&self.refused, self.from) {
            (Some(why), _) if self.used.is_none() => format!("; not used: {why}"),
            (Some(why), _) if self.tried == self.used => {
                format!(
                    "; used with isobar's configuration of before; the new one is refused: {why}"
                )
            }
            (Some(why), _) => format!("; not used, the answer before it stays in force: {why}"),
            (None, from) if is_known && from != KubeletSource::Configz => {
                "; about to be used".into()
            }
            (None, KubeletSource::Missing) => {
                told.remedy = told.remedy.take().or_else(|| Some(REMEDY_OF_FILE.into()));
                "; the file that kubeletConfig names is not there: isobar's own configuration and \
                 the defaults are used"
                    .into()
            }
            (None, KubeletSource::Nowhere) => {
                "; isobar's own configuration and the defaults are used".into()
            }
            (None, KubeletSource::Configz) if is_known => {
                "; used where isobar's own configuration sets nothing".into()
            }
            (None, KubeletSource::Configz) => "; its last answer is used".into(),
            (None, KubeletSource::File) => "; the kubelet's file is used".into(),
        };
        told.detail.push_str(&words);
        if !self.differ.is_empty() {
            told.detail
                .push_str(&format!("; the kubelet runs with other values of {}", self.keys()));
            told.remedy = told.remedy.take().or_else(|| Some(REMEDY.into()));
        }
        if self.refused.is_some() || !self.differ.is_empty() {
            told.state = CapabilityState::Absent;
        }
    }

    fn keys(&self) -> String {
        self.differ.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kubelet_of;

    fn configz(max_pods: u32) -> Arc<Configz> {
        let answer = format!("{{\"kubeletconfig\": {{\"maxPods\": {max_pods}}}}}");
        let settings = kubelet_of(&answer).unwrap();
        Configz { answer, settings }.into()
    }

    #[test]
    fn is_news_until_it_was_tried() {
        use KubeletSource::{Configz, File, Nowhere};
        #[rustfmt::skip]
        let table = [
            // where the kubelet's fields come from, tried, news
            (Nowhere, false, true),
            (Nowhere, true,  false), // refused: it is not tried again at each tick
            (Configz, true,  false),
            (Configz, false, true),  // another answer
            (File,    false, true),  // it has neither drop-ins nor flags
            (File,    true,  false),
        ];
        for (from, is_tried, want) in table {
            let (new, mut standing) = (configz(42), Standing::default());
            let tried = is_tried.then(|| Arc::clone(&new)).or(Some(configz(42)));
            standing.took(tried, Ok(from));
            assert_eq!(standing.is_news(&new), want, "{from:?} {is_tried}");
        }
    }

    #[test]
    fn did_without_keeps_what_is_used_and_tells_why() {
        let (first, second) = (configz(1), configz(2));
        #[rustfmt::skip]
        let table = [
            // used instead, source, detail
            (Some(Arc::clone(&first)), KubeletSource::Configz, "told; not used, the answer before it stays in force: f:1:1: no"),
            (None,                     KubeletSource::Nowhere, "told; not used: f:1:1: no"),
            (None,                     KubeletSource::File,    "told; not used: f:1:1: no"),
        ];
        for (used, from, detail) in table {
            let mut standing = Standing::default();
            standing.took(used.clone(), Ok(from));
            standing.did_without(Some(Arc::clone(&second)), "f:1:1: no".into());
            assert_eq!((standing.used(), standing.is_news(&second)), (used, false), "{detail}");
            assert!(!standing.is_known(), "{detail}");
            let mut all = vec![Capability::new(CONFIGURATION, CapabilityState::Attached, "told")];
            standing.complete(&mut all);
            assert_eq!((&*all[0].detail, all[0].state), (detail, CapabilityState::Absent));
        }
    }

    #[test]
    fn took_an_answer_in_use_that_a_new_file_conflicts_with() {
        let (first, mut standing) = (configz(1), Standing::default());
        standing.took(Some(Arc::clone(&first)), Ok(KubeletSource::Configz));
        standing.took(Some(Arc::clone(&first)), Err("f:1:1: no".into()));
        assert_eq!((standing.used(), standing.is_known()), (Some(first), true));
        let mut all = vec![Capability::new(CONFIGURATION, CapabilityState::Attached, "told")];
        standing.complete(&mut all);
        let detail =
            "told; used with isobar's configuration of before; the new one is refused: f:1:1: no";
        assert_eq!((&*all[0].detail, all[0].state), (detail, CapabilityState::Absent));
    }

    #[test]
    fn complete_tells_what_is_made_of_the_answer() {
        use CapabilityState::{Absent, Attached, Off};
        let (took, refused) = (Ok, || Err("f:1:1: no".to_owned()));
        #[rustfmt::skip]
        let table = [
            // told by the kubelet, taken up, isobar's maxPods, state, detail contains
            (None,           took(KubeletSource::Nowhere), 110, Some(Off),      "has not told its configuration yet"),
            (None,           took(KubeletSource::Missing), 110, Some(Absent),   "the file that kubeletConfig names is not there, and the kubelet has not told"),
            (None,           took(KubeletSource::File),    110, None,           ""),
            (Some(Absent),   took(KubeletSource::Missing), 42,  Some(Absent),   "told; the file that kubeletConfig names is not there: isobar's own"),
            (Some(Attached), took(KubeletSource::Missing), 42,  Some(Attached), "told; about to be used"),
            (Some(Attached), took(KubeletSource::Configz), 42,  Some(Attached), "told; used where isobar's own configuration sets nothing"),
            (Some(Attached), took(KubeletSource::Configz), 7,   Some(Absent),   "sets nothing; the kubelet runs with other values of maxPods"),
            (Some(Absent),   took(KubeletSource::File),    42,  Some(Absent),   "told; the kubelet's file is used"),
            (Some(Attached), refused(),                    110, Some(Absent),   "told; not used: f:1:1: no"),
            (Some(Absent),   took(KubeletSource::Nowhere), 42,  Some(Absent),   "told; isobar's own configuration and the defaults are used"),
            (Some(Absent),   took(KubeletSource::Configz), 42,  Some(Absent),   "told; its last answer is used"),
        ];
        for (told, result, max_pods, state, detail) in table {
            let row = format!("{told:?} {result:?} {max_pods}");
            let (answer, mut standing) = (configz(42), Standing::default());
            let result_of = result.as_ref().ok().copied();
            standing.took(Some(Arc::clone(&answer)), result);
            let is_known = matches!(result_of, Some(KubeletSource::File | KubeletSource::Configz));
            assert_eq!(standing.is_known(), is_known, "{row}");
            standing.compare(&configz(max_pods).settings, answer);
            let told = told.map(|state| Capability::new(CONFIGURATION, state, "told"));
            let mut all = Vec::from_iter(told);
            standing.complete(&mut all);
            assert_eq!(all.first().map(|one| one.state), state, "{row}: {all:?}");
            let got = all.first().map_or("", |one| &one.detail);
            assert!(got.contains(detail), "{row}: {got}");
        }
    }
}
