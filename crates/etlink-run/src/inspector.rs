//! Logs of NCCL's inspector: finds them in a folder, and adds their data to traces.

use crate::Progress;
use crate::discover::{search_folders, without_packed_twins};
use crate::error::RunError;
use crate::input::{self, InputKind, WantedTrace};
use crate::text;
use etlink_formats::nccl_inspector::{InspectorLog, InspectorMatches, add_collectives};
use etlink_model::{DeviceTrace, Diagnostic, diagnostic};
use std::path::{Path, PathBuf};

/// Finds the logs in `root` and its subfolders, sorted, with notes on files that are left out. Skips
/// unreadable subfolders.
///
/// # Errors
/// Fails if `root` cannot be read, or files in it are being replaced.
pub fn find_logs(root: &Path) -> Result<(Vec<PathBuf>, Vec<Diagnostic>), RunError> {
    let mut logs = search_folders(root)?.logs;
    logs.sort();
    Ok(without_packed_twins(logs))
}

/// Adds data from the log of its process to the collectives of a trace. Returns notes. An unreadable
/// log does not prevent reading the trace.
pub(crate) fn describe_collectives(
    log: Option<&Path>,
    device: &mut DeviceTrace,
    progress: &Progress,
) -> Vec<Diagnostic> {
    let Some(path) = log else {
        return vec![];
    };
    let log = match read_log(path, progress) {
        Ok(log) => log,
        Err(error) => {
            let why = text::error_chain(&error);
            return vec![diagnostic!(DumpNotUsed, "{why}; the log is not used")];
        }
    };
    let matches = add_collectives(device, &log);
    let mut notes = vec![matches_note(&matches)];
    notes.extend(log.anomalies.damage_in(input::display_name(path)));
    notes
}

fn matches_note(matches: &InspectorMatches) -> Diagnostic {
    let InspectorMatches {
        kernels,
        described,
        sized,
    } = *matches;
    if kernels == 0 {
        return diagnostic!(
            DumpNotUsed,
            "the log of NCCL's inspector is not needed: the trace has records of its collectives, or no \
             kernels of NCCL"
        );
    }
    if described == 0 {
        return diagnostic!(
            DumpNotUsed,
            "the log of NCCL's inspector is not used: the times in it are of no kernels in the trace"
        );
    }
    let kernels = text::count(kernels, "communication kernel");
    diagnostic!(
        DumpMatched,
        "{described} of {kernels} without a record have a communicator from the log of NCCL's inspector, \
         {sized} of them a size"
    )
}

/// Reads a log.
///
/// # Errors
/// Fails if the file cannot be opened, or has no line of the inspector.
pub fn read_log(path: &Path, progress: &Progress) -> Result<InspectorLog, RunError> {
    let input = input::open(path, progress)?;
    if input.kind != InputKind::NcclInspector {
        return Err(input.refuse_kind(WantedTrace::Times));
    }
    etlink_formats::nccl_inspector::read(input.content)
        .map_err(|cause| RunError::unreadable(input.name, cause))
}
