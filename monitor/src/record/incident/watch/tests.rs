use std::iter::empty;

use super::*;
use isobar_core::model::capability::CapabilityState::{Attached, Off};

#[test]
fn can_tells_what_changed_while_an_incident_is_open() {
    let capability = |name: &str, state| {
        let (name, detail, remedy) = (name.to_owned(), String::new(), None);
        Capability { name, state, detail, remedy }
    };
    let both = [capability("a", Attached), capability("b", Off)];
    let less = [capability("a", Off), capability("b", Off)];
    let open = Incident { capabilities: both.to_vec(), ..Incident::default() };
    let mut watch = Watch::after(&NodeFacts::default(), Some(open), empty(), Moment::default());
    #[rustfmt::skip]
    let table = [
        // what it can now, how many changes are told
        (&both, 0), // also by the agent after
        (&less, 1),
        (&less, 1),
        (&both, 2),
    ];
    for (now, want) in table {
        watch.can(Moment::default(), now);
        assert_eq!(watch.open.as_ref().unwrap().changes.len(), want, "{now:?}");
    }
    let open = watch.open.take();
    let mut next = Watch::after(&NodeFacts::default(), open, empty(), Moment::default());
    next.can(Moment::default(), &both);
    assert_eq!(next.open.unwrap().changes.len(), 2, "a restart is no change");
}

#[test]
fn new_name_where_the_clock_was_set_back() {
    let first = Trigger {
        at: Moment::default(),
        kind: Kind::Kill,
        who: "shop/web".into(),
        text: String::new(),
        at_own_limit: false,
    };
    let name = "19700101T000000Z-kill-shop_web";
    let mut named = VecDeque::new();
    for want in [name.to_owned(), format!("{name}-2"), format!("{name}-3")] {
        let new = new_name(&first, &named);
        assert_eq!(new, want);
        assert!(super::super::is_name(&new));
        named.push_back(new);
    }
}

#[test]
fn join_lists_a_kill_after_many_gentler_triggers() {
    let trigger = |kind, n: usize| {
        let (at, text) = (Moment::default(), String::new());
        Trigger { at, kind, who: n.to_string(), text, at_own_limit: false }
    };
    let mut incident = Incident::default();
    #[rustfmt::skip]
    let table = [
        // kind, how many, the last that is listed, the kinds
        (Kind::Drift,     40, "31", vec![Kind::Drift]),
        (Kind::Condition, 1,  "0",  vec![Kind::Condition, Kind::Drift]),
        (Kind::OomKill,   1,  "0",  vec![Kind::OomKill, Kind::Condition, Kind::Drift]),
        (Kind::Drift,     1,  "0",  vec![Kind::OomKill, Kind::Condition, Kind::Drift]),
    ];
    for (kind, n, last, kinds) in table {
        join(&mut incident, (0..n).map(|n| trigger(kind, n)).collect());
        let listed = &incident.triggers;
        assert_eq!((listed.len(), listed.last().unwrap().who.as_str()), (TRIGGERS, last));
        assert_eq!(incident.kinds, kinds);
    }
    let kept: Vec<_> = incident.triggers.iter().map(|one| one.kind).collect();
    assert_eq!(kept[30..], [Kind::Condition, Kind::OomKill]);
    assert_eq!((kept[0], incident.triggers[0].who.as_str()), (Kind::Drift, "0"));
    assert_eq!(incident.more_triggers, 8 + 3);
}

#[test]
fn goes_on_in_the_boot_of_the_incident_where_the_clock_was_set() {
    let at = |boot: u64, wall: u64| Moment { boot: Nanos(boot << 30), wall: Nanos(wall << 30) };
    #[rustfmt::skip]
    let table = [
        // boot of the incident and of the agent, its start; is it the same incident?
        ("a", "a", at(20, 5),    true), // the clock was set back
        ("a", "a", at(20, 9000), true),
        ("a", "b", at(20, 110),  false),
        ("",  "a", at(20, 110),  true), // an older build kept it
        ("",  "a", at(20, 120),  false),
    ];
    for (own, boot_id, now, want) in table {
        let open = Incident { boot_id: own.into(), begin: at(10, 100), ..Incident::default() };
        assert_eq!(open.goes_on(boot_id, now), want, "{own} {boot_id} {now:?}");
    }
}

#[test]
fn tick_lists_an_oom_kill_of_the_node_after_many_at_own_limits() {
    use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
    use isobar_core::model::stall::OomKill;
    let pods = CgroupPath("/kubepods".into());
    let mut sample = Sample { kubepods: Some(pods.clone()), ..Sample::default() };
    let group = Cgroup { path: pods.clone(), ..Cgroup::default() };
    sample.cgroups.insert(CgroupId(9), group.into());
    let kill = |victim: u64, limit: Option<CgroupPath>| {
        let kill = OomKill {
            at: Nanos(victim),
            victim: CgroupId(victim),
            limit: limit.as_ref().map(|_| CgroupId(9)),
            limit_known: true,
            ..OomKill::default()
        };
        let path = |id| if id == CgroupId(9) { limit.clone() } else { None };
        OomRecord::of(&kill, Moment::default(), Some(victim.to_string()), path)
    };
    let own = || Some(CgroupPath("/kubepods/pod1".into()));
    #[rustfmt::skip]
    let table = [
        // the limit of the kill after 32 at own limits, whether it is listed
        (None,       true),
        (Some(pods), true),
        (own(),      false),
    ];
    for (limit, want) in table {
        let mut watch = Watch::new(String::new(), String::new());
        let kills: Vec<_> = (100..132).map(|n| kill(n, own())).collect();
        let (decision, limits) = (&Decision::default(), &[][..]);
        watch.tick(Seen { sample: &sample, decision, kills: &kills, limits });
        let kills = [kill(200, limit.clone())];
        watch.tick(Seen { sample: &sample, decision, kills: &kills, limits });
        let open = watch.open.unwrap();
        let is_listed = open.triggers.iter().any(|one| one.who == "200");
        assert_eq!((is_listed, open.triggers.len()), (want, TRIGGERS), "{limit:?}");
        assert_eq!(open.more_triggers, 1, "{limit:?}");
    }
}
