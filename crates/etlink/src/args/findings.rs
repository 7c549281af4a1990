//! `etlink findings`.

use super::{JsonArgs, OneTraceArgs, PhaseArgs, RankArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink findings`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, also where nothing stands out; 1 done, but a trace was left \
        out: it could not be read, is not of the run, or is damaged under --strict; 2 no trace \
        could be read."
)]
pub struct FindingsArgs {
    /// A Kineto trace, or a folder with the traces of all ranks; `-` for standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// Of a folder: take each rank's times by its own clock, not by that of the first rank
    #[arg(long)]
    pub no_align: bool,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub phase: PhaseArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}
