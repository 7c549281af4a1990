//! Arguments of `etlink simulated`.

use super::{JsonArgs, OverwriteArgs, ReadingArgs, RowArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink simulated`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink simulated sim --against traces          sim: folder of the graphs, where ASTRA-sim ran\n  \
    etlink simulated sim --against traces -o both.trace.json    for ui.perfetto.dev\n  \
    etlink simulated printed.txt --graphs sim      times per rank only")]
pub struct SimulatedArgs {
    /// ASTRA-sim's log, or the folder of the graphs if it ran there
    ///
    /// The simulator's printed output has times per rank. `log/log.log` also has the times of
    /// nodes; it needs `"trace-enabled": 1` in `system.json`.
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// Folder with the traces that the graphs come from, to compare with
    #[arg(long, value_name = "TRACES")]
    pub against: Option<PathBuf>,
    /// Folder with the simulated graphs [default: the folder of the log, or its parent]
    #[arg(long, value_name = "DIR")]
    pub graphs: Option<PathBuf>,
    /// Write measured and simulated nodes of each rank, `x.trace.json` for ui.perfetto.dev
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
