use std::fs;

use super::*;
use isobar_core::model::decision::{StepKind, Target, made};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Percent;

fn entry(cgroup: u64) -> Override {
    Override {
        cgroup: CgroupId(cgroup),
        path: CgroupPath(format!("/work-{cgroup}").into()),
        file: "cpu.weight".into(),
        before: "100".into(),
        wrote: "10".into(),
        actions: BTreeSet::from([7]),
    }
}

pub(in crate::act) fn action(id: u64, step: StepKind, is_enforced: bool) -> Action {
    let cgroup = Some(CgroupId(id));
    let path = Some(CgroupPath(format!("/work-{id}").into()));
    let target = Target { name: format!("work-{id}"), cgroup, path, ..Target::default() };
    let reason = made::pressed(PressureSignal::Memory(Percent(60_00)));
    Action { id, target, deadline: Nanos(9), is_enforced, ..made::action(step, reason) }
}

fn open(state: &Path, boot: &str) -> Result<Ledger, LedgerError> {
    Ledger::open(Some(state), boot.into())
}

#[test]
fn open_knows_what_an_agent_before_left_in_the_same_boot() {
    let state = tempfile::tempdir().unwrap();
    let below = state.path().join("not/yet/there");
    let mut ledger = open(&below, "a").unwrap();
    for cgroup in [1, 2, 3] {
        ledger.keep(entry(cgroup)).unwrap();
    }
    ledger.forget(CgroupId(3), "cpu.weight");
    ledger.begin(&action(7, StepKind::Squeeze, true), Nanos(1), None, Phase::Squeezed).unwrap();
    ledger.begin(&action(8, StepKind::Squeeze, false), Nanos(2), None, Phase::Squeezed).unwrap();
    assert_eq!(ledger.in_force().len(), 2, "one that is only observed is in the ledger too");
    for (boot, want, actions) in [("a", vec![1, 2], vec![7]), ("b", vec![], vec![])] {
        let ledger = open(&below, boot).unwrap();
        let left: Vec<_> = ledger.overrides().iter().map(|one| one.cgroup.0).collect();
        let in_force: Vec<_> = ledger.in_force().iter().map(|one| one.action.id).collect();
        assert_eq!((left, in_force), (want, actions), "boot {boot}; what was observed is not kept");
    }
}

#[test]
fn open_without_a_directory_keeps_nothing_on_disk() {
    let mut ledger = Ledger::open(None, "a".into()).unwrap();
    ledger.begin(&action(7, StepKind::Squeeze, false), Nanos(1), None, Phase::Squeezed).unwrap();
    assert_eq!((ledger.in_force().len(), ledger.trouble()), (1, None));
}

#[test]
fn keep_remembers_one_file_once() {
    let state = tempfile::tempdir().unwrap();
    let mut ledger = open(state.path(), "a").unwrap();
    ledger.keep(entry(1)).unwrap();
    let again = Override { actions: BTreeSet::from([7, 8]), ..entry(1) };
    ledger.keep(again.clone()).unwrap();
    ledger.keep(Override { file: "memory.high".into(), ..entry(1) }).unwrap();
    assert_eq!(ledger.overrides().len(), 2);
    assert_eq!(ledger.override_of(CgroupId(1), "cpu.weight"), Some(&again));
}

#[test]
fn open_neither_loses_nor_ignores_a_file_that_it_cannot_understand() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join(FILE);
    for text in ["", "{}", "[1]", "{\"boot\": \"a\", \"actions\": [{}], \"overrides\": []}"] {
        fs::write(&path, text).unwrap();
        let error = open(state.path(), "a").unwrap_err().to_string();
        assert!(error.contains("ledger.json; move it away"), "{text:?}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn keep_remembers_nothing_that_is_not_on_disk() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("file");
    fs::write(&file, "").unwrap();
    let mut ledger = open(&state.path().join("dir"), "a").unwrap();
    ledger.path = Some(file.join(FILE));
    assert!(matches!(ledger.keep(entry(1)), Err(LedgerError::Write { .. })));
    assert_eq!(ledger.overrides(), []);
    assert!(ledger.trouble().is_some_and(|why| why.contains("cannot write")));
}

#[test]
fn prune_drops_what_no_longer_matters() {
    let mut ledger = Ledger::open(None, "a".into()).unwrap();
    let kill = |id| action(id, StepKind::KillContainers, true);
    for id in [1, 2] {
        ledger
            .begin(&action(id, StepKind::Squeeze, true), Nanos(0), None, Phase::Squeezed)
            .unwrap();
        ledger.keep(entry(id)).unwrap();
    }
    ledger.begin(&kill(3), Nanos(0), None, Phase::Ending).unwrap();
    ledger.begin(&kill(4), Nanos(0), None, Phase::Ending).unwrap();
    ledger.end(4, Nanos(5));
    let ids = |ledger: &Ledger| ledger.in_force().iter().map(|e| e.action.id).collect::<Vec<_>>();
    ledger.prune(Nanos(6), |_, id| id != CgroupId(1));
    assert_eq!(ids(&ledger), [2, 3, 4], "the squeeze of a cgroup that is gone");
    assert_eq!(ledger.overrides().len(), 1);
    ledger.prune(Nanos(5).plus(REMEMBERED), |_, _| true);
    assert_eq!(ids(&ledger), [2, 3], "an eviction of an hour ago");
}
