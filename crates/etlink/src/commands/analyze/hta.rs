//! Backend of the Python class that replaces HTA's: HTA's tables of the named files.

use super::load::{AnalyzeConfig, load_at_once};
use super::results::AnalyzedTrace;
use anyhow::{Context, Result};
use etlink_analysis::hta::{HtaOptions, HtaTables, HtaTrace, RUN_TABLES, StragglerQuery};
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, KeepEvents, diagnostic};
use etlink_run::{Overhead, RunError, RunOptions, RunSource};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Traces passed to HTA's class.
pub struct HtaQuery {
    /// Each file with its rank; `None` to use the file's own rank, or else 0.
    pub files: Vec<(Option<i64>, PathBuf)>,
    /// True if these are all files of a folder, so that files other than device traces are skipped.
    pub is_folder: bool,
    /// `include_last_profiler_step` and `HTA_DISABLE_NS_ROUNDING`; the ranks come from `files`.
    pub settings: HtaOptions,
    /// Options for reading the files.
    pub options: RunOptions,
}

/// HTA's tables of all ranks, each computed on request. Keeps the traces.
pub struct HtaDocument {
    /// Files by rank.
    ranks: Vec<HtaRank>,
    diagnostics: Vec<Diagnostic>,
}

/// A file and its HTA tables.
struct HtaRank {
    rank: i64,
    file: PathBuf,
    loaded: HtaTrace,
}

impl HtaDocument {
    /// Reads the files. If several have one rank, the last one wins, as in HTA.
    ///
    /// # Errors
    /// A file is not a device trace; for a folder, no file is.
    pub fn read(query: HtaQuery) -> Result<HtaDocument> {
        let mut by_rank: BTreeMap<i64, HtaRank> = BTreeMap::new();
        let (mut notes, mut failed) = (vec![], None);
        for (rank, file) in query.files {
            let settings = HtaOptions {
                rank,
                ..query.settings
            };
            let (loaded, of_file) = match read_file(file, settings, &query.options) {
                Ok(read) => read,
                Err(error) if query.is_folder && !query.options.cancellation.is_cancelled() => {
                    notes.push(diagnostic!(FileUnreadable, "left out: {error:#}"));
                    failed = failed.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            notes.extend(of_file);
            if let Some(before) = by_rank.insert(loaded.rank, loaded) {
                notes.push(diagnostic!(
                    FileLeftOut,
                    "left out: {}, because rank {} has several traces",
                    before.file.display(),
                    before.rank
                ));
            }
        }
        if by_rank.is_empty()
            && let Some(error) = failed
        {
            return Err(error);
        }
        let ranks = by_rank.into_values().collect();
        Ok(HtaDocument {
            ranks,
            diagnostics: notes,
        })
    }

    /// Returns each rank with its file.
    pub fn files(&self) -> impl Iterator<Item = (i64, &PathBuf)> {
        self.ranks.iter().map(|rank| (rank.rank, &rank.file))
    }

    /// Returns notes about the files.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Computes `get_profiler_steps`.
    pub fn profiler_steps(&self) -> Vec<u64> {
        let total = etlink_analysis::hta::run_tables(self.tables(&["profiler_steps"]).iter());
        let steps = total.profiler_steps.iter();
        steps.map(|step| step.step).collect()
    }

    /// Computes `get_potential_stragglers`.
    pub fn potential_stragglers(&self, query: &StragglerQuery) -> Vec<i64> {
        let tables = self.tables(&RUN_TABLES);
        let found = etlink_analysis::hta::potential_stragglers(tables.iter(), query).into_iter();
        found.map(|one| one.straggler).collect()
    }

    /// Computes the tables of these names for each rank.
    fn tables(&self, names: &[&str]) -> Vec<HtaTables> {
        let ranks = self.ranks.iter();
        ranks.map(|rank| rank.loaded.tables(names)).collect()
    }

    /// Returns a table of all ranks; `kernel_type_breakdown` is their sum.
    ///
    /// # Errors
    /// There is no table of this name.
    #[cfg(feature = "parquet")]
    pub fn table(&self, name: &str) -> Result<arrow_array::RecordBatch> {
        use crate::record_tables::{ranked_table, records_table};

        let blank = HtaTables::blank();
        let blank = blank.records(name);
        anyhow::ensure!(blank.is_some(), "HTA has no table {name}");
        let mut tables = self.tables(&[name]);
        if name == "kernel_type_breakdown" {
            let total = etlink_analysis::hta::run_tables(tables.iter());
            let blank = etlink_analysis::hta::KernelType::default();
            return records_table(Some(&blank), &total.kernel_type_breakdown);
        }
        etlink_analysis::hta::align_series(tables.iter_mut());
        let ranks = self.ranks.iter().zip(&tables);
        let ranks = ranks.map(|(rank, tables)| (Some(rank.rank), tables.records(name)));
        ranked_table(blank, ranks)
    }
}

/// Reads a trace. Also returns notes about it.
fn read_file(
    file: PathBuf,
    settings: HtaOptions,
    options: &RunOptions,
) -> Result<(HtaRank, Vec<Diagnostic>)> {
    let source = RunSource::from_path(&file);
    let options = RunOptions {
        overhead: Some(Overhead::Keep),
        ..options.clone()
    };
    // HTA also counts events that no graph needs
    let config = AnalyzeConfig::from_source(source, options).keeping(KeepEvents::Auxiliary);
    let say = |trace: LinkedTrace, _: AnalyzedTrace<'_>| Ok((HtaTrace::new(trace, settings), None));
    // tables are computed on request
    let said = load_at_once(config, say, |_| 0);
    let mut runs = said.with_context(|| file.display().to_string())?;
    let run = runs.pop().ok_or(RunError::NoRankAsked)?;
    let notes = run.notes_of();
    let only = run.ranks.into_iter().next().ok_or(RunError::NoRankAsked)?;
    let loaded = only.said;
    let rank = loaded.rank();
    Ok((HtaRank { rank, file, loaded }, notes))
}
