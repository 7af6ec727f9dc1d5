use std::fs;

use proptest::prelude::*;

use crate::config::{self, keys, schema};
use isobar_core::model::condition::Measure;
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::{TaintEffect, WorkloadRule};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Nanos, Percent};

use super::*;

const HEAD: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";

fn of(fields: &str) -> Result<Effective, Invalid> {
    effective(format!("{HEAD}{fields}\n").as_bytes(), "f", Path::new(""))
}

/// Every problem with these fields, which begin in line 3.
fn problems(fields: &str) -> String {
    of(fields).expect_err(fields).to_string()
}

#[test]
fn defaults_equal_settings_default() {
    let mut settings = defaults().settings;
    assert_eq!(settings.eviction.thresholds.len(), 6);
    settings.eviction.thresholds.clear();
    settings.eviction.pressure.clear();
    assert_eq!(settings, Settings::default());
    let file = config::default_file();
    assert_eq!(effective(file.as_bytes(), "f", Path::new("")), Ok(defaults()));
}

const MANY: &str = "
minSharedCPUs: 2
pods: pods.yaml
conditions:
  prefix: isobar.example/
  taintEffect: PreferNoSchedule
  raiseAfter: 10s
  system:
    cpu: {measure: raw, threshold: 12.34%}
    memory: {measure: raw, line: some, threshold: 50}
    disk: {enabled: false}
  kubepods:
    cpu: {measure: contention, line: some, threshold: \"75%\"}
evictionPressure:
- {scope: kubepods, signal: memory, threshold: 60%, gracePeriod: 30s}
- {scope: system, signal: exhaustion, threshold: 1m}
- {scope: system, signal: refaults, threshold: 1000}
ranking: {order: kubelet, groupBelow: 0}
relief: {enforce: [evict], steps: [reclaim, evict], deadlines: {evict: 1m}, budget: 2, budgetWindow: 1h, neverTouch: [/vault, \"/system.slice/sshd*\"]}
workloads:
- {path: \"/batch/**\", qosClass: BestEffort, priority: -5, requests: {cpu: 1500m}}
- path: /system.slice/web.service
kubeReserved: {cpu: 100m, memory: \"1Gi\"}
systemReserved: {memory: 0.5Gi}
reservedSystemCPUs: \"0\"
evictionHard: {memory.available: 25.5%, nodefs.available: 0%}
evictionSoft: {memory.available: 1Gi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {memory.available: 100Mi}
evictionPressureTransitionPeriod: 0s
cgroupDriver: systemd
podPidsLimit: 4096
featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
";

#[test]
fn load_passes_every_field_to_settings() {
    let settings = of(MANY).unwrap().settings;
    let conditions = &settings.conditions;
    let rule = |name: &str| conditions.rules.get(name).map(|r| (r.measure, r.threshold));
    assert_eq!(conditions.taint_effect, TaintEffect::PreferNoSchedule);
    #[rustfmt::skip]
    let table = [
        // condition, what it is judged on
        ("SystemCPUContentionPressure",      Some((Measure::RawSome, Percent(12_34)))),
        ("SystemMemoryContentionPressure",   Some((Measure::RawSome, Percent(50_00)))),
        ("SystemDiskContentionPressure",     None),
        ("KubepodsCPUContentionPressure",    Some((Measure::Contention, Percent(75_00)))),
        ("KubepodsMemoryContentionPressure", Some((Measure::Shortage, Percent(10_00)))),
        ("KubepodsDiskContentionPressure",   Some((Measure::RawFull, Percent(60_00)))),
    ];
    for (condition, want) in table {
        assert_eq!(rule(condition), want, "{condition}");
    }
    let pressure: Vec<_> = settings.eviction.pressure.iter().map(|t| (t.on, t.grace.0)).collect();
    let minute = Nanos(60 * Nanos::SECOND.0);
    #[rustfmt::skip]
    let want = [
        (PressureSignal::Memory(Percent(60_00)), 30 * Nanos::SECOND.0),
        (PressureSignal::Exhaustion(minute),      0),
        (PressureSignal::Refaults(1000),          0),
    ];
    assert_eq!(pressure, want);
    assert_eq!(settings.ranking.order, Order::Kubelet);
    assert_eq!(settings.ranking.group_below, Bytes(0));
    assert_eq!(settings.relief.deadlines[&StepKind::Evict], minute);
    assert_eq!(settings.relief.deadlines[&StepKind::Reclaim], Nanos(2 * Nanos::SECOND.0));
    assert_eq!(settings.relief.steps.len(), 2);
    assert_eq!(settings.eviction.transition_period, Nanos(300 * Nanos::SECOND.0));
    assert_eq!(settings.node.pods_file, "pods.yaml");
    let never: Vec<_> = settings.relief.never_touch.iter().map(ToString::to_string).collect();
    assert_eq!(never, ["/vault", "/system.slice/sshd*"]);
    let rule = |rule: &WorkloadRule| {
        let cpu = rule.requests.get("cpu").map(ToString::to_string);
        (rule.path.to_string(), rule.qos_class, rule.priority, cpu, rule.requests.len())
    };
    let rules: Vec<_> = settings.workloads.iter().map(rule).collect();
    #[rustfmt::skip]
    let want = [
        ("/batch/**".into(),                 QosClass::BestEffort, -5, Some("1500m".into()), 1),
        ("/system.slice/web.service".into(), QosClass::Burstable,   0, None,                 0),
    ];
    assert_eq!(rules, want);
}

#[test]
fn effective_yaml_parses_to_same_settings() {
    for fields in ["", MANY, "evictionHard: {}", "conditions:\nranking: {optOutLabel: \"a: 'b'\"}"]
    {
        let first = of(fields).unwrap();
        let again = effective(first.yaml.as_bytes(), "f", Path::new(""));
        assert_eq!(again, Ok(first), "{fields}");
    }
}

#[test]
fn load_reports_rules_with_their_reason() {
    let pressure = |item: &str| format!("evictionPressure:\n- {{{item}}}");
    #[rustfmt::skip]
    let table = [
        // fields, problem
        ("conditions: {system: {cpu: {threshold: 101%}}}".into(),
            "f:3:40: conditions.system.cpu.threshold: expected a percentage such as 60%: it must be at most 100 %"),
        ("conditions: {system: {cpu: {measure: raw, line: full}}}".into(),
            "f:3:49: conditions.system.cpu.line: the line full of the node's CPU pressure is always 0, \
             because some task runs on every busy CPU; use some"),
        ("conditions: {kubepods: {disk: {measure: contention}}}".into(),
            "f:3:41: conditions.kubepods.disk.measure: contention is measured for cpu only: use shortage or raw"),
        ("conditions: {kubepods: {cpu: {measure: shortage}}}".into(),
            "f:3:40: conditions.kubepods.cpu.measure: shortage is measured for memory only: use contention or raw"),
        ("conditions: {kubepods: {memory: {line: full}}}".into(),
            "f:3:40: conditions.kubepods.memory.line: shortage is time in which at least one task waits: it has no line full"),
        ("conditions: {raiseAfter: -1s}".into(),
            "f:3:26: conditions.raiseAfter: expected a length of time such as 1m30s: -1s is negative"),
        (pressure("scope: system, signal: cpu"), "f:4:3: evictionPressure[0].threshold: expected this key, it is missing"),
        (pressure("scope: system, signal: disk, threshold: 0%"),
            "f:4:44: evictionPressure[0].threshold: expected a percentage such as 60%: it must be more than 0 %"),
        (pressure("scope: system, signal: exhaustion, threshold: 0s"),
            "f:4:50: evictionPressure[0].threshold: expected a length of time of more than 0s"),
        (pressure("scope: system, signal: refaults, threshold: 60%"),
            "f:4:48: evictionPressure[0].threshold: expected a whole number, found the text \"60%\""),
        ("relief: {budget: 0}".into(), "f:3:18: relief.budget: expected a whole number from 1 to 1000000"),
        ("relief: {enforce: [kill]}".into(),
            "f:3:20: relief.enforce[0]: expected one of mark, reclaim, squeeze, evict, stopContainers, \
             killContainers, releaseMemory, found the text \"kill\""),
        ("relief: {enforce: [evict], steps: [reclaim]}".into(),
            "f:3:20: relief.enforce[0]: this step is not in relief.steps, so it is never taken"),
        ("relief: {deadlines: {evict: 0s}}".into(),
            "f:3:29: relief.deadlines.evict: expected a length of time of more than 0s"),
        ("relief: {neverTouch: [/a, b]}".into(),
            "f:3:27: relief.neverTouch[1]: expected a pattern of cgroup paths such as \
             /system.slice/*.service: a pattern of cgroup paths begins with /"),
        ("workloads: [{priority: 1}]".into(), "f:3:13: workloads[0].path: expected this key, it is missing"),
        ("workloads: [{path: \"/a[\"}]".into(),
            "f:3:20: workloads[0].path: expected a pattern of cgroup paths such as \
             /system.slice/*.service: invalid range pattern"),
        ("workloads: [{path: /a, requests: {memory: -1}}]".into(),
            "f:3:43: workloads[0].requests.memory: expected a quantity: -1 is negative"),
        ("ranking: {groupBelow: -1}".into(), "f:3:23: ranking.groupBelow: expected a quantity: -1 is negative"),
        ("evictonHard: {}".into(), "f:3:1: evictonHard: unknown key, did you mean evictionHard?"),
        ("a: 1\n---\nb: 1".into(), "f:5:1: expected one document, this is the second"),
    ];
    for (fields, want) in table {
        assert_eq!(problems(&fields), want, "{fields}");
    }
}

#[test]
fn load_refuses_what_is_not_a_configuration() {
    #[rustfmt::skip]
    let table = [
        // text, problems
        ("", "f:1:1: the file holds no document"),
        ("[]", "f:1:1: expected a mapping, found a list"),
        ("a: 1", "f:1:1: a: unknown key\nf:1:1: apiVersion: expected this key, it is missing\n\
                  f:1:1: kind: expected this key, it is missing"),
        ("apiVersion: isobar/v2\nkind: MonitorConfiguration",
            "f:1:13: apiVersion: expected one of isobar/v1alpha1, found the text \"isobar/v2\""),
        ("kubeReserved: {cpu: 1}", "f:1:1: apiVersion: expected this key, it is missing\n\
                  f:1:1: kind: expected this key, it is missing"),
    ];
    for (text, want) in table {
        let invalid = settings(text, "f", Path::new("")).expect_err(text);
        assert_eq!(invalid.to_string(), want, "{text}");
    }
}

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
    for name in ["configz.json", "headless.yaml"] {
        assert_eq!(kubelet(&dir.path().join(name)).unwrap().node.max_pods, 250, "{name}");
    }
    assert!(load(&dir.path().join("headless.yaml")).is_err());
}

/// A kubelet of 1.36.2.
const ANSWER: &str = include_str!("../../../../tests/data/kubernetes/configz.json");

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
    assert_eq!(node.cgroup_driver, isobar_core::model::settings::CgroupDriver::Systemd);
    assert!(node.static_cpus && node.strict_cpu_reservation);
    assert_eq!(node.reserved_cpus.as_ref().unwrap().to_string(), "0");
    let amounts = |list: &isobar_core::model::quantity::ResourceList| {
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
    use KubeletSource::{Configz, File};
    #[rustfmt::skip]
    let table = [
        // isobar's file, the kubelet's answer, from, cgroupRoot, maxPods, thresholds
        ("",                      kind,    Configz, "/kubelet", 42,  6),
        ("maxPods: 7",            kind,    Configz, "/kubelet", 7,   6),
        ("cgroupRoot: \"\"",      kind,    Configz, "",         42,  6),
        (&*named,                 kind,    File,    "",         250, 2), // the file is named: it stands
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

/// The paths of all keys, with `[]` for the items of a list.
fn key_paths(keys: &[keys::Key], above: &str, out: &mut Vec<String>) {
    for key in keys {
        let path = format!("{above}{}", key.name);
        match key.kind {
            keys::Kind::Map(below) => key_paths(below, &format!("{path}."), out),
            keys::Kind::List(below) => key_paths(below, &format!("{path}[]."), out),
            _ => {}
        }
        out.push(path);
    }
}

fn all_paths() -> Vec<String> {
    let mut paths = Vec::new();
    key_paths(ISOBAR, "", &mut paths);
    key_paths(KUBELET, "", &mut paths);
    paths
}

#[test]
fn schema_has_every_key_and_no_other() {
    fn properties(schema: &serde_json::Value, above: &str, out: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{above}{name}");
            properties(property, &format!("{path}."), out);
            properties(&property["items"], &format!("{path}[]."), out);
            out.push(path);
        }
    }
    let mut found = Vec::new();
    properties(&schema(), "", &mut found);
    let mut want = all_paths();
    found.sort();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn keys_are_read_and_documented() {
    let documented = include_str!("../../../../docs/configuration.md");
    for path in all_paths() {
        // A list is no value of any key but of lists: refused, but not as unknown.
        let (above, name) = path.rsplit_once('.').unwrap_or(("", &path));
        let nested = match above {
            "" => format!("{name}: 5.5"),
            _ => above.rsplit('.').fold(format!("{name}: [[]]"), |below, key| {
                match key.strip_suffix("[]") {
                    Some(list) => format!("{list}: [{{{below}}}]"),
                    None => format!("{key}: {{{below}}}"),
                }
            }),
        };
        let text = if matches!(name, "apiVersion" | "kind") {
            nested.clone()
        } else {
            format!("{HEAD}{nested}")
        };
        let told = effective(text.as_bytes(), "f", Path::new(""))
            .map_or_else(|e| e.to_string(), |_| String::new());
        assert!(!told.contains("unknown key"), "{path}: {told}");
        let row = format!("`{}`", path.replace("system.", "SCOPE.").replace("kubepods.", "SCOPE."));
        assert!(documented.contains(&row), "docs/configuration.md does not name {row}");
    }
}

proptest! {
    #[test]
    fn load_never_panics_on_damaged_file(
        at in 0..MANY.len(),
        n_cut in 0..40_usize,
        put in "[a-z0-9:{}\\[\\],%\\-\n \"'&*.]{0,6}",
    ) {
        let end = (at + n_cut).min(MANY.len());
        let damaged = format!("{HEAD}{}{put}{}", &MANY[..at], &MANY[end..]);
        let read = effective(damaged.as_bytes(), "f", Path::new(""));
        if let Ok(first) = read {
            prop_assert_eq!(effective(first.yaml.as_bytes(), "f", Path::new("")), Ok(first));
        }
    }
}

#[test]
fn defaults_have_the_usual_pressure_thresholds() {
    let usual = defaults().settings;
    assert_eq!(usual.eviction.pressure, isobar_core::model::settings::usual_pressure_thresholds());
    let none = of("evictionPressure: []").unwrap().settings;
    assert_eq!(none.eviction.pressure, []);
}
