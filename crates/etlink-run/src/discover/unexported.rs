//! Recordings of Nsight Systems that were not exported to SQLite, so that they cannot be read.

use super::candidate::TraceCandidate;
use crate::error::RunError;
use crate::input::{self, InputKind, WantedTrace, unread_tables};
use crate::run_files::RunFiles;
use crate::text::{self, file_name};
use etlink_model::{Diagnostic, diagnostic};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Recordings in folders without a readable trace.
#[derive(Debug, Default)]
pub(crate) struct Unexported {
    /// Reports of Nsight Systems.
    pub(super) reports: BTreeSet<PathBuf>,
    /// Folders written by `nsys export --type parquetdir`.
    pub(super) tables: BTreeSet<PathBuf>,
}

impl Unexported {
    /// Adds a remedy to the first run as a note. Ignores recordings that were also exported to
    /// SQLite, in any folder.
    pub(super) fn note(mut self, runs: &mut [RunFiles]) {
        let ranks = runs.iter().flat_map(|run| &run.ranks);
        let devices = ranks.filter_map(|rank| rank.device.as_deref());
        let exported: BTreeSet<String> = devices.filter_map(stem_of_export).collect();
        self.reports
            .retain(|report| !exported.contains(&stem_of_recording(report)));
        self.tables
            .retain(|folder| !exported.contains(&stem_of_recording(folder)));
        let Some(run) = runs.first_mut() else { return };
        // one note per kind, because thousands of folders may be affected
        if let Some(first) = self.reports.first() {
            run.diagnostics
                .push(unread_reports(self.reports.len(), first));
        }
        if let Some(first) = self.tables.first() {
            let more = match self.tables.len() {
                1 => String::new(),
                count => format!(" (and {} more such folders)", count - 1),
            };
            let tables = unread_tables(input::display_name(first));
            run.diagnostics
                .push(diagnostic!(NotExported, "{tables}{more}"));
        }
    }

    /// Returns the error for the first recording, if there are no other traces.
    pub(crate) fn into_error(self) -> Option<RunError> {
        if let Some(report) = self.reports.first() {
            let name = input::display_name(report);
            return Some(WantedTrace::Times.refuse(&name, InputKind::NsysReport));
        }
        let folder = self.tables.first()?;
        Some(unread_tables(input::display_name(folder)).into())
    }
}

/// Returns `run` for `run.sqlite`, compressed or not; `None` for other files.
fn stem_of_export(path: &Path) -> Option<String> {
    let name = file_name(path);
    let (stem, _) = name.rsplit_once(".sqlite")?;
    Some(stem.to_owned())
}

/// Returns `run` for `run.nsys-rep` and for folders of its tables.
fn stem_of_recording(path: &Path) -> String {
    let name = file_name(path);
    let endings = [
        ".nsys-rep",
        ".qdrep",
        ".parquetdir",
        "_pqtdir",
        ".arrowdir",
        "_arwdir",
    ];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_owned()
}

fn unread_reports(count: usize, first: &Path) -> Diagnostic {
    diagnostic!(
        NotExported,
        "{} of Nsight Systems must be exported first, for example with `nsys export --type \
         sqlite {}`",
        text::count(count as u64, "report"),
        first.display()
    )
}

/// Adds notes on the reports in a run's folder that are not exported.
pub(super) fn note_reports(candidates: &[TraceCandidate], notes: &mut Vec<Diagnostic>) {
    let of_kind = |kind| candidates.iter().filter(move |file| file.kind == kind);
    let exports = of_kind(InputKind::NsysSqlite);
    let exported: BTreeSet<&str> = exports.map(|export| export.stem.as_str()).collect();
    let reports = of_kind(InputKind::NsysReport);
    let missing: Vec<&TraceCandidate> = reports
        .filter(|report| !exported.contains(report.stem.as_str()))
        .collect();
    if let Some(first) = missing.first() {
        notes.push(unread_reports(missing.len(), &first.path));
    }
}
