//! What an agent says of itself, asked while a play runs: an extra, which only some offer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::facts::{Action, Offered, Said, Tick};
use super::peaks;
use crate::clock::monotonic_ns;

/// Sentences that are kept.
const SENTENCES: usize = 400;

/// Listens until it is told to end.
pub(super) struct Offer {
    stop: Arc<AtomicBool>,
    /// The loads have begun.
    begun: Arc<AtomicBool>,
    thread: JoinHandle<Offered>,
}

impl Offer {
    /// Listens to `/api/v1/stream`, which has every tick, also those that come early.
    pub(super) fn hear(address: &str) -> Result<Self> {
        let url = format!("http://{address}/api/v1/stream");
        let stop = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicBool::new(false));
        let (told, is_on) = (Arc::clone(&stop), Arc::clone(&begun));
        let thread = thread::Builder::new().spawn(move || {
            let mut heard = Heard::default();
            while !told.load(Ordering::Relaxed) {
                // Ends when the agent does: then its successor is heard.
                if let Ok(answer) = ureq::get(&url).call() {
                    let lines = BufReader::new(answer.into_body().into_reader()).lines();
                    for line in lines.map_while(Result::ok) {
                        let snapshot = line.strip_prefix("data:").map(str::trim);
                        if let Some(snapshot) = snapshot.and_then(|s| serde_json::from_str(s).ok())
                        {
                            heard.is_on = is_on.load(Ordering::Relaxed);
                            heard.hear(&snapshot, monotonic_ns());
                        }
                    }
                }
                thread::sleep(Duration::from_millis(200));
            }
            heard.offered()
        })?;
        Ok(Self { stop, begun, thread })
    }

    /// From here on it is the loads whose pressure is looked at.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// From here on no successor is waited for.
    pub(super) fn enough(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// All that was heard, once the agent has ended.
    pub(super) fn end(self) -> Offered {
        self.enough();
        self.thread.join().unwrap_or_default()
    }
}

/// What has been heard so far.
#[derive(Default)]
struct Heard {
    offered: Offered,
    /// The loads have begun.
    is_on: bool,
    conditions: BTreeMap<String, u64>,
    /// Tick and its time on the boot clock.
    last: Option<(u64, u64)>,
    actions: BTreeSet<(String, String)>,
    said: BTreeSet<String>,
}

impl Heard {
    fn hear(&mut self, snapshot: &Value, at_ns: u64) {
        let tick = snapshot["tick"].as_u64().unwrap_or(0);
        let boot = snapshot["at"]["boot"].as_u64().unwrap_or(0);
        if self.last.is_some_and(|(last, _)| last == tick) {
            return;
        }
        // A smaller number is another agent's, begun again.
        let next = self.last.filter(|(last, _)| *last < tick);
        let gap = next.map_or(0, |(last, before)| (boot.saturating_sub(before)) / (tick - last));
        let interval = snapshot["interval"].as_u64().unwrap_or(0);
        let longest = gap.max(interval) / 1_000_000;
        self.offered.longest_tick_ms = self.offered.longest_tick_ms.max(longest);
        self.last = Some((tick, boot));
        self.offered.ticks += 1;
        let probes = list(&snapshot["cost"]["kernel"]["programs"]);
        let probes = probes.filter_map(|one| one["perSecond"].as_u64()).sum();
        self.offered.probes_ns = self.offered.probes_ns.max(probes);
        self.offered.trace.push(traced(snapshot, boot));
        if self.is_on {
            peaks::look(&mut self.offered.peaks, snapshot);
        }
        let decision = &snapshot["decision"];
        for condition in list(&decision["assessment"]["conditions"]) {
            if condition["status"] == "True" {
                *self.conditions.entry(text(&condition["type"])).or_default() += 1;
            }
        }
        for action in list(&decision["relief"]["actions"]) {
            self.act(action, at_ns);
        }
        let events = ["assessment", "relief"].map(|part| &decision[part]["events"]);
        for event in events.into_iter().flat_map(list) {
            let text = format!("{}: {}", text(&event["reason"]), text(&event["message"]));
            self.offered.events.push(Said { at_ns, text });
        }
        for lacking in list(&snapshot["capabilities"]).filter(|one| one["state"] != "attached") {
            let parts = ["name", "state", "detail"].map(|part| text(&lacking[part]));
            self.note(parts.join(" "), at_ns);
        }
        self.note(text(&snapshot["headline"]), at_ns);
        for part in ["why", "verdict", "candidates"] {
            for sentence in list(&snapshot["explanation"][part]) {
                self.note(text(sentence), at_ns);
            }
        }
    }

