//! Feeds every parser of untrusted text with what its fuzz target has found: no panic, and what is
//! understood reads the same when it is written out again.
//!
//! Inputs that were written or recorded are files whose names tell what they are; those that
//! `cargo xtask fuzz` found are in one archive a parser, named by their hash.

#[path = "../../fuzz/src/parsers/mod.rs"]
mod parsers;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parsers::PARSERS;

/// Inputs and bytes of one corpus: it is in every clone, and is fed to its parser in every test run.
const MOST_INPUTS: usize = 100;
const MOST_BYTES: usize = 32 << 10;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|why| panic!("{}: {why}", dir.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// All inputs of a parser, with their names.
fn inputs(parser: &str) -> Vec<(String, Vec<u8>)> {
    let all = repository().join("tests/data/fuzz");
    let dir = all.join(parser);
    let read = |name: String| (name.clone(), fs::read(dir.join(name)).unwrap());
    let mut inputs: Vec<_> = names(&dir).into_iter().map(read).collect();
    let archive = File::open(all.join(format!("{parser}.tar.zst"))).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(archive).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        inputs.push((name, bytes));
    }
    inputs
}

#[test]
fn parsers_survive_their_corpus() {
    let mut failed = Vec::new();
    for (parser, trial) in PARSERS {
        let (mut understood, mut refused) = (0, 0);
        for (name, bytes) in inputs(parser) {
            // The panic's own message has been printed by then; the others are still tried.
            match catch_unwind(AssertUnwindSafe(|| trial(&bytes))) {
                Ok(true) => understood += 1,
                Ok(false) => refused += 1,
                Err(_) => failed.push(format!("{parser}/{name}")),
            }
        }
        let n = understood + refused;
        assert!(
            understood > 0 && refused > 0,
            "{parser}: {understood} of {n} understood: give both"
        );
    }
    assert!(failed.is_empty(), "inputs that made their parser panic: {failed:?}");
}

#[test]
fn parsers_have_target_and_corpus() {
    let parsers: BTreeSet<String> = PARSERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let archives = parsers.iter().map(|name| format!("{name}.tar.zst"));
    let corpora = parsers.iter().cloned().chain(archives).collect();
    assert_eq!(names(&repository().join("tests/data/fuzz")), corpora);
    let files: BTreeSet<String> = parsers.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&repository().join("fuzz/targets")), files);
    let manifest = fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
    for name in &parsers {
        let target = fs::read_to_string(repository().join(format!("fuzz/targets/{name}.rs")));
        assert!(target.unwrap().contains(&format!("parse(\"{name}\", ")), "{name}.rs feeds {name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "no [[bin]] {name}");
    }
}

#[test]
fn corpus_stays_small() {
    for (parser, _) in PARSERS {
        let inputs = inputs(parser);
        let (n, bytes) = (inputs.len(), inputs.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
        assert!(n <= MOST_INPUTS && bytes <= MOST_BYTES, "{parser}: {n} inputs, {bytes} bytes");
    }
}
