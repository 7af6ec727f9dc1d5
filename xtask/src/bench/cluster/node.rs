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

/// The stand-in's certificate bears this name.
const NODE: &str = "n1";
const NAMESPACE: &str = "bench";

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
        let summary = generate::summary(NODE, &pods);
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

/// A pod as a Deployment makes it.
fn pod(number: usize) -> Value {
    let mut pod = generate::pod(NODE, NAMESPACE, &name(number));
    let parts = 1..=containers()[number];
    pod["metadata"]["uid"] = pod_uid(number).into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("service-{number:03}-6b7f8c9d5c"),
        "uid": pod_uid(number + PODS), "controller": true, "blockOwnerDeletion": true,
    }]);
    let resources =
        json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}});
    let container = |part| json!({"name": format!("part-{part}"), "resources": resources});
    pod["spec"]["containers"] = parts.clone().map(container).collect();
    let status = |part| {
        let id = format!("containerd://{}", container_id(number, part));
        json!({"name": format!("part-{part}"), "containerID": id})
    };
    pod["status"]["containerStatuses"] = parts.map(status).collect();
    generate::dressed(pod)
}
