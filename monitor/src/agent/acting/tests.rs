use std::sync::mpsc::channel;

use super::*;
use isobar_core::model::condition::ScopeName;
use isobar_core::model::decision::{Met, StepReason, Trigger};
use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
use isobar_core::model::units::Percent;

fn action(id: u64) -> Action {
    let threshold = PressureThreshold {
        scope: ScopeName::System,
        on: PressureSignal::Memory(Percent(60_00)),
        grace: Nanos(0),
    };
    let threshold = Trigger::Pressure(threshold);
    Action {
        id,
        step: StepKind::Squeeze,
        target: Target { name: format!("pod-{id}"), ..Target::default() },
        reason: Met { threshold, since: Nanos(0), is_due: true, measured: 0, missing: None },
        why: StepReason::Gentlest,
        want: None,
        grace: None,
        deadline: Nanos(u64::MAX),
        escalates_to: None,
        is_enforced: false,
        message: String::new(),
        annotations: Default::default(),
    }
}

fn decision(ids: std::ops::RangeInclusive<u64>) -> Decision {
    Decision { actions: ids.map(action).collect(), ..Decision::default() }
}

fn outcome(action: &Action) -> Outcome {
    let detail = action.target.name.clone();
    let (took, result) = (Nanos(1), OutcomeResult::Done);
    Outcome { action: action.id, result, detail, took, freed: None, ended: None }
}

/// What is heard within five seconds, as soon as there are `n` outcomes.
#[track_caller]
fn wait_for(acting: &mut Acting, n: usize) -> Vec<Outcome> {
    let mut all = Vec::new();
    for _ in 0..500 {
        all.extend(acting.heard().outcomes);
        if all.len() >= n {
            return all;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{n} outcomes were expected: {all:?}");
}

#[test]
fn a_step_that_takes_long_never_makes_the_loop_wait_and_what_finds_no_room_says_why() {
    let (go, gate) = channel::<()>();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        let Some(Order::Take(action, _)) = order else { return Answer::default() };
        let _ = gate.recv();
        let means = BTreeSet::from([StepKind::Squeeze]);
        Answer { outcomes: vec![outcome(&action)], means, ..Answer::default() }
    })
    .unwrap();
    // One is being carried out, or will be, and as many wait as there is room for.
    acting.hand_over(&decision(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    acting.hand_over(&decision(2..=12), clock::now().boot);
    let failed = wait_for(&mut acting, 3);
    let told: Vec<_> = failed.iter().map(|o| (o.action, o.result, o.detail.as_str())).collect();
    let why = "not begun: still busy with squeeze of pod-1";
    let want = [10, 11, 12].map(|id| (id, OutcomeResult::Failed, why));
    assert_eq!(told, want);
    (0..9).for_each(|_| go.send(()).unwrap());
    let done: Vec<_> = wait_for(&mut acting, 9).iter().map(|outcome| outcome.action).collect();
    assert_eq!(done, (1..=9).collect::<Vec<_>>());
    assert_eq!(acting.heard().means, Some(BTreeSet::from([StepKind::Squeeze])));
}

#[test]
fn news_is_heard_without_anything_being_asked() {
    let mut acting = Acting::spawn(BTreeSet::new(), |order, _| match order {
        Some(_) => Answer { is_waiting: true, ..Answer::default() },
        None => Answer { outcomes: vec![outcome(&action(7))], ..Answer::default() },
    })
    .unwrap();
    acting.hand_over(&decision(7..=7), clock::now().boot);
    assert_eq!(wait_for(&mut acting, 1)[0].action, 7);
}

#[test]
fn an_actor_that_has_ended_is_told_of_by_each_outcome() {
    let mut acting =
        Acting::spawn(BTreeSet::from([StepKind::Squeeze]), |_, _| panic!("a defect")).unwrap();
    acting.hand_over(&decision(1..=1), clock::now().boot);
    // The first order reaches it, and is never answered.
    for _ in 0..500 {
        acting.hand_over(&decision(2..=2), clock::now().boot);
        if acting.has_ended {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let last = acting.heard().outcomes.pop().unwrap();
    assert!(last.detail.contains("has ended"), "{last:?}");
    assert_eq!(acting.heard().means, Some(BTreeSet::new()));
    assert_eq!(acting.capability().state, CapabilityState::Absent);
}

#[test]
fn who_may_be_next_is_said_once_and_never_in_the_way_of_an_order() {
    let (tell, told) = channel();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        if let Some(Order::Prepare(likely)) = order {
            tell.send(likely.len()).unwrap();
        }
        Answer::default()
    })
    .unwrap();
    let likely = |n| vec![Target::default(); n];
    acting.prepare(likely(1));
    assert_eq!(told.recv().unwrap(), 1);
    while !acting.given.is_empty() {
        acting.heard();
    }
    acting.prepare(likely(1));
    acting.prepare(likely(2));
    assert_eq!(told.recv().unwrap(), 2);
}

#[test]
fn leaving_takes_back_what_is_held_and_is_not_held_up_for_long() {
    let squeeze = |is_enforced| {
        let action = Action { is_enforced, ..action(1) };
        Decision { actions: vec![action], ..Decision::default() }
    };
    #[rustfmt::skip]
    let table = [
        // something is held, taking it back takes ms, asked to, held up for ms
        (true,  0,      true,  0..500),
        (true,  60_000, true,  300..2_000),
        (false, 60_000, false, 0..100),
    ];
    for (is_held, takes, is_asked, within) in table {
        let (tell, told) = channel();
        let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
            if let Some(Order::Leave) = order {
                tell.send(()).unwrap();
                thread::sleep(Duration::from_millis(takes));
            }
            Answer::default()
        })
        .unwrap();
        acting.hand_over(&squeeze(is_held), clock::now().boot);
        let begun = clock::now().boot;
        acting.leave(Duration::from_millis(300));
        let took = clock::now().boot.since(begun).0 / 1_000_000;
        assert!(within.contains(&took), "held {is_held}, takes {takes}: {took} ms");
        assert_eq!(told.try_recv().is_ok(), is_asked, "held {is_held}, takes {takes}");
    }
}

