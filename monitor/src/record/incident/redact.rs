//! Takes names out of an incident that is given away: of nodes, namespaces, pods, containers,
//! services and cgroups, and annotations and labels altogether. A name is replaced by the same other
//! name wherever it stands. Uids, ids and figures stay, so the copy replays; its decisions are made
//! anew from what is left.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::freeze::{FreezeError, Span, line_of};
use super::shelf::{Draft, ShelfError};
use super::{Incident, Kind, Trigger, name_of};
use crate::record::reader::Recording;
use crate::record::segments::path_of;
use isobar_core::model::units::Nanos;

/// Fields that hold a name.
const NAMES: [&str; 8] =
    ["name", "namespace", "pod", "node", "owner", "taker", "image", "priorityClass"];
/// Fields whose keys are names: what a pod has on disk by container and volume.
const KEYED_BY_NAME: [&str; 2] = ["containers", "volumes"];
/// Fields that hold prose, in which a name may stand.
const PROSE: [&str; 4] = ["message", "detail", "text", "object"];
/// Fields of which only what the kubelet and isobar themselves wrote is kept.
const NOTES: [&str; 2] = ["annotations", "labels"];
/// What pods are joined to their cgroups by, and what isobar goes by.
const KEPT_NOTES: [&str; 3] =
    ["kubernetes.io/config.mirror", "kubernetes.io/config.hash", "isobar"];
/// Cgroups that are called the same everywhere.
const STANDARD: [&str; 6] =
    ["system.slice", "user.slice", "machine.slice", "init.scope", "-.slice", "kubelet.slice"];
const SUFFIXES: [&str; 5] = [".service", ".slice", ".scope", ".mount", ".socket"];

/// Other names for names.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, String>);

/// Writes a redacted copy of an incident's file.
///
/// # Errors
/// If `from` is no incident, or the copy cannot be written.
pub fn redact(from: File, to: File, path: &Path) -> Result<Incident, FreezeError> {
    let place = path_of(&from);
    let incident = line_of(&place)?.incident;
    let mut names = Names::default();
    let incident = names.incident(incident);
    let draft = Draft { path: path.into(), file: to };
    let span = Span::new((Nanos(0), Nanos(u64::MAX)), &draft).redacted(names);
    let told = span.take(Recording::open_alone(&place)?, incident)?;
    draft.file.sync_all().map_err(|source| ShelfError::Io { path: path.into(), source })?;
    Ok(told)
}

impl Names {
    /// The same with other names.
    pub(super) fn of<T: Serialize + DeserializeOwned>(&mut self, what: T) -> Option<T> {
        let mut value = serde_json::to_value(what).ok()?;
        self.replace(&mut value);
        serde_json::from_value(value).ok()
    }

    /// Replaces the names in a document.
    pub fn replace(&mut self, document: &mut Value) {
        self.walk("", document);
    }

    /// What is left of an incident before its ticks are read again.
    fn incident(&mut self, incident: Incident) -> Incident {
        let Incident { state, kinds, begin, end, triggers, node, .. } = incident;
        let triggers: Vec<_> = triggers.into_iter().map(|one| self.trigger(one)).collect();
        let name = triggers.first().map(name_of).unwrap_or_default();
        let who = triggers.first().map(|first| first.who.clone()).unwrap_or_default();
        let node = self.name(&node);
        Incident { name, state, node, kinds, who, begin, end, triggers, ..Incident::default() }
    }

    /// Conditions and signals are called the same everywhere.
    fn trigger(&mut self, trigger: Trigger) -> Trigger {
        if matches!(trigger.kind, Kind::Condition | Kind::Exhaustion) {
            return trigger;
        }
        let who = match trigger.who.starts_with('/') {
            true => self.path(&trigger.who),
            false => self.name(&trigger.who),
        };
        let text = format!("{} of {who}", trigger.kind.name());
        Trigger { who, text, ..trigger }
    }

