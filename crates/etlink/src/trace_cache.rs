//! The cache of parsed traces: its location, and notes on its use.

use crate::notes;
use etlink_model::{Diagnostic, diagnostic};
use etlink_run::{CacheUsage, ReadCache, text};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

const VARIABLE: &str = "ETLINK_CACHE";

// one for all runs that a command reads, so that one note covers all
static CACHE: OnceLock<ReadCache> = OnceLock::new();

/// Opens the cache in `folder`, or else in the variable's folder, if either is given.
pub fn open(folder: Option<&Path>) -> Option<ReadCache> {
    let of_variable = || std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => PathBuf::from(of_variable()?),
    };
    Some(CACHE.get_or_init(|| in_folder(folder)).clone())
}

/// Opens a cache of results alone.
pub fn result_cache(folder: PathBuf) -> ReadCache {
    in_folder(folder).without_traces()
}

fn in_folder(folder: PathBuf) -> ReadCache {
    ReadCache::new(folder).with_results(env!("ETLINK_SOURCES").to_owned())
}

/// Prints notes on the number of traces from the cache, and their age.
pub fn note_usage() {
    if let Some(cache) = CACHE.get() {
        notes::print(&usage_notes(cache.folder(), &cache.usage()));
    }
}

fn usage_notes(folder: &Path, usage: &CacheUsage) -> Vec<Diagnostic> {
    let folder = folder.display();
    let mut notes = vec![];
    if usage.found_results > 0 {
        notes.push(diagnostic!(
            CacheUsed,
            "found the results of {} in {folder}; their files are unchanged{}",
            text::count(usage.found_results, "rank"),
            age_text("the oldest result", usage.oldest_result)
        ));
    }
    if usage.found > 0 {
        notes.push(diagnostic!(
            CacheUsed,
            "{} not parsed again: {folder} has the parsed form of the unchanged files{}",
            counted(usage.found, "trace file"),
            age_text("the oldest parsed form", usage.oldest)
        ));
    }
    if let Some(first) = &usage.first_damaged {
        let (those, first_of) = match usage.damaged {
            1 => ("1 damaged entry of the cache was".to_owned(), ""),
            many => (
                format!("{many} damaged entries of the cache were"),
                "first: ",
            ),
        };
        notes.push(diagnostic!(
            CacheProblem,
            "{those} rebuilt ({first_of}{first})"
        ));
    }
    let problem = usage.problem.iter();
    notes.extend(
        problem.map(|problem| diagnostic!(CacheProblem, "cannot use the cache: {problem}")),
    );
    notes
}

/// Formats a count with a verb: `1 rank was`, `2 trace files were`.
fn counted(count: u64, what: &str) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb}", text::count(count, what))
}

/// Describes the age of a cache entry, if known.
fn age_text(what: &str, written: Option<SystemTime>) -> String {
    let age = written.and_then(|written| written.elapsed().ok());
    age.map_or_else(String::new, |age| {
        format!("; {what} is {} old", text_of_age(age.as_secs()))
    })
}

/// Formats an age in the unit that fits it.
fn text_of_age(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let fitting = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    match fitting {
        Some((length, unit)) => text::count(seconds / length, unit),
        None => text::count(seconds, "second"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ranks_and_trace_files_are_told_apart() {
        let ago = |seconds| SystemTime::now().checked_sub(Duration::from_secs(seconds));
        let usage = CacheUsage {
            found: 2,
            oldest: ago(1),
            found_results: 1,
            oldest_result: ago(7_300),
            damaged: 1,
            first_damaged: Some("c/1.made: incomplete frame".to_owned()),
            ..CacheUsage::default()
        };
        let notes = usage_notes(Path::new("c"), &usage);
        assert!(
            notes[0]
                .message
                .starts_with("found the results of 1 rank in c;"),
            "{notes:?}"
        );
        assert!(
            notes[0]
                .message
                .ends_with("the oldest result is 2 hours old"),
            "{notes:?}"
        );
        assert!(
            notes[1].message.starts_with("2 trace files were"),
            "{notes:?}"
        );
        assert!(notes[1].message.ends_with(" is 1 second old"), "{notes:?}");
        assert_eq!(
            notes[2].message,
            "1 damaged entry of the cache was rebuilt (c/1.made: incomplete frame)"
        );
        let usage = CacheUsage {
            found: 1,
            ..CacheUsage::default()
        };
        let notes = usage_notes(Path::new("c"), &usage);
        assert!(
            notes[0].message.starts_with("1 trace file was not parsed"),
            "{notes:?}"
        );
    }
}
