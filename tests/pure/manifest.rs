//! What `isobar manifest` prints: that it is what `deploy/kustomize` renders, that the API server will
//! take it as it was meant, and that it gives the agents no more than they use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::output;
use crate::program::text;
use isobar::source::pod_disks::Places;
use serde_json::{Value, json};

const OVERLAYS: [&str; 2] = ["observe", "enforce"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn printed(overlay: &str) -> String {
    let got = output(&["manifest", "--overlay", overlay]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    text(&got.stdout)
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

fn of_kind(documents: &[Value], kind: &str) -> Vec<Value> {
    documents.iter().filter(|one| one["kind"] == kind).cloned().collect()
}

/// The agents' pod, and its only container.
fn pod(documents: &[Value]) -> (Value, Value) {
    let pod = of_kind(documents, "DaemonSet")[0]["spec"]["template"]["spec"].clone();
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    let container = pod["containers"][0].clone();
    (pod, container)
}

/// What kustomize makes of a directory; `None` where there is none.
fn render(dir: &Path) -> Option<String> {
    let said = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().ok().map(|got| text(&got.stdout))
    };
    // That of an older kubectl knows no components.
    let is_new = |version: String| version.contains("Kustomize Version: v5");
    let (program, verb) = if said("kustomize", &["version"]).is_some() {
        ("kustomize", "build")
    } else if said("kubectl", &["version", "--client"]).is_some_and(is_new) {
        ("kubectl", "kustomize")
    } else {
        return None;
    };
    let rendered = Command::new(program).arg(verb).arg(dir).output().unwrap();
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    Some(text(&rendered.stdout))
}

#[test]
fn manifest_is_what_the_overlays_render() {
    for overlay in OVERLAYS {
        let dir = deploy().join("kustomize/overlays").join(overlay);
        let Some(rendered) = render(&dir) else {
            return println!("skipped: neither kustomize nor a kubectl with kustomize 5 is here");
        };
        assert!(
            printed(overlay) == rendered,
            "render {overlay} anew: kustomize build deploy/kustomize/overlays/{overlay}"
        );
    }
}

#[test]
fn manifest_mounts_what_is_walked_for_disk_use() {
    for overlay in OVERLAYS {
        let documents = documents(&printed(overlay));
        let (_, container) = pod(&documents);
        let settings = &of_kind(&documents, "ConfigMap")[0]["data"]["monitor.yaml"];
        let settings: Value = serde_saphyr::from_str(settings.as_str().unwrap()).unwrap();
        let root = settings["kubeletRoot"].as_str().unwrap();
        let places = Places::of_kubelet(Path::new(root));
        let mounts = container["volumeMounts"].as_array().unwrap();
        for wanted in [Path::new(root), places.logs()] {
            let is_mounted = |mount: &Value| mount["mountPath"] == wanted.to_str().unwrap();
            assert!(mounts.iter().any(is_mounted), "{overlay}: {}", wanted.display());
        }
    }
}

/// A key that the type does not know is lost on the way.
#[test]
fn manifest_has_no_key_that_the_api_does_not_know() {
    use k8s_openapi::api::admissionregistration::v1 as admission;
    use k8s_openapi::api::{apps, core, networking, rbac};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    fn again<T: DeserializeOwned + Serialize>(document: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<T>(document.clone()).unwrap()).unwrap()
    }

    let extended = with_components().unwrap_or_default();
    for document in OVERLAYS.iter().flat_map(|name| documents(&printed(name))).chain(extended) {
        let kind = document["kind"].as_str().unwrap();
        let same = match kind {
            "Namespace" => again::<core::v1::Namespace>(&document),
            "ServiceAccount" => again::<core::v1::ServiceAccount>(&document),
            "ConfigMap" => again::<core::v1::ConfigMap>(&document),
            "ClusterRole" => again::<rbac::v1::ClusterRole>(&document),
            "ClusterRoleBinding" => again::<rbac::v1::ClusterRoleBinding>(&document),
            "DaemonSet" => again::<apps::v1::DaemonSet>(&document),
            "NetworkPolicy" => again::<networking::v1::NetworkPolicy>(&document),
            "ValidatingAdmissionPolicy" => again::<admission::ValidatingAdmissionPolicy>(&document),
            "ValidatingAdmissionPolicyBinding" => {
                again::<admission::ValidatingAdmissionPolicyBinding>(&document)
            }
            _ => panic!("{kind} is not compared"),
        };
        assert_eq!(same, document, "{kind}");
    }
}

/// The overlay `enforce` with each component that it may be given, as a kustomization of an operator's.
/// That of the Prometheus operator has a type of its own.
fn with_components() -> Option<Vec<Value>> {
    let dir = tempfile::tempdir().unwrap();
    let copied =
        Command::new("cp").arg("-r").arg(deploy().join("kustomize")).arg(dir.path()).status();
    assert!(copied.unwrap().success());
    let own = dir.path().join("kustomize/own");
    fs::create_dir(&own).unwrap();
    let components = ["restricted", "restricted-enforce", "networkpolicy", "delete"];
    let components = components.map(|name| format!("../components/{name}")).join(", ");
    let text = format!("resources: [../overlays/enforce]\ncomponents: [{components}]\n");
    fs::write(own.join("kustomization.yaml"), text).unwrap();
    let rendered = render(&own);
    if rendered.is_none() {
        println!("skipped: neither kustomize nor a kubectl with kustomize 5 is here");
    }
    rendered.map(|text| documents(&text))
}

#[test]
fn manifest_permissions() {
    let observe = json!([
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["nodes/stats", "nodes/configz", "nodes/pods"], "verbs": ["get"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let taint = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]);
    let evict = json!([
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
    ]);
    #[rustfmt::skip]
    let table = [
        // overlay, roles
        ("observe", vec![("isobar-observe", &observe)]),
        ("enforce", vec![("isobar-evict", &evict), ("isobar-observe", &observe), ("isobar-taint", &taint)]),
    ];
    for (overlay, want) in table {
        let documents = documents(&printed(overlay));
        let roles = of_kind(&documents, "ClusterRole");
        let roles: Vec<_> = roles
            .iter()
            .map(|role| (role["metadata"]["name"].as_str().unwrap(), &role["rules"]))
            .collect();
        assert_eq!(roles, want, "{overlay}");
        let bindings = of_kind(&documents, "ClusterRoleBinding");
        let bound: Vec<_> = bindings.iter().map(|one| one["roleRef"]["name"].clone()).collect();
        assert_eq!(bound, roles.iter().map(|(name, _)| json!(name)).collect::<Vec<_>>());
    }
}

/// An agent that observes may write conditions of every node, as far as RBAC goes.
#[test]
fn manifest_holds_agents_to_their_node() {
    #[rustfmt::skip]
    let table = [
        ("observe", vec!["isobar-own-node"]),
        ("enforce", vec!["isobar-evictions", "isobar-own-node"]),
    ];
    for (overlay, want) in table {
        let documents = documents(&printed(overlay));
        let policies = of_kind(&documents, "ValidatingAdmissionPolicy");
        let mut names: Vec<_> = policies.iter().map(|one| &one["metadata"]["name"]).collect();
        names.sort_by_key(ToString::to_string);
        assert_eq!(names, want, "{overlay}");
        let bindings = of_kind(&documents, "ValidatingAdmissionPolicyBinding");
        let mut bound: Vec<_> = bindings.iter().map(|one| &one["spec"]["policyName"]).collect();
        bound.sort_by_key(ToString::to_string);
        assert_eq!(bound, want, "{overlay}");
        assert!(bindings.iter().all(|one| one["spec"]["validationActions"] == json!(["Deny"])));
    }
}

/// What the agent is given on its command line it understands, and what it writes it may.
#[test]
fn manifest_agent_by_overlay() {
    #[rustfmt::skip]
    let table = [
        // overlay, the cgroup tree is read-only
        ("observe", json!(true)),
        ("enforce", json!(false)),
    ];
    for (overlay, is_read_only) in table {
        let (pod, container) = pod(&documents(&printed(overlay)));
        assert_eq!(pod["hostPID"], true, "{overlay}");
        let requests = &container["resources"]["requests"];
        assert_eq!(requests, &container["resources"]["limits"], "{overlay} is not Guaranteed");
        let mounts = container["volumeMounts"].as_array().unwrap();
        let cgroups = mounts.iter().find(|one| one["mountPath"] == "/host/sys/fs/cgroup").unwrap();
        assert_eq!(cgroups["readOnly"], is_read_only, "{overlay}");
        let mut arguments: Vec<_> =
            container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        // A pod's arguments are right if what follows them is the first that is wrong.
        arguments.push("--no-such-option");
        let told = text(&output(&arguments).stderr);
        assert!(told.contains("'--no-such-option'"), "{overlay}: {told}");
    }
}

#[test]
fn manifest_configurations_pass_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let kubelets = dir.path().join("config.yaml");
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    fs::write(&kubelets, kubelet).unwrap();
    for overlay in OVERLAYS {
        let map = &of_kind(&documents(&printed(overlay)), "ConfigMap")[0];
        let configuration = map["data"]["monitor.yaml"].as_str().unwrap();
        let there = "/host/var/lib/kubelet/config.yaml";
        assert!(configuration.contains(there), "{overlay}");
        let file = dir.path().join(overlay);
        fs::write(&file, configuration.replace(there, kubelets.to_str().unwrap())).unwrap();
        let got = output(&["config", "check", "-f", file.to_str().unwrap()]);
        assert_eq!(got.status.code(), Some(0), "{overlay}: {}", text(&got.stderr));
    }
}

/// The table of docs/kubernetes.md has the same.
#[test]
fn manifest_restricted_capabilities() {
    let file = deploy().join("kustomize/components/restricted/daemonset.yaml");
    let observing = Some(documents(&fs::read_to_string(file).unwrap()));
    let observes = ["BPF", "PERFMON", "SYS_RESOURCE", "DAC_READ_SEARCH", "IPC_LOCK", "SYS_NICE"];
    let enforces = [&observes[..], &["DAC_OVERRIDE", "KILL"]].concat();
    for (documents, added) in [(observing, observes.to_vec()), (with_components(), enforces)] {
        let Some(documents) = documents else { continue };
        let (_, container) = pod(&documents);
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": added}));
        assert_eq!(security["privileged"], Value::Null);
        // The API server refuses SYS_ADMIN beside this.
        assert_eq!(security["allowPrivilegeEscalation"], false);
    }
}
