//! Orders that wait while the thread is at work.

use super::*;

#[test]
fn orders_that_wait_do_not_put_off_a_look() {
    let (tell, told) = channel();
    let mut handle = Handle::spawn(Answer::default(), move |order, _| {
        let is_look = order.is_none();
        tell.send(is_look).unwrap();
        if !is_look {
            thread::sleep(BUSY * 3 / 5);
        }
        Answer { is_busy: true, ..Answer::default() }
    })
    .unwrap();
    handle.hand_over(&relief(1..=ROOM as u64), clock::now().boot);
    let mut n_orders = 0;
    let is_before_the_last = |is_look: &bool| {
        n_orders += usize::from(!is_look);
        n_orders < ROOM
    };
    let looks = told.iter().take_while(is_before_the_last).filter(|is_look| *is_look).count();
    assert!(looks >= 2, "{looks} looks beside {ROOM} orders");
}

#[test]
fn late_tells_once_of_steps_that_were_not_begun() {
    let (go, mut handle) = held_up();
    let steps = |id, deadline| Relief {
        actions: vec![Action { deadline, ..action(id) }],
        ..Relief::default()
    };
    let soon = clock::now().boot.plus(Nanos::SECOND);
    // The first is begun, and takes its time.
    handle.hand_over(&steps(1, soon), clock::now().boot);
    while !handle.standing.has_begun(1) {
        thread::sleep(Duration::from_millis(10));
    }
    handle.hand_over(&steps(2, soon), clock::now().boot);
    handle.hand_over(&steps(3, Nanos(u64::MAX)), clock::now().boot);
    #[rustfmt::skip]
    let table: [(_, &[u64]); 3] = [
        // when, who is late
        (soon.since(Nanos(1)), &[]),
        (soon,                 &[2]),
        (soon.plus(Nanos(1)),  &[]),
    ];
    for (at, want) in table {
        let late = handle.late(at);
        assert_eq!(late.iter().map(|one| one.action).collect::<Vec<_>>(), want, "{at:?}");
        assert!(late.iter().all(|one| one.never_begun && one.result == OutcomeResult::Failed));
    }
    while clock::now().boot < soon {
        thread::sleep(Duration::from_millis(10));
    }
    drop(go);
    let told: Vec<_> = wait_for(&mut handle, 2).into_iter().map(|one| one.action).collect();
    assert_eq!(told, [1, 3], "that the second is refused is told already");
    assert!(handle.is_idle());
}

#[test]
fn halt_keeps_the_thread_from_its_work() {
    let within = Duration::from_secs(5);
    let (go, mut handle) = held_up();
    let halted = handle.halt(within).unwrap();
    handle.hand_over(&relief(1..=1), clock::now().boot);
    go.send(()).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(handle.report().outcomes, [], "it does nothing");
    halted.go_on();
    assert_eq!(wait_for(&mut handle, 1)[0].action, 1);

    handle.hand_over(&relief(2..=2), clock::now().boot);
    assert!(handle.halt(Duration::from_millis(50)).is_none(), "it is at work");
    go.send(()).unwrap();
    assert_eq!(wait_for(&mut handle, 1)[0].action, 2);
    handle.hand_over(&relief(3..=3), clock::now().boot);
    go.send(()).unwrap();
    assert_eq!(wait_for(&mut handle, 1)[0].action, 3, "it did not halt later");

    drop(handle.halt(within).unwrap());
    for _ in 0..500 {
        handle.report();
        if handle.has_exited {
            assert!(handle.halt(within).is_some(), "what has exited does nothing");
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it goes on without the value that halts it");
}
