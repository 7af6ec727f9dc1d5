use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::*;
use crate::agent::actuator::tests::action;
use crate::agent::{Alarms, Observer, Plan, Reading};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{Action, InForce, Phase, StepKind};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Cause, Sample};
use isobar_core::model::settings::Node;
use isobar_core::model::units::Nanos;
use isobar_core::view::suspects::Suspect;
use isobar_core::view::verdict::Resource;

/// Counts how often it was asked and whether it was dropped, which is what detaches a kernel.
struct Counted {
    asked: Arc<AtomicU64>,
    /// Each tick says whom it suspects, once what it decided was handed over.
    suspected: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
    takes: Duration,
    panics: bool,
    cgroup_root: Option<PathBuf>,
    /// Called while the kernel side is being detached.
    leaving: Option<Box<dyn FnOnce() + Send>>,
}

impl Source for Counted {
    fn facts(&self) -> NodeFacts {
        NodeFacts::default()
    }

    fn alarms(&mut self) -> Alarms {
        Alarms::default()
    }

    fn suspect(&mut self, _: Vec<CgroupId>, _: &Sample) {
        self.suspected.fetch_add(1, Ordering::SeqCst);
    }

    fn look_for(&mut self, _: impl Fn(Resource) -> Option<Suspect>) {}

    fn cgroup_root(&self) -> Option<PathBuf> {
        self.cgroup_root.clone()
    }

    fn leave(mut self, _: Duration) -> usize {
        self.leaving.take().into_iter().for_each(|leaving| leaving());
        0
    }

