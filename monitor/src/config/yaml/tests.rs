use proptest::prelude::*;

use super::*;
use crate::config::{Field, Fields, Problems};

/// The tree in one line, without places.
fn show(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) if scalar.is_quoted => format!("{:?}", scalar.text),
        Value::Scalar(scalar) => scalar.text.clone(),
        Value::List(nodes) => format!("[{}]", nodes.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Map(entries) => {
            let entry = |entry: &Entry| format!("{}:{}", entry.key, show(&entry.value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
        }
    }
}

#[test]
fn parse_builds_one_tree_per_document() {
    #[rustfmt::skip]
    let table = [
        // text, documents
        ("a: 1",                               vec!["{a:1}"]),
        ("a: 1.50\nb: '2'\nc: \"x\\ty\"",      vec!["{a:1.50,b:\"2\",c:\"x\\ty\"}"]),
        ("- a\n- [b, {c: d}]",                 vec!["[a,[b,{c:d}]]"]),
        ("a:\nb: ~",                           vec!["{a:,b:~}"]),
        ("a: 1\na: 2",                         vec!["{a:1,a:2}"]),                // its reader reports that
        ("---\na: 1\n---\n# no more\n---\nb",  vec!["{a:1}", "b"]),               // an empty document is none
        ("{\"a\":[1,true,null],\"b\":{}}",     vec!["{a:[1,true,null],b:{}}"]),   // JSON
        ("{\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}", vec!["{a:{b:1}}"]),               // JSON with tabs
        ("x: &a {k: v}\ny: *a\nz: [*a]",       vec!["{x:{k:v},y:{k:v},z:[{k:v}]}"]),
        ("a: |\n  one\n  two\n",               vec!["{a:\"one\\ntwo\\n\"}"]),
        ("a: !!str 5\nb: !!int 5",             vec!["{a:\"5\",b:5}"]),
        ("\u{feff}a: 1\r\nb: 2\r\n",           vec!["{a:1,b:2}"]),
        ("'<<': 1",                            vec!["{<<:1}"]),                   // quoted, a key like any
    ];
    for (text, want) in table {
        let documents = parse(text).unwrap_or_else(|problem| panic!("{text:?}: {problem}"));
        let got: Vec<String> = documents.iter().map(show).collect();
        assert_eq!(got, want, "{text:?}");
    }
}

#[test]
fn parse_refuses_invalid_yaml_at_its_place() {
    let bomb = (1..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let last = format!("*a{}", n - 1);
        format!("{text}a{n}: &a{n} [{}]\n", [last.as_str(); 9].join(", "))
    });
    let deep = "[".repeat(101);
    let climb = (1..9)
        .fold(format!("a0: &a0 {}x{}\n", "[".repeat(90), "]".repeat(90)), |text, n| {
            format!("{text}a{n}: &a{n} [[*a{}]]\n", n - 1)
        });
    #[rustfmt::skip]
    let table: [(&str, usize, usize, &str); 17] = [
        // text, line, column, part of the message
        ("",                     1, 1,   "holds no document"),
        ("# nothing\n---\n",     1, 1,   "holds no document"),
        ("a: 1\n\tb: 2",         2, 1,   "tab"),
        ("a: [1, 2",             2, 1,   "not valid YAML"),
        ("a: 'x",                1, 4,   "not valid YAML"),
        ("a: 1\n b: 2",          2, 3,   "not valid YAML"),
        ("a: 1\nb: x\0y\nc: 3",  2, 5,   "control character U+0000"),
        ("a: \u{7}",             1, 4,   "control character U+0007"),
        ("a: *b",                1, 4,   "unknown anchor"),
        ("a: &a [*a]",           1, 8,   "inside the node that it names"),
        ("a: &a {b: 1}\nc:\n  <<: *a", 3, 3, "merge keys"),
        ("? [a]\n: b",           1, 3,   "a key must be a text"),
        ("b: &a {c: d}\n? *a\n: b", 2, 3, "a key must be a text"),
        ("a: !secret x",         1, 4,   "tag !secret is not supported"),
        (&deep,                  1, 101, "nested more than 100 deep"),
        (&climb,                 6, 11,  "nested more than 100 deep"),
        (&bomb,                  6, 40,  "expand to too much"),
    ];
    for (text, line, column, part) in table {
        let text = &text[..text.len().min(400)];
        let problem = parse(text).expect_err(text);
        assert_eq!(problem.at, Some(Place { line, column }), "{text:?}: {problem}");
        assert!(problem.message.contains(part), "{text:?}: {problem}");
    }
}

#[test]
fn documents_counts_copies_of_anchors() {
    let nested = |n: usize, text: &str| {
        let open: String = (0..n).map(|i| format!("&a{i} [")).collect();
        format!("{open}{text}{}", "]".repeat(n))
    };
    let text = "x".repeat(20_000);
    assert!(parse(&nested(20, &text)).is_ok());
    let problem = parse(&nested(90, &text)).unwrap_err();
    assert!(problem.message.contains("expand to too much"), "{problem}");
}

#[test]
fn documents_refuses_bytes_that_are_not_utf8() {
    assert_eq!(documents("f", b"a: b").unwrap().len(), 1);
    let invalid = documents("f", b"a: 1\nb: \xff\xfe").unwrap_err();
    assert_eq!(invalid.to_string(), "f:2:4: expected UTF-8 text, found the byte 0xff");
}

