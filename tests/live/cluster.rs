//! The built agent as in a pod: TLS to the API server by the service account's files, which rotate.

use std::collections::BTreeMap;
use std::fs;
use std::thread::{self, sleep};
use std::time::Duration;

use crate::host::{Agent, Group, alone, last_cpu};
use isobar::clock;
use isobar_apistub::{Authority, Effect, Fault, Options, Stub, generate};
use isobar_core::model::units::Nanos;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The client reads token and certificate anew once a minute.
const ROTATED: u64 = 100;

fn eventually(what: &str, agent: &Agent, mut is_so: impl FnMut() -> bool) {
    let end = clock::now().boot.plus(Nanos(ROTATED * Nanos::SECOND.0));
    while !is_so() {
        assert!(clock::now().boot < end, "never: {what}: {}", agent.stderr());
        sleep(Duration::from_millis(200));
    }
}

/// How one part of the client works.
fn detail(agent: &Agent, name: &str) -> String {
    let text = agent.get("/api/v1/capabilities").unwrap_or_default();
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    let all = document["capabilities"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| one["name"] == name);
    found.map(|one| one["detail"].to_string()).unwrap_or_default()
}

/// An API server with the node n1, and the directory of an account that it knows.
fn cluster() -> (Stub, TempDir) {
    let stub = Stub::start(&Options::default()).unwrap();
    stub.put(generate::node("n1")).unwrap();
    let (authority, account) = (Authority::new("cluster").unwrap(), tempfile::tempdir().unwrap());
    authority.write_account(account.path(), "token").unwrap();
    stub.serve_as(&authority).unwrap();
    (stub, account)
}

/// A kubelet to which the cluster gave no certificate is known by the one that it made for itself.
#[test]
fn cluster_kubelet_proves_who_it_is() {
    let (api, kubelet) = (Options::default(), Options::default());
    let (api, kubelet) = (Stub::start(&api).unwrap(), Stub::start(&kubelet).unwrap());
    api.put(generate::node("n1")).unwrap();
    let (of_cluster, own) = (Authority::new("cluster").unwrap(), Authority::new("own").unwrap());
    let account = tempfile::tempdir().unwrap();
    of_cluster.write_account(account.path(), "token").unwrap();
    api.serve_as(&of_cluster).unwrap();
    kubelet.serve_as(&own).unwrap();
    kubelet.accept_tokens(&["token"]);
    let summary = include_str!("../data/kubernetes/stats-summary.json");
    kubelet.kubelet_says("/stats/summary", serde_json::from_str(summary).unwrap());
    let configz = r#"{"kubeletconfig": {"maxPods": 42}}"#;
    kubelet.kubelet_says("/configz", serde_json::from_str(configz).unwrap());

    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("monitor.yaml");
    let text = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: ";
    fs::write(&config, format!("{text}{}\n", root.path().display())).unwrap();
    let config = format!("--config={}", config.display());
    let arguments = ["--probes=none", "--kubelet", &kubelet.url(), &config];
    let Some(agent) = Agent::start_in_pod(account.path(), api.address(), &arguments) else {
        return;
    };
    eventually("a kubelet that could be anybody is not talked to", &agent, || {
        detail(&agent, "kubelet").contains("cannot reach the kubelet")
    });
    assert!(kubelet.seen().is_empty(), "it has not even seen the token");

    fs::create_dir(root.path().join("pki")).unwrap();
    fs::write(root.path().join("pki/kubelet.crt"), own.pem()).unwrap();
    eventually("disk use is known", &agent, || detail(&agent, "kubelet").contains("disk use of"));
    eventually("its configuration is used", &agent, || {
        detail(&agent, "kubelet configuration").contains("used where isobar's own configuration")
    });
    let log = agent.stderr();
    assert!(!log.contains("kube_client"), "{log}");
    assert!(log.contains("by the kubelet's /configz: maxPods, podsPerCore"), "{log}");
    drop(agent);
}

/// What the agent judges by.
fn in_force(agent: &Agent, pointer: &str) -> Value {
    let text = agent.get("/api/v1/settings").unwrap_or_default();
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    document["settings"].pointer(pointer).cloned().unwrap_or_default()
}

