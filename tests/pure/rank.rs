//! `isobar rank` as an operator calls it: the kubelet's own cases and ours, from files.

use crate::machine::given;
use serde_json::{Value, json};

#[track_caller]
fn ranking(scenario: &str, more: &[&str]) -> Value {
    let arguments: Vec<_> = ["rank", "-f", "-", "-o", "json"].iter().chain(more).copied().collect();
    let got = given(&arguments, scenario);
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    serde_json::from_slice(&got.stdout).unwrap()
}

fn names<'a>(ranking: &'a Value, list: &str) -> Vec<&'a str> {
    let entries = ranking[list].as_array().unwrap();
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// `key=value` of one candidate, as they decide.
fn keys(candidate: &Value) -> String {
    let keys = candidate["keys"].as_array().unwrap().iter();
    keys.map(|key| format!("{}={}", key["key"], key["value"]).replace('"', ""))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Rows as `name priority request use`, `-` where nothing is given, as the pods of a scenario.
fn scenario(signal: &str, order: &str, resources: (&str, &str), rows: &str) -> String {
    let (asked, used) = resources;
    let pods: Vec<Value> = rows
        .split_terminator(", ")
        .map(|row| {
            let [name, priority, request, usage] = row.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{row:?} has not four columns");
            };
            let mut pod = json!({ "name": name });
            if priority != "-" {
                pod["priority"] = priority.parse::<i32>().unwrap().into();
            }
            if request != "-" {
                pod["request"] = json!({ asked: request });
            }
            if usage != "-" {
                pod["usage"] = json!({ used: usage });
            }
            pod
        })
        .collect();
    json!({ "signal": signal, "order": order, "pods": pods }).to_string()
}

#[test]
fn the_kubelets_own_cases_come_out_in_its_order() {
    let memory = ("memory", "memory");
    let disk = ("ephemeral-storage", "ephemeral-storage");
    let inodes = ("ephemeral-storage", "inodes");
    let pids = ("memory", "pids");
    #[rustfmt::skip]
    let table = [
        // case, signal, what is asked for and used, pods, first to go first
        ("M1", "memory.available", memory, "below -1 200Mi 199Mi, exceeds 1 100Mi 101Mi", "exceeds below"),
        ("M2", "memory.available", memory, "high 12534 - 0, medium 1 - 0, low -134 - 0", "low medium high"),
        ("M3", "memory.available", memory,
            "be-high 0 - 500Mi, be-low 0 - 300Mi, bu-high 0 100Mi 800Mi, bu-low 0 100Mi 300Mi, g-high 0 1Gi 800Mi, g-low 0 1Gi 200Mi",
            "bu-high be-high be-low bu-low g-high g-low"),
        ("M4", "memory.available", memory,
            "p8 1 1Gi 200Mi, p7 1 1Gi 800Mi, p6 -1 1Gi 200Mi, p5 -1 1Gi 800Mi, p4 1 100Mi 150Mi, p3 1 100Mi 600Mi, p2 -1 0 50Mi, p1 -1 0 500Mi",
            "p1 p2 p3 p4 p5 p6 p7 p8"),
        ("M4 of the allocatable", "allocatableMemory.available", memory,
            "p3 1 100Mi 600Mi, p2 -1 0 50Mi, p1 -1 0 500Mi", "p1 p2 p3"),
        ("M6", "memory.available", memory, "a 0 100Mi 150Mi, b 0 0 -, c -5 100Mi 900Mi", "b c a"),
        ("M8", "memory.available", memory, "x 0 0 0, y 0 10 5, z 0 0 1", "z x y"),
        ("P1", "pid.available", pids, "high-lo 1 - 5, high-hi 1 - 20, low-lo -1 - 6, low-hi -1 - 20", "low-hi low-lo high-hi high-lo"),
        ("P without priority", "pid.available", pids, "a - - 5, b -1 - 1, c 1 - 9", "b a c"),
        ("D1", "nodefs.available", disk, "below -1 200Mi 199Mi, exceeds 1 100Mi 101Mi", "exceeds below"),
        ("D3", "nodefs.available", disk,
            "p8 1 1Gi 200Mi, p7 1 1Gi 800Mi, p6 -1 1Gi 200Mi, p5 -1 1Gi 800Mi, p4 1 100Mi 150Mi, p3 1 100Mi 600Mi, p2 -1 0 50Mi, p1 -1 0 500Mi",
            "p1 p2 p3 p4 p5 p6 p7 p8"),
        ("D4", "nodefs.inodesFree", inodes, "low 0 - 200k, medium 0 - 300k, high 0 - 400k", "high medium low"),
        ("D5", "imagefs.inodesFree", inodes, "p4 1 - 150k, p3 1 - 350k, p2 -1 - 100k, p1 -1 - 400k", "p1 p2 p3 p4"),
        ("D7", "nodefs.available", disk, "below 0 1Gi 900Mi, above 0 100Mi 700Mi", "above below"),
    ];
    for (case, signal, resources, rows, want) in table {
        let got = ranking(&scenario(signal, "kubelet", resources, rows), &[]);
        assert_eq!(names(&got, "candidates").join(" "), want, "{case}");
        assert_eq!(got["signal"], signal, "{case}");
        assert_eq!(got["order"], "kubelet", "{case}");
    }
}

