//! The shape of the source, held as it was drawn: who may see whom, who alone may touch what.
//! docs/architecture.md, "What always holds", says why.

use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of its own crate a module may name. `main` and `cli` stand above and may name all.
/// That core knows no clock, file, socket or thread is held by the compiler: see its Cargo.toml.
const IMPORTS: [(&str, &str, &[&str]); 19] = [
    ("monitor/core/src", "model", &["model"]),
    ("monitor/core/src", "policy", &["policy", "model"]),
    ("monitor/core/src", "room", &["room", "model"]),
    ("monitor/core/src", "recording", &["recording", "room", "policy", "model"]),
    ("monitor/core/src", "view", &["view", "room", "policy", "model"]),
    ("monitor/src", "causes", &["causes"]),
    ("monitor/src", "clock", &["clock"]),
    ("monitor/src", "heap", &["heap"]),
    ("monitor/src", "lock", &["lock"]),
    ("monitor/src", "musl", &["musl"]),
    ("monitor/src", "source", &["source", "clock", "heap"]),
    ("monitor/src", "config", &["config"]),
    ("monitor/src", "state", &["state"]),
    ("monitor/src", "act", &["act", "state", "clock"]),
    ("monitor/src", "record", &["causes", "lock", "record", "state"]),
    ("monitor/src", "serve", &["serve", "record", "clock", "heap", "lock"]),
    ("monitor/src", "scenario", &["config"]),
    ("monitor/src", "kube", &["kube", "act", "config", "clock", "causes", "lock"]),
    (
        "monitor/src",
        "agent",
        &[
            "agent", "act", "kube", "serve", "record", "config", "source", "state", "clock",
            "heap", "causes",
        ],
    ),
];

/// Where the agent and its library crates are.
const CRATES: [&str; 3] = ["monitor/src", "monitor/core/src", "monitor/kubelet/src"];

/// The only module that knows aya.
const LOADER: &str = "monitor/src/source/kernel/loader";
/// The only reader of time.
const CLOCK: &str = "monitor/src/clock.rs";
/// They set timers by tokio's `Instant`, and measure nothing by them.
const TIMERS: [&str; 2] = ["monitor/src/agent/run.rs", "monitor/src/agent/pace.rs"];

/// From here to [`FLOATS_END`] a percentage goes into and out of JSON as a number.
const FLOATS_BEGIN: &str = "// The only floats of the core";
const FLOATS_END: &str = "impl fmt::Display for Percent";
/// The one place where the kubelet needs single precision.
const FRACTION: &str = "monitor/core/src/model/fraction.rs";

/// 300 lines are long; this is the limit.
const LONGEST: usize = 400;

/// A source file: its path from the root of the repository, and its text.
struct Source {
    path: String,
    text: String,
}

/// All Rust files below `dir`, in the order of their names.
fn sources(dir: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut files, mut dirs) = (Vec::new(), vec![root.join(dir)]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push(Source { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "there is nothing to look at below {dir}");
    files
}

/// A line without its comment and without what stands in quotes.
fn code(line: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::new(), false, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            _ if !quoted => out.push(c),
            _ => {}
        }
    }
    out
}

/// Whether a name that is exactly `word` stands in `code`.
fn names(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a number with a decimal point stands in `code`; `pair.0.1` is none.
fn has_decimal(code: &str) -> bool {
    let bytes = code.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (1..bytes.len()).filter(|at| bytes[*at] == b'.').any(|at| {
        let digits = bytes[..at].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let before = at.checked_sub(digits + 1).map(|at| bytes[at]);
        let starts_number =
            before.is_none_or(|b| b != b'.' && b != b'_' && !b.is_ascii_alphabetic());
        digits > 0 && is_digit(at + 1) && starts_number
    })
}

/// The library's modules that `code` names by way of `crate::`, also in `crate::{..}`.
fn imported(code: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut all = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            all.push(name(rest));
            continue;
        };
        let mut depth = 1;
        let mut item = String::new();
        for c in list.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 {
                break;
            }
            if depth == 1 && c == ',' {
                all.push(name(item.trim()));
                item.clear();
            } else {
                item.push(c);
            }
        }
        all.push(name(item.trim()));
    }
    all.retain(|name: &String| !name.is_empty());
    all
}

