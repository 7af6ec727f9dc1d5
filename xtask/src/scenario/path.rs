//! Where in a snapshot a value lies, and what it measures there.

use serde_json::Value;

use super::expect::{Key, Path, Subject};
use super::quantity::Unit;

impl Path {
    /// Reads `.a.b?.c`.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        let Some(keys) = word.strip_prefix('.') else {
            return Err(format!("expected a .path, found {word:?}"));
        };
        let key = |name: &str| match name.strip_suffix('?') {
            Some(name) => Key { name: name.into(), may_be_missing: true },
            None => Key { name: name.into(), may_be_missing: false },
        };
        let keys: Vec<Key> = keys.split('.').map(key).collect();
        if keys.iter().any(|key| key.name.is_empty()) {
            return Err(format!("{word:?} has an empty key"));
        }
        Ok(Self(keys))
    }

    /// What a value there measures, and how many of [`Unit`]'s units one of it is. The JSON has
    /// bare numbers; these are the units of the model's types.
    pub(super) fn unit(&self, subject: &Subject) -> (Unit, f64) {
        let names: Vec<&str> = self.0.iter().map(|key| key.name.as_str()).collect();
        let in_node_files = *subject == Subject::Snapshot && names.first() == Some(&"node");
        match names.as_slice() {
            [.., "avg10" | "avg60" | "avg300"] => (Unit::Share, 0.01),
            [.., "contentionPerCpu", _] => (Unit::Share, 0.01),
            [.., "cpu", "contention", "now"] => (Unit::Time, 1.0),
            [.., "contention" | "shortage", "now"] => (Unit::Share, 0.01),
            [.., "pressure", _, _, "total"] => (Unit::Time, 1e3),
            [.., "files", "cpu", "usage" | "throttled" | "period"] => (Unit::Time, 1e3),
            ["node", "cpu", _] if in_node_files => (Unit::Time, 1.0),
            _ if in_node_files => (Unit::Number, 1.0),
            [.., "total" | "now" | "interval" | "boot"] => (Unit::Time, 1.0),
            _ => (Unit::Number, 1.0),
        }
    }

    /// The number at this place below `value`. The error names the first key that is not there.
    pub(super) fn number(&self, value: &Value) -> Result<f64, String> {
        let mut here = value;
        let mut so_far = String::new();
        for key in &self.0 {
            so_far = format!("{so_far}.{}", key.name);
            let next = match here {
                Value::Array(list) => key.name.parse().ok().and_then(|i: usize| list.get(i)),
                other => other.get(&key.name),
            };
            here = match next {
                Some(Value::Null) | None if key.may_be_missing => return Ok(0.0),
                Some(Value::Null) => return Err(format!("{so_far} is null")),
                Some(found) => found,
                None => return Err(format!("there is no {so_far}")),
            };
        }
        match here {
            Value::Bool(yes) => Ok(f64::from(u8::from(*yes))),
            other => other.as_f64().ok_or_else(|| format!("{so_far} is no number: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_tells_what_its_number_measures() {
        let cgroup = Subject::Cgroup("/a".into());
        #[rustfmt::skip]
        let table = [
            (&cgroup,            ".cpu.contention.total",              Unit::Time,   1.0),
            (&cgroup,            ".cpu.contention.now",                Unit::Time,   1.0),
            (&cgroup,            ".contention.now",                    Unit::Share,  0.01),
            (&cgroup,            ".contention.total",                  Unit::Time,   1.0),
            (&cgroup,            ".pressure.cpu.some.total",           Unit::Time,   1e3),
            (&cgroup,            ".pressure.cpu.some.avg10",           Unit::Share,  0.01),
            (&cgroup,            ".files.cpu.throttled",               Unit::Time,   1e3),
            (&cgroup,            ".files.memory.events.oomKill",       Unit::Number, 1.0),
            (&cgroup,            ".memory.causes.global?.union.total", Unit::Time,   1.0),
            (&Subject::Node,     ".contentionPerCpu.1",                Unit::Share,  0.01),
            (&Subject::Snapshot, ".node.memory.total",                 Unit::Number, 1.0),
            (&Subject::Snapshot, ".node.cpu.steal",                    Unit::Time,   1.0),
            (&Subject::Snapshot, ".lost.cgroups",                      Unit::Number, 1.0),
        ];
        for (subject, path, unit, factor) in table {
            let got = Path::parse(path).unwrap().unit(subject);
            assert_eq!(got, (unit, factor), "{path}");
        }
    }

    #[test]
    fn a_missing_number_is_an_error_unless_it_may_be_missing() {
        let value = json!({ "a": { "b": [7, 8] }, "none": null, "text": "x", "yes": true });
        #[rustfmt::skip]
        let table = [
            (".a.b.1",   Ok(8.0)),
            (".yes",     Ok(1.0)),
            (".a.c?.d",  Ok(0.0)),
            (".none?.d", Ok(0.0)),
            (".a.c.d",   Err("there is no .a.c")),
            (".none.d",  Err(".none is null")),
            (".text",    Err(".text is no number: \"x\"")),
        ];
        for (path, want) in table {
            let got = Path::parse(path).unwrap().number(&value);
            assert_eq!(got, want.map_err(str::to_owned), "{path}");
        }
        for path in ["a.b", ".a..b", "."] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }
}
