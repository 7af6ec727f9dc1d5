mod late;

use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::thread::BUSY;
use super::*;
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::decision::made;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Percent;

pub(in crate::agent) fn action(id: u64) -> Action {
    let reason = made::pressed(PressureSignal::Memory(Percent(60_00)));
    Action {
        id,
        target: Target { name: format!("pod-{id}"), ..Target::default() },
        deadline: Nanos(u64::MAX),
        is_enforced: false,
        ..made::action(StepKind::Squeeze, reason)
    }
}

fn relief(ids: std::ops::RangeInclusive<u64>) -> Relief {
    Relief { actions: ids.map(action).collect(), ..Relief::default() }
}

fn outcome(action: &Action) -> Outcome {
    let detail = action.target.name.clone();
    Outcome { detail, took: Nanos(1), ..made::outcome(action.id, OutcomeResult::Done) }
}

/// An actuator that ends each step only once it is told to.
fn held_up() -> (Sender<()>, Handle) {
    let (go, gate) = channel::<()>();
    let handle = Handle::spawn(Answer::default(), move |order, _| {
        let Some(Order::Take(action, _)) = order else { return Answer::default() };
        let _ = gate.recv();
        Answer { outcomes: vec![outcome(&action)], ..Answer::default() }
    });
    (go, handle.unwrap())
}

