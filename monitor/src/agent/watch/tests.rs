use std::fs;

use super::super::Alarms;
use super::super::mode::Mode;
use super::super::state::State;
use super::*;
use crate::record::reader::Recording;
use crate::record::replay::{Replay, Replayed};
use isobar_core::model::decision::StepKind;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Sample;

/// A node on which nothing happens.
struct Still(u64);

impl Sampler for Still {
    fn facts(&self) -> NodeFacts {
        NodeFacts { boot_id: "boot".into(), ..NodeFacts::default() }
    }

    fn alarms(&mut self) -> Alarms {
        Alarms::default()
    }

    fn suspect(&mut self, _: Vec<CgroupId>) {}

    fn cgroup_root(&self) -> Option<PathBuf> {
        None
    }

    fn sample(&mut self, _: Cause) -> Reading {
        self.0 += 1;
        Reading { sample: Sample { tick: self.0, ..Sample::default() }, ..Reading::default() }
    }
}

fn plan(enforce: &[StepKind]) -> Plan {
    let mut plan = Plan::default();
    plan.settings.relief.enforce = enforce.iter().copied().collect();
    plan
}

/// One that is configured to enforce these, and remembers in `dir`.
fn watch(dir: &Path, enforce: &[StepKind]) -> Watch<Still> {
    let mut warrant = Warrant::new(Mode::Configured, State::at(dir));
    let mut plan = plan(enforce);
    warrant.bind(&mut plan.settings).unwrap();
    Watch::new(Still(0), plan, Some(warrant))
}

fn tick(watch: &mut Watch<Still>) {
    let mut seen = watch.look(Cause::Timer, Heard::default());
    watch.finish(&mut seen);
}

/// Ticks of a recording, and what a replay says beside them. Each tick is judged as it was.
#[track_caller]
fn replayed(path: &Path) -> (usize, Vec<String>) {
    let (mut n, mut notices) = (0, Vec::new());
    for one in Replay::new(Recording::open(path).unwrap(), None) {
        match one.unwrap() {
            Replayed::Tick(judged) => {
                assert_eq!(judged.recorded, judged.text);
                n += 1;
            }
            Replayed::Notice(text) => notices.push(text),
        }
    }
    (n, notices)
}

#[test]
fn a_tick_is_written_down_when_it_is_finished_and_not_before() {
    for (n_finished, is_last_finished) in [(0, false), (1, false), (1, true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let mut watch = watch(dir.path(), &[]);
        watch.record(&path, Bounds::default()).unwrap();
        (0..n_finished).for_each(|_| tick(&mut watch));
        let mut seen = watch.look(Cause::Timer, Heard::default());
        if is_last_finished {
            watch.finish(&mut seen);
        }
        drop(watch);
        let want = n_finished + usize::from(is_last_finished);
        assert_eq!(replayed(&path).0, want, "{n_finished} {is_last_finished}");
    }
}

#[test]
fn a_replay_takes_up_the_relief_that_was_taken_up_in_the_middle() {
    let kept = r#"{"format":1,"bootId":"boot","relief":{"nActions":5}}"#;
    for (kept, n_notices) in [(Some(kept), 1), (None, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let mut watch = watch(dir.path(), &[]);
        watch.record(&path, Bounds::default()).unwrap();
        tick(&mut watch);
        if let Some(kept) = kept {
            fs::write(dir.path().join("relief.json"), kept).unwrap();
        }
        assert!(watch.reload(Ok(plan(&[StepKind::Reclaim]))), "another one has to act");
        tick(&mut watch);
        drop(watch);
        let (n, notices) = replayed(&path);
        assert_eq!((n, notices.len()), (2, n_notices), "{notices:?}");
    }
}

#[test]
fn who_enforces_nothing_any_more_lets_others_do_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut watch = watch(dir.path(), &[StepKind::Reclaim]);
    let is_taken = || State::at(dir.path()).claim().is_err();
    watch.let_go();
    assert!(is_taken(), "it enforces");
    watch.reload(Ok(plan(&[])));
    assert!(is_taken(), "something may still be in force");
    watch.let_go();
    assert!(!is_taken());
    fs::remove_file(dir.path().join("relief.json")).unwrap_or_default();
    tick(&mut watch);
    assert!(!dir.path().join("relief.json").exists(), "nor does it write what is another's");
    assert!(watch.reload(Ok(plan(&[StepKind::Reclaim]))));
    assert!(is_taken());
}

#[test]
fn what_was_in_the_way_of_acting_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut watch = watch(dir.path(), &[]);
    watch.note_unable(Some("cannot understand squeezes.json".into()));
    assert!(!watch.reload(Ok(plan(&[StepKind::Reclaim]))));
    assert!(watch.settings().relief.enforce.is_empty());
    watch.note_unable(None);
    assert!(watch.reload(Ok(plan(&[StepKind::Reclaim]))));
    assert_eq!(watch.settings().relief.enforce.len(), 1);
}
