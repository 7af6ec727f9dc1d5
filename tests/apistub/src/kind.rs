//! The kinds of object that the server stores, and how paths name them.

use serde_json::Value;

use crate::event;

/// One resource of one API version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Empty for the core API.
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    /// What a path may say after the object's name.
    pub(crate) subresources: &'static [&'static str],
    /// Which fields of the object a field selector may name, beside its name and namespace.
    pub(crate) selectable: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// Every version that is served is `v1`.
const VERSION: &str = "v1";

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    Kind { group: "", plural: "namespaces", name: "Namespace", scope: Scope::Cluster,
           subresources: &["status"], selectable: &["status.phase"] },
    Kind { group: "", plural: "nodes", name: "Node", scope: Scope::Cluster,
           subresources: &["status"], selectable: &["spec.unschedulable"] },
    Kind { group: "", plural: "pods", name: "Pod", scope: Scope::Namespaced,
           subresources: &["status", "eviction"],
           selectable: &["spec.nodeName", "status.phase", "spec.restartPolicy", "status.podIP"] },
    Kind { group: "", plural: "events", name: "Event", scope: Scope::Namespaced,
           subresources: &[], selectable: event::CORE_SELECTABLE },
    Kind { group: event::GROUP, plural: "events", name: "Event", scope: Scope::Namespaced,
           subresources: &[], selectable: event::SELECTABLE },
    Kind { group: "policy", plural: "poddisruptionbudgets", name: "PodDisruptionBudget",
           scope: Scope::Namespaced, subresources: &["status"], selectable: &[] },
];

impl Kind {
    pub(crate) fn of_path(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        let found = |kind: &&Self| kind.group == group && kind.plural == plural;
        KINDS.iter().find(found).filter(|_| version == VERSION)
    }

    /// The kind that an object says it is of.
    pub(crate) fn of_object(object: &Value) -> Option<&'static Self> {
        let (api_version, name) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        KINDS.iter().find(|kind| kind.api_version() == api_version && kind.name == name)
    }

    /// The first kind with this plural: events are those of the core API.
    pub(crate) fn of_plural(plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => VERSION.to_owned(),
            group => format!("{group}/{VERSION}"),
        }
    }

    /// As errors name it: `pods`, `poddisruptionbudgets.policy`.
    pub(crate) fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The group in the refusal of an object that is invalid: the server validates its own form, in which
    /// events have none.
    pub(crate) fn internal_group(&self) -> &'static str {
        if self.group == event::GROUP { "" } else { self.group }
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains(&"status")
    }

    /// An object as it is stored, in the form of this API version.
    pub(crate) fn shown(&self, stored: &Value) -> Value {
        let mut object = stored.clone();
        if self.group == event::GROUP {
            event::rename(&mut object, event::Form::Events);
        }
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.name.into();
        object
    }

    /// The other way round. Both versions of an event are one object.
    pub(crate) fn stored(&self, mut shown: Value) -> Value {
        if self.group == event::GROUP {
            event::rename(&mut shown, event::Form::Core);
        }
        shown
    }
}
