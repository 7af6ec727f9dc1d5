//! What the kubelet tells of disks, pods and its configuration, and what comes of it when it does
//! not.

use std::thread;

use super::*;
use isobar_apistub::{Effect, Fault};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::disk::DiskUse;
use isobar_core::model::units::Bytes;
use serde_json::json;

const SUMMARY: &str = include_str!("../../data/kubernetes/stats-summary.json");
/// After it has evicted a pod for memory.
const AFTER_EVICTION: &str =
    include_str!("../../data/kubernetes/stats-summary-after-eviction.json");

fn summary() -> Value {
    serde_json::from_str(SUMMARY).unwrap()
}

fn named(bed: &Bed, name: &str) -> Option<Capability> {
    bed.api.capabilities().into_iter().find(|one| one.name == name)
}

fn capability(bed: &Bed) -> Option<Capability> {
    named(bed, "kubelet")
}

#[test]
fn kubelet_tells_of_disks_what_the_recorded_one_said() {
    for said in [SUMMARY, AFTER_EVICTION] {
        tells_of_disks(&serde_json::from_str(said).unwrap());
    }
    // Go writes null for a list of which nothing was made.
    let used = json!({"usedBytes": 7, "inodesUsed": 1});
    let pod = json!({"podRef": {"uid": "u"}, "containers": null, "volume": null, "ephemeral-storage": used});
    tells_of_disks(&json!({"pods": [pod, {"podRef": {"uid": "v"}}]}));
    tells_of_disks(&json!({"pods": null}));
}

fn tells_of_disks(said: &Value) {
    let bed = Bed::with(|stub| stub.kubelet_says("/stats/summary", said.clone()));
    eventually("disk use is known", || bed.api.pod_disks().is_some());
    let disks = bed.api.pod_disks().unwrap();
    let pods = said["pods"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(disks.pods.len(), pods.len());
    for pod in pods {
        let disk = &disks.pods[pod["podRef"]["uid"].as_str().unwrap()];
        let used = |usage: &Value| DiskUse {
            bytes: usage["usedBytes"].as_u64().map(Bytes),
            inodes: usage["inodesUsed"].as_u64(),
        };
        assert_eq!(disk.whole, used(&pod["ephemeral-storage"]), "{}", pod["podRef"]);
        for container in pod["containers"].as_array().into_iter().flatten() {
            let read = disk.containers[container["name"].as_str().unwrap()];
            assert_eq!(read.layer, used(&container["rootfs"]));
            assert_eq!(read.logs, used(&container["logs"]));
        }
        for volume in pod["volume"].as_array().into_iter().flatten() {
            let read = disk.volumes.get(volume["name"].as_str().unwrap()).copied();
            let is_claim = !volume["pvcRef"].is_null();
            assert_eq!(read, (!is_claim).then(|| used(volume)), "{volume}");
        }
    }
    let Capability { state, detail, .. } = capability(&bed).unwrap();
    assert_eq!(state, CapabilityState::Attached);
    assert!(detail.starts_with(&format!("disk use of {} pods by http", pods.len())), "{detail}");
}

#[test]
fn kubelet_that_does_not_tell_is_a_capability() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    let text = |code, text: &str| Effect::Text { code, text: text.into() };
    #[rustfmt::skip]
    let table = [
        // what the kubelet does, detail, remedy
        (Err(Effect::Endless),             "the kubelet's answer is larger than 16 MiB", None),
        (Err(Effect::Trickle),             "the kubelet has not answered within 10 s", None),
        (Err(Effect::Hang),                "the kubelet has not answered within 10 s", None),
        (Err(text(200, "{\"pods\": [{\"podRef\"")), "/stats/summary cannot be read: EOF", None),
        (Err(text(200, "")),               "/stats/summary cannot be read: EOF", None),
        (Err(text(200, "<html>")),         "/stats/summary cannot be read", None),
        (Err(text(200, &"[".repeat(100_000))), "/stats/summary cannot be read", None),
        (Err(text(401, "Unauthorized")),   "the kubelet answered 401",    Some("the token is not accepted")),
        (Err(text(500, &"x".repeat(100_000))), "xxx..",                   None),
        (Err(status(401)),                 "the kubelet answered 401",    Some("the token is not accepted")),
        (Err(status(403)),                 "the kubelet answered 403",    Some("allow it to get nodes/stats")),
        (Err(status(500)),                 "the kubelet answered 500",    None),
        (Err(Effect::Reset),               "cannot reach the kubelet",    None),
        (Ok(json!({"pods": "none"})),      "/stats/summary cannot be read", None),
        (Ok(json!({"pods": [{"podRef": {"uid": "u"}, "containers": [{"name": 1}]}]})), "cannot be read", None),
    ];
    // Each has ten seconds to answer.
    thread::scope(|rows| {
        for (kubelet, detail, remedy) in table {
            rows.spawn(move || is_told(kubelet, detail, remedy));
        }
    });
}

