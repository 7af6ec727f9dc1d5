use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, CgroupPath, Limit, MemoryStat};
use isobar_core::model::condition::{ConditionName, Measure};
use isobar_core::model::decision::{Action, Hold, InForce, Outcome, Phase, StepKind, Target, made};
use isobar_core::model::stall::OomKill;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Percent;
use isobar_core::model::workload::{Container, Pod, Resources};

use super::*;

#[test]
fn deeds_have_room_for_a_step_after_much_that_was_said() {
    let mut account = Account { has_begun: true, ..Account::default() };
    let said = |account: &mut Account| {
        account.did(Moment::default(), true, 7, "said".into());
    };
    let step = Deed { is_step: true, action: 9, ..Deed::default() };
    (0..KEPT + 3).for_each(|_| said(&mut account));
    account.keep(step.clone());
    said(&mut account);
    assert_eq!((account.deeds.len(), account.deeds.last()), (KEPT, Some(&step)));
    assert_eq!(account.deeds.iter().filter(|deed| deed.is_step).count(), 1);
    (0..KEPT + 3).for_each(|_| account.keep(step.clone()));
    assert_eq!(account.deeds, vec![step; KEPT]);
}

#[test]
fn reloads_are_told_of_one_agent() {
    #[rustfmt::skip]
    let table: [(&[u64], &[u64], &str); 4] = [
        // generations of the ticks, the ticks after a reload, what the paragraph has of it
        (&[1, 1, 1],    &[],     ""),
        (&[3, 3],       &[],     ""),
        (&[1, 2, 2, 4], &[1, 3], "The configuration was reloaded at 00:00:01Z. The configuration was reloaded at 00:00:03Z. "),
        (&[4, 1, 1],    &[],     ""), // started again
    ];
    for (generations, want, told) in table {
        let mut account = Account::default();
        for (second, generation) in (0..).zip(generations) {
            let now = Nanos(second * Nanos::SECOND.0);
            let at = Moment { boot: now, wall: now };
            let mut step = Step::default();
            step.decision.at = at;
            let sample = Sample { at, generation: *generation, ..Sample::default() };
            account.tick(&sample, &step);
        }
        let incident = account.close(Incident::default());
        let seconds = incident.reloads.iter().map(|at| at.wall.0 / Nanos::SECOND.0);
        assert_eq!(seconds.collect::<Vec<_>>(), want, "{generations:?}");
        assert!(
            incident.summary.contains(&format!("took no step. {told}")),
            "{}",
            incident.summary
        );
    }
}

#[test]
fn kill_in_the_root_cgroup_has_its_name() {
    let root = Cgroup { path: CgroupPath::root(), ..Cgroup::default() };
    let cgroups = [(CgroupId::ROOT, Arc::new(root))].into();
    let sample = Sample { cgroups, ..Sample::default() };
    let kill = OomKill { victim: CgroupId::ROOT, limit_known: true, ..OomKill::default() };
    let mut account = Account { has_begun: true, ..Account::default() };
    account.killed(&kill, Moment::default(), &sample, &Snapshot::default());
    assert_eq!(account.kills[0].victim, "the root cgroup");
}

#[test]
fn kills_have_room_for_one_of_the_node_after_many_at_limits() {
    #[rustfmt::skip]
    let table = [
        // kills in their order: how many, and at limits of their own or not; listed own and others, unlisted
        (vec![(3, true), (1, false)],       [3, 1],         None),
        (vec![(KEPT + 2, true)],            [KEPT, 0],      Some([2, 0])),
        (vec![(KEPT, true), (2, false)],    [KEPT - 2, 2],  Some([2, 0])),
        (vec![(KEPT, false), (1, true)],    [0, KEPT],      Some([1, 0])),
        (vec![(KEPT + 1, false)],           [0, KEPT],      Some([0, 1])),
    ];
    for (kills, want, more) in table {
        let mut account = Account { has_begun: true, ..Account::default() };
        for (n, is_own) in &kills {
            let (victim, limit) = (CgroupId(3), is_own.then_some(CgroupId(9)));
            let kill = OomKill { victim, limit, limit_known: true, ..OomKill::default() };
            let (sample, snapshot) = (Sample::default(), Snapshot::default());
            (0..*n).for_each(|_| account.killed(&kill, Moment::default(), &sample, &snapshot));
        }
        let own = account.kills.iter().filter(|kill| kill.limit.is_some()).count();
        assert_eq!([own, account.kills.len() - own], want, "{kills:?}");
        let told = account.more_kills.map(|more| [more.own, more.others]);
        assert_eq!(told, more, "{kills:?}");
    }
}

