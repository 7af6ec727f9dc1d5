//! What the kubelet's file or answer says, below isobar's own file.

use std::fs;

use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::CgroupDriver;

use super::*;

const KUBELETS: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS: [10.96.0.10]
authentication: {anonymous: {enabled: false}}
evictionHard: {memory.available: 200Mi}
kubeReserved: {memory: 1Gi}
systemReserved: {memory: 2Gi}
maxPods: 250
";

#[test]
fn kubelet_file_fills_missing_fields() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("kubelet.yaml", KUBELETS);
    write(
        "ours.yaml",
        &format!("{HEAD}kubeletConfig: kubelet.yaml\nsystemReserved: {{memory: 3Gi}}\n"),
    );
    let settings = load(&dir.path().join("ours.yaml")).unwrap();
    assert_eq!(settings.node.kube_reserved["memory"].to_string(), "1Gi");
    assert_eq!(settings.node.system_reserved["memory"].to_string(), "3Gi");
    assert_eq!(settings.node.max_pods, 250);
    assert_eq!(settings.eviction.thresholds.len(), 2);
    let theirs = kubelet(&dir.path().join("kubelet.yaml")).unwrap();
    assert_eq!(theirs.node.system_reserved["memory"].to_string(), "2Gi");

    // The same as an answer of its /configz, and without a head.
    write("configz.json", "{\"kubeletconfig\":{\"maxPods\":250,\"port\":10250}}");
    write("headless.yaml", "maxPods: 250\n");
    // What the kubelet answers holds in place of its file.
    let answer = Some(&br#"{"kubeletconfig": {"maxPods": 1}}"#[..]);
    for name in ["kubelet.yaml", "configz.json"] {
        for (answer, want) in
            [(None, (250, KubeletSource::File)), (answer, (1, KubeletSource::Configz))]
        {
            let Effective { settings, kubelet, yaml, .. } =
                read(Some(&dir.path().join(name)), answer).unwrap();
            assert_eq!((settings.node.max_pods, kubelet), want, "{name}");
            assert_eq!(yaml.contains('#'), answer.is_some(), "{name}: {yaml}");
        }
    }
    for name in ["configz.json", "headless.yaml"] {
        assert_eq!(kubelet(&dir.path().join(name)).unwrap().node.max_pods, 250, "{name}");
    }
    assert!(load(&dir.path().join("headless.yaml")).is_err());
}

/// A kubelet of 1.36.2.
const ANSWER: &str = include_str!("../../../../../tests/data/kubernetes/configz.json");

fn over_answer(fields: &str, answer: &str) -> Result<Effective, Invalid> {
    let text = format!("{HEAD}{fields}\n");
    over(text.as_bytes(), "f", Path::new(""), Some(answer.as_bytes()))
}

#[test]
fn over_takes_from_a_real_kubelet_what_the_file_leaves_open() {
    let Effective { settings, kubelet, yaml, .. } = over_answer("maxPods: 9", ANSWER).unwrap();
    assert_eq!(kubelet, KubeletSource::Configz);
    let node = &settings.node;
    assert_eq!((node.max_pods, node.pod_pids_limit), (9, 512));
    assert_eq!(node.cgroup_driver, CgroupDriver::Systemd);
    assert!(node.static_cpus && node.strict_cpu_reservation);
    assert_eq!(node.reserved_cpus.as_ref().unwrap().to_string(), "0");
    let amounts = |list: &ResourceList| {
        list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    };
    assert_eq!(amounts(&node.kube_reserved), "ephemeral-storage=1Gi,memory=301Mi,pid=1k");
    assert_eq!(amounts(&node.system_reserved), "cpu=1,memory=200Mi,pid=500");
    assert_eq!(settings.eviction.transition_period, Nanos(30 * Nanos::SECOND.0));
    let thresholds = settings.eviction.thresholds.iter();
    let thresholds = thresholds.map(|one| format!("{}<{}", one.signal, one.value));
    #[rustfmt::skip]
    assert_eq!(thresholds.collect::<Vec<_>>(), [
        "imagefs.available<5%", "memory.available<7%", "nodefs.available<5%",
        "nodefs.inodesFree<5%", "pid.available<10%", "allocatableMemory.available<7%",
    ]);
    assert!(yaml.contains("\nmaxPods: 9\n"), "{yaml}");
    assert!(yaml.contains("\npodPidsLimit: 512  # the kubelet's /configz\n"), "{yaml}");
    assert!(yaml.contains("\npodsPerCore: 0\n"), "{yaml}");
    let again = effective(yaml.as_bytes(), "f", Path::new("")).unwrap();
    assert_eq!(again.settings, settings);
}

