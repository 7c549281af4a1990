//! Arguments of `etlink ops`.

use super::{
    JsonOrCsvArgs, NameArgs, OneTraceArgs, OverwriteArgs, RankArgs, ReadingArgs, RowArgs, StepArgs,
    WorkbookArgs,
};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Order of ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OpOrder {
    /// Device time.
    #[default]
    Time,
    /// Device time above the roof, which a better kernel could save.
    Lost,
}

/// `etlink ops`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink ops traces -n 40\n  \
        etlink ops traces --by lost           where a better kernel could save the most\n  \
        etlink ops kineto_trace_0.json.gz --peaks measured.txt --csv > ops.csv\n\n\
        Exit codes: 0 done; 1 a trace was left out: unreadable, not part of the run, or damaged \
        under --strict; 2 no trace could be read.")]
pub struct OpsArgs {
    /// Device trace, or folder (a table per rank); `-` is standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// File with peak rates of devices, tried before the built-in data sheets
    ///
    /// A line: `name | SMs | fp64 fp32 tf32 fp16 bf16 fp8, TFLOP/s | memory, GB/s | links, GB/s |
    /// source`, such as `h200 | - | - - - - 700 - | 4100 | - | measured`. The words of `name` begin
    /// words of the device's name in the trace. Unknown figures are `-`.
    #[arg(long, value_name = "FILE")]
    pub peaks: Option<PathBuf>,
    /// Order of the ops
    #[arg(long, value_enum, default_value_t)]
    pub by: OpOrder,
    #[command(flatten)]
    pub rows: RowArgs<20>,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub workbook: WorkbookArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub print: JsonOrCsvArgs,
}
