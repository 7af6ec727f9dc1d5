//! `isobar manifest`: what `kubectl apply -f -` installs, as deploy/ has it rendered.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::ValueEnum;

use super::exit::Code;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the agents may do.
    #[arg(long, value_enum, default_value_t = Overlay::Observe)]
    overlay: Overlay,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Overlay {
    /// Publish conditions and events; change nothing on the nodes.
    Observe,
    /// Also taint nodes, evict pods and take every other step of relief.
    Enforce,
}

impl Overlay {
    fn rendered(self) -> &'static str {
        match self {
            Self::Observe => include_str!("../../../deploy/isobar.yaml"),
            Self::Enforce => include_str!("../../../deploy/isobar-enforce.yaml"),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    io::stdout().write_all(args.overlay.rendered().as_bytes())?;
    Ok(Code::Ok)
}
