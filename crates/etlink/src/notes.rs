//! Diagnostics for people, as notes on standard error: standard output has only results.

use crate::table::{plain, plain_lines};
use etlink_model::Diagnostic;
use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

/// Verbosity of the output besides the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Only errors.
    Quiet,
    /// Errors, and notes that users should know.
    #[default]
    Normal,
    /// Also harmless anomalies of traces.
    Verbose,
}

// a global, like standard error: notes come from deep inside commands
static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity, once, before work starts.
pub fn set_verbosity(verbosity: Verbosity) {
    // a second call would have no effect, and there is none
    let is_first = VERBOSITY.set(verbosity).is_ok();
    debug_assert!(is_first, "the verbosity is set once");
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Returns true if notes on harmless anomalies are wanted too.
pub fn is_verbose() -> bool {
    verbosity() == Verbosity::Verbose
}

/// Returns true if notes are printed.
pub fn are_wanted() -> bool {
    verbosity() != Verbosity::Quiet
}

/// Prints a text to standard error, unchanged.
///
/// Does not use `eprint!`, which panics if writing fails: the work matters more than the message.
pub fn print_on_stderr(text: &str) {
    // one call, so that lines of other processes do not mix with ours
    drop(std::io::stderr().write_all(text.as_bytes()));
}

fn print_line(text: impl Display) {
    print_on_stderr(&format!("{text}\n"));
}

/// Prints diagnostics, each on a line; those that differ only in their subjects once.
pub fn print<'d>(all: impl IntoIterator<Item = &'d Diagnostic>) {
    if are_wanted() {
        for told in Diagnostic::merge(all.into_iter().cloned()) {
            print_text(&told.to_string());
        }
    }
}

fn print_text(text: &str) {
    // notes quote names from traces, whose control characters a terminal would obey
    print_line(format_args!("note: {}", plain(text)));
}

/// Prints an error, a finding, or a summary. `--quiet` does not hide it, because it is not a note.
pub fn print_message(message: impl Display) {
    // errors quote file names, which may contain control characters
    let text = message.to_string();
    print_line(format_args!("etlink: {}", plain_lines(&text)));
}

/// Prints details of a rank or a file in verbose mode.
pub fn print_details<T: Display>(name: &str, details: &[T]) {
    if is_verbose() {
        for text in details {
            print_text(&format!("{name}: {text}"));
        }
    }
}

/// Prints the diagnostics of runs, each with its run's name (empty if there is only one).
pub fn print_of_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<Diagnostic>)>) {
    print(&name_runs(runs));
}

/// Adds the names of their runs to diagnostics, and merges equal ones.
pub fn name_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<Diagnostic>)>) -> Vec<Diagnostic> {
    let named = runs.flat_map(|(run, told)| told.into_iter().map(|one| one.of_run(run)));
    Diagnostic::merge(named)
}

/// Adds `before` or `after` to the diagnostics of two compared runs.
pub fn name_sides([before, after]: [Vec<Diagnostic>; 2]) -> Vec<Diagnostic> {
    name_runs([("before", before), ("after", after)].into_iter())
}

/// Prints diagnostics next to the error that ends the command, without those whose reason it
/// states.
pub fn print_beside(all: &[Diagnostic], error: &anyhow::Error) {
    let said = format!("{error:#}");
    let is_said = |told: &&Diagnostic| {
        let reason = told.message.split_once(" is left out: ");
        reason.is_some_and(|(_, reason)| said.contains(reason))
    };
    print(all.iter().filter(|told| !is_said(told)));
}
