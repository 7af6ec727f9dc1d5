//! Lists: the objects that a selection means, whole or in pieces of one version.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::cluster::Cluster;
use crate::event;
use crate::kind::Kind;
use crate::select::{Fields, Labels};
use crate::status::{Cause, Failure};
use crate::store::{Key, Store};

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list \
                       result. You must start a new list without the continue parameter.";

/// Which objects of a kind a list or a watch means.
#[derive(Debug)]
pub(crate) struct Selection {
    kind: &'static Kind,
    namespace: String,
    labels: Labels,
    fields: Fields,
}

impl Selection {
    pub(crate) fn read(call: &Call, kind: &'static Kind) -> Result<Self, Failure> {
        let labels = Labels::parse(call.option("labelSelector").unwrap_or(""))?;
        let fields = Fields::parse(call.option("fieldSelector").unwrap_or(""))?;
        fields.check(kind)?;
        Ok(Self { kind, namespace: call.namespace.clone(), labels, fields })
    }

    pub(crate) fn has(&self, key: &Key, object: &Value) -> bool {
        let here = key.resource == self.kind.plural
            && (self.namespace.is_empty() || self.namespace == key.namespace);
        here && self.labels.matches(object) && self.has_fields(object)
    }

    fn has_fields(&self, object: &Value) -> bool {
        match self.kind.group {
            event::GROUP => self.fields.matches(&self.kind.shown(object)),
            _ => self.fields.matches(object),
        }
    }

    fn is_whole(&self) -> bool {
        self.labels == Labels::default() && self.fields == Fields::default()
    }
}

/// Where a list goes on: the version of its first piece, and the last object of this one.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    version: u64,
    last: (String, String),
}

impl Token {
    fn write(&self) -> String {
        let (namespace, name) = &self.last;
        BASE64_URL_SAFE_NO_PAD.encode(json!([self.version, namespace, name]).to_string())
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, namespace, name) = serde_json::from_slice(&bytes).ok()?;
        Some(Self { version, last: (namespace, name) })
    }
}

pub(crate) fn list(cluster: &Cluster, call: &Call, kind: &'static Kind) -> Result<Answer, Failure> {
    let selection = Selection::read(call, kind)?;
    check_options(call)?;
    let token = match call.option("continue") {
        Some(text) => Some(Token::read(text).ok_or_else(|| {
            Failure::bad_request("continue key is not valid: it is not one that this server gave")
        })?),
        None => None,
    };
    let store = cluster.read();
    let (version, objects) = objects(&store, call, kind, token.as_ref())?;
    drop(store);
    // A list from the server's cache is never in pieces.
    let limit = match (call.option("limit"), call.option("resourceVersion")) {
        (Some(_), Some("0")) | (None, _) => usize::MAX,
        (Some(text), _) => text.parse().ok().filter(|n| *n > 0).unwrap_or(usize::MAX),
    };
    let after = token.map(|token| token.last);
    let meant = objects.iter().filter(|(key, object)| selection.has(key, object));
    let mut rest = meant
        .skip_while(|(key, _)| {
            after
                .as_ref()
                .is_some_and(|(namespace, name)| (&key.namespace, &key.name) <= (namespace, name))
        })
        .peekable();
    let mut items = Vec::new();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    while let Some((key, object)) = rest.next() {
        items.push(item(kind, object));
        if items.len() == limit && rest.peek().is_some() {
            let last = (key.namespace.clone(), key.name.clone());
            metadata["continue"] = Token { version, last }.write().into();
            if selection.is_whole() {
                metadata["remainingItemCount"] = rest.count().into();
            }
            break;
        }
    }
    let list = json!({
        "kind": format!("{}List", kind.name),
        "apiVersion": kind.api_version(),
        "metadata": metadata,
        "items": items,
    });
    Ok(Answer::Object(200, list))
}

/// The kind is said once for the whole list.
fn item(kind: &Kind, object: &Value) -> Value {
    let mut item = kind.shown(object);
    if let Some(fields) = item.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    item
}

type Objects = BTreeMap<Key, Arc<Value>>;

fn objects(
    store: &Store,
    call: &Call,
    kind: &Kind,
    token: Option<&Token>,
) -> Result<(u64, Objects), Failure> {
    if let Some(token) = token {
        let objects = store.at(token.version, kind.plural);
        return objects.map(|o| (token.version, o)).map_err(|_| Failure::expired(TOO_OLD));
    }
    let asked = resource_version(call)?.unwrap_or(0);
    let version = store.version();
    if asked > version {
        return Err(too_large(asked, version));
    }
    let exact = call.option("resourceVersionMatch") == Some("Exact")
        || (call.option("limit").is_some() && asked > 0);
    let version = if exact { asked } else { version };
    let objects = store.at(version, kind.plural);
    objects
        .map(|o| (version, o))
        .map_err(|_| Failure::expired("The resourceVersion for the provided list is too old."))
}

/// None without one.
pub(crate) fn resource_version(call: &Call) -> Result<Option<u64>, Failure> {
    let Some(text) = call.option("resourceVersion") else { return Ok(None) };
    let wrong = |_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Failure::bad_request(format!("resourceVersion: Invalid value: {text:?}: {why}"))
    };
    text.parse().map(Some).map_err(wrong)
}

fn too_large(asked: u64, version: u64) -> Failure {
    let message = format!("Too large resource version: {asked}, current: {version}");
    let mut failure = Failure::new(504, "Timeout", format!("Timeout: {message}"));
    let cause =
        json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    failure.detail("causes", json!([cause]));
    failure.detail("retryAfterSeconds", 1.into());
    failure
}

/// What `ValidateListOptions` refuses.
pub(crate) fn check_options(call: &Call) -> Result<(), Failure> {
    let matching = call.option("resourceVersionMatch");
    let watches = call.verb == "watch";
    let initial = call.option("sendInitialEvents");
    let mut wrong = Vec::new();
    let mut forbid = |field: &str, why: &str| wrong.push(Cause::forbidden(field, why));
    if let Some(matching) = matching {
        if watches && initial.is_none() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbid("resourceVersionMatch", why);
        }
        if !watches && call.option("resourceVersion").is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            forbid("resourceVersionMatch", why);
        }
        if call.option("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            forbid("resourceVersionMatch", why);
        }
        if matching == "Exact" && call.option("resourceVersion") == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            forbid("resourceVersionMatch", why);
        }
    }
    if initial.is_some() && !watches {
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    if initial.is_some() && watches && matching != Some("NotOlderThan") {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        forbid("resourceVersionMatch", why);
    }
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(Failure::invalid("meta.k8s.io", "ListOptions", "", wrong)),
    }
}
