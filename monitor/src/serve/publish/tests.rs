use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::stall::OomKill;
use isobar_core::model::units::Nanos;

use super::*;

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
        publisher.add_kills(more.map(record).collect());
        let at: Vec<_> = publisher.kills.iter().map(|one| one.kill.at.0).collect();
        assert_eq!((at.len(), at.first(), at.last()), (n, Some(&newest), Some(&oldest)));
    }
    // One that is known already is told once, with its name.
    let kill = OomKill { at: Nanos(long), ..OomKill::default() };
    publisher.add_kills(vec![OomRecord { kill: kill.clone(), ..OomRecord::default() }]);
    let named = OomRecord { kill, victim: Some("shop/web".into()), ..OomRecord::default() };
    publisher.add_kills(vec![named.clone(), record(long)]);
    assert_eq!((publisher.kills.len(), &publisher.kills[0]), (OOM_KILLS_KEPT, &named));
    // Nor does its path go where the tick has the cgroup no more.
    let kill = OomKill { at: Nanos(long + 1), ..OomKill::default() };
    let path = Some(CgroupPath("/system.slice/backup.service".into()));
    let of_service = OomRecord { kill, victim_path: path, ..OomRecord::default() };
    publisher.add_kills(vec![of_service.clone(), record(long + 1)]);
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
