//! Opens everything, ticks beside the server until the end, and leaves in good order.

use std::env;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{self, UnixDatagram};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use sd_notify::NotifyState;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};

use super::actuator::Farewell;
use super::authority::{Authority, LockError, Mode};
use super::cluster::Cluster;
use super::log::{self, Log};
use super::pace::Pace;
use super::plan::Orders;
use super::sampler::Source;
use super::survive::Survival;
use super::tick::{FAREWELL, LAST_WORD, Tick};
use crate::clock;
use crate::config::kubernetes::Access;
use crate::kube::LastWord;
use crate::record::journal::JournalError;
use crate::serve;
use crate::serve::address::{Address, Listener, listen_on};
use crate::serve::listen::Server;
use crate::serve::publish::{Publisher, Sender, channel};
use isobar_core::model::decision::Decision;

/// A read that hangs (a dying disk below a cgroup's lock) must not hold up the exit for longer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Programs are detached within so long, or without the agent.
const DETACHED_WITHIN: Duration = Duration::from_secs(2);
/// A tick that has begun may hold up the exit for so long: on a node without memory it takes its
/// time.
const LAST_TICK: Duration = Duration::from_secs(5);

/// The first tick waits so long for the API server to name the pods: one that a shortage meets before
/// would choose among nameless cgroups, and evict nobody.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);
/// Descriptors below which the agent does not start: 128 for connections, as many for everything
/// else.
const DESCRIPTORS: u64 = 256;

/// How to run.
#[derive(Debug)]
pub struct Options {
    pub listen: Address,
    /// Leave after this long; `None` runs until a signal.
    pub duration: Option<Duration>,
    pub orders: Orders,
    pub mode: Mode,
    /// How the API server is reached; `None` on a host without one.
    pub cluster: Option<Access>,
    /// See [`super::STATE_DIR`].
    pub state_dir: PathBuf,
    /// What was had to survive a node without memory; `None` if nothing was asked for.
    pub survival: Option<Survival>,
}

