//! Holds one play against what its scenario expects. Only what can be seen from outside is
//! demanded of every agent; what an agent says is judged only where it says anything.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::amount::{Quantity, Unit};
use crate::facts::{BYSTANDER, Facts, Reading, Served};
use crate::figures::Figures;
use crate::form::Scenario;
use crate::form::expect::Claim;

/// One expectation and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    /// The expectation, in words.
    pub(crate) what: String,
    /// What was seen.
    pub(crate) seen: String,
    pub(crate) passed: bool,
    /// It is about a figure of the agent's: a measurement that is worth reading also where it passed.
    pub(crate) is_figure: bool,
}

/// What came of a play on the host; `None` where its scenario does not ask for it.
#[derive(Default)]
pub(crate) struct Tried {
    /// Its recording, replayed.
    pub(crate) replayed: Option<Result<()>>,
    /// The alert rules, over what was scraped.
    pub(crate) alerts: Option<Result<()>>,
}

/// All verdicts on one play.
pub(crate) fn judge(
    scenario: &Scenario,
    facts: &Facts,
    figures: &Figures,
    tried: &Tried,
) -> Vec<Verdict> {
    let mut verdicts = Verdicts(Vec::new());
    verdicts.victims(scenario, facts, figures);
    verdicts.times(scenario, figures);
    verdicts.agent(scenario, facts, figures);
    if let Some(served) = facts.agent.as_ref().and_then(|agent| agent.served.as_ref()) {
        verdicts.said(scenario, served);
        verdicts.claims(scenario, &facts.readings);
    }
    let wanted = or_none(scenario.form.expect.alerts.as_deref().unwrap_or_default());
    for (what, tried) in [
        ("the recording and its incidents replay as they were decided", &tried.replayed),
        (&format!("these alerts fire: {wanted}"), &tried.alerts),
    ] {
        if let Some(tried) = tried {
            let seen = tried.as_ref().map_or_else(|why| format!("{why:#}"), |()| "yes".into());
            verdicts.say(what, seen, tried.is_ok());
        }
    }
    if !facts.troubles.is_empty() {
        verdicts.say("the test bed stood", facts.troubles.join("; "), false);
    }
    verdicts.0
}

struct Verdicts(Vec<Verdict>);

impl Verdicts {
    fn say(&mut self, what: &str, seen: String, passed: bool) {
        self.0.push(Verdict { what: what.into(), seen, passed, is_figure: false });
    }

    /// That the agent lives and leaves, what it takes, and what it leaves behind.
    fn agent(&mut self, scenario: &Scenario, facts: &Facts, figures: &Figures) {
        let Some(agent) = &facts.agent else { return };
        let expect = &scenario.form.expect;
        let seen = if agent.ended.is_empty() { "it did".into() } else { agent.ended.join(", ") };
        self.say("the agent lives to the end and then leaves", seen, agent.ended.is_empty());
        let took = [
            ("is ready within", expect.ready, agent.ready_after_ms),
            ("leaves within", expect.leaves, agent.left_after_ms),
        ];
        for (what, limit, ms) in took {
            let Some(limit) = limit else { continue };
            let (what, seconds) = (format!("the agent {what} {} s", limit.0), ms as f64 / 1000.0);
            self.say(&what, format!("{seconds:.1} s"), seconds <= limit.0);
        }
        if let (Some(limit), Some(cpu)) = (expect.agent_cpu, figures.agent_cpu) {
            let what = format!("the agent takes at most {} % of a CPU", limit * 100.0);
            self.say(&what, format!("{:.1} %", cpu * 100.0), cpu <= limit);
        }
        let mut rest = agent.requests.iter();
        for part in &expect.requests {
            let found = rest.find(|line| line.contains(part));
            let seen = found.map_or_else(|| agent.requests.join("; "), Clone::clone);
            self.say(&format!("the API server is then told {part:?}"), seen, found.is_some());
        }
        for part in &expect.never_requests {
            let found = agent.requests.iter().find(|line| line.contains(part));
            let seen = found.cloned().unwrap_or_default();
            self.say(&format!("the API server is never told {part:?}"), seen, found.is_none());
        }
        let mut rest = agent.incidents.iter();
        for part in &expect.incidents {
            let found = rest.find(|line| has_parts(line, part));
            let seen = found.map_or_else(|| agent.incidents.join("; "), Clone::clone);
            self.say(&format!("an incident is kept that says {part:?}"), seen, found.is_some());
        }
        for part in &expect.never_incidents {
            let found = agent.incidents.iter().find(|line| has_parts(line, part));
            let seen = found.cloned().unwrap_or_default();
            self.say(&format!("no incident says {part:?}"), seen, found.is_none());
        }
        if expect.limits_restored {
            let left = facts.limits_left.iter().map(|limit| {
                format!("{} {}: {} was {}", limit.name, limit.file, limit.after, limit.before)
            });
            let left: Vec<String> = left.collect();
            self.say("the pods' limits are what they were", or_none(&left), left.is_empty());
        }
    }

