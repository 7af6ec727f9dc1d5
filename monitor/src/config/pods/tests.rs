use proptest::prelude::*;

use super::*;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::workload::ContainerKind::{Ephemeral, Init, Regular, Sidecar};
use isobar_core::model::workload::{RestartPolicy, RestartRule};

#[track_caller]
fn read_all(text: &str) -> Manifest {
    read("f.yaml", text.as_bytes()).unwrap_or_else(|invalid| panic!("{invalid}"))
}

#[track_caller]
pub(super) fn one(text: &str) -> Pod {
    let mut found = read_all(text);
    assert_eq!((found.pods.len(), &found.others), (1, &vec![]));
    found.pods.remove(0)
}

/// The problems, one per line.
fn wrong(text: &str) -> Vec<String> {
    let Err(invalid) = read("f.yaml", text.as_bytes()) else { return Vec::new() };
    invalid.to_string().lines().map(Into::into).collect()
}

/// As `kubectl get pod -o yaml` prints it, shortened.
pub(super) const PRINTED: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubernetes.io/config.source: api
    kubernetes.io/config.seen:
    example.com/other: "1"
  creationTimestamp: "2026-01-31T12:00:00Z"
  generateName: web-7d4b9c-
  labels: {app: web}
  name: web-7d4b9c-x2x7p
  namespace: shop
  ownerReferences:
  - {apiVersion: v1, kind: Note, name: other, uid: 0-1, controller: false}
  - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet, name: web-7d4b9c, uid: 0-2}
  resourceVersion: "4711"
  uid: 7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19
spec:
  initContainers:
  - name: migrate
    image: web
    resources: {requests: {memory: 1Gi}}
  - name: proxy
    image: proxy
    restartPolicy: Always
    resources: {}
  containers:
  - name: web
    image: web
    ports: [{containerPort: 80}]
    restartPolicy: Never
    restartPolicyRules:
    - {action: Restart, exitCodes: {operator: In, values: [42, 137]}}
    - {action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}
    - {action: Restart, exitCodes: {operator: Above, values: [0]}}
    - {action: Forget, exitCodes: {operator: In, values: [0]}}
    - {action: Restart}
    resources:
      limits: {cpu: 2, memory: 1.5Gi}
      requests: {cpu: 500m, memory: " 1Gi ", ephemeral-storage: 1e9}
  ephemeralContainers:
  - {name: look, image: busybox, targetContainerName: web}
  overhead: {memory: 64Mi}
  priority: 1000
  priorityClassName: shop
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 30
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  - {operator: Exists}
status:
  containerStatuses:
  - containerID: containerd://0f3c9d51
    name: web
    ready: true
    restartCount: 3
  initContainerStatuses:
  - {containerID: "containerd://aaaa", name: migrate}
  - {name: proxy}
  ephemeralContainerStatuses: [{containerID: "", name: look}]
  hostIP: 10.0.0.1
  phase: Running
  qosClass: Burstable
  startTime: "2026-01-31T12:00:05Z"
"#;

#[test]
fn read_knows_pods_that_are_over() {
    for (phase, want) in
        [("Running", false), ("Succeeded", true), ("Failed", true), ("Pending", false)]
    {
        assert_eq!(one(&PRINTED.replace("Running", phase)).is_over, want, "{phase}");
    }
}

#[test]
fn read_goes_by_what_is_allocated() {
    let resized = "    name: web\n    ready: true\n    allocatedResources: {cpu: 250m}\n    resources: {limits: {memory: 1Gi}}";
    let pod = one(&PRINTED.replace("    name: web\n    ready: true", resized));
    let web = &pod.containers[2].resources;
    let text = |list: &ResourceList, name: &str| list[name].to_string();
    assert_eq!(text(&web.requests, "cpu"), "250m", "the spec has 500m");
    assert_eq!(text(&web.requests, "memory"), "1Gi", "as in the spec");
    assert_eq!((text(&web.limits, "cpu"), text(&web.limits, "memory")), ("2".into(), "1Gi".into()));
}

