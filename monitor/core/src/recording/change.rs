//! What changed from one sample to the next, as differences of numbers where only numbers changed.
//! In: two samples in parts. Out: the line of the second.
//!
//! Objects are compared as structs, and only those that differ are written as JSON. The two texts
//! are then compared side by side: if only numbers differ, their differences are the change. So this
//! code names no field and cannot forget one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::format::{One, Rows, Tick};
use super::pairs::Pairs;
use super::parts::{Key, Parts, is_ordered};
use crate::model::cgroup::CgroupId;
use crate::model::decision::Decision;

/// The line of a tick; complete if there is no tick before.
pub fn line<'a>(
    before: Option<&Parts>,
    now: &Parts,
    decision: &'a Decision,
) -> serde_json::Result<Tick<&'a Decision>> {
    let mut tick = without_matrix(before, now, decision)?;
    let matrix = &now.matrix;
    if !is_ordered(matrix) {
        tick.matrix_list = Some(matrix.clone());
    } else if !matrix.is_empty() || before.is_some_and(|before| !before.matrix.is_empty()) {
        tick.pairs = Some(Pairs::of(matrix, &now.cgroups));
    }
    Ok(tick)
}

/// The same without the matrix, which is of one interval and no change to the one before.
pub(super) fn without_matrix<D>(
    before: Option<&Parts>,
    now: &Parts,
    decision: D,
) -> serde_json::Result<Tick<D>> {
    let none = Parts::default();
    let old = before.unwrap_or(&none);
    let mut texts = Texts::default();
    // A pod and its only busy container change alike. Sorted by depth they make two runs of the same
    // numbers, which the compressor finds.
    let depth = |id: &CgroupId| now.cgroups.get(id).map_or(0, |c| c.path.segments().count());
    Ok(Tick {
        kind: "tick".into(),
        sample: match before {
            Some(old) => texts.one(&old.rest, &now.rest)?,
            None => One { set: Some(to_raw_value(&now.rest)?), ..One::default() },
        },
        cgroups: texts.rows(by_id(&old.cgroups), by_id(&now.cgroups), depth)?,
        groups: texts.rows(by_id(&old.groups), by_id(&now.groups), depth)?,
        pairs: None,
        matrix: Rows::default(),
        matrix_list: None,
        pods: match Arc::ptr_eq(&old.pods, &now.pods) {
            true => Rows::default(),
            false => texts.rows(by_id(&old.pods), by_id(&now.pods), |_| 0)?,
        },
        gaps: (old.gaps != now.gaps).then(|| now.gaps.clone()),
        decision,
    })
}

pub(super) fn by_id<K: Clone, T>(map: &BTreeMap<K, T>) -> impl Iterator<Item = (K, &T)> {
    map.iter().map(|(id, row)| (id.clone(), row))
}

/// The texts of the two objects that are being compared, allocated once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    before: Vec<u8>,
    now: Vec<u8>,
}

impl Texts {
    /// Which numbers changed and by how much; `None` if anything else did.
    fn compare<T: Serialize>(
        &mut self,
        before: &T,
        now: &T,
    ) -> serde_json::Result<Option<Vec<(String, i64)>>> {
        self.before.clear();
        self.now.clear();
        serde_json::to_writer(&mut self.before, before)?;
        serde_json::to_writer(&mut self.now, now)?;
        Ok(numbers(&self.before, &self.now))
    }

    pub(super) fn one<T: Serialize + PartialEq>(
        &mut self,
        before: &T,
        now: &T,
    ) -> serde_json::Result<One> {
        if before == now {
            return Ok(One::default());
        }
        Ok(match self.compare(before, now)? {
            Some(add) => One { set: None, add: add.into_iter().collect() },
            None => One { set: Some(to_raw_value(now)?), ..One::default() },
        })
    }