fn is_told(kubelet: Result<Value, Effect>, detail: &str, remedy: Option<&str>) {
    let bed = Bed::with(|stub| match kubelet {
        Ok(said) => stub.kubelet_says("/stats/summary", said),
        Err(effect) => stub.add_fault(Fault::new("get", "/stats/summary", effect)),
    });
    eventually(detail, || {
        let Some(said) = capability(&bed) else { return false };
        let has_remedy = remedy
            .is_none_or(|remedy| said.remedy.as_ref().is_some_and(|said| said.contains(remedy)));
        said.state == CapabilityState::Absent && said.detail.contains(detail) && has_remedy
    });
    assert_eq!(bed.api.pod_disks(), None, "{detail}");
}

#[test]
fn kubelet_names_the_pods_while_the_api_server_does_not() {
    let refused = Effect::Status { code: 500, retry_after_seconds: None };
    let bed = Bed::with(|stub| {
        let mut pod = generate::pod("n1", "shop", "static");
        pod["metadata"]["uid"] = json!("u1");
        // What a kubelet would not say.
        let elsewhere = generate::pod("n2", "shop", "elsewhere");
        let mut unnamed = generate::pod("n1", "shop", "unnamed");
        unnamed["metadata"]["uid"] = json!("");
        let pods =
            json!({"kind": "PodList", "apiVersion": "v1", "items": [elsewhere, pod, unnamed, 7]});
        stub.kubelet_says("/stats/summary", summary());
        stub.kubelet_says("/pods", pods);
        stub.add_fault(Fault::new("list", "/api/v1/pods", refused));
    });
    eventually("the kubelet's pods are known", || {
        let pods = bed.api.pods().unwrap_or_default();
        pods.values().any(|pod| pod.full_name() == "shop/static")
    });
    let told = || bed.capability("pods").unwrap();
    eventually("the source is named", || told().ends_with("; 1 pods by the kubelet's /pods"));
    assert!(told().contains("500"), "{}", told());
    eventually("the kubelet says so, too", || {
        let words = "while the API server does not tell them; 3 are left out, see the log";
        capability(&bed).is_some_and(|said| said.detail.contains(words))
    });
    bed.stub.clear_faults();
    within(Duration::from_secs(40), "the API server knows better", || {
        told() == "1 pods by the API server"
    });
}

#[test]
fn kubelet_names_the_pods_also_where_its_disks_cannot_be_read() {
    let refused = || Effect::Status { code: 500, retry_after_seconds: None };
    let bed = Bed::with(|stub| {
        let mut pod = generate::pod("n1", "shop", "static");
        pod["metadata"]["uid"] = json!("u1");
        stub.kubelet_says("/pods", json!({"items": [pod]}));
        stub.add_fault(Fault::new("get", "/stats/summary", refused()));
        stub.add_fault(Fault::new("list", "/api/v1/pods", refused()));
    });
    let words = "; 1 pods by the kubelet's /pods";
    eventually("it names them", || {
        bed.capability("pods").is_some_and(|told| told.ends_with(words))
    });
    assert_eq!(bed.api.pod_disks(), None);
}

#[test]
fn kubelet_that_starts_with_another_configuration_is_noticed_at_once() {
    let says = |max_pods: u32| json!({"kubeletconfig": {"maxPods": max_pods}});
    let bed = Bed::with(|stub| {
        stub.kubelet_says("/stats/summary", summary());
        stub.kubelet_says("/configz", says(42));
    });
    let told = || bed.api.configz().map(|configz| configz.settings.node.max_pods);
    eventually("the configuration is known", || told() == Some(42));
    bed.stub.kubelet_says("/configz", says(43));
    eventually("the other one is known", || told() == Some(43));
}

#[test]
fn kubelet_tells_its_configuration() {
    let configz = json!({"kubeletconfig": {"maxPods": 42, "cgroupDriver": "systemd"}});
    // Whether it tells of disks does not matter.
    let bed = Bed::with(|stub| stub.kubelet_says("/configz", configz));
    eventually("the configuration is known", || bed.api.configz().is_some());
    assert_eq!(bed.api.configz().unwrap().settings.node.max_pods, 42);
    let Capability { state, detail, .. } = named(&bed, "kubelet configuration").unwrap();
    assert_eq!((state, &*detail), (CapabilityState::Attached, "read from the kubelet's /configz"));
}

