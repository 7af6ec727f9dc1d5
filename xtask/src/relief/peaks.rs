//! How high each measure of pressure came while an agent that offers snapshots looked on: what
//! thresholds are chosen from.

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and where they are in a scope: ours first, then PSI.
#[rustfmt::skip]
const MEASURES: [(&str, &str); 7] = [
    ("contention",  "/contention/avg10"),
    ("shortage",    "/shortage/avg10"),
    ("cpu some",    "/pressure/cpu/some/avg10"),
    ("memory some", "/pressure/memory/some/avg10"),
    ("memory full", "/pressure/memory/full/avg10"),
    ("io some",     "/pressure/io/some/avg10"),
    ("io full",     "/pressure/io/full/avg10"),
];

/// The highest average over ten seconds, by scope and measure, in percent. What was never measured
/// is not in it.
pub(super) type Peaks = BTreeMap<String, f64>;

/// Looks at one snapshot more.
pub(super) fn look(peaks: &mut Peaks, snapshot: &Value) {
    let scopes = snapshot["scopes"].as_object();
    let kubepods =
        scopes.and_then(|all| all.values().find(|one| one["place"]["kind"] == "kubepods"));
    for (name, scope) in [("node", Some(&snapshot["whole"])), ("kubepods", kubepods)] {
        for (measure, path) in MEASURES {
            let Some(now) = scope.and_then(|scope| scope.pointer(path)?.as_f64()) else { continue };
            let peak = peaks.entry(format!("{name} {measure}")).or_insert(now);
            *peak = peak.max(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_highest_of_each_is_kept_and_what_is_not_measured_is_not_there() {
        let snapshot = |contention: f64, io: f64| {
            json!({
                "whole": { "contention": { "avg10": contention }, "shortage": null },
                "scopes": {
                    "5": { "place": { "kind": "pod" }, "contention": { "avg10": 99.0 } },
                    "7": { "place": { "kind": "kubepods" }, "pressure": { "io": { "full": { "avg10": io } } } },
                },
            })
        };
        let mut peaks = Peaks::new();
        for (contention, io) in [(1.5, 0.0), (40.25, 3.0), (7.0, 2.0)] {
            look(&mut peaks, &snapshot(contention, io));
        }
        let want = [("kubepods io full".to_owned(), 3.0), ("node contention".to_owned(), 40.25)];
        assert_eq!(peaks, want.into());
    }
}
