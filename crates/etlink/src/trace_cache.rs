//! The cache of parsed traces: where it is, and what is said of it.

use crate::notes::print_note;
use etlink_run::{CacheUsage, ReadCache, text};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

const VARIABLE: &str = "ETLINK_CACHE";

// one for all runs that a command reads, so that one note tells of all
static CACHE: OnceLock<ReadCache> = OnceLock::new();

/// The cache in a folder, else in that of the variable, if either is given.
pub fn open(folder: Option<&Path>) -> Option<ReadCache> {
    let of_variable = || std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => PathBuf::from(of_variable()?),
    };
    let new = || {
        let cache = ReadCache::new(folder);
        match own_build() {
            Some(build) => cache.with_results(build),
            None => cache,
        }
    };
    Some(CACHE.get_or_init(new).clone())
}

/// What tells this program from another of its version: where it lies, its size, and when it was
/// written.
fn own_build() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let data = std::fs::metadata(&program).ok()?;
    let written = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let (bytes, written) = (data.len(), written.as_nanos());
    Some(format!("{} {bytes} {written}", program.display()))
}

/// Notes how many traces came from the cache, and how old they are.
pub fn note_usage() {
    if let Some(cache) = CACHE.get() {
        for note in usage_notes(cache.folder(), &cache.usage()) {
            print_note(&note);
        }
    }
}

fn usage_notes(folder: &Path, usage: &CacheUsage) -> Vec<String> {
    let mut notes = vec![];
    if usage.found > 0 {
        let age = usage.oldest.and_then(|oldest| oldest.elapsed().ok());
        let age = age.map_or_else(String::new, |age| {
            format!("; the oldest was parsed {} ago", text_of_age(age.as_secs()))
        });
        notes.push(format!(
            "{} not parsed again: {} has the parsed form, and the files are as they were then{age}",
            counted(usage.found),
            folder.display()
        ));
    }
    if usage.found_results > 0 {
        let age = usage.oldest_result.and_then(|oldest| oldest.elapsed().ok());
        let age = age.map_or_else(String::new, |age| {
            format!("; the oldest result is {} old", text_of_age(age.as_secs()))
        });
        let verb = if usage.found_results == 1 {
            "was"
        } else {
            "were"
        };
        notes.push(format!(
            "{} {verb} not linked again: {} has what this command made of the same files{age}",
            text::count(usage.found_results, "rank"),
            folder.display()
        ));
    }
    let problem = usage.problem.iter();
    notes.extend(problem.map(|problem| format!("the cache could not be used: {problem}")));
    notes
}

fn counted(traces: u64) -> String {
    let verb = if traces == 1 { "was" } else { "were" };
    format!("{} {verb}", text::count(traces, "trace"))
}

/// An age in the unit that fits it.
fn text_of_age(seconds: u64) -> String {
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let fitting = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    match fitting {
        Some((length, unit)) => format!("{} {unit}", seconds / length),
        None => format!("{seconds} seconds"),
    }
}