#[test]
fn deed_that_was_only_observed_has_no_real_outcome() {
    let outcome: Outcome = serde_json::from_value(serde_json::json!({
        "action": 1, "result": "done", "detail": "", "took": 0, "freed": null
    }))
    .unwrap();
    for is_enforced in [true, false] {
        let sample = Sample { outcomes: vec![outcome.clone()], ..Sample::default() };
        let mut account = Account { has_begun: true, ..Account::default() };
        account.keep(Deed { is_step: true, action: 1, is_enforced, ..Deed::default() });
        account.deeds(&sample, &Decision::default());
        let told: Vec<_> = account.deeds.iter().map(|deed| deed.is_enforced).collect();
        assert_eq!(told, [is_enforced; 2]);
    }
}

fn mark_of(target: Target, is_enforced: bool) -> Action {
    let reason = made::pressed(PressureSignal::Exhaustion(Nanos(10 * Nanos::SECOND.0)));
    Action { target, is_enforced, ..made::action(StepKind::Mark, reason) }
}

#[test]
fn kill_of_who_was_marked_is_what_the_mark_is_for() {
    let path = |path: &str| CgroupPath(path.into());
    let mark = |of: &str, is_enforced, since| {
        let target =
            Target { cgroup: Some(CgroupId(2)), path: Some(path(of)), ..Target::default() };
        let action = mark_of(target, is_enforced);
        InForce { action, since: Nanos(since), held: None, phase: Phase::Marked, largest: None }
    };
    let tried = "it acted, and that was not enough: raised";
    let marked = "it had raised the OOM score of this one, so that the kernel would take it";
    #[rustfmt::skip]
    let table = [
        // the mark and since when, what is said of a kill in /kubepods/pod1/c after 7 ns
        (vec![mark("/kubepods/pod1", true, 7)],  marked),
        (vec![mark("/kubepods/pod1", true, 8)],  tried), // after the kill
        (vec![mark("/kubepods/pod1", false, 7)], tried),
        (vec![mark("/kubepods/pod2", true, 7)],  tried),
        (vec![],                                 tried),
    ];
    for (in_force, want) in table {
        let victim = Cgroup { path: path("/kubepods/pod1/c"), ..Cgroup::default() };
        let cgroups = [(CgroupId(3), Arc::new(victim))].into();
        let sample = Sample { cgroups, in_force, ..Sample::default() };
        let (at, victim) = (Nanos(7), CgroupId(3));
        let kill = OomKill { at, victim, limit_known: true, ..OomKill::default() };
        let stance = Some(Stance::Acted { text: "raised".into(), is_enforced: true });
        let mut account = Account { has_begun: true, stance, ..Account::default() };
        account.killed(&kill, Moment::default(), &sample, &Snapshot::default());
        assert_eq!(account.kills[0].why, want);
    }
}

