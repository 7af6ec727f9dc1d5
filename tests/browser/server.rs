//! A server for the browser: a node that is made up, or one that was recorded.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use isobar::record::incident::shelf::Shelf;
use isobar::record::journal::Ring;
use isobar::record::reader::{Entry, Recording};
use isobar::serve::film::Film;
use isobar::serve::publish::{Latest, Publisher, channel};
use isobar_core::model::decision::Decision;
use isobar_core::model::limit::NodeResources;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Step};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::interval;

use crate::made_up;

/// A node that ticks five times a second. Ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Publishes a tick by its number.
type Tick = Box<dyn FnMut(u64) + Send>;

impl Server {
    /// A made-up node, below `prefix`, as a proxy would have it; at `address`, port 0 for any.
    pub(crate) fn start(address: SocketAddr, prefix: &'static str) -> Self {
        let (mut publisher, latest) = made_up::publisher();
        let cpus = made_up::cpus(Some("could not restore state"));
        publisher.note_node((Some(&cpus), Some(&resources())));
        let tick = Box::new(move |tick| made_up::publish(&mut publisher, tick));
        Self::serve(address, prefix, isobar::serve::router(latest), tick)
    }

    /// Another made-up node, by its snapshot of each tick.
    pub(crate) fn of(snapshot: fn(u64) -> Snapshot) -> Self {
        Self::deciding(snapshot, Decision::default())
    }

    /// The same, where a decision was taken.
    pub(crate) fn deciding(snapshot: fn(u64) -> Snapshot, decision: Decision) -> Self {
        let (mut publisher, latest) = made_up::publisher();
        let tick = Box::new(move |tick| {
            let (snapshot, decision) = (snapshot(tick), decision.clone());
            made_up::publish_step(&mut publisher, Step { snapshot, decision, ..Step::default() });
        });
        Self::serve(anywhere(), "", isobar::serve::router(latest), tick)
    }

    /// A node whose pod took what all pods may have, in the tick after isobar would have acted.
    pub(crate) fn recorded() -> Self {
        let (latest, tick) = recorded(&recording(), 1, |_| {});
        Self::serve(anywhere(), "", isobar::serve::router(latest), tick)
    }

    /// A node at the limit of all pods, where work waits for memory and no threshold is met.
    pub(crate) fn short() -> Self {
        let (latest, tick) = recorded(&recording_of("judged-shortage-6.12.isobar"), 1, |_| {});
        Self::serve(anywhere(), "", isobar::serve::router(latest), tick)
    }

    /// The same as [`Self::recorded`], which also goes back in its own recording, with the incidents in a directory.
    pub(crate) fn going_back(prefix: &'static str, incidents: &Path) -> Self {
        Self::knowing(1, prefix, incidents)
    }

    /// The same, by an agent that knows nothing of the ticks before `first` but from its recording.
    pub(crate) fn knowing(first: u64, prefix: &'static str, incidents: &Path) -> Self {
        let shelf = Arc::new(Shelf::in_dir(incidents.join("incidents")));
        let (latest, tick) = recorded(&recording(), first, move |publisher| {
            publisher.show_recording(Some(&Ring::Files(recording())), None);
            publisher.show_incidents(&shelf);
        });
        Self::serve(anywhere(), prefix, isobar::serve::router(latest), tick)
    }

    /// The recording of that node, and the incidents in a directory.
    pub(crate) fn replaying(prefix: &'static str, incidents: &Path) -> Self {
        let shelf = Shelf::in_dir(incidents.join("incidents"));
        let film = Film::open(&recording(), None, Some(shelf.into())).unwrap().unwrap();
        Self::serve(anywhere(), prefix, isobar::serve::replaying(film), Box::new(|_| {}))
    }

    fn serve(address: SocketAddr, prefix: &'static str, router: Router, mut publish: Tick) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let (bound, at) = mpsc::channel();
        let serve = async move {
            let listener = TcpListener::bind(address).await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            let router = match prefix {
                "" => router,
                _ => Router::new().nest_service(prefix, router),
            };
            let mut ticks = interval(Duration::from_millis(200));
            let tick = async {
                for tick in 1.. {
                    ticks.tick().await;
                    publish(tick);
                }
            };
            tokio::select! {
                () = tick => {}
                _ = ended => {}
                result = axum::serve(listener, router).into_future() => result.unwrap(),
            }
        };
        let thread = thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve);
        });
        let address = at.recv().unwrap();
        Self { address, end: Some(end), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ended in good order");
        }
    }
}

/// Memory as the kubelet writes it: in KiB as read, and in bytes as computed.
fn resources() -> NodeResources {
    let memory = |amount: &str| [("memory".into(), amount.parse().unwrap())].into();
    NodeResources {
        capacity: memory("264212084Ki"),
        allocatable: memory("243497856212"),
        ..NodeResources::default()
    }
}

pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A pod takes what all pods may have.
pub(crate) fn recording() -> PathBuf {
    recording_of("judged-leak-6.12.isobar")
}

fn recording_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/recordings").join(name)
}

/// Publishes a recording from tick `first` up to the tick after the first step that would end work, if
/// any, and its last tick again each time, with a publisher that `ready` has seen.
fn recorded(file: &Path, first: u64, ready: impl FnOnce(&mut Publisher)) -> (Latest, Tick) {
    let mut ready = Some(ready);
    let (to, latest) = channel();
    let (mut to, mut engine, mut publisher) = (Some(to), None, None);
    let (mut last, mut has_acted) = (None, false);
    for entry in Recording::open(file).unwrap() {
        match entry.unwrap() {
            Entry::Header(header) => {
                if let Some(to) = to.take() {
                    let mut own = Publisher::new(header.facts.clone(), header.at, to);
                    if let Some(ready) = ready.take() {
                        ready(&mut own);
                    }
                    publisher = Some(own);
                }
                engine = Some(Engine::new(header.settings.clone(), header.standing));
            }
            Entry::Frame(frame) => {
                let (engine, publisher) = (engine.as_mut().unwrap(), publisher.as_mut().unwrap());
                let step = engine.step(frame.sample.clone());
                if step.snapshot.tick >= first {
                    publisher.note(&frame.sample, engine.settings(), &step);
                    publish(publisher, step.clone());
                }
                last = Some(step);
                if has_acted {
                    break;
                }
                let actions = &last.as_ref().unwrap().decision.relief.actions;
                has_acted = actions.iter().any(|action| action.step.is_final());
            }
            Entry::Lost(why) | Entry::Notice(why) | Entry::Other(why) => panic!("{why}"),
        }
    }
    let (mut publisher, last) = (publisher.unwrap(), last.unwrap());
    let again = move |tick| {
        let mut step = last.clone();
        let later = |Nanos(at)| Nanos(at + tick * Nanos::SECOND.0);
        let Moment { boot, wall } = step.snapshot.at;
        step.snapshot.at = Moment { boot: later(boot), wall: later(wall) };
        step.snapshot.tick += tick;
        step.decision.at = step.snapshot.at;
        step.decision.tick = step.snapshot.tick;
        // What happened has happened once.
        step.decision.assessment.events.clear();
        step.decision.relief.events.clear();
        publish(&mut publisher, step);
    };
    (latest, Box::new(again))
}

fn publish(publisher: &mut Publisher, step: Step) {
    publisher.publish(step, made_up::capabilities(), made_up::cost());
}
