//! Limits in force compared with the limits that the kubelet would write.
//! In: enforced limits and the cgroups as found. Out: each file that differs.

use serde::Serialize;

use super::enforce::{Enforced, HUGE_PAGES_OF_PODS, Limits};
use isobar_core::model::cgroup::{CgroupPath, Limit};
use isobar_core::model::machine::Found;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::shares;
use isobar_core::model::units::Bytes;
use isobar_core::model::workload::{Container, Resources};

/// A limit file that differs from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    pub cgroup: CgroupPath,
    pub file: String,
    /// The configured value.
    pub configured: u64,
    /// A number or `max`; `None` if the file does not exist.
    pub live: Option<String>,
    pub why: Why,
}

/// What the difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The cgroup does not exist, so nothing is enforced.
    NoCgroup,
    /// The controller is off, so nothing is enforced.
    NoController,
    /// More is allowed than configured.
    Looser,
    /// Less is allowed than configured.
    Tighter,
    /// The right shares on the container runtimes' scale of weights: not written by the kubelet.
    RuntimesScale,
}

impl Why {
    pub fn words(self) -> &'static str {
        match self {
            Self::NoCgroup => "there is no such cgroup",
            Self::NoController => "its controller is off",
            Self::Looser => "allows more than configured",
            Self::Tighter => "allows less than configured",
            Self::RuntimesScale => "a weight on the scale of container runtimes",
        }
    }
}

/// The limited cgroups as found; `None` if not configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    pub pods: Found,
    pub kube_reserved: Option<Found>,
    pub system_reserved: Option<Found>,
}

/// All differences. `page` is the page size: the kernel truncates `memory.max` to whole pages.
pub fn drift(enforced: &Enforced, live: &Live, page: Bytes) -> Vec<Drift> {
    let daemons = [
        (enforced.kube_reserved.as_ref(), live.kube_reserved.as_ref()),
        (enforced.system_reserved.as_ref(), live.system_reserved.as_ref()),
    ];
    let daemons = daemons.into_iter().filter_map(|(limits, found)| limits.zip(found));
    let mut all = of_one(&enforced.pods, &live.pods, page, true);
    all.extend(daemons.flat_map(|(limits, found)| of_one(limits, found, page, false)));
    all
}

/// The limits of a container as its runtime writes them. Memory that is not limited may be, for a
/// while, by isobar; newer runtimes have a scale of weights of their own, older ones the kubelet's.
pub fn of_container(container: &Container, found: &Found, page: Bytes) -> Vec<Drift> {
    let Resources { requests, limits } = &container.resources;
    let milli = |list: &ResourceList| {
        let milli = list.get("cpu").copied().filter(|cpu| !cpu.is_zero())?.milli_value();
        u64::try_from(milli).ok()
    };
    let shares = shares::shares(milli(requests).or_else(|| milli(limits)).unwrap_or(0));
    let scales = [runtimes_weight(shares), shares::weight(shares)];
    let weight = found.cpu_weight.filter(|live| scales.contains(live)).unwrap_or(scales[0]);
    let memory = limits.get("memory").and_then(|limit| u64::try_from(limit.value()).ok());
    let limits = Limits { memory_max: memory, cpu_weight: Some(weight), ..Limits::default() };
    of_one(&limits, found, page, false)
}

fn of_one(limits: &Limits, found: &Found, page: Bytes, is_pods: bool) -> Vec<Drift> {
    let is_huge = |file: &str| file.starts_with("hugetlb.");
    let differs = |(file, configured): (String, u64)| {
        let live = found.file(&file);
        let unit = if file == "memory.max" { page.0.max(1) } else { 1 };
        let written = configured - configured % unit;
        let why = match live {
            _ if !found.exists => Why::NoCgroup,
            None => Why::NoController,
            Some(Limit::At(live)) if live == configured || live == written => return None,
            Some(Limit::At(HUGE_PAGES_OF_PODS)) if is_pods && is_huge(&file) => return None,
            Some(Limit::At(live)) if is_runtimes_scale(limits, &file, live) => Why::RuntimesScale,
            Some(Limit::At(live)) if live < configured => Why::Tighter,
            Some(_) => Why::Looser,
        };
        let (cgroup, live) = (found.path.clone(), live.map(|live| live.to_string()));
        Some(Drift { cgroup, file, configured, live, why })
    };
    limits.files().into_iter().filter_map(differs).collect()
}

fn is_runtimes_scale(limits: &Limits, file: &str, live: u64) -> bool {
    file == "cpu.weight" && limits.cpu_shares.map(runtimes_weight) == Some(live)
}