#[test]
fn what_was_ordered_is_done_before_the_agent_leaves() {
    let (tell, told) = channel();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        if let Some(Order::Take(action, _)) = order {
            thread::sleep(Duration::from_millis(200));
            tell.send(action.id).unwrap();
        }
        Answer::default()
    })
    .unwrap();
    acting.hand_over(&decision(1..=2), clock::now().boot);
    acting.leave(Duration::from_secs(60));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn whoever_awaits_an_end_is_not_idle_until_it_is_over_also_if_nothing_is_told_of_it() {
    let (go, gate) = channel::<()>();
    let mut is_waiting = false;
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        is_waiting |= order.is_some();
        is_waiting &= gate.try_recv().is_err();
        let outcomes = order.is_some().then(|| outcome(&action(1))).into_iter().collect();
        Answer { outcomes, is_waiting, ..Answer::default() }
    })
    .unwrap();
    assert!(acting.is_idle());
    acting.hand_over(&decision(1..=1), clock::now().boot);
    assert!(!acting.is_idle(), "an order was given");
    wait_for(&mut acting, 1);
    assert!(!acting.is_idle(), "what it began is not over");
    go.send(()).unwrap();
    for _ in 0..500 {
        acting.heard();
        if acting.is_idle() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it is over, and nobody was told");
}

#[test]
fn what_an_agent_before_left_stays_if_it_is_known_and_is_taken_back_if_not() {
    let (tell, told) = channel();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        if let Some(Order::Release(release)) = order {
            tell.send(release.action).unwrap();
        }
        Answer::default()
    })
    .unwrap();
    let release = |action| Release {
        action,
        target: Target::default(),
        why: isobar_core::model::decision::ReleaseReason::Expired,
        is_enforced: true,
    };
    acting.left_over = vec![release(3), release(4)];
    assert_eq!(acting.take_over(&BTreeSet::from([2, 3])), BTreeSet::from([3, 4]));
    assert_eq!(told.recv().unwrap(), 4);
    assert!(acting.left_over().is_empty() && acting.has_hold);
}

