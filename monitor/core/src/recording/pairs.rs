//! Who made whom wait within one tick, in columns. Hardly a pair of one tick meets again in the
//! next, and never for as long, so the matrix is written in full; and a cgroup is named by its place
//! among those of the tick, because ids have twice as many digits.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::apply::Misfit;
use super::parts::is_ordered;
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::stall::Aggression;
use crate::model::units::Nanos;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pairs {
    /// Ids that no cgroup of the tick has: their places follow those of the cgroups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<u64>,
    /// Places of those who waited, each as the difference from the one before.
    pub victims: Vec<i64>,
    /// How many made each of them wait.
    pub counts: Vec<usize>,
    /// Their places, each as the difference from the one before of the same victim.
    pub aggressors: Vec<i64>,
    /// In units of `unit`.
    pub times: Vec<u64>,
    /// In ns: the greatest that all times are multiples of.
    pub unit: u64,
}

impl Pairs {
    /// A matrix in which each pair occurs once.
    pub fn of(matrix: &[Aggression], cgroups: &BTreeMap<CgroupId, Arc<Cgroup>>) -> Self {
        let mut places: BTreeMap<CgroupId, i64> = cgroups.keys().copied().zip(0..).collect();
        let unit = matrix.iter().fold(0, |unit, one| common_divisor(unit, one.time.0)).max(1);
        let mut pairs = Self { unit, ..Self::default() };
        let mut place = |id: CgroupId| {
            let next = places.len() as i64;
            *places.entry(id).or_insert_with(|| {
                pairs.others.push(id.0);
                next
            })
        };
        let mut rows: Vec<(i64, i64, u64)> = matrix
            .iter()
            .map(|one| (place(one.victim), place(one.aggressor), one.time.0))
            .collect();
        rows.sort_unstable();
        let mut last = 0;
        for same in rows.chunk_by(|a, b| a.0 == b.0) {
            pairs.victims.push(same[0].0 - last);
            pairs.counts.push(same.len());
            last = same[0].0;
            let mut before = 0;
            for (_, aggressor, time) in same {
                pairs.aggressors.push(aggressor - before);
                pairs.times.push(*time / unit);
                before = *aggressor;
            }
        }
        pairs
    }

    /// The matrix, ordered by victim and aggressor.
    ///
    /// # Errors
    /// If a place is that of no cgroup, columns do not match, or a pair occurs twice.
    pub fn matrix(
        &self,
        cgroups: &BTreeMap<CgroupId, Arc<Cgroup>>,
    ) -> Result<Vec<Aggression>, Misfit> {
        let misfit = || Misfit("the columns of the matrix do not match".into());
        let others = self.others.iter().copied().map(CgroupId);
        let ids: Vec<CgroupId> = cgroups.keys().copied().chain(others).collect();
        let id = |place: i64| usize::try_from(place).ok().and_then(|at| ids.get(at)).copied();
        let mut rest = self.aggressors.iter().zip(&self.times);
        let mut matrix = Vec::with_capacity(self.times.len());
        let mut place = 0_i64;
        for (step, n) in self.victims.iter().zip(&self.counts) {
            place = place.checked_add(*step).ok_or_else(misfit)?;
            let victim = id(place).ok_or_else(misfit)?;
            let mut from = 0_i64;
            for _ in 0..*n {
                let (step, time) = rest.next().ok_or_else(misfit)?;
                from = from.checked_add(*step).ok_or_else(misfit)?;
                let aggressor = id(from).ok_or_else(misfit)?;
                let time = Nanos(time.checked_mul(self.unit).ok_or_else(misfit)?);
                matrix.push(Aggression { victim, aggressor, time });
            }
        }
        let is_whole = self.victims.len() == self.counts.len()
            && self.aggressors.len() == self.times.len()
            && rest.next().is_none();
        matrix.sort_unstable();
        (is_whole && is_ordered(&matrix)).then_some(matrix).ok_or_else(misfit)
    }
}

/// The greatest; the other number where one is 0.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Victim, aggressor, time.
    type Row = (u64, u64, u64);

    fn cgroups(ids: &[u64]) -> BTreeMap<CgroupId, Arc<Cgroup>> {
        ids.iter().map(|id| (CgroupId(*id), Arc::default())).collect()
    }

    fn row((victim, aggressor, time): Row) -> Aggression {
        let [victim, aggressor] = [victim, aggressor].map(CgroupId);
        Aggression { victim, aggressor, time: Nanos(time) }
    }

    #[test]
    fn of_and_matrix_are_inverse() {
        let there = cgroups(&[1, 70, 75, 900]);
        let unknown = CgroupId::UNKNOWN.0;
        #[rustfmt::skip]
        let table: [(&[Row], &str); 5] = [
            // victim, aggressor, time; as text
            (&[], r#"{"victims":[],"counts":[],"aggressors":[],"times":[],"unit":1}"#),
            (&[(1, 70, 40_000), (1, 75, 100_000)], r#"{"victims":[0],"counts":[2],"aggressors":[1,1],"times":[2,5],"unit":20000}"#),
            (&[(70, 1, 5_000), (70, 900, 6_000), (75, 75, 0)], r#"{"victims":[1,1],"counts":[2,1],"aggressors":[0,3,2],"times":[5,6,0],"unit":1000}"#),
            // the idle task, the part of long waits that is charged to none, and a cgroup that is gone
            (&[(1, 0, 5), (1, 70, 6), (1, unknown, 7)], r#"{"others":[0,18446744073709551615],"victims":[0],"counts":[3],"aggressors":[1,3,1],"times":[6,5,7],"unit":1}"#),
            (&[(8, 1, 5), (75, 8, 6)], r#"{"others":[8],"victims":[2,2],"counts":[1,1],"aggressors":[4,0],"times":[6,5],"unit":1}"#),
        ];
        for (rows, want) in table {
            let matrix: Vec<_> = rows.iter().copied().map(row).collect();
            let pairs = Pairs::of(&matrix, &there);
            assert_eq!(serde_json::to_string(&pairs).unwrap(), want, "{rows:?}");
            assert_eq!(pairs.matrix(&there), Ok(matrix), "{want}");
        }
    }

    #[test]
    fn matrix_refuses_columns_that_do_not_match() {
        let there = cgroups(&[1, 2]);
        #[rustfmt::skip]
        let table = [
            // victims, counts, aggressors, times
            (vec![2],           vec![1],          vec![0],    vec![9]),    // the place of no cgroup
            (vec![-1],          vec![1],          vec![0],    vec![9]),
            (vec![0],           vec![2],          vec![0],    vec![9]),    // too few
            (vec![0],           vec![1],          vec![0, 1], vec![9, 9]), // too many
            (vec![0],           vec![1],          vec![0],    vec![9, 9]),
            (vec![0, 1],        vec![1],          vec![0],    vec![9]),
            (vec![0],           vec![2],          vec![0, 0], vec![9, 9]), // twice the same
            (vec![1, i64::MAX], vec![0, 1],       vec![0],    vec![9]),
            (vec![0],           vec![usize::MAX], vec![0],    vec![9]),
        ];
        for (victims, counts, aggressors, times) in table {
            let pairs = Pairs { others: Vec::new(), victims, counts, aggressors, times, unit: 1 };
            assert!(pairs.matrix(&there).is_err(), "{pairs:?}");
        }
    }
}
