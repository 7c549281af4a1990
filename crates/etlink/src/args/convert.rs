//! Arguments of `etlink convert`.

use super::names::{self, one_of};
use super::{JsonArgs, OverwriteArgs};
use clap::Args;
use etlink_chakra::AttributeSet;
use etlink_chakra::picture::NodeChoice;
use etlink_run::convert::{ConvertOptions, GraphFormat};
use etlink_workload::goal::CollectiveAlgorithm;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// `etlink convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink convert run.0.et run.0.json              JSON of chakra_jsonizer; also the reverse\n  \
    etlink convert run.0.et x.dot --range 100..180  a picture: dot -Tsvg x.dot\n  \
    etlink convert RUN run.goal --collectives tree  all ranks, for LogGOPSim\n  \
    etlink convert simai.txt RUN                    a .et per rank of SimAI's workload\n  \
    etlink convert traces OUT --anonymise           traces that can be shared")]
pub struct ConvertArgs {
    /// Graph, tables of `convert`, or folder of a run; `-` is standard input
    ///
    /// A graph is a `.et`, its JSON, merged JSON (ET+), or a workload of SimAI.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Output, whose extension selects the format
    ///
    /// `.et`, `.json` (also with `.gz`), `.dot`, `.graphml`, `.goal`, or `.parquet`, a
    /// folder with two tables.
    #[arg(value_name = "OUT", required_unless_present = "output")]
    pub out: Option<PathBuf>,
    /// The same as OUT, for those used to other commands
    #[arg(short, long, value_name = "OUT", conflicts_with = "out")]
    output: Option<PathBuf>,
    /// Copy the traces of a run, or one trace, into the new folder OUT without names that tell whose it is
    ///
    /// Ops, kernels, shapes and times stay. Annotations, Python frames, modules, files, hosts and other
    /// texts are replaced, the same in all files; unknown fields are left out.
    #[arg(
        long,
        conflicts_with_all = [
            "from", "to", "range", "step", "depth", "rank", "collectives", "attrs", "overwrite", "strict"
        ]
    )]
    pub anonymise: bool,
    /// Input format [default: by the content]
    #[arg(
        long,
        value_parser = one_of(names::GRAPH_FORMATS),
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub from: Option<GraphFormat>,
    /// Output format [default: by the output's extension]
    ///
    /// Formats: chakra, jsonizer, parquet, dot, graphml, goal.
    #[arg(
        long,
        value_parser = one_of(names::GRAPH_FORMATS),
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub to: Option<GraphFormat>,
    /// Draw only nodes with these ids, such as 100..180 (inclusive)
    #[arg(long, value_name = "FIRST..LAST", value_parser = parse_range)]
    pub range: Option<RangeInclusive<u64>>,
    /// Draw only nodes that begin in the annotation `ProfilerStep#N`
    #[arg(long, value_name = "N")]
    pub step: Option<u64>,
    /// Draw only nodes at most N dependencies away from those of --range
    ///
    /// Without --range, N counts from nodes that wait for nothing. In merged JSON (ET+), N counts
    /// levels of the op tree.
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Rank of the folder to convert
    #[arg(long, value_name = "RANK")]
    pub rank: Option<i64>,
    /// Algorithm of collectives in GOAL: `ring`, `tree` or `pairwise` [default: ring]
    #[arg(
        long,
        value_parser = one_of(names::ALGORITHMS),
        value_name = "HOW",
        hide_possible_values = true
    )]
    pub collectives: Option<CollectiveAlgorithm>,
    /// Node attributes in a `.et`: `full`, or `minimal` for simulators [default: as in the input]
    #[arg(
        long,
        value_parser = one_of(names::ATTRIBUTES),
        value_name = "SET",
        hide_possible_values = true
    )]
    pub attrs: Option<AttributeSet>,
    // not ReadingArgs: no other trace is left out here
    /// Write nothing and exit with 1 if the output would lack part of the input
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}

impl ConvertArgs {
    /// Returns the output, from either argument.
    pub fn output(&self) -> PathBuf {
        let given = self.out.as_ref().or(self.output.as_ref());
        given.cloned().unwrap_or_default()
    }

    /// Returns the options of the library.
    pub fn options(&self) -> ConvertOptions {
        ConvertOptions {
            from: self.from,
            to: self.to,
            choice: NodeChoice {
                ids: self.range.clone(),
                step: self.step,
                depth: self.depth,
            },
            rank: self.rank,
            algorithm: self.collectives,
            attributes: self.attrs,
            strict: self.strict,
            overwrite: self.overwrite.overwrite,
        }
    }
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, &'static str> {
    let ends = text.split_once("..").or_else(|| text.split_once('-'));
    let ends = ends.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err("a range is two ids, such as 100..180"),
    }
}
