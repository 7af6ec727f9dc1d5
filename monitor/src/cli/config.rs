//! `isobar config`: checks a configuration; prints effective values, defaults and the schema.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use isobar::config::{self, Effective, Invalid, Problem};
use isobar_core::model::duration::GoDuration;
use isobar_core::model::fraction::Fraction;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::threshold::{Amount, Signal, Threshold};
use isobar_core::view::Document;
use serde::Serialize;
use serde_json::Value;

use super::exit::Code;
use super::input;
use super::output::Format;
use super::table::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check a file and report every problem with its line and column.
    Check {
        #[command(flatten)]
        file: FileArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Print the effective configuration: the file, the kubelet's file that it names, and defaults.
    View {
        #[command(flatten)]
        file: FileArgs,
        /// Output format: yaml is the whole configuration, as a file with the same meaning; the
        /// others only have the eviction thresholds, as the kubelet parses them.
        #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
        output: Format,
    },
    /// Print a file with every key, its default and its purpose.
    Defaults,
    /// Print the JSON Schema of the format.
    Schema {
        /// Output format; table and wide list the keys.
        #[arg(short, long, value_enum, default_value_t = Format::Json)]
        output: Format,
    },
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// MonitorConfiguration or KubeletConfiguration file; - for standard input [default: none, the
    /// built-in defaults].
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// An answer of the kubelet's /configz, which the agent uses in place of the file that
    /// kubeletConfig names.
    #[arg(long, value_name = "FILE")]
    configz: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let mut out = anstream::stdout().lock();
    match &args.what {
        What::Check { file, output } => return check(file, *output),
        What::View { file, output: Format::Yaml } => {
            out.write_all(file.read()?.yaml.as_bytes())?;
        }
        What::View { file, output } => {
            let thresholds = file.read()?.settings.eviction.thresholds;
            let parsed: Vec<_> = thresholds.iter().map(Parsed::of).collect();
            output.print(&parsed, |out| Ok(table(&thresholds).write(out, output.width())?))?;
        }
        What::Defaults => out.write_all(config::default_file().as_bytes())?,
        What::Schema { output } => {
            let schema = config::schema();
            let mut keys = Table::new("KEY TYPE PURPOSE~");
            list_keys(&schema, "", &mut keys);
            output.print(&schema, |out| Ok(keys.write(out, output.width())?))?;
        }
    }
    Ok(Code::Ok)
}

impl FileArgs {
    fn read(&self) -> Result<Effective> {
        let configz = self.configz.as_deref().map(input::read).transpose()?;
        let configz = configz.as_ref().map(|(_, bytes)| &bytes[..]);
        match self.file.as_deref() {
            Some(path) if path == Path::new("-") => {
                let (name, bytes) = input::read(path)?;
                Ok(config::over(&bytes, &name, Path::new(""), configz)?)
            }
            path => Ok(config::read(path, configz)?),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked<'a> {
    file: &'a str,
    valid: bool,
    problems: Vec<At<'a>>,
}

/// One problem. Without line and column if the file cannot be read.
#[derive(Serialize)]
struct At<'a> {
    line: Option<usize>,
    column: Option<usize>,
    path: &'a str,
    message: &'a str,
}

impl<'a> At<'a> {
    fn of(problem: &'a Problem) -> Self {
        let Problem { at, path, message } = problem;
        Self { line: at.map(|at| at.line), column: at.map(|at| at.column), path, message }
    }
}

/// The keys below `path`, those of lists as `key[]`.
fn list_keys(schema: &Value, path: &str, to: &mut Table) {
    let items = &schema["items"];
    if items.is_object() {
        return list_keys(items, &format!("{path}[]"), to);
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let types = of["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let types: Vec<_> = types.filter(|name| *name != "null").collect();
        let types = if types.is_empty() { "-".into() } else { types.join(" or ") };
        let about = of["description"].as_str().unwrap_or("-");
        to.row([path.clone(), types, about.into()]);
        list_keys(of, &path, to);
    }
}

fn table(thresholds: &[Threshold]) -> Table {
    let mut table = Table::new("SIGNAL VALUE> GRACE-PERIOD> MIN-RECLAIM>");
    for Threshold { signal, value, grace, min_reclaim, .. } in thresholds {
        let reclaim = min_reclaim.map_or_else(|| "0".into(), |amount| amount.to_string());
        let grace = GoDuration::from(*grace).to_string();
        table.row([signal.name().into(), value.to_string(), grace, reclaim]);
    }
    table
}

fn check(file: &FileArgs, output: Format) -> Result<Code> {
    let name = file.file.as_ref();
    let name = name.map_or_else(|| "defaults".into(), |path| path.display().to_string());
    let read = file.read();
    let problems = match &read {
        Ok(_) => &[],
        Err(error) => match error.downcast_ref::<Invalid>() {
            Some(invalid) => invalid.problems.as_slice(),
            None => return read.map(|_| Code::Ok),
        },
    };
    let valid = problems.is_empty();
    if !valid && matches!(output, Format::Table | Format::Wide) {
        // On stderr, as problems of a file are wherever one is read.
        return read.map(|_| Code::Ok);
    }
    let problems: Vec<At<'_>> = problems.iter().map(At::of).collect();
    let checked = Document::new("ConfigurationCheck", Checked { file: &name, valid, problems });
    output.print(&checked, |out| Ok(writeln!(out, "{name}: ok")?))?;
    Ok(if valid { Code::Ok } else { Code::InvalidInput })
}

/// A threshold as the kubelet parses it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Parsed {
    signal: Signal,
    operator: &'static str,
    #[serde(flatten)]
    value: Amount,
    grace_period: GoDuration,
    min_reclaim: MinReclaim,
}

/// An amount without its kind: a quantity is a text, a percentage a number.
#[derive(Serialize)]
#[serde(untagged)]
enum MinReclaim {
    Quantity(Quantity),
    Percentage(Fraction),
}

impl Parsed {
    fn of(threshold: &Threshold) -> Self {
        Self {
            signal: threshold.signal,
            operator: "LessThan",
            value: threshold.value,
            grace_period: threshold.grace.into(),
            min_reclaim: match threshold.min_reclaim {
                None => MinReclaim::Quantity(Quantity::ZERO),
                Some(Amount::Quantity(quantity)) => MinReclaim::Quantity(quantity),
                Some(Amount::Percentage(fraction)) => MinReclaim::Percentage(fraction),
            },
        }
    }
}
