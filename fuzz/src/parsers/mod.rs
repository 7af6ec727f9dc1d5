//! One trial for each parser of untrusted text: files of the kernel, of the kubelet, of
//! an operator, and recordings. In: any bytes. A parser may not panic, and what it accepts must
//! mean the same when it is written out and read again.
//!
//! Compiled into the fuzz targets (`cargo xtask fuzz`), one for each parser, and into
//! `tests/corpus.rs`, which runs the inputs that fuzzing has found. To add a parser, see
//! docs/architecture.md.

mod files;
mod recording;
mod yaml;

use std::fmt::{Debug, Display};
use std::str::FromStr;

use isobar::source::fuzzing as source;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::Quantity;

/// Runs a parser on bytes. True if it accepts them. Panics if the parser does, or if what it
/// accepted reads differently the second time.
pub(crate) type Trial = fn(&[u8]) -> bool;

/// Each parser, by the name of its fuzz target and of its corpus in `tests/data/fuzz`.
pub(crate) const PARSERS: [(&str, Trial); 16] = [
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

/// A printed value must parse to the same value, and print the same text again.
fn printed<T: FromStr + Display + PartialEq + Debug>(bytes: &[u8]) -> bool {
    let Some(read) = str::from_utf8(bytes).ok().and_then(|text| text.parse::<T>().ok()) else {
        return false;
    };
    let text = read.to_string();
    let Ok(again) = text.parse::<T>() else {
        panic!("{read:?} prints {text:?}, which it does not parse")
    };
    assert_eq!(read, again, "printed as {text:?}");
    assert_eq!(text, again.to_string(), "one value, one text");
    true
}
