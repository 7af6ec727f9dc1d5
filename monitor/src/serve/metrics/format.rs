//! The two text formats, and which one a client gets.

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own, version 0.0.4.
    Prometheus,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What the values of `Accept` prefer; Prometheus' format where they do not say, or accept
    /// neither: a person who looks should see something.
    pub(super) fn of<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let ranges = accept.flat_map(|value| value.split(','));
        let wanted = ranges.filter_map(wanted).filter(|(_, weight)| *weight > 0);
        // Of equals the first is the last maximum of the reverse.
        let all: Vec<_> = wanted.collect();
        let best = all.into_iter().rev().max_by_key(|(_, weight)| *weight);
        best.map_or(Self::Prometheus, |(format, _)| format)
    }
}

/// The format that a media range names, and its weight in thousandths.
fn wanted(range: &str) -> Option<(Format, u16)> {
    let mut parts = range.split(';').map(str::trim);
    let format = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/openmetrics-text" => Format::OpenMetrics,
        "text/plain" | "text/*" | "*/*" => Format::Prometheus,
        _ => return None,
    };
    let mut weight = 1_000;
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match (key.trim().to_ascii_lowercase().as_str(), value.trim().trim_matches('"')) {
            ("q", value) => weight = thousandths(value)?,
            ("version", version) if !format.has(version) => return None,
            _ => {}
        }
    }
    Some((format, weight))
}

impl Format {
    /// OpenMetrics 1.0 is what 0.0.1 became: scrapers name both.
    fn has(self, version: &str) -> bool {
        match self {
            Self::OpenMetrics => ["1.0.0", "0.0.1"].contains(&version),
            Self::Prometheus => version == "0.0.4",
        }
    }
}

/// A weight from 0 to 1 with up to three decimals (RFC 9110, 12.4.2).
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match (whole, format!("{decimals:0<3}").parse().ok()?) {
        ("0", decimals) => Some(decimals),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

/// OpenMetrics in Prometheus' format, in which a counter's family has the name of its samples, and
/// which has neither units nor an end.
pub(super) fn to_prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 64);
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of;
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap_or((of, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let words = help.strip_prefix(name).unwrap_or_default();
            text += &format!("# HELP {name}{suffix}{words}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with("# ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_of_accept() {
        use Format::{OpenMetrics, Prometheus};
        #[rustfmt::skip]
        let table: &[(&[&str], Format)] = &[
            // accept, format
            (&[],                                                Prometheus),
            (&["*/*"],                                           Prometheus),
            (&["text/html, */*;q=0.1"],                          Prometheus),
            (&["application/json"],                              Prometheus),
            (&["text/plain;version=0.0.4"],                      Prometheus),
            (&["application/openmetrics-text"],                  OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=\"1.0.0\""], OpenMetrics),
            // Prometheus 2.42
            (&["application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"], OpenMetrics),
            // Prometheus 3
            (&["application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2"], OpenMetrics),
            (&["application/openmetrics-text;version=2.0.0, text/plain;q=0.1"], Prometheus),
            (&["application/openmetrics-text;q=0.5, text/plain"], Prometheus),
            (&["text/plain;q=0.5", "application/openmetrics-text;q=0.6"], OpenMetrics),
            (&["application/openmetrics-text;q=0"],               Prometheus),
            (&["application/openmetrics-text;q=nonsense"],        Prometheus),
            (&["application/openmetrics-text;q=-1", ";;=,", ""],  Prometheus),
            (&["text/plain, application/openmetrics-text"],       Prometheus), // of equals the first
            (&["application/openmetrics-text, text/plain"],       OpenMetrics),
        ];
        for (accept, want) in table {
            assert_eq!(Format::of(accept.iter().copied()), *want, "{accept:?}");
        }
    }

    #[test]
    fn to_prometheus_names_counters_as_their_samples() {
        let open = "# HELP a_seconds Help of a_seconds.\n# TYPE a_seconds counter\n\
                    # UNIT a_seconds seconds\na_seconds_total{p=\"# HELP\"} 1.5\n\
                    # HELP b Help.\n# TYPE b gauge\nb 2\n# EOF\n";
        let want = "# HELP a_seconds_total Help of a_seconds.\n# TYPE a_seconds_total counter\n\
                    a_seconds_total{p=\"# HELP\"} 1.5\n# HELP b Help.\n# TYPE b gauge\nb 2\n";
        assert_eq!(to_prometheus(open), want);
    }
}