#[test]
fn cluster_kubelets_configuration_is_taken_up_while_the_agent_runs() {
    let (stub, account) = cluster();
    let says =
        |path: &str, text: &str| stub.kubelet_says(path, serde_json::from_str(text).unwrap());
    says("/stats/summary", include_str!("../data/kubernetes/stats-summary.json"));
    let answer = include_str!("../data/kubernetes/configz.json");
    says("/configz", answer);
    stub.add_fault(Fault::new("get", "/configz", Effect::Hang));

    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("monitor.yaml");
    let text = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\npodPidsLimit: 99\n\
                kubeletConfig: gone.yaml\n";
    fs::write(&config, text).unwrap();
    let config = format!("--config={}", config.display());
    let arguments = ["--probes=none", "--kubelet", &stub.url(), &config];
    let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
        return;
    };
    let told = || detail(&agent, "kubelet configuration");
    let gap = "the file that kubeletConfig names is not there, and the kubelet has not told its";
    assert!(told().contains(gap), "{}", told());
    assert!(agent.stderr().contains("the defaults are used until the kubelet has answered"));
    let slowest = slowest_tick(&agent, 12);
    assert!(slowest < 2 * Nanos::SECOND.0, "{slowest} ns between two ticks");
    eventually("that it hangs is told", &agent, || told().contains("not answered within 10 s"));
    assert_eq!(in_force(&agent, "/node/maxPods"), 110);

    let restart = |answer: &str| {
        says("/configz", answer);
        stub.clear_faults();
        // Its connections end with it, and it does not tell of disks at first.
        let late = Effect::Status { code: 500, retry_after_seconds: None };
        stub.add_fault(Fault::new("get", "/stats/summary", late).times(1));
        stub.cut_connections();
    };
    restart(answer);
    eventually("it is taken up", &agent, || in_force(&agent, "/node/maxPods") == 60);
    assert_eq!(in_force(&agent, "/node/kubeReserved/memory"), "301Mi");
    assert_eq!(in_force(&agent, "/node/podPidsLimit"), 99, "isobar's own file has this key");
    let log = agent.stderr();
    assert!(log.contains("by the kubelet's /configz: kubeReserved"), "{log}");
    assert!(log.contains("the kubelet runs with other values of podPidsLimit"), "{log}");
    assert!(told().contains("other values of podPidsLimit"), "{}", told());

    restart(&answer.replace("\"cgroupDriver\"", "\"cgroupRoot\":\"/kubelet\",\"cgroupDriver\""));
    eventually("a new answer, too", &agent, || in_force(&agent, "/node/cgroupRoot") == "/kubelet");
    agent.hang_up();
    eventually("SIGHUP keeps it", &agent, || in_force(&agent, "/generation") == 3);
    assert_eq!(in_force(&agent, "/node/cgroupRoot"), "/kubelet");

    stub.add_fault(Fault::new("get", "*", Effect::Status { code: 403, retry_after_seconds: None }));
    eventually("a gap changes nothing", &agent, || told().contains("its last answer is used"));
    assert_eq!(in_force(&agent, "/node/cgroupRoot"), "/kubelet");
    drop(agent);
}

/// With a server that hangs from the beginning, and with one that hangs once all is well.
#[test]
fn cluster_ticks_go_on_while_the_api_server_hangs() {
    #[rustfmt::skip]
    let table = [
        // hangs from the beginning, what the agent says of it
        (true,  "has not answered within 30 s; by the names of their cgroups alone"),
        (false, "the last known 1 pods are used"),
    ];
    // Both at once: each waits for more than half a minute.
    thread::scope(|scope| {
        for (is_hung, words) in table {
            scope.spawn(move || ticks_go_on(is_hung, words));
        }
    });
}

