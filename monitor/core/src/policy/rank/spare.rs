//! Who may not be chosen.

use super::contender::{Contender, Harm};
use super::purpose::Purpose;
use crate::model::decision::SparedReason;

/// Why `contender` may not be chosen; `None` if it may.
///
/// That its harm falls on itself alone spares a pod only where work waits, and only where harm was
/// measured: what is not known spares nobody.
pub(super) fn why(contender: &Contender, purpose: Purpose) -> Option<SparedReason> {
    let spares_itself =
        || purpose.is_about_waiting() && contender.harm.is_some_and(Harm::is_own_alone);
    contender.spared.or_else(|| spares_itself().then_some(SparedReason::HarmsOnlyItself))
}
