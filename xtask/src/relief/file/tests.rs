use super::*;

const WHOLE: &str = r#"# Why.
seconds = "9s"
swap = "disk 1GiB"
file = [{ path = "/disk/a", size = "1MiB" }]
agent = [{ after = "-1s", do = "stop" }]

[[pod]]
name = "hog"
class = "Burstable"
memory_request = "64MiB"
run = "sleep"

[[service]]
name = "daemon"
run = "sleep"

[expect]
act = ["hog"]
may = ["daemon"]
within = "5s"
"#;

#[test]
fn every_scenario_of_the_repository_can_be_read() {
    let all = read_all(&crate::shell::root().join("tests/scenarios/relief")).unwrap();
    assert!(all.len() >= 25, "{} scenarios", all.len());
    assert!(all.iter().filter(|scenario| scenario.form.quick).count() >= 5);
    // S1 to S25, each with a file of its own at least.
    for number in 1..=25 {
        let n = all.iter().filter(|s| s.why.starts_with(&format!("S{number}:"))).count();
        assert!(n > 0, "S{number} is missing");
    }
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    assert!(Scenario::parse("x", WHOLE).is_ok());
    #[rustfmt::skip]
    let table = [
        // from,                to,                      what is said
        ("# Why.",              "Why.",                  "line 1: expected a comment"),
        ("\"9s\"",              "\"9\"",                 "line 2"),
        ("\"9s\"",              "\"9\"",                 "expected a time, such as 20s or 500ms"),
        ("disk 1GiB",           "tape 1GiB",             "expected `zram SIZE` or `disk SIZE`"),
        ("disk 1GiB",           "disk",                  "line 3"),
        ("/disk/a",             "/tmp/a",                "line 4: expected a path below /disk/"),
        ("do = \"stop\"",       "do = \"faint\"",        "unknown variant `faint`"),
        ("\"hog\"\nclass",      "\"Hog\"\nclass",        "line 8: \"Hog\": expected a pod's name in lower case"),
        ("Burstable",           "Guaranteed",            "line 9: hog is Guaranteed, but requests and limits make it Burstable"),
        ("64MiB",               "a lot",                 "line 10"),
        ("run = \"sleep\"\n\n[[service]]", "walk = \"on\"\n[[service]]", "line 11"),
        ("act = [\"hog\"]",     "act = [\"cow\"]",       "line 18: no pod or service is called cow"),
        ("may = [\"daemon\"]",  "no_kill = true",        "line 18: `no_kill` and victims contradict"),
        ("within",              "without",               "line 20"),
        ("act = [\"hog\"]\nmay = [\"daemon\"]\n", "",     "`expect` judges nothing"),
    ];
    for (from, to, want) in table {
        assert!(WHOLE.contains(from), "{from}");
        let why = Scenario::parse("x", &WHOLE.replacen(from, to, 1)).expect_err(to);
        assert!(format!("{why:#}").contains(want), "{to:?}: {why:#}");
    }
}

#[test]
fn a_scenario_goes_by_its_name_and_its_number() {
    let scenario = Scenario::parse("s07-swap", WHOLE).unwrap();
    #[rustfmt::skip]
    let table = [("s07-swap", true), ("s07", true), ("S7", true), ("7", true), ("s7-swap", false), ("70", false), ("s", false), ("", false)];
    for (word, want) in table {
        assert_eq!(scenario.is(word), want, "{word:?}");
    }
}
