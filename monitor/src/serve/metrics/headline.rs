//! The figures that the headline has in words.

use std::fmt;

use super::catalogue::{HEADLINE_IO, HEADLINE_MEMORY, HEADLINE_WAIT};
use super::families::Families;
use isobar_core::model::units::Nanos;
use isobar_core::view::figure::Figure;

pub(super) fn write(families: &mut Families<'_>, figures: &[Figure]) -> fmt::Result {
    let waits = figures.iter().filter_map(|figure| {
        let (of, victim, aggressor, millis) = match figure {
            Figure::Lost { victim, aggressor, millis_per_second } => {
                (["cpu", "lost"], victim, aggressor, millis_per_second)
            }
            Figure::Waited { resource, victim, aggressor, millis_per_second } => {
                ([resource.name(), "waited"], victim, aggressor, millis_per_second)
            }
            Figure::Took { .. } | Figure::Holds { .. } | Figure::Moves { .. } => return None,
        };
        let [resource, kind] = of;
        let aggressor = aggressor.as_deref().unwrap_or_default();
        Some(([resource, kind, aggressor, victim], Nanos(millis.saturating_mul(1_000_000))))
    });
    families.write(&HEADLINE_WAIT, waits)?;
    let memory = figures.iter().filter_map(|figure| match figure {
        Figure::Took { aggressor, bytes } => Some((["took", aggressor], *bytes)),
        Figure::Holds { aggressor, bytes } => Some((["holds", aggressor], *bytes)),
        Figure::Lost { .. } | Figure::Waited { .. } | Figure::Moves { .. } => None,
    });
    families.write(&HEADLINE_MEMORY, memory)?;
    let io = figures.iter().filter_map(|figure| match figure {
        Figure::Moves { aggressor, bytes_per_second } => Some(([&**aggressor], *bytes_per_second)),
        _ => None,
    });
    families.write(&HEADLINE_IO, io)
}
