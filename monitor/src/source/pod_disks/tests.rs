use std::os::unix::fs::symlink;

use super::*;
use isobar_core::model::units::Bytes;
use tempfile::TempDir;

const UID: &str = "44444444-1111-4111-8111-444444444444";
const NO_END: u64 = 1 << 40;

fn walk(places: &Places, uids: &[&str], budget: &mut Budget) -> (DiskReading, Vec<Gap>) {
    let id = "c0".repeat(32);
    let containers = BTreeMap::from([(id, "app".to_owned())]);
    let pods = uids.iter().map(|uid| ((*uid).to_owned(), containers.clone())).collect();
    Walks::default().walk(places, &Wanted { pods }, budget)
}

/// A node's directories: a pod with a volume, logs, and a container's layer.
fn node() -> (TempDir, Places) {
    let root = TempDir::new().unwrap();
    let at = |path: &str| root.path().join(path);
    let volume = at(&format!("var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/cache"));
    let logs = at(&format!("var/log/pods/shop_web-1_{UID}/app"));
    let upper = at("var/lib/containerd/7/fs");
    for dir in [&volume, &logs, &upper, &at("proc/1")] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(volume.join("a"), vec![1; 64 << 10]).unwrap();
    fs::create_dir(volume.join("below")).unwrap();
    fs::write(volume.join("below/b"), vec![1; 64 << 10]).unwrap();
    fs::write(logs.join("0.log"), vec![1; 32 << 10]).unwrap();
    fs::write(upper.join("c"), vec![1; 16 << 10]).unwrap();
    let line = format!(
        "9 3 0:7 / /run/containerd/k8s.io/{}/rootfs rw - overlay overlay rw,upperdir=/var/lib/containerd/7/fs\n",
        "c0".repeat(32)
    );
    fs::write(at("proc/1/mountinfo"), line).unwrap();
    let proc = at("proc");
    let places = Places { proc, ..Places::of_kubelet(&at("var/lib/kubelet")) };
    (root, places)
}

#[test]
fn places_follow_the_kubelets_directory() {
    let table = [
        // the kubelet's directory, logs, what precedes the node's paths
        ("/var/lib/kubelet", "/var/log/pods", "/"),
        ("/host/var/lib/kubelet", "/host/var/log/pods", "/host"),
        ("/mnt/kubelet", "/var/log/pods", "/"),
    ];
    for (root, logs, host) in table {
        let places = Places::of_kubelet(Path::new(root));
        assert_eq!((&*places.logs, &*places.host), (Path::new(logs), Path::new(host)), "{root}");
    }
}

#[test]
fn walk_adds_up_volumes_logs_and_layers() {
    let (_root, places) = node();
    let (reading, gaps) = walk(&places, &[UID], &mut Budget::new(NO_END, NO_END));
    assert_eq!((reading.source, gaps), (DiskSource::Walk, Vec::new()));
    let disk = &reading.pods[UID];
    let (volume, app) = (disk.volumes["cache"], disk.containers["app"]);
    assert_eq!([volume.inodes, app.logs.inodes, app.layer.inodes], [Some(4), Some(2), Some(2)]);
    for (used, least) in [(volume, 128 << 10), (app.logs, 32 << 10), (app.layer, 16 << 10)] {
        let Some(Bytes(n)) = used.bytes else { panic!("unknown: {used:?}") };
        assert!((least..least + (64 << 10)).contains(&n), "{n} of {least}");
    }
    assert_eq!(disk.whole, volume.plus(app.logs).plus(app.layer));
}

#[test]
fn walk_counts_inodes_as_du_does() {
    let (_root, places) = node();
    let volume = places.pods.join(UID).join("volumes/kubernetes.io~empty-dir/cache");
    let count =
        || walk(&places, &[UID], &mut Budget::new(NO_END, NO_END)).0.pods[UID].volumes["cache"];
    let before = count();
    fs::hard_link(volume.join("a"), volume.join("below/again")).unwrap();
    assert_eq!(count().inodes, before.inodes, "a second name is no second file");
    symlink("/usr", volume.join("below/link")).unwrap();
    symlink("../..", volume.join("up")).unwrap();
    let inodes = before.inodes.map(|n| n + 2);
    assert_eq!(count().inodes, inodes, "a link is itself, not what it leads to");
    let sparse = fs::File::create(volume.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let grown = count().bytes.unwrap().0 - before.bytes.unwrap().0;
    assert!(grown < 1 << 20, "holes take no room: {grown}");
}

#[test]
fn walk_says_what_it_left_out() {
    let (_root, places) = node();
    let other = "55555555-1111-4111-8111-444444444444";
    #[rustfmt::skip]
    let table = [
        // entries of all and of a pod, pods, those with figures, a gap
        (NO_END, 3,      &[UID][..],        1, "at least"),
        (3,      3,      &[UID, other][..], 1, "1 of 2 pods were not reached"),
        (0,      NO_END, &[UID][..],        0, "1 of 1 pods were not reached"),
    ];
    for (total, a_pod, uids, n, want) in table {
        let (reading, gaps) = walk(&places, uids, &mut Budget::new(total, a_pod));
        assert_eq!(reading.pods.len(), n, "{want}");
        assert!(gaps.iter().any(|gap| gap.detail.contains(want)), "{want}: {gaps:?}");
    }
    fs::write(places.proc.join("1/mountinfo"), "").unwrap();
    let (reading, gaps) = walk(&places, &[UID], &mut Budget::new(NO_END, NO_END));
    assert!(gaps[0].detail.contains("no overlay mount"), "{gaps:?}");
    assert_eq!(reading.pods[UID].containers["app"].layer, DiskUse::default(), "unknown, not 0");
}

#[test]
fn walk_says_that_it_knows_no_logs() {
    let (_root, places) = node();
    fs::remove_dir_all(&places.logs).unwrap();
    let (reading, gaps) = walk(&places, &[UID], &mut Budget::new(NO_END, NO_END));
    let told = format!("logs of containers are not measured: {}: ", places.logs.display());
    assert!(gaps[0].detail.starts_with(&told), "{gaps:?}");
    assert_eq!(reading.pods[UID].containers["app"].logs, DiskUse::default());
}

#[test]
fn walk_goes_on_where_the_last_one_ended() {
    let (_root, places) = node();
    let pods: BTreeMap<_, _> =
        ["a", "b", "c"].into_iter().map(|uid| (uid.to_owned(), BTreeMap::new())).collect();
    for uid in pods.keys() {
        let volume = places.pods.join(uid).join("volumes/kubernetes.io~empty-dir/v");
        fs::create_dir_all(&volume).unwrap();
        fs::write(volume.join("f"), "").unwrap();
    }
    let (wanted, mut walks) = (Wanted { pods }, Walks::default());
    let mut known = || {
        let (reading, _) = walks.walk(&places, &wanted, &mut Budget::new(3, 3));
        reading.pods.into_keys().collect::<String>()
    };
    // A volume is three entries, with `.` and `..`.
    assert_eq!([known(), known(), known()], ["a", "ab", "abc"]);
}

#[test]
fn walk_finds_nothing_of_pods_that_are_gone() {
    let (_root, places) = node();
    let (reading, gaps) = walk(&places, &["gone"], &mut Budget::new(NO_END, NO_END));
    assert_eq!(reading.pods["gone"].volumes.len(), 0);
    assert_eq!(gaps, Vec::new());
}
