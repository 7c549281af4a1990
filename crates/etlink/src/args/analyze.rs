//! `etlink analyze`.

use super::{
    JsonOrCsvArgs, NameArgs, OneTraceArgs, OverwriteArgs, PhaseArgs, RankArgs, ReadingArgs,
    RowArgs, StepArgs,
};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `etlink analyze`.
#[derive(Debug, Args)]
#[command(
    mut_arg("metrics", |metrics| metrics.help(
        "What was measured beside one trace: the CSV of Nsight Compute, the result of a benchmark of \
        vLLM or SGLang, a workload card; may be given more than once, and is found in a folder"
    )),
    after_help = "Exit codes: 0 done; 1 done, but a trace was left out: it could not be read, is \
        not of the run, or is damaged under --strict; 2 no trace could be read."
)]
pub struct AnalyzeArgs {
    /// A device trace (Kineto, Nsight Systems, ROCm, JAX), a written graph (`.et`, ET+) as far as it
    /// tells, or a folder with the traces of all ranks or with the `.et` files that `merge` wrote; `-`
    /// for standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// Find the kernel sequences that the outermost ops launch whose names contain this
    #[arg(long, value_name = "OP")]
    pub sequences_of: Option<String>,
    /// Show only this table: utilization, breakdown, kernels, outside, host_ops, idle, host_idle,
    /// gaps, stream_idle, launches, op_launches, queues, copies, steps, phases, coverage, counters,
    /// work, peaks, collectives, sequences (with --sequences-of), memory, memory_timeline, requests,
    /// metrics or stragglers; those of `--compat hta` are named where another is asked for
    /// [default: all at the terminal but gaps, stream_idle, op_launches, memory_timeline, counters,
    /// metrics and stragglers; as JSON all but memory_timeline; as CSV breakdown]
    #[arg(long, value_name = "NAME")]
    // no enum: which tables there are depends on --compat
    pub table: Option<String>,
    /// What a device can compute at most, 10¹² operations per second (an A100 312 in bf16): adds
    /// how much of it was used to the metrics
    #[arg(long, value_name = "TFLOPS", value_parser = parse_peak)]
    pub peak_tflops: Option<f64>,
    /// What a device's links carry at most one way, GB/s (NVLink of an A100: 300): adds how much of
    /// it each kind of collective used to the metrics
    #[arg(long, value_name = "GB/S", value_parser = parse_peak)]
    pub peak_link: Option<f64>,
    #[command(flatten)]
    pub rows: RowArgs<10>,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// Give the numbers of another tool, where its definitions differ: `hta` is
    /// HolisticTraceAnalysis; add `include-last-step` or `nanoseconds` (its options), as in
    /// `hta,nanoseconds`
    #[arg(
        long,
        value_enum,
        value_name = "TOOL",
        value_delimiter = ',',
        hide_possible_values = true,
        // HTA has its own rules, and nothing to compare these figures with
        conflicts_with_all = [
            "rules", "sequences_of", "peak_tflops", "peak_link", "parquet", "steps_by", "workload_card"
        ]
    )]
    pub compat: Vec<Compat>,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub phase: PhaseArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Also write what was recorded, the graph, the communication and metrics of kernels as Parquet:
    /// DIR/events, nodes, edges, collectives and kernel_metrics with a file per rank
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Also write a workload card of the run, as ccl-bench has them: YAML with what the traces and a
    /// card beside them say, and empty values for the rest
    #[arg(long, value_name = "FILE")]
    pub workload_card: Option<PathBuf>,
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
