//! Traces recorded while the graphs of a device were captured.

use crate::device_readers::expect_device;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::job::read_device;
use crate::storage::{self, is_url};
use crate::{Progress, is_folder, text};
use etlink_link::{GraphCaptures, LinkedTrace};
use etlink_model::{Diagnostic, diagnostic};
use std::path::{Path, PathBuf};

/// Name of the folder beside device traces that has the traces of captures, of all ranks.
pub(crate) const CAPTURE_FOLDER: &str = "capture_traces";

/// Returns the traces that a path names: itself, or the files of a folder, by name.
///
/// # Errors
/// Fails if the folder cannot be listed.
pub fn capture_traces(path: &Path) -> Result<Vec<PathBuf>, RunError> {
    if !is_folder(path) {
        return Ok(vec![path.to_owned()]);
    }
    let entries = storage::list(path).with_path(FileAction::ReadFolder, path)?;
    let files = entries.into_iter().filter(|entry| entry.may_be_file());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the traces of the folder of captures beside a device trace on disk; empty without it.
pub(crate) fn captures_beside(device: &Path) -> Vec<PathBuf> {
    let folder = device.with_file_name(CAPTURE_FOLDER);
    if is_url(device) || device == Path::new("-") || !is_folder(&folder) {
        return vec![];
    }
    // nobody asked for these
    capture_traces(&folder).unwrap_or_default()
}

/// Returns true if a trace was found by the name of its folder, and not asked for.
pub(crate) fn is_found_capture(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder.is_some_and(|name| name == CAPTURE_FOLDER)
}

/// Traces of captures, opened.
#[derive(Default)]
pub(crate) struct OpenedCaptures<'p> {
    traces: Vec<(&'p Path, InputFile)>,
    /// Traces that nobody asked for and that are unusable.
    diagnostics: Vec<Diagnostic>,
}

impl<'p> OpenedCaptures<'p> {
    /// Opens the traces.
    ///
    /// # Errors
    /// Fails if a trace that was asked for cannot be opened or is no device trace.
    pub(crate) fn open(paths: &'p [PathBuf], progress: &Progress) -> Result<Self, RunError> {
        let mut opened = OpenedCaptures::default();
        let mut failed = vec![];
        for path in paths {
            let input = input::open(path, progress).map_err(|error| (true, error));
            let input = input.and_then(|input| match expect_device(&input, WantedTrace::Capture) {
                Ok(()) => Ok(input),
                Err(error) => Err((input.kind != InputKind::Unknown, error)),
            });
            match input {
                Ok(input) => opened.traces.push((path, input)),
                Err((is_trace, error)) => failed.push((path, is_trace, error)),
            }
        }
        for (path, is_trace, error) in failed {
            // engines write lists beside the traces
            if !is_trace && !opened.traces.is_empty() {
                continue;
            }
            if !is_found_capture(path) {
                return Err(error);
            }
            opened.diagnostics.push(unused_capture(path, &error));
        }
        Ok(opened)
    }

    /// Reads the captures of the graphs of a trace's rank; `None` if no trace has any. A trace in the
    /// folder of captures may be of another rank.
    ///
    /// # Errors
    /// Fails if a trace cannot be read, or one that was asked for has no capture.
    pub(crate) fn read(
        self,
        threads: usize,
        trace: &mut LinkedTrace,
    ) -> Result<Option<GraphCaptures>, RunError> {
        trace.report.diagnostics.extend(self.diagnostics);
        let mut captures = GraphCaptures::default();
        let mut has_any = false;
        for (path, input) in self.traces {
            let name = input.name.clone();
            let capture = read_device(input, threads, true)?;
            let is_of_other = capture.header.rank.is_some()
                && trace.report.rank.is_some()
                && capture.header.rank != trace.report.rank;
            if is_of_other && is_found_capture(path) {
                continue;
            }
            let Err(cause) = captures.add(&capture) else {
                has_any = true;
                continue;
            };
            let error = RunError::unreadable(name, cause);
            if !is_found_capture(path) {
                return Err(error);
            }
            let note = unused_capture(path, &error);
            trace.report.diagnostics.push(note);
        }
        Ok(has_any.then_some(captures))
    }
}

/// Returns the fact that a trace in the folder of captures is of no use.
fn unused_capture(path: &Path, error: &RunError) -> Diagnostic {
    let why = text::error_chain(error);
    diagnostic!(CaptureUnused, "{why}: it adds nothing").of_file(path.display())
}
