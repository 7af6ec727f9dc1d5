//! What an agent says of itself, heard on its stream while a play runs: only some agents offer it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::condition::Status;
use isobar_core::model::decision::{self, StepKind};
use isobar_core::model::units::Nanos;
use isobar_core::view::View;

use super::peaks;
use crate::clock::monotonic_ns;
use crate::facts::{Action, Said, Served, Tick};

/// Sentences that are kept.
const SENTENCES: usize = 400;

/// Listens as long as the agent lives, and to its successor.
pub(super) struct Listener {
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens to `/api/v1/stream`, which has every tick, also those that come early.
    pub(super) fn start(address: &str) -> Result<Self> {
        let url = format!("http://{address}/api/v1/stream");
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, all) = (Arc::clone(&stop), Arc::clone(&heard));
        let thread = thread::Builder::new().spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // Ends when the agent does: then its successor is heard.
                if let Ok(answer) = ureq::get(&url).call() {
                    let lines = BufReader::new(answer.into_body().into_reader()).lines();
                    let mut is_sample = false;
                    for line in lines.map_while(Result::ok) {
                        if let Some(name) = line.strip_prefix("event:") {
                            is_sample = name.trim() == "sample";
                        }
                        let view = line.strip_prefix("data:").map(str::trim);
                        if let Some(view) =
                            view.filter(|_| is_sample).map(|json| View::parse(json.as_bytes()))
                        {
                            lock(&all).hear(view, monotonic_ns());
                        }
                    }
                }
                thread::sleep(Duration::from_millis(200));
            }
        })?;
        Ok(Self { stop, heard, thread: Some(thread) })
    }

    /// Forgets what was heard in the play before.
    pub(super) fn begin(&self) {
        *lock(&self.heard) = Heard::default();
    }

    /// From here on it is the loads whose pressure is looked at.
    pub(super) fn onset(&self) {
        lock(&self.heard).is_on = true;
    }

    /// From here on each view is kept, for the figures.
    pub(super) fn keep_views(&self) {
        lock(&self.heard).keeps_views = true;
    }

    /// True once a view that is kept has all these cgroups; it is the first then.
    pub(super) fn sees(&self, paths: &[String]) -> bool {
        let mut heard = lock(&self.heard);
        let Some(newest) = heard.views.pop() else { return false };
        heard.views.clear();
        let has = |path: &String| newest.snapshot.scopes.values().any(|s| *s.path.0 == **path);
        let sees = paths.iter().all(has);
        heard.views.push(newest);
        sees
    }

    /// How much time lies between the first and the last view that are kept.
    pub(super) fn covered(&self) -> Nanos {
        let heard = lock(&self.heard);
        let at = |view: Option<&View>| view.map_or(Nanos(0), |view| view.snapshot.at.boot);
        at(heard.views.last()).since(at(heard.views.first()))
    }

    /// The views that were kept; from here on none are.
    pub(super) fn take_views(&self) -> Vec<View> {
        let mut heard = lock(&self.heard);
        heard.keeps_views = false;
        std::mem::take(&mut heard.views)
    }

    /// All that was heard since the play began.
    pub(super) fn take(&self) -> Served {
        std::mem::take(&mut *lock(&self.heard)).served()
    }

    /// From here on no successor is waited for.
    pub(super) fn expect_no_other(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// All that was heard, once the agent has ended.
    pub(super) fn end(mut self) -> Served {
        self.expect_no_other();
        if let Some(thread) = self.thread.take() {
            // Fails only if it panicked, which it has said then.
            let _ = thread.join();
        }
        self.take()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.expect_no_other();
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has been heard so far.
#[derive(Default)]
struct Heard {
    served: Served,
    /// The loads have begun.
    is_on: bool,
    keeps_views: bool,
    views: Vec<View>,
    conditions: BTreeMap<String, u64>,
    /// Tick and its time on the boot clock.
    last: Option<(u64, u64)>,
    actions: BTreeSet<(u64, StepKind)>,
    /// Sentences without their digits.
    said: BTreeSet<String>,
}

impl Heard {
    fn hear(&mut self, view: Result<View, serde_json::Error>, at_ns: u64) {
        let view = match view {
            Ok(view) => view,
            Err(why) => {
                self.served.unreadable.get_or_insert_with(|| why.to_string());
                return;
            }
        };
        let (tick, boot) = (view.snapshot.tick, view.snapshot.at.boot.0);
        if self.last.is_some_and(|(last, _)| last == tick) {
            return;
        }
        // A smaller number is another agent's, begun again.
        let next = self.last.filter(|(last, _)| *last < tick);
        let gap = next.map_or(0, |(last, before)| (boot.saturating_sub(before)) / (tick - last));
        let longest = gap.max(view.snapshot.interval.0) / 1_000_000;
        self.served.longest_tick_ms = self.served.longest_tick_ms.max(longest);
        self.last = Some((tick, boot));
        self.served.ticks += 1;
        self.served.trace.push(traced(&view));
        if self.is_on {
            peaks::look(&mut self.served.peaks, &view.snapshot);
        }
        for condition in
            view.decision.assessment.conditions.iter().filter(|one| one.status == Status::True)
        {
            *self.conditions.entry(condition.kind.clone()).or_default() += 1;
        }
        for action in &view.decision.relief.actions {
            self.act(action, at_ns);
        }
        for event in view.decision.events() {
            let text = format!("{}: {}", event.reason, event.message);
            self.served.events.push(Said { at_ns, text });
        }
        for one in view.capabilities.iter().filter(|c| c.state != CapabilityState::Attached) {
            self.note(format!("{} {} {}", one.name, one.state.name(), one.detail), at_ns);
        }
        let explained = [&view.explanation.why, &view.explanation.verdict];
        let explained = explained.into_iter().chain([&view.explanation.candidates]).flatten();
        for text in [&view.headline].into_iter().chain(explained) {
            self.note(text.clone(), at_ns);
        }
        if self.keeps_views {
            self.views.push(view);
        }
    }

    /// Keeps a sentence; other numbers alone do not make another one.
    fn note(&mut self, text: String, at_ns: u64) {
        let shape = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.said.len() < SENTENCES && self.said.insert(shape) {
            self.served.explanation.push(Said { at_ns, text });
        }
    }

    fn act(&mut self, action: &decision::Action, at_ns: u64) {
        if !self.actions.insert((action.id, action.step)) {
            return;
        }
        self.served.actions.push(Action {
            at_ns,
            step: action.step.name().into(),
            target: action.target.name.clone(),
            enforced: action.is_enforced,
            message: action.message.clone(),
        });
    }

    fn served(mut self) -> Served {
        self.served.conditions = self.conditions.into_iter().collect();
        self.served
    }
}

fn traced(view: &View) -> Tick {
    let mut actions = view.decision.relief.actions.iter();
    let ended = actions.find(|action| action.is_enforced && action.step.is_final());
    Tick {
        at_ns: view.snapshot.at.boot.0,
        stall_ns: view.snapshot.whole.memory.as_ref().map(|memory| memory.any.total.0),
        reading_ns: view.cost.reading.0,
        decision_ns: view.cost.decision.0,
        handover_ns: view.cost.handover.map(|time| time.0),
        ends: ended.map(|action| action.target.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::capability::Capability;
    use isobar_core::model::condition::{Condition, ConditionName, Measure, Phase};
    use isobar_core::model::sample::Moment;
    use isobar_core::model::units::Percent;

    use super::*;

    fn condition(status: Status) -> Condition {
        Condition {
            name: ConditionName::ALL[1],
            kind: "SystemMemoryContentionPressure".into(),
            status,
            phase: Phase::Calm,
            measure: Measure::Shortage,
            threshold: Percent(40_00),
            avg10: None,
            avg60: None,
            seen: None,
            since: Moment::default(),
            judged: None,
            why: None,
        }
    }

    #[test]
    fn what_an_agent_says_is_heard_once_and_its_longest_tick_is_found() {
        let view = |tick: u64, second: u64, status| {
            let mut view = View { headline: format!("{second} wait"), ..View::default() };
            view.snapshot.tick = tick;
            view.snapshot.at.boot = Nanos(second * 1_000_000_000);
            view.snapshot.interval = Nanos::SECOND;
            view.decision.assessment.conditions = vec![condition(status)];
            view.capabilities = vec![
                Capability::new("exit", CapabilityState::Attached, "tidying up"),
                Capability::new("switch", CapabilityState::Off, format!("for {second} min")),
            ];
            view.explanation.why = vec![format!("{second} MiB are left")];
            view
        };
        let mut heard = Heard { keeps_views: true, ..Heard::default() };
        // tick, second, status
        for (tick, second, status) in [
            (1, 1, Status::False),
            (2, 2, Status::True),
            (2, 2, Status::True),
            (4, 8, Status::True),
        ] {
            // As it is served and read again.
            let view = view(tick, second, status);
            let json = view.to_json(&view.snapshot);
            heard.hear(View::parse(&json), 5);
        }
        heard.hear(View::parse(b"{}"), 6);
        assert_eq!(heard.views.len(), 3);
        let served = heard.served();
        let want = [("SystemMemoryContentionPressure".to_owned(), 2)];
        assert_eq!(served.conditions, want);
        assert_eq!((served.ticks, served.longest_tick_ms), (3, 3000));
        assert!(served.unreadable.is_some_and(|why| why.contains("missing field")));
        let said: Vec<&str> = served.explanation.iter().map(|said| said.text.as_str()).collect();
        assert_eq!(said, ["switch off for 1 min", "1 wait", "1 MiB are left"]);
    }
}