#[test]
fn the_document_is_of_the_documented_shape() {
    let got = ranking(
        "order: kubelet
pods:
- {name: web, uid: u-1, namespace: shop, priority: -5, request: {memory: 100Mi}, usage: {memory: 900Mi}}
- {name: apiserver, uid: 17, annotations: {kubernetes.io/config.source: file}}
",
        &[],
    );
    let want = json!({
        "apiVersion": "isobar/v1alpha1",
        "kind": "Ranking",
        "signal": "memory.available",
        "order": "kubelet",
        "candidates": [{
            "name": "web",
            "namespace": "shop",
            "uid": "u-1",
            "keys": [
                { "key": "hasStats", "value": true },
                { "key": "exceedsRequest", "value": true },
                { "key": "priority", "value": -5 },
                { "key": "excess", "value": "800Mi" },
                { "key": "uid", "value": "u-1" },
            ],
        }],
        "nCandidates": 1,
        "spared": [{ "name": "apiserver", "uid": "17", "why": "static" }],
        "nSpared": 1,
    });
    assert_eq!(got, want);
}

#[test]
fn by_class_best_effort_goes_first_and_harm_goes_before_excess() {
    let scenario = "
pods:
- {name: guaranteed, qosClass: Guaranteed, request: {memory: 1Gi}, usage: {memory: 1Gi}, harm: 900}
- {name: within, request: {memory: 1Gi}, usage: {memory: 512Mi}, harm: 900}
- {name: above, request: {memory: 100Mi}, usage: {memory: 101Mi}}
- {name: best-effort, usage: {memory: 1Mi}}
- {name: harmful, usage: {memory: 1Mi}, harm: {others: 12.5, self: 3}}
- {name: low, priority: -1, usage: {memory: 1Mi}}
- {name: large, usage: {memory: 1Gi}}
- {name: young, started: '2026-11-21T12:00:00Z', usage: {memory: 1Mi}}
- {name: old, started: 1700000000, usage: {memory: 1Mi}}
";
    let got = ranking(scenario, &[]);
    let want = "low harmful large young old best-effort above within guaranteed";
    assert_eq!(names(&got, "candidates").join(" "), want);
    let first = &got["candidates"];
    let want = "qos=BestEffort priority=0 harm=12 excess=1Mi started=null uid=harmful";
    assert_eq!(keys(&first[1]), want);
    let want = "qos=BestEffort priority=0 harm=0 excess=1Mi started=1795262400 uid=young";
    assert_eq!(keys(&first[3]), want);
}

