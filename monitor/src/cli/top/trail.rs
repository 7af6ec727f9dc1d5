//! Shares of earlier ticks, for the lines of small bars, and since when a resource has been as it is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::units::{Moment, Nanos, Percent};
use isobar_core::view::View;
use isobar_core::view::verdict::Mood;
use serde_json::Value;

use super::figures::{some, union};

/// CPU, memory and IO: what verdicts look at. `None` was not measured.
pub(super) type Shares = [Option<Percent>; 3];

pub(super) const RESOURCES: [&str; 3] = ["CPU", "memory", "io"];

/// A node's points: ten minutes, as many as are asked of the agent.
const NODE: usize = 600;
/// A cgroup's points: 12 bytes each, so 10,000 cgroups take 14 MB.
const CGROUP: u64 = 120;
const MOST: usize = CGROUP as usize;
/// A pause ends a trail if it is longer than this, and than two intervals.
const PAUSE: Nanos = Nanos(30 * Nanos::SECOND.0);

/// The history of the same figures as [`shares`], and raw PSI where they are not measured.
pub(super) const HISTORY: &str = "/api/v1/history?begin=-10m&step=1s&series=\
    system.cpu.contention,system.cpu.some,system.memory.shortage,system.memory.some,system.io.some";

/// The same of one cgroup, with a point for each look, as far as they are kept here.
pub(super) fn history_of(CgroupPath(path): &CgroupPath, interval: Duration) -> String {
    let step = interval.as_secs().max(1);
    let span = step.saturating_mul(CGROUP).min(3_600);
    let mut asked = format!(
        "/api/v1/history?begin=-{span}s&step={step}s&series=cgroup.cpu.contention,cgroup.cpu.some,\
         cgroup.memory.shortage,cgroup.memory.some,cgroup.io.some&cgroup="
    );
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' => asked.push(byte.into()),
            _ => _ = write!(asked, "%{byte:02X}"),
        }
    }
    asked
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    boot: Nanos,
    shares: Shares,
}

