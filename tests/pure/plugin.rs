//! `kubectl isobar`: the agent of a node, asked through the API server's proxy of its pod.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use axum::extract::{Query, Request};
use axum::http::header;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::made_up;
use crate::program::text;
use isobar_core::model::limit::NodeResources;
use isobar_core::policy::engine::Step;

/// The agent was asked once, when it had no sample yet.
static ASKED: Notify = Notify::const_new();

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selectors {
    label_selector: String,
    field_selector: String,
}

/// How often the pods of n4 were listed.
static LISTED: AtomicUsize = AtomicUsize::new(0);

/// The agents' pods: on n1 an old one that ends and a new one, on n2 one that does not run yet, on n4 one
/// that is replaced once it was found.
async fn pods(Query(asked): Query<Selectors>) -> Json<Value> {
    assert_eq!(asked.label_selector, "app.kubernetes.io/name=isobar");
    let pod = |name: &str, phase: &str, ends: Option<&str>| {
        let metadata =
            json!({"name": name, "namespace": "isobar-system", "deletionTimestamp": ends});
        json!({"metadata": metadata, "status": {"phase": phase}})
    };
    let (of_node, phase) = asked.field_selector.split_once(",status.phase=").unwrap();
    let mut items = match of_node {
        "spec.nodeName=n1" => vec![
            pod("isobar-old", "Running", Some("2026-11-22T12:00:00Z")),
            pod("isobar-new", "Running", None),
        ],
        "spec.nodeName=n4" => match LISTED.fetch_add(1, Ordering::Relaxed) {
            0 => vec![pod("isobar-gone", "Running", None)],
            _ => vec![pod("isobar-new", "Running", None)],
        },
        "spec.nodeName=n2" => vec![pod("isobar-soon", "Pending", None)],
        _ => Vec::new(),
    };
    items.retain(|pod| pod["status"]["phase"] == phase);
    Json(json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}))
}

/// A real API server is mostly reached by a name, which it would pass on, and the agent refuse.
async fn named_as_asked(request: Request, next: Next) -> Response {
    assert_eq!(request.headers()[header::HOST], "localhost");
    let answer = next.run(request).await;
    ASKED.notify_one();
    answer
}

/// An API server that knows these pods and passes on to the agent of one, header and all.
fn api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (mut publisher, latest) = made_up::publisher();
            let step = Step { snapshot: made_up::snapshot(3), ..Step::default() };
            let publish_later = async {
                ASKED.notified().await;
                let amounts =
                    |memory: &str| [("memory".to_owned(), memory.parse().unwrap())].into();
                let (capacity, allocatable) = (amounts("32Gi"), amounts("30Gi"));
                let resources = NodeResources { capacity, allocatable, ..NodeResources::default() };
                publisher.note_node((None, Some(&resources)));
                made_up::publish_step(&mut publisher, step);
            };
            let all = "/api/v1/namespaces/isobar-system/pods";
            let agent = isobar::serve::router(latest).layer(from_fn(named_as_asked));
            let router = Router::new()
                .route(all, get(pods))
                .nest(&format!("{all}/isobar-new:9797/proxy"), agent);
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (served, ()) = tokio::join!(axum::serve(listener, router), publish_later);
            served.unwrap();
        });
    });
    address
}

#[test]
fn plugin_asks_the_agent_of_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let (plugin, config) = (dir.path().join("kubectl-isobar"), dir.path().join("config"));
    symlink(env!("CARGO_BIN_EXE_isobar"), &plugin).unwrap();
    let server = format!("http://{}", api_server());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(&config, kubeconfig.to_string()).unwrap();
    #[rustfmt::skip]
    let table: [(&[&str], i32, &str); 22] = [
        // arguments, code, printed
        (&["status", "--node", "n1"],                 10, "PRESSED"),
        (&["top", "--once", "--node", "n1"],          0,  "containerd.service"),
        (&["doctor", "--node", "n1", "-o", "json"],   1,  "\"findings\": []"),
        (&["incidents", "ls", "--node", "n1"],        0,  made_up::INCIDENT),
        (&["incidents", "show", "latest", "--node", "n1"], 0, made_up::INCIDENT),
        (&["incidents", "export", "latest", "--node", "n1", "-o", "-"], 0, ""),
        (&["status", "--node", "n1", "--at", "10 min ago"], 1, "nothing is recorded"),
        (&["incidents", "ls"],                        2,  "--node <NAME>"),
        (&["status", "--node", "n2"],                 1,  "no isobar runs on node n2 in the namespace isobar-system"),
        (&["status", "--node", "n3"],                 1,  "no isobar runs on node n3"),
        (&["status", "--node", "n4"],                 10, "PRESSED"),
        (&["status"],                                 2,  "--node <NAME>"),
        (&["allocatable", "--node", "n1"],            0,  "memory        32Gi              -                -         30Gi"),
        (&["allocatable", "--node", "n1", "-o", "json"], 0, "\"kind\": \"Allocatable\""),
        (&["allocatable"],                            2,  "--node <NAME>"),
        (&["rank", "--node", "n1"],                   1,  "because no threshold is due; to rank as if one were, add --at now"),
        (&["rank", "--node", "n1", "--at", "10 min ago"], 1, "nothing is recorded"),
        (&["rank", "--node", "n1", "--signal", "memory.available"], 2, "add --at now"),
        (&["rank"],                                   2,  "--node <NAME>"),
        (&["qos"],                                    2,  "run it on the node, with `kubectl -n isobar-system exec POD -- isobar qos`"),
        (&["cpus"],                                   2,  "exec POD -- isobar cpus`"),
        (&["status", "--help"],                       0,  "Usage: kubectl isobar status"),
    ];
    for (arguments, code, told) in table {
        let got = Command::new(&plugin).args(arguments).env("KUBECONFIG", &config).output();
        let got = got.unwrap();
        let said = text(&got.stdout) + &text(&got.stderr);
        assert_eq!(got.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}