    fn walk(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::Object(fields) if NOTES.contains(&field) => {
                fields.retain(|key, _| KEPT_NOTES.iter().any(|kept| key.starts_with(kept)));
            }
            Value::Object(fields) => {
                let all = std::mem::take(fields);
                let renamed = all.into_iter().map(|(key, mut value)| {
                    self.walk(&key, &mut value);
                    let key = match key {
                        path if path.starts_with('/') => self.path(&path),
                        name if KEYED_BY_NAME.contains(&field) => self.name(&name),
                        key => key,
                    };
                    (key, value)
                });
                *fields = renamed.collect::<Map<_, _>>();
            }
            Value::Array(all) => all.iter_mut().for_each(|one| {
                let field = if one.is_object() { "" } else { field };
                self.walk(field, one);
            }),
            Value::String(text) if text.starts_with('/') => *text = self.path(text),
            Value::String(text) if NAMES.contains(&field) => *text = self.name(text),
            Value::String(text) if PROSE.contains(&field) => "redacted".clone_into(text),
            _ => {}
        }
    }

    fn name(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let n = self.0.len() + 1;
        self.0.entry(name.into()).or_insert_with(|| format!("name-{n}")).clone()
    }

    fn path(&mut self, path: &str) -> String {
        let parts: Vec<_> = path.split('/').map(|part| self.segment(part)).collect();
        parts.join("/")
    }

    fn segment(&mut self, segment: &str) -> String {
        if segment.is_empty() || STANDARD.contains(&segment) || is_of_kubelet(segment) {
            return segment.into();
        }
        let suffix = SUFFIXES.iter().find(|suffix| segment.ends_with(**suffix)).unwrap_or(&"");
        let stem = segment.strip_suffix(suffix).unwrap_or(segment);
        format!("{}{suffix}", self.name(stem))
    }
}

/// The cgroup of all pods, of a class, of a pod by its uid or of a container by its id.
fn is_of_kubelet(segment: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit() || b"-_".contains(&b));
    let id = segment.strip_suffix(".scope").unwrap_or(segment);
    let id = ["cri-containerd-", "crio-", "docker-", "pod"]
        .iter()
        .find_map(|prefix| id.strip_prefix(prefix))
        .unwrap_or(id);
    segment.starts_with("kubepods")
        || matches!(segment, "burstable" | "besteffort")
        || id.len() >= 32 && is_hex(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn walk_replaces_names_and_keeps_what_joins() {
        #[rustfmt::skip]
        let table = [
            // before, after
            (json!({"name": "web", "namespace": "shop"}),       json!({"name": "name-1", "namespace": "name-2"})),
            (json!([{"name": "web"}, {"taker": "web"}]),        json!([{"name": "name-1"}, {"taker": "name-1"}])),
            (json!({"path": "/system.slice/pay.service"}),      json!({"path": "/system.slice/name-1.service"})),
            (json!({"path": "/kubepods.slice/kubepods-pod3f2a.slice"}), json!({"path": "/kubepods.slice/kubepods-pod3f2a.slice"})),
            (json!({"path": "/"}),                              json!({"path": "/"})),
            (json!({"uid": "3f2a", "currentBytes": 5}),         json!({"uid": "3f2a", "currentBytes": 5})),
            (json!({"annotations": {"team": "pay", "isobar.io/evict": "never"}}), json!({"annotations": {"isobar.io/evict": "never"}})),
            (json!({"message": "web is evicted"}),              json!({"message": "redacted"})),
            (json!({"volumes": [{"name": "pay"}], "on": {"volumes": {"pay": {"bytes": 1}}}}),
             json!({"volumes": [{"name": "name-1"}], "on": {"volumes": {"name-1": {"bytes": 1}}}})),
            (json!({"containers": {"pay": {"layer": {"bytes": 1}}}}), json!({"containers": {"name-1": {"layer": {"bytes": 1}}}})),
            (json!({"/pay.service": 1}),                        json!({"/name-1.service": 1})),
        ];
        for (before, want) in table {
            let mut got = before.clone();
            Names::default().walk("", &mut got);
            assert_eq!(got, want, "{before}");
        }
    }
}
