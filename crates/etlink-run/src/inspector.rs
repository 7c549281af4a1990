//! Logs of NCCL's inspector in a folder.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::output::is_work_folder;
use crate::storage;
use crate::text::has_ending;
use etlink_formats::nccl_inspector::InspectorLog;
use etlink_model::{Diagnostic, diagnostic};
use std::path::{Path, PathBuf};

/// Endings of logs. The plugin writes `<host>-pid<pid>.log`; its exporter also accepts `.jsonl`.
const ENDINGS: [&str; 3] = [".log", ".jsonl", ".json"];

/// Logs found in a folder.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    /// Paths of the logs, sorted.
    pub logs: Vec<PathBuf>,
    /// Facts about excluded files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Finds the logs in `root` and its subfolders. Skips unreadable subfolders.
///
/// # Errors
/// Fails if `root` cannot be read, or files in it are being replaced.
pub fn find_logs(root: &Path) -> Result<LogFiles, RunError> {
    let mut folders = vec![root.to_owned()];
    let mut logs = vec![];
    // a list instead of recursion: the depth of folders is unlimited
    while let Some(folder) = folders.pop() {
        let entries = match storage::list(&folder).with_path(FileAction::ReadFolder, &folder) {
            Ok(entries) => entries,
            Err(_) if folder != root => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let is_file = entry.may_be_file();
            let path = entry.path;
            // skips links to folders, which may form cycles
            if entry.is_folder {
                if !is_work_folder(&path)? {
                    folders.push(path);
                }
            } else if is_file && has_ending(&path, &ENDINGS) {
                let is_log = match input::open(&path, &Progress::hidden()) {
                    Ok(input) => input.kind == InputKind::NcclInspector,
                    // reading it later reports the error
                    Err(error) => error.into_failed_call().is_some(),
                };
                if is_log {
                    logs.push(path);
                }
            }
        }
    }
    logs.sort();
    Ok(without_packed_twins(&logs))
}

/// Keeps the plain file of a log that also exists compressed (`gunzip -k`).
fn without_packed_twins(all: &[PathBuf]) -> LogFiles {
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

/// Returns a note on logs that are ignored next to other recordings; `None` without logs.
pub fn ignored_note(logs: usize, next_to: &str) -> Option<Diagnostic> {
    let number = match logs {
        0 => return None,
        1 => "1 log".to_owned(),
        several => format!("{several} logs"),
    };
    let ignored = diagnostic!(
        FileIgnored,
        "ignoring {number} of NCCL's inspector next to the {next_to}"
    );
    let remedy =
        "for bandwidths, put logs in their own folder and pass the folder to `etlink ranks`";
    Some(ignored.advise(remedy))
}

/// Reads a log.
///
/// # Errors
/// Fails if the file cannot be opened, or has no line of the inspector.
pub fn read_log(path: &Path, progress: &Progress) -> Result<InspectorLog, RunError> {
    read_opened_log(input::open(path, progress)?)
}

/// Reads a log that is already open.
///
/// # Errors
/// Fails like [`read_log`].
pub fn read_opened_log(input: InputFile) -> Result<InspectorLog, RunError> {
    if input.kind != InputKind::NcclInspector {
        return Err(input.refuse_kind(WantedTrace::Times));
    }
    etlink_formats::nccl_inspector::read(input.content)
        .map_err(|cause| RunError::unreadable(input.name, cause))
}
