//! Feeds every parser of outside text with what its fuzz target has found: no panic, and what is
//! understood reads the same when it is written out again.
//!
//! Inputs whose names tell what they are were written or recorded; those that are named by a hash
//! were found by `cargo xtask fuzz`.
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use isobar::outside::PARSERS;

/// Files and bytes of one corpus: it is in every clone, and is fed to its parser in every test run.
const MOST_FILES: usize = 100;
const MOST_BYTES: u64 = 32 << 10;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|why| panic!("{}: {why}", dir.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn whatever_was_found_goes_through_every_parser() {
    let mut failed = Vec::new();
    for (parser, trial) in PARSERS {
        let dir = repository().join("tests/data/fuzz").join(parser);
        let (mut understood, mut refused) = (0, 0);
        for name in names(&dir) {
            let bytes = fs::read(dir.join(&name)).unwrap();
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
fn every_parser_has_a_fuzz_target_and_a_corpus_and_none_is_left_over() {
    let parsers: BTreeSet<String> = PARSERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&repository().join("tests/data/fuzz")), parsers);
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
fn a_corpus_stays_small() {
    for (parser, _) in PARSERS {
        let dir = repository().join("tests/data/fuzz").join(parser);
        let sizes = names(&dir).into_iter().map(|name| fs::metadata(dir.join(name)).unwrap().len());
        let (n, bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
        assert!(n <= MOST_FILES && bytes <= MOST_BYTES, "{parser}: {n} files, {bytes} bytes");
    }
}