#[test]
fn who_may_not_be_chosen_is_named_with_the_reason() {
    let scenario = "
pods:
- {name: a, annotations: {kubernetes.io/config.source: file}}
- {name: b, annotations: {kubernetes.io/config.mirror: true}}
- {name: c, priority: 2000000000}
- {name: d, priorityClassName: system-node-critical}
- {name: e, critical: true}
- {name: f, labels: {isobar/never-evict: 'true'}}
- {name: g, labels: {app.kubernetes.io/name: isobar}}
- {name: h, harm: {others: 0, self: 400}, usage: {memory: 1Gi}}
- {name: i, priority: 1999999999, annotations: {kubernetes.io/config.source: api}}
- {name: j, static: true, labels: {isobar/never-evict: false}}
";
    let got = ranking(scenario, &["--signal", "kubepods.memory.pressure"]);
    let spared = got["spared"].as_array().unwrap().iter();
    let mut spared: Vec<_> = spared
        .map(|spared| format!("{}={}", spared["name"], spared["why"]).replace('"', ""))
        .collect();
    spared.sort();
    let want = "a=static b=mirror c=critical d=critical e=critical f=optedOut g=isobar \
                h=harmsOnlyItself j=static";
    assert_eq!(spared.join(" "), want);
    assert_eq!(names(&got, "candidates"), ["i"]);

    // What runs out is freed by whoever used it up.
    let got = ranking(scenario, &["--signal", "memory.available"]);
    assert_eq!(names(&got, "candidates"), ["h", "i"]);
}

