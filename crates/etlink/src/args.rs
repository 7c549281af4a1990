//! What can be typed.

mod analyze;
mod completions;
mod convert;
mod diff;
mod findings;
mod format;
mod generate;
mod groups;
mod record;
mod replay;
mod report;
mod schedule;
mod simulated;
mod top;
mod trigger;

pub use analyze::{AnalyzeArgs, Compat};
pub use completions::CompletionsArgs;
pub use convert::ConvertArgs;
pub use diff::DiffArgs;
pub use findings::FindingsArgs;
pub use format::FormatName;
pub use generate::{GenerateArgs, ScaleArgs};
pub use groups::{
    JsonArgs, JsonOrCsvArgs, NameArgs, OneTraceArgs, OverwriteArgs, PhaseArgs, RankArgs,
    ReadingArgs, ResourceArgs, RowArgs, SliceArgs, StepArgs,
};
pub use record::{ArmedArgs, OwnProfilerArg, RecordArgs};
pub use replay::{ReplayArgs, TracePairArgs};
pub use report::ReportArgs;
pub use schedule::{ScheduleArgs, TorchScheduleArgs};
pub use simulated::SimulatedArgs;
pub use top::{TableArgs, TopArgs};
pub use trigger::TriggerArgs;

use crate::notes::Verbosity;
use clap::{Args, Parser, Subcommand, ValueEnum};
use etlink_run::job::ChakraOptions;
use etlink_run::phases::Shard;
use std::path::PathBuf;

/// Links PyTorch host traces (execution traces) and device traces (Kineto) into dependency graphs
/// and writes Chakra execution traces.
#[derive(Debug, Parser)]
#[command(
    name = "etlink",
    // set by build.rs: the crate's version and, from a checkout, the commit
    version = env!("ETLINK_VERSION"),
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, but a check failed, a rank failed, or damage was \
        found under --strict; 2 nothing could be done. `record` ends with the exit code of the \
        program; with 1 if that is 0 and a trace is missing. Notes go to standard error.\n\nA path may \
        be a URL: s3://BUCKET/KEY, gs:// or az:// to read and to write, https:// to read a file. \
        Credentials are found as by the SDKs of these services."
)]
pub struct EtlinkArgs {
    /// Print no notes, only results and errors
    // these two come last in the help of each command
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 990
    )]
    pub quiet: bool,
    /// Also note which files were read, how long that took, and what is odd in them but harmless
    #[arg(short, long, global = true, display_order = 991)]
    pub verbose: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: EtlinkCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum EtlinkCommand {
    /// Link one rank: a host trace and a device trace in, one file out
    Link(LinkArgs),
    /// Link every rank found in a folder and its subfolders, one output file each
    Merge(MergeArgs),
    /// Compare the ranks of a run: who came late to collectives, stragglers per step, clocks, how
    /// long transfers took, bandwidths
    Ranks(RanksArgs),
    /// Show the profiler's own table, key_averages(), of a recorded trace: what takes long
    Top(TopArgs),
    /// Compare two runs: step time and its spread, classes, ops, kernels, by what it costs; fail by
    /// rules
    Diff(DiffArgs),
    /// What the traces say: where device time goes, what overlaps, which kernels take long, where a
    /// device waits
    Analyze(AnalyzeArgs),
    /// Say what a run would gain most from, with the evidence and the remedy: at most seven sentences
    Findings(FindingsArgs),
    /// Write one page about a trace or a run, for a browser: figures, skew, the timeline of a step
    Report(ReportArgs),
    /// Run a graph with nothing but its edges and durations: how true is it, what takes long, what
    /// if
    Replay(ReplayArgs),
    /// Check files against what simulators and other readers need
    Check(CheckArgs),
    /// Turn a written graph into another format: protobuf, JSON, Parquet, pictures, GOAL
    Convert(ConvertArgs),
    /// Make the graphs of a run that nobody recorded, for tests of simulators
    Generate(GenerateArgs),
    /// Make of a written run of N ranks one of M: copies that share the data
    Scale(ScaleArgs),
    /// Read what a simulator says of a run: time per rank, per collective, beside the measured one
    Simulated(SimulatedArgs),
    /// Say what kind of file it is and what is in it
    Inspect(InspectArgs),
    /// Collect both traces from a PyTorch program as it is, all ranks over the same steps
    Record(RecordArgs),
    /// Have a running job record its next steps, all ranks the same ones
    Trigger(TriggerArgs),
    /// Say what each step of a program would do under a schedule of the PyTorch profiler, before
    /// anything runs
    Schedule(ScheduleArgs),
    /// Print the script by which a shell completes commands, options and their values
    Completions(CompletionsArgs),
}

