//! Every parser of text that others write: the kernel's files, the kubelet's, an operator's, a
//! recording. In: any bytes. None may panic, whatever it is given, and what one understands must
//! mean the same when it is written out and read again.
//!
//! Fed by the fuzz targets (`cargo xtask fuzz`), one a parser, and by `tests/pure/corpus.rs` with what
//! those have found. To add a parser, see docs/architecture.md.

mod files;
mod recording;
mod yaml;

use std::fmt::{Debug, Display};
use std::str::FromStr;

use crate::source::outside as source;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::Quantity;

/// Gives a parser `bytes`. True if it understood them.
///
/// # Panics
/// If the parser does, or if what it understood reads differently the second time.
pub type Trial = fn(&[u8]) -> bool;

/// All of them, each under the name of its fuzz target and of its corpus in `tests/data/fuzz`.
pub const PARSERS: [(&str, Trial); 16] = [
    ("btf", source::btf),
    ("cgroup", source::cgroup),
    ("checkpoint", files::checkpoint),
    ("config", files::config),
    ("cpuset", printed::<CpuSet>),
    ("duration", printed::<GoDuration>),
    ("kubelet", files::kubelet),
    ("lscpu", files::lscpu),
    ("mountinfo", source::mountinfo),
    ("pods", files::pods),
    ("proc", source::proc),
    ("psi", source::psi),
    ("quantity", printed::<Quantity>),
    ("recording", recording::recording),
    ("scenario", files::scenario),
    ("yaml", yaml::yaml),
];

/// Gives the parser `name` `bytes`.
///
/// # Panics
/// As [`Trial`], and if there is no such parser.
pub fn parse(name: &str, bytes: &[u8]) -> bool {
    let found = PARSERS.iter().find(|(known, _)| *known == name);
    let (_, trial) = found.unwrap_or_else(|| panic!("no parser {name:?}: add it to PARSERS"));
    trial(bytes)
}

/// What prints itself must read itself, and print the same again.
fn printed<T: FromStr + Display + PartialEq + Debug>(bytes: &[u8]) -> bool {
    let Some(read) = str::from_utf8(bytes).ok().and_then(|text| text.parse::<T>().ok()) else {
        return false;
    };
    let text = read.to_string();
    let Ok(again) = text.parse::<T>() else { panic!("{read:?} prints {text:?}, and reads it not") };
    assert_eq!(read, again, "printed as {text:?}");
    assert_eq!(text, again.to_string(), "one value, one text");
    true
}
