//! Objects as a cluster has them, for tests and demos: a node and any number of its pods.

use serde_json::{Value, json};

/// A node that is ready, with the conditions that the kubelet sets.
pub fn node(name: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": reason,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let capacity = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.34.0", "operatingSystem": "linux"},
        },
    })
}

/// A pod that runs on a node and is ready, with one container, labelled `app: NAME`.
pub fn pod(node: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "priority": 0,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "main",
                "image": "example.org/main:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "containerStatuses": [{
                "name": "main",
                "ready": true,
                "restartCount": 0,
                "containerID": format!("containerd://{:064x}", fnv(namespace, name)),
                "image": "example.org/main:1",
                "imageID": "",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
        },
    })
}

/// Pods `pod-00000` and so on, all in the namespace `many`.
pub fn pods(node: &str, n_pods: usize) -> Vec<Value> {
    (0..n_pods).map(|i| pod(node, "many", &format!("pod-{i:05}"))).collect()
}

/// A budget for the pods labelled `app: APP`.
pub fn budget(namespace: &str, name: &str, app: &str, disruptions_allowed: i64) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": disruptions_allowed,
            "currentHealthy": 1 + disruptions_allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + disruptions_allowed,
        },
    })
}

/// A container id that differs from pod to pod: FNV-1a of its name.
fn fnv(namespace: &str, name: &str) -> u64 {
    let bytes = namespace.bytes().chain([b'/']).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
