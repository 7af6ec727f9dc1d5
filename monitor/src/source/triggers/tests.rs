use super::*;
use isobar_core::model::cgroup::{Cgroup, CgroupPath};
use isobar_core::model::sample::Moment;

/// A directory in which each cgroup has an ordinary file in the place of its pressure file.
struct Tree {
    dir: tempfile::TempDir,
    sample: Sample,
}

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, sample: Sample::default() }
    }

    fn add(&mut self, id: u64, path: &str) {
        let path = CgroupPath(path.into());
        self.sample.cgroups.insert(CgroupId(id), Cgroup { path, ..Cgroup::default() }.into());
    }

    fn triggers(&self) -> Triggers {
        Triggers::new(self.dir.path(), self.dir.path()).unwrap()
    }

    fn at(&mut self, second: u64) -> &Sample {
        let boot = Nanos(second * Nanos::SECOND.0);
        self.sample.at = Moment { boot, ..Moment::default() };
        &self.sample
    }
}

const BURSTABLE: &str = "/kubepods.slice/kubepods-burstable.slice";

fn ids(ids: &[u64]) -> Vec<CgroupId> {
    ids.iter().copied().map(CgroupId).collect()
}

#[test]
fn wanted_puts_node_and_pods_before_suspects() {
    let mut tree = Tree::new();
    tree.add(1, "/");
    for n in 100..120 {
        tree.add(n, &format!("{BURSTABLE}/kubepods-burstable-pod{n}.slice"));
    }
    let mut triggers = tree.triggers();
    assert_eq!(triggers.wanted(tree.at(1)), ids(&[1]));
    // The pods' cgroups are created when the kubelet starts, which may be later.
    tree.add(50, "/kubepods.slice");
    tree.add(60, BURSTABLE);
    triggers.suspect(ids(&[119, 118]), Nanos::SECOND);
    assert_eq!(triggers.wanted(tree.at(1)), ids(&[1, 50, 60, 118, 119]));
    triggers.suspect((100..120).map(CgroupId), Nanos::SECOND);
    let wanted = triggers.wanted(tree.at(1));
    assert_eq!((wanted.len(), &wanted[..3]), (MAX_TRIGGERS, &ids(&[1, 50, 60])[..]));
}

#[test]
fn suspicion_ends_after_a_minute() {
    let mut tree = Tree::new();
    tree.add(1, "/");
    tree.add(7, "/a");
    tree.add(8, "/b");
    let mut triggers = tree.triggers();
    triggers.suspect(ids(&[7, 8]), Nanos(0));
    let wanted = |triggers: &mut Triggers, tree: &mut Tree, second| {
        triggers.follow(tree.at(second));
        triggers.wanted(&tree.sample)
    };
    assert_eq!(wanted(&mut triggers, &mut tree, 59), ids(&[1, 7, 8]));
    triggers.suspect(ids(&[8]), Nanos(59 * Nanos::SECOND.0));
    assert_eq!(wanted(&mut triggers, &mut tree, 60), ids(&[1, 8]));
    tree.sample.cgroups.remove(&CgroupId(8));
    assert_eq!(wanted(&mut triggers, &mut tree, 61), ids(&[1]));
}

#[test]
fn follow_retries_a_failed_trigger_after_a_minute() {
    let mut tree = Tree::new();
    tree.add(1, "/");
    let mut triggers = tree.triggers();
    triggers.follow(tree.at(1));
    let told = triggers.capability();
    assert_eq!(told.state, CapabilityState::Absent);
    assert!(told.detail.contains("pressure/memory: No such file"), "{}", told.detail);
    assert!(triggers.failed.contains_key(&CgroupId(1)));
    triggers.follow(tree.at(60));
    assert_eq!(triggers.failed[&CgroupId(1)].0, Nanos(61 * Nanos::SECOND.0));
    triggers.follow(tree.at(61));
    assert_eq!(triggers.failed[&CgroupId(1)].0, Nanos(121 * Nanos::SECOND.0));
}

/// Uses a cgroup of its own in the real tree.
#[test]
fn follow_opens_and_closes_a_real_trigger() {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let Some(mount) = mounts.into_iter().find(|at| at.join("cgroup.procs").exists()) else {
        println!("skipped: cgroup v2 is not mounted");
        return;
    };
    let name = format!("isobar-trigger-{}", std::process::id());
    if let Err(why) = std::fs::create_dir(mount.join(&name)) {
        println!("skipped: no cgroup can be made: {why}");
        return;
    }
    let mut sample = Sample::default();
    let path = CgroupPath(format!("/{name}").into());
    sample.cgroups.insert(CgroupId(9), Cgroup { path, ..Cgroup::default() }.into());
    let mut triggers = Triggers::new(Path::new("/proc"), mount).unwrap();
    triggers.suspect(ids(&[9]), Nanos(0));
    triggers.follow(&sample);
    let armed = triggers.open.len();
    let told = triggers.capability();
    std::fs::remove_dir(mount.join(&name)).unwrap();
    // It fires because its cgroup is removed, and is closed although the sample still has the
    // cgroup.
    let alarm = triggers.alarm().unwrap();
    let mut fds = [rustix::event::PollFd::new(&alarm, rustix::event::PollFlags::IN)];
    let fired = rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
    triggers.follow(&sample);
    match triggers.refused.as_ref().or(triggers.failed.get(&CgroupId(9)).map(|(_, reason)| reason))
    {
        Some(why) if armed == 0 => println!("skipped: no trigger can be had: {why}"),
        _ => {
            assert_eq!((armed, told.state, fired), (1, CapabilityState::Attached, 1), "{told:?}");
            assert!(triggers.open.is_empty());
        }
    }
}