/// `etlink link`.
#[derive(Debug, Args)]
pub struct LinkArgs {
    // no input of its own: a folder is answered with the command that takes one
    #[arg(hide = true, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Host trace: PyTorch execution trace (JSON; gzip and zstd are recognised), `-` for standard
    /// input
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Device trace: Kineto trace (JSON; gzip and zstd are recognised), or a recording of Nsight
    /// Systems, ROCm or JAX; `-` for standard input
    #[arg(long, value_name = "KINETO", required_unless_present = "path")]
    pub device: Option<PathBuf>,
    /// Kineto trace of the time when the graphs were captured (ROCm): ops and shapes are carried
    /// from it to the kernels of graph launches; `-` for standard input
    #[arg(long, value_name = "KINETO")]
    pub capture: Option<PathBuf>,
    /// Metrics of kernels beside the device trace: the CSV of Nsight Compute (`ncu --csv --page
    /// raw`), joined by name, grid and order of launch
    #[arg(long, value_name = "CSV")]
    pub metrics: Option<PathBuf>,
    /// Rank, when the traces do not say
    #[arg(long)]
    pub rank: Option<i64>,
    /// Output file: `x.et` is Chakra protobuf (`x.et.zst` and `x.et.gz` are packed: simulators read
    /// plain ones alone), `x.json` or `x.json.gz` merged JSON (ET+),
    /// `x.pftrace` or `x.trace.json` (or with `.gz`) a trace for ui.perfetto.dev, `-` standard
    /// output; without it only the report is printed
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub how: OutputArgs,
}

/// `etlink merge`.
#[derive(Debug, Args)]
// of a folder no name says the format
#[command(mut_arg("format", |format| format.help("Format of the output [default: chakra]")))]
pub struct MergeArgs {
    /// Folder with the traces of all ranks; each subfolder with traces is a run of its own
    pub dir: PathBuf,
    /// Folder for the output: `<name>.<rank>.et`, and `comm_group.json` with the ranks of each
    /// process group; `<name>.<rank>.not_joined.et` of a trace that is of another run, `<name>.<trace>.et`
    /// of one whose rank is not sure; with `--format perfetto` or `chrome` one `timeline` of all ranks.
    /// Made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Write what this simulator needs to run all ranks: configurations and a README with the
    /// command, an empty trace for each rank that is absent, communications one after the other
    #[arg(long = "for", value_enum, value_name = "SIMULATOR")]
    pub simulator: Option<Simulator>,
    /// How the simulator times computation: `measured`, each node takes what it took, or
    /// `roofline`, device nodes take what `num_ops` and `tensor_size` need on the device of
    /// `system.json`
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        requires = "simulator"
    )]
    pub compute: Compute,
    /// Write communications alone, and the time that they did not hold up as one chain of
    /// computation: small files
    // host time becomes chains of computation: without gaps they would have no length
    #[arg(long, requires = "simulator", conflicts_with_all = ["device_only", "no_gaps"])]
    pub comm_only: bool,
    /// Write what runs on devices alone, and host time as chains between what launches, waits and
    /// communicates
    #[arg(long, requires = "simulator", conflicts_with = "no_gaps")]
    pub device_only: bool,
    /// Leave each rank's times by its own clock, not by that of the first rank
    #[arg(long)]
    pub no_align: bool,
    /// Pack each `.et`: `zstd` (`.et.zst`) or `gzip` (`.et.gz`). All commands of etlink read these;
    /// ASTRA-sim reads plain files alone
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        hide_possible_values = true,
        conflicts_with = "simulator"
    )]
    pub pack: Option<PackName>,
    /// Do one phase of the merge, for many machines that share DIR and the output: `summaries` for
    /// each shard, then `join` once, then `write` for each shard
    #[arg(long, value_enum, hide_possible_values = true)]
    pub phase: Option<PhaseName>,
    /// The part of the ranks that this phase works on: its number from 0, and how many there are
    #[arg(long, value_name = "K/N", requires = "phase", required_if_eq_any = [("phase", "summaries"), ("phase", "write")])]
    pub shard: Option<Shard>,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub how: OutputArgs,
}

