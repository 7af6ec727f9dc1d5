//! What the runs say: medians, what each observer adds, and its share of what runqlat adds.

use std::fmt;

use serde::Serialize;

use super::super::median;
use super::{Case, Measured, Observer};
use isobar_lab::table::{against, table};

/// Everything about switching.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Figures {
    rounds: u32,
    cpu: usize,
    /// Cgroups above the two threads that have a run queue of their own in cgroup v2.
    levels: usize,
    prices: Vec<Price>,
    budgets: Vec<Budget>,
    /// By how much wall time was longer than CPU time with nobody beside: the machine's noise.
    disturbed_percent: f64,
    /// What could not be compared with, and why.
    missing: Vec<String>,
    runs: Vec<Measured>,
}

/// What one observer costs in one case, in nanoseconds of CPU time for each switch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Price {
    case: Case,
    observer: Observer,
    median: f64,
    least: f64,
    most: f64,
    /// Median of the differences from nothing in the same round.
    adds: f64,
    /// What it adds, of what runqlat adds.
    of_runqlat: Option<f64>,
}

/// isobar's share against its limit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Budget {
    case: Case,
    of_runqlat: Option<f64>,
    limit: f64,
}

impl Figures {
    pub(super) fn of(
        runs: Vec<Measured>,
        rounds: u32,
        cpu: usize,
        levels: usize,
        missing: Vec<String>,
    ) -> Self {
        let prices: Vec<Price> = Case::ALL
            .into_iter()
            .flat_map(|case| Observer::ALL.map(|observer| (case, observer)))
            .filter_map(|(case, observer)| price(&runs, case, observer))
            .collect();
        let budgets = Case::ALL.into_iter().map(|case| {
            let isobar = |p: &&Price| p.case == case && p.observer == Observer::Isobar;
            let of_runqlat = prices.iter().find(isobar).and_then(|price| price.of_runqlat);
            Budget { case, of_runqlat, limit: case.limit() }
        });
        let alone = runs.iter().filter(|measured| measured.case != Case::SpinnerBeside);
        let longer = alone.map(|m| m.run.ns_per_switch / m.run.cpu_ns_per_switch - 1.0);
        Self {
            rounds,
            cpu,
            levels,
            budgets: budgets.collect(),
            disturbed_percent: 100.0 * median(longer.collect()).unwrap_or(0.0),
            prices,
            missing,
            runs,
        }
    }
}

/// The CPU time of each round's switches.
fn times(runs: &[Measured], case: Case, observer: Observer) -> Vec<(u32, f64)> {
    let these = runs.iter().filter(|m| m.case == case && m.observer == observer);
    these.map(|m| (m.round, m.run.cpu_ns_per_switch)).collect()
}

/// The median of what an observer adds, round by round: a machine that slows down from round to
/// round would else decide the difference of two medians.
fn adds(runs: &[Measured], case: Case, observer: Observer) -> Option<f64> {
    let nothing = times(runs, case, Observer::Nothing);
    let with = times(runs, case, observer).into_iter();
    let differences = with.filter_map(|(round, ns)| {
        let (_, without) = nothing.iter().find(|(other, _)| *other == round)?;
        Some(ns - without)
    });
    median(differences.collect())
}

fn price(runs: &[Measured], case: Case, observer: Observer) -> Option<Price> {
    let times: Vec<f64> = times(runs, case, observer).into_iter().map(|(_, ns)| ns).collect();
    let adds_ns = adds(runs, case, observer)?;
    let runqlat = adds(runs, case, Observer::Runqlat).filter(|ns| *ns > 0.0);
    Some(Price {
        case,
        observer,
        least: times.iter().copied().fold(f64::INFINITY, f64::min),
        most: times.iter().copied().fold(0.0, f64::max),
        median: median(times)?,
        adds: adds_ns,
        of_runqlat: runqlat.map(|runqlat| adds_ns / runqlat),
    })
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, cpu, disturbed_percent, .. } = self;
        writeln!(
            f,
            "A context switch on CPU {cpu}, ns of CPU time, medians of {rounds} rounds; \
             wall time was {disturbed_percent:.1} % longer."
        )?;
        for case in Case::ALL {
            let prices = self.prices.iter().filter(|price| price.case == case);
            let rows: Vec<Vec<String>> = prices.map(row).collect();
            let head = [case.name(), "ns", "least", "most", "adds", "of runqlat"];
            write!(f, "\n{}", table(&head, &rows))?;
        }
        writeln!(f)?;
        for Budget { case, of_runqlat, limit } in &self.budgets {
            let name = case.name();
            match of_runqlat {
                Some(share) => writeln!(
                    f,
                    "budget, {name}: {share:.2} of what runqlat adds, at most {limit}: {}",
                    against(*share, *limit)
                )?,
                None => writeln!(f, "budget, {name}: not judged, runqlat was not measured")?,
            }
        }
        match self.levels {
            0 => writeln!(
                f,
                "levels: none. Cgroup v2 has no cpu controller here, so cgroups have no run queues \
                 that isobar could follow, and what the union of each level costs is not in these \
                 figures."
            )?,
            n => writeln!(f, "levels: {n} cgroups with run queues above the two threads")?,
        }
        self.missing.iter().try_for_each(|what| writeln!(f, "not measured: {what}"))
    }
}

fn row(price: &Price) -> Vec<String> {
    vec![
        price.observer.name().into(),
        format!("{:.0}", price.median),
        format!("{:.0}", price.least),
        format!("{:.0}", price.most),
        format!("{:+.0}", price.adds),
        price.of_runqlat.map_or_else(|| "-".into(), |share| format!("{share:.2}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;

    #[test]
    fn what_is_added_is_compared_round_by_round_and_with_runqlat() {
        let times = [
            (Observer::Nothing, [1000.0, 2000.0, 1500.0]),
            (Observer::Isobar, [1100.0, 2120.0, 1590.0]),
            (Observer::Runqlat, [1400.0, 2400.0, 1900.0]),
        ];
        let runs = times.into_iter().flat_map(|(observer, times)| {
            (1..).zip(times).map(move |(round, ns)| {
                let run = Run { ns_per_switch: ns * 1.5, cpu_ns_per_switch: ns };
                Measured { round, case: Case::NobodyWaits, observer, run }
            })
        });
        let figures = Figures::of(runs.collect(), 3, 0, 0, Vec::new());
        let adds: Vec<f64> = figures.prices.iter().map(|price| price.adds).collect();
        assert_eq!(adds, [0.0, 100.0, 400.0]);
        assert_eq!(figures.budgets[0].of_runqlat, Some(0.25));
        assert_eq!(figures.budgets[1].of_runqlat, None);
        assert_eq!(figures.disturbed_percent, 50.0);
    }
}
