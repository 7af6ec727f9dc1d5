use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::agent::actuator::tests::action;
use crate::agent::{Alarms, Mode, Orders, Record};
use crate::record::journal::Bounds;
use crate::record::reader::Recording;
use crate::record::replay::{Replay, Replayed};
use crate::serve::publish::channel;
use isobar_core::model::decision::{Action, InForce, Phase, StepKind};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Node;
use isobar_core::view::suspects::Suspect;
use isobar_core::view::verdict::Resource;

/// A node on which nothing happens.
struct Still(u64);

impl Source for Still {
    fn facts(&self) -> NodeFacts {
        NodeFacts { boot_id: "boot".into(), ..NodeFacts::default() }
    }

    fn alarms(&mut self) -> Alarms {
        Alarms::default()
    }

    fn suspect(&mut self, _: Vec<CgroupId>, _: &Sample) {}

    fn look_for(&mut self, suspect: impl Fn(Resource) -> Option<Suspect>) {
        assert_eq!(suspect(Resource::Cpu), None, "nobody waits");
    }

    fn cgroup_root(&self) -> Option<PathBuf> {
        Some("/sys/fs/cgroup".into())
    }

    fn leave(self, _: Duration) -> usize {
        0
    }

    fn read(&mut self, _: Cause, _: &Node) -> Reading {
        self.0 += 1;
        Reading { sample: Sample { tick: self.0, ..Sample::default() }, ..Reading::default() }
    }
}

fn plan(enforce: &[StepKind]) -> Plan {
    let mut plan = Plan::default();
    plan.settings.relief.enforce = enforce.iter().copied().collect();
    plan
}

/// The orders of an operator who configures to enforce `first`, and after SIGHUP `then`.
fn orders(first: &[StepKind], then: &[StepKind]) -> Orders {
    let then = plan(then);
    Orders::new(plan(first), move |_| Ok(then.clone()))
}

fn tick(dir: &Path, orders: &mut Orders) -> Tick<Still> {
    let mut authority = Authority::new(Mode::Configured, dir);
    authority.bind(&mut orders.plan.settings).unwrap();
    let publisher = Publisher::new(NodeFacts::default(), clock::now(), channel().0);
    let mut tick =
        Tick::new(Still(0), orders.plan.clone(), authority, None, None, publisher).unwrap();
    tick.record(std::mem::take(&mut orders.record)).unwrap();
    tick
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
fn run_records_each_tick_also_across_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    let mut orders = orders(&[], &[StepKind::Reclaim]);
    orders.record = Record::To(path.clone(), Bounds::default());
    let mut tick = tick(dir.path(), &mut orders);
    tick.run(Cause::Timer);
    tick.reload(&mut orders);
    tick.run(Cause::Timer);
    tick.leave();
    assert_eq!(replayed(&path), (2, Vec::new()), "one run, without a break");
}

#[test]
fn knows_reservations_without_a_cluster_by_the_kubelets_file_alone() {
    use KubeletSource::{File, Missing, Nowhere};
    #[rustfmt::skip]
    let table = [
        // where the kubelet's fields come from: at the start, after SIGHUP
        (Nowhere, File),
        (Missing, Nowhere),
        (File,    Nowhere),
    ];
    for (first, then) in table {
        let dir = tempfile::tempdir().unwrap();
        let of = |kubelet| Plan { kubelet, ..Plan::default() };
        let mut orders = Orders::new(of(first), move |_| Ok(of(then)));
        let mut tick = tick(dir.path(), &mut orders);
        assert_eq!(tick.knows_reservations(), first == File, "{first:?}");
        tick.reload(&mut orders);
        assert_eq!(tick.knows_reservations(), then == File, "{then:?}");
    }
}

