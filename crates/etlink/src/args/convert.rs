//! Arguments of `etlink convert`.

use super::{Attributes, JsonArgs, OverwriteArgs};
use clap::{Args, ValueEnum};
use etlink_chakra::picture::NodeChoice;
use etlink_run::convert::{ConvertOptions, GraphFormat, TextRanks};
use etlink_workload::goal::CollectiveAlgorithm;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// `etlink convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink convert run.0.et run.0.json              as chakra_jsonizer prints it, and back\n  \
    etlink convert run.0.et x.dot --range 100..180  a picture: dot -Tsvg x.dot\n  \
    etlink convert RUN run.goal --collectives tree  all ranks, for LogGOPSim\n  \
    etlink convert resnet.txt OUT --ranks 8         a workload of ASTRA-sim 1.0")]
pub struct ConvertArgs {
    /// A `.et`, its JSON, merged JSON (ET+), tables that convert wrote, a text workload of
    /// ASTRA-sim 1.0, or the folder of a run; `-` is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// What to write; its ending says the format: `.et`, `.json` (or with `.gz`), `.dot`,
    /// `.graphml`, `.mmd`, `.goal`, `.parquet` (a folder with two tables)
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format of the input [default: by its content]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub from: Option<GraphFormatName>,
    /// Format of the output: chakra, jsonizer, parquet, dot, graphml, mermaid or goal [default:
    /// what its name ends in]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub to: Option<GraphFormatName>,
    /// Draw nodes of these ids alone, such as 100..180 (both included)
    #[arg(long, value_name = "FIRST..LAST", value_parser = parse_range)]
    pub range: Option<RangeInclusive<u64>>,
    /// Draw what begins in the annotation `ProfilerStep#N` alone
    #[arg(long, value_name = "N")]
    pub step: Option<u64>,
    /// Draw nodes at most so many dependencies away: from those of --range, else from nodes that
    /// wait for nothing. In ET+ these are levels of the tree of ops
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Which rank of a folder to take
    #[arg(long, value_name = "RANK")]
    pub rank: Option<i64>,
    /// How collectives become messages in GOAL: `ring`, `tree` or `pairwise` [default: ring]
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true)]
    pub collectives: Option<CollectivesName>,
    /// For how many ranks a text workload is: a file for each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ranks: Option<u32>,
    /// How many forward and backward passes to make of a text workload [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "ranks",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub passes: Option<u32>,
    /// How much each node of a `.et` or its JSON says: `full`, or `minimal` for what simulators read
    /// and no more [default: what the input says]
    #[arg(long, value_enum, value_name = "SET", hide_possible_values = true)]
    pub attrs: Option<Attributes>,
    // not StrictArgs: no other trace is left out here
    /// Write nothing if anything of the input would be lost, and exit with 1
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}

/// Names of formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormatName {
    /// Chakra protobuf
    Chakra,
    /// Its JSON, as chakra_jsonizer prints it
    Jsonizer,
    /// Merged JSON
    #[value(name = "etplus")]
    EtPlus,
    /// Tables of nodes and edges
    Parquet,
    /// Text workload of ASTRA-sim 1.0
    Text,
    /// Graphviz
    Dot,
    /// GraphML
    #[value(name = "graphml")]
    GraphMl,
    /// Mermaid
    Mermaid,
    /// Schedules of LogGOPSim and ATLAHS
    Goal,
}

/// How collectives become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectivesName {
    /// Along a ring
    Ring,
    /// By trees
    Tree,
    /// Each with each
    Pairwise,
}

impl From<GraphFormatName> for GraphFormat {
    fn from(name: GraphFormatName) -> Self {
        match name {
            GraphFormatName::Chakra => GraphFormat::Chakra,
            GraphFormatName::Jsonizer => GraphFormat::Jsonizer,
            GraphFormatName::EtPlus => GraphFormat::EtPlus,
            GraphFormatName::Parquet => GraphFormat::Parquet,
            GraphFormatName::Text => GraphFormat::Text,
            GraphFormatName::Dot => GraphFormat::Dot,
            GraphFormatName::GraphMl => GraphFormat::GraphMl,
            GraphFormatName::Mermaid => GraphFormat::Mermaid,
            GraphFormatName::Goal => GraphFormat::Goal,
        }
    }
}

impl From<CollectivesName> for CollectiveAlgorithm {
    fn from(name: CollectivesName) -> Self {
        match name {
            CollectivesName::Ring => CollectiveAlgorithm::Ring,
            CollectivesName::Tree => CollectiveAlgorithm::Tree,
            CollectivesName::Pairwise => CollectiveAlgorithm::Pairwise,
        }
    }
}

impl ConvertArgs {
    /// How the library converts.
    pub fn options(&self) -> ConvertOptions {
        ConvertOptions {
            from: self.from.map(GraphFormat::from),
            to: self.to.map(GraphFormat::from),
            choice: NodeChoice {
                ids: self.range.clone(),
                step: self.step,
                depth: self.depth,
            },
            rank: self.rank,
            algorithm: self.collectives.map(CollectiveAlgorithm::from),
            text: self.ranks.map(|ranks| TextRanks {
                ranks,
                passes: self.passes.unwrap_or(1),
            }),
            attributes: self.attrs.map(etlink_chakra::AttributeSet::from),
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
