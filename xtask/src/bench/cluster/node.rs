//! The API server and the kubelet of a node full of pods, as one process: objects of the size that a
//! cluster's have, by TLS and with a token.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use isobar_apistub::generate;
use serde_json::{Value, json};

use super::super::tree::{container_id, pod_uid};
use crate::build;
use isobar_lab::shell::root;

/// The kubelet's default for the number of pods on a node.
pub(super) const PODS: usize = 110;
pub(super) const CONTAINERS: usize = 250;

/// The image of all containers: a name as long as real ones are.
const IMAGE: &str = "images/platform-team/its-service";
/// The stand-in's certificate bears this name.
const NODE: &str = "n1";
const NAMESPACE: &str = "bench";
/// When the pods began.
const TIME: &str = "2026-01-01T00:00:00Z";

/// How many containers each pod has: two, and the first ones three.
pub(super) fn containers() -> [usize; PODS] {
    std::array::from_fn(|pod| if pod < CONTAINERS - 2 * PODS { 3 } else { 2 })
}

/// The process; it ends with this value, and its directory goes.
pub(super) struct Server {
    process: Child,
    dir: PathBuf,
    url: String,
    /// Of all pods' objects as JSON.
    pub(super) list_bytes: usize,
    pub(super) summary_bytes: usize,
}

impl Server {
    /// The cgroup `cgroup_root` is where the node's pods are.
    pub(super) fn start(cgroup_root: &str) -> Result<Self> {
        let program = build::api_server()?;
        let dir = root().join(format!("target/tmp/bench-cluster-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let pods: Vec<Value> = (0..PODS).map(pod).collect();
        let summary =
            json!({"node": {"nodeName": NODE}, "pods": (0..PODS).map(stats).collect::<Vec<_>>()});
        let (list_bytes, summary_bytes) =
            (Value::from(pods.clone()).to_string().len(), summary.to_string().len());
        let objects: Vec<Value> = std::iter::once(generate::node(NODE)).chain(pods).collect();
        fs::write(dir.join("objects"), Value::from(objects).to_string())?;
        let kubelet = json!({"/stats/summary": summary, "/configz": {"kubeletconfig": {"cgroupRoot": cgroup_root}}});
        fs::write(dir.join("kubelet"), kubelet.to_string())?;
        let config = json!({
            "apiVersion": "isobar/v1alpha1", "kind": "MonitorConfiguration", "cgroupRoot": cgroup_root,
        });
        fs::write(dir.join("config"), config.to_string())?;

        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).arg("--load").arg(dir.join("objects"));
        command.arg("--kubelet").arg(dir.join("kubelet")).arg("--account").arg(&dir);
        command.arg("--transcript").arg(dir.join("transcript"));
        let mut process =
            command.stderr(Stdio::piped()).spawn().context("cannot start the API server")?;
        let mut said = String::new();
        let stderr = process.stderr.take().context("it was asked for")?;
        let (list, url) = (list_bytes, String::new());
        let mut server = Self { process, dir, url, list_bytes: list, summary_bytes };
        BufReader::new(stderr).read_line(&mut said)?;
        let url = said.trim().strip_prefix("listening on ");
        server.url = url.with_context(|| format!("the API server says: {said}"))?.to_owned();
        server.write_kubeconfig()?;
        Ok(server)
    }

    fn write_kubeconfig(&self) -> Result<()> {
        let token = fs::read_to_string(self.dir.join("token"))?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": self.url, "certificate-authority": self.dir.join("ca.crt"),
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        Ok(fs::write(self.dir.join("kubeconfig"), kubeconfig.to_string())?)
    }

    /// For an agent of this node. The kubelet's certificate is the cluster's.
    pub(super) fn arguments(&self, state: &str, with_cluster: bool) -> Vec<String> {
        let file = |name: &str| self.dir.join(name).display().to_string();
        let mut all = vec!["--config".into(), file("config"), "--state-dir".into(), file(state)];
        if with_cluster {
            all.extend(["--kubeconfig".into(), file("kubeconfig")]);
            all.extend(["--node-name".into(), NODE.into(), "--kubelet".into(), self.url.clone()]);
        } else {
            all.push("--no-kubernetes".into());
        }
        all
    }

    /// What it was asked so far, without watches that are still open.
    pub(super) fn n_requests(&self) -> Result<usize> {
        let text = fs::read_to_string(self.dir.join("transcript"))?;
        Ok(text.lines().filter(|line| !line.contains(r#""verb":"watch""#)).count())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fail only if it has ended already, and if nothing was written.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn name(pod: usize) -> String {
    format!("service-{pod:03}-6b7f8c9d5c-x{pod:04}")
}

/// A pod as a Deployment makes it: what clients and the API server add to it is most of its bytes.
fn pod(number: usize) -> Value {
    let mut pod = generate::pod(NODE, NAMESPACE, &name(number));
    let parts = 1..=containers()[number];
    let containers: Vec<Value> = parts.clone().map(container).collect();
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}});
    pod["metadata"]["uid"] = pod_uid(number).into();
    pod["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    pod["metadata"]["managedFields"] =
        json!([managed("kube-controller-manager", &containers), managed("kubelet", &containers),]);
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("service-{number:03}-6b7f8c9d5c"),
        "uid": pod_uid(number + PODS), "controller": true, "blockOwnerDeletion": true,
    }]);
    pod["spec"]["containers"] = containers.into();
    let status = |part| {
        json!({
            "name": format!("part-{part}"), "ready": true, "started": true, "restartCount": 0,
            "containerID": format!("containerd://{}", container_id(number, part)),
            "image": format!("{IMAGE}:1.2.3"),
            "imageID": format!("{IMAGE}@sha256:{number:064x}"),
            "state": {"running": {"startedAt": TIME}}, "lastState": {},
        })
    };
    pod["status"]["containerStatuses"] = parts.map(status).collect();
    pod
}

fn container(part: usize) -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
    let variable =
        |i| json!({"name": format!("SETTING_{i:02}"), "value": "http://service.bench:80"});
    json!({
        "name": format!("part-{part}"), "image": format!("{IMAGE}:1.2.3"),
        "env": (0..12).map(variable).collect::<Vec<_>>(),
        "livenessProbe": probe, "readinessProbe": probe,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "name": "kube-api-access", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

fn managed(by: &str, containers: &[Value]) -> Value {
    let fields = |of: &Value| -> Value {
        of.as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| (format!("f:{key}"), json!({})))
            .collect()
    };
    let each = |one: &Value| (format!("k:{{\"name\":{}}}", one["name"]), fields(one));
    let all: serde_json::Map<String, Value> = containers.iter().map(each).collect();
    json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": by, "operation": "Update",
        "time": TIME, "fieldsV1": {"f:spec": {"f:containers": all}}})
}

/// A pod in `/stats/summary`, with all that a kubelet of 1.36 tells of it.
fn stats(number: usize) -> Value {
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
    let container = |part| {
        let mut one = used.clone();
        one["name"] = format!("part-{part}").into();
        (one["rootfs"], one["logs"]) = (disk.clone(), disk.clone());
        one
    };
    let mut pod = used.clone();
    pod["podRef"] = json!({"name": name(number), "namespace": NAMESPACE, "uid": pod_uid(number)});
    pod["containers"] = (1..=containers()[number]).map(container).collect();
    pod["ephemeral-storage"] = disk.clone();
    let mut volume = disk;
    volume["name"] = "kube-api-access".into();
    pod["volume"] = json!([volume]);
    pod
}
