//! Where `top`, `status`, `explain` and `doctor` get their view from: a running agent, or their own
//! samples.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use isobar::agent::{LISTEN, Live, Observer};
use isobar_core::view::View;

use super::exit::{InvalidAnswer, Refused};
use super::plan::PlanArgs;
use super::run::SourceArgs;

/// An answer over loopback takes milliseconds; an agent that needs longer is overloaded.
const PATIENCE: Duration = Duration::from_secs(5);
/// Loading eBPF programs takes a second, and longer on a busy node.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);
/// A node of 10,000 cgroups makes some 20 MB; more than this is not an answer of an agent.
const LARGEST: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Address of the agent [default: 127.0.0.1:9797, and own samples if no agent answers there].
    #[arg(long, value_name = "ADDR", env = "ISOBAR_AGENT")]
    agent: Option<SocketAddr>,
    /// Take own samples, even if an agent runs.
    #[arg(long, conflicts_with = "agent")]
    no_agent: bool,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// The options on the command line that apply to own samples only, such as `--config`.
pub(crate) fn sampling_options(matches: &ArgMatches) -> Vec<String> {
    const IDS: [&str; 6] =
        ["config", "pods", "probes", "max_cgroups", "probe_budget", "cgroup_root"];
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let is_given = |id: &&str| {
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    IDS.into_iter().filter(is_given).map(|id| format!("--{}", id.replace('_', "-"))).collect()
}

pub(crate) enum Eye {
    /// The agent's address, and its first view.
    Agent { address: String, found: Option<Box<View>> },
    /// Own samples.
    Own(Box<Observer<Live>>),
}

impl Eye {
    /// Looks for an agent, and opens the sources if none listens at the default address. An error
    /// if an agent answers and would ignore `sampling` options.
    pub(crate) fn open(args: &AgentArgs, sampling: &[String]) -> Result<Self> {
        let address = args.agent.map_or_else(|| LISTEN.into(), |address| address.to_string());
        let found = if args.no_agent { None } else { from_agent(&address)? };
        match found {
            Some(_) if !sampling.is_empty() => {
                let (options, way_out) =
                    (sampling.join(", "), "add --no-agent to sample without it");
                let text =
                    format!("the agent on {address} answers and ignores {options}; {way_out}");
                Err(Refused(text).into())
            }
            Some(view) => Ok(Self::Agent { address, found: Some(Box::new(view)) }),
            None if args.agent.is_some() => bail!(no_agent(&address)),
            None => {
                let plan = args.plan.plan()?;
                let sources = args.sources.options(&plan.settings.node.kubelet_root);
                Ok(Self::Own(Box::new(Observer::new(Live::open(&sources)?, plan))))
            }
        }
    }

    /// The next view, a second after the previous one.
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

/// `None` if nothing listens there. Waits for an agent that is still starting.
fn from_agent(address: &str) -> Result<Option<View>> {
    let mut waited = Duration::ZERO;
    loop {
        match ask(address)? {
            Answer::Nobody => return Ok(None),
            Answer::View(view) => return Ok(Some(*view)),
            Answer::NoSampleYet if waited >= STARTS_WITHIN => {
                bail!("the agent on {address} has had no sample for {} s", waited.as_secs());
            }
            Answer::NoSampleYet => {
                if waited.is_zero() {
                    eprintln!("the agent on {address} is starting; waiting for its first sample");
                }
                sleep(AGAIN);
                waited += AGAIN;
            }
        }
    }
}

enum Answer {
    View(Box<View>),
    /// It loads its eBPF programs.
    NoSampleYet,
    Nobody,
}

fn ask(address: &str) -> Result<Answer> {
    let url = format!("http://{address}/api/v1/snapshot");
    let client: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build().into();
    let mut answer = match client.get(&url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::Io(why)) if why.kind() == io::ErrorKind::ConnectionRefused => {
            return Ok(Answer::Nobody);
        }
        Err(ureq::Error::ConnectionFailed) => return Ok(Answer::Nobody),
        Err(ureq::Error::Timeout(_)) => {
            let seconds = PATIENCE.as_secs();
            bail!(
                "the agent on {address} did not answer within {seconds} s; it may still be starting"
            );
        }
        Err(ureq::Error::StatusCode(503)) => return Ok(Answer::NoSampleYet),
        Err(why) => return Err(why).with_context(|| format!("cannot ask the agent on {address}")),
    };
    let mut json = Vec::new();
    let body = answer.body_mut().as_reader();
    let read = body.take(LARGEST).read_to_end(&mut json);
    read.with_context(|| format!("cannot read the answer of {address}"))?;
    let view =
        View::parse(&json).map_err(|source| InvalidAnswer { address: address.into(), source })?;
    Ok(Answer::View(Box::new(view)))
}