/// A phase of `etlink merge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PhaseName {
    /// Link the ranks of a shard, and store what the join needs.
    Summaries,
    /// Decide what each rank is written with.
    Join,
    /// Write the ranks of a shard.
    Write,
}

/// `etlink ranks`.
#[derive(Debug, Args)]
pub struct RanksArgs {
    /// Folder with the traces of all ranks; each subfolder with traces is a run of its own
    pub dir: PathBuf,
    #[command(flatten)]
    pub rows: RowArgs<10>,
    #[command(flatten)]
    pub steps: StepArgs,
    /// Take each rank's times by its own clock, not by that of the first rank
    #[arg(long)]
    pub no_align: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub phase: PhaseArgs,
    #[command(flatten)]
    pub print: JsonOrCsvArgs,
}

/// How to link and write.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Format of the output [default: what its name ends in]
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,
    /// Where launch and wait times go in a `.et`, whose edges have no weights: `fold` into the
    /// duration of what was waiting, `node` of its own, or `drop` [default: fold]
    #[arg(long, value_enum, hide_possible_values = true)]
    // no default of clap's: only what was typed can be refused where it does not apply
    pub latency: Option<Latency>,
    /// Write to a `.et` what each dependency takes by itself, as lists beside `ctrl_deps` and
    /// `data_deps`, and how much later each node could end (`slack_ns`)
    #[arg(long, conflicts_with = "no_gaps")]
    pub dep_latencies: bool,
    /// How much each node of a `.et` says: `full`, or `minimal` for what simulators read and no
    /// more, in less than half of the bytes [default: full]
    #[arg(long, value_enum, value_name = "SET", hide_possible_values = true)]
    pub attrs: Option<Attributes>,
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
    /// Leave host gaps (Python, data loading) out of a `.et`: as if the host were quick
    #[arg(long)]
    pub no_gaps: bool,
    #[command(flatten)]
    pub print: JsonArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// `etlink check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Chakra files (`.et`), merged JSON (ET+), or folders with them
    #[arg(required_unless_present = "explain", value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Look at these rules alone, such as ET102,ET105
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub rule: Vec<String>,
    /// Say what a rule is for, and what readers do where it is broken; `all` for every rule
    #[arg(long, value_name = "ID", conflicts_with_all = ["paths", "rule"])]
    pub explain: Option<String>,
    /// How findings are printed: `text`, `json`, or `sarif` (2.1.0) for code hosts and editors
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_possible_values = true,
        conflicts_with = "json"
    )]
    pub format: FindingsFormat,
    #[command(flatten)]
    pub resources: ResourceArgs,
    // not StrictArgs: nothing is left out here, it is about the exit code alone
    /// Take warnings for faults too: exit with 1
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// For people.
    #[default]
    Text,
    /// As `--json`.
    Json,
    /// SARIF 2.1.0.
    Sarif,
}

/// `etlink inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Any traces: host trace, device trace, Chakra protobuf, merged JSON; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub slice: SliceArgs,
    // not StrictArgs: a damaged file is described all the same
    /// Exit with 1 if a file is damaged
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub print: JsonArgs,
}

/// Which dependencies through tensors become edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TensorDeps {
    /// Read after write.
    #[default]
    Raw,
    /// All.
    All,
    /// None.
    None,
}

