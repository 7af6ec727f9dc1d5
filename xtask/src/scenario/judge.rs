//! Compares what a scenario expects with what the agent said.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Expected;
use super::expect::{Expr, Kills, Path, Question, Relation, Sign, Subject, When};
use super::quantity::{Quantity, Unit};
use super::report::Judged;

/// What there is to judge by.
pub(crate) struct Evidence {
    /// The agent's snapshots over the measured time, oldest first: two at least.
    pub(crate) snapshots: Vec<Value>,
    /// What the machine answered; why it could not, else.
    pub(crate) answers: BTreeMap<Question, Result<f64, String>>,
}

/// Judges one expectation.
pub(crate) fn judge(expected: &Expected, evidence: &Evidence) -> Judged {
    let left = evidence.value(&expected.meaning.left);
    let right = evidence.value(&expected.meaning.right);
    let error = [&left, &right].into_iter().filter_map(|side| side.as_ref().err().cloned());
    let error: Vec<String> = error.collect();
    let passed = match (&left, &right) {
        (Ok(left), Ok(right)) => expected.meaning.relation.holds(left.value, right.value),
        _ => false,
    };
    Judged {
        at: expected.line,
        text: expected.text.clone(),
        passed,
        left: left.ok(),
        right: right.ok(),
        error: (!error.is_empty()).then(|| error.join("; ")),
    }
}

impl Relation {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Above => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Within(Quantity { value, unit: Unit::Share }) => {
                (left - right).abs() <= value * right.abs()
            }
            Self::Within(Quantity { value, .. }) => (left - right).abs() <= value,
        }
    }
}

impl Evidence {
    fn first(&self) -> Result<&Value, String> {
        self.snapshots.first().ok_or_else(|| "there is no snapshot".into())
    }

    fn last(&self) -> Result<&Value, String> {
        self.snapshots.last().ok_or_else(|| "there is no snapshot".into())
    }

    fn value(&self, expr: &Expr) -> Result<Quantity, String> {
        let (value, unit) = match expr {
            Expr::Constant(quantity) => return Ok(*quantity),
            Expr::Wall => (self.wall()?, Unit::Time),
            Expr::Read(when, subject, path) => {
                let (unit, factor) = path.unit(subject);
                (self.read(*when, subject, path)? * factor, unit)
            }
            Expr::Harm { when, by, to } => (self.harm(*when, by, to)?, Unit::Time),
            Expr::OomKills(kills) => (self.oom_kills(kills)?, Unit::Number),
            Expr::Condition { name, status } => (self.condition(name, status)?, Unit::Number),
            Expr::Actions { step, target } => {
                (self.actions(step.as_deref(), target.as_deref())?, Unit::Number)
            }
            Expr::Ask(question) => {
                let answer = self.answers.get(question).cloned();
                (answer.unwrap_or_else(|| Err("nobody asked".into()))?, Unit::Number)
            }
            Expr::Limits { result } => (self.limits(result)?, Unit::Number),
            Expr::Sum(a, sign, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let value = match sign {
                    Sign::Plus => a.value + b.value,
                    Sign::Minus => a.value - b.value,
                };
                (value, a.unit)
            }
            Expr::Product(a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let unit = if b.unit == Unit::Time { b.unit } else { a.unit };
                let unit = if a.unit == Unit::Share { b.unit } else { unit };
                (a.value * b.value, unit)
            }
            Expr::Ratio(a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                if b.value == 0.0 {
                    return Err(format!("{a} divided by zero"));
                }
                (a.value / b.value, if a.unit == b.unit { Unit::Share } else { a.unit })
            }
        };
        Ok(Quantity { value, unit })
    }

    /// Between the two snapshots, by the clock that never jumps.
    fn wall(&self) -> Result<f64, String> {
        let boot = Path::parse(".at.boot")?;
        self.read(When::Diff, &Subject::Snapshot, &boot)
    }

    fn read(&self, when: When, subject: &Subject, path: &Path) -> Result<f64, String> {
        let at = |name: &str, snapshot: &Value| {
            let found = find(snapshot, subject).and_then(|value| path.number(value));
            found.map_err(|why| format!("{name} snapshot, {subject}: {why}"))
        };
        match when {
            When::First => at("first", self.first()?),
            When::Last => at("last", self.last()?),
            When::Diff => Ok(at("last", self.last()?)? - at("first", self.first()?)?),
        }
    }

    /// How long `to` waited because `by` ran. A pair is listed only in intervals in which it
    /// occurred, so the first one that lists it tells what it was before.
    fn harm(&self, when: When, by: &str, to: &str) -> Result<f64, String> {
        let mut before = None;
        let mut after = 0.0;
        for (i, snapshot) in self.snapshots.iter().enumerate() {
            let Some(blames) = snapshot.get("aggressions").and_then(Value::as_array) else {
                return Err("the snapshot has no aggressions".into());
            };
            let ours = |blame: &&Value| blame["victimPath"] == to && blame["aggressorPath"] == by;
            let Some(blame) = blames.iter().find(ours) else { continue };
            let (now, total) = (blame["time"]["now"].as_f64(), blame["time"]["total"].as_f64());
            let (Some(now), Some(total)) = (now, total) else {
                return Err(format!("an aggression has no time: {blame}"));
            };
            before = before.or(Some(if i == 0 { total } else { total - now }));
            after = total;
        }
        let before = before.unwrap_or(0.0);
        Ok(match when {
            When::First => before,
            When::Last => after,
            When::Diff => after - before,
        })
    }