    fn read(&mut self, _: Cause, _: &Node) -> Reading {
        let tick = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        std::thread::sleep(self.takes);
        assert!(!self.panics, "a defect");
        Reading { sample: Sample { tick, ..Sample::default() }, ..Reading::default() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Counted, Arc<AtomicU64>, Arc<AtomicU64>) {
    let (asked, dropped) = (Arc::default(), Arc::default());
    let sampler = Counted {
        asked: Arc::clone(&asked),
        suspected: Arc::default(),
        dropped: Arc::clone(&dropped),
        takes: Duration::ZERO,
        panics: false,
        cgroup_root: None,
        leaving: None,
    };
    (sampler, asked, dropped)
}

/// Below a file no directory can be made: nothing is kept.
fn options(listen: SocketAddr, duration: Option<Duration>) -> Options {
    let orders = Orders::new(Plan::default(), |_| Ok(Plan::default()));
    let (mode, state_dir) = (Mode::Configured, "/dev/null/state".into());
    let listen = Address::Tcp(listen);
    Options { listen, duration, orders, mode, state_dir, cluster: None, survival: None }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn run_ticks_once_a_second_until_its_time_is_up() {
    let (sampler, asked, dropped) = counted();
    let options = options(any_port(), Some(Duration::from_millis(1_300)));
    run(options, || Ok::<_, AgentError>(sampler)).unwrap();
    // The first at once, the second after a second.
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn run_finishes_a_tick_before_it_leaves() {
    #[rustfmt::skip]
    let table = [
        // a tick takes, is finished, the agent is gone within, in seconds
        (1,  1, 1..4),
        (30, 0, 5..9),
    ];
    for (takes, n_finished, within) in table {
        let (mut sampler, asked, _) = counted();
        sampler.takes = Duration::from_secs(takes);
        let suspected = Arc::clone(&sampler.suspected);
        let begun = clock::now().boot;
        let options = options(any_port(), Some(Duration::from_millis(100)));
        run(options, || Ok::<_, AgentError>(sampler)).unwrap();
        let took = clock::now().boot.since(begun).0 / 1_000_000_000;
        assert!(within.contains(&took), "{takes}: {took} s");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{takes}");
        assert_eq!(suspected.load(Ordering::SeqCst), n_finished, "{takes}");
    }
}

#[test]
fn run_gives_port_and_lock_back_before_it_detaches() {
    let (dir, cgroups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // No other test has a port of this address.
    let any = SocketAddr::from(([127, 0, 13, 13], 0));
    let port = TcpListener::bind(any).unwrap().local_addr().unwrap();
    let enforcing = |plan: &mut Plan| plan.settings.relief.enforce.insert(StepKind::Reclaim);
    let bound = {
        let state = dir.path().to_owned();
        move || {
            let mut plan = Plan::default();
            enforcing(&mut plan);
            Authority::new(Mode::Configured, &state).bind(&mut plan.settings).map(|()| plan)
        }
    };
    let held = bound.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let (mut sampler, ..) = counted();
    // Where no step can be taken it would give the lock back at once.
    sampler.cgroup_root = Some(cgroups.path().into());
    sampler.leaving = Some(Box::new(move || {
        // The server's thread ends by itself, a moment after it was asked to.
        let is_free = (0..100).any(|_| {
            let is_free = TcpListener::bind(port).is_ok();
            (!is_free).then(|| std::thread::sleep(Duration::from_millis(50)));
            is_free
        });
        tell.send((is_free, bound().is_ok())).unwrap();
    }));
    let options = options(port, Some(Duration::from_millis(100)));
    let mut options = Options { state_dir: dir.path().into(), ..options };
    enforcing(&mut options.orders.plan);
    let opened = || {
        assert!(TcpListener::bind(port).is_err() && held().is_err(), "it has both");
        Ok::<_, AgentError>(sampler)
    };
    run(options, opened).unwrap();
    assert_eq!(told.recv().unwrap(), (true, true), "the port, the lock");
}

#[test]
fn run_takes_squeezes_back_without_its_tick() {
    for panics in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (root, state) = (dir.path().join("cgroup"), dir.path().join("state"));
        let weight = root.join("busy/cpu.weight");
        fs::create_dir_all(root.join("busy")).unwrap();
        fs::create_dir(&state).unwrap();
        fs::write(&weight, "10").unwrap();
        let cgroup = CgroupId(fs::metadata(root.join("busy")).unwrap().ino());
        let path = CgroupPath("/busy".into());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let mut action = Action { is_enforced: true, ..action(1) };
        (action.target.cgroup, action.target.path) = (Some(cgroup), Some(path.clone()));
        let entry =
            InForce { action, since: Nanos(0), held: None, phase: Phase::Squeezed, largest: None };
        let ledger = json!({ "boot": boot.trim_end(), "actions": [entry], "overrides": [{
            "cgroup": cgroup, "path": path, "file": "cpu.weight", "before": "100", "wrote": "10",
            "actions": [1],
        }]});
        fs::write(state.join("ledger.json"), ledger.to_string()).unwrap();

        let (mut sampler, ..) = counted();
        (sampler.panics, sampler.cgroup_root) = (panics, Some(root));
        sampler.takes = if panics { Duration::ZERO } else { Duration::from_secs(30) };
        let options = options(any_port(), Some(Duration::from_millis(100)));
        let mut options = Options { state_dir: state, ..options };
        options.orders.plan.settings.relief.enforce.insert(StepKind::Squeeze);
        let ended = run(options, || Ok::<_, AgentError>(sampler));
        assert_eq!(ended.is_err(), panics);
        assert_eq!(fs::read_to_string(&weight).unwrap(), "100", "panics: {panics}");
    }
}

#[test]
fn run_reports_a_taken_port_before_it_opens_sources() {
    let holder = TcpListener::bind(any_port()).unwrap();
    let listen = holder.local_addr().unwrap();
    let options = options(listen, None);
    let result = run(options, || -> Result<Counted, AgentError> { panic!("opened") });
    let told = result.unwrap_err().to_string();
    assert!(told.contains("--listen") && told.contains(&listen.to_string()), "{told}");
}

#[test]
fn observe_shows_the_second_sample_and_its_cost() {
    let (sampler, _, dropped) = counted();
    let mut observer = Observer::new(sampler, Plan::default());
    let view = observer.observe();
    assert_eq!(view.snapshot.tick, 2);
    assert!(view.cost.cpu.is_some() && view.cost.resident.is_some(), "{:?}", view.cost);
    drop(observer);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}
