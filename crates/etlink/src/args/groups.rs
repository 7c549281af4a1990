//! Options that several commands have, each defined once.

use crate::commands::ReportForm;
use anyhow::bail;
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use etlink_run::phases::{ReportPhase, ReportStep, Shard};
use etlink_run::{ReadCache, RunOptions, StepPattern, TraceSlice};
use etlink_torch::RankSelection;
use std::path::PathBuf;
use std::str::FromStr;

/// What work may take.
#[derive(Clone, Copy, Debug, Args)]
pub struct ResourceArgs {
    /// Threads to use; results do not depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    // 0, which the library takes for all cores, is refused: it looks like a mistake of a script
    pub threads: Option<u32>,
    /// Memory to stay within, such as `16G` or `500M` (`Gi`, `Mi`: powers of two); of a folder as many
    /// ranks are read at once as fit, and a rank that takes more is refused [default: what the system can
    /// give]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<ByteSize>,
}

impl ResourceArgs {
    /// Starts the threads and says how many. With `--memory` what is freed goes back to the system.
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

/// What is done with damage.
#[derive(Clone, Copy, Debug, Args)]
pub struct StrictArgs {
    /// Leave out what is damaged, and pairs of traces of two runs, and exit with 1
    #[arg(long)]
    pub strict: bool,
}

/// What is done with traces that do not fit.
#[derive(Clone, Copy, Debug, Args)]
pub struct MismatchArgs {
    /// Link and join traces that do not seem to belong together, which a note names
    #[arg(long)]
    pub allow_mismatch: bool,
}

/// What is done with results that are there already.
#[derive(Clone, Copy, Debug, Args)]
pub struct OverwriteArgs {
    /// Replace what stands at the output, and what an earlier run of this name left there
    #[arg(short = 'f', long)]
    pub overwrite: bool,
}

/// Parsed traces that are kept.
#[derive(Clone, Debug, Args)]
pub struct CacheArgs {
    /// Folder in which parsed traces, and what reports make of each rank, are kept for later commands
    /// on the same files; also the variable `ETLINK_CACHE`
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// Which part of each trace.
#[derive(Clone, Copy, Debug, Args)]
pub struct SliceArgs {
    /// Read only these steps of each trace, such as 3 or 3-5, by the number in a step's name, else its
    /// place from 0; what was launched before them is taken for work from before the recording
    #[arg(long, value_name = "N-M", value_parser = TraceSlice::parse_steps, conflicts_with = "time")]
    pub steps: Option<TraceSlice>,
    /// Read only this time of each trace, counted from its begin: 1.5s..2s, 200ms.. or ..5s
    #[arg(long, value_name = "FROM..TO", value_parser = TraceSlice::parse_time)]
    pub time: Option<TraceSlice>,
}

impl SliceArgs {
    /// The slice that is wanted, if one is.
    pub fn slice(self) -> Option<TraceSlice> {
        self.steps.or(self.time)
    }
}

/// How traces are read and linked.
#[derive(Clone, Debug, Args)]
pub struct ReadingArgs {
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub strict: StrictArgs,
    #[command(flatten)]
    pub mismatch: MismatchArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub slice: SliceArgs,
}

/// Which ranks.
#[derive(Clone, Debug, Args)]
pub struct RankArgs {
    /// Ranks of a folder to take, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<RankSelection>,
}

/// A phase of a report, for many machines.
#[derive(Clone, Debug, Args)]
pub struct PhaseArgs {
    /// Do one phase of the report on a folder, for many machines that share it: `summaries` for each
    /// shard, then `join` once, which prints the report and reads no trace
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        requires = "phase_folder"
    )]
    pub phase: Option<ReportPhaseName>,
    /// The part of the ranks that this phase works on: its number from 0, and how many there are
    #[arg(
        long,
        value_name = "K/N",
        requires = "phase",
        required_if_eq("phase", "summaries")
    )]
    pub shard: Option<Shard>,
    /// Folder in which the shards store what the join reads
    #[arg(long, value_name = "DIR", requires = "phase")]
    pub phase_folder: Option<PathBuf>,
}

/// A phase of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportPhaseName {
    /// Make of the ranks of a shard what the report needs of them, and store it.
    Summaries,
    /// Make the report of what all shards have stored.
    Join,
}

/// What counts as a step.
#[derive(Clone, Debug, Args)]
pub struct StepArgs {
    /// Take the annotations and ops whose names this matches for steps; what its groups named
    /// `phase`, `batch` and `tokens` catch is shown per phase [default: `ProfilerStep#N`,
    /// iterations of vLLM, SGLang and ATOM, optimizer steps, numbered annotations]
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern)]
    pub steps_by: Option<StepPattern>,
}

