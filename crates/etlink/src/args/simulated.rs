//! Arguments of `etlink simulated`.

use super::{JsonArgs, OverwriteArgs, ReadingArgs, RowArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink simulated`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink simulated sim --against traces              sim: where merge --for astra-sim wrote, and \
    the simulator ran\n  \
    etlink simulated sim/log/log.log --against traces -o both.trace.json   for ui.perfetto.dev\n  \
    etlink simulated printed.txt --graphs sim          times per rank alone")]
pub struct SimulatedArgs {
    /// What ASTRA-sim logged: a file, or the folder with the graphs in which it ran. What it
    /// printed has times per rank; its `log/log.log` with `"trace-enabled": 1` in `system.json` has
    /// those of all nodes
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// The recording that the graphs were made of: the folder with the traces of all ranks
    #[arg(long, value_name = "TRACES")]
    pub against: Option<PathBuf>,
    /// Folder with the graphs that were simulated [default: that of the log, or the one above it]
    #[arg(long, value_name = "DIR")]
    pub graphs: Option<PathBuf>,
    /// Write the measured and the simulated nodes of each rank, one above the other:
    /// `x.trace.json`, for ui.perfetto.dev
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub rows: RowArgs<10>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}
