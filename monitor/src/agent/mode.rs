//! What the agent may do on the node: by the operator's word, and by what can be done here.
//! In: settings as they were configured. Out: the same, naming as enforced what really will be.

use super::state::{State, StateError};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::decision::StepKind;
use isobar_core::model::settings::Settings;

/// What the operator lets the agent do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// What the configuration names: nothing, if it names nothing.
    #[default]
    Configured,
    /// Nothing, whatever the configuration names.
    Observe,
    /// What the configuration names, or every step if it names none.
    Enforce,
}

impl Mode {
    fn apply(self, settings: &mut Settings) {
        let enforce = &mut settings.relief.enforce;
        match self {
            Self::Observe if !enforce.is_empty() => {
                tracing::warn!("relief.enforce: nothing of it is done with --mode observe");
                enforce.clear();
            }
            Self::Enforce if enforce.is_empty() => enforce.extend(StepKind::ALL),
            Self::Configured | Self::Observe | Self::Enforce => {}
        }
    }
}

/// What may be done, and what it takes: somebody who acts, and nobody beside us who does.
#[derive(Debug)]
pub(super) struct Warrant {
    pub(super) mode: Mode,
    /// Why nothing can be done here, if nothing can.
    pub(super) unable: Option<String>,
    pub(super) state: State,
    /// Limits that the settings name are written.
    writes_limits: bool,
    /// What the settings that hold name as enforced, in words.
    words: String,
}

impl Warrant {
    pub(super) fn new(mode: Mode, state: State) -> Self {
        Self { mode, unable: None, state, writes_limits: false, words: String::new() }
    }

    /// Makes the settings say what will be enforced. If something is, this agent is the only one
    /// on the node that enforces, from now until it ends.
    ///
    /// # Errors
    /// [`StateError::Held`] if another one enforces; the settings are as configured then.
    pub(super) fn bind(&mut self, settings: &mut Settings) -> Result<(), StateError> {
        self.mode.apply(settings);
        self.writes_limits = self.mode != Mode::Observe && !settings.node.write_limits.is_empty();
        if self.writes_limits || !settings.relief.enforce.is_empty() {
            match &self.unable {
                Some(why) => {
                    tracing::error!("observing: nothing can be done on this node: {why}");
                    settings.relief.enforce.clear();
                    self.writes_limits = false;
                    self.state.let_go();
                }
                None => self.state.claim()?,
            }
        }
        self.tell(settings);
        Ok(())
    }

    /// Has the settings say that nothing is enforced.
    pub(super) fn only_observe(&mut self, settings: &mut Settings) {
        settings.relief.enforce.clear();
        self.writes_limits = false;
        self.tell(settings);
    }

    fn tell(&mut self, settings: &Settings) {
        self.words = words(settings);
        if self.writes_limits {
            let names: Vec<_> = settings.node.write_limits.iter().map(|one| one.name()).collect();
            self.words = format!("{}, and writing limits ({})", self.words, names.join(", "));
        }
    }

    /// True if limits are written that the settings name; else it is only looked how they stand.
    pub(super) fn writes_limits(&self) -> bool {
        self.writes_limits
    }

    /// What is enforced, for the log.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// The same, and what is remembered on disk.
    pub(super) fn capabilities(&self, settings: &Settings) -> Vec<Capability> {
        let is_enforcing = !settings.relief.enforce.is_empty();
        let (state, remedy) = match (&self.unable, is_enforcing) {
            (_, true) => (CapabilityState::Attached, None),
            (None, false) => (CapabilityState::Off, None),
            (Some(_), false) => {
                (CapabilityState::Absent, Some("run as root, in the node's own namespaces".into()))
            }
        };
        let mut detail = self.words.clone();
        if let Some(why) = &self.unable {
            detail = format!("{detail}; nothing can be done on this node: {why}");
        }
        let relief = Capability { name: "relief".into(), state, detail, remedy };
        [Some(relief), self.state.capability()].into_iter().flatten().collect()
    }
}

