//! The events of conditions: their words, and which there are after a pause.

use super::*;

#[test]
fn condition_event_numbers() {
    let mut standing = ConditionStanding::default();
    let settings = Conditions { prefix: "isobar.example/".into(), ..settings() };
    let events = |second, averages, standing: &mut ConditionStanding| {
        let (_, events) = judge(&settings, &snapshot(second, averages), standing);
        events.into_iter().map(|event| (event.message, event.is_warning)).collect::<Vec<_>>()
    };
    let kind = "isobar.example/SystemMemoryContentionPressure";
    let numbers = "PSI memory some was 61.20 % over a minute and 70.05 % over ten seconds, the \
                   threshold is 60.00 %";
    let holds = (format!("{kind} holds: {numbers}"), true);
    assert_eq!(events(1, Some((70_05, 61_20)), &mut standing), [holds]);
    let unread =
        format!("{kind} cannot be judged any more: the memory pressure file of  gave no reading");
    assert_eq!(events(40, None, &mut standing), [(unread, true)]);
}

#[test]
fn condition_event_after_a_long_pause() {
    #[rustfmt::skip]
    let table = [
        // held by the agent before, then averages of each second, reasons of each second's events
        (Status::True,    [None, Some((0, 0)), Some((0, 0))],         [&[][..], &["PressureKnown"], &[]]),
        (Status::False,   [None, Some((0, 0)), Some((0, 0))],         [&[], &["PressureKnown"], &[]]),
        (Status::False,   [None, Some((90_00, 90_00)), None],         [&[], &["PressureContended"], &[]]),
        (Status::False,   [None, Some((10_00, 90_00)), None],         [&[], &["PressureKnown", "PressureHigh"], &[]]),
        (Status::False,   [None, None, None],                         [&[], &["PressureUnknown"], &[]]),
        (Status::False,   [Some((0, 0)), Some((0, 0)), Some((0, 0))], [&[], &[], &[]]),
        (Status::True,    [Some((0, 0)), Some((0, 0)), Some((0, 0))], [&["PressureCleared"], &[], &[]]),
        (Status::Unknown, [None, None, Some((0, 0))],                 [&[], &[], &["PressureKnown"]]),
    ];
    for (status, averages, want) in table {
        let judged = (status != Status::Unknown).then_some(at(0));
        let phase = if judged.is_some() { Phase::High } else { Phase::Unknown };
        let held = Held { status, judged, phase, ..Held::new(at(0)) };
        let mut standing = ConditionStanding(BTreeMap::from([(MEMORY.name().into(), held)]));
        for ((second, averages), want) in (7_200..).zip(averages).zip(want) {
            let first = second == 7_200;
            let interval = if first { Nanos(0) } else { seconds(1) };
            let snapshot = Snapshot { interval, ..snapshot(second, averages) };
            let (condition, events) = step(&settings(), &snapshot, &mut standing);
            assert_eq!(events, want, "{status:?} {averages:?} second {second}");
            let is_at_first = averages.is_none() && first;
            assert!(!is_at_first || condition.status == Status::Unknown, "{status:?}");
        }
    }
}
