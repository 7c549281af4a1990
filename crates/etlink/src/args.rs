//! Arguments of the command line.

mod analyze;
mod completions;
mod convert;
mod diff;
mod findings;
mod generate;
mod groups;
mod learn;
mod names;
mod ops;
mod record;
mod replay;
mod report;
mod repro;
mod schedule;
mod simulated;
mod top;
mod trigger;

pub use analyze::{AnalyzeArgs, Compat};
pub use completions::CompletionsArgs;
pub use convert::ConvertArgs;
pub use diff::DiffArgs;
pub use findings::FindingsArgs;
pub use generate::{GenerateArgs, ScaleArgs};
pub use groups::{
    JsonArgs, JsonOrCsvArgs, NameArgs, OneTraceArgs, OverwriteArgs, PrepareArgs, RankArgs,
    ReadingArgs, ResourceArgs, RowArgs, SliceArgs, StepArgs, TensorArgs, WorkbookArgs,
};
pub use learn::LearnArgs;
pub use ops::{OpOrder, OpsArgs};
pub use record::{ArmedArgs, RecordArgs};
pub use replay::ReplayArgs;
pub use report::ReportArgs;
pub use repro::ReproArgs;
pub use schedule::ScheduleArgs;
pub use simulated::SimulatedArgs;
pub use top::{FoldedTime, TableArgs, TopArgs, TopGrouping};
pub use trigger::TriggerArgs;

use crate::notes::Verbosity;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use etlink_chakra::{AttributeSet, LatencyMode, WriteOptions};
use etlink_link::TensorEdges;
use etlink_run::output::{OutputFormat, Packing};
use etlink_run::shard::Shard;
use names::one_of;
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
#[command(after_help = "Examples:\n  \
        etlink merge traces --for astra-sim -o sim\n  \
        etlink findings traces\n\n\
        Exit codes: 0 done; 1 a check or a rank failed, a trace was left out, or --strict found a \
        problem; 2 could not be done; 128 + n ended by signal n. `record` exits with the code of \
        the program, or with 1 if that is 0 and a trace or a recorded part is missing. Notes go to \
        standard error.\n\n\
        A path may be a URL: s3://BUCKET/KEY, gs:// and az:// to read and write, https:// to read a \
        file. Credentials are those that the SDKs of these services find.")]
