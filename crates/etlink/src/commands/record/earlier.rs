//! The recording that lies in the folder already: it is replaced only when there is a new one.
//!
//! ```text
//! old.json    names of its files, written before anything is moved
//! 3.old       file number 3 of that list: moved here before the first new trace gets its name
//! old.moved   all are moved
//! ```
//! Processes of the program move the files (`files.py`), the launcher removes them at its end or
//! puts them back; after a launcher that was killed, the next one does.

use super::disk;
use super::file_names::names;
use anyhow::{Context, Result};
use etlink_run::manifest::MANIFEST;
use std::path::{Path, PathBuf};

const JOURNAL: &str = "old.json";
const MOVED: &str = "old.moved";

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
pub fn settle(folder: &Path, work: &Path) -> Result<Earlier> {
    let journal = work.join(JOURNAL);
    let text = disk::read_if_there(&journal);
    // taken for absent, the files that it lists would go with the work folder
    let text = text.with_context(|| format!("cannot read {}", journal.display()))?;
    let Some(text) = text else {
        return Ok(Earlier::Absent);
    };
    // a journal that was cut is older than the first move
    let files: Vec<String> = etlink_json::from_slice(&text).unwrap_or_default();
    let aside = |index: usize| work.join(format!("{index}.old"));
    let unmoved: Vec<&String> = files
        .iter()
        .enumerate()
        .filter(|(index, _)| !aside(*index).exists())
        .map(|(_, file)| file)
        .collect();
    let present = recorded(folder)?;
    // a file that was neither left in its place nor is the manifest comes from a new cycle
    let is_replaced = present
        .iter()
        .any(|file| file != MANIFEST && !unmoved.contains(&file));
    for (index, file) in files.iter().enumerate() {
        let path = aside(index);
        // never moved, or settled by a launcher that was killed before it had settled the rest
        if !path.exists() {
            continue;
        }
        let settled = if is_replaced {
            disk::remove(&path)
        } else {
            disk::rename(&path, &folder.join(file))
        };
        settled.with_context(|| format!("cannot settle {}, which was {file}", path.display()))?;
    }
    for path in [journal, work.join(MOVED)] {
        if path.exists() {
            disk::remove(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(if is_replaced {
        Earlier::Replaced
    } else {
        Earlier::Stays
    })
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
