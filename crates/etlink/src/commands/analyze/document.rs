//! What `analyze` prints, as tables.

use super::load::AnalyzeConfig;
use super::requests::RequestLatency;
use super::results::Ranked;
use super::{Analyzed, OF_ALL_RANKS, analyze_runs};
use crate::kernel_rules::read_rules;
use crate::record_tables::RankRecords;
use crate::run_query::RunQuery;
use anyhow::{Context, Result};
use arrow_array::RecordBatch;
use etlink_analyze::{HardwarePeaks, Options, RankAnalysis, RunMetric};
use etlink_link::ranks::StragglerStats;
use etlink_run::RunError;
use etlink_run::phases::Phased;
use etlink_tables::RecordTable;

/// What to report besides the tables that are always made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalyzeQuery {
    /// Kernel sequences of the ops whose names contain this.
    pub sequences_of: Option<String>,
    /// Each allocation and free.
    pub memory_timeline: bool,
}

/// What the traces of a run say.
pub struct AnalyzeDocument(Analyzed);

impl AnalyzeDocument {
    /// Reads a run and analyzes its ranks.
    ///
    /// # Errors
    /// No rank of it could be read.
    pub fn read(run: &RunQuery, query: &AnalyzeQuery) -> Result<AnalyzeDocument> {
        AnalyzeDocument::read_phase(run, query)?.whole()
    }

    /// The same in the phase that the query names.
    ///
    /// # Errors
    /// No rank of it could be read, or an earlier phase is missing or was run otherwise.
    pub fn read_phase(run: &RunQuery, query: &AnalyzeQuery) -> Result<Phased<AnalyzeDocument>> {
        let config = AnalyzeConfig::from_source(run.source.clone(), run.options.clone());
        let options = Options {
            sequences_of: query.sequences_of.clone(),
            memory_timeline: query.memory_timeline,
        };
        let runs = analyze_runs(config, (&read_rules(None)?, &options), None, false)?;
        runs.and_then(|mut runs| {
            // whoever asks has opened one run
            let only = runs.pop().ok_or(RunError::NoRankAsked)?;
            let peaks = HardwarePeaks::default();
            Ok(AnalyzeDocument(Analyzed::new(only, peaks)))
        })
    }

    /// The names of its tables.
    pub fn table_names() -> impl Iterator<Item = &'static str> {
        let of_ranks = etlink_analyze::TABLES.iter();
        of_ranks.chain(&OF_ALL_RANKS).copied()
    }

    /// What is to be known of the files, and which are left out.
    pub fn notes(&self) -> Vec<String> {
        self.0.told.notes_of()
    }

    /// A table of all ranks.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let Analyzed {
            told,
            total,
            stragglers,
            requests,
            ..
        } = &self.0;
        let mut table = RecordTable::default();
        match name {
            "metrics" => {
                table.declare(false, &RunMetric::default())?;
                for metric in &total.metrics {
                    table.push(None, metric)?;
                }
            }
            "stragglers" => {
                table.declare(false, &StragglerStats::default())?;
                for rank in stragglers {
                    table.push(None, rank)?;
                }
            }
            "requests" => {
                table.declare(false, &RequestLatency::default())?;
                for latency in requests {
                    table.push(None, latency)?;
                }
            }
            name => push_ranks(&mut table, &told.ranks, name)?,
        }
        Ok(table.finish()?)
    }
}

fn push_ranks(table: &mut RecordTable, ranks: &[Ranked<RankAnalysis>], name: &str) -> Result<()> {
    let mut blank = RankRecords::blank(table);
    let is_known = RankAnalysis::blank().visit_table(name, &mut blank)?;
    is_known
        .then_some(())
        .with_context(|| format!("analyze has no table {name}"))?;
    for rank in ranks {
        let mut records = RankRecords::of_rank(table, rank.said.rank);
        rank.said.visit_table(name, &mut records)?;
    }
    Ok(())
}
