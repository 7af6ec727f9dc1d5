//! An API server in the guest: the scenario's node and pods, a kubelet that ends pods that are told
//! to end, and what was written to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use isobar_apistub::{Authority, Kubelet, Options, Seen, Stub, generate};
use serde_json::{Value, json};

use super::TICK;
use super::testbed::Testbed;
use crate::agents::{API, KUBECONFIG, NODE};
use crate::clock::Since;
use crate::form::group::Api;

/// Where the authority's certificate is.
const ACCOUNT: &str = "/tmp/account";
/// It opens nothing but this server.
const TOKEN: &str = "isobar-lab";

pub(super) struct Cluster {
    stub: Arc<Stub>,
    is_over: Arc<AtomicBool>,
    kubelet: JoinHandle<()>,
}

impl Cluster {
    /// Starts it, and writes the kubeconfig that leads to it.
    pub(super) fn start(api: &Api, testbed: &Testbed) -> Result<Self> {
        let (kubelet, listen) = (Kubelet::WhenConfirmed, API.parse()?);
        let options = Options { kubelet, listen };
        let stub = Arc::new(Stub::start(&options).context("cannot start the API server")?);
        stub.put(generate::node(NODE))?;
        let mut pods = Vec::new();
        for (mut pod, _) in testbed.objects()? {
            pod["spec"]["nodeName"] = NODE.into();
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            pods.push(if api.full { generate::dressed(pod) } else { pod });
        }
        if api.full {
            serve_fully(&stub, &pods)?;
        }
        for pod in pods {
            stub.put(pod)?;
        }
        for name in &api.budgets {
            stub.put(generate::budget("scenario", name.get_ref(), name.get_ref(), 0))?;
        }
        fs::write(KUBECONFIG, kubeconfig(&stub.url(), api.full))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (watched, over) = (Arc::clone(&stub), Arc::clone(&is_over));
        let containers = testbed.objects()?;
        let containers = containers.into_iter().map(|(pod, path)| (name_of(&pod), path)).collect();
        let kubelet = thread::spawn(move || end_pods(&watched, containers, &over));
        Ok(Self { stub, is_over, kubelet })
    }

    /// What was written to it, a line for each request, in order.
    pub(super) fn end(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        // A kubelet that panicked has said so on the console.
        let _ = self.kubelet.join();
        self.stub.seen().iter().filter_map(line).collect()
    }
}

/// As a cluster's API server and kubelet do: with TLS, to who shows a token.
fn serve_fully(stub: &Stub, pods: &[Value]) -> Result<()> {
    let authority = Authority::new("scenario")?;
    fs::create_dir_all(ACCOUNT)?;
    authority.write_account(Path::new(ACCOUNT), TOKEN)?;
    stub.accept_tokens(&[TOKEN]);
    stub.serve_as(&authority)?;
    stub.kubelet_says("/stats/summary", generate::summary(NODE, pods));
    stub.kubelet_says(
        "/configz",
        json!({"kubeletconfig": {"evictionHard": {"memory.available": "100Mi"}}}),
    );
    Ok(())
}

fn kubeconfig(url: &str, is_full: bool) -> String {
    let (cluster, user) = match is_full {
        true => (
            json!({"server": url, "certificate-authority": format!("{ACCOUNT}/ca.crt")}),
            json!({"token": TOKEN}),
        ),
        false => (json!({"server": url}), json!({})),
    };
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
    .to_string()
}

/// Where pods have their volumes, in scenarios whose kubeletRoot is the disk.
const PODS: &str = "/disk/pods";

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Ends the containers of pods that are told to end once their grace is over, as a kubelet does with
/// processes that ignore SIGTERM, deletes their volumes, and confirms that they are gone.
fn end_pods(stub: &Stub, mut containers: Vec<(String, PathBuf)>, is_over: &AtomicBool) {
    let mut told: Vec<(String, Since)> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        for pod in stub.all("pods") {
            let (name, metadata) = (name_of(&pod), &pod["metadata"]);
            if metadata["deletionTimestamp"].is_null() {
                continue;
            }
            if !told.iter().any(|(one, _)| *one == name) {
                told.push((name.clone(), Since::now()));
            }
            let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
            let is_due = told
                .iter()
                .any(|(one, since)| *one == name && !since.within(Duration::from_secs(grace)));
            let at = containers.iter().position(|(one, _)| *one == name);
            if let Some(at) = at.filter(|_| is_due) {
                take_down(&containers.swap_remove(at).1);
                let uid = metadata["uid"].as_str().unwrap_or_default();
                // Fails only where the scenario gives it no volumes on the disk.
                let _ = fs::remove_dir_all(Path::new(PODS).join(uid));
                stub.confirm("scenario", &name);
            }
        }
        thread::sleep(TICK);
    }
}

/// Ends the pod of this container, sandbox and all, and removes its cgroups.
fn take_down(container: &Path) {
    let Some(pod) = container.parent() else { return };
    let below = || {
        let entries = fs::read_dir(pod).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir())
    };
    let remove = || below().try_for_each(fs::remove_dir).and_then(|()| fs::remove_dir(pod));
    let ended = fs::write(pod.join("cgroup.kill"), "1").and_then(|()| {
        let began = Since::now();
        // Processes that were killed are in it for a moment.
        while let Err(why) = remove() {
            if !began.within(Duration::from_secs(5)) {
                return Err(why);
            }
            thread::sleep(TICK);
        }
        Ok(())
    });
    if let Err(why) = ended {
        eprintln!("the kubelet cannot take down {}: {why}", pod.display());
    }
}

/// A request that writes, in a line.
fn line(seen: &Seen) -> Option<String> {
    let call = &seen.call;
    let status = seen.status.map_or("cut".into(), |code| code.to_string());
    let what = match (&*call.verb, &*call.resource, &*call.subresource) {
        ("patch", "nodes", "status") => format!("conditions {}", conditions(&call.body)),
        ("patch", "nodes", "") => format!("taints {}", taints(&call.body)),
        ("create", "pods", "eviction") => format!("evict {}", call.name),
        ("create", "events", "") => {
            let body = &call.body;
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let about = text(&body["regarding"]["name"]);
            format!("event {} {about}: {}", text(&body["reason"]), text(&body["note"]))
        }
        ("list" | "watch" | "get", ..) | (_, "selfsubjectaccessreviews", _) => return None,
        (verb, resource, _) => format!("{verb} {resource}"),
    };
    Some(format!("{what} -> {status}"))
}

fn conditions(body: &Value) -> String {
    let each = body["status"]["conditions"].as_array().into_iter().flatten().map(|one| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        format!("{}={}", text("type"), text("status"))
    });
    each.collect::<Vec<_>>().join(" ")
}

fn taints(body: &Value) -> String {
    let each = body["spec"]["taints"].as_array().into_iter().flatten().map(|one| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        format!("{}:{}", text("key"), text("effect"))
    });
    each.collect::<Vec<_>>().join(" ")
}
