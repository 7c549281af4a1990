//! `etlink replay`.

use super::{JsonArgs, OverwriteArgs, PhaseArgs, RankArgs, ReadingArgs, TensorDeps};
use clap::{ArgGroup, Args};
use etlink_findings::WhatIfQuestion;
use etlink_replay::{DurationScale, EdgeKind};
use std::path::PathBuf;

/// `etlink replay`.
#[derive(Debug, Args)]
// a host trace alone is no input: it has no times
#[command(group(ArgGroup::new("input").required(true).args(["file", "device", "validate"])))]
pub struct ReplayArgs {
    /// A Chakra trace (`.et`), or a Kineto trace, which is linked without a host trace; `-` for
    /// standard input. A folder with the traces of all ranks, or with the `.et` files of `merge`:
    /// all ranks run together and wait for each other at collectives
    #[arg(value_name = "FILE|DIR", conflicts_with_all = ["host", "device"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub link: TracePairArgs,
    #[command(flatten)]
    pub what_if: WhatIfArgs,
    /// Predict the run of trace B from trace A, of the program before it was changed, and show what
    /// came true: what both have takes in A's graph what it takes in B. Of two folders all ranks of
    /// each run together
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = [
            "host", "explain", "critical_path", "output", "scale", "drop_edges", "what_if", "resources",
            "phase"
        ]
    )]
    pub validate: Vec<PathBuf>,
    /// Why did this node start when it did? Its number, or a name (`*` and `?` stand for anything), a
    /// kernel's short one too, or `class=gemm`: the first node that has it; `rank=1/NODE` of several
    /// ranks
    #[arg(long, value_name = "NODE")]
    pub explain: Option<String>,
    /// Show the chain of nodes that took the whole time, and what it was spent on
    #[arg(long)]
    pub critical_path: bool,
    /// Write the traces and the critical path of the run, the changed one if there are changes, for
    /// ui.perfetto.dev: `x.pftrace`, `x.trace.json`, with `.gz` packed, `-` standard output (JSON)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Of a folder: take each rank's times by its own clock, not by that of the first rank
    #[arg(long)]
    pub no_align: bool,
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

/// Traces that are linked before the replay.
#[derive(Debug, Args)]
pub struct TracePairArgs {
    /// Host trace of a pair to link and replay, as for `link`
    #[arg(long, value_name = "ET", requires = "device")]
    pub host: Option<PathBuf>,
    /// Device trace of a pair to link and replay, as for `link`
    #[arg(long, value_name = "KINETO")]
    pub device: Option<PathBuf>,
    /// Rank, when the traces do not say
    #[arg(long)]
    pub rank: Option<i64>,
    /// Which dependencies through tensors of the host trace become edges between threads: `raw`
    /// (read after write), `all` (also write after read and after write) or `none`
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        default_value_t,
        hide_possible_values = true
    )]
    pub tensor_deps: TensorDeps,
}

/// Changes to the run.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// One op at a time per thread and stream, of those that could start the one that was measured
    /// first
    #[arg(long)]
    pub resources: bool,
    /// What if these took longer or shorter: `NAME=0.5` (`*` and `?` stand for anything; a kernel's
    /// short name will do), 'class=gemm 0.5', 'kind=device 2.0', 'kind=collective 0.5'; with
    /// 'rank=1/' before it on that rank alone
    #[arg(long, value_name = "RULE")]
    pub scale: Vec<DurationScale>,
    /// What if nothing waited for this reason: `program_order`, `launch`, `stream_order`,
    /// `event_wait`, `host_wait`, `handoff`, `tensor`, `collective` (other ranks)
    #[arg(long, value_name = "KIND", value_parser = edge_kind)]
    pub drop_edges: Vec<EdgeKind>,
    /// What if, by name: `graphs`, `fuse=REGEX`, `no-input-wait`, `no-sync`, `overlap-comm`,
    /// `ranks=N`, `bandwidth=GROUP:X`, `device=NAME`, `straggler=RANK`; several times for all of
    /// them at once
    #[arg(long = "what-if", value_name = "QUESTION")]
    pub what_if: Vec<WhatIfQuestion>,
}

fn edge_kind(word: &str) -> Result<EdgeKind, String> {
    // reports print `stream order`, JSON has `stream_order`: people copy either
    let word = word.replace(['-', ' '], "_");
    let names = EdgeKind::ALL.map(|kind| crate::table::enum_name(kind).replace(' ', "_"));
    let at = names.iter().position(|name| *name == word);
    at.map(|at| EdgeKind::ALL[at]).ok_or_else(|| {
        format!(
            "there is no such kind of edge; kinds are {}",
            names.join(", ")
        )
    })
}
