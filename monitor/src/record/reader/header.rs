//! Reads the header of a chapter. The long parts of its sample are read once, into the rows to which
//! the ticks are changes.

use serde::Deserialize;
use serde_json::value::RawValue;

use isobar_core::recording::apply::{Fields, Misfit, State};
use isobar_core::recording::format::Header;
use isobar_core::room;

/// Settings take some kilobytes. Patterns in them take forty times as much memory.
const SETTINGS: usize = 1 << 20;
/// What is long in a sample.
const LONG: [&str; 3] = ["cgroups", "kernel", "pods"];

/// Settings and sample in a header, as they were written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sampled<'a> {
    #[serde(borrow)]
    settings: Option<&'a RawValue>,
    #[serde(borrow)]
    standing: Before<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Before<'a> {
    #[serde(borrow)]
    before: Option<Fields<'a>>,
}

/// The header, and the state that its ticks change.
pub(super) fn read(line: &[u8]) -> Result<(Header, State), Misfit> {
    let Sampled { settings, standing: Before { before } } = room::from_slice(line)?;
    if settings.is_some_and(|settings| settings.get().len() > SETTINGS) {
        return Err(Misfit(format!("settings of more than {} MiB", SETTINGS >> 20)));
    }
    let text = before.as_ref().map(|before| without_long(line, before));
    let state = State::begin(before)?;
    let mut header: Header = room::from_slice(text.as_deref().unwrap_or(line))?;
    drop(text);
    // What it was made of just now goes before the whole is made.
    if header.standing.before.take().is_some() {
        header.standing.before = Some(state.sample()?);
    }
    Ok((header, state))
}

/// The line with nothing in the long objects of `before`, which lies in it.
fn without_long(line: &[u8], before: &Fields<'_>) -> Vec<u8> {
    let begin = |part: &RawValue| part.get().as_ptr().addr() - line.as_ptr().addr();
    let long = LONG.iter().filter_map(|name| before.get(name));
    let mut long: Vec<_> = long.filter(|part| part.get().starts_with('{')).collect();
    long.sort_unstable_by_key(|part| begin(part));
    let (mut text, mut end) = (Vec::new(), 0);
    for part in long {
        text.extend_from_slice(&line[end..begin(part)]);
        text.extend_from_slice(b"{}");
        end = begin(part) + part.get().len();
    }
    text.extend_from_slice(&line[end..]);
    text
}