pub struct EtlinkArgs {
    /// Print only results and errors, no notes
    // these two come last in the help of each command
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 990
    )]
    pub quiet: bool,
    /// Also print notes on the files read, the time taken, and harmless oddities
    #[arg(short, long, global = true, display_order = 991)]
    pub verbose: bool,
    /// Command to run.
    #[command(subcommand)]
    pub command: EtlinkCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum EtlinkCommand {
    /// Link the host trace and the device trace of one rank
    Link(LinkArgs),
    /// Link and join all ranks in a folder, and write one file per rank
    Merge(MergeArgs),
    /// Report late ranks, clocks, bandwidths; from flight recorder dumps, which rank hangs
    Ranks(RanksArgs),
    /// Print the profiler's own table, key_averages(), from a recorded trace
    Top(TopArgs),
    /// List ops by shapes: device time, operations, bytes, share of the device's peak rates
    Ops(OpsArgs),
    /// Write a Python script that repeats recorded ops alone, with inputs of their shapes
    Repro(ReproArgs),
    /// Compare two runs: step time, classes, ops, kernels; fail by rules
    Diff(DiffArgs),
    /// Report where device time goes, why devices are idle, kernels, memory
    Analyze(AnalyzeArgs),
    /// List the largest possible gains of a run, each with evidence and remedy
    Findings(FindingsArgs),
    /// Write one HTML page about a trace or a run
    Report(ReportArgs),
    /// Replay a graph: critical path, what-if, reasons of waits
    Replay(ReplayArgs),
    /// Collect times of ops on devices, for `replay --what-if device=NAME`
    Learn(LearnArgs),
    /// Check written graphs for faults that would make a simulator or reader fail
    Check(CheckArgs),
    /// Convert a written graph to protobuf, JSON, Parquet, a picture or GOAL
    Convert(ConvertArgs),
    /// Generate the graphs of a run that nobody recorded, for simulators
    Generate(GenerateArgs),
    /// Scale a written run of N ranks to M ranks: data-parallel copies
    Scale(ScaleArgs),
    /// Compare ASTRA-sim's log with the measured run, per rank and per collective
    Simulated(SimulatedArgs),
    /// Identify files and summarize their content
    Inspect(InspectArgs),
    /// Record host and device traces of an unchanged PyTorch program
    Record(RecordArgs),
    /// Record the next steps of a job that runs under `record --armed`
    Trigger(TriggerArgs),
    /// List the profiler's action in each step under a schedule, without running anything
    Schedule(ScheduleArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// `etlink link`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink link --host torch_et_0.json.gz --device kineto_trace_0.json.gz -o step.0.et\n  \
    etlink link --device kineto_trace_0.json.gz -o step.0.pftrace    for ui.perfetto.dev")]
#[command(group(ArgGroup::new("input").required(true).multiple(true).args(["paths", "device"])))]
pub struct LinkArgs {
    /// Traces of the rank, host and device in any order; their content tells which is which
    #[arg(value_name = "TRACE", num_args = ..=2)]
    pub paths: Vec<PathBuf>,
    /// Host trace (PyTorch execution trace), also compressed; `-` is standard input
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Device trace (Kineto, Nsight Systems, ROCm, JAX), also compressed; `-` is standard input
    #[arg(long, value_name = "KINETO")]
    pub device: Option<PathBuf>,
    /// Kineto trace of the graph capture (ROCm), or folder of them, for ops of kernels of graph launches
    ///
    /// A folder `capture_traces` beside the device trace is found.
    #[arg(long, value_name = "KINETO|DIR")]
    pub capture: Option<PathBuf>,
    /// Kernel metrics: the CSV of Nsight Compute (`ncu --csv --page raw`)
    #[arg(long, value_name = "CSV")]
    pub metrics: Option<PathBuf>,
    /// Rank, if the trace does not state it
    #[arg(long)]
    pub rank: Option<i64>,
    /// Output file, whose extension selects the format; `-` is standard output
    ///
    /// `.et`: Chakra protobuf (`.et.zst`, `.et.gz`: compressed, not for simulators). `.json`,
    /// `.json.gz`: merged JSON (ET+). `.pftrace`, `.trace.json`, also with `.gz`: a trace for
    /// ui.perfetto.dev. Without this option only the report is printed.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub how: OutputArgs,
}

/// `etlink merge`.
#[derive(Debug, Args)]
// a folder's name does not state the format
#[command(
    mut_arg("format", |format| format.help("Output format [default: chakra]")),
    after_help = "Examples:\n  \
        etlink merge traces -o graphs\n  \
        etlink merge traces --for astra-sim --comm-only -o sim\n  \
        etlink merge traces --format perfetto -o view    one timeline of all ranks"
)]
pub struct MergeArgs {
    /// Folder with the traces of all ranks; each subfolder with traces is a separate run
    pub dir: PathBuf,
    /// Output folder, created if missing
    ///
    /// It gets `<name>.<rank>.et` per rank, and `comm_group.json` with the ranks of each process
    /// group. A trace of another run becomes `<name>.<rank>.not_joined.et`, one of an uncertain
    /// rank `<name>.<trace>.et`. `--format perfetto` and `chrome` write one `timeline` of all
    /// ranks.
    #[arg(short, long, value_name = "DIR", required_unless_present = "prepare")]
    pub output: Option<PathBuf>,
    /// Write the complete input of this simulator: graphs, configurations, README
    ///
    /// A rank without a trace gets a graph without work. Communications of a rank run one after the
    /// other.
    #[arg(long = "for", value_enum, value_name = "SIMULATOR")]
    pub simulator: Option<Simulator>,
    /// Time of device nodes in the simulator: `measured` or `roofline`
    ///
    /// `roofline` gives device nodes the time that `num_ops` and `tensor_size` need on the device
    /// of `system.json`. Notes give the number of nodes that keep the measured time.
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        requires = "simulator"
    )]
    pub compute: Compute,
    /// Write only communications, and one chain of compute nodes for all other time: small files
    // host time becomes chains of computation: without gaps they would have no length
    #[arg(long, requires = "simulator", conflicts_with_all = ["device_only", "no_gaps"])]
    pub comm_only: bool,
    /// Write only device rows, communications, and chains of host time between launches and waits
    #[arg(long, requires = "simulator", conflicts_with = "no_gaps")]
    pub device_only: bool,
    /// Keep each rank's times on its own clock instead of the first rank's
    #[arg(long)]
    pub no_align: bool,
    /// Compress each `.et` with `zstd` or `gzip`; etlink reads these files, ASTRA-sim does not
    #[arg(
        long,
        value_parser = one_of(names::PACKINGS),
        value_name = "HOW",
        hide_possible_values = true,
        conflicts_with = "simulator"
    )]
    pub pack: Option<Packing>,
    /// Join all ranks, but write only the files of every Nth rank from the Kth on, such as 3/64
    ///
    /// Ranks count from 0. Part 0 also writes the files of the whole run. Each machine writes a part;
    /// prepare the ranks first, so that not every machine links all of them.
    #[arg(long, value_name = "K/N", conflicts_with = "prepare")]
    pub shard: Option<Shard>,
    #[command(flatten)]
    pub prepare: PrepareArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub how: OutputArgs,
}

