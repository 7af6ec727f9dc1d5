//! What pods have on disk where no kubelet tells: walked by the built agent.

use std::fs;

use crate::host::{Agent, Group, Mounted, alone, gaps, skip};
use serde_json::Value;

const UID: &str = "44444444-1111-4111-8111-444444444444";

fn walks(snapshot: &Value) -> Option<&Value> {
    snapshot["capabilities"].as_array()?.iter().find(|one| one["name"] == "disk use of pods")
}

/// What the first candidate has above its request, in KiB.
fn excess(snapshot: &Value) -> Option<u64> {
    let keys = snapshot["decision"]["ranking"]["candidates"][0]["keys"].as_array()?;
    let excess = keys.iter().find(|one| one["key"] == "excess")?["value"].as_str()?;
    excess.strip_suffix("Ki")?.parse().ok()
}

#[test]
fn disks_are_walked_only_while_one_is_nearly_short() {
    let _alone = alone();
    let Some(own) = Group::make("disks") else { return };
    let kubepods = own.child("kubepods");
    let _pod = kubepods.child(&format!("pod{UID}"));
    let root = tempfile::tempdir().unwrap();
    // The disk of this machine may be nearly full.
    let Some(_nodefs) = Mounted::at(root.path(), "size=64m") else {
        return skip("no file system can be mounted here");
    };
    let kubelet = root.path().join("var/lib/kubelet");
    let volume = kubelet.join(format!("pods/{UID}/volumes/kubernetes.io~empty-dir/cache"));
    fs::create_dir_all(volume.join("inner")).unwrap();
    fs::create_dir_all(root.path().join("var/log/pods")).unwrap();
    fs::write(volume.join("file"), vec![1; (3 << 20) + (4 << 10)]).unwrap();
    let other = Mounted::at(&volume.join("inner"), "size=64m").unwrap();
    fs::write(other.path().join("file"), vec![1; 9 << 20]).unwrap();
    let (config, pods) = (root.path().join("monitor.yaml"), root.path().join("pods.yaml"));
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: {UID}}}\n\
         spec: {{containers: [{{name: app}}], volumes: [{{name: cache, emptyDir: {{}}}}]}}\n"
    );
    fs::write(&pods, pod).unwrap();
    let start = |threshold: &str| {
        let text = format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: {}\n\
             cgroupRoot: {}\nevictionHard: {{nodefs.available: {threshold}}}\n",
            kubelet.display(),
            own.path()
        );
        fs::write(&config, text).unwrap();
        let [config, pods] = [("config", &config), ("pods", &pods)]
            .map(|(name, file)| format!("--{name}={}", file.display()));
        Agent::start(&["--probes=none", "--no-kubernetes", &config, &pods])
    };

    let near = start("99%");
    let known = near.wait_for("a walk, and a ranking by it", |now| excess(now).is_some());
    let found = excess(&known).unwrap();
    assert_eq!(found, (3 << 10) + 4, "the other file system is not the volume's");
    assert_eq!(walks(&known).map(|one| &one["state"]), Some(&Value::from("attached")));
    let gaps: Vec<_> = gaps(&known, "disk use of pods").collect();
    assert!(gaps.is_empty(), "{gaps:?}");
    drop(near);

    let far = start("1");
    let now = far.next(&far.next(&far.snapshot()));
    assert_eq!(walks(&now), None, "nothing is short, and nothing is walked");
}
