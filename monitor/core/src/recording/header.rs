//! Reads the header of a chapter. Its long tables are read once, into the rows to which ticks and marks
//! are changes.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::apply::{Misfit, Object, State, Table};
use super::fields::{EMPTY, Fields, NONE};
use super::format::Header;
use crate::room;

/// Settings take some kilobytes. Patterns in them take forty times as much memory.
const SETTINGS: usize = 1 << 20;

/// What of a header is looked at before it is read, as it was written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Text<'a> {
    #[serde(borrow)]
    settings: Option<&'a RawValue>,
    #[serde(borrow)]
    standing: Standing<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Standing<'a> {
    #[serde(borrow)]
    before: Option<Before<'a>>,
    #[serde(borrow)]
    averages: Fields<'a>,
}

/// The sample of the tick before; of the kernel's part, its own fields.
#[derive(Default)]
struct Before<'a> {
    fields: Fields<'a>,
    kernel: Option<Fields<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Before<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Apart;
        impl<'de> Visitor<'de> for Apart {
            type Value = Before<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sample")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Before<'de>, A::Error> {
                let mut before = Before::default();
                while let Some(name) = from.next_key::<String>()? {
                    match &*name {
                        "kernel" => before.kernel = from.next_value()?,
                        _ => before.fields.insert(name, from.next_value()?),
                    }
                }
                Ok(before)
            }
        }
        from.deserialize_map(Apart)
    }
}

/// The header in this line, and the state that its ticks change.
///
/// # Errors
/// If it is none, or would take too much memory.
pub fn read(line: &[u8]) -> Result<(Header, State), Misfit> {
    let Text { settings, standing } = room::from_slice(line)?;
    if settings.is_some_and(|settings| settings.get().len() > SETTINGS) {
        return Err(Misfit(format!("settings of more than {} MiB", SETTINGS >> 20)));
    }
    let text = standing.without_long(line);
    let state = State::begin(standing)?;
    let mut header: Header = room::from_slice(&text)?;
    drop(text);
    // What it was made of just now goes before the whole is made.
    if header.standing.before.take().is_some() {
        header.standing.before = Some(state.sample()?);
    }
    if let Some(meters) = &state.meters {
        let averages = std::mem::take(&mut header.standing.averages);
        header.standing.averages = averages.with_groups(meters.rows().clone());
    }
    Ok((header, state))
}

impl Standing<'_> {
    /// The line, in which this lies, with nothing in what is long.
    fn without_long(&self, line: &[u8]) -> Vec<u8> {
        let Self { before, averages } = self;
        let kernel = before.as_ref().and_then(|before| before.kernel.as_ref());
        let before = before.as_ref().map(|before| &before.fields);
        let long = [
            before.and_then(|before| before.get("cgroups")),
            before.and_then(|before| before.get("pods")),
            kernel.and_then(|kernel| kernel.get("groups")),
            kernel.and_then(|kernel| kernel.get("matrix")),
            averages.get("groups"),
        ];
        let empty = |part: &RawValue| match part.get().as_bytes().first() {
            Some(b'{') => Some(EMPTY),
            Some(b'[') => Some(NONE),
            _ => None,
        };
        let begin = |part: &RawValue| part.get().as_ptr().addr() - line.as_ptr().addr();
        let long = long.into_iter().flatten();
        let mut long: Vec<_> = long.filter_map(|part| Some((part, empty(part)?))).collect();
        long.sort_unstable_by_key(|(part, _)| begin(part));
        let (mut text, mut end) = (Vec::new(), 0);
        for (part, empty) in long {
            text.extend_from_slice(&line[end..begin(part)]);
            text.extend_from_slice(empty.as_bytes());
            end = begin(part) + part.get().len();
        }
        text.extend_from_slice(&line[end..]);
        text
    }
}

impl State {
    /// Begins with the tables of a header.
    fn begin(Standing { before, mut averages }: Standing<'_>) -> Result<Self, Misfit> {
        let mut state = Self::default();
        let mut meters = Table::default();
        meters.fill(averages.take("groups", EMPTY)?)?;
        state.meters = Some(meters);
        let Some(Before { fields: mut rest, kernel }) = before else { return Ok(state) };
        state.cgroups.fill(rest.take("cgroups", EMPTY)?)?;
        state.pods.fill(rest.take("pods", EMPTY)?)?;
        state.gaps = read_or_default(rest.take("gaps", NONE)?)?;
        let kernel = kernel.map(|kernel| state.kernel(kernel)).transpose()?;
        if let Some(kernel) = &kernel {
            rest.insert("kernel".into(), kernel);
        }
        state.rest = Object::new(&rest.joined()?)?;
        Ok(state)
    }

    /// Takes the lists out of the kernel's part; the rest of it.
    fn kernel(&mut self, mut rest: Fields<'_>) -> Result<Box<RawValue>, Misfit> {
        self.groups.fill(rest.take("groups", EMPTY)?)?;
        self.matrix = read_or_default(rest.take("matrix", NONE)?)?;
        self.check_pairs()?;
        rest.joined()
    }
}

fn read_or_default<T: DeserializeOwned + Default>(text: Option<&RawValue>) -> Result<T, Misfit> {
    text.map_or_else(|| Ok(T::default()), |text| Ok(room::from_slice(text.get().as_bytes())?))
}