#[test]
fn read_knows_volumes_that_take_of_the_node() {
    #[rustfmt::skip]
    let table = [
        // volume, is on the node's disks, limit; None if it counts nowhere
        ("emptyDir: {}",                             Some((true, None))),
        ("emptyDir: {sizeLimit: 1Gi}",               Some((true, Some("1Gi")))),
        ("emptyDir: {sizeLimit: 0}",                 Some((true, None))),
        ("emptyDir: {medium: Memory, sizeLimit: 1}", Some((false, Some("1")))),
        ("emptyDir: {medium: HugePages-2Mi}",        Some((true, None))), // as the kubelet has it
        ("hostPath: {path: /srv}",                   Some((true, None))),
        ("configMap: {name: web}",                   Some((true, None))),
        ("secret: {secretName: web}",                None),
        ("persistentVolumeClaim: {claimName: web}",  None),
        ("csi: {driver: x}",                         None),
    ];
    for (volume, want) in table {
        let volumes = format!("  volumes:\n  - name: v\n    {volume}\nstatus:");
        let pod = one(&PRINTED.replacen("status:", &volumes, 1));
        let got: Vec<_> =
            pod.volumes.iter().map(|v| (v.name.as_str(), v.is_local, v.limit)).collect();
        let limit = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let want: Vec<_> =
            want.into_iter().map(|(local, text)| ("v", local, limit(text))).collect();
        assert_eq!(got, want, "{volume}");
    }
}

#[test]
fn read_accepts_pod_as_kubectl_prints_it() {
    let pod = one(PRINTED);
    assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("shop", "web-7d4b9c-x2x7p"));
    assert_eq!(pod.uid, "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19");
    assert_eq!(pod.labels["app"], "web");
    assert_eq!(pod.annotations["kubernetes.io/config.source"], "api");
    assert_eq!(pod.annotations["kubernetes.io/config.seen"], "", "null is empty");
    assert_eq!(pod.annotations.len(), 2, "others may be large, and nothing reads them");
    let owner = Owner { kind: "ReplicaSet".into(), name: "web-7d4b9c".into(), uid: "0-2".into() };
    assert_eq!(pod.owner, Some(owner));
    assert_eq!((pod.priority, pod.priority_class.as_str()), (Some(1_000), "shop"));
    assert_eq!((pod.termination_grace, pod.qos_class), (Some(30), Some(QosClass::Burstable)));
    assert_eq!(
        pod.started,
        Some(1_769_860_805),
        "started is later than made, and nearer the truth"
    );
    assert_eq!(pod.overhead["memory"].to_string(), "64Mi");
    assert_eq!(pod.resources, None);
    let first = &pod.tolerations[0];
    assert_eq!((first.key.as_str(), &*first.operator), ("node.kubernetes.io/not-ready", "Exists"));
    assert_eq!((first.value.as_str(), first.effect.as_str()), ("", "NoExecute"));
    assert_eq!(pod.tolerations.len(), 2);
    let containers: Vec<_> =
        pod.containers.iter().map(|c| (c.name.as_str(), c.kind, c.id.as_deref())).collect();
    #[rustfmt::skip]
    let want = [
        ("migrate", Init,      Some("aaaa")),
        ("proxy",   Sidecar,   None),
        ("web",     Regular,   Some("0f3c9d51")),
        ("look",    Ephemeral, None),
    ];
    assert_eq!(containers, want);
    assert_eq!(pod.restart_policy, Some(RestartPolicy::OnFailure));
    let own: Vec<_> = pod.containers.iter().map(|one| one.restart_policy).collect();
    assert_eq!(own, [None, None, Some(RestartPolicy::Never), None], "a sidecar's is its kind");
    let rule = |is_for_all, is_for_others, exit_codes| RestartRule {
        is_for_all,
        is_for_others,
        exit_codes,
    };
    let rules = [rule(false, false, vec![42, 137]), rule(true, true, vec![0])];
    assert_eq!(pod.containers[2].restart_rules, rules, "without those that match no exit code");
    let restarts: Vec<_> = pod.containers.iter().map(|one| one.n_restarts).collect();
    assert_eq!(restarts, [None, None, Some(3), None]);
    let web = &pod.containers[2].resources;
    assert_eq!(web.limits["cpu"].to_string(), "2");
    assert_eq!(web.limits["memory"].to_string(), "1536Mi");
    assert_eq!(web.requests["memory"].to_string(), "1Gi");
    assert_eq!(web.requests["ephemeral-storage"].to_string(), "1e9");
}

