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
load = [{ run = "sleep" }]

[[service]]
name = "daemon"
load = [{ run = "sleep" }]

[expect]
act = ["hog"]
may = ["daemon"]
within = "5s"
figures = [
    { figure = { cpu_wait = "/a" }, above = "50%", of = "wall" },
]
"#;

#[test]
fn scenarios_of_the_repository_can_be_read() {
    let all = scenarios().unwrap();
    assert!(all.len() >= 55, "{} scenarios", all.len());
    // S1 to S25, each with a file of its own at least.
    for number in 1..=25 {
        let n = all.iter().filter(|s| s.why.starts_with(&format!("S{number}:"))).count();
        assert!(n > 0, "S{number} is missing");
    }
    for series in Series::ALL {
        let n = all.iter().filter(|s| s.is_ordinary_on(series) && s.not_on(series).is_none());
        assert!(n.count() >= 5, "too little is played on {series}");
    }
}

#[test]
fn scenario_mistakes_are_reported_with_their_line() {
    let parse = |text: &str| Scenario::variants("x", text).map(|_| ());
    parse(WHOLE).unwrap();
    #[rustfmt::skip]
    let table = [
        // from,                to,                      what is said
        ("# Why.",              "Why.",                  "line 1: expected a comment"),
        ("seconds = ",          "second = ",             "line 2"),
        ("\"9s\"",              "\"9\"",                 "line 2"),
        ("\"9s\"",              "\"9\"",                 "expected a time, such as 20s or 500ms"),
        ("disk 1GiB",           "tape 1GiB",             "expected `zram SIZE` or `disk SIZE`"),
        ("disk 1GiB",           "disk",                  "line 3"),
        ("swap =",              "components = [\"delete\"]\nswap =", "[\"delete\"]: no such component adds capabilities"),
        ("/disk/a",             "/tmp/a",                "line 4: expected a path below /disk/"),
        ("do = \"stop\"",       "do = \"faint\"",        "unknown variant `faint`"),
        ("\"hog\"\nclass",      "\"Hog\"\nclass",        "line 8: \"Hog\": expected a pod's name in lower case"),
        ("Burstable\"\n",       "Burstable\"\ncontainers = 2\n", "line 8: hog: expected one container, or, of BestEffort alone, several"),
        ("Burstable",           "Guaranteed",            "line 9: hog is Guaranteed, but requests and limits make it Burstable"),
        ("64MiB",               "a lot",                 "line 10"),
        ("{ run = \"sleep\" }]\n\n[[service]]", "{ walk = \"on\" }]\n[[service]]", "line 11"),
        ("act = [\"hog\"]",     "act = [\"cow\"]",       "line 18: no pod, service or cgroup is called cow"),
        ("may = [\"daemon\"]",  "no_kill = true",        "line 18: `no_kill` and victims contradict"),
        ("within",              "without",               "line 20"),
        ("cpu_wait",            "cpu_weight",            "line 22"),
        ("cpu_wait",            "cpu_weight",            "unknown variant `cpu_weight`"),
        ("\"/a\"",              "\"a\"",                 "\"a\": expected \"node\" or \"/PATH\""),
        ("above = \"50%\"",     "above = \"5s\"",        "expected a share, found a time"),
        (", of = \"wall\"",     "",                      "expected a time, found a share"),
        ("of = \"wall\"",       "of = { limits = \"kept\" }", "the figure is a time, and that of `of` is a plain number"),
        ("above = \"50%\"",     "about = \"50%\"",       "expected exactly one of `above`"),
        ("above = \"50%\"",     "above = \"5%\", below = \"9%\"", "expected exactly one of `above`"),
        ("above = \"50%\"",     "about = \"50%\", within = \"3\"", "`within` is a plain number"),
        ("of = \"wall\"",       "off = \"wall\"",        "line 22"),
    ];
    for (from, to, want) in table {
        assert!(WHOLE.contains(from), "{from}");
        let why = parse(&WHOLE.replacen(from, to, 1)).expect_err(to);
        assert!(format!("{why:#}").contains(want), "{to:?}: {why:#}");
    }
    let nothing = "# Why.\nseconds = \"1s\"\n[expect]\nwhole = true\n";
    let why = parse(nothing).unwrap_err().to_string();
    assert!(why.contains("`expect` judges nothing"), "{why}");
}

#[test]
fn scenario_variants_are_made_for_each_combination() {
    let text = WHOLE.replacen("\n", "\neach = { n = [1, 10], cpu = [\"a\"] }\n", 1);
    let text = text.replacen("run = \"sleep\"", "run = \"spin --threads {n}\"", 1);
    let by_files = "throttled_share_by_files = { of = \"/a\", threads = \"{n}\" }";
    let text = text.replacen("cpu_wait = \"/a\"", by_files, 1).replacen(", of = \"wall\"", "", 1);
    let variants = Scenario::variants("x", &text).unwrap();
    let names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["x/cpu=a/n=1", "x/cpu=a/n=10"]);
    assert_eq!(variants[1].form.loads().next().unwrap().run, "spin --threads 10");
    assert!(variants[0].is("x") && variants[0].is("x/cpu=a/n=1") && !variants[0].is("y"));
}

#[test]
fn scenario_reasons_are_the_first_sentence_of_the_comment() {
    #[rustfmt::skip]
    let table = [
        ("# S1: one line. And more.\nseconds = 1", "S1: one line"),
        ("# Over\n# two lines.\nseconds = 1",     "Over two lines"),
        ("# At 1.5 %.\n\n# Of a field.",          "At 1.5 %"),
    ];
    for (text, want) in table {
        assert_eq!(why(text), want, "{text:?}");
    }
}

#[test]
fn scenario_names_and_numbers_find_a_scenario() {
    let scenario = Scenario::parse("s07-swap".into(), WHOLE.into()).unwrap();
    #[rustfmt::skip]
    let table = [("s07-swap", true), ("s07", true), ("S7", true), ("7", true), ("s7-swap", false), ("70", false), ("s", false), ("", false)];
    for (word, want) in table {
        assert_eq!(scenario.is(word), want, "{word:?}");
    }
}

#[test]
fn kernels_say_where_a_scenario_is_played() {
    let played = |fields: &str| {
        let text = WHOLE.replacen('\n', &format!("\n{fields}\n"), 1);
        let scenario = Scenario::parse("x".into(), text).unwrap();
        let on = |series: &&Series| scenario.is_ordinary_on(**series);
        let ordinary = Series::ALL.iter().filter(on).map(Series::to_string).collect::<Vec<_>>();
        (ordinary.join(" "), scenario.not_on(Series::V7).map(str::to_owned))
    };
    #[rustfmt::skip]
    let table = [
        // fields,                                                   in an ordinary test, why not on 7.x
        ("",                                                         "6.12",              None),
        ("kernels = \"all\"",                                        "6.1 6.12 6.18 7.x", None),
        ("kernels = [\"6.1\", \"7.x\"]",                             "6.1 7.x",           None),
        ("kernels = \"all\"\nnightly = true",                        "",                  None),
        ("never_on = { kernels = [\"7.x\"], reason = \"too new\" }", "6.12",              Some("too new")),
        ("skip = \"nothing to swap to\"",                            "6.12",              Some("nothing to swap to")),
    ];
    for (fields, ordinary, why) in table {
        assert_eq!(played(fields), (ordinary.to_owned(), why.map(str::to_owned)), "{fields}");
    }
}