fn ticks_go_on(is_hung: bool, words: &str) {
    let hang = || Fault::new("*", "*", Effect::Hang);
    let (stub, account) = cluster();
    stub.put(generate::pod("n1", "shop", "web")).unwrap();
    if is_hung {
        stub.add_fault(hang());
    }
    let arguments = ["--probes", "none"];
    let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
        return;
    };
    if !is_hung {
        eventually("the pod is listed", &agent, || detail(&agent, "pods").contains("1 pods"));
        stub.add_fault(hang());
        stub.cut_connections();
    }
    let slowest = slowest_tick(&agent, 40);
    assert!(slowest < 2 * Nanos::SECOND.0, "{is_hung}: {slowest} ns between two ticks");
    let text = agent.get("/api/v1/capabilities").unwrap();
    assert!(text.contains(words), "{is_hung}: {text}");
    stub.clear_faults();
    stub.cut_connections();
    eventually("the pods are known again", &agent, || {
        detail(&agent, "pods").contains("1 pods by the API server")
    });
}

/// What is decided in the first tick knows names and rights, unless the server lets it wait.
#[test]
fn cluster_is_asked_before_the_first_tick() {
    #[rustfmt::skip]
    let table = [
        // what becomes of the list of pods, what the agent can do as it starts
        (Effect::Latency { millis: 700 }, "mode=\"enforcing evict\""),
        (Effect::Hang,                    "not possible here: evict"),
    ];
    let configs = tempfile::tempdir().unwrap();
    let config = configs.path().join("monitor.yaml");
    let text = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nevictionHard: {}\n\
                evictionPressure: []\nrelief: {steps: [evict], enforce: [evict]}\n";
    fs::write(&config, text).unwrap();
    let config = format!("--config={}", config.display());
    for (effect, words) in table {
        let (stub, account) = cluster();
        stub.add_fault(Fault::new("list", "/api/v1/pods", effect));
        let arguments = ["--probes=none", &config];
        let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
            return;
        };
        let log = agent.stderr();
        let started = log.lines().find(|line| line.contains("started; the page")).unwrap();
        assert!(started.contains(words), "{log}");
    }
}

/// The agent before took its taint back, and left what it had judged.
#[test]
fn cluster_restarted_agent_sets_its_taint_again() {
    let _alone = alone();
    let (stub, account) = cluster();
    let dir = tempfile::tempdir().unwrap();
    let (config, state) = (dir.path().join("monitor.yaml"), dir.path().join("state"));
    let text = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nevictionHard: {}\n\
                evictionPressure: []\nrelief: {steps: []}\nkubernetes: {taints: true}\n\
                conditions: {system: {cpu: {measure: raw, threshold: 0.01%}}}\n";
    fs::write(&config, text).unwrap();
    let (config, state) = (config.display().to_string(), state.display().to_string());
    let arguments = ["--probes=none", "--config", &config, "--state-dir", &state];
    let start = || Agent::start_in_pod(account.path(), stub.address(), &arguments);
    let is_tainted = || {
        let node = stub.get("nodes", "", "n1").unwrap();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|one| one["key"] == "node.kubernetes.io/cpu-contention-pressure")
    };
    let Some(mut busy) = Group::make("taint") else { return };
    // One waits while the other runs.
    for _ in 0..2 {
        busy.spin(last_cpu());
    }
    let Some(mut first) = start() else { return };
    eventually("the node is tainted", &first, is_tainted);
    assert_eq!((first.stop().code(), is_tainted()), (Some(0), false), "{}", first.stderr());
    let Some(second) = start() else { return };
    eventually("it is tainted again", &second, is_tainted);
    let tick = second.snapshot()["tick"].as_u64().unwrap();
    assert!(tick < 40, "only in tick {tick}: {}", second.stderr());
}

/// The longest time between two of the next `n` ticks, in nanoseconds.
fn slowest_tick(agent: &Agent, n: usize) -> u64 {
    let at = |snapshot: &Value| snapshot["at"]["boot"].as_u64().unwrap();
    let mut last = agent.snapshot();
    let mut slowest = 0;
    for _ in 0..n {
        let next = agent.next(&last);
        slowest = slowest.max(at(&next) - at(&last));
        last = next;
    }
    slowest
}

