//! One function per subcommand.

mod analyze;
mod check;
mod completions;
mod convert;
mod diff;
mod findings;
mod generate;
mod inspect;
mod link;
mod merge;
mod ranks;
#[cfg(unix)]
mod record;
mod replay;
mod report;
mod scale;
mod schedule;
#[cfg(all(unix, feature = "schema"))]
mod schemas;
mod simulated;
mod top;
#[cfg(unix)]
mod trigger;

pub use analyze::{AnalyzeDocument, AnalyzeQuery, HtaDocument, HtaQuery, OpsDocument};
pub use diff::DiffDocument;
pub use findings::{FindingsReport, findings_of_run};
pub use ranks::RanksDocument;
pub use replay::{ReplayDocument, ReplayQuery};
pub use report::report_page;
#[cfg(all(unix, feature = "schema"))]
pub use schemas::{NamedSchema, json_schemas};
pub use top::TopDocument;

use crate::Outcome;
use crate::args::{EtlinkArgs, EtlinkCommand};
use crate::envelope::{JsonReport, print_json_report};
use crate::table::{count, fold_lines, plain, plain_lines};
use crate::{notes, signals, trace_cache, unreadable_files};
use anyhow::{Context, Result};
use etlink_model::{Failure, diagnostic};
use etlink_run::output::StdoutError;
use etlink_run::prepared::PreparedShard;
use etlink_run::{RunError, RunSet};
use std::io::Write;
use std::num::NonZeroUsize;

/// Output form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// JSON, for programs.
    Json,
    /// CSV, for spreadsheets.
    Csv,
    /// Text, for people.
    Text,
}

/// Runs the command of the parsed arguments.
pub fn run(args: EtlinkArgs) -> Result<Outcome> {
    // before anything else: opening a source may print notes
    notes::set_verbosity(args.verbosity());
    // these two handle signals themselves: one forwards them to the program, the other withdraws
    // its request
    let is_own = matches!(
        args.command,
        EtlinkCommand::Record(_) | EtlinkCommand::Trigger(_)
    );
    if !is_own {
        signals::install_handlers().context("cannot listen for signals")?;
    }
    let json = prints_json(&args.command);
    let outcome = match run_subcommand(args.command) {
        Err(error) => match error.downcast_ref() {
            Some(RunError::Prepared(shard)) => print_prepared(shard, json),
            _ => Err(error),
        },
        outcome => outcome,
    };
    trace_cache::note_usage();
    outcome
}

/// Returns true if a command that can prepare results prints JSON.
fn prints_json(command: &EtlinkCommand) -> bool {
    match command {
        EtlinkCommand::Merge(args) => args.how.print.json,
        EtlinkCommand::Ranks(args) => args.print.json,
        EtlinkCommand::Analyze(args) => args.print.json,
        EtlinkCommand::Findings(args) => args.print.json,
        EtlinkCommand::Replay(args) => args.print.json,
        EtlinkCommand::Report(args) => args.print.json,
        _ => false,
    }
}

fn run_subcommand(command: EtlinkCommand) -> Result<Outcome> {
    match command {
        EtlinkCommand::Link(args) => link::run(args),
        EtlinkCommand::Merge(args) => merge::run(args),
        EtlinkCommand::Ranks(args) => ranks::run(args),
        EtlinkCommand::Analyze(args) => analyze::run(args),
        EtlinkCommand::Ops(args) => analyze::ops::run(&args),
        EtlinkCommand::Learn(args) => analyze::learn::run(&args),
        EtlinkCommand::Repro(args) => analyze::repro::run(&args),
        EtlinkCommand::Diff(args) => diff::run(args),
        EtlinkCommand::Findings(args) => findings::run(args),
        #[cfg(unix)]
        EtlinkCommand::Record(args) => record::run(&args),
        EtlinkCommand::Report(args) => report::run(args),
        EtlinkCommand::Replay(args) => replay::run(args),
        EtlinkCommand::Check(args) => check::run(args),
        EtlinkCommand::Convert(args) => convert::run(args),
        EtlinkCommand::Generate(args) => generate::run(&args),
        EtlinkCommand::Scale(args) => scale::run(&args),
        EtlinkCommand::Simulated(args) => simulated::run(args),
        EtlinkCommand::Inspect(args) => inspect::run(args),
        EtlinkCommand::Top(args) => top::run(args),
        #[cfg(unix)]
        EtlinkCommand::Trigger(args) => trigger::run(&args),
        #[cfg(not(unix))]
        EtlinkCommand::Record(_) | EtlinkCommand::Trigger(_) => {
            anyhow::bail!(
                "recordings need a Unix system: record in Linux, also in WSL, and read the traces here"
            )
        }
        EtlinkCommand::Schedule(args) => schedule::run(&args),
        EtlinkCommand::Completions(args) => completions::run(&args),
    }
}

