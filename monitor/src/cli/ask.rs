//! Where `top`, `status` and `doctor` have their view from: an agent that runs, or own samples.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use isobar::agent::{LISTEN, Live, Observer};
use isobar::serve::document;
use isobar::serve::view::View;

use super::exit::InvalidAnswer;
use super::plan::PlanArgs;
use super::run::SourceArgs;

/// A loopback answer takes milliseconds; an agent that needs longer is in trouble, and so is the
/// operator who waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// A node of 10,000 cgroups makes some 20 MB; more than this is no answer of an agent.
const LARGEST: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Ask the agent that listens here; without one at the default address, sample here and now.
    #[arg(long, value_name = "ADDR", env = "ISOBAR_AGENT")]
    agent: Option<SocketAddr>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Sees the node: through an agent, or by itself.
pub(crate) enum Eye {
    /// The agent's address, and what it said when it was found.
    Agent { address: String, found: Option<Box<View>> },
    /// Nobody listens: our own sampler.
    Own(Box<Observer<Live>>),
}

impl Eye {
    /// Looks for an agent, and opens the sources itself if there is none at the default address.
    pub(crate) fn open(args: &AgentArgs) -> Result<Self> {
        let address = args.agent.map_or_else(|| LISTEN.into(), |address| address.to_string());
        match from_agent(&address)? {
            Some(view) => Ok(Self::Agent { address, found: Some(Box::new(view)) }),
            None if args.agent.is_some() => bail!(no_agent(&address)),
            None => {
                let plan = args.plan.plan()?;
                let sources = args.sources.options(&plan.settings.node.kubelet_root);
                Ok(Self::Own(Box::new(Observer::new(Live::open(&sources)?, plan))))
            }
        }
    }

    /// The next view: a second after the one before.
    pub(crate) fn look(&mut self) -> Result<View> {
        match self {
            Self::Own(observer) => Ok(observer.observe()),
            Self::Agent { address, found } => match found.take() {
                Some(view) => Ok(*view),
                None => {
                    sleep(Duration::from_secs(1));
                    from_agent(address)?.with_context(|| no_agent(address))
                }
            },
        }
    }
}

fn no_agent(address: &str) -> String {
    format!("no agent listens on {address}; start one with `isobar run`")
}

/// `None` if nobody listens there.
fn from_agent(address: &str) -> Result<Option<View>> {
    let url = format!("http://{address}/api/v1/snapshot");
    let client: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build().into();
    let mut answer = match client.get(&url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::Io(why)) if why.kind() == io::ErrorKind::ConnectionRefused => {
            return Ok(None);
        }
        Err(ureq::Error::ConnectionFailed) => return Ok(None),
        Err(why) => return Err(why).with_context(|| format!("asking the agent at {address}")),
    };
    let mut json = Vec::new();
    let body = answer.body_mut().as_reader();
    body.take(LARGEST).read_to_end(&mut json).with_context(|| format!("reading from {address}"))?;
    let view = document::parse(&json)
        .map_err(|source| InvalidAnswer { address: address.into(), source })?;
    Ok(Some(view))
}
