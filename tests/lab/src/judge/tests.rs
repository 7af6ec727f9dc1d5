use super::*;
use crate::facts::{Agent, Death, Group, Limit, Said};

/// A condition that held.
const HELD: &str = "SystemCPUContentionPressure";

fn failed(expect: &str, facts: &Facts, figures: &Figures) -> Vec<String> {
    let pod = |name: &str| format!("[[pod]]\nname = \"{name}\"\nclass = \"BestEffort\"\n");
    let pods = ["hog", "web"].map(pod).concat();
    let text = format!("# Why.\nseconds = \"9s\"\n{pods}[expect]\n{expect}\n");
    let scenario = Scenario::parse("x".into(), text).unwrap();
    let verdicts = judge(&scenario, facts, figures, &Tried::default());
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
    let group =
        |name: &str, kind: &str| Group { name: name.into(), kind: kind.into(), ..Group::default() };
    let facts =
        Facts { groups: vec![group("hog-2", "hog"), group("web", "web")], ..Facts::default() };
    let act = "act = [\"hog\"]";
    let late = "act = [\"hog\"]\nwithin = \"5s\"\noom_kills = 0";
    #[rustfmt::skip]
    let table: [(&str, &[&str], &[&str]); 9] = [
        // expect,                            victims,            what fails
        (act,                                 &["hog-2"],         &[]),
        (act,                                 &[],                &["hog is killed"]),
        (act,                                 &["web"],           &["hog is killed", "nothing else is killed"]),
        (act,                                 &["hog-2", "bystander"], &["nothing else is killed", "the bystander lives"]),
        (late,                                &["hog-2"],         &["at most 0 kills by the kernel", "the first victim is dead within 5 s"]),
        ("may = [\"hog\"]",                   &[],                &[]),
        ("may = [\"hog\"]",                   &["web"],           &["nothing else is killed"]),
        ("act = [\"hog\"]\nvictims = 1",      &["hog-1", "hog-2"], &["hog is killed", "nothing else is killed", "at most 1 victims"][2..]),
        ("no_kill = true",                    &["hog-2"],         &["nothing is killed"]),
    ];
    let mut facts = facts;
    facts.groups.push(group("hog-1", "hog"));
    for (expect, names, want) in table {
        assert_eq!(failed(expect, &facts, &victims(names)), want, "{expect} {names:?}");
    }
}

#[test]
fn what_an_agent_says_is_judged_only_where_it_says_anything() {
    let served = Served {
        conditions: vec![(HELD.into(), 3)],
        explanation: vec![Said { at_ns: 1, text: "allocatable is short".into() }],
        ticks: 3,
        ..Served::default()
    };
    let silent =
        Facts { agent: Some(Agent { alive: true, ..Agent::default() }), ..Facts::default() };
    let mut talking = silent.clone();
    talking.agent.as_mut().unwrap().served = Some(served);
    #[rustfmt::skip]
    let table: [(&str, &[&str]); 8] = [
        ("no_condition = true",                            &["no condition is true"]),
        ("conditions = [\"SystemCPUContentionPressure\"]", &[]),
        ("conditions = [\"SystemCPUContentionPressure\", \"KubepodsDiskContentionPressure\"]", &["KubepodsDiskContentionPressure is true"]),
        ("no_kill = true\nconditions_false = [\"SystemCPUContentionPressure\"]", &["SystemCPUContentionPressure is never true"]),
        ("says = [\"allocatable\"]",                       &[]),
        ("says = [\"disk\"]",                              &["the agent says \"disk\""]),
        ("no_kill = true\nnever_says = [\"allocatable\"]", &["the agent never says \"allocatable\""]),
        ("figures = [{ figure = \"wall\", above = \"1s\" }]", &["{ figure = \"wall\", above = \"1s\" }"]),
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
    let death =
        Death { at_ns: 1, pid: 1, name: "web".into(), signal: Some(9), code: None, sandbox: true };
    let agent = Agent { ended: vec!["signal 11".into()], left_after_ms: 5_100, ..Agent::default() };
    let facts = Facts {
        limits_left: vec![limit],
        deaths: vec![death],
        agent: Some(agent),
        ..Facts::default()
    };
    let figures = Figures { agent_cpu: Some(0.09), ..Figures::default() };
    let got = failed("limits_restored = true\nagent_cpu = 0.05\nleaves = '5s'", &facts, &figures);
    let want = [
        "no sandbox dies",
        "the agent lives to the end and then leaves",
        "the agent leaves within 5 s",
        "the agent takes at most 5 % of a CPU",
        "the pods' limits are what they were",
    ];
    assert_eq!(got, want);

    let evicted = Agent { requests: vec!["evict web -> 201".into()], ..Agent::default() };
    let facts = Facts { agent: Some(evicted), limits_left: Vec::new(), ..facts };
    assert_eq!(failed("limits_restored = true", &facts, &figures), Vec::<String>::new());
}

#[test]
fn claims_are_judged_by_their_readings() {
    let reading = |figure, of| Reading { figure, of, error: None };
    let text = "# Why.\nseconds = \"9s\"\n[expect]\nfigures = [\n\
                { figure = { cpu_wait = \"/a\" }, about = \"50%\", of = \"wall\", within = \"10%\" },\n\
                { figure = { psi_cpu = \"node\" }, unknown = true },\n]\n";
    let scenario = Scenario::parse("x".into(), text.into()).unwrap();
    let claims = &scenario.form.expect.figures;
    #[rustfmt::skip]
    let table = [
        // claim, reading,                       seen,                               passed
        (0, reading(Some(2e9), Some(4e9)),       "2000.0 ms of 4000.0 ms = 50.00 %", true),
        (0, reading(Some(3e9), Some(4e9)),       "3000.0 ms of 4000.0 ms = 75.00 %", false),
        (0, reading(Some(0.0), Some(0.0)),       "0.0 ms of 0.0 ms",                 true),
        (0, reading(None, Some(4e9)),            "unknown",                          false),
        (0, reading(Some(2e9), None),            "the figure of `of` is not known",  false),
        (1, reading(None, None),                 "unknown",                          true),
        (1, reading(Some(1e6), None),            "1.0 ms",                           false),
        (1, Reading { error: Some("gone".into()), ..Reading::default() }, "gone",    false),
    ];
    for (claim, reading, seen, passed) in table {
        let got = judge_claim(claims[claim].get_ref(), &reading);
        assert_eq!(got, (seen.to_owned(), passed), "{reading:?}");
    }
}
