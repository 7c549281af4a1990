//! `etlink report`.

use super::{JsonArgs, OneTraceArgs, OverwriteArgs, PhaseArgs, RankArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A Kineto trace or a written graph (`.et`, its JSON, ET+), or a folder with the traces of all
    /// ranks of a run or with the `.et` files that `merge` made of them; `-` for standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    /// A later run, trace or folder of traces: the page is about this one, and says first what
    /// changed since the other
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// The page: one HTML file that a browser opens from disk, without network; `--phase summaries`
    /// needs none
    #[arg(short, long, value_name = "FILE", required_unless_present = "shard")]
    pub output: Option<PathBuf>,
    /// The step to draw, by its number or name [default: the one whose length is the median]
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Ranks to draw the step of, such as `0,3-5` [default: of a folder 8, of more half the first,
    /// half those waited for longest]
    #[arg(long, value_name = "RANKS", value_delimiter = ',')]
    // texts: a rank whose number is not sure is called by its file's name
    pub timelines: Vec<String>,
    /// What ASTRA-sim logged of this run, a file or the folder in which it ran: the page shows the
    /// simulated ranks beside the measured ones
    #[arg(long, value_name = "LOG", conflicts_with_all = ["host", "metrics"])]
    pub simulated: Option<PathBuf>,
    /// Folder with the graphs that were simulated [default: that of the log, or the one above it]
    #[arg(long, value_name = "DIR", requires = "simulated")]
    pub graphs: Option<PathBuf>,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub phase: PhaseArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}
