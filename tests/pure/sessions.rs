//! What the verbs print and how they end, as sessions in files: `sessions/NAME.md`, typed in
//! `sessions/NAME.in`; and the README's, typed at the root. A better wording changes the file:
//! `TRYCMD=overwrite cargo test --test pure sessions` writes what is printed now.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cli::{agent_at, made_up_agent};
use crate::sampling::data;
use isobar::clock;
use isobar::record::reader::Recording;
use isobar::record::replay::{Replay, Replayed};
use isobar_core::model::snapshot::Snapshot;
use isobar_core::policy::engine::Step;
use trycmd::TestCases;

#[test]
fn sessions_match_their_files() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let readme = fs::read_to_string(repository.join("README.md")).unwrap();
    // A session ends with an empty line.
    let readme = readme.replace("\n```\n", "\n\n```\n");
    fs::write(dir.path().join("README.md"), readme).unwrap();
    symlink(repository, dir.path().join("README.in")).unwrap();
    cases(made_up_agent())
        .case(repository.join("tests/pure/sessions/*.md"))
        .case(dir.path().join("README.md"));
}

#[test]
fn explain_of_a_leak() {
    let recording = Recording::open(&data("recordings/judged-leak-6.12.isobar")).unwrap();
    let acted = Replay::new(recording, None).find_map(|replayed| match replayed.unwrap() {
        Replayed::Tick(tick) => {
            let decision = tick.step.decision;
            decision.relief.actions.iter().any(|action| action.step.is_final()).then_some(decision)
        }
        Replayed::Notice(_) => None,
    });
    let snapshot = Snapshot { at: clock::now(), ..Snapshot::default() };
    let step = Step { decision: acted.unwrap(), snapshot, ..Step::default() };
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/pure/sessions");
    cases(agent_at(step)).case(sessions.join("leak/*.md"));
}

/// Sessions that ask the agent at `address`.
fn cases(address: SocketAddr) -> TestCases {
    let cases = TestCases::new();
    cases.register_bin("isobar", Path::new(env!("CARGO_BIN_EXE_isobar")));
    cases.env("ISOBAR_AGENT", address.to_string());
    // What is logged has a time in it.
    cases.env("ISOBAR_LOG", "error");
    cases
}
