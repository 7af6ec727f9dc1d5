//! What the checks come to: one line, and the exit code.

use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::sample::Gap;
use serde::Serialize;

use super::{Finding, State};
use crate::cli::exit::Code;

/// All eBPF programs together, where none could be loaded.
const KERNEL_SIDE: &str = "kernel side";

/// The names of what was checked, by what was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary<'a> {
    n_ok: usize,
    /// Missing, and isobar works without it.
    absent: Vec<&'a str>,
    /// Missing, and isobar needs it to see who waits because of whom.
    missing: Vec<&'a str>,
    unknown: Vec<&'a str>,
    /// By an option, or because a program that it goes with is absent.
    off: Vec<&'a str>,
    /// Objects that this node does not have or refuses: files of a newer kernel, for instance.
    unread: Vec<&'a str>,
    /// Of the process that looked. Without privileges no program can be loaded, whatever the kernel has.
    #[serde(skip)]
    has_privileges: bool,
}

impl<'a> Summary<'a> {
    /// Without `probes`, they are unknown.
    pub(super) fn of(findings: &'a [Finding], probes: Option<&'a [Capability]>) -> Self {
        let mut this = Self::default();
        let is_privilege = |finding: &&Finding| finding.name.starts_with("CAP_");
        let mut privileges = findings.iter().filter(is_privilege).peekable();
        this.has_privileges = privileges.peek().is_some()
            && privileges.all(|one| !one.needed || one.state == State::Ok);
        for Finding { name, state, needed, .. } in findings {
            match (state, needed) {
                (State::Ok, _) => this.n_ok += 1,
                (State::Missing, true) => this.missing.push(name),
                (State::Missing, false) => this.absent.push(name),
                (State::Unknown, _) => this.unknown.push(name),
            }
        }
        for Capability { name, state, .. } in probes.unwrap_or_default() {
            match state {
                CapabilityState::Attached => this.n_ok += 1,
                CapabilityState::Blind | CapabilityState::Absent if name == KERNEL_SIDE => {
                    this.missing.push(name);
                }
                CapabilityState::Blind | CapabilityState::Absent => this.absent.push(name),
                CapabilityState::Off => this.off.push(name),
            }
        }
        if probes.is_none() {
            this.unknown.push(super::PROBES);
        }
        this
    }

    /// With objects that cannot be read: the line names them, and the exit code does not depend on them.
    pub(super) fn and_unread(self, gaps: &'a [Gap]) -> Self {
        Self { unread: gaps.iter().map(|gap| gap.object.as_str()).collect(), ..self }
    }

    pub(super) fn code(&self) -> Code {
        let is_well = [&self.missing, &self.absent, &self.unknown].iter().all(|all| all.is_empty());
        let is_privilege = |name: &&str| name.starts_with("CAP_");
        let lacks_privilege = self.missing.iter().any(is_privilege);
        let is_of_kernel = |name: &&str| match *name {
            KERNEL_SIDE => self.has_privileges,
            "port" => false,
            name => !is_privilege(&name),
        };
        match self.missing.iter().any(is_of_kernel) {
            true => Code::UnsupportedKernel,
            false if lacks_privilege => Code::NotPermitted,
            false if is_well => Code::Ok,
            false => Code::Failure,
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { n_ok, absent, missing, unknown, off, unread, .. } = self;
        let parts = [
            ("MISSING, and needed", missing),
            ("absent, and isobar works without", absent),
            ("unknown", unknown),
            ("off", off),
            ("cannot be read", unread),
        ];
        let mut line = format!("{n_ok} ok");
        for (word, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
            line.push_str(&format!("; {} {word}: {}", names.len(), names.join(", ")));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_findings() {
        let ok = || Finding::ok("kernel", "6.12");
        let may = || Finding::ok("CAP_BPF", "").needed();
        let absent = || Finding::missing("controllers", "io", "enable it");
        let needed = |name| Finding::missing(name, "", "").needed();
        let probe = |state| Capability::new("sched_switch", state, "");
        let attached = [probe(CapabilityState::Attached)];
        let blind = [probe(CapabilityState::Blind)];
        let off = [probe(CapabilityState::Off)];
        let none = [Capability::new(KERNEL_SIDE, CapabilityState::Absent, "")];
        let unknown = Finding::unknown("cgroup v2", "");
        #[rustfmt::skip]
        let table: [(&[Finding], &[Capability], Code, &str); 11] = [
            // findings, probes, code, line
            (&[ok()],                               &attached, Code::Ok,                "2 ok"),
            (&[ok()],                               &off,      Code::Ok,                "1 ok; 1 off: sched_switch"),
            (&[ok()],                               &blind,    Code::Failure,           "1 ok; 1 absent, and isobar works without: sched_switch"),
            (&[ok(), absent()],                     &attached, Code::Failure,           "2 ok; 1 absent, and isobar works without: controllers"),
            (&[unknown],                            &attached, Code::Failure,           "1 ok; 1 unknown: cgroup v2"),
            (&[needed("CAP_BPF"), absent()],        &attached, Code::NotPermitted,      "1 ok; 1 MISSING, and needed: CAP_BPF; 1 absent, and isobar works without: controllers"),
            (&[needed("port")],                     &attached, Code::Failure,           "1 ok; 1 MISSING, and needed: port"),
            (&[ok(), may()],                        &none,     Code::UnsupportedKernel, "2 ok; 1 MISSING, and needed: kernel side"),
            (&[ok()],                               &none,     Code::Failure,           "1 ok; 1 MISSING, and needed: kernel side"), // an agent's
            (&[needed("CAP_BPF")],                  &none,     Code::NotPermitted,      "0 ok; 2 MISSING, and needed: CAP_BPF, kernel side"),
            (&[needed("CAP_BPF"), needed("PSI")],   &attached, Code::UnsupportedKernel, "1 ok; 2 MISSING, and needed: CAP_BPF, PSI"),
        ];
        for (findings, probes, code, line) in table {
            let got = Summary::of(findings, Some(probes));
            assert_eq!((got.code(), got.line().as_str()), (code, line));
        }
        let got = Summary::of(&[], None);
        assert_eq!((got.code(), got.line().as_str()), (Code::Failure, "0 ok; 1 unknown: probes"));
    }
}