/// The module path of a file of a crate: `monitor/core/src/model/psi.rs` is `model`, `psi`.
fn module(path: &str) -> Vec<&str> {
    let (_, path) = path.strip_suffix(".rs").unwrap().split_once("/src/").unwrap();
    path.split('/').filter(|part| *part != "mod").collect()
}

/// True if `code`, in a module `depth` below the crate, climbs out of the library's module.
fn climbs_out(code: &str, depth: usize) -> bool {
    let all = "super::".repeat(depth);
    // `use super::*` is how an inline module of tests sees its own file.
    code.match_indices(&all).any(|(at, _)| !code[at + all.len()..].starts_with('*'))
}

/// Lines that break a rule, as `path:line: what stands there`.
fn broken(source: &Source, is_broken: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let bad = lines.filter(|(_, line)| is_broken(&code(line)));
    bad.map(|(i, line)| format!("{}:{}: {}", source.path, i + 1, line.trim())).collect()
}

#[track_caller]
fn hold(what_to_do: &str, broken: impl IntoIterator<Item = String>) {
    let broken: Vec<_> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{what_to_do}\n  {}\n", broken.join("\n  "));
}

#[test]
fn layout_imports_go_one_way() {
    for source in ["monitor/src", "monitor/core/src"].into_iter().flat_map(sources) {
        let module = module(&source.path);
        let first = module[0];
        if ["lib", "main", "cli"].contains(&first) {
            continue;
        }
        let row = |(of, name, _): &&(&str, &str, &[&str])| {
            *name == first && source.path.strip_prefix(of).is_some_and(|rest| rest.starts_with('/'))
        };
        let Some((.., may)) = IMPORTS.iter().find(row) else {
            panic!("{} is in no row of IMPORTS: say which modules it may name", source.path);
        };
        let todo = format!(
            "`{first}` may name only {may:?}: hand the value in from `agent`, or move what both \
             need to isobar-core"
        );
        // An import may go over several lines.
        let whole: String = source.text.lines().map(|line| code(line) + " ").collect();
        let others = imported(&whole).into_iter().filter(|name| !may.contains(&name.as_str()));
        hold(&todo, others.map(|name| format!("{} names crate::{name}", source.path)));
        let todo = "reach other modules by `crate::`, so that this test sees it";
        hold(todo, broken(&source, |code| climbs_out(code, module.len())));
    }
}

#[test]
fn layout_only_the_loader_knows_aya() {
    let all = CRATES.into_iter().flat_map(sources);
    for source in all.filter(|source| !source.path.starts_with(LOADER)) {
        let todo =
            format!("only {LOADER} may name aya: give it a function that returns plain data");
        let knows = |code: &str| ["aya", "aya_log", "aya_obj"].iter().any(|word| names(code, word));
        hold(&todo, broken(&source, knows));
    }
}

#[test]
fn layout_no_memcpy_of_the_kernel_side() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor-ebpf/Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let section = |word: &str| {
        let above = &text[..text.find(word).unwrap()];
        above.lines().rfind(|line| line.starts_with('[')).unwrap().to_owned()
    };
    for (dependency, want) in [
        ("\naya-ebpf =", "[target.'cfg(target_arch = \"bpf\")'.dependencies]"),
        ("\naya-log-ebpf =", "[target.'cfg(target_arch = \"bpf\")'.dependencies]"),
        ("\naya =", "[target.'cfg(not(target_arch = \"bpf\"))'.dependencies]"),
    ] {
        let todo = "aya-ebpf exports memcpy and would replace libc's in the agent: keep it apart";
        assert_eq!(section(dependency), want, "{dependency:?}: {todo}");
    }
}

