//! Where `top`, `status`, `explain` and `doctor` get their view from: a running agent, or their own
//! samples.

mod transport;

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use isobar::agent::{LISTEN, Live, Observer};
use isobar::serve::address::Address;
use isobar_core::view::View;

use self::transport::get;
use super::exit::{InvalidAnswer, Refused};
use super::plan::PlanArgs;
use super::run::SourceArgs;

/// Loading eBPF programs takes a second, and longer on a busy node.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Address of the agent, or its socket file as unix:PATH [default: 127.0.0.1:9797, and own samples if no agent answers there].
    #[arg(long, value_name = "ADDR", env = "ISOBAR_AGENT")]
    agent: Option<Address>,
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
    Agent { address: Address, found: Option<Box<View>> },
    /// Own samples.
    Own(Box<Observer<Live>>),
}

impl Eye {
    /// Looks for an agent, and opens the sources if none listens at the default address. An error
    /// if an agent answers and would ignore `sampling` options.
    pub(crate) fn open(args: &AgentArgs, sampling: &[String]) -> Result<Self> {
        let usual = || LISTEN.parse().expect("an address and a port");
        let address = args.agent.clone().unwrap_or_else(usual);
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

fn no_agent(address: &Address) -> String {
    format!("no agent listens on {address}; start one with `isobar run`")
}

/// `None` if nothing listens there. Waits for an agent that is still starting.
fn from_agent(address: &Address) -> Result<Option<View>> {
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

fn ask(address: &Address) -> Result<Answer> {
    let json = match get(address, "/api/v1/snapshot")? {
        Some((200, json)) => json,
        Some((503, _)) => return Ok(Answer::NoSampleYet),
        Some((status, _)) => bail!("cannot ask the agent on {address}: it answers with {status}"),
        None => return Ok(Answer::Nobody),
    };
    let view = View::parse(&json)
        .map_err(|source| InvalidAnswer { address: address.to_string(), source })?;
    Ok(Answer::View(Box::new(view)))
}
