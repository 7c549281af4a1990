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
mod record;
mod replay;
mod report;
mod scale;
mod schedule;
#[cfg(feature = "schema")]
mod schemas;
mod simulated;
mod top;
mod trigger;

pub use analyze::{AnalyzeDocument, AnalyzeQuery, HtaDocument, HtaQuery};
pub use diff::DiffDocument;
pub use findings::{FindingsReport, findings_of_run, findings_phase};
pub use ranks::RanksDocument;
pub use replay::{ReplayDocument, ReplayQuery};
pub use report::report_page;
#[cfg(feature = "schema")]
pub use schemas::{NamedSchema, json_schemas};
pub use top::TopDocument;

use crate::Outcome;
use crate::args::{EtlinkArgs, EtlinkCommand};
use crate::envelope::{JsonReport, print_json_report};
use crate::table::{count, fold_lines, plain, plain_lines};
use crate::{notes, signals, trace_cache, unreadable_files};
use anyhow::{Context, Result};
use etlink_model::AdvisedError;
use etlink_run::RunSet;
use etlink_run::output::StdoutError;
use etlink_run::phases::ShardResults;
use std::io::Write;
use std::num::NonZeroUsize;

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
    /// For people.
    Text,
}

/// Carries out what was typed.
pub fn run(args: EtlinkArgs) -> Result<Outcome> {
    // before anything else: opening a source may have something to note
    notes::set_verbosity(args.verbosity());
    // a program that is recorded gets the signals itself, and a request is taken back
    let is_own = matches!(
        args.command,
        EtlinkCommand::Record(_) | EtlinkCommand::Trigger(_)
    );
    if !is_own {
        signals::install_handlers().context("cannot listen for signals")?;
    }
    let outcome = run_subcommand(args.command);
    trace_cache::note_usage();
    outcome
}

fn run_subcommand(command: EtlinkCommand) -> Result<Outcome> {
    match command {
        EtlinkCommand::Link(args) => link::run(args),
        EtlinkCommand::Merge(args) => merge::run(args),
        EtlinkCommand::Ranks(args) => ranks::run(args),
        EtlinkCommand::Analyze(args) => analyze::run(args),
        EtlinkCommand::Diff(args) => diff::run(args),
        EtlinkCommand::Findings(args) => findings::run(args),
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
        EtlinkCommand::Trigger(args) => trigger::run(&args),
        EtlinkCommand::Schedule(args) => schedule::run(&args),
        EtlinkCommand::Completions(args) => completions::run(&args),
    }
}

/// More threads than this never help, and a mistyped `-j` shall not start thousands.
const MAX_THREADS: usize = 64;

/// `-j`, or all cores.
pub fn start_threads(asked: Option<u32>) -> Result<usize> {
    let threads = match asked {
        Some(asked) => asked as usize,
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let threads = threads.min(MAX_THREADS);
    // one pool for the process, before any work: a later one would be refused
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().map_err(|error| {
        // each thread takes some megabytes of addresses
        let remedy = "use fewer threads (-j 1), or raise the limits of memory and processes \
                      (`ulimit -v`, `ulimit -u`)";
        AdvisedError::new(format!("cannot start {threads} threads: {error}"), remedy)
    })?;
    Ok(threads)
}

/// Prints a report for people: no line is wider than the output.
fn print_report(text: &str) -> Result<()> {
    print_text(&fold_lines(text))
}

/// That a rank failed, and why. Names of files can hold ends of lines, which would look like more
/// ranks.
fn failed_line(name: &str, message: &str) -> String {
    format!("failed: {}: {}\n", plain(name), plain(message))
}

/// Prints a text, in which names of traces and files can be: a terminal obeys control characters.
fn print_text(text: &str) -> Result<()> {
    let text = plain_lines(text);
    // not by print!, which panics when the reader is gone
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        // a type of its own: `main` knows a closed pipe by it, which is no failure
        .map_err(StdoutError)?;
    Ok(())
}

impl JsonReport for ShardResults {
    const SCHEMA: &'static str = "etlink.shard";
}

/// Prints what a shard of a report did.
fn print_shard(shard: &ShardResults, json: bool) -> Result<Outcome> {
    if json {
        print_json_report(shard)?;
    } else {
        let mut text = String::new();
        for failed in &shard.failed {
            text += &failed_line(&failed.name, &failed.message);
        }
        let failed = shard.failed.len();
        let done = count((shard.ranks - failed) as u64, "rank");
        text += &format!("{done} summarized, {failed} failed\n");
        print_report(&text)?;
    }
    Ok(if shard.failed.is_empty() {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// Which files of each run were paired and which are not used, for those who want to know. Where some
/// could not be read, the command ends with 1.
pub(crate) fn print_run_files(runs: &RunSet) {
    unreadable_files::record(runs);
    if !notes::is_verbose() {
        return;
    }
    for (index, run) in runs.runs.iter().enumerate() {
        let title = runs.run_title(index);
        // who names the files of a rank knows them
        if !runs.source.is_one_rank() {
            notes::print_details(&title, &run.pairing_notes());
        }
        notes::print_details(&title, &run.unused);
    }
}

/// Says which files that were named as measured beside the trace say nothing to this command.
fn note_idle_measurements(runs: &RunSet) {
    // in a folder they lie for other commands
    if !runs.source.is_one_rank() {
        return;
    }
    for run in &runs.runs {
        for file in &run.measurements {
            notes::print_note(&format!(
                "{} is {}: not used here; `etlink analyze` shows it",
                file.path.display(),
                file.kind.describe()
            ));
        }
    }
}
