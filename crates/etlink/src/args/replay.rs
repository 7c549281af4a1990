//! `etlink replay`.

use super::{JsonArgs, OverwriteArgs, PrepareArgs, RankArgs, ReadingArgs, TensorArgs};
use clap::{ArgGroup, Args};
use etlink_analysis::findings::WhatIfQuestion;
use etlink_replay::{DurationScale, EdgeKind};
use std::path::PathBuf;

/// `etlink replay`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink replay traces --critical-path\n  \
    etlink replay traces --scale 'class=gemm 0.5'\n  \
    etlink replay traces --what-if no-sync --what-if overlap-comm\n  \
    etlink replay traces --explain 'rank=1/ncclDevKernel_AllReduce*'")]
#[command(group(ArgGroup::new("input").required(true).args(["file", "validate"])))]
pub struct ReplayArgs {
    /// Chakra trace (`.et`), device trace, or folder of all ranks; `-` is standard input
    ///
    /// A folder has the traces of all ranks, or the `.et` files of `merge`. Its ranks run together
    /// and wait for each other at collectives.
    #[arg(value_name = "FILE|DIR")]
    pub file: Option<PathBuf>,
    /// Host trace that belongs to a single device trace, as for `link`
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Rank, if the trace does not state it
    #[arg(long)]
    pub rank: Option<i64>,
    #[command(flatten)]
    pub tensors: TensorArgs,
    #[command(flatten)]
    pub what_if: WhatIfArgs,
    /// Predict run B (after a change) from run A (before it), and compare with the measurement
    ///
    /// Nodes of A's graph that both runs have get their durations in B. A and B can be folders,
    /// whose ranks run together.
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = [
            "host", "explain", "critical_path", "output", "scale", "drop_edges", "what_if", "resources",
            "prepare"
        ]
    )]
    pub validate: Vec<PathBuf>,
    /// Explain why a node started when it did: its number, name, `class=gemm`, or `rank=1/NODE`
    ///
    /// In a name `*` and `?` are wildcards; a kernel's short name will do. The first node that
    /// matches is explained.
    #[arg(long, value_name = "NODE")]
    pub explain: Option<String>,
    /// Show the chain of nodes that takes the whole time, and its time by kind of node
    #[arg(long)]
    pub critical_path: bool,
    /// Write the run, with any changes, and its critical path for ui.perfetto.dev
    ///
    /// `x.pftrace` or `x.trace.json`, compressed with `.gz`. `-` writes JSON to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep each rank's times on its own clock instead of the first rank's
    #[arg(long)]
    pub no_align: bool,
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

/// Changes to the run.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// Run one op at a time per thread and stream; of ready ops, the one that was measured first
    #[arg(long)]
    pub resources: bool,
    /// Scale durations, such as `NAME=0.5`, 'class=gemm 0.5' or 'kind=collective 0.5'; repeatable
    ///
    /// In a name `*` and `?` are wildcards; a kernel's short name will do. With 'rank=1/' in front,
    /// a rule is for that rank alone.
    #[arg(long, value_name = "RULE")]
    pub scale: Vec<DurationScale>,
    /// Remove waits of this kind, such as `launch` or `collective` (other ranks); repeatable
    ///
    /// Kinds: `program_order`, `launch`, `stream_order`, `event_wait`, `host_wait`, `handoff`,
    /// `tensor`, `collective`.
    #[arg(long, value_name = "KIND", value_parser = edge_kind)]
    pub drop_edges: Vec<EdgeKind>,
    /// Ask a what-if question by name, such as `no-sync`; repeatable, for several changes at once
    ///
    /// Questions: `graphs`, `fuse=REGEX`, `no-input-wait`, `no-sync`, `overlap-comm`, `ranks=N`,
    /// `bandwidth=GROUP:X`, `device=NAME`, `straggler=RANK`, `batch=N`, `seq=N`, `width=N`,
    /// `layers=N`. `straggler` assumes that work that takes longer on the rank could take the median
    /// time of the other ranks. A size can be a factor, as in `seq=2x`, or state the recorded size, as
    /// in `batch=8:16`; several are asked for together, as in `batch=16,seq=2x`.
    #[arg(long = "what-if", value_name = "QUESTION")]
    pub what_if: Vec<WhatIfQuestion>,
    /// Times of ops for `device=NAME`, as `etlink learn` writes them, instead of the built-in ones
    #[arg(long, value_name = "FILE.etk")]
    pub learned: Option<PathBuf>,
}

fn edge_kind(word: &str) -> Result<EdgeKind, String> {
    // reports print `stream order`, JSON has `stream_order`: people copy either
    let word = word.replace(['-', ' '], "_");
    let names = EdgeKind::ALL.map(|kind| crate::table::enum_name(kind).replace(' ', "_"));
    let at = names.iter().position(|name| *name == word);
    at.map(|at| EdgeKind::ALL[at])
        .ok_or_else(|| format!("unknown kind of edge; kinds are {}", names.join(", ")))
}
