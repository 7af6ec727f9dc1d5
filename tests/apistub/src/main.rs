//! The stand-in API server as a program of its own, for what is measured apart from it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{io::Write as _, thread};

use anyhow::{Context as _, Result};
use clap::Parser;
use isobar_apistub::{Authority, Options, Stub};
use serde_json::Value;

/// What a client of `--account` shows; it opens nothing but this server.
const TOKEN: &str = "isobar-apistub";

/// A stand-in Kubernetes API server.
#[derive(Parser)]
#[command(name = "isobar-apistub")]
struct Arguments {
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// Objects to begin with: JSON, an object, a list or a List
    #[arg(long, value_name = "FILE")]
    load: Vec<PathBuf>,
    /// What the kubelet at the same address answers: JSON, an object with an answer for each path
    #[arg(long, value_name = "FILE")]
    kubelet: Option<PathBuf>,
    /// Speak TLS, accept one token alone, and write ca.crt, token and namespace into this directory
    #[arg(long, value_name = "DIR")]
    account: Option<PathBuf>,
    /// Write each request and its status as one line of JSON
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = Options { listen: arguments.listen, ..Options::default() };
    let stub =
        Stub::start(&options).with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let read = |path: &PathBuf| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    for path in &arguments.load {
        let text = read(path)?;
        stub.load(&text).with_context(|| format!("cannot load {}", path.display()))?;
    }
    if let Some(path) = &arguments.kubelet {
        let answers: BTreeMap<String, Value> = serde_json::from_str(&read(path)?)
            .with_context(|| format!("{} is not an object of answers", path.display()))?;
        answers.into_iter().for_each(|(path, answer)| stub.kubelet_says(&path, answer));
    }
    if let Some(dir) = &arguments.account {
        let authority = Authority::new("isobar-apistub")?;
        authority.write_account(dir, TOKEN)?;
        stub.accept_tokens(&[TOKEN]);
        stub.serve_as(&authority)?;
    }
    let requests = stub.follow();
    eprintln!("listening on {}", stub.url());
    let Some(path) = &arguments.transcript else {
        loop {
            thread::park();
        }
    };
    let mut transcript =
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    for seen in requests {
        let line = serde_json::to_string(&seen).context("cannot write a request as JSON")?;
        writeln!(transcript, "{line}")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
