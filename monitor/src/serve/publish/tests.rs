use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::snapshot::Scope;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Pod;

use super::*;

#[test]
fn named_kills_of_a_recording_name_a_cgroup_that_is_gone() {
    let pod =
        Pod { uid: "u1".into(), namespace: "shop".into(), name: "web".into(), ..Pod::default() };
    let place = Place::Pod { uid: "u1".into(), class: QosClass::Burstable };
    let path = CgroupPath("/kubepods/podu1".into());
    let scope = Scope { path: path.clone(), place, ..Scope::default() };
    let (id, pods) = (CgroupId(9), [(pod.uid.clone(), pod)].into());
    let before = Snapshot {
        scopes: [(id, scope)].into(),
        pods: Some(Arc::new(pods)),
        ..Snapshot::default()
    };
    let mut publisher = Publisher::new(NodeFacts::default(), Moment::default(), channel().0);
    publisher.remember(&before);
    let kill = OomKill { victim: id, ..OomKill::default() };
    let after = Snapshot { oom_kills: vec![kill], ..Snapshot::default() };
    let kills = publisher.named_kills(&after);
    assert_eq!(kills.len(), 1);
    assert_eq!(kills[0].victim.as_deref(), Some("shop/web"));
    assert_eq!(kills[0].victim_path.as_ref(), Some(&path));
}

#[test]
fn kills_of_a_recording_are_told_once_and_newest_first() {
    let record = |at: u64| {
        let kill = OomKill { at: Nanos(at), ..OomKill::default() };
        OomRecord { kill, ..OomRecord::default() }
    };
    let mut publisher = Publisher::new(NodeFacts::default(), Moment::default(), channel().0);
    let long = 100 + OOM_KILLS_KEPT as u64;
    for (more, n, newest, oldest) in
        [(3..=5, 3, 5, 3), (1..=4, 5, 5, 1), (101..=long, OOM_KILLS_KEPT, long, 101)]
    {
        publisher.add_kills(more.map(record));
        let at: Vec<_> = publisher.kills.iter().map(|one| one.kill.at.0).collect();
        assert_eq!((at.len(), at.first(), at.last()), (n, Some(&newest), Some(&oldest)));
    }
    // One that is known already is told once, with its name.
    let kill = OomKill { at: Nanos(long), ..OomKill::default() };
    publisher.remember(&Snapshot { oom_kills: vec![kill.clone()], ..Snapshot::default() });
    let named = OomRecord { kill, victim: Some("shop/web".into()), ..OomRecord::default() };
    publisher.add_kills([named.clone(), record(long)].into_iter());
    assert_eq!((publisher.kills.len(), &publisher.kills[0]), (OOM_KILLS_KEPT, &named));
    // Nor does its path go where the tick has the cgroup no more.
    let kill = OomKill { at: Nanos(long + 1), ..OomKill::default() };
    let path = Some(CgroupPath("/system.slice/backup.service".into()));
    let of_service = OomRecord { kill, victim_path: path, ..OomRecord::default() };
    publisher.add_kills([of_service.clone(), record(long + 1)].into_iter());
    assert_eq!(publisher.kills[0], of_service);
}

/// A sentence of a view that was made in each tick once took most of the agent's CPU.
#[test]
fn publish_makes_no_view_before_a_client_asks() {
    let (to, latest) = channel();
    let mut publisher = Publisher::new(NodeFacts::default(), Moment::default(), to);
    for tick in 1..=3 {
        let snapshot = Snapshot { tick, ..Snapshot::default() };
        publisher.publish(Step { snapshot, ..Step::default() }, vec![], Cost::default());
        let published = latest.borrow().clone().expect("one was published");
        assert_eq!(format!("{:?}", published.view), "LazyLock(<uninit>)", "tick {tick}");
        assert_eq!(published.view.snapshot.tick, tick);
    }
}