    /// What the agent measured. Each is told with both its numbers.
    fn claims(&mut self, scenario: &Scenario, readings: &[Reading]) {
        for (i, claim) in scenario.form.expect.figures.iter().enumerate() {
            let what = scenario.text[claim.span()].replace('\n', " ");
            let none = Reading { error: Some("it was not read".into()), ..Reading::default() };
            let reading = readings.get(i).unwrap_or(&none);
            let (seen, passed) = judge_claim(claim.get_ref(), reading);
            self.0.push(Verdict { what, seen, passed, is_figure: true });
        }
    }

    /// Which pods, services and cgroups lost processes, and which may have.
    fn victims(&mut self, scenario: &Scenario, facts: &Facts, figures: &Figures) {
        let expect = &scenario.form.expect;
        let kind = |name: &str| {
            let group = facts.groups.iter().find(|group| group.name == name);
            group.map_or(name.to_owned(), |group| group.kind.clone())
        };
        let is_of = |names: &[toml::Spanned<String>], victim: &str| {
            names.iter().any(|name| *name.get_ref() == kind(victim))
        };
        let names = |names: &[toml::Spanned<String>]| {
            names.iter().map(|name| name.get_ref().as_str()).collect::<Vec<_>>().join(", ")
        };
        if !expect.act.is_empty() {
            let right = figures.victims.iter().any(|victim| is_of(&expect.act, victim));
            let what = format!("{} is killed", names(&expect.act));
            self.say(&what, or_none(&figures.victims), right);
        }
        let allowed = |victim: &String| is_of(&expect.act, victim) || is_of(&expect.may, victim);
        let wrong: Vec<String> =
            figures.victims.iter().filter(|victim| !allowed(victim)).cloned().collect();
        let is_any_allowed = expect.allowed().next().is_some();
        let what = if is_any_allowed { "nothing else is killed" } else { "nothing is killed" };
        self.say(what, or_none(&wrong), wrong.is_empty());
        let early = facts.deaths.iter().filter(|death| death.at_ns < facts.onset_ns);
        let early: Vec<String> = early.map(|death| death.name.clone()).collect();
        self.say("nothing dies before anything has begun", or_none(&early), early.is_empty());
        // Of all wrong victims the worst: the shim of a dead sandbox is an orphan. A pod that is evicted
        // the kubelet takes down, sandbox and all.
        let agent = facts.agent.as_ref();
        let is_evicted = |name: &str| {
            let evicted = format!("evict {name} -> 201");
            agent.is_some_and(|agent| agent.requests.contains(&evicted))
        };
        let sandboxes = facts.deaths.iter().filter(|one| one.sandbox && !is_evicted(&one.name));
        let sandboxes: Vec<String> = sandboxes.map(|death| death.name.clone()).collect();
        self.say("no sandbox dies", or_none(&sandboxes), sandboxes.is_empty());
        if figures.victims.iter().any(|name| name == BYSTANDER) {
            self.say("the bystander lives", "it died".into(), false);
        }
        if expect.whole {
            let is_left = |name: &&String| {
                facts.groups.iter().any(|group| group.name == **name && group.empty_ns.is_none())
            };
            let left: Vec<String> = figures.victims.iter().filter(is_left).cloned().collect();
            self.say("of each victim nothing is left", or_none(&left), left.is_empty());
        }
        if let Some(most) = expect.victims {
            let n = figures.victims.len();
            self.say(&format!("at most {most} victims"), n.to_string(), n <= most);
        }
        if let Some(most) = expect.oom_kills {
            let n = figures.kernel_oom_kills;
            self.say(&format!("at most {most} kills by the kernel"), n.to_string(), n <= most);
        }
    }