#[test]
fn over_takes_each_key_from_the_first_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kubelet.yaml"), KUBELETS).unwrap();
    let named = format!("kubeletConfig: {}/kubelet.yaml", dir.path().display());
    let kind = r#"{"kubeletconfig": {"cgroupRoot": "/kubelet", "maxPods": 42}}"#;
    let emptied = r#"{"kubeletconfig": {"evictionPressureTransitionPeriod": "5m0s"}}"#;
    use KubeletSource::Configz;
    #[rustfmt::skip]
    let table = [
        // isobar's file, the kubelet's answer, from, cgroupRoot, maxPods, thresholds
        ("",                      kind,    Configz, "/kubelet", 42,  6),
        ("maxPods: 7",            kind,    Configz, "/kubelet", 7,   6),
        ("cgroupRoot: \"\"",      kind,    Configz, "",         42,  6),
        (&*named,                 kind,    Configz, "/kubelet", 42,  6), // a file has no drop-ins and no flags
        // Of an answer that is whole, what it has not is empty: no threshold, nothing enforced.
        ("",                      emptied, Configz, "",         110, 0),
        ("evictionHard: {memory.available: 1Gi}", emptied, Configz, "", 110, 1),
    ];
    for (fields, answer, from, root, max_pods, n_thresholds) in table {
        let Effective { settings, kubelet, .. } = over_answer(fields, answer).unwrap();
        let got = (kubelet, &*settings.node.cgroup_root, settings.node.max_pods);
        assert_eq!(got, (from, root, max_pods), "{fields} {answer}");
        assert_eq!(settings.eviction.thresholds.len(), n_thresholds, "{fields} {answer}");
    }
}

#[test]
fn over_reports_problems_where_they_are() {
    #[rustfmt::skip]
    let table = [
        // isobar's file, the kubelet's answer, problems
        ("maxPods: 1",  "[]",              "the kubelet's /configz:1:1: expected a mapping, found a list"),
        ("maxPods: 1",  "",                "the kubelet's /configz:1:1: the file holds no document"),
        ("maxPods: 1",  "{\"a\": 1}",      "the kubelet's /configz:1:1: kind: expected kind KubeletConfiguration of apiVersion kubelet.config.k8s.io/v1beta1"),
        ("maxPods: 1",  "{\"kubeletconfig\": {}}", "the kubelet's /configz:1:19: kubeletconfig: no field of a KubeletConfiguration"),
        ("maxPods: x",  ANSWER,            "f:3:10: maxPods: expected a whole number, found the text \"x\""),
        // What each says alone is right; the kubelet refuses both together.
        ("systemReservedCgroup: /a", ANSWER, "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup"),
    ];
    for (fields, answer, want) in table {
        let told = over_answer(fields, answer).unwrap_err().to_string();
        assert!(told.contains(want), "{fields}: {told}");
        assert_eq!(told.lines().count(), 1, "{fields}: {told}");
    }
}

