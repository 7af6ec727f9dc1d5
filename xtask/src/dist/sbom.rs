//! What is in a binary, as CycloneDX 1.6: each crate that is linked into the agent, the eBPF object
//! with the crates in it, and Rust's standard library with musl.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::shell::{quietly, root};
use serde_json::{Value, json};

use super::digest::sha256;
use super::release::{LICENCE, Release};
use super::target::Target;
use crate::build;

const OBJECT: &str = "isobar-probes.o";
const STD: &str = "rust-std";

/// The crates of one program, and which of them need which.
#[derive(Debug, Default, PartialEq)]
struct Crates {
    /// Component by reference.
    components: BTreeMap<String, Value>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

/// The list of components of `binary`, which carries the eBPF object in the file `object`.
pub(super) fn of(target: Target, binary: &[u8], object: &Path, release: &Release) -> Result<Value> {
    let checksums = checksums(&fs::read_to_string(root().join("Cargo.lock"))?);
    let agent = crates(&metadata("monitor", target.triple())?, "isobar", &checksums)?;
    let probes = metadata("monitor-ebpf", "bpfel-unknown-none")?;
    let probes = crates(&probes, "isobar-ebpf", &checksums)?;
    let about = quietly(Command::new("rustc").arg("-V"))?;
    let rustc = about.split_whitespace().nth(1).context("rustc does not say its version")?;
    Ok(document(
        target,
        binary,
        &fs::read(object)?,
        rustc,
        (agent, probes),
        release,
        &release.time()?,
    ))
}

fn document(
    target: Target,
    binary: &[u8],
    object: &[u8],
    rustc: &str,
    (agent, probes): (Crates, Crates),
    release: &Release,
    time: &str,
) -> Value {
    let main = reference("isobar", release.version);
    let hashes = |bytes: &[u8]| json!([{"alg": "SHA-256", "content": sha256(bytes)}]);
    let mut needs = agent.needs;
    needs.entry(main.clone()).or_default().extend([OBJECT.to_owned(), STD.to_owned()]);
    let probe_crate = reference("isobar-ebpf", release.version);
    needs.entry(OBJECT.into()).or_default().insert(probe_crate);
    for (name, needed) in probes.needs {
        needs.entry(name).or_default().extend(needed);
    }
    let mut components = agent.components;
    components.extend(probes.components);
    components.remove(&main);
    components.insert(
        OBJECT.into(),
        json!({
            "type": "file", "bom-ref": OBJECT, "name": OBJECT, "version": release.version,
            "description": "the eBPF programs that the agent carries and loads",
            "hashes": hashes(object), "licenses": [{"expression": "GPL-2.0-only OR MIT"}],
        }),
    );
    components.insert(
        STD.into(),
        json!({
            "type": "library", "bom-ref": STD, "name": STD, "version": rustc,
            "description": format!("Rust's standard library and musl, for {}", target.triple()),
            "licenses": [{"expression": "(MIT OR Apache-2.0) AND MIT"}],
        }),
    );
    let dependencies = needs.iter().map(|(name, on)| json!({"ref": name, "dependsOn": on}));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application", "bom-ref": main, "name": "isobar",
                "version": release.version, "purl": main,
                "hashes": hashes(binary), "licenses": [{"expression": LICENCE}],
                "properties": [
                    {"name": "isobar:architecture", "value": target.name()},
                    {"name": "isobar:commit", "value": release.commit},
                ],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

/// What cargo knows of the package in `dir` and all that it needs on `triple`.
fn metadata(dir: &str, triple: &str) -> Result<Value> {
    let mut cargo = build::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", triple, "--manifest-path", &format!("{dir}/Cargo.toml")]);
    Ok(serde_json::from_str(&quietly(&mut cargo)?)?)
}

/// Package URL of a crate, which is its reference as well.
fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The crates that are linked into `name`: neither those of tests nor those of build scripts.
fn crates(metadata: &Value, name: &str, checksums: &BTreeMap<String, String>) -> Result<Crates> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let by_id = |all: Vec<Value>| all.into_iter().map(|one| (text(&one["id"]), one)).collect();
    let packages: BTreeMap<String, Value> = by_id(list(&metadata["packages"]));
    let nodes: BTreeMap<String, Value> = by_id(list(&metadata["resolve"]["nodes"]));
    let named = |id: &str| {
        let package = packages.get(id).with_context(|| format!("cargo knows no package {id}"))?;
        let proc_macro =
            list(&package["targets"]).iter().any(|t| t["kind"] == json!(["proc-macro"]));
        Ok::<_, anyhow::Error>((package, proc_macro))
    };
    let start = packages.iter().find(|(_, package)| package["name"] == name);
    let mut open = vec![start.with_context(|| format!("cargo knows no package {name}"))?.0.clone()];
    let mut crates = Crates::default();
    while let Some(id) = open.pop() {
        let (package, _) = named(&id)?;
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let key = reference(&name, &version);
        if crates.components.contains_key(&key) {
            continue;
        }
        let mut component = json!({
            "type": "library", "bom-ref": key, "name": name, "version": version, "purl": key,
        });
        if let Some(licence) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(&key) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        crates.components.insert(key.clone(), component);
        let mut needs = BTreeSet::new();
        for dep in list(&nodes[&id]["deps"]) {
            let is_linked = list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let (package, is_macro) = named(dep["pkg"].as_str().unwrap_or_default())?;
            if is_linked && !is_macro {
                needs.insert(reference(&text(&package["name"]), &text(&package["version"])));
                open.push(text(&dep["pkg"]));
            }
        }
        crates.needs.insert(key, needs);
    }
    Ok(crates)
}

/// The SHA-256 of each crate's archive by reference, as Cargo.lock has them.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let field = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_matches('"').to_owned())
    };
    let of = |package: &str| {
        let name = reference(&field(package, "name = ")?, &field(package, "version = ")?);
        Some((name, field(package, "checksum = ")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// isobar needs linked, which needs deep; a test needs tested, and derived is a macro.
    fn made_up() -> Value {
        let package = |name: &str, kind: &str| {
            json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "targets": [{"kind": [kind]}]})
        };
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let deps =
            [dep("linked", Value::Null), dep("tested", json!("dev")), dep("derived", Value::Null)];
        json!({
            "packages": [package("isobar", "bin"), package("linked", "lib"), package("deep", "lib"),
                package("tested", "lib"), package("derived", "proc-macro")],
            "resolve": {"nodes": [
                {"id": "isobar", "deps": deps},
                {"id": "linked", "deps": [dep("deep", Value::Null)]},
                {"id": "deep", "deps": []},
            ]},
        })
    }

    #[test]
    fn crates_are_those_that_are_linked() {
        let lock = "[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let crates = crates(&made_up(), "isobar", &checksums(lock)).unwrap();
        let names: Vec<&str> = crates.components.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["pkg:cargo/deep@1.0.0", "pkg:cargo/isobar@1.0.0", "pkg:cargo/linked@1.0.0"]
        );
        let deep = &crates.components["pkg:cargo/deep@1.0.0"];
        assert_eq!(deep["hashes"][0]["content"], "abc");
        assert_eq!(deep["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }

    #[test]
    fn document_lists_every_reference_once() {
        let release = Release { version: "1.0.0", ..Release::made_up() };
        let read = || crates(&made_up(), "isobar", &BTreeMap::new()).unwrap();
        let mut probes = Crates::default();
        let key = reference("isobar-ebpf", "1.0.0");
        probes.components.insert(key.clone(), json!({"bom-ref": key}));
        probes.needs.insert(key, BTreeSet::new());
        let programs = (read(), probes);
        let bom = document(Target::X86, b"binary", b"object", "1.95.0", programs, &release, "now");
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let listed: Vec<Value> =
            array(&bom["components"]).iter().map(|c| c["bom-ref"].clone()).collect();
        let unique: BTreeSet<String> = listed.iter().map(Value::to_string).collect();
        assert_eq!((listed.len(), unique.len()), (5, 5), "{listed:?}");
        for dependency in array(&bom["dependencies"]) {
            for needed in array(&dependency["dependsOn"]) {
                assert!(listed.contains(&needed), "{needed} is not listed");
            }
        }
        assert_eq!(bom["metadata"]["component"]["hashes"][0]["content"], sha256(b"binary"));
    }
}
