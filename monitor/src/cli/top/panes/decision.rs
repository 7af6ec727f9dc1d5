//! What was decided and why, who was chosen and who spared, and what was done before.

use isobar_core::policy::explain::Explanation;
use isobar_core::view::View;
use ratatui::text::Line;

use super::{indented, sections};
use crate::cli::top::draw::clock;
use crate::cli::top::paint::Tone;
use crate::cli::top::state::State;

pub(super) fn lines(state: &State, view: &View) -> Vec<Line<'static>> {
    let columns = usize::from(state.size.0);
    let paint = state.paint;
    let Explanation { why, verdict, lately, candidates, otherwise, .. } = &view.explanation;
    let told = |tone: Tone, sentences: &[String]| -> Vec<Line<'static>> {
        sentences.iter().flat_map(|text| indented(paint, tone, text, columns)).collect()
    };
    let acts = !view.decision.relief.actions.is_empty();
    let candidates = candidates.iter().flat_map(|text| {
        let is_first = text.starts_with("first to go");
        let tone = if is_first { Tone::Bad } else { Tone::Plain };
        indented(paint, tone, text, columns)
    });
    let deeds = state.deeds.iter().flat_map(|deed| {
        let text = format!("{} {}", clock(state, deed.wall), deed.text);
        indented(paint, Tone::Plain, &text, columns)
    });
    let verdict = told(if acts { Tone::Bad } else { Tone::Plain }, verdict);
    sections(
        paint,
        [
            ("Verdict".into(), verdict),
            ("Ended lately".into(), told(Tone::Plain, lately)),
            ("Measurements".into(), told(Tone::Plain, why)),
            ("Candidates".into(), candidates.collect()),
            ("What would change it".into(), told(Tone::Plain, otherwise)),
            ("What happened".into(), deeds.collect()),
        ],
    )
}
