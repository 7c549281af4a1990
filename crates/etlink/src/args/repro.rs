//! Arguments of `etlink repro`.

use super::{OneTraceArgs, OverwriteArgs, RankArgs, ReadingArgs, StepArgs};
use clap::Args;
use std::path::PathBuf;

/// `etlink repro`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink repro kineto_trace_0.json.gz --top 20 -o repro.py\n  \
        etlink repro traces --op aten::mm --shape 2 -o mm.py    the second of its shapes by time\n  \
        python3 repro.py --json repeated.json\n\n\
        The script needs PyTorch alone. It prints the recorded time of each op, its time alone with \
        random inputs, and the ratio. Ops with collectives: torchrun --nproc-per-node N repro.py")]
pub struct ReproArgs {
    /// Device trace, or folder with the traces of a run; `-` is standard input
    #[arg(value_name = "TRACE|DIR")]
    pub path: PathBuf,
    #[command(flatten)]
    pub trace: OneTraceArgs,
    /// Only ops of this name; repeatable
    #[arg(long, value_name = "NAME")]
    pub op: Vec<String>,
    /// Only the shapes of this place in each op's list by falling time, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub shape: Option<u32>,
    /// Number of ops with their shapes, by falling time; 0 takes all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Script to write
    #[arg(short, long, value_name = "FILE.py")]
    pub output: PathBuf,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}
