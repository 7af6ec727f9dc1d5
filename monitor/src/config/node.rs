//! What is reserved on the node, and how it is enforced: the kubelet's checks, with its error texts.
//! Source: kubelet `pkg/kubelet/apis/config/validation`, `ValidateKubeletConfiguration`, and
//! `cmd/kubelet/app`, `parseResourceList`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use isobar_core::model::cpuset::{CpuSet, CpuSetError};
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::{Enforcement, Node, WrittenLimit};

use super::fields::Field;
use super::layers::Layers;

const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

pub(super) fn settings(layers: &Layers<'_>) -> Node {
    let reserved_cpus = reserved_cpus(layers);
    let mut kube_reserved = reservation(layers, "kubeReserved", "--kube-reserved");
    let mut system_reserved = reservation(layers, "systemReserved", "--system-reserved");
    // As in the kubelet, the explicit list replaces both amounts.
    if let Some(cpus) = &reserved_cpus {
        kube_reserved.remove("cpu");
        let n_cpus = u64::try_from(cpus.0.len()).unwrap_or(u64::MAX);
        system_reserved.insert("cpu".into(), Quantity::count(n_cpus));
    }
    check_cgroups(layers);
    check_memory_qos(layers);
    Node {
        kube_reserved,
        system_reserved,
        kube_reserved_cgroup: layers.text("kubeReservedCgroup").into(),
        system_reserved_cgroup: layers.text("systemReservedCgroup").into(),
        kubelet_cgroups: layers.text("kubeletCgroups").into(),
        system_cgroups: layers.text("systemCgroups").into(),
        enforce: enforcement(layers),
        reserved_cpus,
        static_cpus: layers.text("cpuManagerPolicy") == "static",
        strict_cpu_reservation: cpu_options(layers),
        min_shared_cpus: layers.number("minSharedCPUs"),
        cgroup_driver: layers.word("cgroupDriver"),
        cgroup_root: layers.text("cgroupRoot").into(),
        cgroups_per_qos: layers.flag("cgroupsPerQOS"),
        pod_pids_limit: layers.number("podPidsLimit"),
        max_pods: count(layers, "maxPods", "--max-pods"),
        pods_per_core: count(layers, "podsPerCore", "--pods-per-core"),
        kubelet_root: layers.text("kubeletRoot").into(),
        pods_file: String::new(),
        write_limits: layers
            .words("writeLimits", &WrittenLimit::NAMED)
            .iter()
            .map(|(w, _)| *w)
            .collect(),
    }
}

fn invalid(field: &Field<'_>, message: &str) {
    field.problem(format!("invalid configuration: {message}"));
}

fn count(layers: &Layers<'_>, path: &str, flag: &str) -> u32 {
    let number: i64 = layers.number(path);
    let count = u32::try_from(number);
    if let (Err(_), Some(field)) = (count, layers.given(path)) {
        invalid(field, &format!("{path} ({flag}) {number} must not be a negative number"));
    }
    count.unwrap_or_default()
}

fn reservation(layers: &Layers<'_>, path: &str, flag: &str) -> ResourceList {
    let amount = |(resource, field): (&str, Field<'_>)| {
        let amount = amount(resource, field.scalar("a quantity")?);
        let problem = |why| field.problem(format!("{flag} value failed to parse: {why}"));
        Some((resource.into(), amount.map_err(problem).ok()?))
    };
    layers.entries(path).into_iter().filter_map(amount).collect()
}

fn amount(resource: &str, text: &str) -> Result<Quantity, String> {
    if !RESERVABLE.contains(&resource) {
        return Err(format!("cannot reserve {resource:?} resource"));
    }
    let quantity: Quantity = text.parse().map_err(|error| {
        format!("failed to parse quantity {text:?} for {resource:?} resource: {error}")
    })?;
    if quantity.is_negative() {
        return Err(format!("resource quantity for {resource:?} cannot be negative: {text}"));
    }
    Ok(quantity)
}

