//! Attaches the programs one by one, and reports for each whether it works, or why not.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{fs, io, thread};

use super::btf::BtfError;
use super::budget::Budget;
use super::created::Created;
use super::fold::CounterTree;
use super::fold::n_waits;
use super::layout::{self, Host, Layout};
use super::loader::{self, AttachFailure, LoadError, Loader, MapReadError, Sizes};
use super::meter::Meter;
use super::programs::{Hook, PLANS, Plan, Set};
use super::switched::Switched;
use super::{Kernel, Options, Probes, Restless};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::stall::Coverage;

const BTF_FILE: &str = "/sys/kernel/btf/vmlinux";
/// Pairs of the aggressor matrix per cgroup: in one tick most cgroups wait for few others.
const PAIRS_PER_CGROUP: u32 = 16;

/// Why there is no kernel side. The agent continues with PSI and files alone.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("cannot read {BTF_FILE}")]
    NoBtf(#[source] io::Error),
    #[error("cannot parse {BTF_FILE}")]
    Btf(#[from] BtfError),
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl AttachError {
    /// What an operator can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoBtf(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "let the agent read /sys/kernel/btf/vmlinux"
            }
            Self::NoBtf(_) => "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
            Self::Btf(_) => "update isobar: this kernel is newer",
            Self::Load(LoadError::NotBuilt) => "build with `cargo xtask run`",
            Self::Load(_) => "run as root, or with CAP_BPF and CAP_PERFMON",
        }
    }
}

impl Kernel {
    /// Attaches what the kernel allows.
    ///
    /// # Errors
    /// If no program can be attached: the error says what is missing. Continue without.
    pub fn attach(options: Options, host: Host) -> Result<Self, AttachError> {
        if !loader::is_built() {
            return Err(LoadError::NotBuilt.into());
        }
        let layout = layout::read(&fs::read(BTF_FILE).map_err(AttachError::NoBtf)?, host)?;
        let sizes = Sizes {
            cgroups: options.max_cgroups,
            pairs: options.max_cgroups.saturating_mul(PAIRS_PER_CGROUP),
        };
        let mut kernel = Self {
            loader: Loader::new(&layout, sizes)?,
            host,
            attached: Vec::new(),
            capabilities: Vec::new(),
            covers: Coverage::default(),
            budget: Budget::new(options.budget),
            map_bytes: None,
            recursions: 0,
            n_cpus: 0,
            counters: CounterTree::default(),
            meter: Meter::default(),
            created: Created::default(),
            switched: Switched::default(),
            restless: Restless::default(),
            known: BTreeSet::new(),
            allocatable: BTreeSet::new(),
        };
        kernel.attach_all(options.probes, &layout);
        kernel.loader.free_btf();
        kernel.covers = kernel.coverage(&layout);
        if kernel.covers.waits
            && let Err(detail) = self_test(&kernel.loader, host)
        {
            // Its counters are not used: unknown is better than a wrong zero.
            (kernel.covers.waits, kernel.covers.throttling) = (false, false);
            report_blind(&mut kernel.capabilities, &detail);
        }
        Ok(kernel)
    }

    fn attach_all(&mut self, probes: Probes, layout: &Layout) {
        let sets: &[Set] = match probes {
            Probes::All => &[Set::Core, Set::Waits, Set::Throttle, Set::Stall],
            Probes::Tracepoints => &[Set::Core, Set::Waits],
            Probes::Empty => &[Set::Empty],
            Probes::None => &[],
        };
        for plan in PLANS.iter().filter(|plan| sets.contains(&plan.set)) {
            if plan.set == Set::Throttle && layout.has_throttle_clock {
                continue; // This kernel keeps the clock itself.
            }
            if plan.program == "memstall_enter" && !self.has("memstall_leave") {
                let detail = "psi_memstall_leave is not attached, so no stall would end";
                self.report(plan, CapabilityState::Off, detail, None);
            } else if let Some(detail) = plan.useless_on(self.host) {
                self.report(plan, CapabilityState::Off, detail, None);
            } else if probes == Probes::Tracepoints && plan.hook != Hook::Tracepoint {
                self.report(plan, CapabilityState::Off, "--probes tracepoints excludes it", None);
            } else {
                self.attach_one(plan, layout);
            }
        }
        let wants_stalls = matches!(probes, Probes::All | Probes::Tracepoints);
        if wants_stalls && !self.has("memstall_enter") {
            let fallback = PLANS.iter().filter(|plan| plan.set == Set::StallByTracepoint);
            fallback.for_each(|plan| self.attach_one(plan, layout));
        }
    }

