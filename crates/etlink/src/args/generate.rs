//! Arguments of `etlink generate` and `etlink scale`.

use super::names::{self, one_of};
use super::{JsonArgs, OverwriteArgs};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use etlink_chakra::proto::CollectiveCommType;
use etlink_workload::generate::{
    ModelWork, PipelineSchedule, Transformer, WorkloadPattern, WorkloadSizes,
};
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
    etlink generate transformer --ranks 64 --tensor 4 --pipeline 2 --layers 8 -o model\n  \
    etlink generate disaggregated --ranks 12 --tensor 4 --prefill-ranks 4 --tokens 16 -o serve")]
pub struct GenerateArgs {
    /// Pattern of each rank's work, such as ring; `--help` lists all patterns
    ///
    /// Only computation: `comp`, `comps`, `chain`. Collectives: `all-reduce`, `all-gather`,
    /// `reduce-scatter`, `all-to-all`, `broadcast`. Messages: `message`, `ring`. A
    /// model: `transformer` trains a step, `prefill` reads prompts, `decode` writes tokens,
    /// `disaggregated` does both on ranks of their own.
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
    /// Repetitions of the communication; of models: micro-batches, prompts or requests of each
    /// replica [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub rounds: Option<u32>,
    /// Size of each communication, such as 16MiB; not for models [default: 64KiB]
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

/// Parameters of a model.
#[derive(Clone, Copy, Debug, Args)]
pub struct ModelArgs {
    /// Model: tensor-parallel ranks per layer [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tensor: Option<u32>,
    /// Model: pipeline stages [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pipeline: Option<u32>,
    /// Model: data-parallel ranks that share a layer's experts; 1: no experts [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expert: Option<u32>,
    /// Model: layers [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub layers: Option<u32>,
    /// Model: hidden size [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub hidden: Option<u64>,
    /// Model: tokens per sequence or prompt [default: 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub sequence: Option<u64>,
    /// Model: tokens in the vocabulary; without it, there are neither embeddings nor logits
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub vocabulary: Option<u64>,
    /// Training: two norms per layer, and one after the last
    #[arg(long)]
    pub norms: bool,
    /// Training: ranks that share each sequence [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    /// Training: ZeRO stage; replicas share the optimizer's states (1), gradients (2), weights (3)
    /// [default: 0]
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u32).range(0..=3))]
    pub zero: Option<u32>,
    /// Training: order of micro-batches: gpipe, 1f1b, zero-bubble [default: gpipe]
    #[arg(
        long,
        value_parser = one_of(names::SCHEDULES),
        value_name = "ORDER",
        hide_possible_values = true
    )]
    pub schedule: Option<PipelineSchedule>,
    /// Training: chunks of layers per stage, which 1f1b interleaves [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub chunks: Option<u32>,
    /// Inference: tokens that each request writes [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub tokens: Option<u32>,
    /// `disaggregated`: ranks that read prompts [default: half]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub prefill_ranks: Option<u32>,
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
    /// A training step
    Transformer,
    /// Prompts are read
    Prefill,
    /// Tokens are written
    Decode,
    /// Some ranks read prompts, others write tokens
    Disaggregated,
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
    /// New number of ranks, a multiple of the number in the folder, or fewer
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
            PatternName::Transformer => self.transformer(ModelWork::Training),
            PatternName::Prefill => self.transformer(ModelWork::Prefill),
            PatternName::Decode => self.transformer(ModelWork::Decode {
                tokens: self.model.tokens.unwrap_or(1),
            }),
            PatternName::Disaggregated => self.transformer(ModelWork::Disaggregated {
                prefill: self.model.prefill_ranks.unwrap_or(self.ranks / 2),
                tokens: self.model.tokens.unwrap_or(1),
            }),
        }
    }

    fn transformer(&self, work: ModelWork) -> WorkloadPattern {
        let model = &self.model;
        WorkloadPattern::Transformer(Transformer {
            tensor: model.tensor.unwrap_or(1),
            context: model.context.unwrap_or(1),
            pipeline: model.pipeline.unwrap_or(1),
            expert: model.expert.unwrap_or(1),
            layers: model.layers.unwrap_or(8),
            hidden: model.hidden.unwrap_or(4_096),
            sequence: model.sequence.unwrap_or(2_048),
            vocabulary: model.vocabulary.unwrap_or(0),
            norms: model.norms,
            zero: model.zero.unwrap_or(0),
            schedule: model.schedule.unwrap_or_default(),
            chunks: model.chunks.unwrap_or(1),
            work,
        })
    }

    /// Returns a given option that the pattern does not use.
    pub fn unused_option(&self) -> Option<&'static str> {
        use PatternName as Name;
        let model = &self.model;
        let is_silent = matches!(self.pattern, Name::Comp | Name::Comps | Name::Chain);
        let trains = self.pattern == Name::Transformer;
        let is_divided = self.pattern == Name::Disaggregated;
        let writes = is_divided || self.pattern == Name::Decode;
        let is_model = trains || writes || self.pattern == Name::Prefill;
        let given = [
            ("--rounds", self.rounds.is_some() && is_silent),
            ("--size", self.size.is_some() && (is_silent || is_model)),
            ("--tensor", model.tensor.is_some() && !is_model),
            ("--pipeline", model.pipeline.is_some() && !is_model),
            ("--expert", model.expert.is_some() && !is_model),
            ("--layers", model.layers.is_some() && !is_model),
            ("--hidden", model.hidden.is_some() && !is_model),
            ("--sequence", model.sequence.is_some() && !is_model),
            ("--vocabulary", model.vocabulary.is_some() && !is_model),
            ("--norms", model.norms && !trains),
            ("--context", model.context.is_some() && !trains),
            ("--zero", model.zero.is_some() && !trains),
            ("--schedule", model.schedule.is_some() && !trains),
            ("--chunks", model.chunks.is_some() && !trains),
            ("--tokens", model.tokens.is_some() && !writes),
            (
                "--prefill-ranks",
                model.prefill_ranks.is_some() && !is_divided,
            ),
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
