//! The `etlink` command: arguments -> settings -> one function per subcommand.
//!
//! This crate alone opens files, reads the clock, uses the terminal, prints, and picks the exit
//! code: 0 done; 1 a check or a rank failed, a trace was left out, or `--strict` found a problem; 2
//! could not be done.
//!
//! The library has two callers: the program of this crate, and the Python extension, whose wheel
//! has the same command. [`documents`] has the results of commands as tables and values.
//!
//! The crates that do the work are re-exported as modules, so that one dependency is enough:
//! [`run`] opens traces, [`link`](mod@link) links them, [`chakra`] writes them for simulators.
#![allow(
    unreachable_pub,
    reason = "all but three functions and the modules is the command's own"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place for files, clock, environment and terminal"
)]

#[doc(no_inline)]
pub use etlink_analysis as analyze;
#[doc(no_inline)]
pub use etlink_analysis::findings;
#[doc(no_inline)]
pub use etlink_chakra as chakra;
#[doc(no_inline)]
pub use etlink_formats::host;
#[doc(no_inline)]
pub use etlink_formats::kineto;
#[doc(no_inline)]
pub use etlink_link as link;
#[doc(no_inline)]
pub use etlink_model as model;
#[doc(no_inline)]
pub use etlink_replay as replay;
#[doc(no_inline)]
pub use etlink_report as report;
#[doc(no_inline)]
pub use etlink_run as run;
#[doc(no_inline)]
#[cfg(feature = "parquet")]
pub use etlink_tables as tables;

#[cfg(all(unix, feature = "schema"))]
pub use commands::{NamedSchema, json_schemas};

mod allocator;
mod args;
mod commands;
mod cut_traces;
pub mod documents;
mod envelope;
mod kernel_rules;
mod learned_times;
mod notes;
mod op_tables;
mod own_command;
mod progress;
mod rank_columns;
mod rank_error;
#[cfg(feature = "parquet")]
mod record_tables;
mod run_diff;
mod run_findings;
mod run_query;
mod serial_host;
mod signals;
mod simulation;
mod table;
mod trace_cache;
#[cfg(feature = "parquet")]
mod trace_tables;
mod unreadable_files;
mod workbook;
mod written_files;

use clap::{CommandFactory, Parser};
use etlink_run::RunError;
use etlink_run::output::StdoutError;
use etlink_run::storage::without_secrets;
use std::ffi::OsString;

/// Result of a command that could be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done, without problems.
    Done,
    /// Done, but something was found.
    Found,
    /// Nothing could be done; the reason was printed.
    Nothing,
    /// A program was run, and ended with this exit code.
    Ran(u8),
}

impl Outcome {
    /// Returns [`Outcome::Done`], or [`Outcome::Found`] if something was left out or found.
    fn done_if(is_whole: bool) -> Outcome {
        if is_whole {
            Outcome::Done
        } else {
            Outcome::Found
        }
    }
}

/// Runs a command line, whose first word is the name of the program. Returns the exit code.
///
/// Prints the command's output, and ends the process on SIGINT, SIGTERM, and SIGHUP. A process can
/// run only one command: its threads and its signal handlers are set up for that command.
pub fn run_command(words: impl IntoIterator<Item = OsString>) -> u8 {
    // first, because parsing options already takes memory
    signals::end_without_memory();
    // here, so that no message can show them
    let words: Vec<OsString> = words.into_iter().map(without_secrets).collect();
    let args = match args::EtlinkArgs::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => {
            print_refusal(&error, &words);
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let outcome = commands::run(args);
    // a signal removes files that threads are still writing: their errors would hide the cause
    signals::wait_for_end();
    match outcome {
        // all results are good, but some input is missing
        Ok(Outcome::Done) if unreadable_files::are_any() => 1,
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Found) => 1,
        Ok(Outcome::Nothing) => 2,
        Ok(Outcome::Ran(code)) => code,
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            notes::print_message(format_args!("{error:#}"));
            // under --strict, damage is a finding, not a failure: see the exit codes in --help
            if is_refused(&error) { 1 } else { 2 }
        }
    }
}

/// Runs a command line like [`run_command`], within another program such as Python. `own_command`
/// starts a new `etlink` process, as `record` does to link its recording.
pub fn run_command_of(own_command: Vec<OsString>, words: impl IntoIterator<Item = OsString>) -> u8 {
    own_command::set_words(own_command);
    run_command(words)
}

/// Prints the error of an invalid command line. Help and the version are such errors too.
fn print_refusal(error: &clap::Error, words: &[OsString]) {
    let has_controls = |word: &OsString| word.to_string_lossy().contains(char::is_control);
    if error.use_stderr() && words.iter().any(has_controls) {
        // a shell replaces `*` by file names; print without colors, whose escapes are control
        // characters too
        notes::print_on_stderr(&table::plain_lines(&error.render().to_string()));
    } else {
        // a closed pipe changes nothing
        let _ = error.print();
    }
}

/// Returns the definition of the command line with its help, for manual pages and completions.
pub fn command_line() -> clap::Command {
    args::EtlinkArgs::command()
}

/// Returns true if the reader of our output has closed it (`etlink check … | head`). A pipe named
/// by `-o` does not count.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.is_closed_pipe();
    }
    let stdout = error.downcast_ref::<StdoutError>();
    stdout.is_some_and(StdoutError::is_closed_pipe)
}

/// Returns true if a trace was rejected because it is damaged.
fn is_refused(error: &anyhow::Error) -> bool {
    // the whole chain: commands add contexts to errors of the library
    let mut errors = error.chain().filter_map(|error| error.downcast_ref());
    errors.any(RunError::is_refused)
}
