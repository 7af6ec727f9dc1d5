//! The Helm chart: it is the rendered manifests, and what its template puts in stands there to be
//! replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::text;
use serde_json::Value;

/// Mode of the chart, and what it installs.
const MODES: [(&str, &str); 2] = [("observe", "isobar.yaml"), ("enforce", "isobar-enforce.yaml")];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn values() -> Value {
    serde_saphyr::from_str(&read("helm/isobar/values.yaml")).unwrap()
}

/// What the template looks for, and the path of the value that it puts in after a colon.
fn replaced() -> Vec<(String, String)> {
    let template = read("helm/isobar/templates/isobar.yaml");
    let lines = template.lines().filter_map(|line| line.split_once("replace \""));
    let each = lines.map(|(_, rest)| {
        let (found, rest) = rest.split_once('"').unwrap();
        let (_, path) = rest.split_once(".Values.").unwrap();
        (found.to_owned(), path.split(')').next().unwrap().to_owned())
    });
    each.collect()
}

#[test]
fn chart_is_the_rendered_manifests() {
    for (mode, manifest) in MODES {
        let held = read(&format!("helm/isobar/files/{mode}.yaml"));
        assert!(held == read(manifest), "files/{mode}.yaml is not deploy/{manifest}");
    }
}

#[test]
fn chart_values_as_they_are_change_nothing() {
    let values = values();
    let replaced = replaced();
    let paths: Vec<_> = replaced.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths, ["image", "imagePullPolicy", "resources.cpu", "resources.memory"]);
    for (found, path) in &replaced {
        let value = values.pointer(&format!("/{}", path.replace('.', "/"))).unwrap();
        let (key, _) = found.split_once(": ").unwrap();
        assert_eq!(*found, format!("{key}: {}", value.as_str().unwrap()), "{path}");
        for (_, manifest) in MODES {
            assert!(read(manifest).contains(found.as_str()), "{manifest} has no {found:?}");
        }
    }
    assert_eq!((&values["mode"], &values["config"]), (&"observe".into(), &"".into()));
}

/// Another configuration replaces the text between these, and the name that holds its hash.
#[test]
fn chart_configuration_has_its_place() {
    for (_, manifest) in MODES {
        let manifest = read(manifest);
        assert_eq!(manifest.matches("  monitor.yaml: |\n").count(), 1);
        assert_eq!(manifest.matches("\nkind: ConfigMap\n").count(), 1);
        let hash = |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).count();
        let hashes: Vec<_> = manifest.split("isobar-config-").skip(1).map(hash).collect();
        assert_eq!(hashes, [10, 10]);
    }
}

#[test]
fn chart_schema_knows_each_value() {
    let schema: Value = serde_json::from_str(&read("helm/isobar/values.schema.json")).unwrap();
    let keys = |map: &Value| map.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let values = values();
    let pairs = [(&schema, &values), (&schema["properties"]["resources"], &values["resources"])];
    for (schema, values) in pairs {
        assert_eq!(keys(&schema["properties"]), keys(values));
        assert_eq!(schema["additionalProperties"], false);
        let mut required: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
        required.sort();
        assert_eq!(required, keys(values));
    }
    let modes = schema["properties"]["mode"]["enum"].as_array().unwrap();
    assert_eq!(*modes, MODES.map(|(mode, _)| Value::from(mode)));
    let chart: Value = serde_saphyr::from_str(&read("helm/isobar/Chart.yaml")).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn chart_renders_the_same_objects() {
    let chart = deploy().join("helm/isobar");
    for (mode, manifest) in MODES {
        let mut helm = Command::new("helm");
        helm.args(["template", "isobar"]).arg(&chart).args(["--set", &format!("mode={mode}")]);
        let Ok(got) = helm.args(["--kube-version", "1.36.0"]).output() else {
            return println!("skipped: helm is not here");
        };
        assert!(got.status.success(), "{}", text(&got.stderr));
        let objects = |yaml: &str| {
            let mut all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
            all.sort_by_key(|one| (one["kind"].to_string(), one["metadata"]["name"].to_string()));
            all
        };
        assert_eq!(objects(&text(&got.stdout)), objects(&read(manifest)), "{mode}");
    }
}