/// `cpu.weight` of containers as runc 1.3 and crun compute it, in floats as they do: quadratic in
/// the logarithm, so that the defaults of both scales meet (1,024 shares are weight 100). 0 leaves
/// the weight unset. Source: opencontainers/cgroups `utils.go`, `ConvertCPUSharesToCgroupV2Value`.
fn runtimes_weight(shares: u64) -> u64 {
    match shares {
        0 => 0,
        1 | shares::MIN_SHARES => 1,
        shares::MAX_SHARES.. => 10_000,
        _ => {
            let l = (shares as f64).log2();
            let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
            // At most 10,000: the cast is exact.
            10_f64.powf(exponent).ceil() as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_notation;

    #[test]
    fn drift_weights_of_the_runtimes() {
        #[rustfmt::skip]
        let table = [
            // shares, weight
            (0, 0), (1, 1), (2, 1), (3, 2), (10, 4), (102, 17), (512, 59), (1_024, 100),
            (4_096, 303), (65_536, 3_023),
            (262_143, 10_000), (262_144, 10_000), (262_145, 10_000), (u64::MAX, 10_000),
        ];
        for (shares, want) in table {
            assert_eq!(runtimes_weight(shares), want, "{shares} shares");
        }
    }

    #[test]
    fn drift_of_a_container() {
        const PAGE: Bytes = Bytes(4_096);
        let found = |weight, memory| Found {
            exists: true,
            cpu_weight: Some(weight),
            memory_max: Some(memory),
            ..Found::default()
        };
        let max = Limit::Max;
        type Row = (&'static str, Found, Vec<(&'static str, Why)>);
        #[rustfmt::skip]
        let table: [Row; 9] = [
            // container, its cgroup, what differs
            ("main r 500m/- l -/1Gi", found(59, Limit::At(GIB)),     vec![]), // as newer runtimes write it
            ("main r 500m/- l -/1Gi", found(20, Limit::At(GIB)),     vec![]), // as older ones do
            ("main r 500m/- l -/1Gi", found(58, Limit::At(GIB)),     vec![("cpu.weight", Why::Tighter)]),
            ("main r 500m/- l -/1Gi", found(59, max),                vec![("memory.max", Why::Looser)]),
            ("main r 500m/- l -/1Gi", found(60, Limit::At(GIB / 2)), vec![("memory.max", Why::Tighter), ("cpu.weight", Why::Looser)]),
            ("main l 500m/-",         found(59, max),                vec![]), // what is limited is requested
            ("main",                  found(1, max),                 vec![]),
            ("main",                  found(100, max),               vec![("cpu.weight", Why::Looser)]),
            ("main",                  found(1, Limit::At(GIB)),      vec![]), // by isobar, perhaps
        ];
        for (container, found, want) in table {
            let pod = pod_notation::pod(container);
            let drifts = of_container(&pod.containers[0], &found, PAGE);
            let told: Vec<_> = drifts.iter().map(|drift| (&*drift.file, drift.why)).collect();
            assert_eq!(told, want, "{container} {found:?}");
        }
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn drift_names_each_file() {
        let limits = Limits {
            memory_max: Some(4 * GIB + 100),
            cpu_shares: Some(1_024),
            cpu_weight: Some(39),
            pids_max: Some(1_000),
            hugetlb_max: [("2MB".into(), GIB)].into(),
        };
        let right = Found {
            path: CgroupPath("/kubepods".into()),
            exists: true,
            memory_max: Some(Limit::At(4 * GIB)),
            cpu_weight: Some(39),
            pids_max: Some(Limit::At(1_000)),
            hugetlb_max: [("2MB".into(), Limit::At(GIB))].into(),
            ..Found::default()
        };
        let with = |change: fn(&mut Found)| {
            let mut found = right.clone();
            change(&mut found);
            found
        };
        #[rustfmt::skip]
        let table = [
            // row, what was found, file, value, what follows
            ("none",        with(|_| {}),                                          None),
            ("uncut",       with(|f| f.memory_max = Some(Limit::At(4 * GIB + 100))), None),
            ("no limit",    with(|f| f.memory_max = Some(Limit::Max)),             Some(("memory.max", Some("max"), Why::Looser))),
            ("more",        with(|f| f.memory_max = Some(Limit::At(5 * GIB))),     Some(("memory.max", Some("5368709120"), Why::Looser))),
            ("less",        with(|f| f.memory_max = Some(Limit::At(0))),           Some(("memory.max", Some("0"), Why::Tighter))),
            ("other scale", with(|f| f.cpu_weight = Some(100)),                    Some(("cpu.weight", Some("100"), Why::RuntimesScale))),
            ("weight",      with(|f| f.cpu_weight = Some(38)),                     Some(("cpu.weight", Some("38"), Why::Tighter))),
            ("off",         with(|f| f.pids_max = None),                           Some(("pids.max", None, Why::NoController))),
            ("kubelet's",   with(|f| f.hugetlb_max = [("2MB".into(), Limit::At(1 << 62))].into()), None),
            ("huge",        with(|f| f.hugetlb_max.clear()),                       Some(("hugetlb.2MB.max", None, Why::NoController))),
        ];
        for (row, found, want) in table {
            let got = of_one(&limits, &found, Bytes(4_096), true);
            let got: Vec<_> =
                got.iter().map(|d| (d.file.as_str(), d.live.as_deref(), d.why)).collect();
            assert_eq!(got, want.into_iter().collect::<Vec<_>>(), "{row}");
        }
        let absent = Found { path: right.path.clone(), ..Found::default() };
        let got = of_one(&limits, &absent, Bytes(4_096), true);
        assert!(got.len() == 4 && got.iter().all(|d| d.why == Why::NoCgroup), "{got:?}");
    }

    #[test]
    fn drift_needs_enforcement() {
        let live = Live {
            pods: Found { exists: true, memory_max: Some(Limit::At(1)), ..Found::default() },
            kube_reserved: Some(Found::default()),
            system_reserved: None,
        };
        let reserved = Some(Limits { memory_max: Some(1), ..Limits::default() });
        let enforced = Enforced { system_reserved: reserved, ..Enforced::default() };
        assert_eq!(drift(&enforced, &live, Bytes(4_096)), []);
    }
}