/// Tables of `ranks` that can be printed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RanksTable {
    /// Each collective and message: who was late, by how much, and its transfer.
    Collectives,
    /// Transfer times and bandwidths by kind, group, type and size; bytes of each pair of ranks.
    Bandwidth,
}

/// `etlink ranks`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink ranks traces\n  \
    etlink ranks dumps    flight recorder dumps of all ranks: which rank hangs, and where")]
pub struct RanksArgs {
    /// Folder with the traces of all ranks; each subfolder with traces is a separate run
    pub dir: PathBuf,
    /// Print only this table
    #[arg(long, value_enum, value_name = "TABLE")]
    pub table: Option<RanksTable>,
    #[command(flatten)]
    pub rows: RowArgs<10>,
    #[command(flatten)]
    pub steps: StepArgs,
    /// Keep each rank's times on its own clock instead of the first rank's
    #[arg(long)]
    pub no_align: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub prepare: PrepareArgs,
    #[command(flatten)]
    pub workbook: WorkbookArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub print: JsonOrCsvArgs,
}

/// Options of linking and writing.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Output format [default: by the output's extension]
    #[arg(long, value_parser = one_of(names::OUTPUT_FORMATS))]
    pub format: Option<OutputFormat>,
    /// Treatment of launch and wait times in a `.et`: `fold`, `node` or `drop` [default: fold]
    ///
    /// `fold` adds them to the duration of the waiting node; `node` writes nodes of their own; `drop`
    /// leaves them out.
    #[arg(long, value_parser = one_of(names::LATENCIES), hide_possible_values = true)]
    // no default of clap's: only what was typed can be refused where it does not apply
    pub latency: Option<LatencyMode>,
    /// Write the latency of each dependency and the slack of each node to a `.et`
    ///
    /// The lists `ctrl_latency_ns` and `data_latency_ns` belong to `ctrl_deps` and `data_deps`.
    /// `slack_ns` is how much later a node could end without delaying the end of the rank's work.
    #[arg(long, conflicts_with = "no_gaps")]
    pub dep_latencies: bool,
    /// Node attributes in a `.et`: `full`, or `minimal` for simulators [default: full]
    #[arg(
        long,
        value_parser = one_of(names::ATTRIBUTES),
        value_name = "SET",
        hide_possible_values = true
    )]
    pub attrs: Option<AttributeSet>,
    #[command(flatten)]
    pub tensors: TensorArgs,
    /// Leave host gaps (Python, data loading) out of a `.et`, as if they took no time
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
#[command(after_help = "Examples:\n  \
    etlink check sim\n  \
    etlink check --explain ET102")]
