//! Arguments of `etlink generate` and `etlink scale`.

use super::names::{self, one_of};
use super::{JsonArgs, OverwriteArgs};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use etlink_chakra::proto::CollectiveCommType;
use etlink_workload::generate::{Transformer, WorkloadPattern, WorkloadSizes};
use etlink_workload::scale::ScaleOptions;
use std::path::PathBuf;

/// Maximum time of a computation, eleven days: readers count nanoseconds with 63 bits, and a rank
/// has many computations.
const MOST_MICROS: u64 = 1_000_000_000_000;
/// Maximum size of a communication: sizes are written with 63 bits, and added up.
const MOST_BYTES: u64 = 1 << 50;
/// Default size of a communication.
const DEFAULT_SIZE: ByteSize = ByteSize::kib(64);

/// `etlink generate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink generate ring --ranks 8 -o ring\n  \
    etlink generate all-reduce --ranks 64 --size 16MiB --rounds 4 -o reduce\n  \
    etlink generate transformer --ranks 64 --tensor 4 --pipeline 2 --layers 8 -o model")]
pub struct GenerateArgs {
    /// Pattern of each rank's work, such as ring; `--help` lists all patterns
    ///
    /// Only computation: `comp`, `comps`, `chain`. Collectives: `all-reduce`, `all-gather`,
    /// `reduce-scatter`, `all-to-all`, `broadcast`. Messages: `message`, `ring`, `pipeline`. A
    /// training step: `transformer`.
    #[arg(value_enum, hide_possible_values = true)]
    pub pattern: PatternName,
    /// Output folder: `<pattern>.<rank>.et`, `comm_group.json`, and configurations of ASTRA-sim
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Number of ranks
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(2..=65_536)
    )]
    pub ranks: u32,
    /// Repetitions of the communication; `pipeline`, `transformer`: micro-batches [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub rounds: Option<u32>,
    /// Size of each communication, such as 16MiB; not for `transformer` [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<ByteSize>,
    /// Time of each computation in us; for `transformer`, of its optimizer
    #[arg(
        long,
        value_name = "US",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(0..=MOST_MICROS)
    )]
    pub time: u64,
    /// Maximum random increase of each computation's time, percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1000)
    )]
    pub jitter: u32,
    /// Seed of random numbers; the same seed gives the same files
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}

/// Parameters of a transformer.
#[derive(Clone, Copy, Debug, Args)]
pub struct ModelArgs {
    /// Transformer: tensor-parallel ranks per layer [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tensor: Option<u32>,
    /// Transformer: pipeline stages [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pipeline: Option<u32>,
    /// Transformer: data-parallel ranks that share a layer's experts; 1: no experts [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expert: Option<u32>,
    /// Transformer: layers [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub layers: Option<u32>,
    /// Transformer: hidden size [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub hidden: Option<u64>,
    /// Transformer: tokens per sequence [default: 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub sequence: Option<u64>,
}

/// Names of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PatternName {
    /// One computation
    Comp,
    /// Two computations in parallel
    Comps,
    /// Two computations in sequence
    Chain,
    /// All-reduces of all ranks
    AllReduce,
    /// All-gathers
    AllGather,
    /// Reduce-scatters
    ReduceScatter,
    /// All-to-alls
    AllToAll,
    /// Broadcasts
    Broadcast,
    /// Even ranks send to the next one
    Message,
    /// Each rank sends to the next one
    Ring,
    /// Each rank is a pipeline stage
    Pipeline,
    /// A training step
    Transformer,
}

/// `etlink scale`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink merge traces --for astra-sim -o run && etlink scale run --ranks 256 -o large\n  \
    etlink scale run --ranks 64 --data-parallel 3,4 -o large    groups in comm_group.json")]
