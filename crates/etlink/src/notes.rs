//! Notes for people, on standard error: standard output has only results.

use crate::table::{plain, plain_lines};
use etlink_run::discover::is_of_no_run;
use indexmap::IndexMap;
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

/// Prints a note.
pub fn print_note(text: &str) {
    if are_wanted() {
        // notes quote names from traces, whose control characters a terminal would obey
        print_line(format_args!("note: {}", plain(text)));
    }
}

/// Prints an error, a finding, or a summary. `--quiet` does not hide it, because it is not a note.
pub fn print_message(message: impl Display) {
    // errors quote file names, which may contain control characters
    let text = message.to_string();
    print_line(format_args!("etlink: {}", plain_lines(&text)));
}

/// Prints details of a rank or a file in verbose mode.
pub fn print_details(name: &str, details: &[String]) {
    if is_verbose() {
        for text in details {
            print_note(&format!("{name}: {text}"));
        }
    }
}

/// Prints the notes of runs, each with its run's name (empty if there is only one); a note that
/// several runs share appears once.
pub fn print_of_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<String>)>) {
    print_all(&name_runs(runs));
}

/// Prefixes notes with the names of their runs, and merges equal notes.
pub fn name_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<String>)>) -> Vec<String> {
    // by first appearance: in the order of runs, and the same for each call
    let mut by_note: IndexMap<String, Vec<&str>> = IndexMap::new();
    for (run, notes) in runs {
        for note in notes {
            by_note.entry(note).or_default().push(run);
        }
    }
    let mut named = vec![];
    for (note, runs) in by_note {
        named.push(match &runs[..] {
            _ if is_of_no_run(&note) => note,
            [] | [""] => note,
            [run] => format!("{run}: {note}"),
            several => format!("{} runs ({}): {note}", several.len(), first_names(several)),
        });
    }
    named
}

/// Prefixes the notes of two compared runs with `before` or `after`.
pub fn name_sides([before, after]: [Vec<String>; 2]) -> Vec<String> {
    name_runs([("before", before), ("after", after)].into_iter())
}

/// Joins the first few names of a list.
fn first_names(names: &[&str]) -> String {
    match names {
        [a, b, c, _, ..] => format!("{a}, {b}, {c}, …"),
        few => few.join(", "),
    }
}

/// Prints notes.
pub fn print_all(notes: &[String]) {
    for text in notes {
        print_note(text);
    }
}

/// Prints notes next to the error that ends the command, without those whose reason it states.
pub fn print_beside(notes: &[String], error: &anyhow::Error) {
    let said = format!("{error:#}");
    let is_said = |note: &str| {
        let reason = note.split_once(" is left out: ");
        reason.is_some_and(|(_, reason)| said.contains(reason))
    };
    for text in notes.iter().filter(|note| !is_said(note)) {
        print_note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_several_runs_appear_once() {
        let notes = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let runs = [
            ("a", notes(&["CPU run", "one clock"])),
            ("b", notes(&["CPU run"])),
            ("c", notes(&["no clock"])),
        ];
        assert_eq!(
            name_runs(runs.into_iter()),
            ["2 runs (a, b): CPU run", "a: one clock", "c: no clock"]
        );
        assert_eq!(name_runs([("", notes(&["alone"]))].into_iter()), ["alone"]);
    }
}
