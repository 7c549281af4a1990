//! Traces recorded while the graphs of a device were captured.

use crate::device_readers::expect_device;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::storage::{self, is_url};
use crate::text;
use crate::{Progress, is_folder};
use etlink_link::{GraphCaptures, LinkedTrace};
use etlink_model::{DeviceTrace, Failure, GlobalRank, diagnostic};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Name of the folder beside device traces that has the traces of captures, of all ranks.
pub(crate) const CAPTURE_FOLDER: &str = "capture_traces";

/// Traces of the captures of a rank's graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFiles {
    /// The trace, or the files of a folder.
    pub paths: Vec<PathBuf>,
    /// Folder that was asked for, or that was found.
    folder: Option<PathBuf>,
    /// True if the user named the trace or the folder.
    is_asked: bool,
}

impl CaptureFiles {
    /// Returns the traces that the user names for a device trace: a file, or the files of a folder.
    /// Without a name, those of a folder `capture_traces` beside the device trace, if it is on a disk.
    ///
    /// # Errors
    /// Fails if a named folder cannot be listed or is empty.
    pub fn of_trace(named: Option<&Path>, device: &Path) -> Result<CaptureFiles, RunError> {
        let Some(path) = named else {
            let folder = device.with_file_name(CAPTURE_FOLDER);
            if is_url(device) || device == Path::new("-") || !is_folder(&folder) {
                return Ok(CaptureFiles::default());
            }
            // nobody asked for these
            return Ok(CaptureFiles::of_folder(&folder).unwrap_or_default());
        };
        if !is_folder(path) {
            return Ok(CaptureFiles {
                paths: vec![path.to_owned()],
                folder: None,
                is_asked: true,
            });
        }
        let mut files = CaptureFiles::of_folder(path)?;
        files.paths.retain(|path| path != device);
        files.is_asked = true;
        if files.paths.is_empty() {
            let what = " has no traces of captures";
            return Err(Failure::about(path.display(), what).into());
        }
        Ok(files)
    }

    /// Returns the files of a folder of captures, by name.
    ///
    /// # Errors
    /// Fails if the folder cannot be listed.
    pub(crate) fn of_folder(folder: &Path) -> Result<CaptureFiles, FileError> {
        let entries = storage::list(folder).with_path(FileAction::ReadFolder, folder)?;
        let files = entries.into_iter().filter(|entry| entry.may_be_file());
        let mut paths: Vec<PathBuf> = files.map(|entry| entry.path).collect();
        paths.sort();
        Ok(CaptureFiles {
            paths,
            folder: Some(folder.to_owned()),
            is_asked: false,
        })
    }

    /// Opens a trace that the user names, so that a wrong one fails before gigabytes are read.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or is no device trace.
    pub(crate) fn open_named(&self, progress: &Progress) -> Result<Option<InputFile>, RunError> {
        match (&self.folder, self.paths.first()) {
            (None, Some(path)) => {
                let input = input::open(path, progress)?;
                expect_device(&input, WantedTrace::Capture)?;
                Ok(Some(input))
            }
            _ => Ok(None),
        }
    }

    /// Reads the captures of the graphs of a trace's rank; `None` if no trace has any. `named` is the
    /// trace that [`CaptureFiles::open_named`] opened, and `read` reads a trace. A folder may have
    /// traces of other ranks, and files that are no traces.
    ///
    /// # Errors
    /// Fails if the user's trace, or all files of the user's folder, have no capture of the rank.
    pub(crate) fn read(
        &self,
        named: Option<InputFile>,
        progress: &Progress,
        read: impl Fn(InputFile) -> Result<DeviceTrace, RunError>,
        trace: &mut LinkedTrace,
    ) -> Result<Option<GraphCaptures>, RunError> {
        let mut captures = GraphCaptures::default();
        if let Some(input) = named {
            add(&mut captures, input, &read, None)?;
            return Ok(Some(captures));
        }
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        let rank = trace.report.rank;
        let (mut is_used, mut failed) = (false, vec![]);
        for path in &self.paths {
            let added = input::open(path, progress).and_then(|input| {
                // engines write lists beside the traces
                if input.kind == InputKind::Unknown {
                    return Ok(false);
                }
                expect_device(&input, WantedTrace::Capture)?;
                add(&mut captures, input, &read, rank)
            });
            match added {
                Ok(is_added) => is_used |= is_added,
                Err(error) => failed.push((path, error)),
            }
        }
        if self.is_asked && !is_used {
            let first = failed.into_iter().next();
            return Err(first.map_or_else(|| no_capture(folder, rank), |(_, error)| error));
        }
        for (path, error) in failed {
            let why = text::error_chain(&error);
            let note = diagnostic!(CaptureUnused, "{why}: it adds nothing");
            trace.report.diagnostics.push(note.of_file(path.display()));
        }
        Ok(is_used.then_some(captures))
    }
}

/// Adds the captures of a trace. Returns false if it states another rank.
fn add(
    captures: &mut GraphCaptures,
    input: InputFile,
    read: impl Fn(InputFile) -> Result<DeviceTrace, RunError>,
    rank: Option<GlobalRank>,
) -> Result<bool, RunError> {
    let name = input.name.clone();
    let capture = read(input)?;
    if differs(capture.header.rank, rank) {
        return Ok(false);
    }
    captures
        .add(&capture)
        .map_err(|cause| RunError::unreadable(name, cause))?;
    Ok(true)
}

/// Returns true if two ranks are known and differ.
fn differs(a: Option<GlobalRank>, b: Option<GlobalRank>) -> bool {
    a.is_some() && b.is_some() && a != b
}

fn no_capture(folder: &Path, rank: Option<GlobalRank>) -> RunError {
    let whose = rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
    let what = format!(" has no trace of a capture{whose}");
    Failure::about(folder.display(), what).into()
}
