//! What HTA's class in Python is made of: its tables, of named files.

use super::load::{AnalyzeConfig, load_runs};
use crate::record_tables::{RankRecords, records_table};
use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use etlink_hta::{HtaDetails, HtaOptions, HtaRunTables, HtaTables, KernelType, StragglerQuery};
use etlink_kineto::KeepEvents;
use etlink_run::{RunError, RunOptions, RunSource};
use etlink_tables::RecordTable;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The traces that HTA's class is given.
pub struct HtaQuery {
    /// Each file with its rank; `None`: what the file says, else 0.
    pub files: Vec<(Option<i64>, PathBuf)>,
    /// Whether they are all files of a folder, where one that is no device trace is left out.
    pub is_folder: bool,
    /// `include_last_profiler_step` and `HTA_DISABLE_NS_ROUNDING`; the ranks are those of `files`.
    pub settings: HtaOptions,
    /// How they are read.
    pub options: RunOptions,
}

/// HTA's tables of all ranks.
pub struct HtaDocument {
    /// By rank.
    ranks: Vec<HtaRank>,
    total: HtaRunTables,
    notes: Vec<String>,
}

/// A file, and what HTA would say of it.
struct HtaRank {
    rank: i64,
    file: PathBuf,
    tables: HtaTables,
    details: HtaDetails,
}

impl HtaDocument {
    /// Reads the files. Of several with one rank the last is taken, as HTA does.
    ///
    /// # Errors
    /// One of them is no device trace; of a folder none is.
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
                    notes.push(format!("left out: {error:#}"));
                    failed = failed.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            notes.extend(of_file);
            if let Some(before) = by_rank.insert(loaded.rank, loaded) {
                notes.push(format!(
                    "left out: {}, as rank {} has several traces",
                    before.file.display(),
                    before.rank
                ));
            }
        }
        if let Some(error) = failed.filter(|_| by_rank.is_empty()) {
            return Err(error);
        }
        let mut ranks: Vec<HtaRank> = by_rank.into_values().collect();
        etlink_hta::align_series(ranks.iter_mut().map(|rank| &mut rank.tables));
        Ok(HtaDocument {
            total: etlink_hta::run_tables(ranks.iter().map(|rank| &rank.tables)),
            ranks,
            notes,
        })
    }

    /// Each rank with its file.
    pub fn files(&self) -> impl Iterator<Item = (i64, &PathBuf)> {
        self.ranks.iter().map(|rank| (rank.rank, &rank.file))
    }

    /// What is to be known of the files.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// `get_profiler_steps`.
    pub fn profiler_steps(&self) -> Vec<u64> {
        let steps = self.total.profiler_steps.iter();
        steps.map(|step| step.step).collect()
    }

    /// `get_potential_stragglers`.
    pub fn potential_stragglers(&self, query: &StragglerQuery) -> Vec<i64> {
        let ranks = self.ranks.iter().map(|rank| &rank.tables);
        let found = etlink_hta::potential_stragglers(ranks, query).into_iter();
        found.map(|one| one.straggler).collect()
    }

    /// A table of all ranks; `kernel_type_breakdown` is their sum.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        if name == "kernel_type_breakdown" {
            let blank = KernelType::default();
            return records_table(Some(&blank), &self.total.kernel_type_breakdown);
        }
        let mut table = RecordTable::default();
        let mut blank = RankRecords::blank(&mut table);
        let is_known = HtaTables::blank().visit_table(name, &mut blank)?
            || HtaDetails::blank().visit_table(name, &mut blank)?;
        ensure!(is_known, "HTA has no table {name}");
        for rank in &self.ranks {
            let mut records = RankRecords::of_rank(&mut table, Some(rank.rank));
            rank.tables.visit_table(name, &mut records)?;
            rank.details.visit_table(name, &mut records)?;
        }
        Ok(table.finish()?)
    }
}

/// The tables of a trace, and what is to be known of it.
fn read_file(
    file: PathBuf,
    settings: HtaOptions,
    options: &RunOptions,
) -> Result<(HtaRank, Vec<String>)> {
    let source = RunSource::from_path(&file);
    // HTA also counts what no graph needs
    let config = AnalyzeConfig::from_source(source, options.clone()).keeping(KeepEvents::Auxiliary);
    let said = load_runs(config, None, |trace, _| {
        Ok((etlink_hta::hta_tables_in_detail(trace, settings)?, None))
    });
    let mut runs = said.with_context(|| file.display().to_string())?;
    let run = runs.pop().ok_or(RunError::NoRankAsked)?;
    let notes = run.notes_of();
    let only = run.ranks.into_iter().next().ok_or(RunError::NoRankAsked)?;
    let (tables, details) = only.said;
    let rank = details.extent.first().map_or(0, |extent| extent.rank);
    Ok((
        HtaRank {
            rank,
            file,
            tables,
            details,
        },
        notes,
    ))
}
