//! Notes for people. They go to standard error: standard output has results alone.

use crate::table::{plain, plain_lines};
use etlink_run::discover::is_of_no_run;
use indexmap::IndexMap;
use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

/// How much is said beside the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Notes on what people should know.
    #[default]
    Normal,
    /// Also what is odd in traces but harmless.
    Verbose,
}

// a global, as standard error is: notes come from deep inside of commands
static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Settles how much is said, once, before work starts.
pub fn set_verbosity(verbosity: Verbosity) {
    // a second call would change nothing, and there is none
    let is_first = VERBOSITY.set(verbosity).is_ok();
    debug_assert!(is_first, "the verbosity is set once");
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Whether harmless oddities are wanted too.
pub fn is_verbose() -> bool {
    verbosity() == Verbosity::Verbose
}

/// Whether notes are printed.
pub fn are_wanted() -> bool {
    verbosity() != Verbosity::Quiet
}

/// Prints a text on standard error, as it is.
///
/// Not by `eprint!`, which panics where nothing can be written: the work goes before the word.
pub fn print_on_stderr(text: &str) {
    // one call, so that lines of processes beside this one do not mix with ours
    drop(std::io::stderr().write_all(text.as_bytes()));
}

fn print_line(text: impl Display) {
    print_on_stderr(&format!("{text}\n"));
}

/// Prints a note.
pub fn print_note(text: &str) {
    if are_wanted() {
        // notes quote names of traces, and a terminal obeys control characters in them
        print_line(format_args!("note: {}", plain(text)));
    }
}

/// Prints why something could not be done, what was found, or what was recorded. `--quiet` does not
/// hide it: it is no note.
pub fn print_message(message: impl Display) {
    // errors name files: whoever packed a folder chose how
    let text = message.to_string();
    print_line(format_args!("etlink: {}", plain_lines(&text)));
}

/// Prints what only some want to know, of a rank or a file.
pub fn print_details(name: &str, details: &[String]) {
    if is_verbose() {
        for text in details {
            print_note(&format!("{name}: {text}"));
        }
    }
}

/// Prints the notes of runs, each with the name of its run, which is empty where there is one; what
/// is said of several runs appears once.
pub fn print_of_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<String>)>) {
    print_all(&name_runs(runs));
}

/// Notes after the names of their runs.
pub fn name_runs<'n>(runs: impl Iterator<Item = (&'n str, Vec<String>)>) -> Vec<String> {
    // by first appearance: the order of runs, and the same at each call
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

/// Notes of two runs that are compared, each after `before` or `after`.
pub fn name_sides([before, after]: [Vec<String>; 2]) -> Vec<String> {
    name_runs([("before", before), ("after", after)].into_iter())
}

/// The first few of a list.
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