/// Maximum number of threads: more never help, and a mistyped `-j` must not start thousands.
const MAX_THREADS: usize = 64;

/// Starts `asked` threads, or one per core. Returns their number.
pub fn start_threads(asked: Option<u32>) -> Result<usize> {
    let threads = match asked {
        Some(asked) => asked as usize,
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let threads = threads.min(MAX_THREADS);
    // one pool for the process, before any work: a later one would be rejected
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().map_err(|error| {
        // each thread takes some megabytes of address space
        let remedy = "use fewer threads (-j 1), or raise the limits of memory and processes \
                      (`ulimit -v`, `ulimit -u`)";
        Failure::new(format!("cannot start {threads} threads: {error}")).advise(remedy)
    })?;
    Ok(threads)
}

/// Prints a report as text, with lines folded to the output's width.
fn print_report(text: &str) -> Result<()> {
    print_text(&fold_lines(text))
}

/// Prints the failure of a rank on standard error. Line ends in file names are escaped, or they would
/// look like more ranks.
fn print_failed(name: &str, message: &str) {
    let (name, message) = (plain(name), plain(message));
    notes::print_on_stderr(&format!("failed: {name}: {message}\n"));
}

/// Prints a text. Control characters in names of traces and files are escaped, because a terminal
/// would obey them.
fn print_text(text: &str) -> Result<()> {
    let text = plain_lines(text);
    // not print!, which panics if the reader is gone
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        // a separate type, by which `main` recognizes a closed pipe, which is not a failure
        .map_err(StdoutError)?;
    Ok(())
}

impl JsonReport for PreparedShard {
    const SCHEMA: &'static str = "etlink.prepared";
}

/// Prints what came of preparing a shard.
fn print_prepared(shard: &PreparedShard, json: bool) -> Result<Outcome> {
    if json {
        print_json_report(shard)?;
    } else {
        for failed in &shard.failed {
            print_failed(&failed.name, &failed.message);
        }
        let failed = shard.failed.len();
        let done = count((shard.ranks - failed) as u64, "rank");
        print_report(&format!("{done} prepared, {failed} failed\n"))?;
    }
    Ok(Outcome::done_if(shard.failed.is_empty()))
}

/// Prints paired and unused files of each run in verbose mode. If files could not be read, the
/// command will end with 1.
pub(crate) fn print_run_files(runs: &RunSet) {
    unreadable_files::record(runs);
    if !notes::is_verbose() {
        return;
    }
    for (index, run) in runs.runs.iter().enumerate() {
        let title = runs.run_title(index);
        // a user who names the files of a rank knows them
        if !runs.source.is_one_rank() {
            notes::print_details(&title, &run.pairings());
        }
        notes::print_details(&title, &run.unused);
    }
}

/// Prints notes on named measurement files that this command does not use.
fn note_idle_measurements(runs: &RunSet) {
    // in a folder, they are meant for other commands
    if !runs.source.is_one_rank() {
        return;
    }
    for run in &runs.runs {
        for file in &run.measurements {
            let unused = diagnostic!(
                MeasurementNotUsed,
                "{} is {}: not used here",
                file.path.display(),
                file.kind.describe()
            );
            notes::print([&unused.advise("`etlink analyze` shows it")]);
        }
    }
}

/// Returns true if a trace turned out to be a snapshot of PyTorch's allocator.
fn is_memory_snapshot(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(RunError::MemorySnapshot { name }) if name != "standard input"
    )
}