#[test]
fn cluster_account_of_a_pod_rotates() {
    let stub = Stub::start(&Options::default()).unwrap();
    stub.put(generate::node("n1")).unwrap();
    stub.put(generate::pod("n1", "shop", "web")).unwrap();
    let (old, new) = (Authority::new("old").unwrap(), Authority::new("new").unwrap());
    let account = tempfile::tempdir().unwrap();
    old.write_account(account.path(), "old-token").unwrap();
    stub.serve_as(&old).unwrap();
    stub.accept_tokens(&["old-token"]);

    let arguments = ["--probes", "none"];
    let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
        return;
    };
    eventually("the pod is listed", &agent, || detail(&agent, "pods").contains("1 pods"));
    eventually("conditions are published", &agent, || {
        detail(&agent, "node conditions").contains("6 are published")
    });

    new.write_account(account.path(), "new-token").unwrap();
    stub.serve_as(&new).unwrap();
    stub.accept_tokens(&["new-token"]);
    stub.cut_connections();
    stub.put(generate::pod("n1", "shop", "db")).unwrap();
    eventually("after the rotation the watch goes on", &agent, || {
        detail(&agent, "pods").contains("2 pods by the API server")
    });
    let refused = stub.seen().iter().filter(|seen| seen.status == Some(401)).count();
    assert!(refused < 60, "{refused} requests with the old token: it is not hammered");
    drop(agent);
}

/// In one list, as a server answers from its cache, and more than are taken.
#[test]
fn cluster_of_thousands_of_pods_costs_no_tick() {
    let (stub, account) = cluster();
    for pod in generate::pods("n1", 5_001) {
        stub.put(pod).unwrap();
    }
    let list = || Fault::new("list", "/api/v1/pods", Effect::Hang);
    stub.add_fault(list());
    let arguments = ["--probes", "none"];
    let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
        return;
    };
    let slowest = slowest_tick(&agent, 5);
    let before = peak_memory(&agent);
    stub.clear_faults();
    stub.cut_connections();
    let words = "5000 pods by the API server; 1 are left out, see the log";
    let slowest = slowest.max(slowest_tick(&agent, 30));
    eventually("they are listed", &agent, || detail(&agent, "pods").contains(words));
    assert!(slowest < 2 * Nanos::SECOND.0, "{slowest} ns between two ticks");
    let queries: Vec<_> = stub.seen().iter().map(|seen| seen.call.query.clone()).collect();
    let is_from_cache = |query: &BTreeMap<String, String>| {
        query.get("resourceVersion").is_some_and(|version| version == "0")
    };
    assert!(queries.iter().any(is_from_cache), "no list of pods from the server's cache");
    assert!(
        !queries.iter().any(|query| query.contains_key("continue")),
        "pages are read from etcd"
    );
    let grown = peak_memory(&agent) - before;
    println!("{} KiB more than without pods", grown >> 10);
    assert!(grown < 48 << 20, "{} KiB more than without pods", grown >> 10);
}

/// Who may write pods writes most of their text.
#[test]
fn cluster_of_huge_pods_takes_no_more_memory_than_it_may() {
    let (stub, account) = cluster();
    let entries = |n: usize| (0..n).map(|n| json!({"name": format!("N{n}"), "value": ""}));
    for (n, part) in
        ["env", "envFrom", "command", "volumes", "tolerations"].iter().cycle().take(15).enumerate()
    {
        let mut pod = generate::pod("n1", "shop", &format!("huge{n}"));
        let at = if n % 5 < 3 { "/spec/containers/0" } else { "/spec" };
        pod.pointer_mut(at).unwrap()[part] = entries(60_000).collect();
        stub.put(pod).unwrap();
    }
    stub.add_fault(Fault::new("list", "/api/v1/pods", Effect::Hang));
    let arguments = ["--probes", "none"];
    let Some(agent) = Agent::start_in_pod(account.path(), stub.address(), &arguments) else {
        return;
    };
    let slowest = slowest_tick(&agent, 5);
    let before = peak_memory(&agent);
    stub.clear_faults();
    stub.cut_connections();
    let slowest = slowest.max(slowest_tick(&agent, 30));
    eventually("they are listed", &agent, || {
        detail(&agent, "pods").contains("15 pods by the API server")
    });
    assert!(slowest < 2 * Nanos::SECOND.0, "{slowest} ns between two ticks");
    let grown = peak_memory(&agent) - before;
    println!("{} KiB more than without pods", grown >> 10);
    assert!(grown < 48 << 20, "{} KiB more than without pods", grown >> 10);
}

/// The most that the agent has had resident, in bytes.
fn peak_memory(agent: &Agent) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
