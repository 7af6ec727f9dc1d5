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
    let labels = json!({
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "eu-1a",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
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

/// A pod with all that a Deployment, clients and the API server add: most of what a cluster's pod
/// has in bytes. Its containers, their requests and ids stay.
pub fn dressed(mut pod: Value) -> Value {
    let mut containers = Value::take(&mut pod["spec"]["containers"]);
    for container in containers.as_array_mut().into_iter().flatten() {
        let name = container["name"].clone();
        add(container, settings());
        let statuses = pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten();
        statuses.filter(|status| status["name"] == name).for_each(|one| add(one, running()));
    }
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}});
    pod["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    let managers = ["kube-controller-manager", "kubelet"];
    pod["metadata"]["managedFields"] = managers.map(|by| managed(by, &containers)).into();
    pod["spec"]["containers"] = containers;
    pod
}

/// The image of all containers: a name as long as real ones are.
const IMAGE: &str = "images/platform-team/its-service:1.2.3";
/// When the pods began.
const TIME: &str = "2026-01-01T00:00:00Z";

fn add(to: &mut Value, more: Value) {
    if let (Value::Object(to), Value::Object(more)) = (to, more) {
        to.extend(more);
    }
}

fn settings() -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
    let variable =
        |i| json!({"name": format!("SETTING_{i:02}"), "value": "http://service.bench:80"});
    json!({
        "image": IMAGE,
        "env": (0..12).map(variable).collect::<Vec<_>>(),
        "livenessProbe": probe, "readinessProbe": probe,
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "name": "kube-api-access", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

fn running() -> Value {
    json!({
        "ready": true, "started": true, "restartCount": 0,
        "image": IMAGE, "imageID": format!("{IMAGE}@sha256:{:064x}", 1),
        "state": {"running": {"startedAt": TIME}}, "lastState": {},
    })
}

fn managed(by: &str, containers: &Value) -> Value {
    let fields = |of: &Value| -> Value {
        let fields = of.as_object().into_iter().flatten();
        fields.map(|(key, _)| (format!("f:{key}"), json!({}))).collect()
    };
    let each = |one: &Value| (format!("k:{{\"name\":{}}}", one["name"]), fields(one));
    let all: Value = containers.as_array().into_iter().flatten().map(each).collect();
    json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": by, "operation": "Update",
        "time": TIME, "fieldsV1": {"f:spec": {"f:containers": all}}})
}

/// The kubelet's `/stats/summary` of these pods, with all that one of 1.36 tells.
pub fn summary(node: &str, pods: &[Value]) -> Value {
    json!({"node": {"nodeName": node}, "pods": pods.iter().map(stats).collect::<Vec<_>>()})
}

fn stats(pod: &Value) -> Value {
    let psi = json!({"total": 844_773, "avg10": 0, "avg60": 0.01, "avg300": 0.1});
    let psi = json!({"full": psi, "some": psi});
    let disk = json!({"time": TIME, "availableBytes": 7_013_486_592_u64, "usedBytes": 20_480,
        "capacityBytes": 8_350_298_112_u64, "inodesFree": 508_753, "inodes": 524_288, "inodesUsed": 8});
    let used = json!({
        "cpu": {"time": TIME, "usageNanoCores": 0, "usageCoreNanoSeconds": 4_768_556_000_u64, "psi": psi},
        "memory": {"time": TIME, "usageBytes": 229_376, "workingSetBytes": 229_376,
            "rssBytes": 61_440, "pageFaults": 684, "majorPageFaults": 0, "psi": psi},
        "io": {"time": TIME, "psi": psi}, "swap": {"time": TIME, "swapUsageBytes": 0},
    });
    let container = |of: &Value| {
        let mut one = used.clone();
        add(&mut one, json!({"name": of["name"], "rootfs": disk, "logs": disk}));
        one
    };
    let metadata = &pod["metadata"];
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(container);
    let (containers, mut volume) = (containers.collect::<Vec<_>>(), disk.clone());
    volume["name"] = "kube-api-access".into();
    let mut stats = used.clone();
    add(
        &mut stats,
        json!({
            "podRef": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "containers": containers, "ephemeral-storage": disk, "volume": [volume],
        }),
    );
    stats
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
