//! What a decision makes of a tick that measured less than the ones before it.

use super::restart::entry;
use super::*;
use crate::model::decision::ReleaseReason;

fn cpu() -> Trigger {
    pressure(PressureSignal::Cpu(Percent(60_00)))
}

#[test]
fn decide_unmeasured_is_no_effect_and_no_calm() {
    let soft = threshold(Signal::MemoryAvailable, seconds(30));
    for trigger in [cpu(), soft, pressure(PressureSignal::Memory(Percent(60_00)))] {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &[met(trigger)])), Some(("a", Squeeze)));
        node.unmeasured = vec![trigger];
        let held = node.at(2, &[]).held;
        let until = seconds(6);
        assert_eq!(held, Some(Hold::Settling { action: 1, until }), "{trigger:?}");
        // Its time is over all the same, and nothing follows from what nobody knows.
        let verdict = node.at(6, &[]);
        assert_eq!((&verdict.actions[..], verdict.held), (&[][..], None), "{trigger:?}");
        assert_eq!(verdict.releases[0].why, ReleaseReason::NoEffect, "{trigger:?}");
        // It is not begun again with what was tried: the shortage was not seen to be over.
        let step = (7..=60).find_map(|second| node.at(second, &[]).actions.pop());
        assert_eq!(step, None, "{trigger:?}");
        node.unmeasured.clear();
        let next = short(&node.at(61, &[met(trigger)])).map(|(name, step)| (name.to_owned(), step));
        assert_ne!(next, Some(("a".into(), Squeeze)), "{trigger:?}");
        assert!(next.is_some(), "{trigger:?}");
    }
}

#[test]
fn calm_counts_measured_time_alone() {
    let mut node = Node::new();
    let releases: Vec<_> = (1..=30)
        .flat_map(|second| {
            node.unmeasured = if (8..=11).contains(&second) { vec![cpu()] } else { vec![] };
            let met = if second <= 3 { vec![met(cpu())] } else { vec![] };
            let releases = node.at(second, &met).releases.into_iter();
            releases.map(move |release| (second, release.why)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(releases, [(22, ReleaseReason::Over)]);
}

#[test]
fn releases_end_an_unmeasured_squeeze() {
    let mut node = Node::new();
    node.at(1, &[met(cpu())]);
    node.at(2, &[]);
    node.unmeasured = vec![cpu()];
    let ended = (3..=700).find_map(|second| {
        let release = node.at(second, &[]).releases.pop()?;
        Some((second, release.why))
    });
    assert_eq!(ended, Some((601, ReleaseReason::Expired)));
}

#[test]
fn releases_end_a_mark_that_was_not_measured_for_ten_minutes() {
    let hard = threshold(Signal::MemoryAvailable, Nanos(0));
    #[rustfmt::skip]
    let table = [
        // when it is measured, and met; when the mark ends
        (None,      620),
        (Some(300), 901),
    ];
    for (measured, want) in table {
        let mut node = Node::new();
        node.sample.in_force = vec![entry(7, StepKind::Mark, 4, Phase::Marked)];
        let ended = (20..=1_000).find_map(|second| {
            let is_measured = measured == Some(second);
            node.unmeasured = if is_measured { vec![] } else { vec![hard] };
            let met = [Met { is_due: false, ..met(hard) }];
            let met = if is_measured { &met[..] } else { &[] };
            let release = node.at(second, met).releases.pop()?;
            Some((second, release.why))
        });
        assert_eq!(ended, Some((want, ReleaseReason::Expired)), "measured at {measured:?}");
    }
}

#[test]
fn choose_waits_while_harm_is_paused() {
    let disk = pressure(PressureSignal::Disk(Percent(60_00)));
    let thrashed = pressure(PressureSignal::Refaults(1_000));
    let hard = threshold(Signal::PidAvailable, Nanos(0));
    let budget = settings::Relief::default().harm_budget;
    #[rustfmt::skip]
    let table = [
        // short of, order, harm budget, paused, done
        (disk,     Order::Qos,     budget,   true,  None),
        (cpu(),    Order::Qos,     budget,   true,  None),
        (disk,     Order::Qos,     budget,   false, Some(Squeeze)), // nor was it before
        (disk,     Order::Qos,     Nanos(0), true,  Some(Squeeze)), // nobody asks for it
        (disk,     Order::Kubelet, budget,   true,  Some(Squeeze)), // the kubelet does not know it
        (thrashed, Order::Qos,     budget,   true,  Some(Squeeze)), // memory: by use
        (hard,     Order::Qos,     budget,   true,  Some(Evict)),   // what runs out runs out
    ];
    for (trigger, order, harm_budget, is_harm_paused, want) in table {
        let mut node = Node::new();
        node.relief.harm_budget = harm_budget;
        (node.ranking.order, node.is_harm_paused) = (order, is_harm_paused);
        for candidate in &mut node.ranking.candidates {
            candidate.keys[0].value = KeyValue::Unknown;
        }
        for second in [1, 2, 600] {
            let verdict = node.at(second, &[met(trigger)]);
            if want.is_some() {
                assert_eq!(short(&verdict), want.map(|step| ("a", step)), "{trigger:?} {order:?}");
                break;
            }
            assert_eq!(verdict.held, Some(Hold::HarmUnknown), "{trigger:?} at {second}");
        }
    }
}
