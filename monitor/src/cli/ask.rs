//! Where `top`, `status`, `explain` and `doctor` get their view from: a running agent, or their own
//! samples.

mod transport;

use std::fmt;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use clap::ArgMatches;
use isobar::agent::{LISTEN, Live, Observer};
use isobar::clock;
use isobar::kube::{Proxy, ProxyError};
use isobar::serve::address::Address;
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::view::View;
use serde_json::Value;

use self::transport::get;
use self::transport::{OF_BODY, patience};
use super::conflicts::{SAMPLING, is_typed};
use super::elsewhere::NodeArg;
use super::exit::{InvalidAnswer, Misused, Refused};
use super::output::say;
use super::plan::PlanArgs;
use super::run::SourceArgs;
use super::terminal::harmless;

/// Loading eBPF programs takes a second, and longer on a busy node.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);
/// An agent that does not answer is asked at least so often.
const SELDOM: Duration = Duration::from_secs(8);
/// The newest tick.
const NEWEST: &str = "/api/v1/snapshot";
/// The agent takes a sample so often.
pub(crate) const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Address of the agent, or its socket file as unix:PATH [default: 127.0.0.1:9797, and own samples if no agent answers there].
    #[arg(long, value_name = "ADDR", env = "ISOBAR_AGENT")]
    agent: Option<Address>,
    /// Take own samples, even if an agent runs.
    #[arg(long)]
    no_agent: bool,
    #[command(flatten)]
    node: NodeArg,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// The options on the command line that apply to own samples only, such as `--config`.
pub(crate) fn sampling_options(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let typed = SAMPLING.into_iter().filter(|id| is_typed(matches, id));
    typed.map(|id| format!("--{}", id.replace('_', "-"))).collect()
}

impl AgentArgs {
    /// The agent that is named, here or on another node.
    pub(crate) fn named(&self) -> Result<Option<Place>> {
        let elsewhere = self.node.place()?;
        Ok(elsewhere.or_else(|| self.agent.clone().map(Place::Address)))
    }

    /// Where an agent of this machine listens, if there is one.
    fn here(&self) -> Place {
        let usual = || LISTEN.parse().expect("an address and a port");
        Place::Address(self.agent.clone().unwrap_or_else(usual))
    }

    /// The same; `None` if none is to be asked.
    pub(crate) fn asked(&self) -> Option<Place> {
        (!self.no_agent).then(|| self.here())
    }

    /// The settings of own samples.
    pub(crate) fn settings(&self) -> Result<Settings> {
        Ok(self.plan.plan(None)?.settings)
    }

    /// True if an option says which agent is asked, or that none is.
    pub(crate) fn is_given(&self) -> bool {
        self.no_agent || self.agent.is_some() || self.is_elsewhere()
    }

    /// True if what answers is known to run on this machine.
    pub(crate) fn is_here(&self) -> bool {
        !self.is_elsewhere() && self.agent.as_ref().is_none_or(Address::is_local)
    }

    /// True if the answer is not about this machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.node.is_given()
    }
}

/// Where an agent is asked.
pub(crate) enum Place {
    Address(Address),
    Node(Box<Proxy>),
}

impl Place {
    /// The agent of a node of the cluster that kubectl talks to.
    pub(crate) fn of_node(node: &str) -> Result<Self> {
        let failed = || format!("cannot ask the agent of node {node}");
        Ok(Self::Node(Box::new(Proxy::open(node).with_context(failed)?)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Node(proxy) => proxy.fmt(f),
        }
    }
}

pub(crate) enum Eye {
    /// Where the agent is, and its first view.
    Agent { place: Arc<Place>, found: Option<Box<View>> },
    /// Own samples.
    Own(Box<Observer<Live>>),
}

impl Eye {
    /// Looks for an agent, and opens the sources if none listens at the default address. An error
    /// if an agent answers and would ignore `sampling` options.
    pub(crate) fn open(args: &AgentArgs, sampling: &[String]) -> Result<Self> {
        let elsewhere = args.node.place()?;
        let must_answer = !args.no_agent && (args.agent.is_some() || elsewhere.is_some());
        let place = elsewhere.unwrap_or_else(|| args.here());
        let found = if args.no_agent { None } else { from_agent(&place, NEWEST)? };
        match found {
            Some(_) if !sampling.is_empty() => {
                let (options, way_out) =
                    (sampling.join(", "), "add --no-agent to sample without it");
                let text = format!("the agent on {place} answers and ignores {options}; {way_out}");
                Err(Misused(text).into())
            }
            Some(view) => Ok(Self::Agent { place: place.into(), found: Some(Box::new(view)) }),
            None if must_answer => bail!(no_agent(&place)),
            None => {
                let plan = args.plan.plan(None)?;
                let sources = args.sources.options(&plan.settings.node.kubelet_root);
                Ok(Self::Own(Box::new(Observer::new(Live::open(&sources)?, plan))))
            }
        }
    }