#[test]
fn kubelet_refuses_what_is_no_kubelets_file() {
    let dir = tempfile::tempdir().unwrap();
    #[rustfmt::skip]
    let table = [
        // text, what is said
        ("kubeletArguments:\n  max-pods: ['250']\n",     "flags of OpenShift's node configuration"),
        ("{}",                                            "no field of a KubeletConfiguration"),
        ("foo: bar",                                      "no field of a KubeletConfiguration"),
        ("apiVersion: kubelet.config.k8s.io/v1",          "expected kind KubeletConfiguration of apiVersion kubelet.config.k8s.io/v1beta1"),
        ("apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\nmaxPods: 9", "expected kind KubeletConfiguration"),
        ("{\"kubeletconfig\":{}}",                        ":1:18: kubeletconfig: no field of a KubeletConfiguration"),
        ("{\"kubeletconfig\":{\"foo\":1}}",               ":1:18: kubeletconfig: no field of a KubeletConfiguration"),
        ("{\"kubeletconfig\":null,\"maxPods\":9}",        ":1:18: kubeletconfig: no field of a KubeletConfiguration"),
        ("{\"kubeletconfig\":[]}",                        "kubeletconfig: expected a mapping"),
        ("apiVersion: v1\nkind: ConfigMap",               "expected kind KubeletConfiguration"),
    ];
    for (text, want) in table {
        let file = dir.path().join("file.yaml");
        fs::write(&file, text).unwrap();
        let told = kubelet(&file).unwrap_err().to_string();
        assert!(told.contains(want), "{text}: {told}");
    }
    let empty = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    fs::write(dir.path().join("file.yaml"), empty).unwrap();
    assert_eq!(kubelet(&dir.path().join("file.yaml")).unwrap().node.max_pods, 110);
}

#[test]
fn kubelet_file_problems_name_that_file() {
    let dir = tempfile::tempdir().unwrap();
    let (theirs, ours) = (dir.path().join("k.yaml"), dir.path().join("o.yaml"));
    let text = "evictionHard: {memory.available: 2x}\nmaxPods: many\nenforceNodeAllocatable: [system-reserved]\n";
    fs::write(
        &theirs,
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}"),
    )
    .unwrap();
    fs::write(&ours, format!("{HEAD}kubeletConfig: k.yaml\nbudget: 1\n")).unwrap();
    let told = load(&ours).unwrap_err().to_string();
    let (ours, theirs) = (ours.display().to_string(), theirs.display().to_string());
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 4, "{told}");
    for (line, place) in lines.iter().zip(["3:34", "4:10", "5:26"]) {
        assert!(
            line.starts_with(&format!("{ours}:3:16: kubeletConfig: {theirs}:{place}: ")),
            "{line}"
        );
    }
    assert!(lines[3].starts_with(&format!("{ours}:4:1: budget: unknown key")), "{told}");
    let gone = settings(&format!("{HEAD}kubeletConfig: gone.yaml"), "f", dir.path()).unwrap_err();
    assert!(gone.to_string().contains("gone.yaml: cannot read: No such file"), "{gone}");
}

#[test]
fn read_awaiting_takes_no_offence_at_a_file_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("garbage.yaml"), "kind: [").unwrap();
    let answer = br#"{"kubeletconfig": {"maxPods": 42}}"#;
    #[rustfmt::skip]
    let table = [
        // file, answer, source and maxPods, or words
        ("gone.yaml",    None,             Ok((KubeletSource::Missing, 110))),
        ("gone/k.yaml",  None,             Ok((KubeletSource::Missing, 110))),
        ("gone.yaml",    Some(&answer[..]), Ok((KubeletSource::Configz, 42))),
        ("garbage.yaml", None,             Err("garbage.yaml:2:1: not valid YAML")),
        (".",            None,             Err("cannot read")),
    ];
    for (file, answer, want) in table {
        let ours = dir.path().join("o.yaml");
        fs::write(&ours, format!("{HEAD}kubeletConfig: {file}\n")).unwrap();
        match (read_awaiting(Some(&ours), answer), want) {
            (Ok(Effective { settings, kubelet, .. }), Ok(want)) => {
                assert_eq!((kubelet, settings.node.max_pods), want, "{file}");
            }
            (Err(why), Err(words)) => assert!(why.to_string().contains(words), "{file}: {why}"),
            (got, _) => panic!("{file}: {got:?}"),
        }
        assert!(answer.is_some() || read(Some(&ours), None).is_err(), "{file}: nothing is awaited");
    }
}