#[test]
fn read_accepts_json() {
    let list = r#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[
        {"kind":"Pod","metadata":{"name":"a","creationTimestamp":null},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":0.5}}}]}},
        {"kind":"Pod","metadata":{"name":"b"},"spec":{"resources":{},"containers":[{"name":"c"}]}}]}"#;
    let found = read_all(list);
    let names: Vec<_> = found.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(found.pods[0].containers[0].resources.requests["cpu"].to_string(), "500m");
    assert!(found.pods[1].resources.is_some(), "an empty one is there, and the kubelet goes by it");
}

#[test]
fn read_uses_template_of_makers() {
    let template = "metadata: {name: ignored, labels: {app: web}}, spec: {containers: [{name: c}]}";
    #[rustfmt::skip]
    let table = [
        // kind, the rest
        ("Deployment",            format!("spec: {{replicas: 3, template: {{{template}}}}}")),
        ("DaemonSet",             format!("spec: {{template: {{{template}}}}}")),
        ("StatefulSet",           format!("spec: {{template: {{{template}}}}}")),
        ("ReplicaSet",            format!("spec: {{template: {{{template}}}}}")),
        ("ReplicationController", format!("spec: {{template: {{{template}}}}}")),
        ("Job",                   format!("spec: {{template: {{{template}}}}}")),
        ("CronJob",               format!("spec: {{jobTemplate: {{spec: {{template: {{{template}}}}}}}}}")),
        ("PodTemplate",           format!("template: {{{template}}}")),
    ];
    for (kind, rest) in table {
        let metadata = "metadata: {name: web, namespace: shop, uid: the-makers, labels: {a: b}}";
        let pod = one(&format!("{{kind: {kind}, {metadata}, {rest}}}"));
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("shop", "web"), "{kind}");
        assert_eq!((pod.uid.as_str(), pod.labels.len()), ("", 1), "{kind}");
        assert_eq!(pod.labels["app"], "web", "{kind}");
        assert_eq!(pod.containers.len(), 1, "{kind}");
    }
}

#[test]
fn read_reports_objects_without_pods() {
    let text = "kind: Service\nmetadata: {name: web}\n---\nkind: Pod\nspec: {containers: [{name: c}]}\n---\n---\nkind: Deploymnet\n";
    let found = read_all(text);
    assert_eq!((found.pods.len(), found.is_list), (1, true));
    let others: Vec<_> = found.others.iter().map(ToString::to_string).collect();
    let want = [
        "1:7: kind: ignored: \"Service\" is not a kind that has pods",
        "8:7: kind: ignored: \"Deploymnet\" is not a kind that has pods",
    ];
    assert_eq!(others, want);
    let none = read_all("{kind: PodList, items: []}");
    let want = Manifest { is_list: true, ..Manifest::default() };
    assert_eq!(none, want, "a node without pods is no mistake");
}