#[test]
fn kubelet_that_does_not_tell_its_configuration_is_a_capability() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    let text = |text: &str| Effect::Text { code: 200, text: text.into() };
    let permission = "allow it to get nodes/stats, nodes/pods and nodes/configz";
    #[rustfmt::skip]
    let table = [
        // what the kubelet does, detail, remedy
        (status(401),              "the kubelet answered 401",                       "the token is not accepted"),
        (status(403),              "the kubelet answered 403",                       permission),
        (status(404),              "the kubelet answered 404",                       ""),
        (Effect::Hang,             "the kubelet has not answered within 10 s",       ""),
        (Effect::Reset,            "cannot reach the kubelet",                       ""),
        (Effect::Endless,          "the kubelet's answer is larger than 16 MiB",     ""),
        (text("{\"kubeletconfig"),  "the kubelet's /configz:1:",                      ""),
        (text("[]"),               "expected a mapping, found a list",               ""),
        (text("{}"),               "no field of a KubeletConfiguration",             ""),
        (text("{\"kubeletconfig\": {\"maxPods\": -1}}"), "must not be a negative number", ""),
    ];
    thread::scope(|rows| {
        for (effect, detail, remedy) in table {
            rows.spawn(move || {
                let bed = Bed::with(|stub| {
                    stub.kubelet_says("/stats/summary", summary());
                    stub.add_fault(Fault::new("get", "/configz", effect));
                });
                let told = || named(&bed, "kubelet configuration");
                eventually(detail, || told().is_some_and(|told| told.detail.contains(detail)));
                let Capability { state, remedy: said, .. } = told().unwrap();
                assert_eq!(state, CapabilityState::Absent, "{detail}");
                assert!(said.unwrap_or_default().contains(remedy), "{detail}");
                assert!(bed.api.configz().is_none(), "{detail}");
                eventually("disk use is known", || bed.api.pod_disks().is_some());
            });
        }
    });
}

#[test]
fn kubelet_that_answers_in_part_tells_what_is_missing() {
    let endless = "the kubelet's answer is larger than 16 MiB";
    let text = |text: &str| Effect::Text { code: 200, text: text.into() };
    #[rustfmt::skip]
    let table = [
        // what the kubelet does, detail
        (Effect::Endless,        format!("it does not name them: {endless}")),
        (text("{\"items\": [{"), "it does not name them: ".to_owned()),
        (text("\u{0}\u{1}"),     "it does not name them: ".to_owned()),
    ];
    for (effect, detail) in table {
        let refused = Effect::Status { code: 500, retry_after_seconds: None };
        let bed = Bed::with(|stub| {
            stub.kubelet_says("/stats/summary", summary());
            stub.add_fault(Fault::new("get", "/pods", effect));
            stub.add_fault(Fault::new("list", "/api/v1/pods", refused));
        });
        eventually(&detail, || capability(&bed).is_some_and(|said| said.detail.contains(&detail)));
        let Capability { state, .. } = capability(&bed).unwrap();
        assert_eq!(state, CapabilityState::Attached, "{detail}: disk use is known");
        assert!(bed.api.pod_disks().is_some(), "{detail}");
    }
}

#[test]
fn kubelet_that_refuses_the_token_later_is_told_and_asked_again() {
    let bed = Bed::with(|stub| stub.kubelet_says("/stats/summary", summary()));
    eventually("disk use is known", || bed.api.pod_disks().is_some());
    let expired = Effect::Status { code: 401, retry_after_seconds: None };
    bed.stub.add_fault(Fault::new("get", "/stats/summary", expired));
    eventually("disk use is unknown, not what it was", || bed.api.pod_disks().is_none());
    assert!(capability(&bed).unwrap().detail.contains("the kubelet answered 401"));
    assert!(bed.api.pods().is_some_and(|pods| pods.len() == 1), "the API server is another");
    bed.stub.clear_faults();
    eventually("with a new token it is known again", || bed.api.pod_disks().is_some());
}

#[test]
fn kubelet_cannot_check_a_token_without_the_api_server() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    #[rustfmt::skip]
    let table = [
        // the API server answers, the kubelet answers, remedy
        (true,  401, "the token is not accepted: check the service account"),
        (false, 401, "the kubelet has the API server check a token"),
        (false, 500, "the kubelet has the API server check a token"),
        (false, 403, "allow it to get nodes/stats"),
    ];
    thread::scope(|rows| {
        for (answers, code, want) in table {
            rows.spawn(move || {
                let bed = Bed::with(|stub| {
                    stub.add_fault(Fault::new("get", "/stats/summary", status(code)));
                    if !answers {
                        stub.add_fault(Fault::new("*", "/api/*", status(503)));
                        stub.add_fault(Fault::new("*", "/version", status(503)));
                    }
                });
                let remedy = || capability(&bed).and_then(|said| said.remedy).unwrap_or_default();
                eventually(want, || remedy().contains(want));
            });
        }
    });
}