#[test]
fn layout_features_of_tests_are_no_part_of_the_agent() {
    let manifest = |of: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(of).join("Cargo.toml");
        fs::read_to_string(path).unwrap()
    };
    for of in ["core", "kubelet"] {
        let text = manifest(of);
        let line = text.lines().find(|line| line.starts_with("schemars =")).unwrap();
        assert!(line.contains("optional = true"), "{of}: {line}");
        assert!(!text.contains("\ndefault ="), "{of}: nothing may switch a feature on by itself");
    }
    let text = manifest("");
    let (shipped, for_tests) = text.split_once("[dev-dependencies]").unwrap();
    assert!(!shipped.contains("schema"), "only tests make schemas");
    assert!(!shipped.contains("\"made\""), "only tests make parts of decisions up");
    assert!(for_tests.contains("features = [\"schema\"]") && for_tests.contains("\nschemars ="));
}

#[test]
fn layout_only_the_clock_reads_time() {
    let all = CRATES.into_iter().flat_map(sources);
    for source in all.filter(|source| source.path != CLOCK) {
        let todo = format!("only {CLOCK} reads time: take a `Moment` as an argument");
        let reads = |code: &str| {
            let words = ["SystemTime", "clock_gettime", "Zoned"];
            words.iter().any(|word| names(code, word))
                || code.contains("Timestamp::now")
                || (names(code, "Instant") && !TIMERS.contains(&source.path.as_str()))
                || (names(code, "Instant") && code.contains("std::time"))
        };
        hold(&todo, broken(&source, reads));
    }
}

#[test]
fn layout_core_of_integers() {
    // A test may weigh its random inputs.
    let core = ["monitor/core/src/model", "monitor/core/src/policy"].into_iter().flat_map(sources);
    for source in core.filter(|s| !s.path.contains("/tests") && s.path != FRACTION) {
        let mut exempt = false;
        let mut bad = Vec::new();
        for (i, line) in source.text.lines().enumerate() {
            exempt |= line.starts_with(FLOATS_BEGIN);
            exempt &= !line.starts_with(FLOATS_END);
            let code = code(line);
            let floats = names(&code, "f32") || names(&code, "f64") || has_decimal(&code);
            if floats && !exempt {
                bad.push(format!("{}:{}: {}", source.path, i + 1, line.trim()));
            }
        }
        hold(
            "no floats in the core: they would not replay to the same bytes; count hundredths",
            bad,
        );
    }
}

#[test]
fn layout_file_length() {
    let others = ["monitor-ebpf/src", "xtask/src", "fuzz", "tests"];
    for source in CRATES.into_iter().chain(others).flat_map(sources) {
        let n = source.text.lines().count();
        let todo = format!(
            "{} has {n} lines, {LONGEST} is the limit: part it by what it decides",
            source.path
        );
        assert!(n <= LONGEST, "{todo}");
    }
}

#[test]
fn layout_kernel_side_licence() {
    for source in sources("monitor-ebpf/src") {
        let first = source.text.lines().next();
        let want = "// SPDX-License-Identifier: GPL-2.0-only OR MIT";
        assert_eq!(first, Some(want), "{}: make it the first line", source.path);
    }
}

#[test]
fn layout_sees_what_breaks_a_rule() {
    #[rustfmt::skip]
    let table: &[(&str, &[&str])] = &[
        // code, modules named
        ("use crate::model::psi::Line;",                       &["model"]),
        ("use crate::{clock, model::{psi, units}, source};",   &["clock", "model", "source"]),
        ("let now = crate::clock::now();",                     &["clock"]),
        ("use super::units;",                                  &[]),
    ];
    for (text, want) in table {
        assert_eq!(imported(text), *want, "{text}");
    }
    assert_eq!(code(r#"let a = "crate::serve \" // no"; // crate::serve"#), "let a = ; ");
    assert!(names("use aya::maps;", "aya") && !names("let ayah = 1;", "aya"));
    for (text, want) in [("1.5", true), ("x = 0.25;", true), ("pair.0.1", false), ("0..=3", false)]
    {
        assert_eq!(has_decimal(text), want, "{text}");
    }
    assert!(climbs_out("use super::super::source;", 2) && !climbs_out("use super::units;", 2));
    assert!(climbs_out("use super::source;", 1) && !climbs_out("use super::*;", 1));
}
