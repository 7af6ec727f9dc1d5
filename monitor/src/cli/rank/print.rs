//! The table: candidates in eviction order with their keys, then who is never evicted.

use std::io::{self, Write};

use isobar::record::incident::words::clock;
use isobar_core::model::decision::{Candidate, Key, KeyValue, MeritKey, Ranking};
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::policy::rank;

use crate::cli::output::{Format, word};
use crate::cli::table::Table;
use crate::cli::terminal::harmless;
use crate::cli::top::figures::length;

/// Prints a ranking. `now` is the wall clock of what is ranked: the table says how long ago each pod
/// was started, and without it, as of a file, at which time (UTC).
pub(super) fn write(
    out: &mut dyn Write,
    ranking: &Ranking,
    now: Option<Nanos>,
    output: Format,
) -> io::Result<()> {
    let width = output.width();
    let Ranking { signal, order, candidates, spared, outsiders, loss, .. } = ranking;
    let order = word(order);
    match candidates.len() {
        0 => writeln!(out, "{signal}, order {order}: no candidates")?,
        1 => writeln!(out, "{signal}, order {order}: 1 candidate")?,
        n => writeln!(out, "{signal}, order {order}: {n} candidates, in eviction order")?,
    }
    if !candidates.is_empty() {
        table(candidates, now, output).write(out, width)?;
    }
    if !spared.is_empty() {
        writeln!(out, "\nnever evicted")?;
        let mut table =
            Table::new(if output.is_wide() { "NAME REASON UID" } else { "NAME~ REASON" });
        for one in spared {
            let uid = output.is_wide().then(|| one.uid.clone());
            table.row([one.full_name(), word(&one.why)].into_iter().chain(uid));
        }
        table.write(out, width)?;
    }
    if let Some(loss) = loss.as_ref().filter(|loss| loss.lost > Bytes(0)) {
        writeln!(out, "\n{}", isobar_core::policy::explain::lost(loss))?;
    }
    for outsider in outsiders {
        let (path, ms) = (harmless(&outsider.path.0), outsider.harm.0 / 1_000_000);
        writeln!(out, "\nnot a pod, but makes others wait {ms} ms per second: {path}")?;
    }
    Ok(())
}

/// One row for each candidate, one column for each key. The last column names the key by which the
/// candidate above ranks first.
fn table(candidates: &[Candidate], now: Option<Nanos>, output: Format) -> Table {
    let keys = keys(candidates);
    let columns: String = keys.iter().map(|key| format!("{}> ", heading(*key))).collect();
    let more = if output.is_wide() { "UID" } else { "" };
    let mut table = Table::new(&format!("NAME~ {columns}DECIDED-BY {more}"));
    let before = std::iter::once(None).chain(candidates.iter().map(Some));
    for (candidate, before) in candidates.iter().zip(before) {
        let values = keys.iter().map(|key| {
            let found = candidate.keys.iter().find(|merit| merit.key == *key);
            found.map_or_else(|| "-".into(), |merit| value(merit, now))
        });
        let spared_by = before
            .and_then(|before| rank::why_before(before, candidate))
            .map_or_else(|| "-".into(), |(_, its)| word(&its.key));
        let uid = output.is_wide().then(|| candidate.uid.clone());
        table.row([candidate.full_name()].into_iter().chain(values).chain([spared_by]).chain(uid));
    }
    table
}

/// The keys of all candidates, in the order in which they decide; the uid has no column.
fn keys(candidates: &[Candidate]) -> Vec<Key> {
    let mut keys = Vec::new();
    for candidate in candidates {
        let mut at = 0;
        for merit in candidate.keys.iter().filter(|merit| merit.key != Key::Uid) {
            match keys.iter().position(|key| *key == merit.key) {
                Some(found) => at = found + 1,
                None => {
                    keys.insert(at, merit.key);
                    at += 1;
                }
            }
        }
    }
    keys
}

