//! Holds one play against what its scenario expects. Only what can be seen from outside is
//! demanded of every agent; what an agent says is judged only where it says anything.

use serde::{Deserialize, Serialize};

use super::facts::{Facts, Offered};
use super::figures::{Figures, is_bystander};
use super::file::Scenario;

/// One expectation and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The expectation, in words.
    pub(crate) what: String,
    /// What was seen.
    pub(crate) seen: String,
    pub(crate) passed: bool,
}

/// All verdicts on one play.
pub(super) fn judge(scenario: &Scenario, facts: &Facts, figures: &Figures) -> Vec<Verdict> {
    let mut verdicts = Verdicts(Vec::new());
    verdicts.victims(scenario, facts, figures);
    verdicts.times(scenario, figures);
    let agent = facts.agent.as_ref();
    if let Some(agent) = agent {
        let seen = if agent.ended.is_empty() { "it did".into() } else { agent.ended.join(", ") };
        verdicts.say("the agent lives to the end and then leaves", seen, agent.ended.is_empty());
    }
    let expect = &scenario.form.expect;
    if let (Some(limit), Some(cpu)) = (expect.agent_cpu, figures.agent_cpu) {
        let seen = format!("{:.1} %", cpu * 100.0);
        verdicts.say(
            &format!("the agent takes at most {} % of a CPU", limit * 100.0),
            seen,
            cpu <= limit,
        );
    }
    if expect.limits_restored && agent.is_some() {
        let left: Vec<String> = facts
            .limits_left
            .iter()
            .map(|limit| {
                format!("{} {}: {} was {}", limit.name, limit.file, limit.after, limit.before)
            })
            .collect();
        verdicts.say("the pods' limits are what they were", or_none(&left), left.is_empty());
    }
    if let Some(offered) = agent.and_then(|agent| agent.offered.as_ref()) {
        verdicts.said(scenario, offered);
    }
    if !facts.troubles.is_empty() {
        verdicts.say("the set stood", facts.troubles.join("; "), false);
    }
    verdicts.0
}

struct Verdicts(Vec<Verdict>);

impl Verdicts {
    fn say(&mut self, what: &str, seen: String, passed: bool) {
        self.0.push(Verdict { what: what.into(), seen, passed });
    }