impl Point {
    /// The node at one tick.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self::of_scope(snapshot.at, &snapshot.whole)
    }

    pub(super) fn of_scope(at: Moment, scope: &Scope) -> Self {
        Self { boot: at.boot, shares: shares(scope) }
    }

    /// As many as are kept of a cgroup reach back to here.
    pub(super) fn begin_before(at: Moment) -> Moment {
        let span = Nanos(CGROUP * Nanos::SECOND.0);
        Moment { boot: at.boot.since(span), wall: at.wall.since(span) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Trail {
    /// After a longer pause the points before are of another time.
    pause: Nanos,
    node: VecDeque<Point>,
    cgroups: BTreeMap<CgroupId, VecDeque<Shares>>,
}

impl Trail {
    /// With a point in each `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        let two = Nanos(u64::try_from(2 * interval.as_nanos()).unwrap_or(u64::MAX));
        Self::after_pauses(PAUSE.max(two))
    }

    fn after_pauses(pause: Nanos) -> Self {
        Self { pause, node: VecDeque::new(), cgroups: BTreeMap::new() }
    }

    /// Goes on with a tick. Cgroups that are gone are forgotten.
    pub(super) fn extend(&mut self, view: &View) {
        let boot = view.snapshot.at.boot;
        let is_next = |last: &Point| boot > last.boot && boot.since(last.boot) <= self.pause;
        if !self.node.back().is_none_or(is_next) {
            *self = Self::after_pauses(self.pause);
        }
        push(&mut self.node, Point::of(&view.snapshot), NODE);
        let scopes = &view.snapshot.scopes;
        self.cgroups.retain(|id, _| scopes.contains_key(id));
        for (id, scope) in scopes {
            push(self.cgroups.entry(*id).or_default(), shares(scope), MOST);
        }
    }

    /// Puts what the agent remembers before what was seen here.
    pub(super) fn precede(&mut self, earlier: Vec<Point>) {
        let first = self.node.front().map_or(Nanos(u64::MAX), |point| point.boot);
        for point in earlier.into_iter().rev().filter(|point| point.boot < first) {
            if self.node.len() < NODE {
                self.node.push_front(point);
            }
        }
    }

    /// The same of one cgroup.
    pub(super) fn precede_cgroup(&mut self, id: CgroupId, mut earlier: Vec<Point>) {
        let Some(own) = self.cgroups.get_mut(&id) else { return };
        // Its points are those of the newest ticks.
        let first = self.node.iter().rev().nth(own.len().saturating_sub(1)).map(|point| point.boot);
        earlier.sort_unstable_by_key(|point| point.boot);
        let mut next = first.unwrap_or_default();
        for point in earlier.into_iter().rev().filter(|point| Some(point.boot) < first) {
            if own.len() == MOST || next.since(point.boot) > self.pause {
                return;
            }
            next = point.boot;
            own.push_front(point.shares);
        }
    }

    pub(super) fn node(&self, resource: usize) -> impl DoubleEndedIterator<Item = Option<Percent>> {
        self.node.iter().map(move |point| point.shares[resource])
    }

    pub(super) fn cgroup(&self, id: CgroupId, resource: usize) -> Vec<Option<Percent>> {
        let own = self.cgroups.get(&id);
        own.map(|own| own.iter().map(|shares| shares[resource]).collect()).unwrap_or_default()
    }

    /// For how long the node's `resource` has been in its mood, and whether it was so before the
    /// first point.
    pub(super) fn since(&self, resource: usize) -> Option<(Nanos, bool)> {
        let mood = |point: &Point| point.shares[resource].map(Mood::of);
        let last = self.node.back()?;
        let same = self.node.iter().rev().take_while(|point| mood(point) == mood(last));
        let (n, first) = same.enumerate().last()?;
        Some((last.boot.since(first.boot), n + 1 == self.node.len()))
    }
}

fn push<T>(to: &mut VecDeque<T>, point: T, most: usize) {
    if to.len() == most {
        to.pop_front();
    }
    to.push_back(point);
}

/// What verdicts look at: contention and shortage, raw PSI where they are not measured.
pub(super) fn shares(scope: &Scope) -> Shares {
    let pressure = &scope.pressure;
    [
        union(scope.contention).or(some(pressure.cpu)),
        union(scope.shortage).or(some(pressure.memory)),
        some(pressure.io),
    ]
}

/// The points in an answer to [`HISTORY`] or [`history_of`]; none if it is no such answer.
pub(super) fn points(history: &Value, of: &str) -> Vec<Point> {
    let begin = history["begin"]["boot"].as_u64();
    let step = history["step"].as_u64();
    let (Some(begin), Some(step)) = (begin, step) else { return Vec::new() };
    let series = |name: &str| &history["series"][format!("{of}.{name}")]["values"];
    let value = |name: &str, i: usize| -> Option<Percent> {
        serde_json::from_value(series(name).get(i)?.clone()).ok()
    };
    let n = series("io.some").as_array().map_or(0, Vec::len);
    let point = |i: usize| {
        let shares = [
            value("cpu.contention", i).or_else(|| value("cpu.some", i)),
            value("memory.shortage", i).or_else(|| value("memory.some", i)),
            value("io.some", i),
        ];
        let boot = Nanos(begin).plus(Nanos(step.saturating_mul(i as u64)));
        Point { boot, shares }
    };
    let known = |point: &Point| point.shares.iter().any(Option::is_some);
    let mut points: Vec<_> = (0..n).map(point).skip_while(|point| !known(point)).collect();
    // The second that has just begun has no tick yet.
    while points.last().is_some_and(|point| !known(point)) {
        points.pop();
    }
    points
}

/// The last `width` shares as bars of eighths; a blank where nothing was measured.
pub(super) fn bars(
    shares: impl DoubleEndedIterator<Item = Option<Percent>>,
    width: usize,
) -> String {
    const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |share: Option<Percent>| {
        let eighth = |Percent(share)| usize::from(share.min(99_99)) * EIGHTHS.len() / 100_00;
        share.map_or(' ', |share| EIGHTHS[eighth(share)])
    };
    let mut last: Vec<char> = shares.rev().take(width).map(bar).collect();
    last.reverse();
    last.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use isobar_core::model::units::Moment;
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> View {
        let mut view = View::default();
        view.snapshot.at = Moment { boot: Nanos(seconds * Nanos::SECOND.0), wall: Nanos(0) };
        view
    }

    #[test]
    fn bars_of_shares() {
        let shares = [None, Some(0), Some(12_49), Some(12_50), Some(100_00), Some(655_35)];
        let shares = shares.map(|share| share.map(Percent));
        assert_eq!(bars(shares.into_iter(), 10), " ▁▁▂██");
        assert_eq!(bars(shares.into_iter(), 2), "██");
        assert_eq!(bars(shares.into_iter(), 0), "");
    }

    #[test]
    fn points_of_answers() {
        let answer = json!({
            "begin": { "boot": 5_000_000_000_u64 },
            "step": 1_000_000_000,
            "series": {
                "system.cpu.contention": { "values": [null, null, 41.5, null] },
                "system.cpu.some": { "values": [null, 7, 50, null] },
                "system.io.some": { "values": [null, 0, 1, null] },
            },
        });
        let second = Nanos::SECOND.0;
        let want = [
            Point {
                boot: Nanos(6 * second),
                shares: [Some(Percent(7_00)), None, Some(Percent(0))],
            },
            Point {
                boot: Nanos(7 * second),
                shares: [Some(Percent(41_50)), None, Some(Percent(1_00))],
            },
        ];
        assert_eq!(points(&answer, "system"), want);
        assert_eq!(points(&json!({ "code": 400 }), "system"), []);
    }

    #[test]
    fn history_of_any_path() {
        #[rustfmt::skip]
        let table = [
            // path, interval in seconds, begin, step, end of the query
            ("/kubepods.slice/pod-1", 1,   "-120s",  "1s",  "&cgroup=/kubepods.slice/pod-1"),
            ("/a b&c=d+%é",           5,   "-600s",  "5s",  "&cgroup=/a%20b%26c%3Dd%2B%25%C3%A9"),
            ("/x",                    60,  "-3600s", "60s", "&cgroup=/x"),
        ];
        for (path, interval, begin, step, end) in table {
            let asked = history_of(&CgroupPath(path.into()), Duration::from_secs(interval));
            let starts = format!("/api/v1/history?begin={begin}&step={step}&series=");
            assert!(asked.starts_with(&starts) && asked.ends_with(end), "{asked}");
        }
    }

    #[test]
    fn since_ends_where_the_mood_changes() {
        let mut trail = Trail::new(Duration::from_secs(1));
        let pressed =
            |boot| Point { boot: Nanos(boot), shares: [Some(Percent(50_00)), None, None] };
        trail.extend(&at(9));
        assert_eq!(trail.since(0), Some((Nanos(0), true)));
        trail.precede(vec![pressed(1)]);
        trail.extend(&at(10));
        assert_eq!(trail.since(0), Some((Nanos::SECOND, false)));
        // The clock went back, as in a recording: what was before does not count.
        trail.extend(&at(2));
        assert_eq!(trail.since(0), Some((Nanos(0), true)));
    }

    #[test]
    fn trail_goes_on_with_any_interval() {
        let minute = 60;
        let mut trail = Trail::new(Duration::from_secs(minute));
        (1..=3).for_each(|n| trail.extend(&at(n * minute)));
        assert_eq!(trail.since(0), Some((Nanos(2 * minute * Nanos::SECOND.0), true)));
        trail.extend(&at(6 * minute));
        assert_eq!(trail.since(0), Some((Nanos(0), true)), "after a pause");
    }
}
