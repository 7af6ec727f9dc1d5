//! A cgroup that counts as a workload, as the ranking sees it: what it is from its rule, what it
//! asked for from the rule or its own files, what it uses and whom it harms as for pods.

use crate::model::cgroup::{Cgroup, Limit};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings::WorkloadRule;
use crate::model::snapshot::{Scope, working_set};
use crate::policy::limits::shares::shares_of_weight;
use crate::policy::rank::contender::Contender;
use crate::policy::rank::harm::Ledger;
use crate::policy::rank::need::Need;

/// It is known by its path, and called by the last name in it.
pub(super) fn contender(
    scope: &Scope,
    rule: &WorkloadRule,
    ledger: Option<&Ledger>,
    need: Need,
) -> Contender {
    let files = scope.files.as_ref();
    let entry = ledger.map(|ledger| ledger.outside.get(&scope.path).copied().unwrap_or_default());
    let name = scope.path.segments().next_back().unwrap_or_default();
    Contender {
        name: name.into(),
        namespace: String::new(),
        uid: scope.path.0.clone(),
        class: rule.qos_class,
        priority: rule.priority,
        request: files.and_then(|files| request(files, rule, need)),
        usage: match need {
            Need::Memory => files.and_then(working_set).map(|bytes| Quantity::bytes(bytes.0)),
            Need::Cpu => scope.cpu_usage.map(|cpu| Quantity::milli(cpu.0)),
            // Of the whole of it: `cgroup.procs` lists those of one cgroup alone.
            Need::Pids => files.and_then(|files| files.pids_current).map(Quantity::count),
            Need::Io => entry.map(|entry| Quantity::bytes(entry.taken)),
            Need::Storage | Need::Inodes => None,
        },
        harm: entry.map(|entry| entry.harm),
        started: None,
        owner: None,
        preference: None,
        spared: None,
    }
    .preferred(files.and_then(|files| files.preference))
}

/// What the rule says, else what systemd's `MemoryLow=` and `CPUWeight=` have written. As with
/// pods, who is BestEffort asks for nothing.
fn request(files: &Cgroup, rule: &WorkloadRule, need: Need) -> Option<Quantity> {
    let of_files = || match need {
        _ if rule.qos_class == QosClass::BestEffort => Some(Quantity::ZERO),
        Need::Memory => match files.memory.low? {
            Limit::At(bytes) => Some(Quantity::bytes(bytes)),
            // All that it has is protected.
            Limit::Max => files.memory.current.map(|bytes| Quantity::bytes(bytes.0)),
        },
        _ => {
            let shares = shares_of_weight(files.cpu.weight?);
            Some(Quantity::milli(shares.saturating_mul(1_000) / 1_024))
        }
    };
    let name = match need {
        Need::Memory => "memory",
        Need::Cpu => "cpu",
        Need::Storage | Need::Inodes | Need::Pids | Need::Io => return None,
    };
    rule.requests.get(name).copied().or_else(of_files)
}