/// `observing`, or `enforcing` with the steps that may be chosen and will be taken.
fn words(settings: &Settings) -> String {
    let relief = &settings.relief;
    let steps: Vec<&str> = relief.enforce.intersection(&relief.steps).map(|s| s.name()).collect();
    match (relief.enforce.is_empty(), steps.is_empty()) {
        (true, _) => "observing".into(),
        (false, true) => "enforcing nothing: relief.steps names no step of relief.enforce".into(),
        (false, false) => format!("enforcing {}", steps.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use StepKind::{KillContainers, Reclaim, Squeeze};

    #[test]
    fn the_mode_decides_over_what_the_configuration_names() {
        let all: &[StepKind] = &StepKind::ALL;
        #[rustfmt::skip]
        let table: [(Mode, &[StepKind], &[StepKind]); 6] = [
            // mode, configured, enforced
            (Mode::Configured, &[],        &[]),
            (Mode::Configured, &[Squeeze], &[Squeeze]),
            (Mode::Observe,    &[],        &[]),
            (Mode::Observe,    &[Squeeze], &[]),
            (Mode::Enforce,    &[],        all),
            (Mode::Enforce,    &[Squeeze], &[Squeeze]),
        ];
        for (mode, configured, want) in table {
            let mut settings = Settings::default();
            settings.relief.enforce = configured.iter().copied().collect();
            mode.apply(&mut settings);
            let got: Vec<_> = settings.relief.enforce.into_iter().collect();
            assert_eq!(got, want, "{mode:?} {configured:?}");
        }
    }

    #[test]
    fn limits_are_written_where_they_are_named_unless_the_agent_observes_or_cannot_act() {
        use isobar_core::model::settings::WrittenLimit::{Allocatable, ReservedCpus};
        let both = "observing, and writing limits (allocatable, reservedCpus)";
        #[rustfmt::skip]
        let table = [
            // mode, named, nothing can be done, told
            (Mode::Configured, true,  false, Some(both)),
            (Mode::Configured, false, false, None),
            (Mode::Observe,    true,  false, None),
            (Mode::Configured, true,  true,  None),
        ];
        for (mode, is_named, is_unable, told) in table {
            let dir = tempfile::tempdir().unwrap();
            let mut warrant = Warrant::new(mode, State::at(dir.path()));
            warrant.unable = is_unable.then(|| "no".into());
            let mut settings = Settings::default();
            if is_named {
                settings.node.write_limits = [Allocatable, ReservedCpus].into();
            }
            warrant.bind(&mut settings).unwrap();
            let row = format!("{mode:?} {is_named} {is_unable}");
            assert_eq!(warrant.writes_limits(), told.is_some(), "{row}");
            assert_eq!(warrant.words(), told.unwrap_or("observing"), "{row}");
            assert_eq!(dir.path().join("lock").exists(), told.is_some(), "one agent alone: {row}");
            warrant.only_observe(&mut settings);
            assert!(!warrant.writes_limits(), "{row}");
        }
    }

    #[test]
    fn what_is_told_is_what_will_be_done() {
        #[rustfmt::skip]
        let table: [(&[StepKind], &[StepKind], &str); 4] = [
            // enforced, may be chosen, told
            (&[],                        &StepKind::ALL, "observing"),
            (&[KillContainers, Squeeze], &StepKind::ALL, "enforcing squeeze, killContainers"),
            (&[KillContainers, Squeeze], &[Squeeze],     "enforcing squeeze"),
            (&[Squeeze],                 &[Reclaim],     "enforcing nothing: relief.steps names no step of relief.enforce"),
        ];
        for (enforced, steps, want) in table {
            let mut settings = Settings::default();
            settings.relief.enforce = enforced.iter().copied().collect();
            settings.relief.steps = steps.iter().copied().collect();
            assert_eq!(words(&settings), want, "{enforced:?} of {steps:?}");
        }
    }

    #[test]
    fn who_cannot_act_observes_and_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let mut warrant = Warrant::new(Mode::Enforce, State::at(dir.path()));
        warrant.unable = Some("no".into());
        let mut settings = Settings::default();
        warrant.bind(&mut settings).unwrap();
        assert_eq!(settings.relief.enforce, BTreeSet::new());
        let told = warrant.capabilities(&settings);
        assert_eq!(told[0].state, CapabilityState::Absent, "{told:?}");
        assert!(
            told[0].detail.contains("observing") && told[0].detail.ends_with(": no"),
            "{told:?}"
        );
        assert!(!dir.path().join("lock").exists(), "nobody is kept from acting by who cannot");
    }
}