    /// By when victims died and the node recovered, and how slow the bystander was.
    fn times(&mut self, scenario: &Scenario, figures: &Figures) {
        let expect = &scenario.form.expect;
        let seconds =
            |at: Option<f64>| at.map_or_else(|| "never".into(), |at| format!("{at:.1} s"));
        for (what, limit, at) in [
            ("the first victim is dead", expect.within, figures.kill_s),
            ("the node has recovered", expect.recover, figures.recover_s),
        ] {
            if let Some(limit) = limit {
                let what = format!("{what} within {} s", limit.0);
                self.say(&what, seconds(at), at.is_some_and(|at| at <= limit.0));
            }
        }
        if let Some(limit) = expect.slower {
            let what =
                format!("the bystander's 99th percentile is at most {limit} times its idle one");
            let seen = figures.slower.map_or("not measured".into(), |s| format!("{s:.1} times"));
            self.say(&what, seen, figures.slower.is_some_and(|slower| slower <= limit));
        }
    }

    /// What the agent said.
    fn said(&mut self, scenario: &Scenario, served: &Served) {
        let expect = &scenario.form.expect;
        if served.ticks == 0 {
            self.say("the agent says anything", "not a word".into(), false);
        }
        if let Some(why) = &served.unreadable {
            self.say("all that the agent serves can be read", why.clone(), false);
        }
        let held: Vec<String> = served.conditions.iter().map(|(name, _)| name.clone()).collect();
        if expect.no_condition {
            self.say("no condition is true", or_none(&held), held.is_empty());
        }
        for name in &expect.conditions {
            let holds = held.contains(&name.to_string());
            self.say(&format!("{name} is true"), or_none(&held), holds);
        }
        for name in &expect.conditions_false {
            let holds = held.contains(&name.to_string());
            self.say(&format!("{name} is never true"), or_none(&held), !holds);
        }
        let actions = served.actions.iter().map(|action| &action.message);
        let texts = served.explanation.iter().chain(&served.events).map(|said| &said.text);
        let all: Vec<&String> = actions.chain(texts).collect();
        let with = |word: &str| {
            let found = all.iter().find(|text| text.contains(word));
            found.map(|text| (*text).clone())
        };
        for word in &expect.says {
            let found = with(word);
            let passed = found.is_some();
            let seen = found.unwrap_or_else(|| format!("not among {} sentences", all.len()));
            self.say(&format!("the agent says {word:?}"), seen, passed);
        }
        for word in &expect.never_says {
            let found = with(word);
            let passed = found.is_none();
            self.say(&format!("the agent never says {word:?}"), found.unwrap_or_default(), passed);
        }
    }
}

/// True if `line` has all of `parts`, which ` .. ` separates, in their order.
fn has_parts(line: &str, parts: &str) -> bool {
    let after = |rest: &'_ str, part: &str| rest.find(part).map(|at| at + part.len());
    let all = parts.split(" .. ").try_fold(line, |rest, part| Some(&rest[after(rest, part)?..]));
    all.is_some()
}

/// Both numbers of a claim, and whether they fit.
fn judge_claim(claim: &Claim, reading: &Reading) -> (String, bool) {
    if let Some(why) = &reading.error {
        return (why.clone(), false);
    }
    let unit = claim.figure.unit();
    let of = if claim.of.is_some() { reading.of } else { Some(1.0) };
    let Some(of) = of else { return ("the figure of `of` is not known".into(), false) };
    let print = |value| Quantity { value, unit }.to_string();
    let seen = match (reading.figure, &claim.of) {
        (None, _) => "unknown".into(),
        (Some(read), None) => print(read),
        (Some(read), Some(_)) if of == 0.0 => format!("{} of {}", print(read), print(of)),
        (Some(read), Some(_)) => {
            let share = Quantity { value: read / of, unit: Unit::Share };
            format!("{} of {} = {share}", print(read), print(of))
        }
    };
    (seen, claim.holds(reading.figure, of))
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