fn heading(key: Key) -> &'static str {
    match key {
        Key::HasStats => "STATS",
        Key::ExceedsRequest => "ABOVE-REQUEST",
        Key::Priority => "PRIORITY",
        Key::Excess => "EXCESS",
        Key::Usage => "USAGE",
        Key::Qos => "QOS",
        Key::Harm => "HARM-MS/S",
        Key::DiskShare => "OF-DISK-WAITS-MS/S",
        Key::Taker => "TAKER",
        Key::HoldsPromised => "HOLDS-PROMISED",
        Key::Lasting => "LASTING",
        Key::Taken => "TAKEN",
        Key::AmongLargest => "AMONG-LARGEST",
        Key::FreesEnough => "FREES-ENOUGH",
        Key::Processes => "PROCESSES",
        Key::Started => "STARTED",
        Key::Preference => "PREFERENCE",
        Key::Uid => "UID",
    }
}

fn value(MeritKey { key, value }: &MeritKey, now: Option<Nanos>) -> String {
    match value {
        KeyValue::Number(started) if *key == Key::Started => {
            let seconds = u64::try_from(*started).unwrap_or_default();
            let started = Nanos(seconds.saturating_mul(Nanos::SECOND.0));
            now.map_or_else(|| clock(started), |now| format!("{} ago", length(now.since(started))))
        }
        KeyValue::Bool(true) => "yes".into(),
        KeyValue::Bool(false) => "no".into(),
        KeyValue::Unknown => "?".into(),
        KeyValue::Class(class) => word(class),
        KeyValue::Number(n) => n.to_string(),
        KeyValue::Quantity(quantity) => quantity.to_string(),
        KeyValue::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use isobar::scenario;
    use isobar_core::model::decision::{Loss, Order};
    use isobar_core::model::settings;
    use isobar_core::policy::rank::Purpose;

    use super::*;

    fn printed(scenario: &str, now: Option<Nanos>) -> String {
        let scenario = scenario::parse("-", scenario.as_bytes()).unwrap();
        let rules = settings::Ranking::default();
        let purpose = Purpose::usual();
        let pods = scenario.contenders(purpose, &rules);
        let ranking = rank::rank_all(&pods, purpose, Order::Qos, &rules);
        let mut out = Vec::new();
        write(&mut out, &ranking, now, Format::Table).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn write_names_deciding_key_of_each_candidate() {
        let got = printed(
            "pods: [{name: hog, usage: {memory: 800Mi}}, {name: web, request: {memory: 1Gi}, \
             usage: {memory: 2Gi}}, {name: etcd, namespace: kube-system, priority: 2000001000, \
             usage: {memory: 1Gi}}]",
            None,
        );
        let want = "memory.available, order qos: 2 candidates, in eviction order\n\
                    NAME         QOS  ABOVE-REQUEST  PRIORITY  HARM-MS/S  EXCESS  STARTED  DECIDED-BY\n\
                    hog   BestEffort              -         0          ?   800Mi        ?  -\n\
                    web    Burstable            yes         0          ?     1Gi        ?  qos\n\
                    \n\
                    never evicted\n\
                    NAME              REASON\n\
                    kube-system/etcd  critical\n";
        assert_eq!(got, want);
    }

    #[test]
    fn write_shows_how_long_ago_a_pod_was_started_where_the_time_is_known() {
        let scenario = "pods: [{name: web, namespace: shop, started: 2026-11-22T10:00:00Z}]";
        #[rustfmt::skip]
        let table = [
            // now, value
            (None,                        "2026-11-22 10:00:00Z"),
            (Some(1_795_341_600 + 7_500), " 2 h 5 min ago"),
            (Some(1_795_341_600 - 7_500), " 0 s ago"), // a clock that was put back
        ];
        for (now, value) in table {
            let got = printed(scenario, now.map(|at| Nanos(at * Nanos::SECOND.0)));
            let is_told =
                got.contains(" STARTED ") && got.contains(value) && got.contains("\nshop/web ");
            assert!(is_told, "{now:?}\n{got}");
        }
    }

    #[test]
    fn write_tells_of_memory_that_was_lost_if_any_was() {
        for (lost, is_told) in [(0, false), (1 << 20, true)] {
            let loss = Some(Loss { lost: Bytes(lost), ..Loss::default() });
            let mut out = Vec::new();
            write(&mut out, &Ranking { loss, ..Ranking::default() }, None, Format::Table).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out.contains("lost in"), is_told, "{out}");
        }
    }

    #[test]
    fn write_reports_no_candidates() {
        assert_eq!(printed("pods: []", None), "memory.available, order qos: no candidates\n");
    }
}
