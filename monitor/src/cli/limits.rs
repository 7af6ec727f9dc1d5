//! `--apply` and `--roll-back`: limits of the node, written once or taken back, without an agent.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use isobar::act::limits::{Limits, Places};
use isobar::agent::STATE_DIR;
use isobar::agent::limits::{Intruder, Survey};
use isobar::clock;
use isobar::serve::document::API_VERSION;
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::model::sample::Gap;
use isobar_core::model::settings::WrittenLimit;
use isobar_kubelet::writes::{Refusal, Writes};
use serde::Serialize;

use super::exit::{Code, Refused};
use super::node::{ConfigArgs, MachineArgs};
use super::output::{Plain, pretty};
use super::table::{Set, Table};
use super::terminal::{harmless, width};

#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    /// Write these limits now, without an agent; what stood there before is remembered.
    #[arg(long, conflicts_with = "roll_back")]
    apply: bool,
    /// Take back these limits, as an agent or --apply wrote them, where they still stand.
    #[arg(long)]
    roll_back: bool,
    /// Where it is remembered what stood there before.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "ISOBAR_STATE_DIR")]
    state_dir: PathBuf,
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: &'static str,
    kind: &'static str,
    limits: Vec<LimitState>,
    /// Processes of pods that may run on reserved CPUs now; `None` where that was not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    intruders: Option<Vec<Intruder>>,
    /// What was not written, and why.
    problems: Vec<String>,
}

impl WriteArgs {
    /// Does what is asked for; `None` if nothing is.
    pub(crate) fn run(
        &self,
        what: WrittenLimit,
        config: &ConfigArgs,
        machine: &MachineArgs,
        output: Plain,
    ) -> Result<Option<Code>> {
        let document = match (self.apply, self.roll_back) {
            (true, _) => self.apply(what, config, machine)?,
            (_, true) => {
                let limits = self.limits(machine)?.roll_back(what);
                Document { limits, ..Document::empty() }
            }
            (false, false) => return Ok(None),
        };
        let mut out = io::stdout().lock();
        match output {
            Plain::Table => document.write(&mut out)?,
            Plain::Json => pretty(&mut out, &document)?,
        }
        let has_failed = document.limits.iter().any(|one| one.result == LimitResult::Failed);
        Ok(Some(match (document.problems.is_empty(), has_failed) {
            (false, _) => Code::InvalidInput,
            (true, true) => Code::Failure,
            (true, false) => Code::Ok,
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
    ) -> Result<Document> {
        if !config.is_given() {
            let why = "what to write is said by a configuration: name one with --config or \
                       --kubelet-config";
            return Err(Refused(why.into()).into());
        }
        let survey = Survey::of(&machine.places(), &config.settings()?)?;
        let Writes { writes, refused } = survey.writes(&BTreeSet::from([what]));
        let limits = self.limits(machine)?.hold(&writes, true, clock::now().boot);
        let words = |Refusal { level, why, remedy }: &Refusal| format!("{level}: {why}; {remedy}");
        let mut problems: Vec<_> = refused.iter().map(words).collect();
        let mut intruders = None;
        if what == WrittenLimit::ReservedCpus {
            let (found, gaps) = survey.intruders()?;
            intruders = Some(found);
            let words = |gap: &Gap| format!("{}: {}", gap.object, gap.detail);
            problems.extend(gaps.iter().map(words));
        }
        Ok(Document { limits, intruders, problems, ..Document::empty() })
    }
}

impl Document {
    fn empty() -> Self {
        Self {
            api_version: API_VERSION,
            kind: "Limits",
            limits: Vec::new(),
            intruders: None,
            problems: Vec::new(),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.limits.is_empty() && self.problems.is_empty() {
            return writeln!(out, "nothing was written that could be taken back");
        }
        let mut table = Table::new([
            ("CGROUP", Set::Left),
            ("FILE", Set::Left),
            ("VALUE", Set::Right),
            ("BEFORE", Set::Right),
            ("LIVE", Set::Right),
            ("RESULT", Set::Left),
        ]);
        let shown = |value: Option<&String>| match value.map(String::as_str) {
            None => "-".into(),
            Some("") => "empty".into(),
            Some(value) => value.to_owned(),
        };
        for state in &self.limits {
            let LimitState { write, before, live, result, .. } = state;
            table.row([
                write.cgroup.0.clone(),
                write.file.clone(),
                shown(Some(&write.value)),
                shown(before.as_ref()),
                shown(live.as_ref()),
                result.name().into(),
            ]);
        }
        table.write(out, width())?;
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