    /// Kills after the first snapshot that fit. Those of a tick that nobody asked for are among the
    /// recent ones of the next.
    fn oom_kills(&self, wanted: &Kills) -> Result<f64, String> {
        let known: BTreeSet<_> = recent_kills(self.first()?)?.map(kill_key).collect();
        let mut kills = BTreeSet::new();
        for snapshot in &self.snapshots[1..] {
            for kill in recent_kills(snapshot)?.filter(|kill| !known.contains(&kill_key(kill))) {
                let fits = self.is_called(&kill["victim"], &wanted.victim)
                    && wanted.limit.as_ref().is_none_or(|limit| self.had_limit(kill, limit))
                    && wanted
                        .trigger
                        .as_ref()
                        .is_none_or(|by| self.is_called(&kill["trigger"], by));
                if fits {
                    kills.insert(kill_key(kill));
                }
            }
        }
        Ok(kills.len() as f64)
    }

    /// Snapshots in which the condition has that status.
    fn condition(&self, name: &str, status: &str) -> Result<f64, String> {
        let mut n = 0.0;
        for snapshot in &self.snapshots {
            let conditions = snapshot["decision"]["assessment"]["conditions"].as_array();
            let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == name));
            let found = found.ok_or_else(|| format!("no condition is called {name}"))?;
            n += f64::from(u8::from(found["status"] == status));
        }
        Ok(n)
    }

    /// Different actions that fit.
    fn actions(&self, step: Option<&str>, target: Option<&str>) -> Result<f64, String> {
        let mut ids = BTreeSet::new();
        for snapshot in &self.snapshots {
            let actions = snapshot["decision"]["relief"]["actions"].as_array();
            for action in actions.ok_or("the snapshot has no actions")? {
                let fits = step.is_none_or(|step| action["step"] == step)
                    && target.is_none_or(|target| action["target"]["name"] == target);
                if fits {
                    ids.insert(action["id"].to_string());
                }
            }
        }
        Ok(ids.len() as f64)
    }

    /// Different files of which the agent said this at least once.
    fn limits(&self, result: &str) -> Result<f64, String> {
        let mut files = BTreeSet::new();
        for snapshot in &self.snapshots {
            let limits = snapshot["limits"].as_array();
            for limit in limits.ok_or("the snapshot has no limits")? {
                if limit["result"] == result {
                    let write = &limit["write"];
                    files.insert(format!("{} {}", write["cgroup"], write["file"]));
                }
            }
        }
        Ok(files.len() as f64)
    }

    /// True if the cgroup with that id has that path in any of the snapshots.
    fn is_called(&self, id: &Value, path: &str) -> bool {
        let id = id.to_string();
        self.snapshots.iter().any(|snapshot| snapshot["scopes"][&id]["path"] == path)
    }

    /// True if it is known that this limit was reached.
    fn had_limit(&self, kill: &Value, limit: &str) -> bool {
        let known = kill["limitKnown"] == true;
        known
            && if limit == "node" {
                kill["limit"].is_null()
            } else {
                self.is_called(&kill["limit"], limit)
            }
    }
}

/// The kernel's last kills that a snapshot tells of.
fn recent_kills(snapshot: &Value) -> Result<impl Iterator<Item = &Value>, String> {
    let all = snapshot.get("recentOomKills").and_then(Value::as_array);
    Ok(all.ok_or("the snapshot has no recentOomKills")?.iter().map(|record| &record["kill"]))
}

/// What tells one kill from another.
fn kill_key(kill: &Value) -> (String, String) {
    (kill["at"].to_string(), kill["victimPid"].to_string())
}

