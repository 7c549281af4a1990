//! The results of `analyze`, as tables.

use super::load::AnalyzeConfig;
#[cfg(feature = "parquet")]
use super::requests::RequestLatency;
use super::{Analyzed, OF_ALL_RANKS, analyze_runs};
use crate::kernel_rules::read_rules;
#[cfg(feature = "parquet")]
use crate::record_tables::{count_from_epoch, ranked_table, records_table};
use crate::run_query::RunQuery;
use anyhow::Result;
use etlink_analysis::{HardwarePeaks, Options};
#[cfg(feature = "parquet")]
use etlink_analysis::{RankAnalysis, Records, RunMetric};
#[cfg(feature = "parquet")]
use etlink_link::ranks::StragglerStats;
use etlink_model::Diagnostic;
use etlink_run::RunError;

/// Optional tables to add to the default ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalyzeQuery {
    /// Name part of the ops whose kernel sequences are reported; `None` for no sequences.
    pub sequences_of: Option<String>,
    /// True to report each allocation and free.
    pub memory_timeline: bool,
}

/// Fields of the ranks' tables that are times, not durations.
#[cfg(feature = "parquet")]
const TIMES: [&str; 4] = ["start_ns", "begin_ns", "device_start_ns", "time_ns"];

/// Analysis of a run's traces.
pub struct AnalyzeDocument(Analyzed);

impl AnalyzeDocument {
    /// Reads a run and analyzes its ranks.
    ///
    /// # Errors
    /// No rank of the run could be read.
    pub fn read(run: &RunQuery, query: &AnalyzeQuery) -> Result<AnalyzeDocument> {
        let config = AnalyzeConfig::from_source(run.source.clone(), run.options.clone());
        let options = Options {
            sequences_of: query.sequences_of.clone(),
            memory_timeline: query.memory_timeline,
        };
        let mut runs = analyze_runs(config, (&read_rules(None)?, &options), None)?;
        // the query opens exactly one run
        let only = runs.pop().ok_or(RunError::NoRankAsked)?;
        let peaks = HardwarePeaks::default();
        Ok(AnalyzeDocument(Analyzed::new(only, peaks)))
    }

    /// Returns the names of the tables.
    pub fn table_names() -> impl Iterator<Item = &'static str> {
        let of_ranks = etlink_analysis::TABLES.iter();
        of_ranks.chain(&OF_ALL_RANKS).copied()
    }

    /// Returns a table of all ranks.
    ///
    /// # Errors
    /// There is no table of this name.
    #[cfg(feature = "parquet")]
    pub fn table(&self, name: &str) -> Result<arrow_array::RecordBatch> {
        let Analyzed { told, total, .. } = &self.0;
        match name {
            "metrics" => records_table(Some(&RunMetric::default()), &total.metrics),
            "stragglers" => records_table(Some(&StragglerStats::default()), &self.0.stragglers),
            "requests" => records_table(Some(&RequestLatency::default()), &self.0.requests),
            name if etlink_analysis::TABLES.contains(&name) => {
                let ranks = told.ranks.iter().map(|rank| {
                    let records = rank.said.records(name)?.map(|record| {
                        let mut record = record?;
                        count_from_epoch(&mut record, &TIMES, rank.base_ns);
                        Ok(record)
                    });
                    Some(Box::new(records) as Records<'_>)
                });
                let ranks = told.ranks.iter().map(|rank| rank.said.rank).zip(ranks);
                ranked_table(RankAnalysis::blank().records(name), ranks)
            }
            _ => anyhow::bail!("analyze has no table {name}"),
        }
    }

    /// Returns notes about the files, including those that are left out.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.0.told.notes_of()
    }
}
