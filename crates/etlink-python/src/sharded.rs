//! Runs whose ranks several processes share, for clusters: `etlink.ray` prepares each shard as a task.

use crate::errors::advised_exception;
use crate::table::{Table, TableSource};
use crate::worker::{Call, run_cancellable};
use anyhow::{Context, Result, bail};
use etlink::documents::{
    AnalyzeDocument, AnalyzeQuery, RanksDocument, ReplayDocument, ReplayQuery, RunQuery,
    findings_of_run, result_cache, write_shard,
};
use etlink_run::graphs::is_graph_name;
use etlink_run::shard::Shard;
use etlink_run::storage::{self, path_without_secrets};
use etlink_run::{Overhead, Run, RunError, RunOptions, RunSource};
use etlink_torch::RankSelection;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files of ranks that were written, and ranks that failed, each with its reason. Paths are text,
/// because `pathlib` would remove a slash from URLs.
type FilesAndFailures = (Vec<OsString>, Vec<(String, String)>);

/// Ranks of a folder whose results are in a cache, or are put there in shards.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct ShardedRun {
    source: PathBuf,
    options: RunOptions,
    analyze: AnalyzeQuery,
    replay: ReplayQuery,
    simulator: bool,
}

#[pymethods]
impl ShardedRun {
    #[new]
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of a constructor in Python"
    )]
    fn new(
        py: Python<'_>,
        source: PathBuf,
        cache: PathBuf,
        ranks: Option<String>,
        memory: Option<u64>,
        threads: usize,
        strict: bool,
        overhead: Option<String>,
        sequences_of: Option<String>,
        memory_timeline: bool,
        scale: Vec<String>,
        what_if: Vec<String>,
        simulator: bool,
    ) -> PyResult<ShardedRun> {
        let ranks = ranks.map(|ranks| ranks.parse::<RankSelection>());
        let ranks = ranks.transpose();
        let ranks =
            ranks.map_err(|error| advised_exception(py, &error.to_string(), "give others"))?;
        let overhead = overhead.map(|overhead| overhead.parse::<Overhead>());
        let overhead = overhead.transpose();
        let overhead = overhead
            .map_err(|error| advised_exception(py, &error.to_string(), "give another overhead"))?;
        Ok(ShardedRun {
            source: path_without_secrets(source),
            options: RunOptions {
                memory,
                threads,
                strict,
                ranks,
                overhead,
                cache: Some(result_cache(cache)),
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
            simulator,
        })
    }

    /// Returns the number of requested ranks for a command. The cache keeps what was found in the
    /// folder.
    fn list_ranks(&self, py: Python<'_>, command: &str) -> PyResult<usize> {
        // graphs written by an earlier merge have no events for a join
        let traces_only = command == "merge";
        let query = self.query(None);
        run_cancellable(py, move |call| {
            let run = query(call);
            let options = RunOptions {
                traces_only,
                ..run.options
            };
            let run = Run::open(run.source, options)?;
            match run.set().whole_len() {
                0 => Err(RunError::NoRankAsked.into()),
                count => Ok(count),
            }
        })
    }

    /// Puts the results of a shard's ranks for a command into the cache. `shard` is its number and how
    /// many there are.
    fn prepare(&self, py: Python<'_>, command: String, shard: (u32, u32)) -> PyResult<()> {
        let (analyze, replay) = (self.analyze.clone(), self.replay.clone());
        let simulator = self.simulator;
        let query = self.query(Some(shard_of(py, shard)?));
        run_cancellable(py, move |call| {
            let run = query(call);
            let done = match &command[..] {
                "analyze" => AnalyzeDocument::read(&run, &analyze).map(drop),
                "findings" => findings_of_run(&run).map(drop),
                "ranks" => RanksDocument::read(&run).map(drop),
                "replay" => ReplayDocument::read(&run, &replay).map(drop),
                "merge" => {
                    write_shard(&run, Path::new(""), Shard::WHOLE, simulator, false).map(drop)
                }
                _ => bail!("{command} cannot be prepared"),
            };
            match done {
                Err(error) if is_prepared(&error) => Ok(()),
                Err(error) => Err(error),
                Ok(()) => bail!("the ranks of {command} were not only prepared"),
            }
        })
    }

    /// Returns the tables of `analyze`, and their diagnostics as JSON.
    fn analyze(&self, py: Python<'_>) -> PyResult<(Vec<Table>, String)> {
        let query = self.query(None);
        let analyze = self.analyze.clone();
        run_cancellable(py, move |call| {
            let document = AnalyzeDocument::read(&query(call), &analyze)?;
            let names = AnalyzeDocument::table_names().filter(|name| match *name {
                // an empty table would say that the traces have none
                "sequences" => analyze.sequences_of.is_some(),
                "memory_timeline" => analyze.memory_timeline,
                _ => true,
            });
            let tables = names.map(|name| named(name, document.table(name)?));
            let told = serde_json::to_string(&document.diagnostics())?;
            Ok((tables.collect::<Result<_>>()?, told))
        })
    }

    /// Returns the tables of `ranks`, and their diagnostics as JSON.
    fn ranks(&self, py: Python<'_>) -> PyResult<(Vec<Table>, String)> {
        let query = self.query(None);
        run_cancellable(py, move |call| {
            let document = RanksDocument::read(&query(call))?;
            let names = RanksDocument::TABLES.into_iter();
            let tables = names.map(|name| named(name, document.table(name)?));
            let told = serde_json::to_string(&document.diagnostics())?;
            Ok((tables.collect::<Result<_>>()?, told))
        })
    }

    /// Returns the findings, three lines each, and remarks on the whole run.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let query = self.query(None);
        run_cancellable(py, move |call| Ok(findings_of_run(&query(call))?.texts()))
    }

    /// Returns what `etlink replay --json` prints, and the nodes of the critical path.
    fn replay(&self, py: Python<'_>) -> PyResult<(String, Table)> {
        let query = self.query(None);
        let replay = self.replay.clone();
        run_cancellable(py, move |call| {
            let replayed = ReplayDocument::read(&query(call), &replay)?;
            let path = named("critical_path", replayed.path_table()?)?;
            Ok((replayed.to_json()?, path))
        })
    }

    /// Writes the Chakra files of a shard's ranks into `folder`, and replaces earlier ones.
    fn merge(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        shard: (u32, u32),
    ) -> PyResult<FilesAndFailures> {
        let shard = shard_of(py, shard)?;
        let (query, simulator) = (self.query(None), self.simulator);
        run_cancellable(py, move |call| {
            let folder = path_without_secrets(folder);
            // a task that is done again finds what it wrote before
            let result = write_shard(&query(call), &folder, shard, simulator, true)?;
            let files = result.files.into_iter().map(PathBuf::into_os_string);
            Ok((files.collect(), result.failed))
        })
    }
}

