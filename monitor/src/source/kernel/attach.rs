//! Attaches the programs one by one and says of each whether it works, or why not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fs, io, thread};

use super::btf::BtfError;
use super::budget::Budget;
use super::fold::Ledger;
use super::layout::{self, Host, Layout};
use super::loader::{AttachFailure, LoadError, Loader, Sizes};
use super::meter::Meter;
use super::programs::{Hook, PLANS, Plan, Set};
use super::unread::Unread;
use super::{Kernel, Options, Probes};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::stall::Coverage;

const BTF_FILE: &str = "/sys/kernel/btf/vmlinux";
/// Pairs of the aggressor matrix per cgroup: most meet few others.
const PAIRS_PER_CGROUP: u32 = 4;

/// Why there is no kernel side. The agent goes on with PSI and files alone.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel does not describe its types.
    #[error("cannot read {BTF_FILE}")]
    NoBtf(#[source] io::Error),
    /// The description cannot be understood.
    #[error("cannot understand {BTF_FILE}")]
    Btf(#[from] BtfError),
    /// The object or its maps.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl AttachError {
    /// What an operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoBtf(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "let the agent read /sys/kernel/btf/vmlinux"
            }
            Self::NoBtf(_) => "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
            Self::Btf(_) => "this kernel is newer than this isobar: update isobar",
            Self::Load(LoadError::NotBuilt) => "build with `cargo xtask run`",
            Self::Load(_) => "run as root, or with CAP_BPF and CAP_PERFMON",
        }
    }
}

/// See [`Kernel::attach`].
pub(super) fn attach(options: Options, host: Host) -> Result<Kernel, AttachError> {
    if !super::loader::is_built() {
        return Err(LoadError::NotBuilt.into());
    }
    let layout = {
        let bytes = fs::read(BTF_FILE).map_err(AttachError::NoBtf)?;
        layout::read(&bytes, host)?
    };
    let sizes = Sizes {
        cgroups: options.max_cgroups,
        pairs: options.max_cgroups.saturating_mul(PAIRS_PER_CGROUP),
    };
    let loader = Loader::new(&layout, sizes)?;
    let mut attaching = Attaching { loader, layout, attached: Vec::new(), report: Vec::new() };
    attaching.all(options.probes);
    attaching.loader.settle();
    let mut covers = attaching.covers();
    let Attaching { loader, layout: _, attached, mut report } = attaching;
    if covers.waits
        && let Err(detail) = prove(&loader, host)
    {
        // What it says is not used: unknown, rather than a calm that nobody saw.
        (covers.waits, covers.throttling) = (false, false);
        tell_blind(&mut report, &detail);
    }
    let kernel = Kernel {
        loader,
        host,
        attached,
        capabilities: report,
        covers,
        budget: Budget::new(options.budget),
        n_cpus: 0,
        ledger: Ledger::default(),
        meter: Meter::default(),
        born: BTreeMap::new(),
        known: BTreeSet::new(),
        allocatable: BTreeSet::new(),
    };
    Ok(kernel)
}

struct Attaching {
    loader: Loader,
    layout: Layout,
    attached: Vec<&'static Plan>,
    report: Vec<Capability>,
}

impl Attaching {
    fn all(&mut self, probes: Probes) {
        let wanted: &[Set] = match probes {
            Probes::All => &[Set::Core, Set::Waits, Set::Throttle, Set::Stall],
            Probes::Tracepoints => &[Set::Core, Set::Waits],
            Probes::Empty => &[Set::Empty],
            Probes::None => &[],
        };
        for plan in PLANS.iter().filter(|plan| wanted.contains(&plan.set)) {
            if plan.set == Set::Throttle && self.layout.has_throttle_clock {
                continue; // This kernel keeps the clock itself.
            }
            if plan.program == "memstall_enter" && !self.has("memstall_leave") {
                self.say(plan, CapabilityState::Off, "what it opened nobody would close", None);
                continue;
            }
            if probes == Probes::Tracepoints && plan.hook != Hook::Tracepoint {
                self.say(plan, CapabilityState::Off, "only tracepoints are wanted", None);
                continue;
            }
            self.one(plan);
        }
        let stalls_wanted = matches!(probes, Probes::All | Probes::Tracepoints);
        if stalls_wanted && !self.has("memstall_enter") {
            for plan in PLANS.iter().filter(|plan| plan.set == Set::StallByTracepoint) {
                self.one(plan);
            }
        }
    }