    fn has(&self, program: &str) -> bool {
        self.attached.iter().any(|plan| plan.program == program)
    }

    fn attach_one(&mut self, plan: &'static Plan, layout: &Layout) {
        let missing = plan.needs.iter().filter_map(|global| layout.missing.get(global));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        let (reason, remedy) = if missing.is_empty() {
            let Err(failure) = self.loader.attach(plan) else {
                self.attached.push(plan);
                self.report(plan, CapabilityState::Attached, plan.provides, None);
                return;
            };
            (failure.to_string(), self.remedy(plan, &failure))
        } else {
            (format!("the kernel lacks {}", missing.join(", ")), None)
        };
        let detail = format!("{reason}; unknown without it: {}", plan.provides);
        self.report(plan, CapabilityState::Absent, &detail, remedy);
    }

    fn remedy(&self, plan: &Plan, failure: &AttachFailure) -> Option<&'static str> {
        match failure {
            // A tracepoint was attached with the same capabilities: the kernel refuses fentry.
            AttachFailure::Denied if plan.hook != Hook::Tracepoint && !self.attached.is_empty() => {
                Some("run a kernel that allows fentry, as stock kernels from 6.1 on do")
            }
            AttachFailure::Denied => Some("run as root, or with CAP_BPF and CAP_PERFMON"),
            AttachFailure::NoTarget => None,
            AttachFailure::Rejected(_) => Some(REPORT),
        }
    }

    fn report(&mut self, plan: &Plan, state: CapabilityState, detail: &str, remedy: Option<&str>) {
        let remedy = remedy.map(str::to_owned);
        let capability = Capability::new(plan.capability(), state, detail);
        self.capabilities.push(Capability { remedy, ..capability });
    }

    fn coverage(&self, layout: &Layout) -> Coverage {
        let waits = self.has("switch");
        let by_programs = self.has("throttle_down") && self.has("throttle_up");
        Coverage {
            waits,
            throttling: waits && (layout.has_throttle_clock || by_programs),
            memory: self.has("memstall_enter") || self.has("direct_reclaim"),
            memory_causes: self.has("memstall_enter") && self.has("reclaim_target"),
            oom_kills: self.has("oom_kill"),
        }
    }
}

const REPORT: &str = "report it to the isobar project, with the output of `uname -r`";

/// A program that loads may still be blind, because a member has moved and another is read in its
/// place. So the agent sleeps and wakes, and checks that this was counted for its own cgroup.
fn self_test(loader: &Loader, host: Host) -> Result<(), String> {
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(1));
    }
    let failed = |error: MapReadError| error.to_string();
    let switches: u64 = loader.cpus().map_err(failed)?.iter().map(|cpu| cpu.switches).sum();
    let is_seen = loader
        .groups()
        .map_err(failed)?
        .iter()
        .any(|(id, cpus)| host.own_cgroup.is_none_or(|own| own == *id) && n_waits(cpus) != 0);
    match (switches, is_seen) {
        (0, _) => Err("it counted no context switch although the agent slept and woke".into()),
        (n, false) => Err(format!("it counted {n} context switches, but no wait of the agent")),
        (_, true) => Ok(()),
    }
}

fn report_blind(report: &mut [Capability], detail: &str) {
    for capability in report.iter_mut().filter(|capability| capability.name == "sched_switch") {
        capability.state = CapabilityState::Blind;
        capability.detail = format!("waits are unknown: {detail}");
        capability.remedy = Some(REPORT.into());
    }
}
