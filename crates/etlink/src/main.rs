//! The `etlink` command: arguments -> settings -> one function per subcommand.
//!
//! This crate alone opens files, looks at the clock and the terminal, prints, and picks the
//! exit code: 0 done; 1 done, but a check failed, a rank failed, or damage was found under
//! `--strict`; 2 nothing could be done.
#![allow(unreachable_pub, reason = "a program has no outside")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place for files, clock, environment and terminal"
)]

mod args;
mod commands;
mod kernel_rules;
mod notes;
mod op_tables;
mod progress;
mod rank_columns;
mod rank_error;
mod run_diff;
mod run_findings;
mod signals;
mod table;

use clap::Parser;
use etlink_run::RunError;
use etlink_run::output::{OutputError, StdoutError};
use std::process::ExitCode;

/// How a command ended that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Done,
    /// Done, but something was found.
    Found,
    /// Nothing could be done; why was printed.
    Nothing,
    /// A program was run, and ended with this exit code.
    Ran(u8),
}

fn main() -> ExitCode {
    let args = args::EtlinkArgs::parse();
    let outcome = commands::run(args);
    // at a signal files go that threads still write: their errors would hide the cause
    signals::wait_for_end();
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Nothing) => ExitCode::from(2),
        Ok(Outcome::Ran(code)) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("etlink: {error:#}");
            // under --strict damage is a finding, not a failure: see the exit codes of --help
            ExitCode::from(if is_refused(&error) { 1 } else { 2 })
        }
    }
}

/// Whoever read our output has seen enough (`etlink check … | head`). A pipe that `-o` names is
/// another matter.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.is_closed_pipe();
    }
    if let Some(error) = error.downcast_ref::<OutputError>() {
        return error.is_closed_pipe();
    }
    let stdout = error.downcast_ref::<StdoutError>();
    stdout.is_some_and(StdoutError::is_closed_pipe)
}

/// Whether a trace was refused because it is damaged.
fn is_refused(error: &anyhow::Error) -> bool {
    // the whole chain: commands put contexts before errors of the library
    let mut errors = error.chain().filter_map(|error| error.downcast_ref());
    errors.any(RunError::is_refused)
}
