//! What an agent leaves to the next one of who takes memory.

use super::*;
use crate::model::decision::Trigger;

/// Nothing of what `last` lost was seen by this agent: it began with what the one before left.
fn next(left: &TakerStanding, last: &Sample) -> Option<(Vec<String>, u64)> {
    let text = serde_json::to_string(&left.who_changed()).unwrap();
    let mut standing: TakerStanding = serde_json::from_str(&text).unwrap();
    let snapshot = take_in(&mut standing, std::slice::from_ref(last));
    let lost = standing.loss(ScopeName::System, Counts::Held, last, &snapshot)?;
    let from = taker_from(largest(&lost), Resource::Memory);
    let told = lost.told(&snapshot, last, from, |_| false, |_, _| false);
    let names = told.takers.iter().map(crate::model::decision::Taker::full_name).collect();
    Some((names, told.unattributed.0 / MIB))
}

#[test]
fn next_agent_knows_who_took_memory() {
    const NEW: &str = "/kubepods/besteffort/podu2";
    const BELOW: &str = "/system.slice/other.service/below";
    type Last = &'static [(&'static str, u64)];
    #[rustfmt::skip]
    let table: [(&str, u64, Last, Option<&[&str]>); 6] = [
        // what, seconds without an agent, what is there then; who took it
        ("the leak goes on",                 5,   &[("/kubepods", 0), (POD, 175), (OTHER, 200)],             Some(&["u1"])),
        ("the same a minute later",          60,  &[("/kubepods", 0), (POD, 230), (OTHER, 200)],             Some(&["u1"])),
        ("much later",                       90,  &[("/kubepods", 0), (POD, 260), (OTHER, 200)],             None),
        ("a pod came meanwhile",             5,   &[("/kubepods", 0), (POD, 175), (OTHER, 200), (NEW, 90)],  Some(&["u1"])),
        ("the service grew meanwhile",       5,   &[("/kubepods", 0), (POD, 175), (OTHER, 280)],             Some(&[OTHER, "u1"])),
        // Of the service a cgroup below is the party now, as where it delegates memory.
        ("the service is no party any more", 5,   &[("/kubepods", 0), (POD, 175), (OTHER, 200), (BELOW, 200)], None),
    ];
    for (what, pause, last, want) in table {
        let seen = (0..=70).map(|t| {
            let (pod, other) = (100 + t, 200);
            sample(t + 1, pod + other, &[("/kubepods", 0), (POD, pod), (OTHER, other)])
        });
        let mut standing = TakerStanding::default();
        take_in(&mut standing, &seen.collect::<Vec<_>>());
        let used = last.iter().map(|(_, mib)| mib).sum();
        let last = sample(71 + pause, used, last);
        let got = next(&standing, &last);
        let want = want.map(|names| (names.iter().map(|name| (*name).to_owned()).collect(), 0));
        assert_eq!(got, want, "{what}");
    }
}

#[test]
fn who_changed_is_short() {
    let paths: Vec<_> = (0..500).map(|n| format!("/kubepods/besteffort/podu{n}")).collect();
    // Each pod but one takes a MiB a minute.
    let at = |t: u64| {
        let held = |path: &str| if path == POD { t } else { t / 60 };
        let groups: Vec<_> = paths.iter().map(|path| (path.as_str(), held(path))).collect();
        let mut sample = sample(t + 1, 0, &groups);
        let used = groups.iter().map(|(_, mib)| mib).sum::<u64>() * MIB;
        let total = Bytes(8 << 30);
        sample.node.memory =
            Some(Meminfo { total, available: Bytes(total.0 - used), ..Meminfo::default() });
        sample
    };
    let mut standing = TakerStanding::default();
    take_in(&mut standing, &(0..200).map(at).collect::<Vec<_>>());
    let text = serde_json::to_string(&standing.who_changed()).unwrap();
    assert!(text.len() < 50_000, "{}", text.len());
    assert_eq!(next(&standing, &at(203)), Some((vec!["u1".into()], 0)));
}

#[test]
fn next_agent_knows_whose_processes_began_anew_and_whom_the_kernel_took() {
    use crate::model::cgroup::MemoryEvents;
    use crate::model::decision::{InForce, StepKind, made};
    let mut action = made::action(
        StepKind::Mark,
        made::met(Trigger::Pressure(made::usual_pressure_thresholds()[0])),
    );
    action.target.cgroup = Some(CgroupId(2));
    action.target.path = Some(CgroupPath(POD.into()));
    let mark = InForce { action, since: Nanos(0), held: None, phase: Phase::Marked, largest: None };
    let seen = (0..=20).map(|t| {
        let mut sample = sample(t + 1, 300, &[("/kubepods", 0), (POD, 300)]);
        let events = MemoryEvents { oom_kill: u64::from(t >= 10), ..MemoryEvents::default() };
        let own = sample.cgroups.get_mut(&CgroupId(2)).unwrap();
        Arc::make_mut(own).memory.events = Some(events);
        sample.in_force.push(mark.clone());
        sample
    });
    let mut standing = TakerStanding::default();
    take_in(&mut standing, &seen.collect::<Vec<_>>());
    let next = standing.who_changed();
    assert!(!next.killed.is_empty() && !next.anew.is_empty());
    assert_eq!((&next.killed, &next.anew), (&standing.killed, &standing.anew));
}
