//! What the fuzz targets call.

mod parsers;

/// Runs the parser `name` on `bytes`. Panics as [`parsers::Trial`] does.
pub fn parse(name: &str, bytes: &[u8]) -> bool {
    let found = parsers::PARSERS.iter().find(|(known, _)| *known == name);
    let (_, trial) = found.unwrap_or_else(|| panic!("no parser {name:?}: add it to PARSERS"));
    trial(bytes)
}
