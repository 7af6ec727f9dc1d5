//! The event loop; the only place that knows everyone.
//! Opens everything, runs its rounds beside the server, and leaves in good order on SIGTERM, SIGINT
//! or when its time is up.

mod acting;
mod agreement;
mod likely;
pub mod limits;
mod live;
mod mode;
mod notify;
mod pace;
mod rounds;
mod state;
mod survive;
mod watch;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};

use crate::clock;
use crate::record::journal::JournalError;
use crate::serve;
use crate::serve::publish::Publisher;
use crate::serve::view::View;
use isobar_core::model::capability::Capability;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::cost::KernelCost;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Cause, Sample};

use self::acting::Heard;
pub use self::live::{Live, OpenError, SourceOptions};
pub use self::mode::Mode;
use self::mode::Warrant;
pub use self::pace::Alarms;
use self::pace::TICK;
use self::rounds::Rounds;
use self::state::State;
pub use self::state::StateError;
pub use self::survive::Survival;
pub use self::watch::{Orders, Plan};
use self::watch::{Seen, Watch};

/// What is remembered beyond the agent's life lies here; gone when the node restarts, and so is
/// what it is about.
pub const STATE_DIR: &str = "/run/isobar";
/// Where the agent listens, and where `top` and `status` look for it.
pub const LISTEN: &str = "127.0.0.1:9797";
/// A read that hangs (a dying disk below a cgroup's lock) must not hold up the exit for longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads the node. Owns every source: dropping it detaches them.
pub trait Sampler: Send + 'static {
    /// What is true for as long as the node is up.
    fn facts(&self) -> NodeFacts;
    /// Reads everything once, because of `cause`.
    fn sample(&mut self, cause: Cause) -> Reading;
    /// What calls for a sooner tick; asked for once, before the first.
    fn alarms(&mut self) -> Alarms;
    /// Names who may be to blame, so that it is watched more closely until the next call.
    fn suspect(&mut self, suspects: Vec<CgroupId>);
    /// Where what it reads can be acted upon: the top of the cgroup v2 tree; `None` for nowhere.
    fn cgroup_root(&self) -> Option<PathBuf>;
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
    /// What may be done on the node.
    pub mode: Mode,
    /// Where to remember what is done: see [`STATE_DIR`].
    pub state_dir: PathBuf,
    /// What was had to survive a node without memory; `None` if nothing was asked for.
    pub survival: Option<Survival>,
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
    /// Another agent acts on this node.
    #[error(transparent)]
    State(#[from] StateError),
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

/// Runs until a signal comes or the time is up. `open` is called once the port is ours, and nobody
/// else enforces if we do, so that a second agent attaches nothing to the kernel before it finds
/// out that it is one too many.
///
/// # Errors
/// See [`AgentError`]; what `open` fails with is passed on.
pub fn run<S, E>(mut options: Options, open: impl FnOnce() -> Result<S, E>) -> Result<(), E>
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
        let mut warrant = Warrant::new(options.mode, State::at(&options.state_dir));
        warrant.bind(&mut options.orders.plan.settings).map_err(AgentError::State)?;
        let sampler = open()?;
        if let Some(survival) = &mut options.survival {
            survival.lock();
        }
        live_on(sampler, listener, warrant, options, leave).await.map_err(E::from)
    });
    runtime.shutdown_timeout(PATIENCE);
    result
}

async fn live_on<S: Sampler>(
    sampler: S,
    listener: TcpListener,
    warrant: Warrant,
    options: Options,
    leave: Leave,
) -> Result<(), AgentError> {
    let Options { listen, duration, orders, survival, .. } = options;
    let (publisher, latest) = Publisher::new(sampler.facts(), clock::now());
    let (mut rounds, watch) = Rounds::new(sampler, orders, warrant, survival, publisher)?;
    let server = axum::serve(listener, serve::router(latest));
    tracing::info!(%listen, "{}; the page is at http://{listen}/", watch.words());
    // Whichever ends first drops the others: open streams would hold a graceful shutdown up for
    // ever, and a reader loses nothing that it would not ask for again.
    let over = async {
        tokio::select! {
            ended = server.into_future() => ended.map_err(AgentError::Serve),
            why = leave.asked() => { tracing::info!("leaving: {why}"); Ok(()) }
            () = timer(duration) => Ok(()),
        }
    };
    let ended = rounds.go(watch, over).await;
    rounds.leave();
    ended
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
        let mut watch = Watch::new(sampler, plan, None);
        let mut seen = watch.look(Cause::Timer, Heard::default());
        watch.finish(&mut seen);
        Self { watch, publisher }
    }

    /// Waits for a tick, and shows what happened in it.
    pub fn observe(&mut self) -> View {
        std::thread::sleep(TICK);
        let mut seen = self.watch.look(Cause::Timer, Heard::default());
        self.watch.finish(&mut seen);
        let Seen { step, capabilities, cost, .. } = seen;
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
