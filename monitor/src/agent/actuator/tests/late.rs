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
