//! Notes for people. They go to standard error: standard output has results alone.

use crate::table::plain;
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

/// Prints a note.
pub fn print_note(text: &str) {
    if are_wanted() {
        // notes quote names of traces, and a terminal obeys control characters in them
        eprintln!("note: {}", plain(text));
    }
}

/// Prints what only some want to know, of a rank or a file.
pub fn print_details(name: &str, details: &[String]) {
    if is_verbose() {
        for text in details {
            print_note(&format!("{name}: {text}"));
        }
    }
}

/// Prints notes.
pub fn print_all(notes: &[String]) {
    for text in notes {
        print_note(text);
    }
}