    /// Who died, and who may have.
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
        let judges_victims = expect.no_kill || !expect.act.is_empty() || !expect.may.is_empty();
        if judges_victims {
            let allowed =
                |victim: &String| is_of(&expect.act, victim) || is_of(&expect.may, victim);
            let wrong: Vec<String> =
                figures.victims.iter().filter(|victim| !allowed(victim)).cloned().collect();
            let what = if expect.no_kill { "nobody is killed" } else { "nobody else is killed" };
            self.say(what, or_none(&wrong), wrong.is_empty());
        }
        let early = facts.deaths.iter().filter(|death| death.at_ns < facts.onset_ns);
        let early: Vec<String> = early.map(|death| death.name.clone()).collect();
        self.say("nobody dies before anything has begun", or_none(&early), early.is_empty());
        // Of all wrong victims the worst: the shim of a dead sandbox is an orphan.
        let sandboxes: Vec<String> =
            facts.deaths.iter().filter(|death| death.sandbox).map(|d| d.name.clone()).collect();
        self.say("no sandbox dies", or_none(&sandboxes), sandboxes.is_empty());
        if figures.victims.iter().any(|name| is_bystander(name)) {
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

    /// When.
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
    fn said(&mut self, scenario: &Scenario, offered: &Offered) {
        let expect = &scenario.form.expect;
        if offered.ticks == 0 {
            self.say("the agent says anything", "not a word".into(), false);
        }
        let held: Vec<String> = offered.conditions.iter().map(|(name, _)| name.clone()).collect();
        if expect.no_condition {
            self.say("no condition is true", or_none(&held), held.is_empty());
        }
        for name in &expect.conditions {
            self.say(&format!("{name} is true"), or_none(&held), held.contains(name));
        }
        for name in &expect.conditions_false {
            self.say(&format!("{name} is never true"), or_none(&held), !held.contains(name));
        }
        let actions = offered.actions.iter().map(|action| &action.message);
        let texts = offered.explanation.iter().chain(&offered.events).map(|said| &said.text);
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

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Agent, Death, Group, Limit, Said};
    use super::*;

    fn failed(expect: &str, facts: &Facts, figures: &Figures) -> Vec<String> {
        let pod = |name: &str| {
            format!("[[pod]]\nname = \"{name}\"\nclass = \"BestEffort\"\nrun = \"sleep\"\n")
        };
        let pods = ["hog", "web"].map(pod).concat();
        let text = format!("# Why.\nseconds = \"9s\"\n{pods}[expect]\n{expect}\n");
        let scenario = Scenario::parse("x", &text).unwrap();
        let verdicts = judge(&scenario, facts, figures);
        verdicts.into_iter().filter(|v| !v.passed).map(|v| v.what).collect()
    }

    #[test]
    fn kills_are_judged_by_who_when_and_how_often() {
        let victims = |names: &[&str]| Figures {
            victims: names.iter().map(|name| (*name).to_owned()).collect(),
            kill_s: (!names.is_empty()).then_some(7.0),
            kernel_oom_kills: 1,
            ..Figures::default()
        };
        let group = |name: &str, kind: &str| Group {
            name: name.into(),
            kind: kind.into(),
            ..Group::default()
        };
        let facts =
            Facts { groups: vec![group("hog-2", "hog"), group("web", "web")], ..Facts::default() };
        let act = "act = [\"hog\"]";
        let late = "act = [\"hog\"]\nwithin = \"5s\"\noom_kills = 0";
        #[rustfmt::skip]
        let table: [(&str, &[&str], &[&str]); 9] = [
            // expect,                            victims,            what fails
            (act,                                 &["hog-2"],         &[]),
            (act,                                 &[],                &["hog is killed"]),
            (act,                                 &["web"],           &["hog is killed", "nobody else is killed"]),
            (act,                                 &["hog-2", "bystander"], &["nobody else is killed", "the bystander lives"]),
            (late,                                &["hog-2"],         &["at most 0 kills by the kernel", "the first victim is dead within 5 s"]),
            ("may = [\"hog\"]",                   &[],                &[]),
            ("may = [\"hog\"]",                   &["web"],           &["nobody else is killed"]),
            ("act = [\"hog\"]\nvictims = 1",      &["hog-1", "hog-2"], &["hog is killed", "nobody else is killed", "at most 1 victims"][2..]),
            ("no_kill = true",                    &["hog-2"],         &["nobody is killed"]),
        ];
        let mut facts = facts;
        facts.groups.push(group("hog-1", "hog"));
        for (expect, names, want) in table {
            assert_eq!(failed(expect, &facts, &victims(names)), want, "{expect} {names:?}");
        }
    }

    #[test]
    fn what_an_agent_says_is_judged_only_where_it_says_anything() {
        let offered = Offered {
            conditions: vec![("A".into(), 3)],
            explanation: vec![Said { at_ns: 1, text: "allocatable is short".into() }],
            ticks: 3,
            ..Offered::default()
        };
        let silent =
            Facts { agent: Some(Agent { alive: true, ..Agent::default() }), ..Facts::default() };
        let mut talking = silent.clone();
        talking.agent.as_mut().unwrap().offered = Some(offered);
        #[rustfmt::skip]
        let table: [(&str, &[&str]); 7] = [
            ("no_condition = true",                          &["no condition is true"]),
            ("conditions = [\"A\"]",                         &[]),
            ("conditions = [\"A\", \"B\"]",                  &["B is true"]),
            ("no_kill = true\nconditions_false = [\"A\"]",   &["A is never true"]),
            ("says = [\"allocatable\"]",                     &[]),
            ("says = [\"disk\"]",                            &["the agent says \"disk\""]),
            ("no_kill = true\nnever_says = [\"allocatable\"]", &["the agent never says \"allocatable\""]),
        ];
        for (expect, want) in table {
            assert_eq!(failed(expect, &talking, &Figures::default()), want, "{expect}");
            assert!(failed(expect, &silent, &Figures::default()).is_empty(), "{expect}");
        }
    }

    #[test]
    fn an_agent_must_live_restore_limits_and_leave_sandboxes_alone() {
        let limit = Limit {
            name: "web".into(),
            file: "slice/memory.high".into(),
            before: "max".into(),
            after: "1".into(),
        };
        let death = Death {
            at_ns: 1,
            pid: 1,
            name: "web".into(),
            signal: Some(9),
            code: None,
            sandbox: true,
        };
        let agent = Agent { ended: vec!["signal 11".into()], cpu_ms: 900, ..Agent::default() };
        let facts = Facts {
            limits_left: vec![limit],
            deaths: vec![death],
            agent: Some(agent),
            ..Facts::default()
        };
        let figures = Figures { agent_cpu: Some(0.09), ..Figures::default() };
        let got = failed("limits_restored = true\nagent_cpu = 0.05", &facts, &figures);
        let want = [
            "no sandbox dies",
            "the agent lives to the end and then leaves",
            "the agent takes at most 5 % of a CPU",
            "the pods' limits are what they were",
        ];
        assert_eq!(got, want);
    }
}