#[test]
fn kill_whose_cgroup_is_gone_has_its_name_and_limit() {
    let path = |path: &str| CgroupPath(path.into());
    let mut cgroup = Cgroup { path: path("/system.slice/db.service"), ..Cgroup::default() };
    cgroup.memory.max = Some(Limit::At(1 << 30));
    let cgroup = Arc::new(cgroup);
    let scope =
        Scope { path: cgroup.path.clone(), files: Some(cgroup.clone()), ..Scope::default() };
    let target = Target {
        path: Some(path("/system.slice")),
        cgroup: Some(CgroupId(2)),
        ..Target::default()
    };
    let mark = InForce {
        action: mark_of(target, true),
        since: Nanos(0),
        held: None,
        phase: Phase::Marked,
        largest: None,
    };
    let marked = "it had raised the OOM score of this one, so that the kernel would take it";
    #[rustfmt::skip]
    let table = [
        // ticks without the cgroup before the kill is told, was it marked, limit of its own, limit, what is said
        (0, false, true,  Some("db.service (1Gi)"), None),
        (3, false, true,  Some("db.service (1Gi)"), None),
        (0, false, false, None, None),
        (0, true,  false, None, Some(marked)),
    ];
    for (n_gone, is_marked, is_own, limit, why) in table {
        let row = format!("{n_gone} {is_marked} {is_own}");
        let mut account = Account { has_begun: true, ..Account::default() };
        let with = Sample {
            cgroups: [(CgroupId(3), cgroup.clone())].into(),
            in_force: is_marked.then(|| mark.clone()).into_iter().collect(),
            ..Sample::default()
        };
        let mut step = Step::default();
        step.snapshot.scopes = [(CgroupId(3), scope.clone())].into();
        account.tick(&with, &step);
        let mut gone = Step::default();
        (0..n_gone).for_each(|_| account.tick(&Sample::default(), &gone));
        let limit_of = is_own.then_some(CgroupId(3));
        gone.snapshot.oom_kills = vec![OomKill {
            victim: CgroupId(3),
            limit: limit_of,
            limit_known: true,
            ..OomKill::default()
        }];
        account.tick(&Sample::default(), &gone);
        let kill = &account.kills[0];
        assert_eq!(kill.victim, "db.service", "{row}");
        assert_eq!(kill.limit.as_deref(), limit, "{row}");
        assert!(why.is_none_or(|why| kill.why == why), "{row}: {}", kill.why);
    }
}

#[test]
fn kill_is_told_of_the_last_reason_that_is_about_memory() {
    let memory = PressureSignal::Exhaustion(Nanos(10 * Nanos::SECOND.0));
    let cpu = PressureSignal::Cpu(Percent(50_00));
    let acted = "it acted, and that was not enough: ";
    let (held, unseen) = ("no action: there is no candidate", "it saw no shortage of memory");
    #[rustfmt::skip]
    let table = [
        // ticks before the kill, what is said of it
        (vec!["memory hold"],                        held),
        (vec!["cpu hold"],                           unseen),
        (vec!["memory hold", ""],                    unseen),
        (vec!["memory act"],                         acted),
        (vec!["memory act", "cpu"],                  unseen),
        (vec!["memory act", "memory hold"],          held),
        (vec!["memory hold", "memory act"],          acted),
        (vec!["memory act", "memory settle"],        acted),
        (vec!["memory act hold"],                    acted),
    ];
    for (ticks, want) in table {
        let mut account = Account { has_begun: true, ..Account::default() };
        for words in &ticks {
            let mut decision = Decision::default();
            for word in words.split_whitespace() {
                let Decision { assessment, relief, .. } = &mut decision;
                match word {
                    "memory" => assessment.met.push(made::pressed(memory)),
                    "cpu" => assessment.met.push(made::pressed(cpu)),
                    "act" => relief.actions.push(mark_of(Target::default(), true)),
                    "hold" => relief.held = Some(Hold::NobodyLeft),
                    _ => relief.held = Some(Hold::Settling { action: 1, until: Nanos(9) }),
                }
            }
            decision.assessment.first = decision.assessment.met.first().copied();
            account.deeds(&Sample::default(), &decision);
        }
        let kill = OomKill { victim: CgroupId(3), limit_known: true, ..OomKill::default() };
        account.killed(&kill, Moment::default(), &Sample::default(), &Snapshot::default());
        let why = &account.kills[0].why;
        assert!(why.starts_with(want), "{ticks:?}: {why}");
    }
}

fn condition_of(status: Status, since: Moment) -> Condition {
    Condition {
        name: ConditionName::ALL[0],
        kind: "Contended".into(),
        status,
        phase: condition::Phase::Contended,
        measure: Measure::RawSome,
        threshold: Percent(40_00),
        avg10: None,
        avg60: None,
        seen: None,
        since,
        judged: None,
        why: None,
    }
}

