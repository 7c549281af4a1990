//! `etlink analyze`.

use super::size;
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use etlink_torch::Ranks;
use std::path::PathBuf;

/// `etlink analyze`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, but a trace was left out: it could not be read, is not of the run, or is damaged under --strict; 2 could not do it, of no trace."
)]
pub struct Analyze {
    /// A Kineto trace, a written graph (`.et`, ET+) as far as it tells, or a folder with the traces of all ranks or with the `.et` files that `merge` wrote; `-` for standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    /// Host trace of the Kineto trace, as for `link`
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Rank, when the trace does not say
    #[arg(long)]
    pub rank: Option<i64>,
    /// Rules for kernels that come before the built-in ones: lines of a class (computation, communication, memory, other), a label and a regular expression that is searched in the kernel's name
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Find the kernel sequences that the outermost ops launch whose names contain this
    #[arg(long, value_name = "OP")]
    pub sequences_of: Option<String>,
    /// Show only this table: breakdown, kernels, idle, stream_idle, launches, queues, copies, steps, coverage, work, collectives, sequences (with --sequences-of), memory, memory_timeline, metrics or stragglers; those of `--compat hta` are named where another is asked for [default: all at the terminal but stream_idle, memory_timeline, metrics and stragglers; as JSON all but memory_timeline; as CSV breakdown]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// What a device can compute at most, 10¹² operations per second (an A100 312 in bf16): adds how much of it was used to the metrics
    #[arg(long, value_name = "TFLOPS", value_parser = peak)]
    pub peak_tflops: Option<f64>,
    /// What a device's links carry at most one way, GB/s (NVLink of an A100: 300): adds how much of it each kind of collective used to the metrics
    #[arg(long, value_name = "GB/S", value_parser = peak)]
    pub peak_link: Option<f64>,
    /// How many lines of each table to show; 0: all. JSON and CSV have all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Give the numbers of another tool, where its definitions differ: `hta` is HolisticTraceAnalysis; add `include-last-step` or `nanoseconds` (its options), as in `hta,nanoseconds`
    #[arg(long, value_enum, value_name = "TOOL", value_delimiter = ',', hide_possible_values = true, conflicts_with_all = ["rules", "sequences_of", "peak_tflops", "peak_link", "parquet"])]
    pub compat: Vec<Compat>,
    /// Ranks of a folder to take, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<Ranks>,
    /// Threads to use; the figures do not depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Memory to stay within while linking, as for `merge`; the tables of all ranks come on top, below 1 MB each
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<ByteSize>,
    /// Also write what was recorded, the graph and the communication as Parquet: DIR/events, nodes, edges and collectives with a file per rank
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Leave out traces that are damaged or of two runs, and exit with 1
    #[arg(long)]
    pub strict: bool,
    /// Replace existing Parquet files and, of a folder, what an earlier run left there; and take in traces that do not seem to belong together, which a note names
    #[arg(long)]
    pub force: bool,
    /// Print as JSON: all tables, or the one of --table
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one table as CSV, a line per rank and record
    #[arg(long)]
    pub csv: bool,
}

fn peak(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|peak| *peak > 0.0 && f64::is_finite(*peak))
        .ok_or("a peak is a number above 0, such as 312 or 50.5")
}

/// Whose numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// HolisticTraceAnalysis
    Hta,
    /// HTA's `include_last_profiler_step`
    IncludeLastStep,
    /// HTA's `HTA_DISABLE_NS_ROUNDING`
    Nanoseconds,
}
