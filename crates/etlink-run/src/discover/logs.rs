//! Logs of NCCL's inspector in a folder: each belongs to the trace of its process.

use super::candidate::recording_process;
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

/// Logs found in a folder.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    /// Paths of the logs, sorted.
    pub logs: Vec<PathBuf>,
    /// Facts about excluded files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Keeps the plain file of a log that also exists compressed (`gunzip -k`). `all` is sorted.
pub(crate) fn without_packed_logs(all: &[PathBuf]) -> LogFiles {
    let mut found = LogFiles::default();
    for path in all {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let is_packed = ending.is_some_and(|ending| ending == "gz" || ending == "zst");
        // binary search, for folders of thousands of ranks
        if is_packed && all.binary_search(&path.with_extension("")).is_ok() {
            let name = path.display();
            found.diagnostics.push(diagnostic!(
                FileLeftOut,
                "{name} is left out: the folder has an uncompressed copy"
            ));
        } else {
            found.logs.push(path.clone());
        }
    }
    found
}

/// Returns true if a file is a log under the plugin's own name.
pub(crate) fn is_log(path: &Path) -> bool {
    has_ending(path, &[".log"])
        && input::open(path, &Progress::hidden())
            .is_ok_and(|input| input.kind == InputKind::NcclInspector)
}

/// Assigns logs to the ranks of runs: the log of a process to its trace. Returns the others; the first
/// run has a note on them.
pub(crate) fn pair_logs(runs: &mut [RunFiles], mut logs: Vec<PathBuf>) -> Vec<PathBuf> {
    if runs.is_empty() || logs.is_empty() {
        return logs;
    }
    logs.sort();
    let mut of_process: BTreeMap<i64, Vec<(String, PathBuf)>> = BTreeMap::new();
    let mut rest = vec![];
    for path in without_packed_logs(&logs).logs {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_copies_are_left_out_in_any_order() {
        let paths = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        for names in [
            ["b/x.log", "b/x.log.gz", "a/x.log", "a/x.log.gz"],
            ["a/x.log.gz", "b/x.log.gz", "b/x.log", "a/x.log"],
        ] {
            let rest = pair_logs(&mut [RunFiles::default()], paths(&names));
            assert_eq!(rest, paths(&["a/x.log", "b/x.log"]), "{names:?}");
        }
    }
}
