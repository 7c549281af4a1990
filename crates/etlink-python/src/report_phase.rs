//! Reports in phases, for clusters: `etlink.ray` runs each shard as a task, and joins what they give.

use crate::errors::advised_exception;
use crate::merge_phase::listed_ranks;
use crate::table::{Table, TableSource};
use crate::worker::{Call, run_cancellable};
use anyhow::{Result, bail};
use etlink::documents::{
    AnalyzeDocument, AnalyzeQuery, RanksDocument, ReplayDocument, ReplayQuery, RunQuery,
    findings_phase,
};
use etlink_run::phases::{Phased, ReportPhase, ReportStep, Shard, ShardResults};
use etlink_run::storage::path_without_secrets;
use etlink_run::{RunOptions, RunSource};
use etlink_torch::RankSelection;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// A report on the ranks of a folder whose shards store what they make of them in another folder.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct PhasedReport {
    source: PathBuf,
    folder: PathBuf,
    options: RunOptions,
    analyze: AnalyzeQuery,
    replay: ReplayQuery,
}

#[pymethods]
impl PhasedReport {
    #[new]
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of a constructor in Python"
    )]
    fn new(
        py: Python<'_>,
        source: PathBuf,
        folder: PathBuf,
        ranks: Option<String>,
        memory: Option<u64>,
        threads: usize,
        strict: bool,
        sequences_of: Option<String>,
        memory_timeline: bool,
        scale: Vec<String>,
        what_if: Vec<String>,
    ) -> PyResult<PhasedReport> {
        let ranks = ranks.map(|ranks| ranks.parse::<RankSelection>());
        let ranks = ranks.transpose();
        let ranks =
            ranks.map_err(|error| advised_exception(py, &error.to_string(), "give others"))?;
        Ok(PhasedReport {
            source: path_without_secrets(source),
            folder,
            options: RunOptions {
                memory,
                threads,
                strict,
                ranks,
                ..RunOptions::default()
            },
            analyze: AnalyzeQuery {
                sequences_of,
                memory_timeline,
            },
            replay: ReplayQuery {
                scale,
                what_if,
                critical_path: true,
            },
        })
    }

    /// How many ranks the folder has, of those that were asked for. Stores what was found in it for
    /// the shards, and returns where.
    fn list_ranks(&self, py: Python<'_>) -> PyResult<(usize, OsString)> {
        let query = self.query(ReportStep::Join);
        run_cancellable(py, move |call| {
            let run = query(call);
            listed_ranks(run.source, run.options)
        })
    }

    /// Stores what the report of a command needs of a shard's ranks, and returns where. `shard` is
    /// its number and how many there are.
    fn summarize(&self, py: Python<'_>, command: String, shard: (u32, u32)) -> PyResult<OsString> {
        let shard = Shard::new(shard.0, shard.1)
            .map_err(|error| advised_exception(py, &error.to_string(), "give another"))?;
        let step = ReportStep::Summaries(shard);
        let (analyze, replay) = (self.analyze.clone(), self.replay.clone());
        let query = self.query(step);
        run_cancellable(py, move |call| {
            let run = query(call);
            let stored = match &command[..] {
                "analyze" => stored(AnalyzeDocument::read_phase(&run, &analyze)?),
                "findings" => stored(findings_phase(&run)?),
                "ranks" => stored(RanksDocument::read_phase(&run)?),
                "replay" => stored(ReplayDocument::read_phase(&run, &replay)?),
                _ => bail!("{command} has no phases"),
            };
            Ok(stored?.summaries.into_os_string())
        })
    }

    /// The tables of `analyze`, and what is to be known of them.
    fn analyze(&self, py: Python<'_>) -> PyResult<(Vec<Table>, Vec<String>)> {
        let query = self.query(ReportStep::Join);
        let analyze = self.analyze.clone();
        run_cancellable(py, move |call| {
            let phase = AnalyzeDocument::read_phase(&query(call), &analyze)?;
            let document: AnalyzeDocument = phase.whole::<anyhow::Error>()?;
            let names = AnalyzeDocument::table_names().filter(|name| match *name {
                // an empty table would say that the traces have none
                "sequences" => analyze.sequences_of.is_some(),
                "memory_timeline" => analyze.memory_timeline,
                _ => true,
            });
            let tables = names.map(|name| named(name, document.table(name)?));
            Ok((tables.collect::<Result<_>>()?, document.notes()))
        })
    }

    /// The tables of `ranks`, and what is to be known of them.
    fn ranks(&self, py: Python<'_>) -> PyResult<(Vec<Table>, Vec<String>)> {
        let query = self.query(ReportStep::Join);
        run_cancellable(py, move |call| {
            let phase = RanksDocument::read_phase(&query(call))?;
            let document: RanksDocument = phase.whole::<anyhow::Error>()?;
            let names = RanksDocument::TABLES.into_iter();
            let tables = names.map(|name| named(name, document.table(name)?));
            Ok((tables.collect::<Result<_>>()?, document.notes()))
        })
    }

    /// The findings, a sentence each.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let query = self.query(ReportStep::Join);
        run_cancellable(py, move |call| {
            let found = findings_phase(&query(call))?.whole::<anyhow::Error>()?;
            Ok(found.sentences())
        })
    }

    /// What `etlink replay --json` prints, and the nodes of the critical path.
    fn replay(&self, py: Python<'_>) -> PyResult<(String, Table)> {
        let query = self.query(ReportStep::Join);
        let replay = self.replay.clone();
        run_cancellable(py, move |call| {
            let phase = ReplayDocument::read_phase(&query(call), &replay)?;
            let replayed: ReplayDocument = phase.whole::<anyhow::Error>()?;
            let path = named("critical_path", replayed.path_table()?)?;
            Ok((replayed.to_json()?, path))
        })
    }
}

impl PhasedReport {
    /// The query of a call that does this phase.
    fn query(&self, step: ReportStep) -> impl FnOnce(Call) -> RunQuery + Send + use<> {
        let source = RunSource::Folder(self.source.clone());
        let options = RunOptions {
            phase: Some(ReportPhase {
                folder: self.folder.clone(),
                step,
            }),
            ..self.options.clone()
        };
        move |call| RunQuery {
            source,
            options: call.options(options),
        }
    }
}

fn named(name: &str, batch: arrow_array::RecordBatch) -> Result<Table> {
    Table::new(name.to_owned(), TableSource::Batch(batch))
}

fn stored<T>(phased: Phased<T>) -> Result<ShardResults> {
    match phased {
        Phased::Stored(shard) => Ok(shard),
        Phased::Report(_) => bail!("the whole report was made instead of a shard"),
    }
}
