//! `etlink analyze`.

use super::{
    JsonOrCsvArgs, NameArgs, OneTraceArgs, OverwriteArgs, PrepareArgs, RankArgs, ReadingArgs,
    RowArgs, StepArgs, WorkbookArgs,
};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `etlink analyze`.
#[derive(Debug, Args)]
#[command(
    mut_arg("metrics", |metrics| metrics.help(
        "Measurements of one trace: CSV of Nsight Compute, result of a vLLM or SGLang benchmark, \
        workload card; repeatable, found automatically in folders"
    )),
    after_help = "Examples:\n  \
        etlink analyze traces\n  \
        etlink analyze kineto_trace_0.json.gz --table kernels -n 20\n  \
        etlink analyze traces --table gaps --csv > gaps.csv\n\n\
        Exit codes: 0 done; 1 a trace was left out: unreadable, not part of the run, or damaged \
        under --strict; 2 no trace could be read."
)]
pub struct AnalyzeArgs {
    /// Device trace, written graph (`.et`, ET+), or folder of all ranks; `-` is standard input
    ///
    /// Device traces come from Kineto, Nsight Systems, ROCm or JAX. A folder has the traces of all
    /// ranks, or the `.et` files that `merge` wrote. Written graphs give the tables that they have
    /// data for.
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// Add the table `sequences`: kernels launched by outermost ops with this text in their name
    #[arg(long, value_name = "OP")]
    pub sequences_of: Option<String>,
    /// Show only this table, such as kernels; `--help` lists all tables
    ///
    /// Tables: utilization, breakdown, kernels, outside, host_ops, idle, host_idle, gaps,
    /// stream_idle, launches, op_launches, queues, copies, steps, phases, coverage, counters, work,
    /// peaks, collectives, sequences (with --sequences-of), memory, memory_timeline, requests,
    /// metrics, stragglers. With --compat hta, an unknown name lists HTA's tables.
    ///
    /// Default: at the terminal utilization, kernels (without device work: host_ops) and idle; as
    /// JSON all but memory_timeline; as CSV breakdown.
    #[arg(long, value_name = "NAME")]
    // no enum: the tables depend on --compat
    pub table: Option<String>,
    /// Print all tables
    ///
    /// All but the long ones, which --table prints: gaps, stream_idle, op_launches,
    /// memory_timeline, counters, metrics and stragglers.
    #[arg(long, conflicts_with = "table")]
    pub all: bool,
    /// Peak of the device in TFLOP/s (A100 in bf16: 312); adds its utilization to `metrics`
    #[arg(long, value_name = "TFLOPS", value_parser = parse_peak)]
    pub peak_tflops: Option<f64>,
    /// Peak of the links one way in GB/s (A100's NVLink: 300); adds the use per kind to `metrics`
    #[arg(long, value_name = "GB/S", value_parser = parse_peak)]
    pub peak_link: Option<f64>,
    #[command(flatten)]
    pub rows: RowArgs<10>,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// Give the figures of another tool by its definitions: `hta` (HolisticTraceAnalysis)
    ///
    /// HTA's options follow after a comma: `hta,include-last-step` or `hta,nanoseconds`.
    #[arg(
        long,
        value_enum,
        value_name = "TOOL",
        value_delimiter = ',',
        hide_possible_values = true,
        // HTA has its own rules, and nothing to compare these figures with
        conflicts_with_all = [
            "rules", "sequences_of", "peak_tflops", "peak_link", "parquet", "steps_by", "workload_card", "output"
        ]
    )]
    pub compat: Vec<Compat>,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub prepare: PrepareArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Also write events, graph, collectives and kernel metrics as Parquet files
    ///
    /// DIR/events, nodes, edges, collectives and kernel_metrics have a file per rank.
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Also write a workload card (YAML of ccl-bench); values that the traces lack are empty
    #[arg(long, value_name = "FILE")]
    pub workload_card: Option<PathBuf>,
    #[command(flatten)]
    pub workbook: WorkbookArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub print: JsonOrCsvArgs,
}

fn parse_peak(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        // a share of nothing or of infinity would be printed like any other
        .filter(|peak| *peak > 0.0 && f64::is_finite(*peak))
        .ok_or("a peak is a number above 0, such as 312 or 50.5")
}

/// Tools whose figures can be given, and their options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// HolisticTraceAnalysis
    Hta,
    /// HTA's `include_last_profiler_step`
    IncludeLastStep,
    /// HTA's `HTA_DISABLE_NS_ROUNDING`
    Nanoseconds,
}
