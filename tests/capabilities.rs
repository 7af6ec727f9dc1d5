//! The capabilities of the restricted profile, and how a process is left with them alone.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use serde_json::Value;

/// Components of deploy/kustomize that add capabilities to none.
const COMPONENTS: [(&str, &str); 2] = [
    ("restricted", include_str!("../deploy/kustomize/components/restricted/daemonset.yaml")),
    (
        "restricted-enforce",
        include_str!("../deploy/kustomize/components/restricted-enforce/capabilities.yaml"),
    ),
];

/// Capabilities that these components add together; `None` if one is missing, or adds an unknown one.
pub(crate) fn added(components: &[impl AsRef<str>]) -> Option<CapabilitySet> {
    let mut all = CapabilitySet::empty();
    for component in components {
        let (_, text) = COMPONENTS.iter().find(|(name, _)| *name == component.as_ref())?;
        for name in names(&serde_saphyr::from_str(text).ok()?)? {
            all |= CapabilitySet::from_name(&name)?;
        }
    }
    Some(all)
}

/// The capabilities that a patch adds: a merge, or operations.
fn names(patch: &Value) -> Option<Vec<String>> {
    let place = "/spec/template/spec/containers/0/securityContext/capabilities/add";
    let merged = patch.pointer(place).and_then(Value::as_array).into_iter().flatten();
    let operations = patch.as_array().into_iter().flatten();
    let added = operations.filter(|one| one["path"] == format!("{place}/-"));
    let all = merged.chain(added.map(|one| &one["value"]));
    all.map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Leaves this thread, and what it executes, with these and no way to more, as a container runtime does.
pub(crate) fn keep_alone(these: CapabilitySet) -> io::Result<()> {
    for other in (CapabilitySet::all() - these).iter() {
        // A kernel knows no capabilities that came after it.
        let _ = remove_capability_from_bounding_set(other);
    }
    // Not every machine lets even root have all.
    let kept = these & capabilities(None)?.permitted;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    Ok(set_no_new_privs(true)?)
}