#[test]
fn conditions_end_at_a_pause_unless_they_held_through_it() {
    let at = |second: u64| {
        let now = Nanos(second * Nanos::SECOND.0);
        Moment { boot: now, wall: now }
    };
    #[rustfmt::skip]
    let table = [
        // when each tick was, and since when the condition is True; what is told of it, from and to; seconds
        // of which no tick tells
        (vec![(1, Some(1)), (2, Some(1))],             vec![(1, None)],                0),
        (vec![(1, Some(1)), (2, None)],                vec![(1, Some(2))],             0),
        (vec![(1, Some(1)), (2, Some(1)), (90, None)], vec![(1, Some(2))],             87),
        (vec![(1, Some(1)), (90, Some(90))],           vec![(1, Some(1)), (90, None)], 88),
        (vec![(1, Some(1)), (90, Some(1))],            vec![(1, None)],                88), // the agent saw all of it
    ];
    for (ticks, want, paused) in table {
        let mut account = Account { has_begun: true, ..Account::default() };
        for (second, since) in &ticks {
            let mut step = Step::default();
            step.decision.at = at(*second);
            step.snapshot.interval = Nanos::SECOND;
            let status = if since.is_some() { Status::True } else { Status::False };
            let since = at(since.unwrap_or(*second));
            step.decision.assessment.conditions.push(condition_of(status, since));
            account.tick(&Sample::default(), &step);
        }
        let told = account.conditions.iter().map(|held| (held.from, held.to));
        let want: Vec<_> = want.into_iter().map(|(from, to)| (at(from), to.map(at))).collect();
        assert_eq!(told.collect::<Vec<_>>(), want, "{ticks:?}");
        assert_eq!(account.paused, at(paused).boot, "{ticks:?}");
    }
}

#[test]
fn kill_of_a_pod_tells_what_it_used_and_requests() {
    const MIB: u64 = 1 << 20;
    let pod_path = "/kubepods/burstable/podu1";
    let id = "0".repeat(64);
    let cgroup = |path: &str, current: u64, inactive: u64| {
        let stat = MemoryStat { inactive_file: Bytes(inactive * MIB), ..MemoryStat::default() };
        let mut cgroup = Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
        (cgroup.memory.current, cgroup.memory.stat) = (Some(Bytes(current * MIB)), Some(stat));
        Arc::new(cgroup)
    };
    let groups = [
        cgroup(pod_path, 150, 30),
        cgroup(&format!("{pod_path}/{id}"), 100, 30),
        cgroup("/kubepods/burstable/podu2", 700, 0),
        cgroup("/kubepods/burstable/podunnamed", 7, 0),
        cgroup("/system.slice/db.service", 90, 0),
    ];
    let cgroups: BTreeMap<_, _> = (3..).map(CgroupId).zip(groups).collect();
    let pod = |uid: &str, memory: &str| {
        let requests = [("memory".into(), memory.parse().unwrap())].into();
        let resources = Resources { requests, ..Resources::default() };
        let containers = vec![Container { resources, ..Container::default() }];
        (uid.into(), Pod { uid: uid.into(), name: uid.into(), containers, ..Pod::default() })
    };
    let pods = Arc::new([pod("u1", "512Mi"), pod("u2", "1Gi")].into());
    let mib = |n: u64| Some(Bytes(n * MIB));
    let pause = PAUSE.0 / Nanos::SECOND.0;
    #[rustfmt::skip]
    let table = [
        // victim, seconds from the tick before to the kill; used and requested
        (3,  1,         mib(120), mib(512)),
        (4,  1,         mib(120), mib(512)), // a container's is its pod's
        (5,  1,         mib(700), mib(1_024)),
        (4,  pause,     mib(120), mib(512)),
        (4,  pause + 1, None,     None),     // of so long ago it says nothing
        (6,  1,         None,     None),     // what it requests is not known
        (7,  1,         None,     None),     // no pod
        (99, 1,         None,     None),     // it came and went between the ticks
    ];
    for (victim, after, used, request) in table {
        let boot = |second: u64| Nanos(second * Nanos::SECOND.0);
        let moment = |second| Moment { boot: boot(second), wall: boot(second) };
        let before = Sample {
            at: moment(50),
            cgroups: cgroups.clone(),
            pods: Some(Arc::clone(&pods)),
            ..Sample::default()
        };
        let mut account = Account { has_begun: true, ..Account::default() };
        account.tick(&before, &Step::default());
        // The tick of the kill has none of these cgroups.
        let now = Sample { at: moment(50 + after), ..Sample::default() };
        let (at, victim) = (boot(50 + after), CgroupId(victim));
        let kill = OomKill { at, victim, limit_known: true, ..OomKill::default() };
        let mut step = Step::default();
        (step.decision.at, step.snapshot.oom_kills) = (now.at, vec![kill]);
        account.tick(&now, &step);
        let kill = &account.kills[0];
        assert_eq!((kill.used, kill.request), (used, request), "{victim:?} after {after} s");
    }
}
