//! The recording that is already in the folder: replaced only once a new one exists.
//!
//! ```text
//! old.json      names of the old files, written before anything is moved
//! 3.old         file number 3 of that list: moved here before the first new trace gets its name
//! old.moved     all files are moved
//! old.replaced  new traces have taken their place: files that are still here can be removed
//! ```
//! Processes of the program move the files (`files.py`). The launcher removes them at its end or
//! puts them back; if it was killed, the next launcher does.

use super::files::{self, names, remove_if_there};
use anyhow::{Context, Result, bail};
use etlink_run::manifest::MANIFEST;
use std::fs;
use std::path::{Path, PathBuf};

const JOURNAL: &str = "old.json";
const MOVED: &str = "old.moved";
const REPLACED: &str = "old.replaced";
const ASIDE: &str = ".old";

/// Lists the files that a new recording would replace, relative to `folder`.
pub fn list(work: &Path, listed: &[String]) -> Result<()> {
    files::write(&work.join(JOURNAL), &serde_json::to_vec(listed)?)
}

/// Fate of the earlier recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There was no earlier recording.
    Absent,
    /// The earlier recording is unchanged.
    Stays,
    /// New traces replaced the earlier recording.
    Replaced,
}

/// Removes the earlier recording if there are new traces, else puts it back.
///
/// # Errors
/// A file cannot be settled: it stays in the work folder for the next launcher.
pub fn settle(folder: &Path, work: &Path) -> Result<Earlier> {
    let Some(files) = listed_files(work)? else {
        // left by a launcher that was killed after removing the list; next to a new list these
        // files would claim that its files are moved or replaced
        remove_if_there(&work.join(MOVED))?;
        remove_if_there(&work.join(REPLACED))?;
        return Ok(Earlier::Absent);
    };
    let is_replaced = is_replaced(folder, work, &files)?;
    if is_replaced {
        // must come first: later, a removed file looks as if it had never been moved. `old.moved`
        // stays too, or a process that is still running would move its own traces here
        files::write(&work.join(REPLACED), b"")?;
    } else {
        // must come first: a process that is still running has to move the restored files again
        remove_if_there(&work.join(MOVED))?;
    }
    let mut settled = Ok(());
    for (index, file) in files.iter().enumerate() {
        let path = path_aside(work, index);
        // never moved, or settled by a launcher that was killed before it settled the rest
        if !path.exists() {
            continue;
        }
        let done = if is_replaced {
            fs::remove_file(&path)
        } else {
            put_back(&path, &folder.join(file))
        };
        let done = done.with_context(|| {
            format!(
                "cannot restore or remove {}, which was {file}",
                path.display()
            )
        });
        // a failure must not keep the other files waiting
        settled = settled.and(done);
    }
    settled?;
    for name in [JOURNAL, MOVED, REPLACED] {
        remove_if_there(&work.join(name))?;
    }
    Ok(if is_replaced {
        Earlier::Replaced
    } else {
        Earlier::Stays
    })
}

/// Returns true if the files in the folder will be replaced and no new trace exists yet.
pub fn is_replacing(work: &Path) -> bool {
    work.join(JOURNAL).exists() && !work.join(MOVED).exists()
}

/// Returns true if the work folder holds the only copies of files of an earlier recording.
pub fn has_files_aside(work: &Path) -> Result<bool> {
    let names = names(work)?;
    Ok(names.iter().any(|name| is_numbered(name, "", ASIDE)))
}

/// Returns the files of the earlier recording, if there is one.
fn listed_files(work: &Path) -> Result<Option<Vec<String>>> {
    let journal = work.join(JOURNAL);
    // if an unreadable list counted as absent, its files would never be settled
    let Some(text) = files::read_if_there(&journal)? else {
        return Ok(None);
    };
    if let Ok(files) = etlink_json::from_slice(&text) {
        return Ok(Some(files));
    }
    if has_files_aside(work)? {
        bail!(
            "{} is damaged, so the names of the traces next to it are unknown; move the traces away",
            journal.display()
        );
    }
    // a truncated list was written before the first move
    Ok(Some(vec![]))
}

/// Returns true if new traces have replaced `files`.
fn is_replaced(folder: &Path, work: &Path, files: &[String]) -> Result<bool> {
    if work.join(REPLACED).exists() {
        return Ok(true);
    }
    let unmoved: Vec<&String> = files
        .iter()
        .enumerate()
        .filter(|(index, _)| !path_aside(work, *index).exists())
        .map(|(_, file)| file)
        .collect();
    let present = recorded(folder)?;
    // any other file, except the manifest, comes from a new cycle
    Ok(present
        .iter()
        .any(|file| file != MANIFEST && !unmoved.contains(&file)))
}

fn path_aside(work: &Path, index: usize) -> PathBuf {
    work.join(format!("{index}{ASIDE}"))
}

fn put_back(path: &Path, target: &Path) -> std::io::Result<()> {
    // the user may have removed the folder of a cycle because it looked empty
    target.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::rename(path, target)
}

/// Returns the files of a recording in `folder`, sorted, relative to the folder.
pub fn recorded(folder: &Path) -> Result<Vec<String>> {
    let mut files = vec![];
    let entries = names(folder)?;
    let cycles = entries
        .iter()
        .filter(|name| is_numbered(name, "cycle_", ""));
    let places = std::iter::once(PathBuf::new()).chain(cycles.map(PathBuf::from));
    for place in places.filter(|place| folder.join(place).is_dir()) {
        let inside = names(&folder.join(&place))?;
        let recorded = inside.iter().filter(|name| is_recorded(name));
        files.extend(recorded.map(|name| place.join(name).to_string_lossy().into_owned()));
    }
    files.sort();
    Ok(files)
}

fn is_recorded(name: &str) -> bool {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    name == MANIFEST
        || is_numbered(plain, "flight_recorder_", ".pickle")
        || is_numbered(plain, "memory_snapshot_", ".pickle")
        || is_numbered(plain, "torch_et_", ".json")
        || is_numbered(plain, "kineto_trace_", ".json")
}

fn is_numbered(name: &str, prefix: &str, suffix: &str) -> bool {
    let number = name
        .strip_prefix(prefix)
        .and_then(|name| name.strip_suffix(suffix));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