impl ShardedRun {
    /// Returns the query of a call that only prepares a shard, or that uses the ranks of all.
    fn query(&self, prepare: Option<Shard>) -> impl FnOnce(Call) -> RunQuery + Send + use<> {
        let source = RunSource::Folder(self.source.clone());
        let options = RunOptions {
            prepare,
            ..self.options.clone()
        };
        move |call| RunQuery {
            source,
            options: call.options(options),
        }
    }
}

fn is_prepared(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Prepared(_)))
}

fn shard_of(py: Python<'_>, (index, count): (u32, u32)) -> PyResult<Shard> {
    let shard = Shard::new(index, count);
    shard.map_err(|error| advised_exception(py, &error, "give another"))
}

fn named(name: &str, batch: arrow_array::RecordBatch) -> Result<Table> {
    Table::new(name.to_owned(), TableSource::Batch(batch))
}

/// Returns the Chakra files in a folder, in order; none if there is no folder.
#[pyfunction]
pub(crate) fn written_graphs(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<OsString>> {
    run_cancellable(py, move |_| {
        let folder = path_without_secrets(folder);
        if !storage::is_folder(&folder) {
            return Ok(vec![]);
        }
        let entries = storage::list(&folder).with_context(|| folder.display().to_string())?;
        let paths = entries.into_iter().map(|entry| entry.path);
        let mut graphs: Vec<PathBuf> = paths.filter(|path| is_graph_name(path)).collect();
        graphs.sort_unstable();
        Ok(graphs.into_iter().map(PathBuf::into_os_string).collect())
    })
}
