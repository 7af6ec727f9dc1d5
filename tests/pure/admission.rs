//! The admission policies of `deploy/kustomize`, evaluated: what isobar writes passes, the rest of what
//! RBAC would let through is refused. Each validation refuses something here that no other refuses.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cel::{Context, Program, Value as Evaluated};
use serde_json::{Value, json};

/// The policy of a component.
fn policy(component: &str) -> Value {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kustomize/components");
    let text = fs::read_to_string(dir.join(component).join("policy.yaml")).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().find(|one| one["kind"] == "ValidatingAdmissionPolicy").unwrap()
}

/// What a policy is asked about.
#[derive(Clone)]
struct Asked {
    request: Value,
    object: Value,
    old: Value,
}

impl Asked {
    /// By an agent, with the token of its pod on n1.
    fn new(operation: &str, object: Value, old: Value) -> Self {
        let extra = json!({"authentication.kubernetes.io/node-name": ["n1"]});
        let user = json!({
            "username": "system:serviceaccount:isobar-system:isobar",
            "extra": extra,
        });
        Self { request: json!({"operation": operation, "userInfo": user}), object, old }
    }

    /// Of the request.
    fn asks(self, pointer: &str, value: Value) -> Self {
        Self { request: set(self.request, pointer, value), ..self }
    }

    /// Of the object as it would be.
    fn writes(self, pointer: &str, value: Value) -> Self {
        Self { object: set(self.object, pointer, value), ..self }
    }

    /// The validations that do not hold, by their place.
    fn refusals(&self, policy: &Value) -> Vec<usize> {
        let list = |name: &str| policy["spec"][name].as_array().cloned().unwrap_or_default();
        let mut variables = json!({});
        for one in list("variables") {
            let value = self.evaluate(&one, &variables).json().unwrap();
            variables[one["name"].as_str().unwrap()] = value;
        }
        let holds = |one: &Value| match self.evaluate(one, &variables) {
            Evaluated::Bool(holds) => holds,
            other => panic!("{} is {other:?}", one["expression"]),
        };
        if !list("matchConditions").iter().all(holds) {
            return Vec::new();
        }
        let validations = list("validations");
        let refused = validations.iter().enumerate().filter(|(_, one)| !holds(one));
        refused.map(|(place, _)| place).collect()
    }

    fn evaluate(&self, one: &Value, variables: &Value) -> Evaluated {
        let mut context = Context::default();
        let Self { request, object, old } = self;
        let known = [
            ("request", request),
            ("object", object),
            ("oldObject", old),
            ("variables", variables),
        ];
        for (name, value) in known {
            context.add_variable(name, value).unwrap();
        }
        let expression = one["expression"].as_str().unwrap();
        Program::compile(expression).unwrap().execute(&context).unwrap_or_else(|why| {
            panic!("{expression}: {why}");
        })
    }
}

/// Sets what is at `pointer`, or removes it with null. What is above it is there.
fn set(mut at: Value, pointer: &str, value: Value) -> Value {
    let (above, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    let fields = at.pointer_mut(above).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => fields.remove(&name),
        value => fields.insert(name, value),
    };
    at
}

/// Each row: what is asked, and the validations that refuse it.
fn hold(component: &str, table: &[(&str, Asked, &[usize])]) {
    let policy = policy(component);
    let mut only_reasons = BTreeSet::new();
    for (what, asked, want) in table {
        assert_eq!(asked.refusals(&policy), *want, "{component}: {what}");
        if let [only] = want {
            only_reasons.insert(*only);
        }
    }
    let n = policy["spec"]["validations"].as_array().unwrap().len();
    assert_eq!(only_reasons, (0..n).collect(), "{component}: each validation is needed");
}

const USER: &str = "/userInfo/username";
const NODE: &str = "/userInfo/extra/authentication.kubernetes.io~1node-name";

