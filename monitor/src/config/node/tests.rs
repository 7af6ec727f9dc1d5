use std::path::Path;

use crate::config::{self, Invalid};
use isobar_core::model::settings::Node;

fn read(fields: &str) -> Result<Node, Invalid> {
    let text = format!("apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n{fields}\n");
    config::settings(&text, "f", Path::new("")).map(|settings| settings.node)
}

const ENFORCE: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";

#[test]
fn settings_refuses_what_the_kubelet_refuses() {
    let both = |daemons: &str| {
        format!(
            "both \"{daemons}\" and \"{daemons}-compressible\" cannot be specified together in {ENFORCE}"
        )
    };
    let needs = |daemons: &str, key: &str, flag: &str| {
        format!(
            "{key} ({flag}) must be specified when \"{daemons}\" or \"{daemons}-compressible\" included in {ENFORCE}"
        )
    };
    let per_qos =
        "cgroupsPerQOS (--cgroups-per-qos) must be set to true when \"pods\" contained in";
    let cpus = "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup \
                (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)";
    #[rustfmt::skip]
    let table = [
        // fields from line 3 on, line:column, message
        ("systemReservedCgroup: /a\nenforceNodeAllocatable: [system-reserved, system-reserved-compressible]", "4:25", both("system-reserved")),
        ("kubeReservedCgroup: /a\nenforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]", "4:25", both("kube-reserved")),
        ("enforceNodeAllocatable:\n- pods\n- pods", "5:3", format!("duplicated enforcements \"pods\" in {ENFORCE}")),
        ("enforceNodeAllocatable: [system-reserved]", "3:26", needs("system-reserved", "systemReservedCgroup", "--system-reserved-cgroup")),
        ("enforceNodeAllocatable: [kube-reserved-compressible]", "3:26", needs("kube-reserved", "kubeReservedCgroup", "--kube-reserved-cgroup")),
        ("enforceNodeAllocatable: [none, pods]", "3:25", format!("{ENFORCE} may not contain additional enforcements when \"none\" is specified")),
        ("enforceNodeAllocatable: [pod]", "3:26", format!("option \"pod\" specified for {ENFORCE}. Valid options are \"pods\", \"system-reserved\", \"system-reserved-compressible\", \"kube-reserved\", \"kube-reserved-compressible\" or \"none\"")),
        ("enforceNodeAllocatable: [pods]\ncgroupsPerQOS: false", "3:26", format!("{per_qos} {ENFORCE}")),
        ("cgroupsPerQOS: false", "3:16", format!("{per_qos} {ENFORCE}")), // pods is the default
        ("reservedSystemCPUs: 0-1\nkubeReservedCgroup: /a", "3:21", cpus.into()),
        ("reservedSystemCPUs: 0-x", "3:21", "unable to parse reservedSystemCPUs (--reserved-cpus) 0-x, error: strconv.Atoi: parsing \"x\": invalid syntax".into()),
        ("systemCgroups: /a", "3:16", "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified".into()),
        ("memoryThrottlingFactor: 1.1", "3:25", "memoryThrottlingFactor 1.1 must be greater than 0 and less than or equal to 1.0".into()),
        ("memoryReservationPolicy: TieredReservation", "3:26", "memoryReservationPolicy TieredReservation requires feature gate MemoryQoS".into()),
        ("featureGates: {AllBeta: true}\nmemoryReservationPolicy: TieredReservation", "4:26", "memoryReservationPolicy TieredReservation requires feature gate MemoryQoS".into()),
        ("featureGates: {AllAlpha: true, MemoryQoS: false}\nmemoryReservationPolicy: TieredReservation", "4:26", "memoryReservationPolicy TieredReservation requires feature gate MemoryQoS".into()),
        ("memoryReservationPolicy: All", "3:26", "memoryReservationPolicy \"All\" must be one of None, TieredReservation".into()),
        ("maxPods: -1", "3:10", "maxPods (--max-pods) -1 must not be a negative number".into()),
    ];
    for (fields, place, message) in table {
        let invalid = read(fields).expect_err(fields);
        let text = invalid.to_string();
        assert!(text.starts_with(&format!("f:{place}: ")), "{fields}: {text}");
        assert!(text.ends_with(&format!(": invalid configuration: {message}")), "{fields}: {text}");
        assert_eq!(invalid.problems.len(), 1, "{fields}: {text}");
    }
    let alpha = "featureGates: {AllAlpha: true}\nmemoryReservationPolicy: TieredReservation";
    assert!(read(alpha).is_ok(), "MemoryQoS is an alpha feature");
}

