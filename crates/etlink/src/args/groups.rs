//! Options that several commands share, each defined once.

use super::names::{self, one_of};
use crate::commands::ReportForm;
use bytesize::ByteSize;
use clap::Args;
use etlink_link::TensorEdges;
use etlink_run::shard::Shard;
use etlink_run::{Overhead, RunOptions, StepPattern, TraceSlice};
use etlink_torch::RankSelection;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Limits of threads and memory.
#[derive(Clone, Copy, Debug, Args)]
pub struct ResourceArgs {
    /// Number of threads; results do not depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    // the library takes 0 for all cores; here it is refused, as a likely mistake of a script
    pub threads: Option<u32>,
    /// Memory limit, such as `16G` or `500M` [default: the memory available]
    ///
    /// `Gi` and `Mi` are powers of two. As many ranks of a folder are read at once as fit. A rank
    /// that needs more is refused.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<ByteSize>,
}

impl ResourceArgs {
    /// Starts the threads, and returns their number. With `--memory`, freed memory returns to the
    /// system.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn start(self) -> anyhow::Result<usize> {
        if self.memory.is_some() {
            crate::allocator::return_large_blocks();
        }
        crate::commands::start_threads(self.threads)
    }
}

/// Treatment of existing results.
#[derive(Clone, Copy, Debug, Args)]
pub struct OverwriteArgs {
    /// Replace existing output, and files that an earlier run of this name wrote there
    #[arg(short = 'f', long)]
    pub overwrite: bool,
}

/// Workbook of the tables.
#[derive(Clone, Debug, Args)]
pub struct WorkbookArgs {
    /// Also write the tables to a workbook, a sheet each
    #[arg(short, long, value_name = "FILE.xlsx")]
    pub output: Option<PathBuf>,
}

/// Part of each trace to read.
#[derive(Clone, Copy, Debug, Args)]
pub struct SliceArgs {
    /// Read only these steps of each trace, such as 3 or 3-5
    ///
    /// A step's number is the one in its name, else its position from 0. Work launched before these
    /// steps counts as launched before the recording.
    #[arg(long, value_name = "N-M", value_parser = TraceSlice::parse_steps, conflicts_with = "time")]
    pub steps: Option<TraceSlice>,
    /// Read only this time since the start of the first rank, such as 1.5s..2s, 200ms.. or ..5s
    #[arg(long, value_name = "FROM..TO", value_parser = TraceSlice::parse_time)]
    pub time: Option<TraceSlice>,
}

impl SliceArgs {
    /// Returns the requested slice, if any.
    pub fn slice(self) -> Option<TraceSlice> {
        self.steps.or(self.time)
    }
}

/// Options of reading and linking traces.
#[derive(Clone, Debug, Args)]
pub struct ReadingArgs {
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Leave out damaged traces, and pairs of traces from two runs; exit with 1 if there are any
    #[arg(long)]
    pub strict: bool,
    /// Link and join traces that do not seem to belong together; a note names them
    #[arg(long)]
    pub allow_mismatch: bool,
    /// Folder or URL that keeps parsed traces and results for later commands; also `ETLINK_CACHE`
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    #[command(flatten)]
    pub slice: SliceArgs,
    /// Overhead of recording in host times: `keep`, `remove`, or a step's time without recording
    ///
    /// Profilers lengthen each op by some microseconds, so that a host seems slower than it is and
    /// devices seem idle. `remove` shortens host times: until steps take the time of other steps in
    /// the manifest of `etlink record`, else by an estimate from ops that do no work. A time such as
    /// 25.9ms: until steps take that. Device rows keep their durations.
    ///
    /// Default: analyses remove it if recording slowed the host down much and the program has one
    /// rank; exports and tables of ops keep it.
    #[arg(long, value_name = "keep|remove|STEP")]
    pub overhead: Option<Overhead>,
}

/// Ranks to read.
#[derive(Clone, Debug, Args)]
pub struct RankArgs {
    /// Ranks of a folder to read, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<RankSelection>,
}

/// Part of the ranks, for many machines.
#[derive(Clone, Copy, Debug, Args)]
pub struct PrepareArgs {
    /// Only fill the cache with the results of every Nth rank from the Kth on, such as 3/64
    ///
    /// Ranks count from 0. Machines that share a cache prepare a part each. Then the same command
    /// without this option finds the results of all ranks.
    #[arg(id = "prepare", long = "prepare", value_name = "K/N")]
    pub shard: Option<Shard>,
}

/// Dependencies through tensors.
#[derive(Clone, Copy, Debug, Args)]
pub struct TensorArgs {
    /// Tensor dependencies that become edges between threads: `raw`, `all` or `none`
    ///
    /// `raw` is read after write; `all` also has write after read and write after write. They come
    /// from the tensors of the host trace.
    #[arg(
        long,
        value_parser = one_of(names::TENSOR_DEPS),
        value_name = "WHICH",
        default_value = "raw",
        hide_possible_values = true
    )]
    pub tensor_deps: TensorEdges,
}

