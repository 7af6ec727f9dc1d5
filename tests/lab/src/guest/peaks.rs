//! How high each measure of pressure came while an agent that serves views was listened to: what
//! thresholds are chosen from.

use isobar_core::model::pod::Place;
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::units::Percent;

use crate::facts::Peaks;

/// A measure, by what people call it, and how it is read.
type Measure = (&'static str, fn(&Scope) -> Option<Percent>);

/// Ours first, then PSI.
const MEASURES: [Measure; 7] = [
    ("contention", |scope| Some(scope.contention?.avg10)),
    ("shortage", |scope| Some(scope.shortage?.avg10)),
    ("cpu some", |scope| some(scope.pressure.cpu)),
    ("memory some", |scope| some(scope.pressure.memory)),
    ("memory full", |scope| full(scope.pressure.memory)),
    ("io some", |scope| some(scope.pressure.io)),
    ("io full", |scope| full(scope.pressure.io)),
];

fn some(pressure: Option<Pressure>) -> Option<Percent> {
    Some(pressure?.some?.avg10)
}

fn full(pressure: Option<Pressure>) -> Option<Percent> {
    Some(pressure?.full?.avg10)
}

/// Looks at one snapshot more.
pub(super) fn look(peaks: &mut Peaks, snapshot: &Snapshot) {
    let kubepods = snapshot.scopes.values().find(|scope| scope.place == Place::Kubepods);
    for (name, scope) in [("node", Some(&snapshot.whole)), ("kubepods", kubepods)] {
        for (measure, of) in MEASURES {
            let Some(now) = scope.and_then(of) else { continue };
            let now = f64::from(now.0) / 100.0;
            let peak = peaks.entry(format!("{name} {measure}")).or_insert(now);
            *peak = peak.max(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::cgroup::CgroupId;
    use isobar_core::model::psi::Line;
    use isobar_core::model::snapshot::Union;

    use super::*;

    #[test]
    fn the_highest_of_each_is_kept_and_what_is_not_measured_is_not_there() {
        let union = |avg10| Some(Union { avg10: Percent(avg10), ..Union::default() });
        let snapshot = |contention: u16, io: u16| {
            let mut kubepods = Scope { place: Place::Kubepods, ..Scope::default() };
            let full = Some(Line { avg10: Percent(io), ..Line::default() });
            kubepods.pressure.io = Some(Pressure { some: None, full });
            let pod = Scope { place: Place::Other, contention: union(99_00), ..Scope::default() };
            Snapshot {
                whole: Scope { contention: union(contention), ..Scope::default() },
                scopes: [(CgroupId(5), pod), (CgroupId(7), kubepods)].into(),
                ..Snapshot::default()
            }
        };
        let mut peaks = Peaks::new();
        for (contention, io) in [(1_50, 0), (40_25, 3_00), (7_00, 2_00)] {
            look(&mut peaks, &snapshot(contention, io));
        }
        let want = [("kubepods io full".to_owned(), 3.0), ("node contention".to_owned(), 40.25)];
        assert_eq!(peaks, want.into());
    }
}