#[test]
fn reservation_refuses_unknown_and_negative() {
    #[rustfmt::skip]
    let table = [
        // kubeReserved, message
        ("{storage: 1Gi}",   "--kube-reserved value failed to parse: cannot reserve \"storage\" resource"),
        ("{memory: -1Mi}",   "--kube-reserved value failed to parse: resource quantity for \"memory\" cannot be negative: -1Mi"),
        ("{cpu: abc}",       "--kube-reserved value failed to parse: failed to parse quantity \"abc\" for \"cpu\" resource: \
                              quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("{cpu: [1]}",       "expected a quantity, found a list"),
        ("{cpu: 1, cpu: 2}", "this key occurs twice"),
        ("5",                "expected a mapping, found the number 5"),
    ];
    for (reserved, message) in table {
        let invalid = read(&format!("kubeReserved: {reserved}")).expect_err(reserved);
        assert_eq!(invalid.problems[0].message, message, "{reserved}");
    }
    let node =
        read("kubeReserved: {cpu: 1, memory: 2Gi, ephemeral-storage: 1e9, pid: \"1000\"}").unwrap();
    let amounts: Vec<String> = node.kube_reserved.iter().map(|(r, q)| format!("{r}={q}")).collect();
    assert_eq!(amounts, ["cpu=1", "ephemeral-storage=1e9", "memory=2Gi", "pid=1k"]);
}

#[test]
fn reserved_cpus_replace_cpu_amounts() {
    let node = read(
        "kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {cpu: 250m}\nreservedSystemCPUs: 0-1,8",
    )
    .unwrap();
    assert!(!node.kube_reserved.contains_key("cpu"));
    assert_eq!(node.system_reserved["cpu"].to_string(), "3");
    assert_eq!(node.reserved_cpus.unwrap().to_string(), "0-1,8");
    assert_eq!(read("reservedSystemCPUs: ''").unwrap().reserved_cpus, None);
}

#[test]
fn cpu_options_are_checked() {
    #[rustfmt::skip]
    let table = [
        // options, strict or what is wrong
        ("{}",                                   Ok(false)),
        ("{strict-cpu-reservation: 'true'}",     Ok(true)),
        ("{strict-cpu-reservation: true}",       Ok(true)),
        ("{strict-cpu-reservation: 'F'}",        Ok(false)),
        ("{full-pcpus-only: 'true'}",            Ok(false)),
        ("{strict-cpu-reservation: 'yes'}",      Err("bad value for option \"strict-cpu-reservation\": \"yes\" is not true or false")),
        ("{strict: 'true'}",                     Err("unsupported CPU manager option \"strict\", expected one of full-pcpus-only, \
            distribute-cpus-across-numa, align-by-socket, distribute-cpus-across-cores, strict-cpu-reservation, prefer-align-cpus-by-uncorecache")),
    ];
    for (options, want) in table {
        let read = read(&format!("cpuManagerPolicy: static\ncpuManagerPolicyOptions: {options}"));
        let got = read.map(|node| node.strict_cpu_reservation);
        let got = got.map_err(|invalid| invalid.problems[0].message.clone());
        assert_eq!(got, want.map_err(String::from), "{options}");
    }
    let none = read("cpuManagerPolicyOptions: {full-pcpus-only: 'true'}").unwrap_err();
    let why = "\"full-pcpus-only\" is an option of cpuManagerPolicy static; with none the kubelet does not start";
    assert_eq!(none.problems[0].message, why);
}