pub struct ScaleArgs {
    /// Folder with the graphs of all ranks of a run, written by `merge`
    #[arg(value_name = "DIR")]
    pub source: PathBuf,
    /// New number of ranks, a multiple of the number in the folder
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ranks: u32,
    /// Output folder
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Data-parallel groups of comm_group.json besides groups of all ranks; they span all copies
    ///
    /// Needed if some groups have only part of the ranks. `none`: no such group is data-parallel.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub data_parallel: Vec<String>,
    /// Collectives of data-parallel groups that stay within each copy, such as all-to-all
    ///
    /// Kinds: `all-to-all`, `all-gather`, `reduce-scatter`, `broadcast`, `all-reduce`.
    #[arg(
        long,
        value_parser = one_of(names::COLLECTIVES),
        value_name = "KIND",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub keep: Vec<CollectiveCommType>,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
}

impl GenerateArgs {
    /// Returns the prefix of the file names.
    pub fn name(&self) -> String {
        let value = self.pattern.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the work of each rank.
    pub fn workload(&self) -> WorkloadPattern {
        use CollectiveCommType as Kind;
        match self.pattern {
            PatternName::Comp => WorkloadPattern::Computation,
            PatternName::Comps => WorkloadPattern::Computations,
            PatternName::Chain => WorkloadPattern::Chain,
            PatternName::AllReduce => WorkloadPattern::Collective(Kind::AllReduce),
            PatternName::AllGather => WorkloadPattern::Collective(Kind::AllGather),
            PatternName::ReduceScatter => WorkloadPattern::Collective(Kind::ReduceScatter),
            PatternName::AllToAll => WorkloadPattern::Collective(Kind::AllToAll),
            PatternName::Broadcast => WorkloadPattern::Collective(Kind::Broadcast),
            PatternName::Message => WorkloadPattern::Message,
            PatternName::Ring => WorkloadPattern::Ring,
            PatternName::Pipeline => WorkloadPattern::Pipeline,
            PatternName::Transformer => WorkloadPattern::Transformer(Transformer {
                tensor: self.model.tensor.unwrap_or(1),
                pipeline: self.model.pipeline.unwrap_or(1),
                expert: self.model.expert.unwrap_or(1),
                layers: self.model.layers.unwrap_or(8),
                hidden: self.model.hidden.unwrap_or(4_096),
                sequence: self.model.sequence.unwrap_or(2_048),
            }),
        }
    }

    /// Returns a given option that the pattern does not use.
    pub fn unused_option(&self) -> Option<&'static str> {
        use PatternName as Name;
        let is_silent = matches!(self.pattern, Name::Comp | Name::Comps | Name::Chain);
        let is_model = self.pattern == Name::Transformer;
        let given = [
            ("--rounds", self.rounds.is_some() && is_silent),
            ("--size", self.size.is_some() && (is_silent || is_model)),
            ("--tensor", self.model.tensor.is_some() && !is_model),
            ("--pipeline", self.model.pipeline.is_some() && !is_model),
            ("--expert", self.model.expert.is_some() && !is_model),
            ("--layers", self.model.layers.is_some() && !is_model),
            ("--hidden", self.model.hidden.is_some() && !is_model),
            ("--sequence", self.model.sequence.is_some() && !is_model),
        ];
        let unused = given.into_iter().find(|(_, is_unused)| *is_unused);
        unused.map(|(option, _)| option)
    }

    /// Returns the sizes of the run.
    pub fn sizes(&self) -> WorkloadSizes {
        WorkloadSizes {
            ranks: self.ranks,
            rounds: self.rounds.unwrap_or(1),
            bytes: self.size.unwrap_or(DEFAULT_SIZE).as_u64(),
            micros: self.time,
            jitter: self.jitter,
            seed: self.seed,
        }
    }
}

impl ScaleArgs {
    /// Returns the options that determine the groups.
    pub fn options(&self) -> ScaleOptions {
        ScaleOptions {
            ranks: self.ranks,
            data_parallel: self.data_parallel.clone(),
            keep: self.keep.clone(),
        }
    }
}

fn parse_size(text: &str) -> Result<ByteSize, &'static str> {
    let size: Option<ByteSize> = text.parse().ok();
    size.filter(|size| (1..=MOST_BYTES).contains(&size.as_u64()))
        .ok_or("a size is a number and a unit, such as 64KiB or 16MB, from 1B to 1PiB")
}
