//! What HTA's class in Python is made of: its tables, of named files.

#[cfg(feature = "parquet")]
mod arrow;

use super::load::{AnalyzeConfig, load_at_once};
use super::results::AnalyzedTrace;
use anyhow::{Context, Result};
use etlink_hta::{HtaDetails, HtaOnDemand, HtaOptions, HtaTables, RUN_TABLES, StragglerQuery};
use etlink_link::LinkedTrace;
use etlink_model::KeepEvents;
use etlink_run::{RunError, RunOptions, RunSource};
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

/// HTA's tables of all ranks, each made when it is asked for. Keeps the traces.
pub struct HtaDocument {
    /// By rank.
    ranks: Vec<HtaRank>,
    notes: Vec<String>,
}

/// A file, and what HTA would say of it.
struct HtaRank {
    rank: i64,
    file: PathBuf,
    loaded: HtaOnDemand,
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
        if by_rank.is_empty()
            && let Some(error) = failed
        {
            return Err(error);
        }
        let ranks = by_rank.into_values().collect();
        Ok(HtaDocument { ranks, notes })
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
    ///
    /// # Errors
    /// None: HTA's patterns are right.
    pub fn profiler_steps(&self) -> Result<Vec<u64>> {
        let tables = self.tables(&["profiler_steps"])?;
        let total = etlink_hta::run_tables(tables.iter().map(|(tables, _)| tables));
        let steps = total.profiler_steps.iter();
        Ok(steps.map(|step| step.step).collect())
    }

    /// `get_potential_stragglers`.
    ///
    /// # Errors
    /// None: HTA's patterns are right.
    pub fn potential_stragglers(&self, query: &StragglerQuery) -> Result<Vec<i64>> {
        let tables = self.tables(&RUN_TABLES)?;
        let ranks = tables.iter().map(|(tables, _)| tables);
        let found = etlink_hta::potential_stragglers(ranks, query).into_iter();
        Ok(found.map(|one| one.straggler).collect())
    }

    /// The tables of these names, of each rank.
    fn tables(&self, names: &[&str]) -> Result<Vec<(HtaTables, HtaDetails)>> {
        let mut tables = vec![];
        for rank in &self.ranks {
            tables.push(rank.loaded.tables(names)?);
        }
        Ok(tables)
    }
}

/// A trace, and what is to be known of it.
fn read_file(
    file: PathBuf,
    settings: HtaOptions,
    options: &RunOptions,
) -> Result<(HtaRank, Vec<String>)> {
    let source = RunSource::from_path(&file);
    // HTA also counts what no graph needs
    let config = AnalyzeConfig::from_source(source, options.clone()).keeping(KeepEvents::Auxiliary);
    let say =
        |trace: LinkedTrace, _: AnalyzedTrace<'_>| Ok((HtaOnDemand::new(trace, settings), None));
    // tables are made when they are asked for
    let said = load_at_once(config, say, |_| 0);
    let mut runs = said.with_context(|| file.display().to_string())?;
    let run = runs.pop().ok_or(RunError::NoRankAsked)?;
    let notes = run.notes_of();
    let only = run.ranks.into_iter().next().ok_or(RunError::NoRankAsked)?;
    let loaded = only.said;
    let rank = loaded.rank();
    Ok((HtaRank { rank, file, loaded }, notes))
}
