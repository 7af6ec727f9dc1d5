use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::agent::{Alarms, Observer, Plan, Reading};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Cause, Sample};

/// Counts how often it was asked and whether it was dropped, which is what detaches a kernel.
struct Counted {
    asked: Arc<AtomicU64>,
    /// Each tick says whom it suspects, once what it decided was handed over.
    suspected: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
    takes: Duration,
}

impl Source for Counted {
    fn facts(&self) -> NodeFacts {
        NodeFacts::default()
    }

    fn alarms(&mut self) -> Alarms {
        Alarms::default()
    }

    fn suspect(&mut self, _: Vec<CgroupId>) {
        self.suspected.fetch_add(1, Ordering::SeqCst);
    }

    fn cgroup_root(&self) -> Option<PathBuf> {
        None
    }

    fn read(&mut self, _: Cause) -> Reading {
        let tick = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        std::thread::sleep(self.takes);
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
    let (suspected, takes) = (Arc::default(), Duration::ZERO);
    let sampler =
        Counted { asked: Arc::clone(&asked), suspected, dropped: Arc::clone(&dropped), takes };
    (sampler, asked, dropped)
}

/// Observing, so the directory is never made.
fn options(listen: SocketAddr, duration: Option<Duration>) -> Options {
    let orders = Orders::new(Plan::default(), || Ok(Plan::default()));
    let (mode, state_dir) = (Mode::Configured, "/nowhere".into());
    Options { listen, duration, orders, mode, state_dir, survival: None }
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
fn run_reports_a_taken_port_before_it_opens_sources() {
    let holder = std::net::TcpListener::bind(any_port()).unwrap();
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