#[test]
fn admission_holds_agents_to_their_node() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let old = json!({
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "spec": {"taints": [taint("dedicated")]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [condition("Ready", "True")]},
    });
    let bare = json!({"metadata": {"name": "n1"}, "spec": {}, "status": {}});
    let node = || Asked::new("UPDATE", old.clone(), old.clone());
    let of_bare = || Asked::new("UPDATE", bare.clone(), bare.clone());
    let status = || node().asks("/subResource", json!("status"));
    let of_images = || {
        let old = set(old.clone(), "/status/images", json!([{"names": ["x"]}]));
        Asked { old, ..status() }
    };
    let ours = condition("SystemCPUContentionPressure", "True");
    let pressed = taint("node.kubernetes.io/cpu-contention-pressure");
    let owner = json!([{"kind": "Pod", "name": "web"}]);
    #[rustfmt::skip]
    let table: &[(&str, Asked, &[usize])] = &[
        ("a condition of isobar's",      status().writes("/status/conditions", json!([condition("Ready", "True"), ours])),   &[]),
        ("the first condition",          of_bare().asks("/subResource", json!("status")).writes("/status/conditions", json!([ours])), &[]),
        ("a taint of isobar's",          node().writes("/spec/taints", json!([taint("dedicated"), pressed])),                &[]),
        ("the first taint",              of_bare().writes("/spec/taints", json!([pressed])),                                 &[]),
        ("another user, all of it",      node().asks(USER, json!("admin")).writes("/metadata/labels", json!({})),            &[]),
        ("the token of no pod",          status().asks("/userInfo/extra", Value::Null),                                      &[0]),
        ("a token without a node",       status().asks(NODE, Value::Null),                                                   &[0]),
        ("an agent of another node",     status().asks(NODE, json!(["n2"])),                                                 &[0]),
        ("another node's taint",         node().asks(NODE, json!(["n2"])).writes("/spec/taints", json!([taint("dedicated"), pressed])), &[0]),
        ("a foreign taint taken away",   node().writes("/spec/taints", Value::Null),                                         &[1]),
        ("a foreign taint set",          node().writes("/spec/taints", json!([taint("dedicated"), taint("other")])),         &[1]),
        ("a taint not quite isobar's",   node().writes("/spec/taints", json!([taint("dedicated"), taint("cpu-contention-pressure-2")])), &[1]),
        ("a cordon",                     node().writes("/spec/unschedulable", json!(true)),                                  &[2]),
        ("a label",                      node().writes("/metadata/labels/zone", json!("b")),                                 &[3]),
        ("a label, with the status",     status().writes("/metadata/labels", json!({"zone": "b"})),                          &[3]),
        ("the first annotation",         of_bare().writes("/metadata/annotations", json!({"a": "b"})),                       &[3]),
        ("a finalizer",                  node().writes("/metadata/finalizers", json!(["x"])),                                &[3]),
        ("an owner",                     node().writes("/metadata/ownerReferences", owner),                                  &[3]),
        ("a foreign condition",          status().writes("/status/conditions", json!([condition("Ready", "False")])),        &[4]),
        ("a foreign condition set",      status().writes("/status/conditions", json!([condition("Ready", "True"), condition("Other", "True")])), &[4]),
        ("no condition left",            status().writes("/status/conditions", Value::Null),                                 &[4]),
        ("capacity",                     status().writes("/status/capacity/cpu", json!("64")),                               &[5]),
        ("allocatable",                  status().writes("/status/allocatable", json!({"cpu": "64"})),                       &[5]),
        ("an address",                   status().writes("/status/addresses", json!([{"type": "InternalIP"}])),              &[5]),
        ("the phase",                    status().writes("/status/phase", json!("Terminated")),                              &[6]),
        ("the kubelet's port",           status().writes("/status/daemonEndpoints", json!({"kubeletEndpoint": {"Port": 22}})), &[6]),
        ("what the node is",             status().writes("/status/nodeInfo", json!({"kernelVersion": "1.0"})),               &[6]),
        ("images",                       status().writes("/status/images", json!([{"names": ["x"]}])),                       &[6]),
        ("volumes in use",               status().writes("/status/volumesInUse", json!(["v"])),                              &[6]),
        ("volumes attached",             status().writes("/status/volumesAttached", json!([{"name": "v"}])),                 &[6]),
        ("the kubelet's configuration",  status().writes("/status/config", json!({"error": "x"})),                           &[6]),
        ("runtime handlers",             status().writes("/status/runtimeHandlers", json!([{"name": "x"}])),                 &[6]),
        ("features",                     status().writes("/status/features", json!({"supplementalGroupsPolicy": true})),     &[6]),
        ("no images left",               of_images(),                                                                       &[6]),
        ("declared features",            status().writes("/status/declaredFeatures", json!(["X"])),                          &[6]),
    ];
    hold("admission", table);
}