#[test]
fn read_reports_every_problem_with_its_place() {
    let text = "\
kind: Pod
metadata: {name: 5, creationTimestamp: yesterday}
spec:
  priority: high
  resources: [1]
  containers:
  - name: a
    resources:
      requests: {cpu: 1KB, memory: -1Gi}
      limits: {cpu: , memory: [1Gi]}
  - name: a
  - image: b
status: {qosClass: Gold}
";
    let want = [
        "f.yaml:2:18: metadata.name: expected a text, found the number 5; put it in quotes",
        "f.yaml:2:40: metadata.creationTimestamp: expected a time such as 2026-01-31T12:00:00Z, found \"yesterday\"",
        "f.yaml:4:13: spec.priority: expected a whole number, found the text \"high\"",
        "f.yaml:5:14: spec.resources: expected a mapping, found a list",
        "f.yaml:9:23: spec.containers[0].resources.requests.cpu: expected a quantity such as 500m or 2Gi, found \"1KB\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        "f.yaml:9:36: spec.containers[0].resources.requests.memory: expected a quantity that is not negative, found \"-1Gi\"",
        "f.yaml:10:19: spec.containers[0].resources.limits.cpu: expected a quantity such as 500m or 2Gi, found nothing",
        "f.yaml:10:31: spec.containers[0].resources.limits.memory: expected a quantity such as 500m or 2Gi, found a list",
        "f.yaml:11:5: spec.containers[1]: a second container is named \"a\"",
        "f.yaml:12:5: spec.containers[2].name: expected this key, it is missing",
        "f.yaml:13:20: status.qosClass: expected one of Guaranteed, Burstable, BestEffort, found the text \"Gold\"",
    ];
    assert_eq!(wrong(text), want);
}

#[test]
fn read_refuses_what_is_not_a_pod() {
    #[rustfmt::skip]
    let table = [
        // text, the first that is wrong
        ("",                              "f.yaml:1:1: the file holds no document"),
        ("[]",                            "f.yaml:1:1: expected a mapping, found a list"),
        ("spec: {}",                      "f.yaml:1:1: kind: expected this key, it is missing"),
        ("kind: Service",                 "f.yaml:1:1: expected a pod, or an object that makes pods"),
        ("kind: Pod",                     "f.yaml:1:1: spec: expected this key, it is missing"),
        ("{kind: Pod, spec: {}}",         "f.yaml:1:19: spec.containers: expected this key, it is missing"),
        ("{kind: Pod, spec: {containers: []}}", "f.yaml:1:32: spec.containers: expected at least one container"),
        ("{kind: Pod, kind: Pod, spec: {containers: [{name: c}]}}", "f.yaml:1:13: kind: this key occurs twice"),
        ("{kind: List}",                  "f.yaml:1:1: items: expected this key, it is missing"),
        ("{kind: List, items: [{}]}",     "f.yaml:1:22: items[0].kind: expected this key, it is missing"),
        ("{kind: CronJob, spec: {}}",     "f.yaml:1:23: spec.jobTemplate: expected this key, it is missing"),
        ("{kind: Job, spec: {template: {}}}", "f.yaml:1:30: spec.template.spec: expected this key, it is missing"),
    ];
    for (text, want) in table {
        assert_eq!(wrong(text).first().map(String::as_str), Some(want), "{text}");
    }
}

proptest! {
    #[test]
    fn read_never_panics(text in "(kind: (Pod|List|Job)\n|spec:|items:| |\n|- |\\{|\\}|\\[|\\]|name: a|containers:|resources:|requests:|cpu: 1|\\PC){0,30}") {
        let _ = read("f.yaml", text.as_bytes());
    }
}

#[test]
fn manifest_in_json_has_places_of_what_is_wrong() {
    let list =
        |item: &str| format!("{{\"kind\": \"List\", \"items\": [\n  {item},\n  {GOOD}\n]}}\n");
    const GOOD: &str = r#"{"kind": "Pod", "spec": {"containers": [{"name": "a"}]}}"#;
    let fine = read("pods.json", list(GOOD).as_bytes()).unwrap();
    assert_eq!((fine.pods.len(), fine.others.len(), fine.is_list), (2, 0, true));
    let other = read("pods.json", list(r#"{"kind": "Secret"}"#).as_bytes()).unwrap();
    let at = other.others[0].at.map(|at| at.to_string());
    assert_eq!((other.pods.len(), at.as_deref()), (1, Some("2:12")));
    let wrong = read("pods.json", list(r#"{"kind": "Pod", "spec": 7}"#).as_bytes());
    let said = wrong.unwrap_err().to_string();
    assert!(said.contains("pods.json:2:27: items[0].spec: expected a mapping"), "{said}");
}
