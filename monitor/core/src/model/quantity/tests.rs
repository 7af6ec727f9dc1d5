use proptest::prelude::*;
use proptest::sample::select;

use super::Format::{BinarySi, DecimalExponent, DecimalSi};
use super::*;

#[track_caller]
fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// A whole number of billionths.
const fn nano(n: i128) -> i128 {
    n
}

/// A whole number.
const fn whole(n: i128) -> i128 {
    n * UNIT
}

#[test]
fn quantity_parses_and_prints() {
    const CAPPED: i128 = i64::MAX as i128;
    #[rustfmt::skip]
    let table = [
        // text, value, format, canonical text
        ("0",          0,                            DecimalSi, "0"),
        ("0n",         0,                            DecimalSi, "0"),
        ("0u",         0,                            DecimalSi, "0"),
        ("0m",         0,                            DecimalSi, "0"),
        ("0k",         0,                            DecimalSi, "0"),
        ("0G",         0,                            DecimalSi, "0"),
        ("0Ki",        0,                            BinarySi,  "0"),
        ("0Ei",        0,                            BinarySi,  "0"),
        ("0.0Ki",      0,                            BinarySi,  "0"),
        ("0e999999",   0,                            DecimalExponent, "0"),
        ("1Ki",        whole(1 << 10),               BinarySi,  "1Ki"),
        ("7Mi",        whole(7_340_032),             BinarySi,  "7Mi"),
        ("8Gi",        whole(8 << 30),               BinarySi,  "8Gi"),
        ("2Ti",        whole(2 << 40),               BinarySi,  "2Ti"),
        ("5Pi",        whole(5 << 50),               BinarySi,  "5Pi"),
        ("3Ei",        whole(3_458_764_513_820_540_928), BinarySi, "3Ei"),
        ("5n",         nano(5),                      DecimalSi, "5n"),
        ("4u",         nano(4_000),                  DecimalSi, "4u"),
        ("3m",         nano(3_000_000),              DecimalSi, "3m"),
        ("9",          whole(9),                     DecimalSi, "9"),
        ("50k",        whole(50_000),                DecimalSi, "50k"),
        ("7M",         whole(7_000_000),             DecimalSi, "7M"),
        ("1E",         whole(1_000_000_000_000_000_000), DecimalSi, "1E"),
        ("1E-3",       nano(1_000_000),              DecimalExponent, "1e-3"),
        ("1e3",        whole(1_000),                 DecimalExponent, "1e3"),
        ("1E6",        whole(1_000_000),             DecimalExponent, "1e6"),
        ("1e+2",       whole(100),                   DecimalExponent, "100"),
        ("1e0",        whole(1),                     DecimalExponent, "1"),
        ("1e-10",      nano(1),                      DecimalExponent, "1e-9"),
        ("1e-4000000000", nano(1),                   DecimalExponent, "1e-9"),
        ("0e99999999999", 0,                         DecimalExponent, "0"),
        ("1e21",       whole(1_000_000_000_000_000_000_000), DecimalExponent, "1e21"),
        ("100.035k",   whole(100_035),               DecimalSi, "100035"),
        ("0.0005k",    nano(500_000_000),            DecimalSi, "500m"),
        ("0.9n",       nano(1),                      DecimalSi, "1n"),
        ("0.1n",       nano(1),                      DecimalSi, "1n"),
        ("3.001n",     nano(4),                      DecimalSi, "4n"),
        ("0.0000000001", nano(1),                    DecimalSi, "1n"),
        ("0.00000012345", nano(124),                 DecimalSi, "124n"),
        ("8Ei",        whole(CAPPED),                BinarySi,  "9223372036854775807"),
        ("9Ei",        whole(CAPPED),                BinarySi,  "9223372036854775807"),
        ("9223372036854775807Ki", whole(CAPPED),     BinarySi,  "9223372036854775807"),
        ("12E",        whole(12_000_000_000_000_000_000), DecimalSi, "12E"), // not capped
        ("1000E",      whole(1_000_000_000_000_000_000_000), DecimalSi, "1000E"),
        ("0.5Mi",      whole(524_288),               BinarySi,  "512Ki"),
        ("100.035Ki",  nano(102_435_840_000_000),    BinarySi,  "102435840m"),
        ("1024Mi",     whole(1 << 30),               BinarySi,  "1Gi"),
        ("1000M",      whole(1_000_000_000),         DecimalSi, "1G"),
        ("307200Ki",   whole(300 << 20),             BinarySi,  "300Mi"),
        ("1025024Mi",  whole(1001 << 30),            BinarySi,  "1001Gi"),
        ("1024Gi",     whole(1 << 40),               BinarySi,  "1Ti"),
        (".001Ki",     nano(1_024_000_000),          BinarySi,  "1024m"),
        (".0001Ki",    nano(102_400_000),            DecimalSi, "102400u"), // below 1
        (".000001Ki",  nano(1_024_000),              DecimalSi, "1024u"),
        (".000000001Ki", nano(1_024),                DecimalSi, "1024n"),
        ("1.5",        nano(1_500_000_000),          DecimalSi, "1500m"),
        ("1.5Gi",      whole(1536 << 20),            BinarySi,  "1536Mi"),
        ("1.",         whole(1),                     DecimalSi, "1"),
        (".5",         nano(500_000_000),            DecimalSi, "500m"),
        ("1.G",        whole(1_000_000_000),         DecimalSi, "1G"),
        ("0000012Ki",  whole(12 << 10),              BinarySi,  "12Ki"),
        ("1536",       whole(1536),                  DecimalSi, "1536"),
        ("1023Ki",     whole(1023 << 10),            BinarySi,  "1023Ki"),
    ];
    for (text, nanos, format, canonical) in table {
        let negative = if nanos == 0 { "0".into() } else { format!("-{canonical}") };
        let signed = [
            (text.to_owned(), nanos, canonical),
            (format!("+{text}"), nanos, canonical),
            (format!("-{text}"), -nanos, &negative),
        ];
        for (text, nanos, canonical) in signed {
            let got = quantity(&text);
            assert_eq!(got.nanos, nanos, "{text}");
            assert_eq!(got.format, format, "{text}");
            assert_eq!(got.to_string(), canonical, "{text}");
        }
    }
}

