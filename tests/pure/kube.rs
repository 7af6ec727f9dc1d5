//! The agent's client against the stand-in API server: what is written exactly, and what comes of it
//! when the server is slow, refuses, lies or is gone.

mod events;
mod evictions;
mod faults;
mod kubelet;
mod leaving;
mod node;
mod pods;
mod recorded;
mod rights;
mod victims;

use std::fs;
use std::path::Path;
use std::time::Duration;

use isobar::clock;
use isobar::config::kubernetes::{self, Access, Connection, Publish};
use isobar::kube::{About, ApiServer, Note, Wanted};
use isobar_apistub::generate;
use isobar_apistub::{Kubelet, Options, Stub};
use isobar_core::model::condition::{
    Condition, ConditionName, Measure, Phase, Resource, ScopeName, Status,
};
use isobar_core::model::decision::Taint;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::{Deletion, TaintEffect};
use isobar_core::model::units::{Nanos, Percent};
use serde_json::Value;
use tempfile::TempDir;

/// What is waited for comes within this time, or never.
const SOON: Duration = Duration::from_secs(20);
const CPU: &str = "SystemCPUContentionPressure";

/// So many seconds later, or earlier.
fn later(Moment { boot, wall }: Moment, seconds: i64) -> Moment {
    let by = Nanos(seconds.unsigned_abs() * Nanos::SECOND.0);
    let moved = |at: Nanos| if seconds < 0 { at.since(by) } else { at.plus(by) };
    Moment { boot: moved(boot), wall: moved(wall) }
}

/// An event about the node: that pressure on its CPUs was high.
fn high(at: Moment) -> Note {
    Note {
        at,
        about: About::Node,
        reason: "PressureHigh".into(),
        text: "high".into(),
        is_warning: false,
        action: "judge".into(),
        annotations: [].into(),
        subject: CPU.into(),
    }
}
const TAINT: &str = "node.kubernetes.io/cpu-contention-pressure";

/// An API server with a node and a pod, and a client of it.
struct Bed {
    stub: Stub,
    api: ApiServer,
    dir: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// `prepare` is called before the client begins.
    fn with(prepare: impl FnOnce(&Stub)) -> Self {
        Self::that(Some(Deletion::Never), prepare)
    }

    /// The same with an agent that evicts nobody.
    fn observing(prepare: impl FnOnce(&Stub)) -> Self {
        Self::that(None, prepare)
    }

    fn that(evictions: Option<Deletion>, prepare: impl FnOnce(&Stub)) -> Self {
        let options = Options { kubelet: Kubelet::WhenConfirmed, ..Options::default() };
        let stub = Stub::start(&options).unwrap();
        stub.put(generate::node("n1")).unwrap();
        stub.put(generate::pod("n1", "shop", "web")).unwrap();
        prepare(&stub);
        let dir = tempfile::tempdir().unwrap();
        let api = agent(&stub, dir.path(), evictions);
        Self { stub, api, dir }
    }

    /// The agent is killed, and another one begins.
    fn restarted(self) -> Self {
        let Self { stub, api, dir } = self;
        drop(api);
        let api = agent(&stub, dir.path(), Some(Deletion::Never));
        Self { stub, api, dir }
    }

    /// Publishes a condition and its taint until `is_there`, as the agent does in each tick.
    fn publish_until(&self, status: Status, is_there: impl Fn(&Value) -> bool) {
        eventually("the node's object is as it should be", || {
            self.api.publish(wanted(status));
            is_there(&self.node())
        });
    }

    fn node(&self) -> Value {
        self.stub.get("nodes", "", "n1").unwrap()
    }

    /// The requests so far of a verb on a resource or subresource.
    fn bodies(&self, verb: &str, resource: &str, subresource: &str) -> Vec<Value> {
        let seen = self.stub.seen();
        let its = seen.into_iter().filter(|seen| {
            (&*seen.call.verb, &*seen.call.resource, &*seen.call.subresource)
                == (verb, resource, subresource)
        });
        its.map(|seen| seen.call.body.clone()).collect()
    }

    fn capability(&self, name: &str) -> Option<String> {
        let all = self.api.capabilities();
        all.into_iter().find(|one| one.name == name).map(|one| one.detail)
    }
}

fn agent(stub: &Stub, dir: &Path, evictions: Option<Deletion>) -> ApiServer {
    let file = dir.join("kubeconfig");
    fs::write(&file, kubeconfig(&stub.url())).unwrap();
    let access = Access {
        connection: Connection::Kubeconfig(file),
        kubelet: Some(kubernetes::Kubelet {
            url: stub.url(),
            certificate: dir.join("kubelet.crt"),
        }),
        node: "n1".into(),
        reporter: "isobar-x".into(),
    };
    ApiServer::begin(access, evictions).unwrap()
}

fn kubeconfig(url: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn wanted(status: Status) -> Wanted {
    let name = ConditionName { scope: ScopeName::System, resource: Resource::Cpu };
    let holds = status == Status::True;
    let condition = Condition {
        name,
        kind: CPU.into(),
        status,
        phase: if holds { Phase::Contended } else { Phase::Calm },
        measure: Measure::Contention,
        threshold: Percent(50_00),
        avg10: Some(Percent(72_00)),
        avg60: Some(Percent(61_50)),
        seen: None,
        since: Moment::default(),
        judged: None,
        why: None,
    };
    let taint = Taint { key: TAINT.into(), effect: TaintEffect::NoSchedule, because: vec![name] };
    Wanted {
        publish: Some(Publish { taints: true, ..Publish::default() }),
        conditions: vec![condition],
        taints: if holds { vec![taint] } else { Vec::new() },
        taint_keys: [TAINT.into()].into(),
        former_keys: [].into(),
        is_last: false,
    }
}

/// Status and reason of the condition.
fn condition(node: &Value) -> Option<(String, String)> {
    let all = node["status"]["conditions"].as_array()?;
    let one = all.iter().find(|one| one["type"] == CPU)?;
    Some((one["status"].as_str()?.to_owned(), one["reason"].as_str()?.to_owned()))
}

fn is(node: &Value, status: &str, reason: &str) -> bool {
    condition(node) == Some((status.into(), reason.into()))
}

fn taint_keys(node: &Value) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    list.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect()
}

fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    within(SOON, what, is_so);
}

fn within(time: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::now().boot.plus(Nanos(u64::try_from(time.as_nanos()).unwrap()));
    while !is_so() {
        assert!(clock::now().boot < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