/// What is heard within five seconds, as soon as there are `n` outcomes.
#[track_caller]
fn wait_for(handle: &mut Handle, n: usize) -> Vec<Outcome> {
    let mut all = Vec::new();
    for _ in 0..500 {
        all.extend(handle.report().outcomes);
        if all.len() >= n {
            return all;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{n} outcomes were expected: {all:?}");
}

#[test]
fn hand_over_never_waits() {
    let (go, gate) = channel::<()>();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        let Some(Order::Take(action, _)) = order else { return Answer::default() };
        let _ = gate.recv();
        let known = BTreeSet::from([StepKind::Reclaim, StepKind::Squeeze]);
        let available_steps = AvailableSteps { known, allowed: [StepKind::Squeeze].into() };
        Answer { outcomes: vec![outcome(&action)], available_steps, ..Answer::default() }
    })
    .unwrap();
    // One is being carried out, or will be, and as many wait as there is room for.
    handle.hand_over(&relief(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    handle.hand_over(&relief(2..=12), clock::now().boot);
    let failed = wait_for(&mut handle, 3);
    let told: Vec<_> = failed.iter().map(|o| (o.action, o.result, o.detail.as_str())).collect();
    let why = "not begun: the actuator is busy with squeeze of pod-1";
    let want = [10, 11, 12].map(|id| (id, OutcomeResult::Failed, why));
    assert_eq!(told, want);
    (0..9).for_each(|_| go.send(()).unwrap());
    let done: Vec<_> = wait_for(&mut handle, 9).iter().map(|outcome| outcome.action).collect();
    assert_eq!(done, (1..=9).collect::<Vec<_>>());
    // What is only observed needs no right.
    let squeeze = BTreeSet::from([StepKind::Squeeze]);
    assert_eq!(handle.report().available_steps, squeeze);
    handle.enforce_only(&squeeze);
    let both = BTreeSet::from([StepKind::Reclaim, StepKind::Squeeze]);
    assert_eq!(handle.report().available_steps, both);
}

#[test]
fn report_hears_news_without_an_order() {
    let mut handle = Handle::spawn(Answer::default(), |order, _| match order {
        Some(_) => Answer { is_busy: true, ..Answer::default() },
        None => Answer { outcomes: vec![outcome(&action(7))], ..Answer::default() },
    })
    .unwrap();
    handle.hand_over(&relief(7..=7), clock::now().boot);
    assert_eq!(wait_for(&mut handle, 1)[0].action, 7);
}

fn squeezed(action: Action) -> InForce {
    let (since, held, phase) = (Nanos(0), None, Phase::Squeezed);
    InForce { action, since, held, phase, largest: None }
}

#[test]
fn report_says_that_the_thread_exited() {
    let in_force = vec![squeezed(action(9))];
    let first = Answer { in_force, is_busy: true, ..Answer::default() };
    let mut handle = Handle::spawn(first, |_, _| panic!("a defect")).unwrap();
    handle.hand_over(&relief(1..=1), clock::now().boot);
    // The first order reaches it, and is never answered.
    for _ in 0..500 {
        handle.hand_over(&relief(2..=2), clock::now().boot);
        if handle.has_exited {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let last = handle.report().outcomes.pop().unwrap();
    assert!(last.detail.contains("exited"), "{last:?}");
    assert_eq!(handle.report().available_steps, BTreeSet::new());
    assert_eq!(handle.capability().state, CapabilityState::Absent);
    assert_eq!(handle.report().in_force.len(), 1, "it stays in force");
    assert!(handle.is_idle() && !handle.is_lost(), "it may exit again");
    handle.begun = handle.begun.since(LASTS);
    assert!(handle.is_lost());
}

/// What exits while no order is given is noticed, too.
#[test]
fn report_notices_by_itself_that_the_thread_exited() {
    let mut handle = Handle::spawn(Answer::default(), |_, _| panic!("a defect")).unwrap();
    for _ in 0..500 {
        handle.report();
        if handle.has_exited {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the thread exited, and the agent does not know");
}

#[test]
fn orders_in_a_row_do_not_keep_it_from_what_is_under_way() {
    let (tell, told) = channel();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        // The receiver is there until the test is over.
        let _ = tell.send(order.is_none());
        Answer { is_busy: true, ..Answer::default() }
    })
    .unwrap();
    for id in 1..=20 {
        handle.hand_over(&relief(id..=id), clock::now().boot);
        thread::sleep(BUSY / 2);
        handle.report();
    }
    let looks = told.try_iter().filter(|is_look| *is_look).count();
    assert!(looks >= 5, "{looks} looks in a second");
}

#[test]
fn an_order_without_room_replaces_none_that_waits() {
    let (go, mut handle) = held_up();
    let stop = |id| {
        let step = StepKind::StopContainers;
        let actions = vec![Action { step, is_enforced: true, ..action(id) }];
        Relief { actions, ..Relief::default() }
    };
    // One is being carried out, and as many wait as there is room for.
    handle.hand_over(&relief(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    handle.hand_over(&relief(2..=8), clock::now().boot);
    handle.hand_over(&stop(9), clock::now().boot);
    handle.hand_over(&stop(10), clock::now().boot);
    (0..9).for_each(|_| go.send(()).unwrap());
    let all = wait_for(&mut handle, 10);
    let result = |id| all.iter().find(|outcome| outcome.action == id).unwrap().result;
    assert_eq!((result(9), result(10)), (OutcomeResult::Done, OutcomeResult::Failed), "{all:?}");
}

#[test]
fn prepare_names_the_same_targets_once() {
    let (tell, told) = channel();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        if let Some(Order::Prepare(likely)) = order {
            tell.send(likely.len()).unwrap();
        }
        Answer::default()
    })
    .unwrap();
    let likely = |n| vec![Target::default(); n];
    handle.prepare(likely(1));
    assert_eq!(told.recv().unwrap(), 1);
    while !handle.given.is_empty() {
        handle.report();
    }
    handle.prepare(likely(1));
    handle.prepare(likely(2));
    assert_eq!(told.recv().unwrap(), 2);
}

#[test]
fn leave_takes_squeezes_back_and_is_not_held_up_for_long() {
    #[rustfmt::skip]
    let table = [
        // a squeeze is enforced, taking it back takes ms, asked to, held up for ms
        (true,  0,      true,  0..500),
        (true,  60_000, true,  300..2_000),
        (false, 60_000, false, 0..100),
    ];
    for (is_enforced, takes, is_asked, within) in table {
        let (tell, told) = channel();
        let mut handle = Handle::spawn(Answer::default(), move |order, _| {
            let mut in_force = Vec::new();
            match order {
                Some(Order::Take(action, _)) => in_force.push(squeezed(*action)),
                Some(Order::Leave(_)) => {
                    tell.send(()).unwrap();
                    thread::sleep(Duration::from_millis(takes));
                }
                _ => {}
            }
            Answer { in_force, ..Answer::default() }
        })
        .unwrap();
        let squeeze = Action { is_enforced, ..action(1) };
        let relief = Relief { actions: vec![squeeze], ..Relief::default() };
        handle.hand_over(&relief, clock::now().boot);
        let begun = clock::now().boot;
        handle.leave(Duration::from_millis(300));
        let took = clock::now().boot.since(begun).0 / 1_000_000;
        assert!(within.contains(&took), "{is_enforced}, takes {takes}: {took} ms");
        assert_eq!(told.try_recv().is_ok(), is_asked, "{is_enforced}, takes {takes}");
    }
}

#[test]
fn leave_waits_for_earlier_orders() {
    let (tell, told) = channel();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        if let Some(Order::Take(action, _)) = order {
            thread::sleep(Duration::from_millis(200));
            tell.send(action.id).unwrap();
        }
        Answer::default()
    })
    .unwrap();
    handle.hand_over(&relief(1..=2), clock::now().boot);
    handle.leave(Duration::from_secs(60));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn is_idle_waits_for_what_is_under_way() {
    let (go, gate) = channel::<()>();
    let mut is_busy = false;
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        is_busy |= order.is_some();
        is_busy &= gate.try_recv().is_err();
        let outcomes = order.is_some().then(|| outcome(&action(1))).into_iter().collect();
        Answer { outcomes, is_busy, ..Answer::default() }
    })
    .unwrap();
    assert!(handle.is_idle());
    handle.hand_over(&relief(1..=1), clock::now().boot);
    assert!(!handle.is_idle(), "an order was given");
    wait_for(&mut handle, 1);
    assert!(!handle.is_idle(), "what it began is not over");
    go.send(()).unwrap();
    for _ in 0..500 {
        handle.report();
        if handle.is_idle() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it is over, and nobody was told");
}

/// Keeps the actuator busy with the first order; what comes of the others after that.
#[track_caller]
fn after_a_delay(others: Vec<Action>, enforced: &[StepKind]) -> Vec<(u64, OutcomeResult, String)> {
    let (go, mut handle) = held_up();
    handle.hand_over(&relief(1..=1), clock::now().boot);
    thread::sleep(Duration::from_millis(50));
    let n = others.len();
    handle.hand_over(&Relief { actions: others, ..Relief::default() }, clock::now().boot);
    handle.enforce_only(&enforced.iter().copied().collect());
    drop(go);
    let all = wait_for(&mut handle, n + 1).split_off(1);
    all.into_iter().map(|one| (one.action, one.result, one.detail)).collect()
}

#[test]
fn refusal_of_orders_that_hold_no_longer() {
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
            [(Failed, "not begun: its deadline had passed"), (Failed, "not begun: its deadline had passed")]),
        ((KillContainers, true, never), (KillContainers, true, never), both,
            [(Failed, "not begun: a later step has replaced it"), (Done, "pod-3")]),
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
fn hand_over_orders_a_release_once_while_it_waits() {
    let (tell, told) = channel();
    let (go, gate) = channel::<()>();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        match order {
            Some(Order::Take(..)) => drop(gate.recv()),
            Some(Order::Release(release)) => tell.send(release.action).unwrap(),
            _ => {}
        }
        Answer::default()
    })
    .unwrap();
    handle.hand_over(&relief(1..=1), clock::now().boot);
    let release = Release {
        step: StepKind::Squeeze,
        action: 7,
        target: Target::default(),
        why: isobar_core::model::decision::ReleaseReason::Over,
        is_enforced: true,
    };
    let relief = Relief { releases: vec![release], ..Relief::default() };
    // The policy decides on it again at each tick, until the ledger no longer has it.
    (0..3).for_each(|_| handle.hand_over(&relief, clock::now().boot));
    drop(go);
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(7));
    assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "ordered once");
}

#[test]
fn farewell_reaches_the_actuator_without_its_handle() {
    let (began, has_begun) = channel();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| match order {
        Some(Order::Take(..)) => {
            began.send(()).unwrap();
            thread::sleep(Duration::from_millis(50));
            Answer::default()
        }
        Some(Order::Leave(_)) => {
            Answer { outcomes: vec![outcome(&action(1))], ..Answer::default() }
        }
        _ => Answer::default(),
    })
    .unwrap();
    let farewell = handle.farewell();
    handle.hand_over(&relief(1..=1), Nanos(0));
    has_begun.recv().unwrap();
    // As in a tick that panics while a step is being taken.
    drop(handle);
    assert_eq!(farewell.leave(Duration::from_secs(5)), Some(vec![outcome(&action(1))]));
}