#[test]
fn quantity_refuses() {
    use QuantityError::{Format, Range, Suffix};
    let long = "1".repeat(257);
    let large = format!("1{}", "0".repeat(60));
    #[rustfmt::skip]
    let table = [
        // text, error
        ("",          Format),
        ("1.1.M",     Format),
        ("1+1.0M",    Format),
        ("0.1mi",     Suffix),
        ("0.1am",     Format),
        ("aoeu",      Format),
        (".5i",       Suffix),
        ("1i",        Suffix),
        ("-3.01i",    Suffix),
        ("-3.01e-",   Suffix),
        (" 1",        Format),
        ("1 ",        Format),
        ("1KB",       Format),
        ("1K",        Suffix),
        ("1g",        Format),
        ("1b",        Format),
        ("10 Mi",     Format),
        ("0x10",      Format),
        ("1_000",     Format),
        ("1e",        Suffix),
        ("1e3.5",     Format),
        ("1ee3",      Suffix),
        ("1Ki3",      Suffix),
        ("1,5",       Format),
        ("10%",       Format),
        ("--1",       Format),
        ("+-1",       Format),
        ("١",         Format), // a digit, of another script
        ("1µ",        Format),
        ("NaN",       Format),
        // Go takes these for 0
        (".",         Format),
        ("-.",        Format),
        ("-",         Format),
        ("+",         Format),
        ("Mi",        Format),
        ("e3",        Format),
        ("1e99999999999", Range),
        ("1e400",     Range),
        (&large,      Range),
        (&long,       Range),
    ];
    for (text, want) in table {
        assert_eq!(text.parse::<Quantity>(), Err(want), "{text:?}");
    }
}

#[test]
fn quantity_rounds_up() {
    #[rustfmt::skip]
    let table = [
        // text, value, thousandths, as an amount, as thousandths that cannot be negative
        ("9.01",   10,        9_010,          10,       9_010),
        ("-9.01",  -10,       -9_010,         0,        0),
        ("1n",     1,         1,              1,        1),
        ("-1n",    -1,        -1,             0,        0),
        ("100m",   1,         100,            1,        100),
        ("1500u",  1,         2,              1,        2),
        ("2",      2,         2_000,          2,        2_000),
        ("1Ki",    1_024,     1_024_000,      1_024,    1_024_000),
        ("0",      0,         0,              0,        0),
    ];
    for (text, value, milli, amount, to_milli) in table {
        let got = quantity(text);
        let all = (got.value(), got.milli_value(), got.to_u64(), got.to_milli());
        assert_eq!(all, (value, milli, amount, to_milli), "{text}");
    }
    assert_eq!(quantity("20E").to_u64(), u64::MAX, "cut to what it holds");
    assert_eq!(quantity("20E").to_milli(), u64::MAX, "cut to what it holds");
}

#[test]
fn quantity_compares_by_value() {
    use Ordering::{Equal, Greater, Less};
    #[rustfmt::skip]
    let table = [
        ("0",       "0",      Equal),
        ("0",       "0Ki",    Equal),
        ("100m",    "50m",    Greater),
        ("50m",     "100m",   Less),
        ("10000T",  "100Gi",  Greater),
        ("1Gi",     "1024Mi", Equal),
        ("1",       "1000m",  Equal),
        ("1Ki",     "1k",     Greater),
        ("-1",      "1n",     Less),
        ("1e3",     "1k",     Equal),
    ];
    for (a, b, want) in table {
        let (left, right) = (quantity(a), quantity(b));
        assert_eq!(left.cmp(&right), want, "{a} {b}");
        assert_eq!(right.cmp(&left), want.reverse(), "{b} {a}");
        assert_eq!(left == right, want == Equal, "{a} {b}");
    }
}

