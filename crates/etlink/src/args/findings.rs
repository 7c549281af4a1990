//! `etlink findings`.

use super::{JsonArgs, OneTraceArgs, PrepareArgs, RankArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink findings`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink findings traces\n  \
        etlink findings kineto_trace_0.json.gz --host torch_et_0.json.gz\n\n\
        Exit codes: 0 done, even without findings; 1 nothing ran in the recorded process, or a \
        trace was left out: unreadable, not part of the run, or damaged under --strict; 2 no trace \
        could be read.")]
pub struct FindingsArgs {
    /// Device trace, or folder with the traces of all ranks; `-` is standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// Keep each rank's times on its own clock instead of the first rank's
    #[arg(long)]
    pub no_align: bool,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub prepare: PrepareArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}
