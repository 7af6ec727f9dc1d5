use proptest::prelude::*;

use super::*;
use crate::source::fuzzing::psi_text;

fn line(avg10: u16, avg60: u16, avg300: u16, total: u64) -> Line {
    Line {
        avg10: Percent(avg10),
        avg60: Percent(avg60),
        avg300: Percent(avg300),
        total: Micros(total),
    }
}

#[test]
fn pressure_parse_notes_unknown_lines() {
    let some = Some(line(12_34, 1_00, 5, 17));
    let full = Some(line(0, 0, 100_00, u64::MAX));
    #[rustfmt::skip]
    let table = [
        // text, some, full, first unknown line
        ("some avg10=12.34 avg60=1.00 avg300=0.05 total=17\nfull avg10=0.00 avg60=0.00 avg300=100.00 total=18446744073709551615\n", some, full, None),
        ("some avg10=12.34 avg60=1.00 avg300=0.05 total=17\n", some, None, None), // cpu before 5.13
        ("full avg10=0.00 avg60=0.00 avg300=100.00 total=18446744073709551615\n", None, full, None), // irq
        ("some total=17 avg300=0.05 avg60=1.00 avg10=12.34\n", some, None, None), // in another order
        ("some avg10=12.34 avg60=1.00 avg300=0.05 avg900=0.01 total=17\n", some, None, Some(1)),
        ("some avg10=12.34 avg60=1.00 avg300=0.05 total=17\nmost avg10=x\n", some, None, Some(2)),
        ("# v2\nsome avg10=12.34 avg60=1.00 avg300=0.05 total=17 !\n", some, None, Some(1)),
    ];
    for (text, some, full, unknown) in table {
        let want = Parsed { pressure: Pressure { some, full }, unknown };
        assert_eq!(parse(text.as_bytes()), Ok(want), "{text:?}");
    }
}

#[test]
fn pressure_parse_names_the_torn_line() {
    let good = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    #[rustfmt::skip]
    let table = [
        // text, line
        ("".into(), 1),
        ("\n".into(), 1),
        ("most avg10=0.00 avg60=0.00 avg300=0.00 total=0\n".into(), 1),  // nothing known
        ("some avg10=0.00 avg60=0.00 avg300=0.00 total=0".into(), 1),    // digits may be missing
        (format!("{good}full avg10=0.00 avg6"), 2),
        (format!("{good}full avg10=0.00 avg60=0.00 avg300=0.00\n"), 2),  // no total
        (format!("{good}full avg10=0.00 avg60=0.00 avg300=0.00 total=\n"), 2),
        (format!("{good}full avg10=0.0 avg60=0.00 avg300=0.00 total=0\n"), 2),
        (format!("{good}full avg10=-1.00 avg60=0.00 avg300=0.00 total=0\n"), 2),
        (format!("{good}full avg10=655.36 avg60=0.00 avg300=0.00 total=0\n"), 2),
        (format!("{good}full avg10=nan avg60=0.00 avg300=0.00 total=0\n"), 2),
        (format!("{good}full avg10=0.00 avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), 2),
        (format!("{good}{good}"), 2),
    ];
    for (text, want) in table {
        let got = parse(text.as_bytes()).map_err(|torn| torn.line);
        assert_eq!(got, Err(want), "{text:?}");
    }
}

#[test]
fn last_read_spaces_readings() {
    let mut last = LastRead::default();
    #[rustfmt::skip]
    let table = [
        // now, ms; may be read
        (5_000, true),
        (5_000, false),
        (5_899, false),
        (5_900, true),  // a tick that came early
        (6_799, false), // counted from the last reading, not from the last attempt
        (6_900, true),
        (9_000, true),
    ];
    for (now, want) in table {
        assert_eq!(last.may_read(Nanos(now * 1_000_000)), want, "at {now} ms");
    }
}

fn any_line() -> impl Strategy<Value = Line> {
    any::<(u16, u16, u16, u64)>().prop_map(|(a, b, c, total)| line(a, b, c, total))
}

proptest! {
    #[test]
    fn pressure_parse_reads_what_the_kernel_prints(
        some in proptest::option::of(any_line()),
        full in proptest::option::of(any_line()),
    ) {
        prop_assume!(some.is_some() || full.is_some());
        let pressure = Pressure { some, full };
        let want = Parsed { pressure, unknown: None };
        prop_assert_eq!(parse(psi_text(pressure).as_bytes()), Ok(want));
    }

    #[test]
    fn pressure_parse_keeps_known_lines_beside_unknown(some in any_line(), foreign in "[a-rt-z][a-z0-9 =.]{0,40}") {
        prop_assume!(!foreign.starts_with("full"));
        let pressure = Pressure { some: Some(some), full: None };
        let known = psi_text(pressure);
        for text in [format!("{foreign}\n{known}"), format!("{known}{foreign}\n")] {
            let parsed = parse(text.as_bytes());
            prop_assert_eq!(parsed.as_ref().map(|p| p.pressure), Ok(pressure), "{:?}", text);
            prop_assert!(parsed.is_ok_and(|p| p.unknown.is_some()));
        }
    }

    #[test]
    fn pressure_parse_refuses_a_cut_file(some in any_line(), cut in 1_usize..40) {
        let text = psi_text(Pressure { some: Some(some), full: None });
        prop_assert!(parse(&text.as_bytes()[..text.len().saturating_sub(cut)]).is_err());
    }

    #[test]
    fn pressure_parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn pressure_parse_never_panics_on_near_misses(text in "((some|full|) ?(avg10|avg60|avg300|total)?=?[0-9.]{0,24} ?\n?){0,12}") {
        let _ = parse(text.as_bytes());
    }
}
