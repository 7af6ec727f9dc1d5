mod kubelet;

use proptest::prelude::*;

use crate::config::{self, keys, schema};
use isobar_core::model::condition::Measure;
use isobar_core::model::decision::Order;
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::{TaintEffect, WorkloadRule};
use isobar_core::model::threshold::{PressureSignal, Signal};
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
fn load_knows_soft_thresholds_without_a_grace_period() {
    #[rustfmt::skip]
    let table = [
        // grace, signals
        ("0s", vec![Signal::MemoryAvailable]),
        ("1s", vec![]),
    ];
    for (grace, want) in table {
        let text = format!(
            "evictionSoft: {{memory.available: 1Gi}}\n\
             evictionSoftGracePeriod: {{memory.available: {grace}}}\n"
        );
        assert_eq!(of(&text).unwrap().settings.eviction.soft_at_once, want, "{grace}");
    }
}

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
            "f:4:44: evictionPressure[0].threshold: expected more than 0 %, which is always met"),
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
        ("relief: {budgetWindow: 0s}".into(),
            "f:3:24: relief.budgetWindow: expected a length of time of more than 0s"),
        ("conditions: {prefix: Foo Bar}".into(),
            "f:3:22: conditions.prefix: expected a prefix such as example.com/ or edge-: the API server takes no taint \
             with the key node.kubernetes.io/Foo Barcpu-contention-pressure"),
        ("conditions: {prefix: example.com/a/}".into(),
            "f:3:22: conditions.prefix: expected a prefix such as example.com/ or edge-: the API server takes no taint \
             with the key example.com/a/cpu-contention-pressure"),
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
    assert_eq!(
        usual.eviction.pressure,
        isobar_core::model::decision::made::usual_pressure_thresholds()
    );
    let none = of("evictionPressure: []").unwrap().settings;
    assert_eq!(none.eviction.pressure, []);
}

#[test]
fn unknown_keys_beyond_many_have_no_suggestion() {
    let text = format!("{HEAD}{}", "evictonHard: {}\n".repeat(102));
    let told = settings(&text, "f", Path::new("")).unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    let n_suggested = lines.iter().take_while(|line| line.contains("did you mean")).count();
    assert_eq!((lines.len(), n_suggested), (102, 100), "{told}");
    assert!(lines[100].ends_with("evictonHard: unknown key"), "{told}");
}
