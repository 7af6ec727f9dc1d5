//! `--apply` and `--roll-back`: write the node's limits once, or restore them, without an agent.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use isobar::act::limits::{Limits, Places};
use isobar::agent::STATE_DIR;
use isobar::agent::limits::{Intruder, Survey, untold_by_kubelet};
use isobar::clock;
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::model::settings::WrittenLimit;
use isobar_core::view::Document;
use isobar_kubelet::writes::{Refusal, Writes};
use serde::Serialize;

use super::exit::{Code, Refused};
use super::node::{ConfigArgs, MachineArgs};
use super::output::{Format, gap_text};
use super::table::Table;
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    /// Write these limits now, without an agent, and remember the previous values.
    #[arg(long, conflicts_with = "roll_back")]
    apply: bool,
    /// Restore the values that an agent or --apply replaced, where they are still in place.
    #[arg(long, conflicts_with_all = ["config", "kubelet_config"])]
    roll_back: bool,
    /// Directory with the previous values.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "ISOBAR_STATE_DIR")]
    state_dir: PathBuf,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    limits: Vec<LimitState>,
    /// Processes of pods that may run on reserved CPUs; `None` if reserved CPUs were not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    intruders: Option<Vec<Intruder>>,
    /// Limits that were not written, and processes that could not be counted, and why.
    problems: Vec<String>,
    #[serde(skip)]
    is_refused: bool,
}

impl WriteArgs {
    /// `None` if neither option was given.
    pub(crate) fn run(
        &self,
        what: WrittenLimit,
        config: &ConfigArgs,
        machine: &MachineArgs,
        output: Format,
    ) -> Result<Option<Code>> {
        let written = match (self.apply, self.roll_back) {
            (true, _) => self.apply(what, config, machine)?,
            (_, true) => {
                let limits = self.limits(machine)?.roll_back(what);
                Written { limits, ..Written::default() }
            }
            (false, false) => return Ok(None),
        };
        let whole = Document::new("Limits", &written);
        output.print(&whole, |out| Ok(written.write(out, output)?))?;
        let has_failed = written.limits.iter().any(|one| one.result == LimitResult::Failed);
        Ok(Some(match (has_failed, written.is_refused) {
            (true, _) => Code::Failure,
            (false, true) => Code::InvalidInput,
            (false, false) => Code::Ok,
        }))
    }

    fn limits(&self, machine: &MachineArgs) -> Result<Limits> {
        let cgroup_root = machine.groups()?.mount().to_path_buf();
        let (proc, state) = (machine.places().proc, self.state_dir.clone());
        Ok(Limits::new(Places { cgroup_root, proc, state }))
    }

    fn apply(
        &self,
        what: WrittenLimit,
        config: &ConfigArgs,
        machine: &MachineArgs,
    ) -> Result<Written> {
        if !config.is_given() {
            let why = "--apply requires a configuration: add --config or --kubelet-config";
            return Err(Refused(why.into()).into());
        }
        let (settings, is_told) = config.of_kubelet()?;
        let untold = untold_by_kubelet(&settings.node, what).filter(|_| !is_told);
        if let Some(Refusal { level, why, remedy }) = untold {
            return Err(Refused(format!("{level}: {why}; {remedy}")).into());
        }
        let survey = Survey::of(&machine.places(), &settings)?;
        let Writes { writes, refused, .. } = survey.writes(&BTreeSet::from([what]));
        let limits = self.limits(machine)?.hold(&writes, true, clock::now().boot);
        let words = |Refusal { level, why, remedy }: &Refusal| format!("{level}: {why}; {remedy}");
        let mut problems: Vec<_> = refused.iter().map(words).collect();
        let mut intruders = None;
        if what == WrittenLimit::ReservedCpus {
            let (found, gaps) = survey.intruders()?;
            intruders = Some(found);
            problems.extend(gaps.iter().map(gap_text));
        }
        Ok(Written { limits, intruders, problems, is_refused: !refused.is_empty() })
    }
}

impl Written {
    fn write(&self, out: &mut dyn Write, output: Format) -> io::Result<()> {
        if self.limits.is_empty() && self.problems.is_empty() {
            return writeln!(out, "no limit to restore: none was written");
        }
        let mut table = Table::new("CGROUP FILE VALUE> BEFORE> LIVE> RESULT");
        let shown = |value: Option<&String>| match value.map(String::as_str) {
            None => "-".into(),
            Some("") => "(empty)".into(),
            Some(value) => value.to_owned(),
        };
        for state in &self.limits {
            let LimitState { write, before, live, result, .. } = state;
            table.row([
                write.cgroup.0.to_string(),
                write.file.clone(),
                shown(Some(&write.value)),
                shown(before.as_ref()),
                shown(live.as_ref()),
                result.name().into(),
            ]);
        }
        table.write(out, output.width())?;
        for state in self.limits.iter().filter(|state| !state.detail.is_empty()) {
            let LimitState { write, detail, .. } = state;
            let (file, cgroup) = (harmless(&write.file), harmless(&write.cgroup.0));
            writeln!(out, "! {file} of {cgroup}: {}", harmless(detail))?;
        }
        if let Some(intruders) = &self.intruders {
            writeln!(out, "{} processes of pods may run on reserved CPUs", intruders.len())?;
        }
        for problem in &self.problems {
            writeln!(out, "! {}", harmless(problem))?;
        }
        Ok(())
    }
}
