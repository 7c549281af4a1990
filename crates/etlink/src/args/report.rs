//! `etlink report`.

use super::{JsonArgs, OneTraceArgs, OverwriteArgs, PrepareArgs, RankArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink report traces -o run.html\n  \
    etlink report before after -o change.html    what changed between two runs")]
pub struct ReportArgs {
    /// Device trace, written graph (`.et`, ET+), or folder of all ranks; `-` is standard input
    ///
    /// A folder has the traces of all ranks, or the `.et` files that `merge` wrote.
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    /// Later run, a trace or a folder: the page is about this run, and shows first what changed
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// The page: one HTML file that a browser opens from disk, without network
    #[arg(short, long, value_name = "FILE", required_unless_present = "prepare")]
    pub output: Option<PathBuf>,
    /// Step to draw first, by number or name [default: the step of median length]
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Ranks to draw, at most 8, such as `0,3-5` [default: up to 8 of a folder]
    ///
    /// For more than 8 ranks, the default is half the first ranks and half those that the others
    /// waited for longest.
    #[arg(long, value_name = "RANKS", value_delimiter = ',')]
    // texts: a rank of an uncertain number is named by its file
    pub timelines: Vec<String>,
    /// ASTRA-sim's log of this run, or the folder where it ran: adds its times to the page
    #[arg(long, value_name = "LOG", conflicts_with_all = ["host", "metrics"])]
    pub simulated: Option<PathBuf>,
    /// Folder with the simulated graphs [default: the folder of the log, or its parent]
    #[arg(long, value_name = "DIR", requires = "simulated")]
    pub graphs: Option<PathBuf>,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub prepare: PrepareArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}
