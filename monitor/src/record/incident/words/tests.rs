use super::*;
use isobar_core::model::units::Bytes;

#[test]
fn who_waited_names_the_longest_first() {
    let wait = |sufferer: &str, seconds: u64, loss: u64| Wait {
        sufferer: sufferer.into(),
        time: Nanos(seconds * Nanos::SECOND.0),
        loss: Nanos(loss),
        ..Wait::default()
    };
    let all = [wait("a", 3, 9), wait("b", 4, 5)];
    let told = who_waited(&all.iter().collect::<Vec<_>>());
    assert_eq!(told, "tasks of b waited 4s, of a 3s");
}

#[test]
fn waits_are_within_the_time_in_which_they_were_counted() {
    let at = |second| Moment { boot: Nanos(second * Nanos::SECOND.0), wall: Nanos(0) };
    let text = String::from;
    let wait = |seconds| Nanos(seconds * Nanos::SECOND.0);
    #[rustfmt::skip]
    let table = [
        // since when waits are counted, seconds without ticks, what is said of a stall of 2 s, within which time
        (None,          0,   None,                                                      "(summed over tasks, within 5m0s)"),
        (None,          200, Some("For memory waited: shop/web 2s (summed over tasks, within 1m40s)."), "(summed over tasks, within 1m40s)"),
        (Some(at(200)), 0,   Some("For memory waited: shop/web 2s (summed over tasks, within 1m40s)."), "(summed over tasks, within 1m40s)"),
    ];
    for (waits_from, paused, of_memory, of_cpu) in table {
        let incident = Incident {
            to: at(300),
            waits_from,
            paused: wait(paused),
            waits: vec![Wait { time: wait(2), ..Wait::default() }],
            stalls: vec![Stall { sufferer: text("shop/web"), time: wait(2) }],
            ..Incident::default()
        };
        assert_eq!(stalls(&incident), of_memory.map(text), "{waits_from:?}");
        assert!(waits(&incident).unwrap().contains(of_cpu), "{waits_from:?}");
    }
}

#[test]
fn deeds_without_a_step_tell_why_there_was_none() {
    let deed = |action, text: &str| Deed { action, text: text.into(), ..Deed::default() };
    let released = deed(7, "released the squeeze of shop/leak");
    let hold = deed(0, "no action: no eviction threshold is met");
    let why = "isobar took no step: no action: no eviction threshold is met.";
    #[rustfmt::skip]
    let table = [
        // what was said, of a step before the span (7) and of none, and what is told
        (vec![hold.clone()],           why),
        (vec![released.clone(), hold], why),
        (vec![released],               "isobar took no step."),
        (vec![],                       "isobar took no step."),
    ];
    for (said, want) in table {
        assert_eq!(deeds(&said), [want], "{said:?}");
    }
}

#[test]
fn outcome_is_of_a_step_that_was_taken() {
    for (is_enforced, want) in [(true, Some("done")), (false, None)] {
        let step = Deed { action: 1, is_step: true, is_enforced, ..Deed::default() };
        let came = Deed { action: 1, text: "done".into(), ..Deed::default() };
        let deeds = [step.clone(), came];
        assert_eq!(outcome(&step, &deeds).map(|deed| deed.text.as_str()), want);
    }
}

#[test]
fn ending_is_calm_unless_it_was_cut() {
    let at = |second| Moment { boot: Nanos(second), wall: Nanos(second) };
    let minute = at(60 * Nanos::SECOND.0);
    let open = Held { name: "MemoryPressure".into(), ..Held::default() };
    let over = Held { to: Some(minute), ..open.clone() };
    let calm = "It was calm again at 00:01:00Z, after 1m0s.";
    let cut = "The record ends at 00:01:00Z, and it was not over.";
    #[rustfmt::skip]
    let table = [
        // a condition of it, whether it was cut, its ending
        (&over, false, calm),
        (&open, false, calm), // the kubelet's condition holds for minutes more
        (&open, true,  cut),
        (&over, true,  cut),
    ];
    for (held, is_cut, want) in table {
        let conditions = vec![held.clone()];
        let end = Some(minute);
        let incident = Incident { conditions, end, is_cut, ..Incident::default() };
        assert_eq!(ending(&incident), want, "{held:?}");
    }
}

