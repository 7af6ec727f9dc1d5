//! The objects, by one resourceVersion that grows with each change, and every change since the last
//! compaction: what lists that go on and watches that resume are answered from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Changes that are kept; older ones are compacted away.
const LONGEST_HISTORY: usize = 50_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The plural. Both versions of an event have the same.
    pub(crate) resource: &'static str,
    /// Empty where objects have none.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// The version asked for is older than the last compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted;

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
    history: VecDeque<Change>,
    compacted: u64,
}

impl Store {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// All objects of a resource, in the order of namespace and name.
    pub(crate) fn all(&self, resource: &str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| key.resource == resource)
    }

    /// Stores an object under the next version, with what the server owns of its metadata.
    pub(crate) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = key.name.clone().into();
        if !key.namespace.is_empty() {
            metadata["namespace"] = key.namespace.clone().into();
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = uid(self.version).into();
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = now().into();
        }
        metadata["resourceVersion"] = self.version.to_string().into();
        let after = Arc::new(object);
        let before = self.objects.insert(key.clone(), after.clone());
        self.remember(Change { version: self.version, key, before, after: Some(after.clone()) });
        after
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        let gone = Some(before.clone());
        let key = key.clone();
        self.remember(Change { version: self.version, key, before: gone, after: None });
        Some(before)
    }

    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        while self.history.len() > LONGEST_HISTORY {
            let oldest = self.history.pop_front();
            self.compacted = oldest.map_or(self.compacted, |change| change.version);
        }
    }

    /// Forgets all changes up to now.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    /// The changes after `version`, oldest first.
    pub(crate) fn since(&self, version: u64) -> Result<impl Iterator<Item = &Change>, Compacted> {
        if version < self.compacted {
            return Err(Compacted);
        }
        let first = self.history.partition_point(|change| change.version <= version);
        Ok(self.history.range(first..))
    }

    /// The objects of a resource as they were at `version`: all changes since, undone.
    pub(crate) fn at(
        &self,
        version: u64,
        resource: &str,
    ) -> Result<BTreeMap<Key, Arc<Value>>, Compacted> {
        let mut objects: BTreeMap<_, _> =
            self.all(resource).map(|(key, object)| (key.clone(), object.clone())).collect();
        let changes: Vec<_> = self.since(version)?.collect();
        for change in changes.into_iter().rev().filter(|c| c.key.resource == resource) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects)
    }
}

/// The same in every run, so that a test can expect it.
fn uid(version: u64) -> String {
    format!("00000000-0000-4000-8000-{version:012x}")
}

/// The current time as the server writes it: in whole seconds.
pub(crate) fn now() -> String {
    time(Timestamp::now())
}

pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A namespace as the server makes it.
pub(crate) fn namespace(name: &str) -> (Key, Value) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    let key = Key { resource: "namespaces", namespace: String::new(), name: name.to_owned() };
    (key, object)
}
