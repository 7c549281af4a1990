//! Logs of NCCL's inspector in a folder.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::output::is_work_folder;
use crate::storage;
use crate::text::file_name;
use etlink_nccl_inspector::InspectorLog;
use std::path::{Path, PathBuf};

/// The logs of a folder.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    /// By path.
    pub logs: Vec<PathBuf>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// The logs in `root` and its subfolders. Subfolders that cannot be read are passed by.
///
/// # Errors
/// `root` cannot be read, or files in it are being replaced.
pub fn find_logs(root: &Path) -> Result<LogFiles, RunError> {
    let mut folders = vec![root.to_owned()];
    let mut logs = vec![];
    // a list, not recursion: nobody bounds how deep folders lie
    while let Some(folder) = folders.pop() {
        let entries = match storage::list(&folder).with_path(FileAction::ReadFolder, &folder) {
            Ok(entries) => entries,
            Err(_) if folder != root => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let is_file = entry.may_be_file();
            let path = entry.path;
            // links to folders are not followed: they can go in circles
            if entry.is_folder {
                if !is_work_folder(&path)? {
                    folders.push(path);
                }
            } else if is_file && may_be_log(&path) {
                let is_log = match input::open(&path, &Progress::hidden()) {
                    Ok(input) => input.kind == InputKind::NcclInspector,
                    // who reads it tells why it cannot be read
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

/// A log that lies there plain and packed is one (`gunzip -k`): the plain one.
fn without_packed_twins(all: &[PathBuf]) -> LogFiles {
    let mut found = LogFiles::default();
    for path in all {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let is_packed = ending.is_some_and(|ending| ending == "gz" || ending == "zst");
        // sorted, so that a folder of thousands of ranks takes no long search
        if is_packed && all.binary_search(&path.with_extension("")).is_ok() {
            let name = path.display();
            found
                .notes
                .push(format!("{name} is there unpacked too: it is left out"));
        } else {
            found.logs.push(path.clone());
        }
    }
    found
}

/// `<host>-pid<pid>.log` is the plugin's own name; its exporter also takes `.jsonl`.
fn may_be_log(path: &Path) -> bool {
    let name = file_name(path).to_lowercase();
    let plain = name
        .strip_suffix(".gz")
        .or(name.strip_suffix(".zst"))
        .unwrap_or(&name);
    [".log", ".jsonl", ".json"]
        .iter()
        .any(|ending| plain.ends_with(ending))
}

/// Reads a log.
///
/// # Errors
/// It cannot be opened, or has no line of the inspector.
pub fn read_log(path: &Path, progress: &Progress) -> Result<InspectorLog, RunError> {
    read_opened_log(input::open(path, progress)?)
}

/// Reads a log that is open already.
///
/// # Errors
/// As those of [`read_log`].
pub fn read_opened_log(input: InputFile) -> Result<InspectorLog, RunError> {
    if input.kind != InputKind::NcclInspector {
        return Err(input.refuse_kind(WantedTrace::Times).into());
    }
    let name = input.name;
    etlink_nccl_inspector::read(input.content)
        .map_err(|source| RunError::InspectorLog { name, source })
}