pub struct CheckArgs {
    /// Chakra files (`.et`), merged JSON (ET+), or folders with them
    #[arg(required_unless_present = "explain", value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Check only these rules, such as ET102,ET105
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub rule: Vec<String>,
    /// Explain a rule, and what readers do if a file breaks it; `all` explains every rule
    #[arg(long, value_name = "ID", conflicts_with_all = ["paths", "rule"])]
    pub explain: Option<String>,
    /// Output format: `text`, `json`, or `sarif` (2.1.0) for code hosts and editors
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
    // not ReadingArgs: nothing is left out here, only the exit code changes
    /// Exit with 1 for warnings too
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub print: JsonArgs,
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// Text for people.
    #[default]
    Text,
    /// The same as `--json`.
    Json,
    /// SARIF 2.1.0.
    Sarif,
}

/// `etlink inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    etlink inspect traces/*")]
pub struct InspectArgs {
    /// Files to identify: traces, graphs, dumps, logs, metrics; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub slice: SliceArgs,
    // not ReadingArgs: a damaged file is still described
    /// Exit with 1 if a file is damaged
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub print: JsonArgs,
}

/// Simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Simulator {
    /// ASTRA-sim with its analytical network
    AstraSim,
    /// As `astra-sim`, plus the input of ASTRA-sim's ns-3 network
    AstraSimNs3,
    /// As `astra-sim`, plus a topology for ASTRA-sim's htsim network
    AstraSimHtsim,
}

/// Time of device nodes in a simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compute {
    /// The measured time.
    #[default]
    Measured,
    /// The time by a roofline.
    Roofline,
}

impl EtlinkArgs {
    /// Returns how many notes accompany the results.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

impl OutputArgs {
    /// Returns the options of `.et` files.
    ///
    /// # Errors
    /// An option does not apply to the format, or options contradict each other.
    pub fn chakra_options(
        &self,
        format: Option<OutputFormat>,
    ) -> anyhow::Result<WriteOptions<'static>> {
        // without an output nothing is written, and the options change nothing
        let is_et = matches!(format, None | Some(OutputFormat::Chakra));
        let is_of_et = self.latency.is_some() || self.no_gaps || self.dep_latencies;
        if !is_et && (is_of_et || self.attrs.is_some()) {
            anyhow::bail!(
                "--latency, --dep-latencies, --attrs and --no-gaps apply only to .et files; merged JSON \
                (ET+) and Perfetto traces keep everything as recorded"
            );
        }
        if format == Some(OutputFormat::EtPlus)
            && self.tensors.tensor_deps != TensorEdges::default()
        {
            anyhow::bail!(
                "--tensor-deps does not apply to merged JSON (ET+), which has no edges between threads"
            );
        }
        let latency = self.latency.unwrap_or_default();
        if self.dep_latencies && latency != LatencyMode::Fold {
            anyhow::bail!(
                "--dep-latencies needs --latency fold: latencies of dependencies are between \
                nodes of the trace"
            );
        }
        let attributes = self.attrs.unwrap_or_default();
        if self.dep_latencies && attributes != AttributeSet::Full {
            anyhow::bail!(
                "--dep-latencies needs --attrs full: no simulator reads latencies of dependencies"
            );
        }
        Ok(WriteOptions {
            latency,
            no_gaps: self.no_gaps,
            dep_latencies: self.dep_latencies,
            attributes,
            ..WriteOptions::default()
        })
    }
}