#[test]
fn scalar_types_follow_core_schema() {
    #[rustfmt::skip]
    let table = [
        // text, described as, whole number
        ("1",        "the number 1",         Some(1)),
        ("-17",      "the number -17",       Some(-17)),
        ("+5",       "the number +5",        Some(5)),
        ("010",      "the number 010",       Some(10)),
        ("0o17",     "the number 0o17",      Some(15)),
        ("0x1F",     "the number 0x1F",      Some(31)),
        ("0x-1",     "the text \"0x-1\"",    None),
        ("1.5",      "the number 1.5",       None),
        (".5",       "the number .5",        None),
        ("1e3",      "the number 1e3",       None),
        ("1.5E-3",   "the number 1.5E-3",    None),
        ("-.inf",    "the number -.inf",     None),
        (".nan",     "the number .nan",      None),
        ("99999999999999999999", "the number 99999999999999999999", None),
        ("1e",       "the text \"1e\"",      None),
        (".",        "the text \".\"",       None),
        ("100Mi",    "the text \"100Mi\"",   None),
        ("true",     "the truth value true", None),
        ("FALSE",    "the truth value FALSE", None),
        ("yes",      "the text \"yes\"",     None),
        ("~",        "nothing",              None),
        ("",         "nothing",              None),
        ("\"1\"",    "the text \"1\"",       None),
        ("'true'",   "the text \"true\"",    None),
        ("''",       "the text \"\"",        None),
        ("[]",       "a list",               None),
        ("{}",       "a mapping",            None),
    ];
    for (text, words, integer) in table {
        let documents = parse(&format!("a: {text}")).unwrap();
        let Value::Map(entries) = &documents[0].value else { panic!("{text}") };
        assert_eq!(entries[0].value.describe(), words, "{text}");
        let got = match &entries[0].value.value {
            Value::Scalar(scalar) => scalar.integer(),
            _ => None,
        };
        assert_eq!(got, integer, "{text}");
    }
}

#[test]
fn fields_reports_every_problem_with_its_place() {
    let text = "name: x\ncuont: 3\nflag: yes\nsize: 1.5Gi\nwait: 5\nname: y\nn: 1.5\n\
                list: [a, 5]\nbelow:\n  orders: a\n  order: z\nlabels: {a.b/c: 1, d: e}\nq: 10Mb\n";
    let documents = parse(text).unwrap();
    let problems = Problems::default();
    let mut fields = Fields::of(&documents[0], &problems).unwrap();
    assert_eq!(fields.text("name"), Some("x"));
    assert_eq!(fields.number::<u32>("count"), None);
    assert_eq!(fields.flag("flag"), None);
    assert_eq!(fields.field("size").unwrap().quantity().unwrap().to_string(), "1536Mi");
    assert_eq!(fields.field("wait").unwrap().duration(), None);
    assert_eq!(fields.number::<u32>("n"), None);
    let texts: Vec<_> = fields.list("list").unwrap().iter().filter_map(Field::text).collect();
    assert_eq!(texts, ["a"]);
    let mut below = fields.map("below").unwrap();
    let order = below.field("order").unwrap().one_of(&[("qos", 1), ("kubelet", 2)]);
    assert_eq!(order, None);
    drop(below);
    let labels = fields.map("labels").unwrap().each().into_iter();
    let labels: Vec<_> = labels.filter_map(|(key, field)| Some((key, field.text()?))).collect();
    assert_eq!(labels, [("d", "e")]);
    assert_eq!(fields.field("q").unwrap().quantity(), None);
    assert!(fields.required("kind").is_none());
    drop(fields);
    let invalid = problems.unless_any("f", ()).unwrap_err();
    #[rustfmt::skip]
    let want = [
        "f:1:1: kind: expected this key, it is missing",
        "f:2:1: cuont: unknown key, did you mean count?",
        "f:3:7: flag: expected true or false, found the text \"yes\"",
        "f:5:7: wait: expected a length of time such as 1m30s: time: missing unit in duration \"5\"",
        "f:6:1: name: this key occurs twice",
        "f:7:4: n: expected a whole number, found the number 1.5",
        "f:8:11: list[1]: expected a text, found the number 5; put it in quotes",
        "f:10:3: below.orders: unknown key, did you mean order?",
        "f:11:10: below.order: expected one of qos, kubelet, found the text \"z\"",
        "f:12:17: labels[\"a.b/c\"]: expected a text, found the number 1; put it in quotes",
        "f:13:4: q: expected a quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ];
    assert_eq!(invalid.to_string(), want.join("\n"));
}

#[test]
fn fields_lenient_ignores_unknown_keys_but_not_duplicates() {
    let documents = parse("a: 1\nb: {c: 2, d: 3}\ne: null\na: 4").unwrap();
    let problems = Problems::default();
    let mut fields = Fields::of(&documents[0], &problems).unwrap().lenient();
    assert_eq!(fields.number::<i64>("a"), Some(1));
    let mut below = fields.map("b").unwrap();
    assert_eq!(below.number::<i64>("c"), Some(2));
    drop(below);
    assert_eq!(fields.text("e"), None, "null is as good as missing");
    drop(fields);
    let invalid = problems.unless_any("f", ()).unwrap_err();
    assert_eq!(invalid.to_string(), "f:4:1: a: this key occurs twice");
}

proptest! {
    #[test]
    fn parse_never_panics(text in "[ \\na-c:\\[\\]{},&*'\"|>!%@#~\\-?\\t\\\\0-9]{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn parse_returns_every_quoted_text(texts in proptest::collection::vec("[^\\p{Cc}]{0,20}", 1..5)) {
        let json = serde_json::to_string(&texts).unwrap();
        let documents = parse(&json).unwrap();
        let Value::List(nodes) = &documents[0].value else { panic!("{json}") };
        let back: Vec<String> = nodes.iter().map(|node| match &node.value {
            Value::Scalar(scalar) => scalar.text.clone(),
            _ => panic!("{json}"),
        }).collect();
        prop_assert_eq!(back, texts);
    }
}
