use std::io::Write as _;
use std::os::unix::net::UnixStream;

use tokio::runtime;
use tokio::time::timeout;

use super::*;
use crate::clock;
use isobar_core::model::decision::made;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Nanos, Percent};

fn exhaustion() -> Decision {
    let met = vec![made::pressed(PressureSignal::Exhaustion(Nanos::SECOND))];
    decided(met, None)
}

fn decided(met: Vec<Met>, held: Option<Hold>) -> Decision {
    let mut decision = Decision::default();
    (decision.assessment.met, decision.relief.held) = (met, held);
    decision
}

#[test]
fn is_urgent_while_memory_runs_out_or_a_step_is_pending() {
    let waiting = made::pressed(PressureSignal::Memory(Percent(60_00)));
    let until = Nanos(0);
    #[rustfmt::skip]
    let table = [
        // held, memory runs out, urgent
        (None,                                      false, false),
        (None,                                      true,  true),
        (Some(Hold::InGrace),                       false, false),
        (Some(Hold::InGrace),                       true,  true),
        (Some(Hold::Settling { action: 1, until }), false, true),
        (Some(Hold::CoolingDown { until }),         false, false),
        (Some(Hold::CoolingDown { until }),         true,  true),
        (Some(Hold::Observed { action: 1 }),        true,  false), // nothing will follow
        (Some(Hold::NobodyLeft),                    true,  false),
        (Some(Hold::BudgetSpent { until }),         true,  false),
    ];
    for (held, runs_out, want) in table {
        let met = if runs_out { exhaustion().assessment.met } else { vec![waiting] };
        let decision = decided(met, held);
        assert_eq!(is_urgent(&decision), want, "{:?} {runs_out}", decision.relief.held);
    }
}

#[test]
fn spacing_doubles_after_false_alarms() {
    let mut pace = Pace::new_silent();
    let calm = Decision::default();
    #[rustfmt::skip]
    let table = [
        // cause of a tick, what it saw, spacing of the next alarm in ms
        (Cause::Pressure, &calm,         200),
        (Cause::Pressure, &calm,         400),
        (Cause::Event,    &calm,         800), // an OOM kill at a pod's own limit
        (Cause::Event,    &calm,         800), // sooner than the next tick all the same
        (Cause::Timer,    &calm,         100),
        (Cause::Event,    &calm,         200),
        (Cause::Event,    &exhaustion(), 100),
        (Cause::Pressure, &calm,         200),
    ];
    for (step, (cause, decision, want)) in table.into_iter().enumerate() {
        pace.saw(cause, decision);
        for alarm in [Cause::Pressure, Cause::Event] {
            let got = pace.spacing(alarm);
            assert_eq!(got, Duration::from_millis(want), "step {step} {alarm:?}");
        }
    }
    pace.was_right();
    assert_eq!(pace.spacing(Cause::Event), CLOSEST);
}

impl Pace {
    fn new_silent() -> Self {
        Self { pressure: None, event: None, last: None, is_urgent: false, n_false: 0 }
    }
}

/// What `due` says and after how many milliseconds, of a tick that follows one just done.
async fn next(pace: &mut Pace) -> (Cause, u64) {
    let begun = clock::now().boot;
    let cause = timeout(Duration::from_secs(5), pace.due()).await.unwrap();
    (cause, clock::now().boot.since(begun).0 / 1_000_000)
}

#[test]
fn due_comes_sooner_on_an_alarm() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut ring, alarm) = UnixStream::pair().unwrap();
        alarm.set_nonblocking(true).unwrap();
        let alarms = Alarms { pressure: None, event: Some(alarm.into()) };
        let mut pace = Pace::new(alarms).unwrap();
        assert_eq!(next(&mut pace).await.0, Cause::Timer);
        ring.write_all(b"!").unwrap();
        let (cause, after) = next(&mut pace).await;
        assert_eq!(cause, Cause::Event);
        assert!((90..500).contains(&after), "after {after} ms");
        // It rang once.
        let (cause, after) = next(&mut pace).await;
        assert_eq!(cause, Cause::Timer);
        assert!((900..2_000).contains(&after), "after {after} ms");
        pace.saw(cause, &exhaustion());
        let (cause, after) = next(&mut pace).await;
        assert_eq!(cause, Cause::Timer);
        assert!((200..900).contains(&after), "after {after} ms");
    });
}
