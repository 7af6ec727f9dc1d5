//! The event loop; the only place that knows everyone.
//! Ticks once a second: has the sampler read and the watch judge, publishes the view. Reads its
//! configuration again on SIGHUP, and leaves in good order on SIGTERM, SIGINT or when its time is up.

mod agreement;
mod live;
mod watch;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::clock;
use crate::model::capability::Capability;
use crate::model::cost::KernelCost;
use crate::model::node::NodeFacts;
use crate::model::sample::Sample;
use crate::record::journal::JournalError;
use crate::serve;
use crate::serve::publish::Publisher;
use crate::serve::view::View;

pub use live::{Live, OpenError, SourceOptions};
pub use watch::{Orders, Plan};
use watch::{Seen, Watch};

/// Pressure files must not be read more often: each read throws away stall below a jiffy, for
/// every reader on the node.
const TICK: Duration = Duration::from_secs(1);
/// Where the agent listens, and where `top` and `status` look for it.
pub const LISTEN: &str = "127.0.0.1:9797";
/// A read that hangs (a dying disk below a cgroup's lock) must not hold up the exit for longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads the node. Owns every source: dropping it detaches them.
pub trait Sampler: Send + 'static {
    /// What is true for as long as the node is up.
    fn facts(&self) -> NodeFacts;
    /// Reads everything once.
    fn sample(&mut self) -> Reading;
}

/// What one tick gives.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// What was read.
    pub sample: Sample,
    /// What can be seen and what cannot.
    pub capabilities: Vec<Capability>,
    /// What the kernel side costs.
    pub kernel: KernelCost,
}

/// How to run.
#[derive(Debug)]
pub struct Options {
    /// Where to serve.
    pub listen: SocketAddr,
    /// Leave after this long; `None` runs until a signal.
    pub duration: Option<Duration>,
    /// What to judge by.
    pub orders: Orders,
}

/// Why the agent could not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Somebody holds the port; who, the kernel does not tell.
    #[error("{0} is taken by another process; choose another address with --listen")]
    Taken(SocketAddr),
    /// A port below 1024 without the capability.
    #[error("not permitted to listen on {0}: missing CAP_NET_BIND_SERVICE")]
    Denied(SocketAddr),
    /// Any other failure to listen: no such address, as a rule.
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The runtime could not be made, or signals could not be caught.
    #[error("cannot start the event loop")]
    Start(#[source] io::Error),
    /// A recording was asked for and cannot be made.
    #[error(transparent)]
    Record(JournalError),
    /// The server ended by itself.
    #[error("the HTTP server failed")]
    Serve(#[source] io::Error),
    /// The sampler panicked: a defect.
    #[error("the sampler failed")]
    Sampler(#[source] JoinError),
}

/// Runs until a signal comes or the time is up. `open` is called once the port is ours, so that a
/// second agent attaches nothing to the kernel before it finds out that it is one too many.
///
/// # Errors
/// See [`AgentError`]; what `open` fails with is passed on.
pub fn run<S, E>(options: Options, open: impl FnOnce() -> Result<S, E>) -> Result<(), E>
where
    S: Sampler,
    E: From<AgentError>,
{
    // One thread runs everything but the sampler: the work is a few milliseconds a second.
    let runtime =
        runtime::Builder::new_current_thread().enable_all().build().map_err(AgentError::Start)?;
    let result = runtime.block_on(async {
        let leave = Leave::catch().map_err(AgentError::Start)?;
        let listener = listen(options.listen).await?;
        let sampler = open()?;
        live_on(sampler, listener, options, leave).await.map_err(E::from)
    });
    runtime.shutdown_timeout(PATIENCE);
    result
}

async fn live_on<S: Sampler>(
    sampler: S,
    listener: TcpListener,
    options: Options,
    leave: Leave,
) -> Result<(), AgentError> {
    let hangup = signal(SignalKind::hangup()).map_err(AgentError::Start)?;
    let (publisher, latest) = Publisher::new(sampler.facts(), clock::now());
    let Orders { plan, again, record } = options.orders;
    let mut watch = Watch::new(sampler, plan);
    if let Some((path, bounds)) = record {
        watch.record(&path, bounds).map_err(AgentError::Record)?;
    }
    let server = axum::serve(listener, serve::router(latest));
    tracing::info!(listen = %options.listen, "observing; the page is at http://{}/", options.listen);
    // Whichever ends first drops the others: open streams would hold a graceful shutdown up for
    // ever, and a reader loses nothing that it would not ask for again.
    tokio::select! {
        ended = server.into_future() => ended.map_err(AgentError::Serve),
        ended = tick(watch, publisher, hangup, again) => ended,
        why = leave.asked() => { tracing::info!("leaving: {why}"); Ok(()) }
        () = timer(options.duration) => Ok(()),
    }
}

/// Samples and judges for ever.
async fn tick<S: Sampler>(
    mut watch: Watch<S>,
    mut publisher: Publisher,
    mut hangup: Signal,
    mut again: watch::Again,
) -> Result<(), AgentError> {
    let mut ticks = interval(TICK);
    // After a stall (or a suspended laptop) go on from now: a burst of ticks would read pressure
    // files more than once a second.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Some(()) = hangup.recv() => {
                watch.reload(again());
                continue;
            }
        }
        // On a thread of its own: a read can hang, and then /livez has to say so.
        let (back, seen) = spawn_blocking(move || {
            let seen = watch.look();
            (watch, seen)
        })
        .await
        .map_err(AgentError::Sampler)?;
        watch = back;
        let Seen { step, capabilities, cost } = seen;
        publisher.publish(step, capabilities, cost);
    }
}

/// Samples without an agent: for `top` and `status`. It serves nothing, and dropping it leaves
/// nothing attached.
#[derive(Debug)]
pub struct Observer<S> {
    watch: Watch<S>,
    publisher: Publisher,
}

impl<S: Sampler> Observer<S> {
    /// Takes the first sample, which the first observation is compared with.
    pub fn new(sampler: S, plan: Plan) -> Self {
        let (publisher, _) = Publisher::new(sampler.facts(), clock::now());
        let mut watch = Watch::new(sampler, plan);
        watch.look();
        Self { watch, publisher }
    }

    /// Waits for a tick, and shows what happened in it.
    pub fn observe(&mut self) -> View {
        std::thread::sleep(TICK);
        let Seen { step, capabilities, cost } = self.watch.look();
        self.publisher.view(step, capabilities, cost)
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, AgentError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => AgentError::Taken(address),
        io::ErrorKind::PermissionDenied => AgentError::Denied(address),
        _ => AgentError::Listen { address, source },
    })
}

async fn timer(duration: Option<Duration>) {
    match duration.and_then(|duration| Instant::now().checked_add(duration)) {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

/// The signals that ask the agent to leave, caught from before anything is attached.
struct Leave {
    terminate: Signal,
    interrupt: Signal,
}

impl Leave {
    fn catch() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests;
