//! Who may come in, and what the client may do then.

use crate::call::Call;
use crate::rbac::Rules;
use crate::status::Failure;

/// Without tokens every client may come in, without rules it may do everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) tokens: Option<Vec<String>>,
    pub(crate) rules: Option<Rules>,
}

impl Access {
    pub(crate) fn check(&self, call: &Call) -> Result<(), Failure> {
        let token = call.authorization.strip_prefix("Bearer ").unwrap_or("");
        if self.tokens.as_ref().is_some_and(|tokens| !tokens.iter().any(|t| t == token)) {
            return Err(Failure::new(401, "Unauthorized", "Unauthorized"));
        }
        match self.rules.as_ref().is_none_or(|rules| rules.allow(call)) {
            true => Ok(()),
            false => Err(forbidden(call)),
        }
    }
}

/// By whom, as the server would name a service account.
const USER: &str = "system:serviceaccount:isobar:isobar";

pub(crate) fn forbidden(call: &Call) -> Failure {
    let Call { verb, group, resource, subresource, namespace, name, path, .. } = call;
    if resource.is_empty() {
        let message = format!("forbidden: User {USER:?} cannot {verb} path {path:?}");
        return Failure::new(403, "Forbidden", message);
    }
    let on = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    let named = if name.is_empty() { String::new() } else { format!("{name:?} ") };
    let full =
        if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
    let place = match namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let what = format!("cannot {verb} resource {full:?} in API group {group:?} {place}");
    let message = format!("{on} {named}is forbidden: User {USER:?} {what}");
    let mut failure = Failure::new(403, "Forbidden", message);
    for (key, value) in [("name", name), ("group", group), ("kind", resource)] {
        if !value.is_empty() {
            failure.detail(key, value.as_str().into());
        }
    }
    failure
}