#[test]
fn held_tells_since_when() {
    let at = |day: u64, hour: u64| {
        let wall = Nanos((day * 24 + hour) * 3_600 * Nanos::SECOND.0);
        Moment { boot: wall, wall }
    };
    let (from, begin) = (at(3, 9), at(3, 10));
    let incident = Incident { from, begin, ..Incident::default() };
    let own = "SystemMemoryContentionPressure";
    #[rustfmt::skip]
    let table = [
        // the condition, since when, until when, what is said of it
        (own, at(0, 15), None,            "has been True since 1970-01-01 15:00:00Z."),
        (own, at(0, 15), Some(at(3, 11)), "was True from 1970-01-01 15:00:00Z to 11:00:00Z (68h0m0s)."),
        (own, from,      Some(at(3, 11)), "was True from 09:00:00Z to 11:00:00Z (2h0m0s)."),
        ("MemoryPressure", from,      Some(at(3, 11)), "was True from before 09:00:00Z to 11:00:00Z (2h0m0s or more)."),
        ("MemoryPressure", from,      None,            "has been True since before 09:00:00Z."),
        ("MemoryPressure", at(3, 10), None,            "has been True since 10:00:00Z."),
    ];
    for (name, from, to, want) in table {
        let one = Held { name: name.into(), from, to, ..Held::default() };
        assert_eq!(held(&one, &incident), format!("{name} {want}"));
    }
}

#[test]
fn paragraph_tells_each_change_of_a_limit() {
    let trigger = |second, kind, text: &str| Trigger {
        at: Moment { boot: Nanos(0), wall: Nanos(second * Nanos::SECOND.0) },
        kind,
        who: String::new(),
        text: text.into(),
        at_own_limit: false,
    };
    let again = trigger(0, Kind::Drift, "/a/memory.max: changed 5 to 7; it was written again");
    let left = trigger(40, Kind::Drift, "/a/memory.max is not 5: left to them");
    let condition = trigger(50, Kind::Condition, "A became True");
    let first = "On this node at 1970-01-01 00:00:00Z, /a/memory.max: changed 5 to 7; it was \
                 written again. At 00:00:40Z, /a/memory.max is not 5: left to them.";
    let end = "The record ends at 00:00:00Z, before it was calm for 30s.";
    #[rustfmt::skip]
    let table = [
        // kinds, triggers, paragraph
        (vec![Kind::Drift],                  vec![again.clone(), left.clone()], format!("{first} {end}")),
        (vec![Kind::Condition, Kind::Drift], vec![again, left, condition],      format!("{first} isobar took no step. {end}")),
    ];
    for (kinds, triggers, want) in table {
        let incident = Incident { kinds, triggers, ticks: 1, ..Incident::default() };
        assert_eq!(paragraph(&incident), want);
    }
}

#[test]
fn killed_tells_of_a_victim_below_its_request() {
    #[rustfmt::skip]
    let table = [
        // used, requested, in MiB; what is told of that
        (Some(120), Some(512), ", which at the tick before used 120Mi of the 512Mi that it requests"),
        (Some(512), Some(512), ""),
        (Some(9),   Some(0),   ""),
        (Some(9),   None,      ""),
        (None,      None,      ""),
    ];
    for (used, request, want) in table {
        let [used, request] = [used, request].map(|mi| mi.map(|mi: u64| Bytes(mi << 20)));
        let score = Score { victim: "shop/web".into(), used, request, ..Score::default() };
        let told = killed(&score);
        assert!(told.contains(&format!(" of shop/web{want}; isobar had not")), "{told}");
    }
}

#[test]
fn gravest_kills_are_those_of_the_node() {
    let kill = |pid, is_own: bool| Score {
        pid,
        limit: is_own.then(|| "shop/web".into()),
        ..Score::default()
    };
    #[rustfmt::skip]
    let table = [
        // whether each kill was at a limit of its own, the two that are told
        (vec![true, true, true],  vec![0, 1]),
        (vec![true, true, false], vec![0, 2]),
        (vec![false, true],       vec![0, 1]),
    ];
    for (own, want) in table {
        let kills: Vec<_> = (0..).zip(&own).map(|(pid, own)| kill(Some(pid), *own)).collect();
        let told: Vec<_> = gravest(&kills, 2).iter().map(|kill| kill.pid.unwrap()).collect();
        assert_eq!(told, want, "{own:?}");
    }
}
