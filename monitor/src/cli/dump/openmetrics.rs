//! The metrics of every tick, with its time. A family must stand together, so each is collected in
//! a file without a name while ticks are read: the disk holds them, not memory.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};

use anyhow::{Context as _, Result};
use isobar_core::model::units::Nanos;
use rustix::fs::{Mode, OFlags, open};

use super::Ticks;
use crate::cli::terminal::harmless;

pub(super) fn write(out: &mut impl Write, ticks: &mut Ticks) -> Result<()> {
    let mut families = Families::default();
    while let Some((at, text)) = ticks.metrics()? {
        families.add(at, &text)?;
    }
    families.write(out)
}

#[derive(Debug, Default)]
struct Families {
    /// By name, in the order in which they came first.
    places: BTreeMap<String, usize>,
    all: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    head: String,
    points: BufWriter<File>,
}

impl Families {
    /// Adds what was scraped at one moment.
    fn add(&mut self, at: Nanos, text: &str) -> Result<()> {
        // The family that is read, and whether its head is not known yet.
        let mut current: Option<(usize, bool)> = None;
        for line in text.lines() {
            match (line.strip_prefix("# "), current) {
                (Some("EOF"), _) | (None, None) => {}
                (None, Some((place, _))) => {
                    writeln!(self.all[place].points, "{} {}", harmless(line), seconds(at))?;
                }
                (Some(told), before) => {
                    let name = told.split(' ').nth(1).unwrap_or_default();
                    let (place, is_new) = match (self.places.get(name), before) {
                        (None, _) => (self.begin(name)?, true),
                        (Some(place), Some(before)) if *place == before.0 => before,
                        (Some(place), _) => (*place, false),
                    };
                    if is_new {
                        self.all[place].head.extend([line, "\n"]);
                    }
                    current = Some((place, is_new));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, name: &str) -> Result<usize> {
        let points = BufWriter::new(unnamed().context("cannot make a temporary file")?);
        self.all.push(Family { head: String::new(), points });
        self.places.insert(name.into(), self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    fn write(self, out: &mut impl Write) -> Result<()> {
        for Family { head, points } in self.all {
            out.write_all(head.as_bytes())?;
            let mut points = points.into_inner().map_err(io::IntoInnerError::into_error)?;
            points.rewind()?;
            io::copy(&mut points, out)?;
        }
        writeln!(out, "# EOF")?;
        Ok(())
    }
}

/// A file that is gone once it is closed.
fn unnamed() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open(env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// As OpenMetrics has times: seconds since 1970, here in milliseconds.
fn seconds(at: Nanos) -> String {
    let millis = at.0 / 1_000_000;
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_together() {
        let scrape = |a: u32, b: &str| {
            format!("# HELP a Help.\n# TYPE a gauge\na{{x=\"1\"}} {a}\n# TYPE b gauge\n{b}# EOF\n")
        };
        let mut families = Families::default();
        families.add(Nanos(1_500_000_000), &scrape(1, "")).unwrap();
        families.add(Nanos(2_500_900_000), &scrape(2, "b 7\n")).unwrap();
        let mut out = Vec::new();
        families.write(&mut out).unwrap();
        let want = "# HELP a Help.\n# TYPE a gauge\na{x=\"1\"} 1 1.500\na{x=\"1\"} 2 2.500\n\
                    # TYPE b gauge\nb 7 2.500\n# EOF\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