    /// An agent that is named, which need not answer yet; else as [`Self::open`].
    pub(crate) fn awaited(args: &AgentArgs, sampling: &[String]) -> Result<Self> {
        match args.named()? {
            Some(place) if !args.no_agent && sampling.is_empty() => {
                Ok(Self::Agent { place: place.into(), found: None })
            }
            _ => Self::open(args, sampling),
        }
    }

    /// The next view, a second after the previous one.
    pub(crate) fn look(&mut self) -> Result<View> {
        self.glance_after(TICK)
    }

    /// The next view, `pause` after the previous one. An agent that does not answer is waited for: that
    /// it has come back is seen up to 8 s later, or `pause` if that is longer.
    ///
    /// # Errors
    /// If the agent refuses, or has not come back at the time `until`.
    pub(crate) fn look_after(&mut self, pause: Duration, until: Option<Nanos>) -> Result<View> {
        let begun = clock::now().boot;
        let (mut told, mut wait) = (String::new(), pause);
        loop {
            let why = match self.glance_after(wait) {
                Ok(view) => {
                    if !told.is_empty() {
                        let gap = Duration::from_nanos(clock::now().boot.since(begun).0).as_secs();
                        say(format_args!("the agent answers again, after {gap} s"));
                    }
                    return Ok(view);
                }
                Err(why) => why,
            };
            let left = until.map(|until| until.since(clock::now().boot));
            if is_refusal(&why) || left == Some(Nanos(0)) {
                return Err(why);
            }
            let why = format!("{why:#}");
            if why != told {
                say(format_args!("{why}; waiting for it"));
                told = why;
            }
            wait = backed_off(wait, pause);
            wait = left.map_or(wait, |left| wait.min(Duration::from_nanos(left.0)));
        }
    }

    /// The same, or at once why there is none.
    pub(crate) fn glance_after(&mut self, pause: Duration) -> Result<View> {
        let place = match self {
            Self::Own(observer) => return Ok(observed(observer, pause)),
            Self::Agent { place, found } => match found.take() {
                Some(view) => return Ok(*view),
                None => place,
            },
        };
        sleep(pause);
        match fetch(place, NEWEST)? {
            Fetched::Document(json) => read(place, &json),
            Fetched::NotYet => bail!("the agent on {place} is starting"),
            Fetched::NoAgent => bail!(no_agent(place)),
        }
    }

    /// Where the agent is, if there is one.
    pub(crate) fn place(&self) -> Option<Arc<Place>> {
        match self {
            Self::Agent { place, .. } => Some(Arc::clone(place)),
            Self::Own(_) => None,
        }
    }

