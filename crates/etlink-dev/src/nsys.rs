//! Writes Kineto traces as exports of Nsight Systems, to compare readers and their speed on the
//! same run.

use anyhow::{Context, Result, bail};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_formats::nsys::NsysSchema;
use flate2::read::MultiGzDecoder;
use rusqlite::Connection;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// `cargo dev nsys-export`.
#[derive(Debug, clap::Args)]
pub struct NsysExportOptions {
    /// Kineto trace, plain or gzip
    #[arg(value_name = "KINETO")]
    trace: PathBuf,
    /// Output file, which must not exist
    #[arg(value_name = "SQLITE")]
    output: PathBuf,
    /// Write schema 2.9 of 2022 instead of 3.13 of 2024
    #[arg(long)]
    old: bool,
}

/// Writes a trace as an export.
pub fn write_export(options: &NsysExportOptions) -> Result<()> {
    let output = options.output.display();
    if options.output.exists() {
        bail!("{output} exists already");
    }
    let trace =
        etlink_formats::kineto::read(open_trace(&options.trace)?, KinetoReadOptions::default())
            .with_context(|| options.trace.display().to_string())?;
    let schema = if options.old {
        NsysSchema::V2_9
    } else {
        NsysSchema::V3_13
    };
    let connection = Connection::open(&options.output).with_context(|| output.to_string())?;
    etlink_formats::nsys::write(&trace, &connection, schema).with_context(|| output.to_string())?;
    println!(
        "{output}: {} kernels and copies, {} calls, {} ranges, {} synchronisations",
        trace.rows.len(),
        trace.calls.len(),
        trace.ops.len(),
        trace.syncs.len()
    );
    Ok(())
}

fn open_trace(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let file = BufReader::new(file);
    Ok(if path.extension().is_some_and(|ending| ending == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}
