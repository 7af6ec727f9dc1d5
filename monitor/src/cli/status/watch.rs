//! `isobar status --watch`, and of a range: a line at each change.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use isobar::record::incident::words::clock;
use isobar_core::model::condition::Status;
use isobar_core::model::decision::NodePressure;
use isobar_core::model::units::Nanos;
use isobar_core::view::View;
use isobar_core::view::verdict::Verdict;

use super::{Code, Format, code, paint, summary};
use crate::cli::afar::Course;
use crate::cli::ask::{Eye, TICK};
use crate::cli::output::List;
use crate::cli::terminal::{harmless, shorten};

/// Until a signal ends this process, or the agent refuses.
pub(super) fn run(mut eye: Eye, output: Format, interval: Option<Duration>) -> Result<Infallible> {
    let interval = interval.map(Nanos::from);
    let mut last: Option<(Standing, Nanos)> = None;
    loop {
        let view = eye.look_after(TICK, None)?;
        let (standing, now) = (Standing::of(&view), view.snapshot.at.boot);
        let is_due = last.as_ref().is_none_or(|(before, printed)| {
            *before != standing || interval.is_some_and(|time| now.since(*printed) >= time)
        });
        if !is_due {
            continue;
        }
        if output == Format::Yaml && last.is_some() {
            writeln!(io::stdout(), "---")?;
        }
        let is_first = last.is_none();
        output.print(&summary(&view), |out| Ok(line(out, &view, is_first, output)?))?;
        last = Some((standing, now));
    }
}

/// What was to be seen in a range. The code is that of the worst line.
pub(super) fn past(mut ticks: Course, output: Format) -> Result<Code> {
    let (mut last, mut worst) = (None, Code::Ok);
    let mut list = List::new(output, "StatusList");
    while let Some(view) = ticks.view()? {
        let standing = Some(Standing::of(&view));
        if last == standing {
            continue;
        }
        last = standing;
        if code(&view) != Code::Ok {
            worst = code(&view);
        }
        let is_first = list.is_empty();
        list.add(&summary(&view), |out| Ok(line(out, &view, is_first, output)?))?;
    }
    list.close()?;
    Ok(worst)
}

/// What counts as a change; figures change in every second.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    words: Vec<&'static str>,
    conditions: Vec<Status>,
    pressure: Vec<NodePressure>,
}

impl Standing {
    fn of(view: &View) -> Self {
        let assessment = &view.decision.assessment;
        Self {
            words: view.verdict.iter().map(Verdict::word).collect(),
            conditions: assessment.conditions.iter().map(|condition| condition.status).collect(),
            pressure: assessment.node_pressure.clone(),
        }
    }
}

/// Columns of fixed width, because later lines are not known yet.
fn line(out: &mut dyn Write, view: &View, is_first: bool, output: Format) -> io::Result<()> {
    /// Columns before the conditions.
    const BEFORE: usize = 20 + 3 * 9 + 2;
    if is_first {
        let headline = if output.is_wide() { ": HEADLINE" } else { "" };
        writeln!(out, "{:<20}  CPU      MEMORY   IO       CONDITIONS{headline}", "TIME")?;
    }
    write!(out, "{}", clock(view.snapshot.at.wall))?;
    for verdict in &view.verdict {
        write!(out, "  {}", paint(verdict))?;
    }
    let raised: Vec<_> = view.decision.assessment.holding().collect();
    let mut rest = if raised.is_empty() { "-".into() } else { raised.join(",") };
    if output.is_wide() {
        rest.push_str(&format!(": {}", view.headline));
    }
    let room = output.width().map_or(usize::MAX, |width| width.saturating_sub(BEFORE));
    writeln!(out, "  {}", shorten(&harmless(&rest), room))
}