/// Holds whoever acts up with the first order; what comes of the others once it goes on.
#[track_caller]
fn after_a_delay(others: Vec<Action>, enforced: &[StepKind]) -> Vec<(u64, OutcomeResult, String)> {
    let (go, gate) = channel::<()>();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        let Some(Order::Take(action, _)) = order else { return Answer::default() };
        let _ = gate.recv();
        Answer { outcomes: vec![outcome(&action)], ..Answer::default() }
    })
    .unwrap();
    acting.hand_over(&decision(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    let n = others.len();
    acting.hand_over(&Decision { actions: others, ..Decision::default() }, clock::now().boot);
    acting.enforce_only(&enforced.iter().copied().collect());
    drop(go);
    let all = wait_for(&mut acting, n + 1).split_off(1);
    all.into_iter().map(|one| (one.action, one.result, one.detail)).collect()
}

#[test]
fn an_order_that_waited_is_not_begun_once_nobody_means_it_any_more() {
    use OutcomeResult::{Done, Failed, Refused};
    use StepKind::{KillContainers, Reclaim};
    let late = Nanos(1);
    let never = Nanos(u64::MAX);
    let both: &[StepKind] = &[KillContainers, Reclaim];
    #[rustfmt::skip]
    let table = [
        // (step, enforced, deadline) of 2 and of 3, what is enforced then, what comes of 2 and of 3
        ((Reclaim, true, never), (Reclaim, true, never), both,
            [(Done, "pod-2"), (Done, "pod-3")]),
        ((KillContainers, true, late), (Reclaim, false, late), both,
            [(Failed, "not begun: its time was over"), (Failed, "not begun: its time was over")]),
        ((KillContainers, true, never), (KillContainers, true, never), both,
            [(Failed, "not begun: a later step has taken its place"), (Done, "pod-3")]),
        // What is only recorded takes nobody's place.
        ((KillContainers, true, never), (KillContainers, false, never), both,
            [(Done, "pod-2"), (Done, "pod-3")]),
        ((KillContainers, true, never), (KillContainers, false, never), &[Reclaim],
            [(Refused, "not begun: it is no longer enforced"), (Done, "pod-3")]),
    ];
    for (second, third, enforced, want) in table {
        let one = |id, (step, is_enforced, deadline)| Action {
            step,
            is_enforced,
            deadline,
            ..action(id)
        };
        let got = after_a_delay(vec![one(2, second), one(3, third)], enforced);
        let want =
            [2, 3].into_iter().zip(want).map(|(id, (result, told))| (id, result, told.into()));
        assert_eq!(got, want.collect::<Vec<_>>(), "{second:?} {third:?} {enforced:?}");
    }
}

#[test]
fn a_release_that_finds_no_room_is_handed_over_as_soon_as_there_is_some() {
    let (tell, told) = channel();
    let (go, gate) = channel::<()>();
    let mut acting = Acting::spawn(BTreeSet::new(), move |order, _| {
        match order {
            Some(Order::Take(..)) => {
                let _ = gate.recv();
            }
            Some(Order::Release(release)) => tell.send(release.action).unwrap(),
            _ => {}
        }
        Answer::default()
    })
    .unwrap();
    acting.hand_over(&decision(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    let n = 2 * ROOM as u64;
    let release = |action| Release {
        action,
        target: Target::default(),
        why: isobar_core::model::decision::ReleaseReason::Over,
        is_enforced: true,
    };
    acting.hand_over(
        &Decision { releases: (1..=n).map(release).collect(), ..Decision::default() },
        clock::now().boot,
    );
    assert!(!acting.is_idle());
    drop(go);
    let mut released = BTreeSet::new();
    for _ in 0..500 {
        acting.heard();
        released.extend(told.try_iter());
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(released, (1..=n).collect());
    assert!(acting.is_idle());
}
