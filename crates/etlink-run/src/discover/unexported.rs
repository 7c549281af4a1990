//! What Nsight Systems recorded, and nobody exported to SQLite: it cannot be read.

use super::candidate::TraceCandidate;
use crate::input::{self, InputError, InputKind, WantedTrace};
use crate::run_files::RunFiles;
use crate::storage;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Recordings that lie in folders without a trace that can be read.
#[derive(Debug, Default)]
pub(crate) struct Unexported {
    /// Reports.
    reports: BTreeSet<PathBuf>,
    /// Folders that `nsys export --type parquetdir` wrote.
    tables: BTreeSet<PathBuf>,
}

impl Unexported {
    pub(super) fn add_report(&mut self, report: PathBuf) {
        self.reports.insert(report);
    }

    /// Adds a folder of tables, unless the report was exported to SQLite beside it too.
    pub(super) fn add_tables(&mut self, folder: &Path) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let endings = [".parquetdir", "_pqtdir", ".arrowdir", "_arwdir"];
        let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
        let exported = folder.with_file_name(format!("{}.sqlite", stem.unwrap_or(&name)));
        if !storage::exists(&exported) {
            self.tables.insert(folder.to_owned());
        }
    }

    /// Has a run that lies beside them say what to do with each.
    pub(super) fn note(self, run: &mut RunFiles) {
        let errors = self.into_errors();
        run.notes.extend(errors.map(|error| error.to_string()));
    }

    /// The first, as the reason that there is nothing else.
    pub(crate) fn into_error(self) -> Option<InputError> {
        self.into_errors().next()
    }

    fn into_errors(self) -> impl Iterator<Item = InputError> {
        let reports = self
            .reports
            .into_iter()
            .map(|report| InputError::WrongKind {
                name: input::display_name(&report),
                kind: InputKind::NsysReport,
                wanted: WantedTrace::Times,
            });
        let tables = self
            .tables
            .into_iter()
            .map(|folder| InputError::NsysTables {
                name: input::display_name(&folder),
            });
        reports.chain(tables)
    }
}

/// Has a run say which reports in its folder are not exported.
pub(super) fn note_reports(candidates: &[TraceCandidate], notes: &mut Vec<String>) {
    let is_exported = |report: &TraceCandidate| {
        let mut others = candidates.iter();
        others.any(|other| other.kind == InputKind::NsysSqlite && other.stem == report.stem)
    };
    let reports = candidates
        .iter()
        .filter(|candidate| candidate.kind == InputKind::NsysReport);
    let missing: Vec<&TraceCandidate> = reports.filter(|report| !is_exported(report)).collect();
    if let Some(first) = missing.first() {
        notes.push(format!(
            "{} of Nsight Systems cannot be read as they are: export each with `nsys export --type \
             sqlite {}`",
            counted_reports(missing.len()),
            first.path.display()
        ));
    }
}

fn counted_reports(count: usize) -> String {
    match count {
        1 => "1 report".to_owned(),
        count => format!("{count} reports"),
    }
}
