//! Logs of NCCL's inspector in a folder: each belongs to the trace of its process.

use super::candidate::recording_process;
use super::twins::without_packed_twins;
use crate::Progress;
use crate::input::{self, InputKind};
use crate::run_files::RunFiles;
use crate::text::{self, has_ending};
use etlink_model::{Diagnostic, diagnostic};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Length of a log's beginning that has at least one whole line.
const HEAD_BYTES: u64 = 1 << 16;

/// Returns true if a file is a log under the plugin's own name.
pub(crate) fn is_log(path: &Path) -> bool {
    has_ending(path, &[".log"])
        && input::open(path, &Progress::hidden())
            .is_ok_and(|input| input.kind == InputKind::NcclInspector)
}

/// Assigns logs to the ranks of runs: the log of a process to its trace. Returns the others; the first
/// run has a note on them.
pub(crate) fn pair_logs(runs: &mut [RunFiles], logs: Vec<PathBuf>) -> Vec<PathBuf> {
    if runs.is_empty() || logs.is_empty() {
        return logs;
    }
    let (logs, _) = without_packed_twins(logs);
    let mut of_process: BTreeMap<i64, Vec<(String, PathBuf)>> = BTreeMap::new();
    let mut rest = vec![];
    for path in logs {
        match writer_of(&path) {
            Some((host, process)) => of_process.entry(process).or_default().push((host, path)),
            None => rest.push(path),
        }
    }
    for rank in runs.iter_mut().flat_map(|run| &mut run.ranks) {
        let Some((host, process)) = rank.device.as_deref().and_then(recording_process) else {
            continue;
        };
        let logs = of_process.entry(process).or_default();
        let is_own = |(own, _): &(String, PathBuf)| {
            own.is_empty() || host.as_ref().is_none_or(|host| host == own)
        };
        if let Some(at) = logs.iter().position(is_own) {
            rank.inspector = Some(logs.swap_remove(at).1);
        }
    }
    let unpaired = of_process.into_values().flatten();
    rest.extend(unpaired.map(|(_, path)| path));
    if !rest.is_empty() {
        let next_to = "traces, none of which is of its process";
        runs[0].diagnostics.push(ignored_note(rest.len(), next_to));
    }
    rest
}

/// Returns the host and process in the first line of a log.
fn writer_of(path: &Path) -> Option<(String, i64)> {
    let input = input::open(path, &Progress::hidden()).ok()?;
    let head = input.content.take(HEAD_BYTES);
    let log = etlink_formats::nccl_inspector::read(head).ok()?;
    let first = log.communicators.into_iter().next()?;
    Some((first.host, first.pid))
}

/// Returns the fact that logs belong to no recording.
pub fn ignored_note(logs: usize, next_to: &str) -> Diagnostic {
    let number = text::count(logs as u64, "log");
    let ignored = diagnostic!(
        FileIgnored,
        "ignoring {number} of NCCL's inspector next to the {next_to}"
    );
    ignored.advise(
        "for bandwidths, put logs in their own folder and pass the folder to `etlink ranks`",
    )
}
