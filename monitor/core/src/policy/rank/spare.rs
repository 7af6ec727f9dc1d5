//! Which candidates are never chosen.

use super::contender::{Contender, Harm};
use super::need::Purpose;
use crate::model::decision::SparedReason;

/// Why `contender` is not chosen; `None` if it may be.
///
/// Harming only itself spares a candidate only if the signal is about waiting and harm was
/// measured: the unknown spares nobody.
pub(super) fn why(contender: &Contender, purpose: Purpose) -> Option<SparedReason> {
    let spares_itself =
        || purpose.is_about_waiting() && contender.harm.is_some_and(Harm::is_own_alone);
    contender.spared.or_else(|| spares_itself().then_some(SparedReason::HarmsOnlyItself))
}