#[test]
fn reload_of_what_is_refused_is_told_until_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let mut n_read = 0;
    let mut orders = Orders::new(Plan::default(), move |_| {
        n_read += 1;
        if n_read == 1 { Err("config.yaml:4: no such signal".into()) } else { Ok(Plan::default()) }
    });
    let mut tick = tick(dir.path(), &mut orders);
    let mut told = || {
        let all = tick.capabilities(Vec::new());
        tick.reload(&mut orders);
        all.into_iter().find(|one| one.name == "configuration").map(|one| one.detail)
    };
    assert_eq!(told(), None);
    let why =
        "that of before is in force, and the new one is refused: config.yaml:4: no such signal";
    assert_eq!(told().as_deref(), Some(why));
    let all = tick.capabilities(Vec::new());
    assert!(all.iter().all(|one| one.name != "configuration"), "{all:?}");
}

#[test]
fn reload_hands_the_lock_over_once_nothing_is_enforced() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = orders(&[StepKind::Reclaim], &[]);
    let mut tick = tick(dir.path(), &mut first);
    let is_taken = || {
        let mut other = Authority::new(Mode::Configured, dir.path());
        other.bind(&mut orders(&[StepKind::Reclaim], &[]).plan.settings).is_err()
    };
    tick.run(Cause::Timer);
    assert!(is_taken(), "it enforces");
    tick.reload(&mut first);
    assert!(is_taken(), "something may still be in force");
    tick.run(Cause::Timer);
    assert!(!is_taken());
}

#[test]
fn words_tell_that_nothing_is_evicted_without_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let mut orders = orders(&[StepKind::Evict], &[]);
    let tick = tick(dir.path(), &mut orders);
    assert_eq!(tick.words(), "enforcing evict (not possible here: evict)");
}

#[test]
fn reload_enforces_once_what_was_in_the_way_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger.json");
    std::fs::write(&ledger, "garbage").unwrap();
    let mut orders = orders(&[StepKind::Reclaim], &[StepKind::Reclaim]);
    let mut tick = tick(dir.path(), &mut orders);
    assert_eq!(tick.words(), "observing", "the ledger cannot be read");
    tick.reload(&mut orders);
    assert_eq!(tick.words(), "observing", "nor later");
    std::fs::remove_file(&ledger).unwrap();
    tick.reload(&mut orders);
    // Not every machine has `memory.reclaim`.
    let expected = ["enforcing reclaim", "enforcing reclaim (not possible here: reclaim)"];
    assert!(expected.contains(&&*tick.words()), "{}", tick.words());
}

#[test]
fn reload_to_enforcing_takes_up_the_ledger_first() {
    let dir = tempfile::tempdir().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let action = Action { is_enforced: true, step: StepKind::KillContainers, ..action(7) };
    let entry = InForce {
        action,
        since: clock::now().boot,
        held: None,
        phase: Phase::Ending,
        largest: None,
    };
    let ledger = json!({ "boot": boot.trim_end(), "actions": [entry], "overrides": [] });
    std::fs::write(dir.path().join("ledger.json"), ledger.to_string()).unwrap();
    let mut orders = orders(&[], &[StepKind::Reclaim]);
    let mut tick = tick(dir.path(), &mut orders);
    let in_force = |tick: &Tick<_>| {
        let sample = tick.engine.standing().before.as_ref().unwrap();
        sample.in_force.iter().map(|entry| entry.action.id).collect::<Vec<_>>()
    };
    tick.run(Cause::Timer);
    assert!(in_force(&tick).is_empty(), "while it only observes, the ledger is another agent's");
    tick.reload(&mut orders);
    tick.run(Cause::Timer);
    assert_eq!(in_force(&tick), [7]);
}

#[test]
fn reload_does_not_enforce_with_a_ledger_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ledger.json"), "garbage").unwrap();
    let mut orders = orders(&[], &[StepKind::Reclaim]);
    let mut tick = tick(dir.path(), &mut orders);
    tick.reload(&mut orders);
    assert_eq!(tick.words(), "observing");
    assert!(tick.engine.settings().relief.enforce.is_empty());
    let mut other = Authority::new(Mode::Configured, dir.path());
    assert!(
        other.bind(&mut self::orders(&[StepKind::Reclaim], &[]).plan.settings).is_ok(),
        "it holds no lock"
    );
}