impl From<TensorDeps> for etlink_link::TensorEdges {
    fn from(which: TensorDeps) -> Self {
        match which {
            TensorDeps::Raw => Self::Raw,
            TensorDeps::All => Self::All,
            TensorDeps::None => Self::None,
        }
    }
}

/// Simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Simulator {
    /// ASTRA-sim with its analytical network
    AstraSim,
    /// The same, and configurations of its ns-3 network
    AstraSimNs3,
    /// The same, and a topology for its htsim network
    AstraSimHtsim,
}

/// How a simulator times computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compute {
    /// As measured.
    #[default]
    Measured,
    /// By a roofline.
    Roofline,
}

/// How each `.et` is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PackName {
    /// `.et.zst`.
    Zstd,
    /// `.et.gz`.
    Gzip,
}

impl From<PackName> for etlink_run::output::Packing {
    fn from(pack: PackName) -> Self {
        match pack {
            PackName::Zstd => Self::Zstd,
            PackName::Gzip => Self::Gzip,
        }
    }
}

/// Which attributes nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attributes {
    /// All.
    Full,
    /// Those that simulators read.
    Minimal,
}

impl From<Attributes> for etlink_chakra::AttributeSet {
    fn from(attributes: Attributes) -> Self {
        match attributes {
            Attributes::Full => Self::Full,
            Attributes::Minimal => Self::Minimal,
        }
    }
}

/// Where latency goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Latency {
    /// Into durations.
    Fold,
    /// Into nodes.
    Node,
    /// Nowhere.
    Drop,
}

impl From<Latency> for etlink_chakra::LatencyMode {
    fn from(latency: Latency) -> Self {
        match latency {
            Latency::Fold => Self::Fold,
            Latency::Node => Self::Node,
            Latency::Drop => Self::Drop,
        }
    }
}

impl EtlinkArgs {
    /// How much is said beside the results.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

impl OutputArgs {
    /// The format that was asked for, if one was.
    pub fn output_format(&self) -> Option<etlink_run::output::OutputFormat> {
        self.format.map(Into::into)
    }

    /// What a `.et` is like. Refuses what does not apply to the format.
    pub fn chakra_options(
        &self,
        format: Option<etlink_run::output::OutputFormat>,
    ) -> anyhow::Result<ChakraOptions> {
        use etlink_run::output::OutputFormat;
        // without an output nothing is written, and the options change nothing
        let is_et = matches!(format, None | Some(OutputFormat::Chakra));
        let is_of_et = self.latency.is_some() || self.no_gaps || self.dep_latencies;
        if !is_et && (is_of_et || self.attrs.is_some()) {
            anyhow::bail!(
                "--latency, --dep-latencies, --attrs and --no-gaps are for .et files; merged JSON \
                (ET+) and Perfetto traces have all as it was recorded"
            );
        }
        if format == Some(OutputFormat::EtPlus) && self.tensor_deps != TensorDeps::default() {
            anyhow::bail!(
                "--tensor-deps is not for merged JSON (ET+), which has no edges between threads"
            );
        }
        let latency = self.latency.map(etlink_chakra::LatencyMode::from);
        let latency = latency.unwrap_or_default();
        if self.dep_latencies && latency != etlink_chakra::LatencyMode::Fold {
            anyhow::bail!(
                "--dep-latencies goes with --latency fold: the latencies of dependencies are those \
                between the nodes of the trace"
            );
        }
        let attributes = self.attrs.map(etlink_chakra::AttributeSet::from);
        let attributes = attributes.unwrap_or_default();
        if self.dep_latencies && attributes != etlink_chakra::AttributeSet::Full {
            anyhow::bail!(
                "--dep-latencies goes with --attrs full: no simulator reads the latencies of \
                dependencies"
            );
        }
        Ok(ChakraOptions {
            latency,
            no_gaps: self.no_gaps,
            dep_latencies: self.dep_latencies,
            attributes,
            ..ChakraOptions::default()
        })
    }
}
