use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use isobar_core::model::decision::StepKind::{self, Reclaim, Squeeze};

use super::*;

#[test]
fn mode_overrides_the_configuration() {
    #[rustfmt::skip]
    let table: [(Mode, &[StepKind], &[StepKind]); 4] = [
        // mode, configured, enforced
        (Mode::Configured, &[],        &[]),
        (Mode::Configured, &[Squeeze], &[Squeeze]),
        (Mode::Observe,    &[],        &[]),
        (Mode::Observe,    &[Squeeze], &[]),
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
fn bind_decides_whether_limits_are_written() {
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
        let mut authority = Authority::new(mode, dir.path());
        authority.unable = is_unable.then(|| "no".into());
        let mut settings = Settings::default();
        if is_named {
            settings.node.write_limits = [Allocatable, ReservedCpus].into();
        }
        authority.bind(&mut settings).unwrap();
        let row = format!("{mode:?} {is_named} {is_unable}");
        assert_eq!(authority.writes_limits(), told.is_some(), "{row}");
        assert_eq!(authority.words(), told.unwrap_or("observing"), "{row}");
        assert_eq!(dir.path().join("lock").exists(), told.is_some(), "one agent alone: {row}");
        authority.only_observe(&mut settings);
        assert!(!authority.writes_limits(), "{row}");
    }
}

#[test]
fn bind_observes_where_no_step_can_be_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut authority = Authority::new(Mode::Configured, dir.path());
    authority.unable = Some("no".into());
    let mut settings = that_enforce();
    authority.bind(&mut settings).unwrap();
    assert_eq!(settings.relief.enforce, BTreeSet::new());
    let told = authority.capabilities(&settings);
    assert_eq!(told[0].state, CapabilityState::Absent, "{told:?}");
    assert!(told[0].detail.contains("observing") && told[0].detail.ends_with(": no"), "{told:?}");
    assert!(!dir.path().join("lock").exists(), "nobody is kept from acting by who cannot");
}

fn that_enforce() -> Settings {
    let mut settings = Settings::default();
    settings.relief.enforce.insert(Reclaim);
    settings
}

fn enforcing(dir: &Path) -> Result<Authority, LockError> {
    let mut authority = Authority::new(Mode::Configured, dir);
    authority.bind(&mut that_enforce()).map(|()| authority)
}

#[test]
fn bind_lets_one_agent_enforce_and_names_it_to_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/by/it");
    let first = enforcing(&dir).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("lock"))), (0o700, 0o600), "nobody else may lock it");
    let told = enforcing(&dir).unwrap_err().to_string();
    let own = format!("(process {})", std::process::id());
    for word in [&own, "/lock", "--mode observe"] {
        assert!(told.contains(word), "{told}");
    }
    for text in ["", "4711x", "-3", "\u{1b}[31m"] {
        fs::write(dir.join("lock"), text).unwrap();
        let told = enforcing(&dir).unwrap_err().to_string();
        assert!(told.starts_with("another isobar enforces"), "{text:?}: {told}");
    }
    drop(first);
    enforcing(&dir).unwrap();
}

#[test]
fn release_if_observing_lets_another_agent_enforce() {
    let dir = tempfile::tempdir().unwrap();
    let mut authority = enforcing(dir.path()).unwrap();
    authority.release_if_observing(&that_enforce());
    assert!(enforcing(dir.path()).is_err(), "it enforces");
    authority.release_if_observing(&Settings::default());
    assert!(enforcing(dir.path()).is_ok() && authority.ledger_dir().is_none());
}

#[test]
fn bind_goes_on_where_no_lock_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    // Below a file no directory can be made, whoever asks.
    let authority = enforcing(&file.join("below")).unwrap();
    let told = authority.capabilities(&Settings::default()).pop().unwrap();
    assert_eq!(told.state, CapabilityState::Absent);
    assert!(told.remedy.is_some_and(|remedy| remedy.contains("--state-dir")), "{}", told.detail);
}