fn reserved_cpus(layers: &Layers<'_>) -> Option<CpuSet> {
    let field = layers.given("reservedSystemCPUs")?;
    let text = field.text().filter(|text| !text.is_empty())?;
    let has_cgroup = |path| !layers.text(path).is_empty();
    if has_cgroup("systemReservedCgroup") || has_cgroup("kubeReservedCgroup") {
        invalid(
            field,
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup \
             (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
        );
    }
    let what = "unable to parse reservedSystemCPUs (--reserved-cpus)";
    let problem = |error: CpuSetError| {
        invalid(field, &format!("{what} {text}, error: {}", error.in_go()));
    };
    text.parse().map_err(problem).ok()
}

const ENFORCE: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";

fn enforcement(layers: &Layers<'_>) -> BTreeSet<Enforcement> {
    let path = "enforceNodeAllocatable";
    let items = layers.list(path).into_iter();
    let items: Vec<_> = items.filter_map(|item| Some((item.text()?, item))).collect();
    let has = |value: &str| items.iter().any(|(item, _)| *item == value);
    if let Some(field) = layers.given(path) {
        for daemons in ["system-reserved", "kube-reserved"] {
            let compressible = format!("{daemons}-compressible");
            if has(daemons) && has(&compressible) {
                let both = format!("both {daemons:?} and {compressible:?}");
                invalid(field, &format!("{both} cannot be specified together in {ENFORCE}"));
            }
        }
        if has("none") && items.len() > 1 {
            let what = "may not contain additional enforcements when";
            invalid(field, &format!("{ENFORCE} {what} \"none\" is specified"));
        }
    }
    let mut enforce = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (value, item) in &items {
        if !seen.insert(*value) {
            invalid(item, &format!("duplicated enforcements {value:?} in {ENFORCE}"));
            continue;
        }
        let one = match *value {
            "none" => continue,
            "pods" => Enforcement::Pods,
            "system-reserved" => Enforcement::SystemReserved,
            "system-reserved-compressible" => Enforcement::SystemReservedCompressible,
            "kube-reserved" => Enforcement::KubeReserved,
            "kube-reserved-compressible" => Enforcement::KubeReservedCompressible,
            _ => {
                let valid = "\"pods\", \"system-reserved\", \"system-reserved-compressible\", \
                             \"kube-reserved\", \"kube-reserved-compressible\" or \"none\"";
                let what = format!("option {value:?} specified for {ENFORCE}");
                invalid(item, &format!("{what}. Valid options are {valid}"));
                continue;
            }
        };
        check_requirements(layers, item, one, value);
        enforce.insert(one);
    }
    enforce
}

/// Checks the other keys that an enforcement requires.
fn check_requirements(layers: &Layers<'_>, item: &Field<'_>, one: Enforcement, value: &str) {
    let required = match one {
        Enforcement::Pods => None,
        Enforcement::SystemReserved | Enforcement::SystemReservedCompressible => {
            Some(("system-reserved", "systemReservedCgroup", "--system-reserved-cgroup"))
        }
        Enforcement::KubeReserved | Enforcement::KubeReservedCompressible => {
            Some(("kube-reserved", "kubeReservedCgroup", "--kube-reserved-cgroup"))
        }
    };
    if let Some((daemons, path, flag)) =
        required.filter(|(_, path, _)| layers.text(path).is_empty())
    {
        let either = format!("\"{daemons}\" or \"{daemons}-compressible\"");
        let what = format!("{path} ({flag}) must be specified when");
        invalid(item, &format!("{what} {either} included in {ENFORCE}"));
    }
    if !layers.flag("cgroupsPerQOS") {
        // Enforcing pods is the default: then the other key is the one that a file has.
        let given = layers.given("enforceNodeAllocatable").map(|_| item);
        let what = "cgroupsPerQOS (--cgroups-per-qos) must be set to true when";
        if let Some(field) = given.or_else(|| layers.given("cgroupsPerQOS")) {
            invalid(field, &format!("{what} {value:?} contained in {ENFORCE}"));
        }
    }
}

fn check_cgroups(layers: &Layers<'_>) {
    let field = layers.given("systemCgroups").filter(|_| !layers.text("systemCgroups").is_empty());
    if let Some(field) = field.filter(|_| layers.text("cgroupRoot").is_empty()) {
        let (given, missing) = ("systemCgroups (--system-cgroups)", "cgroupRoot (--cgroup-root)");
        invalid(field, &format!("{given} was specified and {missing} was not specified"));
    }
}

fn check_memory_qos(layers: &Layers<'_>) {
    if let Some(field) = layers.given("memoryThrottlingFactor") {
        let text = layers.text("memoryThrottlingFactor");
        if !text.parse::<f64>().is_ok_and(|factor| factor > 0.0 && factor <= 1.0) {
            let what = "must be greater than 0 and less than or equal to 1.0";
            invalid(field, &format!("memoryThrottlingFactor {text} {what}"));
        }
    }
    let Some(field) = layers.given("memoryReservationPolicy") else { return };
    let gates = layers.entries("featureGates");
    let gate = |name| gates.iter().find(|(gate, _)| *gate == name).and_then(|(_, on)| on.flag());
    // An alpha feature: the one gate of all of them opens it, unless it has a word of its own.
    let is_on = gate("MemoryQoS").or_else(|| gate("AllAlpha")) == Some(true);
    let policy = layers.text("memoryReservationPolicy");
    match policy {
        "None" | "" => {}
        "TieredReservation" if is_on => {}
        "TieredReservation" => {
            let what = "requires feature gate MemoryQoS";
            invalid(field, &format!("memoryReservationPolicy {policy} {what}"));
        }
        other => {
            let what = "must be one of None, TieredReservation";
            invalid(field, &format!("memoryReservationPolicy {other:?} {what}"));
        }
    }
}

/// Checks the options of the static policy. True if CPUs are reserved strictly.
fn cpu_options(layers: &Layers<'_>) -> bool {
    const OPTIONS: [&str; 6] = [
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ];
    let mut is_strict = false;
    let options = layers.entries("cpuManagerPolicyOptions");
    if layers.text("cpuManagerPolicy") != "static"
        && let Some((option, field)) = options.first()
    {
        field.problem(format!(
            "{option:?} is an option of cpuManagerPolicy static; with none the kubelet does not start"
        ));
    }
    for (option, field) in options {
        if !OPTIONS.contains(&option) {
            let what = format!("unsupported CPU manager option {option:?}");
            field.problem(format!("{what}, expected one of {}", OPTIONS.join(", ")));
            continue;
        }
        // Go's ParseBool.
        match field.scalar("true or false") {
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => {
                is_strict |= option == "strict-cpu-reservation";
            }
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => {}
            Some(other) => field.problem(format!(
                "bad value for option {option:?}: {other:?} is not true or false"
            )),
        }
    }
    is_strict
}