#[test]
fn admission_wants_evictions_by_uid() {
    let options = json!({"gracePeriodSeconds": 1, "preconditions": {"uid": "u1"}});
    let body = json!({"metadata": {"name": "web"}, "deleteOptions": options});
    let evict = || Asked::new("CREATE", body.clone(), Value::Null);
    #[rustfmt::skip]
    let table: &[(&str, Asked, &[usize])] = &[
        ("isobar's",                evict(),                                                           &[]),
        ("with the pod's grace",    evict().writes("/deleteOptions/gracePeriodSeconds", Value::Null),  &[]),
        ("kubectl drain's",         evict().asks(USER, json!("admin")).writes("/deleteOptions", Value::Null), &[]),
        ("the token of no pod",     evict().asks("/userInfo/extra", Value::Null),                      &[0]),
        ("a token without a node",  evict().asks(NODE, Value::Null),                                   &[0]),
        ("without options",         evict().writes("/deleteOptions", Value::Null),                     &[1]),
        ("without preconditions",   evict().writes("/deleteOptions/preconditions", Value::Null),       &[1]),
        ("by its name alone",       evict().writes("/deleteOptions/preconditions/uid", Value::Null),   &[1]),
        ("at once",                 evict().writes("/deleteOptions/gracePeriodSeconds", json!(0)),     &[1]),
    ];
    hold("evict", table);
}

#[test]
fn admission_wants_deletions_on_the_own_node() {
    let old = json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let options = json!({"gracePeriodSeconds": 1, "preconditions": {"uid": "u1"}});
    let delete =
        || Asked::new("DELETE", Value::Null, old.clone()).asks("/options", options.clone());
    let update = || Asked::new("UPDATE", old.clone(), old.clone()).asks("/options", json!({}));
    let with =
        |kind: &str| json!([{"type": "Ready", "status": "True"}, {"type": kind, "status": "True"}]);
    let unplaced = Asked { old: set(old.clone(), "/spec/nodeName", Value::Null), ..delete() };
    #[rustfmt::skip]
    let table: &[(&str, Asked, &[usize])] = &[
        ("isobar's deletion",          delete(),                                                        &[]),
        ("isobar's condition",         update().writes("/status/conditions", with("DisruptionTarget")), &[]),
        ("another user's",             delete().asks(USER, json!("admin")).asks("/options", json!({})), &[]),
        ("the token of no pod",        delete().asks("/userInfo/extra", Value::Null),                   &[0]),
        ("a pod of another node",      delete().asks(NODE, json!(["n2"])),                              &[0]),
        ("a status of another node",   update().asks(NODE, json!(["n2"])),                              &[0]),
        ("a pod of no node",           unplaced,                                                        &[0]),
        ("by its name alone",          delete().asks("/options/preconditions", Value::Null),            &[1]),
        ("at once",                    delete().asks("/options/gracePeriodSeconds", json!(0)),          &[1]),
        ("with the pod's grace",       delete().asks("/options/gracePeriodSeconds", Value::Null),       &[1]),
        ("another condition",          update().writes("/status/conditions", with("Other")),            &[2]),
        ("no condition left",          update().writes("/status/conditions", Value::Null),              &[2]),
        ("a label",                    update().writes("/metadata/labels/app", json!("db")),            &[3]),
        ("an annotation",              update().writes("/metadata/annotations", json!({"a": "b"})),     &[3]),
        ("a finalizer",                update().writes("/metadata/finalizers", json!(["x"])),           &[3]),
        ("a phase",                    update().writes("/status/phase", json!("Failed")),               &[3]),
        ("an address",                 update().writes("/status/podIPs", json!([{"ip": "10.0.0.1"}])),  &[3]),
        ("containers",                 update().writes("/status/containerStatuses", json!([{"name": "app"}])), &[3]),
        ("init containers",            update().writes("/status/initContainerStatuses", json!([{"name": "app"}])), &[3]),
    ];
    hold("delete", table);
}
