use proptest::prelude::*;

use super::*;
use Version::{V1, V2, V4};

mod words;

/// The kubelet's own test machine: 12 CPUs, of which 0 and 6 are reserved.
fn plan(strict: bool) -> Plan {
    let set = |text: &str| text.parse::<CpuSet>().unwrap();
    let (online, reserved) = (set("0-11"), set("0,6"));
    let default = if strict { set("1-5,7-11") } else { online.clone() };
    Plan { online, reserved, default, strict }
}

/// A state file of the static policy without a checksum.
fn unsigned(default: &str, entries: &str) -> String {
    format!(r#"{{"policyName":"static","defaultCpuSet":"{default}","entries":{entries}}}"#)
}

#[test]
fn checkpoint_checksums() {
    let two = r#""entries":{"pod":{"container1":"4-6","container2":"1-3"}}"#;
    let live = r#""entries":{"c0db01a4-4f55-4735-9e53-843420b0c301":{"a":"1"}}"#;
    #[rustfmt::skip]
    let table = [
        // row, form, policy, default set, the rest, checksum
        ("C1",  V2, "static", "0-79",                        "",   1_241_370_203_u64),
        ("C2",  V2, "static", "2-15,17-31,34-47,49-63",      "",   4_141_502_832),
        ("C3",  V2, "none",   "4-6",                         "",     354_655_845),
        ("C4",  V2, "none",   "1-3",                         two,  3_610_638_499),
        ("C8",  V1, "none",   "1-3",                         "",   1_694_838_852),
        ("C13", V2, "static", "0-7",                         "",      14_413_152),
        ("C14", V2, "static", "0,2-7",                       "",     538_968_834),
        ("C17", V2, "none",   "",                            "",   1_353_318_690),
        ("a node of 1.36.2", V2, "static", "2-3",            live, 2_401_933_188),
    ];
    for (row, version, policy, default, rest, checksum) in table {
        let comma = if rest.is_empty() { "" } else { "," };
        let text = |checksum| {
            format!(
                r#"{{"policyName":"{policy}","defaultCPUSet":"{default}"{comma}{rest},"checksum":{checksum}}}"#
            )
        };
        let state = State::read(&text(checksum));
        assert!(state.is_intact, "{row}: {:?}", state.problems);
        assert_eq!(state.version, Some(version), "{row}");
        assert_eq!(state.policy.as_deref(), Some(policy), "{row}");
        assert_eq!(state.default, Some(default.parse().unwrap()), "{row}");
        assert_eq!(state.problems, Vec::<String>::new(), "{row}");

        let spoilt = State::read(&text(checksum + 1));
        assert_eq!((spoilt.is_intact, spoilt.problems.len()), (false, 1), "{row}");
        assert!(State::read(&text(0)).is_intact, "{row} without a checksum");
    }
    let c11 = r#"{"policyName":"none","defaultCpuSet":"4-6","checksum":1337}"#;
    assert_eq!(State::read(c11).problems, ["checkpoint is corrupted"]);
}

#[test]
fn checkpoint_of_container_ids() {
    let text = |checksum| {
        format!(
            r#"{{"policyName":"none","defaultCPUSet":"1-3","entries":{{"containerID1":"4-6","containerID2":"1-3"}},"checksum":{checksum}}}"#
        )
    };
    let state = State::read(&text(3_680_390_589_u64)); // C9
    assert_eq!((state.version, state.is_intact), (Some(V1), true));
    let named: Vec<_> = state.assignments.iter().map(|one| one.container.as_str()).collect();
    assert_eq!(named, ["containerID1", "containerID2"]);
    assert_eq!(
        state.problems,
        ["failed to migrate checkpoint from v1 to v2: containerID 'containerID1' not found in \
          initial containers list"]
    );
    assert_eq!(state.exclusive(), CpuSet::default(), "the kubelet takes none from it");
    assert_eq!(State::read(&text(1)).problems, ["checkpoint is corrupted"]);
}

#[test]
fn checkpoint_in_a_string() {
    let inner = |data: &str| serde_json::from_str::<serde_json::Value>(data).unwrap();
    // As Kubernetes 1.37 writes it: what 1.36 reads, with a checksum of 0, and beside it the truth.
    let document = |data: &str, checksum: u64| {
        let mut older = inner(data);
        older.as_object_mut().unwrap().remove("podEntries");
        older["checksum"] = 0.into();
        older["data"] = data.into();
        older["dataChecksum"] = checksum.into();
        older.to_string()
    };
    let plain = r#"{"policyName":"none","defaultCPUSet":"4-6"}"#;
    let two = r#"{"policyName":"static","defaultCPUSet":"7-9","entries":{"pod":{"container1":"4-6","container2":"1-3"}}}"#;
    let pods = r#"{"policyName":"static","defaultCPUSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"7-9"}},"podEntries":{"pod":{"cpuSet":"4-10"}}}"#;
    #[rustfmt::skip]
    let table = [
        // document, checksum, exclusive CPUs
        (plain, 657_950_972,   ""),
        (two,   1_420_829_534, "1-6"),
        (pods,  2_328_898_362, "4-10"),
    ];
    for (data, checksum, exclusive) in table {
        let state = State::read(&document(data, checksum));
        assert_eq!((state.version, state.is_intact), (Some(V4), true), "{data}");
        assert_eq!(state.exclusive().to_string(), exclusive, "{data}");
        let corrupt = ["could not load v4 checkpoint: checkpoint is corrupted"];
        assert_eq!(State::read(&document(data, 0)).problems, corrupt, "{data}");
        // What k/k#137820 wrote before it was reverted: the sum of `data` as `checksum`.
        let reverted = serde_json::json!({ "data": data, "checksum": checksum }).to_string();
        assert!(!State::read(&reverted).is_intact, "{data}");
    }
}

#[test]
fn checkpoint_in_a_string_refuses() {
    #[rustfmt::skip]
    let table = [
        // data, what is said
        ("{",                            "unexpected end of JSON input"),
        ("[]",                           "json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointData"),
        (r#"{"policyName":7}"#,          "json: cannot unmarshal number into Go struct field CPUManagerCheckpointData.policyName of type string"),
        (r#"{"podEntries":{"p":"7-9"}}"#, "json: cannot unmarshal string into Go struct field CPUManagerCheckpointData.podEntries of type state.PodEntry"),
    ];
    for (data, want) in table {
        let text = serde_json::json!({ "checksum": 0, "data": data, "dataChecksum": 1 });
        let state = State::read(&text.to_string());
        let wrapper =
            "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data";
        assert_eq!(state.problems, [format!("{wrapper}: {want}")], "{data}");
        assert!(!state.is_loaded && state.exclusive().0.is_empty(), "{data}");
    }
}

#[test]
fn checkpoint_damaged_says_no_more() {
    // The content is shown, but nothing that follows from it.
    let spoilt = r#"{"policyName":"none","defaultCpuSet":"x","checksum":1}"#;
    let state = State::read(spoilt);
    assert_eq!((state.policy.as_deref(), state.is_intact), (Some("none"), false));
    assert_eq!(state.refusals(Some("static"), &plan(false)), ["checkpoint is corrupted"]);
}

#[test]
fn checkpoint_lists_what_is_wrong_in_order() {
    let state = State::read(&unsigned("3-1", r#"{"p":{"c":"x"}}"#));
    let sets = [
        "could not parse default cpu set \"3-1\": invalid range \"3-1\" (3 > 1)",
        "could not parse cpuset \"x\" for container \"c\" in pod \"p\": strconv.Atoi: parsing \"x\": invalid syntax",
    ];
    assert_eq!(state.refusals(Some("static"), &plan(false)), sets);
    let policy = "configured policy \"none\" differs from state checkpoint policy \"static\"";
    assert_eq!(state.refusals(Some("none"), &plan(false)), [&[policy][..], &sets].concat());
}

#[test]
fn checkpoint_static_refusals() {
    let rest = r#"{"fakePod":{"0":"0-2"}}"#;
    let matching = r#"{"fakePod":{"0":"1-2"}}"#;
    #[rustfmt::skip]
    let table = [
        // strict, default set, entries, what is said first
        (false, "0-1",      "{}",     Some("not all reserved cpus: \"0,6\" are present in defaultCpuSet: \"0-1\"")),
        (true,  "0-1",      "{}",     Some("some of strictly reserved cpus: \"0\" are present in defaultCpuSet: \"0-1\"")),
        (true,  "2-5,7-11", rest,     Some("pod: fakePod, container: 0 cpuset: \"0-2\" overlaps with default cpuset \"2-5,7-11\"")),
        (false, "0,3-11",   matching, None),
        (true,  "3-5,7-11", matching, None),
        (false, "0-11",     "{}",     None),
        (false, "0-10",     "{}",     Some("current set of available CPUs \"0-11\" doesn't match with CPUs in state \"0-10\"")),
        (true,  "1-5,7-10", "{}",     Some("current set of available CPUs \"1-5,7-11\" doesn't match with CPUs in state \"1-5,7-10\"")),
        (false, "",         "{}",     None), // it becomes all
        (false, "",         matching, Some("default cpuset cannot be empty")),
        (false, "",         r#"{"p":{}}"#, Some("default cpuset cannot be empty")), // pods are counted
    ];
    for (strict, default, entries, want) in table {
        let state = State::read(&unsigned(default, entries));
        let got = state.refusals(Some("static"), &plan(strict));
        assert_eq!(got.first().map(String::as_str), want, "{strict} {default:?} {entries}");
    }
    // Of the kubelet's own test, both that it stops at and what comes after.
    let got = State::read(&unsigned("2-11", rest)).refusals(Some("static"), &plan(false));
    let overlap =
        "pod: fakePod, container: 0 cpuset: \"0-2\" overlaps with default cpuset \"2-11\"";
    assert!(got.iter().any(|said| said == overlap), "{got:?}");
}

#[test]
fn checkpoint_other_policy() {
    let none = State::read(r#"{"policyName":"none","defaultCpuSet":""}"#);
    let differs = "configured policy \"static\" differs from state checkpoint policy \"none\"";
    assert_eq!(none.refusals(Some("static"), &plan(false)), [differs]);
    assert_eq!(none.refusals(Some("none"), &plan(false)), Vec::<String>::new());
    let strict = State::read(&unsigned("1-5,7-11", "{}"));
    assert_eq!(strict.refusals(None, &Plan::default()), Vec::<String>::new());
}

proptest! {
    #[test]
    fn checkpoint_read_never_panics(text in ".{0,200}|[{}\\[\\]\":,0-9eEtrufalsn. \\\\é-]{0,60}") {
        let state = State::read(&text);
        prop_assert!(state.version.is_some() || state.problems.len() == 1);
    }

    #[test]
    fn checkpoint_ignores_spaces(
        default in "[0-9]{1,2}(-[0-9]{1,2})?", pod in "[a-z]{1,4}", container in "[a-z]{1,4}",
    ) {
        let text = unsigned(&default, &format!(r#"{{"{pod}":{{"{container}":"{default}"}}}}"#));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(State::read(&text), State::read(&spaced));
    }
}