/// Definition of a step.
#[derive(Clone, Debug, Args)]
pub struct StepArgs {
    /// Annotations and ops whose names match are steps
    ///
    /// The named groups `phase`, `batch` and `tokens` describe a step.
    ///
    /// Default, the first of these that a trace has: `ProfilerStep#N`; iterations of vLLM, SGLang
    /// or ATOM; the time between ends of optimizer steps; numbered annotations.
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern)]
    pub steps_by: Option<StepPattern>,
}

/// Options for a single trace, and for classes of kernels.
#[derive(Clone, Debug, Args)]
pub struct OneTraceArgs {
    /// Host trace that belongs to a single device trace, as for `link`
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Kineto trace of the capture of graphs (ROCm), or folder of them, for ops of their kernels
    ///
    /// A folder `capture_traces` beside device traces is found.
    #[arg(long, value_name = "KINETO|DIR")]
    pub capture: Option<PathBuf>,
    /// Measurements of one trace: CSV of Nsight Compute; found automatically in folders
    #[arg(long, value_name = "FILE")]
    pub metrics: Vec<PathBuf>,
    /// Rank, if the trace does not state it
    #[arg(long)]
    pub rank: Option<i64>,
    /// File with rules for classes of kernels, tried before the built-in ones
    ///
    /// A line has a class (computation, communication, memory, other), a label, and a regular
    /// expression that is searched in the kernel's name.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
}

impl OneTraceArgs {
    /// Returns the further traces: of the host, and of the capture of graphs.
    pub fn traces(&self) -> [Option<&Path>; 2] {
        [self.host.as_deref(), self.capture.as_deref()]
    }
}

/// JSON or text.
#[derive(Clone, Copy, Debug, Args)]
pub struct JsonArgs {
    /// Print the whole report as JSON; times are in ns
    #[arg(long)]
    pub json: bool,
}

/// JSON, CSV or text.
#[derive(Clone, Copy, Debug, Args)]
pub struct JsonOrCsvArgs {
    /// Print the whole report as JSON; times are in ns
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one table as CSV; times are in ns
    #[arg(long)]
    pub csv: bool,
}

/// Names of kernels.
#[derive(Clone, Copy, Debug, Args)]
pub struct NameArgs {
    /// Show kernels by their full names instead of short ones; JSON has both
    #[arg(long)]
    pub full_names: bool,
}

/// Length of tables.
#[derive(Clone, Copy, Debug, Args)]
pub struct RowArgs<const DEFAULT: usize> {
    /// Rows to show per table; 0 shows all. JSON and CSV have all
    #[arg(short = 'n', long, value_name = "N", default_value_t = DEFAULT)]
    pub rows: usize,
}

impl JsonOrCsvArgs {
    /// Returns the form of the report.
    pub fn report_form(&self) -> ReportForm {
        match (self.json, self.csv) {
            (true, _) => ReportForm::Json,
            (_, true) => ReportForm::Csv,
            _ => ReportForm::Text,
        }
    }
}

impl ReadingArgs {
    /// Returns the options for reading a run; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn run_options(&self, ranks: Option<&RankArgs>) -> anyhow::Result<RunOptions> {
        Ok(RunOptions {
            threads: self.resources.start()?,
            memory: self.resources.memory.map(|memory| memory.as_u64()),
            ranks: ranks.and_then(|choice| choice.ranks.clone()),
            strict: self.strict,
            allow_mismatch: self.allow_mismatch,
            cache: crate::trace_cache::open(self.cache.as_deref()),
            slice: self.slice.slice(),
            overhead: self.overhead,
            ..RunOptions::default()
        })
    }

    /// Refuses to remove overhead for a command whose times are those recorded.
    ///
    /// # Errors
    /// Another treatment of the overhead is asked for than to keep it.
    pub fn refuse_overhead(&self) -> anyhow::Result<()> {
        if self
            .overhead
            .is_none_or(|overhead| overhead == Overhead::Keep)
        {
            return Ok(());
        }
        anyhow::bail!(
            "--overhead: tables of ops have their times as recorded; use it with findings, analyze or replay"
        );
    }
}

fn parse_pattern(text: &str) -> Result<StepPattern, String> {
    StepPattern::from_str(text).map_err(|error| {
        let shown = error.to_string();
        // the error has several lines, with a mark below the position; the last one has the reason
        let last = shown.lines().next_back().unwrap_or_default();
        let reason = last.strip_prefix("error: ").unwrap_or(last);
        format!("not a regular expression: {reason}")
    })
}

/// Minimum of `--memory`: no program starts in fewer bytes.
const LEAST_MEMORY: ByteSize = ByteSize::mb(1);

fn parse_memory(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text
        .parse()
        // bytesize's own error gives no example of a size
        .map_err(|_| "a size is a number and a unit, such as 16G, 500M or 2GiB")?;
    if size >= LEAST_MEMORY {
        return Ok(size);
    }
    // a number without a unit counts bytes; no machine has more gigabytes than this
    const MOST_MEANT: u64 = 10_000;
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let meant = if is_number && (1..MOST_MEANT).contains(&size.as_u64()) {
        format!("; did you mean {text}M or {text}G?")
    } else {
        String::new()
    };
    Err(format!(
        "etlink needs about {} before it reads anything{meant}",
        etlink_run::memory::least().display().si()
    ))
}
