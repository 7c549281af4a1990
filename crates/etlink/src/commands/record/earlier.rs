//! The recording that lies in the folder already: it is replaced only when there is a new one.
//!
//! ```text
//! old.json      names of its files, written before anything is moved
//! 3.old         file number 3 of that list: moved here before the first new trace gets its name
//! old.moved     all are moved
//! old.replaced  new traces have taken their place: what is still here is to be removed
//! ```
//! Processes of the program move the files (`files.py`), the launcher removes them at its end or
//! puts them back; after a launcher that was killed, the next one does.

use super::disk;
use super::file_names::names;
use anyhow::{Context, Result, bail};
use etlink_run::manifest::MANIFEST;
use std::path::{Path, PathBuf};

const JOURNAL: &str = "old.json";
const MOVED: &str = "old.moved";
const REPLACED: &str = "old.replaced";
const ASIDE: &str = ".old";

/// Lists the files that a new recording would replace, relative to `folder`.
pub fn list(work: &Path, files: &[String]) -> Result<()> {
    let path = work.join(JOURNAL);
    let written = disk::write(&path, serde_json::to_string(files)?.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// What became of the earlier recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There was none.
    Absent,
    /// It is where it was.
    Stays,
    /// New traces have taken its place.
    Replaced,
}

/// Removes the earlier recording if there are new traces, else puts it back.
///
/// # Errors
/// A file cannot be settled: it stays in the work folder for the next launcher.
pub fn settle(folder: &Path, work: &Path) -> Result<Earlier> {
    let Some(files) = listed_files(work)? else {
        // by a launcher that was killed after the list had gone; beside the next list they would
        // say that its files are moved or replaced
        remove_if_there(&work.join(MOVED))?;
        remove_if_there(&work.join(REPLACED))?;
        return Ok(Earlier::Absent);
    };
    let is_replaced = is_replaced(folder, work, &files)?;
    if is_replaced {
        // first: a file that is removed looks later as if it had never been moved. `old.moved`
        // stays beside it, or a process that runs on would move its own traces here
        let path = work.join(REPLACED);
        let written = disk::write(&path, b"");
        written.with_context(|| format!("cannot write {}", path.display()))?;
    } else {
        // first: a process that runs on has to move anew what is put back
        remove_if_there(&work.join(MOVED))?;
    }
    let mut settled = Ok(());
    for (index, file) in files.iter().enumerate() {
        let path = path_aside(work, index);
        // never moved, or settled by a launcher that was killed before it had settled the rest
        if !path.exists() {
            continue;
        }
        let done = if is_replaced {
            disk::remove(&path)
        } else {
            put_back(&path, &folder.join(file))
        };
        let done =
            done.with_context(|| format!("cannot settle {}, which was {file}", path.display()));
        // the other files do not have to wait for this one
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

/// Whether what is in the folder is to be replaced, and no new trace is there yet.
pub fn is_replacing(work: &Path) -> bool {
    work.join(JOURNAL).exists() && !work.join(MOVED).exists()
}

/// Whether files of an earlier recording are in the work folder, and nowhere else.
pub fn has_files_aside(work: &Path) -> Result<bool> {
    let names = names(work)?;
    Ok(names.iter().any(|name| is_numbered(name, "", ASIDE)))
}

/// The files of the earlier recording, if there is one.
fn listed_files(work: &Path) -> Result<Option<Vec<String>>> {
    let journal = work.join(JOURNAL);
    let text = disk::read_if_there(&journal);
    // taken for absent, the files that it lists would never be settled
    let text = text.with_context(|| format!("cannot read {}", journal.display()))?;
    let Some(text) = text else { return Ok(None) };
    if let Ok(files) = etlink_json::from_slice(&text) {
        return Ok(Some(files));
    }
    if has_files_aside(work)? {
        bail!(
            "{} is damaged, so nobody knows the names of the traces beside it; move them away",
            journal.display()
        );
    }
    // a list that was cut is older than the first move
    Ok(Some(vec![]))
}

/// Whether new traces have taken the place of `files`.
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
    // a file that was neither left in its place nor is the manifest comes from a new cycle
    Ok(present
        .iter()
        .any(|file| file != MANIFEST && !unmoved.contains(&file)))
}

fn path_aside(work: &Path, index: usize) -> PathBuf {
    work.join(format!("{index}{ASIDE}"))
}

fn put_back(path: &Path, target: &Path) -> std::io::Result<()> {
    // the user may have removed the folder of a cycle, which looked empty
    target.parent().map_or(Ok(()), disk::make_folders)?;
    disk::rename(path, target)
}

fn remove_if_there(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    disk::remove(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// The files of a recording in `folder`, sorted, relative to it.
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
