//! Limits as they are, against limits as the kubelet would write them.
//! In: what is enforced and what was found. Out: what differs, file by file.

use serde::Serialize;

use super::enforce::{Enforced, Limits};
use isobar_core::model::cgroup::{CgroupPath, Limit};
use isobar_core::model::machine::Found;
use isobar_core::model::shares;
use isobar_core::model::units::Bytes;

/// One file that does not hold what it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The cgroup.
    pub cgroup: CgroupPath,
    /// The file in it.
    pub file: String,
    /// What it should hold.
    pub configured: u64,
    /// What it holds: a number, or `max`; `None` if there is no such file.
    pub live: Option<String>,
    /// What follows.
    pub why: Why,
}

/// What follows from a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The cgroup is not there, so nothing holds.
    NoCgroup,
    /// Its controller is off, so nothing can be enforced.
    NoController,
    /// More is allowed than was meant.
    Looser,
    /// Less is allowed than was meant.
    Tighter,
    /// The right shares, as a weight on the runtimes' scale: the kubelet did not write it.
    RuntimesScale,
}

impl Why {
    /// In words.
    #[must_use]
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

/// The cgroups that the kubelet limits, as they were found; `None` for one that is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    /// Of all pods.
    pub pods: Found,
    /// Of Kubernetes' daemons.
    pub kube_reserved: Option<Found>,
    /// Of the system's.
    pub system_reserved: Option<Found>,
}

/// Where what was found differs from what is enforced. `page` is the size of a page, to whole
/// ones of which the kernel cuts `memory.max`.
#[must_use]
pub fn drift(enforced: &Enforced, live: &Live, page: Bytes) -> Vec<Drift> {
    let both = [
        (Some(&enforced.pods), Some(&live.pods)),
        (enforced.kube_reserved.as_ref(), live.kube_reserved.as_ref()),
        (enforced.system_reserved.as_ref(), live.system_reserved.as_ref()),
    ];
    both.into_iter()
        .filter_map(|(limits, found)| limits.zip(found))
        .flat_map(|(limits, found)| of_one(limits, found, page))
        .collect()
}

fn of_one(limits: &Limits, found: &Found, page: Bytes) -> Vec<Drift> {
    let differs = |(file, configured): (String, u64)| {
        let live = found.file(&file);
        let unit = if file == "memory.max" { page.0.max(1) } else { 1 };
        let written = configured - configured % unit;
        let why = match live {
            _ if !found.exists => Why::NoCgroup,
            None => Why::NoController,
            Some(Limit::At(live)) if live == configured || live == written => return None,
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
    file == "cpu.weight" && limits.cpu_shares.map(shares::container_weight) == Some(live)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("huge",        with(|f| f.hugetlb_max.clear()),                       Some(("hugetlb.2MB.max", None, Why::NoController))),
        ];
        for (row, found, want) in table {
            let got = of_one(&limits, &found, Bytes(4_096));
            let got: Vec<_> =
                got.iter().map(|d| (d.file.as_str(), d.live.as_deref(), d.why)).collect();
            assert_eq!(got, want.into_iter().collect::<Vec<_>>(), "{row}");
        }
        let absent = Found { path: right.path.clone(), ..Found::default() };
        let got = of_one(&limits, &absent, Bytes(4_096));
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
