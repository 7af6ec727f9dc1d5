//! The grammar of every option that is a length of time.

use std::time::Duration;

use jiff::SignedDuration;

/// A length of time such as `10s`, `1h30m` or `2 minutes`, or whole seconds without a unit; more than
/// zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) => text.parse().map_err(|why| format!("{why}"))?,
    };
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("must be longer than 0s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_accepts_human_units() {
        #[rustfmt::skip]
        let table = [
            // text, seconds
            ("10s",     Some(10)),
            ("5m",      Some(300)),
            ("1h30m",   Some(5_400)),
            ("2 minutes", Some(120)),
            ("0s",      None),
            ("-5s",     None),
            ("10",      Some(10)),
            ("-10",     None),
            ("1.5",     None),
            ("99999999999999999999", None),
            ("soon",    None),
            ("",        None),
        ];
        for (text, want) in table {
            assert_eq!(duration(text).ok(), want.map(Duration::from_secs), "{text:?}");
        }
    }
}
