//! The envelope of the JSON that commands print: an object that names its schema and version.
//!
//! The schemas are in `schemas/json`, a file per name and version.

use anyhow::Result;
use etlink_run::output::StdoutError;
use serde::Serialize;
use serde_json::Value;
use std::io::{BufWriter, Write};

/// A report that `--json` prints.
pub(crate) trait JsonReport: Serialize {
    /// Name of the schema: `etlink.` and the kind of report, mostly the command.
    const SCHEMA: &'static str;
    /// Version of the schema. It changes when a field is removed or changes its meaning.
    const VERSION: u32 = 1;
}

/// Reports of several runs, one per run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RunReports<T> {
    /// Reports in the order of the runs; a single file is one run.
    pub(crate) runs: Vec<T>,
}

/// Reports of several files, one per file.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FileReports<T> {
    /// Reports in the order of the files.
    pub(crate) files: Vec<T>,
}

/// A report in its envelope.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Envelope<'a, T> {
    /// Name of the schema.
    schema: &'static str,
    /// Version of the schema.
    version: u32,
    #[serde(flatten)]
    report: &'a T,
}

impl<'a, T: JsonReport> Envelope<'a, T> {
    fn new(report: &'a T) -> Envelope<'a, T> {
        Envelope {
            schema: T::SCHEMA,
            version: T::VERSION,
            report,
        }
    }
}

/// Returns a report as text.
pub(crate) fn json_text<T: JsonReport>(report: &T) -> Result<String> {
    Ok(serde_json::to_string_pretty(&Envelope::new(report))? + "\n")
}

/// Returns a report as a value, to print a part of it.
pub(crate) fn json_value<T: JsonReport>(report: &T) -> Result<Value> {
    Ok(serde_json::to_value(Envelope::new(report))?)
}

/// Prints a report.
pub(crate) fn print_json_report<T: JsonReport>(report: &T) -> Result<()> {
    print_json(&Envelope::new(report))
}

/// Prints JSON while serializing: a report with a million named records is half a GB.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut out = BufWriter::with_capacity(JSON_BUFFER, std::io::stdout().lock());
    match serde_json::to_writer_pretty(&mut out, value) {
        Ok(()) => {}
        // `main` recognizes a closed pipe by this type
        Err(error) if error.is_io() => return Err(StdoutError(error.into()).into()),
        Err(error) => return Err(error.into()),
    }
    out.write_all(b"\n")
        .and_then(|()| out.flush())
        .map_err(StdoutError)?;
    Ok(())
}

/// Bytes written to standard output at once, which by itself writes line by line.
const JSON_BUFFER: usize = 1 << 16;
