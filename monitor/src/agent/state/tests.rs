use super::*;

/// A standing that has counted `n` actions, in the form of the file.
fn standing(n: u64) -> ReliefStanding {
    serde_json::from_value(serde_json::json!({ "nActions": n })).unwrap()
}

fn restore(state: &mut State, boot_id: &str) -> Option<ReliefStanding> {
    state.restore(boot_id, &standing(0), Nanos(0))
}

#[test]
fn what_is_kept_is_found_again_in_the_same_boot_only() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/by/it");
    let mut first = State::at(&dir);
    first.claim().unwrap();
    assert_eq!(restore(&mut first, "this boot"), None, "nothing was kept yet");
    first.keep(&standing(3));
    drop(first);
    let file = dir.join("relief.json");
    let kept = fs::read_to_string(&file).unwrap();
    #[rustfmt::skip]
    let table = [
        // the file, the boot, what is gone by
        (kept.clone(),                                   "this boot", Some(standing(3))),
        (kept.clone(),                                   "the next",  None),
        (kept.replace("\"format\":1", "\"format\":2"),   "this boot", None),
        (kept[..kept.len() / 2].to_owned(),              "this boot", None),
        (String::new(),                                  "this boot", None),
    ];
    for (text, boot_id, want) in table {
        fs::write(&file, &text).unwrap();
        let mut next = State::at(&dir);
        next.claim().unwrap();
        assert_eq!(restore(&mut next, boot_id), want, "{text:?} at {boot_id}");
    }
}

#[test]
fn only_one_enforces_and_who_does_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (State::at(dir.path()), State::at(dir.path()));
    first.claim().unwrap();
    let told = second.claim().unwrap_err().to_string();
    let own = format!("(process {})", std::process::id());
    for word in [&own, "/lock", "--mode observe"] {
        assert!(told.contains(word), "{told}");
    }
    assert!(!second.is_ours() && restore(&mut second, "boot").is_none());
    drop(first);
    second.claim().unwrap();
}

#[test]
fn a_lock_in_which_nobody_is_named_is_still_a_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = State::at(dir.path());
    first.claim().unwrap();
    for text in ["", "4711x", "-3", "\u{1b}[31m"] {
        fs::write(dir.path().join("lock"), text).unwrap();
        let told = State::at(dir.path()).claim().unwrap_err().to_string();
        assert!(told.starts_with("another isobar enforces"), "{text:?}: {told}");
    }
}

#[test]
fn where_nothing_can_be_kept_it_goes_on_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    // Below a file no directory can be made, whoever asks.
    let mut state = State::at(&file.join("below"));
    state.claim().unwrap();
    state.keep(&standing(1));
    assert_eq!(restore(&mut state, "boot"), None);
    let told = state.capability().unwrap();
    assert_eq!(told.state, CapabilityState::Absent);
    assert!(told.remedy.is_some_and(|remedy| remedy.contains("--state-dir")), "{}", told.detail);
}

#[test]
fn what_has_not_changed_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::at(dir.path());
    state.claim().unwrap();
    state.keep(&standing(1));
    let file = dir.path().join("relief.json");
    fs::remove_file(&file).unwrap();
    state.keep(&standing(1));
    assert!(!file.exists());
    state.keep(&standing(2));
    assert!(file.exists());
}
