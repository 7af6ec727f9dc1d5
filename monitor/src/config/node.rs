//! What is set aside on the node, and how it is enforced: the kubelet's checks, in its words.
//! Source: kubelet `pkg/kubelet/apis/config/validation`, `ValidateKubeletConfiguration`, and
//! `cmd/kubelet/app`, `parseResourceList`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::{CgroupDriver, Enforcement, Node, WrittenLimit};

use super::fields::Field;
use super::found::Layers;

/// What may be set aside.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

pub(super) fn settings(layers: &Layers<'_>) -> Node {
    let reserved_cpus = reserved_cpus(layers);
    let mut kube_reserved = reservation(layers, "kubeReserved", "--kube-reserved");
    let mut system_reserved = reservation(layers, "systemReserved", "--system-reserved");
    // As the kubelet has it: the explicit list takes the place of both amounts.
    if let Some(cpus) = &reserved_cpus {
        kube_reserved.remove("cpu");
        let n_cpus = u64::try_from(cpus.0.len()).unwrap_or(u64::MAX);
        system_reserved.insert("cpu".into(), Quantity::count(n_cpus));
    }
    let enforce = enforcement(layers);
    cgroups(layers);
    memory(layers);
    Node {
        kube_reserved,
        system_reserved,
        kube_reserved_cgroup: layers.text("kubeReservedCgroup").into(),
        system_reserved_cgroup: layers.text("systemReservedCgroup").into(),
        enforce,
        reserved_cpus,
        static_cpus: layers.text("cpuManagerPolicy") == "static",
        strict_cpu_reservation: cpu_options(layers),
        min_shared_cpus: layers.number("minSharedCPUs"),
        cgroup_driver: match layers.text("cgroupDriver") {
            "systemd" => CgroupDriver::Systemd,
            _ => CgroupDriver::Cgroupfs,
        },
        cgroup_root: layers.text("cgroupRoot").into(),
        cgroups_per_qos: layers.flag("cgroupsPerQOS"),
        pod_pids_limit: layers.number("podPidsLimit"),
        max_pods: count(layers, "maxPods", "--max-pods"),
        pods_per_core: count(layers, "podsPerCore", "--pods-per-core"),
        kubelet_root: layers.text("kubeletRoot").into(),
        pods_file: String::new(),
        write_limits: write_limits(layers),
    }
}

fn write_limits(layers: &Layers<'_>) -> BTreeSet<WrittenLimit> {
    let named = |word: &str| match word {
        "allocatable" => Some(WrittenLimit::Allocatable),
        "reservedCpus" => Some(WrittenLimit::ReservedCpus),
        _ => None,
    };
    let items = layers.list("writeLimits").into_iter();
    items.filter_map(|item| named(item.text()?)).collect()
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
    let mut list = ResourceList::new();
    for (resource, field) in layers.entries(path) {
        let Some(text) = field.scalar("a quantity") else { continue };
        match amount(resource, text) {
            Ok(quantity) => {
                list.insert(resource.into(), quantity);
            }
            Err(why) => field.problem(format!("{flag} value failed to parse: {why}")),
        }
    }
    list
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
    match text.parse() {
        Ok(cpus) => Some(cpus),
        Err(error) => {
            let what = "unable to parse reservedSystemCPUs (--reserved-cpus)";
            invalid(field, &format!("{what} {text}, error: {error}"));
            None
        }
    }
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
                invalid(
                    field,
                    &format!(
                        "both {daemons:?} and {compressible:?} cannot be specified together in {ENFORCE}"
                    ),
                );
            }
        }
        let is_none_mixed = has("none") && items.len() > 1;
        if is_none_mixed {
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
                invalid(
                    item,
                    &format!(
                        "option {value:?} specified for {ENFORCE}. Valid options are \"pods\", \
                         \"system-reserved\", \"system-reserved-compressible\", \"kube-reserved\", \
                         \"kube-reserved-compressible\" or \"none\""
                    ),
                );
                continue;
            }
        };
        let_it_work(layers, item, one, value);
        enforce.insert(one);
    }
    enforce
}

/// What an enforcement needs beside it.
fn let_it_work(layers: &Layers<'_>, item: &Field<'_>, one: Enforcement, value: &str) {
    let needs = |daemons: &str, path: &str, flag: &str| {
        if layers.text(path).is_empty() {
            invalid(
                item,
                &format!(
                    "{path} ({flag}) must be specified when \"{daemons}\" or \
                     \"{daemons}-compressible\" included in {ENFORCE}"
                ),
            );
        }
    };
    match one {
        Enforcement::Pods => {}
        Enforcement::SystemReserved | Enforcement::SystemReservedCompressible => {
            needs("system-reserved", "systemReservedCgroup", "--system-reserved-cgroup");
        }
        Enforcement::KubeReserved | Enforcement::KubeReservedCompressible => {
            needs("kube-reserved", "kubeReservedCgroup", "--kube-reserved-cgroup");
        }
    }
    if !layers.flag("cgroupsPerQOS") {
        // Enforcing pods is the default: then the other key is the one that a file has.
        let given = layers.given("enforceNodeAllocatable").map(|_| item);
        let message = format!(
            "cgroupsPerQOS (--cgroups-per-qos) must be set to true when {value:?} contained in {ENFORCE}"
        );
        if let Some(field) = given.or_else(|| layers.given("cgroupsPerQOS")) {
            invalid(field, &message);
        }
    }
}

fn cgroups(layers: &Layers<'_>) {
    let field = layers.given("systemCgroups").filter(|_| !layers.text("systemCgroups").is_empty());
    if let Some(field) = field.filter(|_| layers.text("cgroupRoot").is_empty()) {
        let (given, missing) = ("systemCgroups (--system-cgroups)", "cgroupRoot (--cgroup-root)");
        invalid(field, &format!("{given} was specified and {missing} was not specified"));
    }
}

fn memory(layers: &Layers<'_>) {
    if let Some(field) = layers.given("memoryThrottlingFactor") {
        let text = layers.text("memoryThrottlingFactor");
        let is_within = text.parse::<f64>().is_ok_and(|factor| factor > 0.0 && factor <= 1.0);
        if !is_within {
            let what = "must be greater than 0 and less than or equal to 1.0";
            invalid(field, &format!("memoryThrottlingFactor {text} {what}"));
        }
    }
    let Some(field) = layers.given("memoryReservationPolicy") else { return };
    let gates = layers.entries("featureGates");
    let is_on = gates.iter().any(|(gate, on)| *gate == "MemoryQoS" && on.flag() == Some(true));
    match layers.text("memoryReservationPolicy") {
        "None" | "" => {}
        "TieredReservation" if is_on => {}
        "TieredReservation" => {
            invalid(
                field,
                "memoryReservationPolicy TieredReservation requires feature gate MemoryQoS",
            );
        }
        other => invalid(
            field,
            &format!("memoryReservationPolicy {other:?} must be one of None, TieredReservation"),
        ),
    }
}

/// Options of the static policy that exist; whether CPUs are reserved strictly.
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
    for (option, field) in layers.entries("cpuManagerPolicyOptions") {
        if !OPTIONS.contains(&option) {
            field.problem(format!(
                "unsupported CPU manager option {option:?}, expected one of {}",
                OPTIONS.join(", ")
            ));
            continue;
        }
        // Go's ParseBool.
        let Some(text) = field.scalar("true or false") else { continue };
        let is_on = match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            other => {
                field.problem(format!(
                    "bad value for option {option:?}: {other:?} is not true or false"
                ));
                continue;
            }
        };
        is_strict |= option == "strict-cpu-reservation" && is_on;
    }
    is_strict
}