/// A single trace, and how its kernels are classed.
#[derive(Clone, Debug, Args)]
pub struct OneTraceArgs {
    /// Host trace of the Kineto trace, as for `link`
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// What was measured beside one trace: the CSV of Nsight Compute; it is found in a folder
    #[arg(long, value_name = "FILE")]
    pub metrics: Vec<PathBuf>,
    /// Rank, when the trace does not say
    #[arg(long)]
    pub rank: Option<i64>,
    /// Rules for kernels that come before the built-in ones: lines of a class (computation,
    /// communication, memory, other), a label and a regular expression that is searched in the
    /// kernel's name
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
}

/// JSON or text.
#[derive(Clone, Copy, Debug, Args)]
pub struct JsonArgs {
    /// Print everything as JSON; times are ns
    #[arg(long)]
    pub json: bool,
}

/// JSON, CSV or text.
#[derive(Clone, Copy, Debug, Args)]
pub struct JsonOrCsvArgs {
    /// Print everything as JSON; times are ns
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print a line of CSV per row; times are ns
    #[arg(long)]
    pub csv: bool,
}

/// How kernels are called.
#[derive(Clone, Copy, Debug, Args)]
pub struct NameArgs {
    /// Show kernels by their full names, not without namespaces, parameters and template arguments;
    /// JSON has both
    #[arg(long)]
    pub full_names: bool,
}

/// How much of a table.
#[derive(Clone, Copy, Debug, Args)]
pub struct RowArgs<const DEFAULT: usize> {
    /// Rows of each table to show; 0: all. JSON and CSV have all
    #[arg(short = 'n', long, value_name = "N", default_value_t = DEFAULT)]
    pub rows: usize,
}

impl JsonOrCsvArgs {
    /// How a report is printed.
    pub fn report_form(&self) -> ReportForm {
        match (self.json, self.csv) {
            (true, _) => ReportForm::Json,
            (_, true) => ReportForm::Csv,
            _ => ReportForm::Text,
        }
    }
}

impl PhaseArgs {
    /// Which part of the report is done here; `None`: all of it.
    ///
    /// # Errors
    /// A shard is to be joined.
    pub fn report_phase(&self) -> anyhow::Result<Option<ReportPhase>> {
        // clap wants all that a phase needs
        let (Some(phase), Some(folder)) = (self.phase, &self.phase_folder) else {
            return Ok(None);
        };
        let step = match (phase, self.shard) {
            (ReportPhaseName::Summaries, shard) => {
                ReportStep::Summaries(shard.unwrap_or(Shard::WHOLE))
            }
            (ReportPhaseName::Join, None) => ReportStep::Join,
            (ReportPhaseName::Join, Some(_)) => {
                bail!("--phase join joins all shards: leave --shard out")
            }
        };
        Ok(Some(ReportPhase {
            folder: folder.clone(),
            step,
        }))
    }
}

impl CacheArgs {
    /// The cache that the command uses, if one is wanted.
    pub fn open(&self) -> Option<ReadCache> {
        crate::trace_cache::open(self.cache.as_deref())
    }
}

impl ReadingArgs {
    /// How the library reads a run; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn run_options(&self, ranks: Option<&RankArgs>) -> anyhow::Result<RunOptions> {
        Ok(RunOptions {
            threads: self.resources.start()?,
            memory: self.resources.memory.map(|memory| memory.as_u64()),
            ranks: ranks.and_then(|choice| choice.ranks.clone()),
            strict: self.strict.strict,
            allow_mismatch: self.mismatch.allow_mismatch,
            cache: self.cache.open(),
            slice: self.slice.slice(),
            ..RunOptions::default()
        })
    }
}

fn parse_pattern(text: &str) -> Result<StepPattern, String> {
    StepPattern::from_str(text).map_err(|error| {
        let shown = error.to_string();
        // the error is several lines, with a mark below the place; the last one says what is wrong
        let last = shown.lines().next_back().unwrap_or_default();
        let reason = last.strip_prefix("error: ").unwrap_or(last);
        format!("no regular expression: {reason}")
    })
}

/// Nobody means fewer bytes than this, in which no program starts.
const LEAST_MEMORY: ByteSize = ByteSize::mb(1);

fn parse_memory(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text
        .parse()
        // bytesize's own error does not say what a size looks like
        .map_err(|_| "a size is a number and a unit, such as 16G, 500M or 2GiB")?;
    if size >= LEAST_MEMORY {
        return Ok(size);
    }
    // a number alone is of bytes; more gigabytes than this has no machine
    const MOST_MEANT: u64 = 10_000;
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let meant = if is_number && (1..MOST_MEANT).contains(&size.as_u64()) {
        format!("; did you mean {text}M or {text}G?")
    } else {
        String::new()
    };
    Err(format!(
        "etlink takes some {} before it reads anything{meant}",
        etlink_run::memory::least().display().si()
    ))
}