/// Why the agent could not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another process has it; which one, the kernel does not tell.
    #[error("{0} is taken by another process; choose another address with --listen")]
    Taken(Address),
    /// A port below 1024 without the capability.
    #[error("not permitted to listen on {0}: missing CAP_NET_BIND_SERVICE")]
    Denied(SocketAddr),
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Any other failure to listen: no such address, as a rule.
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen { address: Address, source: io::Error },
    /// The limit leaves nothing for connections, or for the files of a cgroup that is to be ended.
    #[error(
        "this process may open {0} files, and the agent needs at least {DESCRIPTORS}: raise \
         LimitNOFILE of its unit, or `ulimit -n`"
    )]
    Descriptors(u64),
    /// The runtime could not be made, or signals could not be caught.
    #[error("cannot start the event loop")]
    Start(#[source] io::Error),
    /// No thread, or a build without the API server's client.
    #[error("cannot talk to the API server")]
    Cluster(#[source] io::Error),
    #[error(transparent)]
    Record(JournalError),
    #[error("the HTTP server failed")]
    Serve(#[source] io::Error),
    /// A tick panicked: a defect.
    #[error("the sampler failed")]
    Sampler(#[source] JoinError),
}

/// Runs until a signal comes or the time is up. `open` is called once the agent has the port, and no
/// other agent enforces if this one does: an agent that is one too many attaches nothing.
///
/// # Errors
/// See [`AgentError`]; what `open` fails with is passed on.
pub fn run<S, E>(mut options: Options, open: impl FnOnce() -> Result<S, E>) -> Result<(), E>
where
    S: Source,
    E: From<AgentError>,
{
    let may_open = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if may_open < DESCRIPTORS {
        return Err(AgentError::Descriptors(may_open).into());
    }
    // One thread runs everything but the ticks and the server: the work is little.
    let runtime =
        runtime::Builder::new_current_thread().enable_all().build().map_err(AgentError::Start)?;
    let result = runtime.block_on(async {
        let leave = Leave::catch().map_err(AgentError::Start)?;
        // Before the eBPF programs are loaded, which may take long: without it the signal ends the process.
        let hangup = signal(SignalKind::hangup()).map_err(AgentError::Start)?;
        let listener = listen(&options.listen)?;
        let mut authority = Authority::new(options.mode, &options.state_dir);
        authority.bind(&mut options.orders.plan.settings).map_err(AgentError::Lock)?;
        // Whoever asks meanwhile is told that there is no sample yet.
        let (to, latest) = channel();
        let server = Server::begin(listener, serve::router(latest)).map_err(AgentError::Serve)?;
        let source = open()?;
        if let Some(survival) = &mut options.survival {
            survival.lock();
        }
        live_on(source, (server, to), authority, options, (leave, hangup)).await.map_err(E::from)
    });
    runtime.shutdown_timeout(PATIENCE);
    result
}

async fn live_on<S: Source>(
    mut source: S,
    (mut server, to): (Server, Sender),
    authority: Authority,
    options: Options,
    (leave, hangup): (Leave, Signal),
) -> Result<(), AgentError> {
    let Options { listen, duration, mut orders, cluster, survival, .. } = options;
    let pace = Pace::new(source.alarms()).map_err(AgentError::Start)?;
    let facts = source.facts();
    let publisher = Publisher::new(facts.clone(), clock::now(), to);
    let plan = std::mem::take(&mut orders.plan);
    let cluster = cluster.map(|access| Cluster::begin(access, &plan.settings.relief));
    let cluster = cluster.transpose().map_err(AgentError::Cluster)?;
    if let Some(cluster) = &cluster {
        cluster.api.first_answers(FIRST_ANSWERS).await;
    }
    let mut tick = Tick::new(source, plan, authority, cluster, survival, publisher)?;
    tick.record(std::mem::take(&mut orders.record)).map_err(AgentError::Record)?;
    log::started(&facts, &tick.words(), &listen);
    // Whichever ends first drops the others: open streams would hold a graceful shutdown up for
    // ever, and a reader loses nothing that it would not ask for again.
    let over = async {
        tokio::select! {
            why = server.failed() => Err(AgentError::Serve(why)),
            why = leave.asked() => { tracing::info!("leaving: {why}"); Ok(()) }
            () = timer(duration) => Ok(()),
        }
    };
    let (ended, source) = tick_until(over, tick, orders, pace, hangup).await;
    drop(server);
    // From now on another agent may have the port, and enforce.
    let n = source.map_or(0, |source| source.leave(DETACHED_WITHIN));
    if n > 0 {
        tracing::info!(
            n,
            "{n} eBPF programs are still being detached, by processes that end by themselves: the \
             kernel waits until every throttled thread has run once"
        );
    }
    ended
}

/// Ticks until `over` has come. A tick that has begun is finished first: what it decides is in a
/// recording, so the actuator has to be given it.
async fn tick_until<S: Source>(
    over: impl Future<Output = Result<(), AgentError>>,
    mut tick: Tick<S>,
    mut orders: Orders,
    mut pace: Pace,
    mut hangup: Signal,
) -> (Result<(), AgentError>, Option<S>) {
    let mut over = pin!(over);
    let mut is_ready = false;
    let ended = loop {
        let cause = tokio::select! {
            biased;
            ended = &mut over => break ended,
            Some(()) = hangup.recv() => {
                let now = clock::monotonic().0 / 1_000;
                notify(&[NotifyState::Reloading, NotifyState::MonotonicUsec(now.into())]);
                is_ready = false;
                tick.reload(&mut orders);
                pace.at_once();
                continue;
            }
            cause = pace.due() => cause,
        };
        // On a thread of its own: a read can hang, and then /livez has to say so.
        let farewell = tick.farewell();
        let mut ticking = pin!(spawn_blocking(move || {
            let decision = tick.run(cause);
            (tick, decision)
        }));
        let ticked = tokio::select! {
            ticked = &mut ticking => ticked,
            ended = &mut over => match timeout(LAST_TICK, ticking).await {
                Ok(Ok((back, _))) => {
                    tick = back;
                    break ended;
                }
                Ok(Err(why)) => Err(why),
                Err(_) => {
                    tracing::error!("leaving in the middle of a tick, which hangs");
                    leave_without_tick(farewell);
                    return (ended, None);
                }
            },
        };
        let (back, decision) = match ticked {
            Ok(ticked) => ticked,
            Err(why) => {
                leave_without_tick(farewell);
                return (Err(AgentError::Sampler(why)), None);
            }
        };
        tick = back;
        pace.saw(cause, &decision);
        if tick.was_out_of_memory() {
            pace.was_right();
        }
        tick.heed_kubelet(&mut orders);
        is_ready |= notify_ticked(&tick, &decision, is_ready);
    };
    notify(&[NotifyState::Stopping]);
    let source = tick.leave();
    (ended, Some(source))
}

/// Takes squeezes, conditions and taints back although the tick that knows of them does not return.
fn leave_without_tick((squeezes, last_word): (Option<Farewell>, Option<LastWord>)) {
    match squeezes.map(|squeezes| squeezes.leave(FAREWELL)) {
        Some(Some(outcomes)) => Log::default().outcomes(&outcomes),
        Some(None) => tracing::error!("squeezes may stay in force: the actuator has not answered"),
        None => {}
    }
    if let Some(last_word) = last_word {
        last_word.say(LAST_WORD);
    }
}

/// The service manager hears of completed ticks alone. Whether it could be told.
fn notify_ticked<S: Source>(tick: &Tick<S>, decision: &Decision, is_ready: bool) -> bool {
    let n_met = decision.assessment.met.len();
    let status = format!("{}; {n_met} thresholds are met", tick.words()).replace('\n', " ");
    let mut states = vec![NotifyState::Watchdog, NotifyState::Status(&status)];
    if !is_ready {
        states.insert(0, NotifyState::Ready);
    }
    notify(&states)
}

/// What cannot be said is left out: `sd_notify::notify` would wait while the manager does not read, and ticks
/// with it. The watchdog draws its own conclusions. Whether it was said.
fn notify(states: &[NotifyState<'_>]) -> bool {
    let Some(manager) = env::var_os("NOTIFY_SOCKET") else { return true };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        let address = match manager.as_bytes().strip_prefix(b"@") {
            Some(name) => net::SocketAddr::from_abstract_name(name)?,
            None => net::SocketAddr::from_pathname(&manager)?,
        };
        socket.send_to_addr(text.as_bytes(), &address)
    });
    sent.inspect_err(|why| tracing::debug!("cannot notify the service manager: {why}")).is_ok()
}

/// Opens an address for a server.
///
/// # Errors
/// `Taken`, `Denied` or `Listen`.
pub fn listen(address: &Address) -> Result<Listener, AgentError> {
    let unblocked = |listener: TcpListener| listener.set_nonblocking(true).map(|()| listener);
    let bound = match address {
        Address::Tcp(address) => TcpListener::bind(address).and_then(unblocked).map(Listener::Tcp),
        Address::Unix(path) => listen_on(path).map(Listener::Unix),
    };
    bound.map_err(|source| match (source.kind(), address) {
        (io::ErrorKind::AddrInUse, _) => AgentError::Taken(address.clone()),
        (io::ErrorKind::PermissionDenied, Address::Tcp(port)) => AgentError::Denied(*port),
        _ => AgentError::Listen { address: address.clone(), source },
    })
}

async fn timer(duration: Option<Duration>) {
    match duration.and_then(|duration| Instant::now().checked_add(duration)) {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

/// The signals that ask the agent to leave, caught before anything is attached.
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