    /// Keeps a sentence; other numbers alone do not make another one.
    fn note(&mut self, text: String, at_ns: u64) {
        let shape = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.said.len() < SENTENCES && self.said.insert(shape) {
            self.offered.explanation.push(Said { at_ns, text });
        }
    }

    fn act(&mut self, action: &Value, at_ns: u64) {
        if !self.actions.insert((action["id"].to_string(), action["step"].to_string())) {
            return;
        }
        self.offered.actions.push(Action {
            at_ns,
            step: text(&action["step"]),
            target: text(&action["target"]["name"]),
            enforced: action["isEnforced"] == true,
            message: text(&action["message"]),
        });
    }

    fn offered(mut self) -> Offered {
        self.offered.conditions = self.conditions.into_iter().collect();
        self.offered
    }
}

fn traced(snapshot: &Value, at_ns: u64) -> Tick {
    let ends = |action: &&Value| {
        let ending = ["evict", "stopContainers", "killContainers"];
        action["isEnforced"] == true && ending.iter().any(|step| action["step"] == *step)
    };
    let ended = list(&snapshot["decision"]["relief"]["actions"]).find(ends);
    Tick {
        at_ns,
        stall_ns: snapshot.pointer("/whole/memory/any/total").and_then(Value::as_u64),
        decision_ns: snapshot.pointer("/cost/decision").and_then(Value::as_u64).unwrap_or(0),
        handover_ns: snapshot.pointer("/cost/handover").and_then(Value::as_u64),
        ends: ended.map(|action| text(&action["target"]["name"])),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_agent_says_is_heard_once_and_its_longest_tick_is_found() {
        let snapshot = |tick: u64, second: u64, status: &str| {
            json!({
                "tick": tick, "at": { "boot": second * 1_000_000_000 }, "interval": 1_000_000_000u64,
                "decision": {
                    "assessment": { "conditions": [{ "type": "MemoryPressure", "status": status }] },
                    "relief": { "actions": [
                        { "id": 7, "step": "killContainers", "target": { "name": "hog" }, "isEnforced": true },
                    ] },
                },
                "capabilities": [
                    { "name": "exit", "state": "attached", "detail": "tidying up" },
                    { "name": "switch", "state": "off", "detail": format!("for {second} min") },
                ],
                "headline": format!("{second} wait"),
                "explanation": { "why": [format!("{second} MiB are left")] },
            })
        };
        let mut heard = Heard::default();
        // tick, second, status
        for (tick, second, status) in
            [(1, 1, "False"), (2, 2, "True"), (2, 2, "True"), (4, 8, "True")]
        {
            heard.hear(&snapshot(tick, second, status), 5);
        }
        let offered = heard.offered();
        assert_eq!(offered.conditions, [("MemoryPressure".to_owned(), 2)]);
        assert_eq!((offered.ticks, offered.longest_tick_ms), (3, 3000));
        assert_eq!((offered.actions.len(), offered.actions[0].target.as_str()), (1, "hog"));
        assert!(offered.actions[0].enforced);
        let said: Vec<&str> = offered.explanation.iter().map(|said| said.text.as_str()).collect();
        assert_eq!(said, ["switch off for 1 min", "1 wait", "1 MiB are left"]);
    }
}