/// The part of a snapshot that `subject` names.
fn find<'a>(snapshot: &'a Value, subject: &Subject) -> Result<&'a Value, String> {
    match subject {
        Subject::Snapshot => Ok(snapshot),
        Subject::Node => snapshot.get("whole").ok_or_else(|| "there is no whole".into()),
        Subject::Cgroup(path) => snapshot
            .get("scopes")
            .and_then(Value::as_object)
            .and_then(|scopes| scopes.values().find(|scope| scope["path"] == path.as_str()))
            .ok_or_else(|| "there is no such cgroup".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::expect::Expectation;
    use super::*;

    fn snapshot(second: u64, wait: u64, harm: Option<(u64, u64)>, kills: &[u64]) -> Value {
        let blame = |(now, total)| {
            json!({ "victim": 5, "victimPath": "/a", "aggressor": 6, "aggressorPath": "/b",
                    "time": { "now": now, "total": total } })
        };
        let kill = |pid: &u64| json!({ "kill": { "at": pid, "victim": 5, "victimPid": pid, "limit": 5, "limitKnown": true, "trigger": 5 } });
        json!({
            "at": { "boot": second * 1_000_000_000 },
            "whole": { "pressure": { "cpu": { "some": { "total": wait / 1000 } } } },
            "scopes": { "5": { "path": "/a", "cpu": { "wait": { "total": wait } } } },
            "aggressions": harm.map(blame).into_iter().collect::<Vec<_>>(),
            "recentOomKills": kills.iter().map(kill).collect::<Vec<_>>(),
            "decision": {
                "assessment": { "conditions": [{ "type": "C", "status": if second > 10 { "True" } else { "False" } }] },
                "relief": { "actions": [{ "id": second / 2, "step": "evict", "target": { "name": "a" } }] },
            },
            "limits": [{ "result": "drifted", "write": { "cgroup": "/a", "file": "x" } }],
            "lost": { "cgroups": 0 },
        })
    }

    #[test]
    fn an_expectation_is_judged_on_both_its_numbers() {
        const MS: u64 = 1_000_000;
        let question = Question::File { cgroup: "/a".into(), file: "memory.max".into() };
        let snapshots = vec![
            snapshot(10, 500 * MS, None, &[1]),
            snapshot(11, 900 * MS, Some((400 * MS, 600 * MS)), &[2, 1]),
            snapshot(12, 1500 * MS, None, &[3, 2, 1]),
        ];
        let evidence = Evidence { snapshots, answers: [(question, Ok(4096.0))].into() };
        #[rustfmt::skip]
        let table = [
            ("wall == 2s",                                            "2000.0 ms", "2000.0 ms", true),
            ("diff cgroup:/a .cpu.wait.total / wall ~ 50% within 1%", "50.00 %",   "50.00 %",   true),
            ("diff node .pressure.cpu.some.total < 1s",               "1000.0 ms", "1000.0 ms", false),
            ("last cgroup:/a .cpu.wait.total <= 3 * 50% of 1s",       "1500.0 ms", "1500.0 ms", true),
            ("first node .pressure.cpu.some.total + 1s > 1499ms",     "1500.0 ms", "1499.0 ms", true),
            ("diff harm /b -> /a > 50% of 1s",                        "400.0 ms",  "500.0 ms",  false),
            ("diff harm /a -> /b == 0ms",                             "0.0 ms",    "0.0 ms",    true),
            ("oom-kills /a == 2",                                     "2",         "2",         true),
            ("oom-kills /a limit /a trigger /a == 2",                 "2",         "2",         true),
            ("oom-kills /a limit node == 0",                          "0",         "0",         true),
            ("oom-kills /a trigger /b == 0",                          "0",         "0",         true),
            ("condition C True == 2",                                 "2",         "2",         true),
            ("condition C Unknown == 0",                              "0",         "0",         true),
            ("actions evict a == 2",                                  "2",         "2",         true),
            ("actions any any == 2",                                  "2",         "2",         true),
            ("actions squeeze any == 0",                              "0",         "0",         true),
            ("last snapshot .lost.cgroups == 0",                      "0",         "0",         true),
            ("file /a memory.max == 4KiB",                            "4096",      "4096",      true),
            ("limits drifted == 1",                                   "1",         "1",         true),
            ("limits failed == 1",                                    "0",         "1",         false),
            ("( 1 + 2 ) * 2 >= 6",                                    "6",         "6",         true),
            ("90ms ~ 100ms within 9ms",                               "90.0 ms",   "100.0 ms",  false),
        ];
        for (text, left, right, passed) in table {
            let meaning = Expectation::parse(text).unwrap();
            let judged = judge(&Expected { line: 1, text: text.into(), meaning }, &evidence);
            assert_eq!(judged.error, None, "{text}");
            let got = (judged.left.unwrap().to_string(), judged.right.unwrap().to_string());
            assert_eq!((got.0.as_str(), got.1.as_str()), (left, right), "{text}");
            assert_eq!(judged.passed, passed, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_found_fails_and_says_where() {
        let snapshots = vec![snapshot(1, 0, None, &[]), snapshot(2, 0, None, &[])];
        let question = Question::CpusAllowed { cgroup: "/a".into(), cpu: 0 };
        let answers = [(question, Err("gone".to_owned()))].into();
        let evidence = Evidence { snapshots, answers };
        #[rustfmt::skip]
        let table = [
            ("last cgroup:/x .cpu.wait.total < 1s",   "last snapshot, cgroup:/x: there is no such cgroup"),
            ("diff node .contention.total < 1s",      "last snapshot, node: there is no .contention"),
            ("condition X True == 0",                 "no condition is called X"),
            ("file /a cpu.weight == 1",               "nobody asked"),
            ("cpus-allowed /a 0 == 1",                "gone"),
            ("1s / ( wall - 1s ) < 1%",               "1000.0 ms divided by zero"),
        ];
        for (text, want) in table {
            let meaning = Expectation::parse(text).unwrap();
            let judged = judge(&Expected { line: 1, text: text.into(), meaning }, &evidence);
            assert!(!judged.passed, "{text}");
            assert_eq!(judged.error.as_deref(), Some(want), "{text}");
        }
    }
}
