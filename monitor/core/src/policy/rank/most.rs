//! Who did most, whether it may be chosen or not.

use super::scale::By;
use super::{Contender, Field};
use crate::model::decision::Taker;
use crate::model::units::Nanos;

impl<'a> Field<'a> {
    /// The party that took most.
    pub fn largest_taker(&self) -> Option<&'a Taker> {
        self.loss()?.takers.first()
    }

    /// The contender that makes others wait most of those that may not be chosen, and for how long.
    pub fn most_harmful(&self) -> Option<(&'a Contender, Nanos)> {
        let is_by_cause = self.is_of_causes();
        let open = self.open.iter().filter(|one| is_by_cause && !self.scale.is_taker(one));
        let all = open.chain(self.spared.iter().map(|(contender, _)| contender));
        let harm = |one: &&'a Contender| Some((*one, one.harm?.others));
        all.filter_map(harm).max_by_key(|(_, harm)| *harm)
    }

    /// Where harm makes a candidate a cause: whether a party that is none does more than any.
    pub fn is_harm_of_outsider(&self) -> Option<bool> {
        let Some(By::Harm { .. }) = self.scale.cause else { return None };
        let harm = |one: &Contender| Some(one.harm?.others);
        let candidates = self.open.iter().copied().chain(self.groups.iter().map(|one| &one.sum));
        let outside = self.outsiders().first().map(|outsider| outsider.harm);
        let outside = self.spared.iter().filter_map(|(one, _)| harm(one)).max().max(outside);
        Some(outside > candidates.filter_map(harm).max())
    }

    /// Where use makes a candidate a cause: who uses most above its request.
    pub fn largest_user(&self) -> Option<String> {
        let Some(By::Uses(_)) = self.scale.cause else { return None };
        let all = self.open.iter().copied().chain(self.spared.iter().map(|(one, _)| *one));
        let much = all.filter_map(|one| Some((self.scale.much(one)?, one)));
        much.max_by_key(|(much, _)| *much).map(|(_, one)| one.full_name())
    }
}