#[test]
fn the_documented_scenario_is_read_as_documented() {
    let policy = include_str!("../../docs/policy.md");
    let section = policy.split("### A scenario").nth(1).unwrap();
    let scenario = section.split("```").nth(1).unwrap().strip_prefix("yaml\n").unwrap();
    let got = ranking(scenario, &["--signal", "kubepods.disk.pressure"]);
    assert_eq!(got["spared"][0]["why"], "static");
    let evictable = scenario.replace("config.source: file", "config.source: api");
    let evictable = evictable.replace("never-evict: \"true\"", "never-evict: \"false\"");
    #[rustfmt::skip]
    let table = [
        // signal, keys
        ("memory.available",        "exceedsRequest=true priority=0 harm=12 excess=200Mi"),
        ("kubepods.cpu.pressure",   "exceedsRequest=true priority=0 harm=12 excess=250m"),
        ("nodefs.available",        "exceedsRequest=true priority=0 harm=12 excess=1Gi"),
        ("nodefs.inodesFree",       "exceedsRequest=true priority=0 harm=12 excess=1k"),
        ("pid.available",           "priority=0 harm=12 processes=20"),
        ("system.disk.pressure",    "priority=0 harm=12 usage=10Mi"),
    ];
    for (signal, want) in table {
        let got = ranking(&evictable, &["--signal", signal]);
        let want = format!("qos=Burstable {want} started=1795262400 uid=7a1e5b1c");
        assert_eq!(keys(&got["candidates"][0]), want, "{signal}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let scenario = "
signal: pid.available
order: kubelet
pods:
- {name: threads, priority: 1, qosClass: Guaranteed, usage: {pids: 900, memory: 1Mi}}
- {name: memory, usage: {pids: 1, memory: 1Gi}}
";
    #[rustfmt::skip]
    let table: [(&[&str], &str, &str, &str); 4] = [
        // flags, signal, order, first
        (&[],                                            "pid.available",    "kubelet", "memory"),
        (&["--order", "qos"],                            "pid.available",    "qos",     "memory"),
        (&["--signal", "memory.available"],              "memory.available", "kubelet", "memory"),
        (&["--signal", "memory.available", "--order", "qos"], "memory.available", "qos", "memory"),
    ];
    for (flags, signal, order, first) in table {
        let got = ranking(scenario, flags);
        let told = (&got["signal"], &got["order"], &got["candidates"][0]["name"]);
        assert_eq!(told, (&signal.into(), &order.into(), &first.into()), "{flags:?}");
    }
}

#[test]
fn small_pods_of_one_owner_are_one_candidate() {
    let pods: String = (0..40)
        .map(|i| format!("- {{name: hog-{i}, owner: hogs, usage: {{memory: 20Mi}}}}\n"))
        .collect();
    let scenario = format!("pods:\n{pods}- {{name: larger, usage: {{memory: 300Mi}}}}\n");
    let got = ranking(&scenario, &[]);
    assert_eq!(names(&got, "candidates"), ["Owner/hogs", "larger"]);
    assert_eq!(got["candidates"][0]["members"].as_array().unwrap().len(), 40);
    let got = ranking(&scenario, &["--order", "kubelet"]);
    assert_eq!(names(&got, "candidates").len(), 41);
    assert_eq!(names(&got, "candidates")[0], "larger");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let scenario = "apiVersion: isobar/v2
signal: swap.available
order: size
pods:
- {name: a, priority: high, usage: {memroy: 1Gi}}
- {uid: b, qosClass: Best, request: {memory: -1Gi}, harm: -5}
- {name: c, prio: 1, harm: {self: 1}}
- {name: c, started: yesterday, request: {memroy: 1}, owner: {}}
- 7
";
    let got = given(&["rank", "-f", "-"], scenario);
    let stderr = String::from_utf8(got.stderr).unwrap();
    assert_eq!(got.status.code(), Some(3), "{stderr}");
    assert!(got.stdout.is_empty());
    #[rustfmt::skip]
    let table = [
        // place, path and what is wrong
        "-:1:13: apiVersion: expected one of isobar/v1alpha1",
        "-:2:9: signal: unsupported signal \"swap.available\", expected one of memory.available",
        "-:3:8: order: expected one of qos, kubelet",
        "-:5:23: pods[0].priority: expected a whole number",
        "-:5:37: pods[0].usage.memroy: unknown key, did you mean memory?",
        "-:6:3: pods[1].name: expected this key, it is missing",
        "-:6:22: pods[1].qosClass: expected one of Guaranteed, Burstable, BestEffort",
        "-:6:46: pods[1].request.memory: expected 0 or more, found -1Gi",
        "-:6:59: pods[1].harm: expected milliseconds a second, 0 or more, found -5",
        "-:7:13: pods[2].prio: unknown key",
        "-:7:28: pods[2].harm.others: expected this key, it is missing",
        "-:8:3: pods[3]: the uid \"c\" is that of the pod at 7:3, too",
        "-:8:22: pods[3].started: expected a time such as",
        "-:8:51: pods[3].request.memroy: unknown resource",
        "-:8:62: pods[3].owner: expected a name, a uid, or both",
        "-:9:3: pods[4]: expected a mapping",
    ];
    for want in table {
        assert!(stderr.contains(want), "{want:?} is missing in\n{stderr}");
    }
    assert_eq!(stderr.lines().count(), table.len(), "{stderr}");
}

#[test]
fn each_way_to_call_it_ends_in_the_documented_code() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str, i32, &str)] = &[
        // arguments, standard input, code, what stderr says
        (&["-f", "-"],                       "pods: []",      0, ""),
        (&["-f", "-"],                       r#"{"pods":[]}"#, 0, ""),
        (&["-f", "-"],                       "",              3, "no document"),
        (&["-f", "-"],                       "pods: {",       3, "-:2:1: not valid YAML"),
        (&["-f", "-"],                       "pods: []\n---\npods: []", 3, "one document"),
        (&["-f", "/nonexistent"],            "",              3, "/nonexistent"),
        (&["--signal", "swap.available"],    "",              2, "memory.available"),
        (&["--order", "size"],               "",              2, "kubelet"),
    ];
    for (arguments, stdin, code, told) in table {
        let arguments: Vec<_> = ["rank"].iter().chain(*arguments).copied().collect();
        let got = given(&arguments, stdin);
        let stderr = String::from_utf8_lossy(&got.stderr);
        assert_eq!(got.status.code(), Some(*code), "{arguments:?} {stdin:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?} {stdin:?}: {stderr}");
    }
}

#[test]
fn a_hostile_name_does_no_harm_to_a_terminal() {
    let got = given(&["rank", "-f", "-"], "pods: [{name: \"a\\e[2Jb\", critical: true}]");
    let stdout = String::from_utf8(got.stdout).unwrap();
    assert!(stdout.contains('a') && !stdout.contains('\x1b'), "{stdout:?}");
}