    fn has(&self, program: &str) -> bool {
        self.attached.iter().any(|plan| plan.program == program)
    }

    fn one(&mut self, plan: &'static Plan) {
        let lacks: Vec<&str> = plan
            .needs
            .iter()
            .filter_map(|global| self.layout.missing.get(global).map(String::as_str))
            .collect();
        if !lacks.is_empty() {
            let detail = format!(
                "without it {} is unknown; the kernel lacks {}",
                plan.gives,
                lacks.join(", ")
            );
            self.say(plan, CapabilityState::Absent, &detail, None);
            return;
        }
        match self.loader.attach(plan) {
            Ok(()) => {
                self.attached.push(plan);
                self.say(plan, CapabilityState::Attached, plan.gives, None);
            }
            Err(failure) => {
                let detail = format!("without it {} is unknown; {failure}", plan.gives);
                let remedy = self.remedy(plan, &failure);
                self.say(plan, CapabilityState::Absent, &detail, Some(remedy));
            }
        }
    }

    fn remedy(&self, plan: &Plan, failure: &AttachFailure) -> &'static str {
        match failure {
            // Tracepoints went through with the same rights: it is the kernel, not the agent.
            AttachFailure::Denied if plan.hook != Hook::Tracepoint && !self.attached.is_empty() => {
                "this kernel refuses fentry; a stock kernel 6.1 or newer allows it"
            }
            AttachFailure::Denied => "run as root, or with CAP_BPF and CAP_PERFMON",
            AttachFailure::NoTarget => "this kernel has no such function or tracepoint",
            AttachFailure::Rejected(_) => "report this to isobar with the kernel's release",
        }
    }

    fn say(&mut self, plan: &Plan, state: CapabilityState, detail: &str, remedy: Option<&str>) {
        let (detail, remedy) = (detail.to_owned(), remedy.map(str::to_owned));
        self.report.push(Capability { name: plan.capability(), state, detail, remedy });
    }

    fn covers(&self) -> Coverage {
        let waits = self.has("switch");
        let by_programs = self.has("throttle_down") && self.has("throttle_up");
        Coverage {
            waits,
            throttling: waits && (self.layout.has_throttle_clock || by_programs),
            memory: self.has("memstall_enter") || self.has("direct_reclaim"),
            memory_causes: self.has("memstall_enter") && self.has("reclaim_target"),
        }
    }
}

/// A program that loads may still be blind: a member that moved reads as something else. So the
/// agent does work of its own and looks whether it was seen, under its own cgroup.
fn prove(loader: &Loader, host: Host) -> Result<(), String> {
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(1));
    }
    let unread = |unread: Unread| unread.to_string();
    let switches: u64 = loader.cpus().map_err(unread)?.iter().map(|cpu| cpu.switches).sum();
    let seen = loader.groups().map_err(unread)?.iter().any(|(id, cpus)| {
        host.own_cgroup.is_none_or(|own| own == *id) && cpus.iter().any(|cpu| cpu.n_waits != 0)
    });
    match (switches, seen) {
        (0, _) => Err("it saw no context switch although the agent slept and woke".into()),
        (n, false) => Err(format!("it saw {n} context switches, but none of the agent's cgroup")),
        (_, true) => Ok(()),
    }
}

fn tell_blind(report: &mut [Capability], detail: &str) {
    for capability in report.iter_mut().filter(|capability| capability.name == "sched_switch") {
        capability.state = CapabilityState::Blind;
        capability.detail = format!("waits are unknown: {detail}");
        capability.remedy = Some("report this to isobar with the kernel's release".into());
    }
}