    /// Another document of the agent; `None` without an agent that can be asked for it.
    pub(crate) fn document(&self, path: &str) -> Option<Value> {
        let Self::Agent { place, .. } = self else { return None };
        let Ok(Fetched::Document(json)) = fetch(place, path) else { return None };
        serde_json::from_slice(&json).ok()
    }
}

/// Every tick is sampled, so that averages are right; the last one within `pause` is shown.
fn observed(observer: &mut Observer<Live>, pause: Duration) -> View {
    for _ in 1..pause.as_secs() {
        observer.observe();
    }
    observer.observe()
}

pub(crate) fn no_agent(place: &Place) -> String {
    format!("no agent listens on {place}; start one with `isobar run`")
}

/// The view under a path of the agent.
pub(crate) fn view_of(place: &Place, path: &str) -> Result<View> {
    from_agent(place, path)?.with_context(|| no_agent(place))
}

/// `None` if nothing listens there.
fn from_agent(place: &Place, path: &str) -> Result<Option<View>> {
    fetch_waiting(place, path)?.map(|json| read(place, &json)).transpose()
}

fn read(place: &Place, json: &[u8]) -> Result<View> {
    let view = View::parse(json);
    Ok(view.map_err(|source| InvalidAnswer { address: place.to_string(), source })?)
}

/// What an agent answers once it has started, and no longer reads its recording for others; `None` if
/// nothing listens there.
pub(crate) fn fetch_waiting(place: &Place, path: &str) -> Result<Option<Vec<u8>>> {
    const WHY: &str = "it is starting, or reads its recording for others";
    let begun = clock::now().boot;
    let mut is_told = false;
    loop {
        match fetch(place, path)? {
            Fetched::Document(json) => return Ok(Some(json)),
            Fetched::NoAgent => return Ok(None),
            Fetched::NotYet => {}
        }
        let waited = Duration::from_nanos(clock::now().boot.since(begun).0);
        if waited >= STARTS_WITHIN {
            bail!("the agent on {place} has not answered for {} s: {WHY}", waited.as_secs());
        }
        if !is_told {
            say(format_args!("waiting for the agent on {place}: {WHY}"));
        }
        is_told = true;
        sleep(AGAIN);
    }
}

/// How long to wait before an agent is asked again that has not answered after `wait`.
pub(crate) fn backed_off(wait: Duration, usual: Duration) -> Duration {
    (wait * 2).clamp(AGAIN, usual.max(SELDOM))
}

/// True of an answer that would be the same the next time.
pub(crate) fn is_refusal(why: &Error) -> bool {
    why.chain().any(|cause| {
        let is_of_server = matches!(cause.downcast_ref(), Some(ProxyError::Refused(_)));
        cause.is::<Refused>() || cause.is::<InvalidAnswer>() || is_of_server
    })
}

/// Why the agent does not answer, in its own words if it has any.
fn refusal(address: &Address, status: u16, json: &[u8]) -> Error {
    let said = serde_json::from_slice::<Value>(json).ok();
    let why = said.as_ref().and_then(|said| said["message"].as_str()).map(harmless);
    let why = match why {
        Some(why) => format!(": {why}"),
        None if status >= 500 => String::new(),
        None => "; what listens there may be another program: --agent sets the address".into(),
    };
    let text = format!("cannot ask the agent on {address}: it answers with {status}{why}");
    let may_change = matches!(status, 408 | 429 | 500..);
    if may_change { Error::msg(text) } else { Refused(text).into() }
}

/// What an agent answers to a path of its API.
pub(crate) enum Fetched {
    Document(Vec<u8>),
    /// It has had no sample yet.
    NotYet,
    NoAgent,
}

/// The same of a file.
pub(crate) fn fetch_file(place: &Place, path: &str) -> Result<Fetched> {
    match place {
        Place::Node(proxy) => {
            Ok(proxy.file(path, OF_BODY)?.map_or(Fetched::NotYet, Fetched::Document))
        }
        Place::Address(_) => fetch(place, path),
    }
}

pub(crate) fn fetch(place: &Place, path: &str) -> Result<Fetched> {
    match place {
        Place::Address(address) => match get(address, path)? {
            Some((200, json)) => Ok(Fetched::Document(json)),
            Some((503, _)) => Ok(Fetched::NotYet),
            Some((status, json)) => Err(refusal(address, status, &json)),
            None => Ok(Fetched::NoAgent),
        },
        Place::Node(proxy) => {
            let json = proxy.document(path, patience(path))?.map(String::into_bytes);
            Ok(json.map_or(Fetched::NotYet, Fetched::Document))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_final_unless_a_later_answer_may_differ() {
        let address = "127.0.0.1:1".parse().unwrap();
        #[rustfmt::skip]
        let table = [
            // status, body, final, what is said
            (401, "{}",                  true,  "401; what listens there may be another program"),
            (403, r#"{"message": "no"}"#, true,  "403: no"),
            (404, "",                    true,  "404; what"),
            (406, "",                    true,  "406; what"),
            (408, "",                    false, "408; what"),
            (429, "",                    false, "429; what"),
            (500, "",                    false, "it answers with 500"),
            (502, "",                    false, "it answers with 502"),
        ];
        for (status, body, is_final, want) in table {
            let why = refusal(&address, status, body.as_bytes());
            assert_eq!(is_refusal(&why), is_final, "{status}");
            assert!(why.to_string().contains(want), "{why}");
        }
    }

    #[test]
    fn backed_off_doubles_up_to_a_bound() {
        #[rustfmt::skip]
        let table = [
            // milliseconds: waited, usual, next
            (0,      1_000,  500),
            (1_000,  1_000,  2_000),
            (4_000,  1_000,  8_000),
            (8_000,  1_000,  8_000),
            (20_000, 20_000, 20_000),
        ];
        for (waited, usual, want) in table {
            let [waited, usual, want] = [waited, usual, want].map(Duration::from_millis);
            assert_eq!(backed_off(waited, usual), want, "{waited:?} {usual:?}");
        }
    }
}
