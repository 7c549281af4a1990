//! The manifest of a killed command. Each command writes a draft that describes how it records,
//! next to the reports of its processes. If the command is killed, the next one makes a manifest
//! from both before removing them.

use super::files::{self, names};
use anyhow::Result;
use etlink_run::manifest::DRAFT;
use etlink_torch::{Cycle, Manifest, Process, Rank};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Note that explains why this manifest is incomplete.
const KILLED: &str = "`etlink record` was killed before it wrote this manifest: traces are neither compressed nor linked, and \
                      how the program ended is not known";

fn draft(work: &Path, launcher: &str) -> PathBuf {
    work.join(format!("{launcher}{DRAFT}"))
}

/// Writes what is known before the program starts. The draft matters only if the command is killed.
pub fn write_draft(work: &Path, launcher: &str, manifest: &Manifest) -> Result<()> {
    files::write(&draft(work, launcher), &serde_json::to_vec(manifest)?)
}

/// Removes the draft, because the manifest is written.
pub fn remove_draft(work: &Path, launcher: &str) {
    // a draft that stays behind is harmless: the manifest exists
    drop(fs::remove_file(draft(work, launcher)));
}

/// Returns the launchers that left a draft in the work folder.
pub fn launchers(work: &Path) -> Result<Vec<String>> {
    let names = names(work)?;
    let launchers = names.iter().filter_map(|name| name.strip_suffix(DRAFT));
    let mut launchers: Vec<String> = launchers.map(str::to_owned).collect();
    launchers.sort();
    Ok(launchers)
}

/// Returns the manifest of processes whose traces are in `folder`; `None` if there are no such
/// traces.
///
/// # Errors
/// The draft cannot be read.
pub fn manifest(
    folder: &Path,
    work: &Path,
    launcher: &str,
    processes: Vec<Process>,
) -> Result<Option<Value>> {
    let text = files::read(&draft(work, launcher))?;
    // a truncated draft counts as empty
    let mut list: Map<String, Value> = etlink_json::from_slice(&text).unwrap_or_default();
    let mut ranks = vec![];
    for mut process in processes {
        process.cycles.retain(|cycle| has_traces(folder, cycle));
        if !process.cycles.is_empty() {
            ranks.push(Rank {
                process,
                lost: false,
            });
        }
    }
    if ranks.is_empty() {
        return Ok(None);
    }
    ranks.sort_by_key(|rank| (rank.process.rank, rank.process.pid));
    let mut notes = vec![KILLED.to_owned()];
    for rank in &ranks {
        let name = match rank.process.rank {
            Some(number) => format!("rank {number}"),
            None => format!("process {}", rank.process.pid),
        };
        let of_rank = rank.process.notes.iter();
        notes.extend(of_rank.map(|note| format!("{name}: {note}")));
    }
    list.insert("ended".to_owned(), Value::Null);
    list.insert("ranks".to_owned(), serde_json::to_value(&ranks)?);
    list.insert("notes".to_owned(), json!(notes));
    Ok(Some(Value::Object(list)))
}

fn has_traces(folder: &Path, cycle: &Cycle) -> bool {
    let traces = [&cycle.host_trace, &cycle.device_trace];
    traces.iter().all(|name| folder.join(name).exists())
}
