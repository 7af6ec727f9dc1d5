//! What the kubelet of Kubernetes 1.36 says first of a state file, with the static policy configured.
//! The rows were printed by a Go program with the kubelet's types, steps and order, by
//! `encoding/json` of Go 1.19 and go-spew: the kubelet is built with a newer Go, whose words for
//! these could not be printed.

use super::*;

/// A file of the static policy, with more in it.
fn with(rest: &str) -> String {
    format!(r#"{{"policyName":"static","defaultCpuSet":"0-7",{rest}}}"#)
}

/// What is said first, up to the checks of the static policy, which have a table of their own.
fn first(text: &str) -> String {
    let online = "0-7".parse::<CpuSet>().unwrap();
    let plan = Plan { default: online.clone(), online, ..Plan::default() };
    let checks = ["overlaps with default cpuset", "doesn't match with CPUs in state"];
    let is_later = |said: &String| checks.iter().any(|check| said.contains(check));
    let said = State::read(text).refusals(Some("static"), &plan);
    said.into_iter().next().filter(|said| !is_later(said)).unwrap_or_default()
}

#[test]
fn state_no_json_in_the_words_of_go() {
    #[rustfmt::skip]
    let table = [
        // state file, what is said first
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        (r#"{"policyName":"sta"#, "unexpected end of JSON input"),
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ("policyName: static", "invalid character 'p' looking for beginning of value"),
        ("{'policyName':1}", r#"invalid character '\'' looking for beginning of object key string"#),
        (r#"{"policyName":"static",}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"policyName" "static"}"#, r#"invalid character '"' after object key"#),
        (r#"{"policyName":"static" "x":1}"#, r#"invalid character '"' after object key:value pair"#),
        (r#"{"entries":[1 2]}"#, "invalid character '2' after array element"),
        (r#"{"checksum":01}"#, "invalid character '1' after object key:value pair"),
        (r#"{"checksum":1.}"#, "invalid character '}' after decimal point in numeric literal"),
        (r#"{"checksum":-}"#, "invalid character '}' in numeric literal"),
        (r#"{"checksum":1e}"#, "invalid character '}' in exponent of numeric literal"),
        ("{\"policyName\":\"a\tb\"}", r#"invalid character '\t' in string literal"#),
        (r#"{"policyName":"\x"}"#, "invalid character 'x' in string escape code"),
        (r#"{"policyName":"\u12g4"}"#, r#"invalid character 'g' in \u hexadecimal character escape"#),
        (r#"{"checksum":tru"#, "invalid character ' ' in literal true (expecting 'e')"),
        ("{}}", "invalid character '}' after top-level value"),
        ("{} é", "invalid character 'Ã' after top-level value"),
    ];
    for (text, want) in table {
        assert_eq!(first(text), want, "{text}");
    }
}

#[test]
fn state_wrong_types_in_the_words_of_go() {
    #[rustfmt::skip]
    let table = [
        // state file, what is said first
        ("[]", "json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointV1"),
        ("7", "json: cannot unmarshal number into Go value of type state.CPUManagerCheckpointV1"),
        (r#""static""#, "json: cannot unmarshal string into Go value of type state.CPUManagerCheckpointV1"),
        ("true", "json: cannot unmarshal bool into Go value of type state.CPUManagerCheckpointV1"),
        ("null", r#"configured policy "static" differs from state checkpoint policy """#),
        (r#"{"policyName":7}"#, "json: cannot unmarshal number into Go struct field CPUManagerCheckpointV1.policyName of type string"),
        (r#"{"policyName":true}"#, "json: cannot unmarshal bool into Go struct field CPUManagerCheckpointV1.policyName of type string"),
        (r#"{"defaultCpuSet":["0-7"]}"#, "json: cannot unmarshal array into Go struct field CPUManagerCheckpointV1.defaultCpuSet of type string"),
        (r#"{"defaultCpuSet":{}}"#, "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.defaultCpuSet of type string"),
        (r#"{"checksum":-1}"#, "json: cannot unmarshal number -1 into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum"),
        (r#"{"checksum":1.0}"#, "json: cannot unmarshal number 1.0 into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum"),
        (r#"{"checksum":18446744073709551616}"#, "json: cannot unmarshal number 18446744073709551616 into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum"),
        (r#"{"checksum":"14413152"}"#, "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum"),
        (r#"{"entries":"0-7"}"#, "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV1.entries of type map[string]string"),
        (r#"{"entries":[]}"#, "json: cannot unmarshal array into Go struct field CPUManagerCheckpointV1.entries of type map[string]string"),
        (r#"{"entries":{"p":7}}"#, "json: cannot unmarshal number into Go struct field CPUManagerCheckpointV1.entries of type string"),
        (r#"{"entries":{"p":{"c":7}}}"#, "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"),
        (r#"{"checksum":true,"policyName":7}"#, "json: cannot unmarshal bool into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum"),
        (r#"{"POLICYNAME":7}"#, "json: cannot unmarshal number into Go struct field CPUManagerCheckpointV1.policyName of type string"),
    ];
    for (text, want) in table {
        assert_eq!(first(text), want, "{text}");
    }
}

#[test]
fn state_checksums() {
    #[rustfmt::skip]
    let table = [
        // more of a state file, what is said first
        (r#""checksum":14413152"#, ""),
        // Under the name CPUManagerCheckpointV2: the sources of 1.36 that were found wrote and took
        // it, those of 1.37 take it; 1.36.2 wrote the other name, whether it takes this is not known.
        (r#""checksum":1506833380"#, ""),
        (r#""checksum":1"#, "checkpoint is corrupted"),
        (r#""entries":{},"checksum":1"#, "checkpoint is corrupted"),
        (r#""entries":{"p":{"c":"1"}},"checksum":1"#, "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"),
        (r#""entries":null,"checksum":14413152"#, "checkpoint is corrupted"),
        (r#""entries":null,"entries":{},"checksum":14413152"#, ""),
        (r#""checksum":1,"checksum":14413152"#, ""),
        (r#""checksum":null"#, ""),
    ];
    for (text, want) in table {
        assert_eq!(first(&with(text)), want, "{text}");
    }
}

#[test]
fn state_of_1_17() {
    #[rustfmt::skip]
    let table = [
        // more of a state file, what is said first
        // Not so if the runtime still lists that container, which a file cannot tell.
        (r#""entries":{"0f3c":"1"}"#, "failed to migrate checkpoint from v1 to v2: containerID '0f3c' not found in initial containers list"),
        (r#""entries":{"0f3c":"1"},"checksum":1"#, "checkpoint is corrupted"),
        (r#""entries":{"0f3c":null}"#, ""),
        (r#""entries":{"0f3c":"1","q":{"c":"1"}}"#, "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"),
    ];
    for (text, want) in table {
        assert_eq!(first(&with(text)), want, "{text}");
    }
}

#[test]
fn state_ignores_keys_of_other_versions() {
    #[rustfmt::skip]
    let table = [
        // more of a state file, what is said first
        (r#""podEntries":{"p":{"cpuSet":"7-9"}},"checksum":0"#, ""),
        (r#""podEntries":{"p":{"cpuSet":"x"}},"checksum":0"#, ""),
        (r#""podEntries":7"#, ""),
        (r#""podEntries":{"p":{"cpuSet":"7-9"}},"checksum":14413152"#, ""),
        (r#""defaultCPUSet":"1-2","entries":{"pod1":{"container1":"5-6","container2":"3-4"}},"podEntries":{"pod2":{"cpuSet":"7-9"}},"checksum":2284712151"#, "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"),
        (r#""data":7"#, ""), // 1.37 takes it for an older file
        (r#""data":{"policyName":"none"}"#, ""),
        (r#""data":"""#, ""),
        (r#""other":[[{"a":1}]]"#, ""),
    ];
    for (text, want) in table {
        assert_eq!(first(&with(text)), want, "{text}");
    }
}

#[test]
fn state_keys_in_any_case() {
    #[rustfmt::skip]
    let table = [
        // state file, what is said first
        (r#"{"PolicyName":"static","DEFAULTCPUSET":"0-7","CheckSum":14413152}"#, ""),
        (r#"{"policyName":"static","policyname":"none"}"#, r#"configured policy "static" differs from state checkpoint policy "none""#),
        (r#"{"policyName":"none","POLICYNAME":"static"}"#, ""),
        (r#"{"policyName":"static","PolicyName":null}"#, ""),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","defaultCpuſet":"x"}"#, r#"could not parse default cpu set "x": strconv.Atoi: parsing "x": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":"1"}},"Entries":{"p":{"d":"x"}}}"#, r#"could not parse cpuset "x" for container "d" in pod "p": strconv.Atoi: parsing "x": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":"x"}},"Entries":{"p":{"d":"1"}}}"#, ""),
    ];
    for (text, want) in table {
        assert_eq!(first(text), want, "{text}");
    }
}

#[test]
fn state_policy_before_sets() {
    #[rustfmt::skip]
    let table = [
        // state file, what is said first
        (r#"{"policyName":"none","defaultCpuSet":"x"}"#, r#"configured policy "static" differs from state checkpoint policy "none""#),
        (r#"{"policyName":"it's \"so\"\u0007\ud800"}"#, r#"configured policy "static" differs from state checkpoint policy "it's \"so\"\a�""#),
        ("{}", r#"configured policy "static" differs from state checkpoint policy """#),
        (r#"{"policyName":"static","defaultCpuSet":"1-"}"#, r#"could not parse default cpu set "1-": strconv.Atoi: parsing "": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"3-1"}"#, r#"could not parse default cpu set "3-1": invalid range "3-1" (3 > 1)"#),
        (r#"{"policyName":"static","defaultCpuSet":"0,,2"}"#, r#"could not parse default cpu set "0,,2": strconv.Atoi: parsing "": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-99999999999999999999"}"#, r#"could not parse default cpu set "0-99999999999999999999": strconv.Atoi: parsing "99999999999999999999": value out of range"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":"a"}}}"#, r#"could not parse cpuset "a" for container "c" in pod "p": strconv.Atoi: parsing "a": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":"1\n"}}}"#, r#"could not parse cpuset "1\n" for container "c" in pod "p": strconv.Atoi: parsing "1\n": invalid syntax"#),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":null}}"#, ""),
        (r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":null}}}"#, ""),
    ];
    for (text, want) in table {
        assert_eq!(first(text), want, "{text}");
    }
}