#[test]
fn quantity_sum_format() {
    #[rustfmt::skip]
    let table = [
        // a, b, a + b, a - b
        ("0",     "100m", "100m",   "-100m"),
        ("100m",  "0",    "100m",   "100m"),
        ("0",     "1Gi",  "1Gi",    "-1Gi"),
        ("1Gi",   "0",    "1Gi",    "1Gi"),
        ("0Ki",   "1k",   "1k",     "-1k"),
        ("1Mi",   "1M",   "2048576", "48576"),
        ("1M",    "1Mi",  "2048576", "-48576"),
        ("1Gi",   "1024Mi", "2Gi",  "0"),
        ("1Mi",   "24k",  "1072576", "1024576"),
        ("1Gi",   "500m", "1073741824500m", "1073741823500m"),
        ("4Ei",   "4Ei",  "9223372036854775808", "0"), // as 8Ei it would be capped when read back
    ];
    for (a, b, sum, difference) in table {
        let (left, right) = (quantity(a), quantity(b));
        assert_eq!(left.plus(right).to_string(), sum, "{a} + {b}");
        assert_eq!(left.minus(right).to_string(), difference, "{a} - {b}");
    }
    assert_eq!(quantity("-1Gi").at_least_zero(), Quantity::ZERO);
    assert_eq!(quantity("-1Gi").at_least_zero().plus(quantity("1")).to_string(), "1");
    assert_eq!(quantity("1Gi").at_least_zero().to_string(), "1Gi");
}

#[test]
fn quantity_of_a_count() {
    #[rustfmt::skip]
    let table = [
        (Quantity::bytes(29 << 30),  "29Gi"),
        (Quantity::bytes(1_000),     "1k"), // below 1024 as Go prints it
        (Quantity::bytes(1_025),     "1025"),
        (Quantity::count(110),       "110"),
        (Quantity::count(110_000),   "110k"),
        (Quantity::milli(9_850),     "9850m"),
        (Quantity::milli(10_000),    "10"),
        (Quantity::bytes(u64::MAX),  "18446744073709551615"),
    ];
    for (quantity, want) in table {
        assert_eq!(quantity.to_string(), want);
        assert_eq!(quantity.to_string().parse(), Ok(quantity), "{want}");
    }
}

#[test]
fn quantity_json_is_text() {
    let json = serde_json::to_string(&quantity("1024Mi")).unwrap();
    assert_eq!(json, "\"1Gi\"");
    assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity("1Gi"));
    let error = serde_json::from_str::<Quantity>("\"1KB\"").unwrap_err().to_string();
    assert!(error.contains("must match the regular expression"), "{error}");
}

/// Any quantity that a text of ordinary length can say.
fn any_quantity() -> impl Strategy<Value = Quantity> {
    let suffixes =
        DECIMAL.iter().map(|(name, _)| *name).chain(BINARY.iter().map(|(name, _)| *name));
    let suffixes: Vec<_> = suffixes.chain(["e3", "e-3", "E6", "e1", "e-9"]).collect();
    ("[+-]?[0-9]{1,9}(\\.[0-9]{0,12})?", select(suffixes)).prop_map(|(number, suffix)| {
        format!("{number}{suffix}").parse().expect("a quantity by its making")
    })
}

proptest! {
    #[test]
    fn quantity_parse_never_panics(text in "[+-]?[0-9.]{0,300}[eEinumkKMGTP+-]{0,4}[0-9]{0,24}|\\PC{0,12}") {
        // Whatever is read prints as something that is read as the same.
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
        }
    }

    #[test]
    fn quantity_canonical_text_is_stable(quantity in any_quantity()) {
        let text = quantity.to_string();
        let again: Quantity = text.parse().unwrap();
        prop_assert_eq!(again, quantity, "{}", text);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn quantity_sum_round_trip(a in any_quantity(), b in any_quantity(), c in any_quantity()) {
        let sum = a.plus(b).plus(c);
        prop_assert_eq!(sum.to_string().parse(), Ok(sum));
        prop_assert_eq!(sum, c.plus(b).plus(a));
        prop_assert_eq!(sum.minus(c).minus(b), a);
        prop_assert_eq!(a.plus(b) > a, !b.is_zero() && !b.is_negative());
    }

    #[test]
    fn quantity_order_follows_differences(a in any_quantity(), b in any_quantity()) {
        prop_assert_eq!(a < b, a.minus(b).is_negative());
        prop_assert_eq!(a == b, a.minus(b).is_zero());
        prop_assert!(a >= b || a.value() <= b.value());
        prop_assert!(a >= b || a.milli_value() <= b.milli_value());
    }
}