    /// Both sides sorted by key. Changed rows are written by `level`, then key.
    pub(super) fn rows<'a, K: Key, T: Serialize + PartialEq + 'a>(
        &mut self,
        before: impl Iterator<Item = (K, &'a T)>,
        now: impl Iterator<Item = (K, &'a T)>,
        level: impl Fn(&K) -> usize,
    ) -> serde_json::Result<Rows> {
        let mut rows = Rows::default();
        let mut changed = Vec::new();
        let mut before = before.peekable();
        for (key, row) in now {
            while let Some((gone, _)) = before.next_if(|(old, _)| *old < key) {
                rows.gone.push(gone.text());
            }
            let old = before.next_if(|(old, _)| *old == key);
            if old.as_ref().is_some_and(|(_, old)| *old == row) {
                continue;
            }
            let add = old.map(|(_, old)| self.compare(old, row)).transpose()?.flatten();
            match add {
                Some(add) => changed.push((level(&key), key, add)),
                None => {
                    rows.set.insert(key.text(), to_raw_value(row)?);
                }
            }
        }
        rows.gone.extend(before.map(|(gone, _)| gone.text()));
        changed.sort_unstable_by(|(a, ka, _), (b, kb, _)| (a, ka).cmp(&(b, kb)));
        let n = changed.len();
        for (i, (_, key, add)) in changed.into_iter().enumerate() {
            rows.rows.push(key.text());
            for (path, delta) in add {
                rows.add.entry(path).or_insert_with(|| vec![0; n])[i] = delta;
            }
        }
        Ok(rows)
    }
}

/// A step of the path to a place in a JSON text.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Compares two compact JSON texts. The differences of their numbers, by JSON pointer; `None` if
/// they differ in anything else, or in a number by more than an `i64`.
fn numbers(before: &[u8], now: &[u8]) -> Option<Vec<(String, i64)>> {
    let (mut old, mut new) = (before, now);
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut changes = Vec::new();
    while let Some(&byte) = new.first() {
        if byte == b'-' || byte.is_ascii_digit() {
            let (a, b) = (number(old), number(new));
            if a != b {
                changes.push((pointer(&steps)?, difference(a, b)?));
            }
            (old, new) = (&old[a.len()..], &new[b.len()..]);
            continue;
        }
        let length = if byte == b'"' { text(new)? } else { 1 };
        if old.get(..length)? != &new[..length] {
            return None;
        }
        let token = &new[..length];
        (old, new) = (&old[length..], &new[length..]);
        match byte {
            b'{' => steps.push(Step::Key("")),
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => {
                steps.pop();
            }
            b',' => {
                if let Some(Step::Index(i)) = steps.last_mut() {
                    *i += 1;
                }
            }
            b'"' if new.first() == Some(&b':') => {
                *steps.last_mut()? = Step::Key(std::str::from_utf8(&token[1..length - 1]).ok()?);
            }
            _ => {}
        }
    }
    old.is_empty().then_some(changes)
}

/// The number at the start of a text; empty if there is none.
fn number(text: &[u8]) -> &[u8] {
    let is_part = |b: &u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E');
    let end = text.iter().position(|b| !is_part(b)).unwrap_or(text.len());
    &text[..end]
}

/// The length of the string at the start of a text, including its quotes.
fn text(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some(end + 2)
}

/// The JSON pointer of these steps; `None` for a key that JSON escapes, which is rare.
fn pointer(steps: &[Step<'_>]) -> Option<String> {
    let mut pointer = String::new();
    for step in steps {
        pointer.push('/');
        match step {
            Step::Key(key) if key.contains('\\') => return None,
            Step::Key(key) if key.contains(['~', '/']) => {
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Step::Key(key) => pointer.push_str(key),
            Step::Index(i) => pointer.push_str(&i.to_string()),
        }
    }
    Some(pointer)
}

/// The difference of two numbers, in their last decimal: units or hundredths.
fn difference(before: &[u8], now: &[u8]) -> Option<i64> {
    let (a, b) = (decimal(before)?, decimal(now)?);
    let same_unit = a.1 == b.1;
    same_unit.then(|| i64::try_from(b.0 - a.0).ok()).flatten()
}

/// A number, and whether it is in hundredths.
fn decimal(number: &[u8]) -> Option<(i128, bool)> {
    let text = std::str::from_utf8(number).ok()?;
    let Some((whole, fraction)) = text.split_once('.') else {
        return Some((text.parse().ok()?, false));
    };
    let hundredths = match fraction.len() {
        1 => format!("{whole}{fraction}0"),
        2 => format!("{whole}{fraction}"),
        _ => return None,
    };
    Some((hundredths.parse().ok()?, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_returns_differences_if_nothing_else_changed() {
        let max = u64::MAX;
        #[rustfmt::skip]
        let table = [
            // before, now, changes
            (r#"{"a":1,"b":[2,3]}"#,   r#"{"a":10,"b":[2,1]}"#,   Some(vec![("/a", 9), ("/b/1", -2)])),
            (r#"{"a":{"b":{"c":1}}}"#, r#"{"a":{"b":{"c":2}}}"#,  Some(vec![("/a/b/c", 1)])),
            (r#"{"a":[{"x":1},{"x":1}],"z":0}"#, r#"{"a":[{"x":1},{"x":9}],"z":1}"#, Some(vec![("/a/1/x", 8), ("/z", 1)])),
            (r#"{"p":12.3}"#,          r#"{"p":12.34}"#,          Some(vec![("/p", 4)])),
            (r#"{"p":0.0}"#,           r#"{"p":655.35}"#,         Some(vec![("/p", 655_35)])),
            (r#"{"p":1.234}"#,         r#"{"p":1.235}"#,          None), // not a percentage
            (r#"{"p":1e30}"#,          r#"{"p":2e30}"#,           None),
            (r#"{"p":1.0}"#,           r#"{"p":1}"#,              None), // another kind of number
            (r#"{"n":-5}"#,            r#"{"n":7}"#,              Some(vec![("/n", 12)])),
            (r#"{"n":null}"#,          r#"{"n":7}"#,              None), // null is not 0
            (r#"{"n":7}"#,             r#"{"n":null}"#,           None),
            (r#"{"n":[7]}"#,           r#"{"n":[7,8]}"#,          None),
            (r#"{"n":[7,8]}"#,         r#"{"n":[7]}"#,            None),
            (r#"{"s":"1"}"#,           r#"{"s":"2"}"#,            None), // a text is not a number
            (r#"{"s":"a\"1","n":1}"#,  r#"{"s":"a\"1","n":2}"#,   Some(vec![("/n", 1)])),
            (r#"{"s":"\\","n":1}"#,    r#"{"s":"\\","n":2}"#,     Some(vec![("/n", 1)])),
            (r#"{"a/b~":1}"#,          r#"{"a/b~":2}"#,           Some(vec![("/a~1b~0", 1)])),
            (r#"{"a\"b":1}"#,          r#"{"a\"b":2}"#,           None), // an escaped key: in full
            ("5",                      "7",                       Some(vec![("", 2)])),
            (r#"{"a":1}"#,             r#"{"a":1,"b":2}"#,        None),
            (r#"{"a":true}"#,          r#"{"a":false}"#,          None),
        ];
        for (before, now, want) in table {
            let want: Option<Vec<_>> =
                want.map(|all| all.into_iter().map(|(path, n)| (path.to_owned(), n)).collect());
            assert_eq!(numbers(before.as_bytes(), now.as_bytes()), want, "{before} to {now}");
        }
        let (zero, most) = ("0".to_owned(), max.to_string());
        assert_eq!(numbers(zero.as_bytes(), most.as_bytes()), None, "too far for an i64");
    }
}
