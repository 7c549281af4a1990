//! Arguments of `etlink learn`.

use super::{OverwriteArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink learn`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink learn h100-runs/*.json.gz -o h100.etk\n  \
        etlink learn h100.etk mi300x.etk -o both.etk\n  \
        etlink replay trace.json.gz --what-if device=H100 --learned both.etk\n\n\
        The file has a line of JSON per op, device and shapes. Of two recordings of the same op the one \
        with more calls counts.")]
pub struct LearnArgs {
    /// Device traces, folders with the traces of runs, and files that this command wrote
    #[arg(value_name = "TRACE|DIR|FILE.etk", required = true)]
    pub paths: Vec<PathBuf>,
    /// File to write
    #[arg(short, long, value_name = "FILE.etk")]
    pub output: PathBuf,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}
