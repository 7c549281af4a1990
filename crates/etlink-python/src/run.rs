//! A run, whose data stay in memory until it is closed.

use crate::errors::advised_exception;
use crate::table::{Table, TableSource};
use crate::worker::{Call, run_cancellable};
use anyhow::{Context, Result, bail};
use etlink::documents::{
    AnalyzeDocument, AnalyzeQuery, DiffDocument, FindingsReport, OpsDocument, RanksDocument,
    ReplayDocument, ReplayQuery, RunQuery, TopDocument, TraceDocument, findings_of_run,
    report_page, write_chakra, write_timeline,
};
use etlink_model::{Diagnostic, Failure};
use etlink_run::storage::{self, path_without_secrets};
use etlink_run::{Overhead, ReadCache, Run, RunError, RunOptions, RunSource};
use etlink_tables::TraceTable;
use etlink_torch::RankSelection;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tables of `analyze` whose names other tables also have, with the commands of these.
const FINDINGS: &str = "findings";
const TOP: &str = "top";
const OPS: &str = "ops";
const RANKS: &str = "ranks.";
const ANALYZE: &str = "analyze.";

/// A rank of a run: its label, its number, its device trace or written graph, and its host trace.
/// Paths are strings, because `pathlib` would remove a slash from a URL.
type RankRow = (String, Option<i64>, Option<OsString>, Option<OsString>);

/// Results of a run. Each document is made once: if several threads request it, the others wait for
/// the first.
#[derive(Default)]
struct Documents {
    analyzed: Mutex<Vec<(AnalyzeQuery, Arc<AnalyzeDocument>)>>,
    ranks: Mutex<Option<Arc<RanksDocument>>>,
    findings: Mutex<Option<Arc<FindingsReport>>>,
    top: Mutex<Option<Arc<TopDocument>>>,
    ops: Mutex<Option<Arc<OpsDocument>>>,
    traces: Mutex<Option<Arc<TraceDocument>>>,
}

/// An opened run.
struct OpenRun {
    query: RunQuery,
    ranks: Vec<RankRow>,
    diagnostics: Vec<Diagnostic>,
    documents: Documents,
}

/// Returns diagnostics as JSON, which the Python package turns into its own objects.
pub(crate) fn diagnostics_json(told: &[Diagnostic]) -> PyResult<String> {
    serde_json::to_string(told).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A run, until it is closed.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct RunHandle {
    open: Mutex<Option<Arc<OpenRun>>>,
}

#[pymethods]
impl RunHandle {
    /// Finds the ranks of a run; traces are read on first use.
    #[new]
    #[pyo3(signature = (paths, is_list, ranks, memory, strict, cache, overhead))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of a constructor in Python"
    )]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        is_list: bool,
        ranks: Option<String>,
        memory: Option<u64>,
        strict: bool,
        cache: Option<PathBuf>,
        overhead: Option<String>,
    ) -> PyResult<RunHandle> {
        let paths = paths.into_iter().map(path_without_secrets).collect();
        // a folder on a network may take seconds to answer, so this is work too
        let run = run_cancellable(py, move |call| {
            let ranks = ranks.map(|ranks| ranks.parse::<RankSelection>());
            let overhead = overhead.map(|overhead| overhead.parse::<Overhead>());
            let options = RunOptions {
                memory,
                strict,
                overhead: overhead.transpose().context("overhead")?,
                ranks: ranks.transpose()?,
                cache: cache.map(ReadCache::new),
                ..RunOptions::default()
            };
            OpenRun::find(run_source(paths, is_list)?, options, call)
        })?;
        Ok(RunHandle {
            open: Mutex::new(Some(Arc::new(run))),
        })
    }

    /// Frees the data that was read.
    fn close(&self) {
        *lock(&self.open) = None;
    }

    /// True if the run is closed.
    #[getter]
    fn closed(&self) -> bool {
        lock(&self.open).is_none()
    }

    /// Label, number, trace and host trace of each rank.
    #[getter]
    fn ranks(&self, py: Python<'_>) -> PyResult<Vec<RankRow>> {
        Ok(self.opened(py)?.ranks.clone())
    }

    /// Diagnostics of the files, and of the data read so far, as JSON.
    #[getter]
    fn diagnostics(&self, py: Python<'_>) -> PyResult<String> {
        diagnostics_json(&self.opened(py)?.all_diagnostics())
    }

    /// Returns the names of all tables.
    #[staticmethod]
    fn table_names() -> Vec<String> {
        let mut names = vec![];
        for name in AnalyzeDocument::table_names() {
            // the table of collectives by kind comes after the recorded collectives
            let is_hidden = TraceTable::ALL.iter().any(|table| table.name() == name);
            let command = if is_hidden { ANALYZE } else { "" };
            names.push(format!("{command}{name}"));
        }
        names.extend(RanksDocument::TABLES.map(|name| format!("{RANKS}{name}")));
        names.extend([FINDINGS, TOP, OPS].map(str::to_owned));
        names.extend(TraceTable::ALL.map(|table| table.name().to_owned()));
        names
    }

    /// Returns a table by name.
    #[pyo3(signature = (name, sequences_of=None))]
    fn table(&self, py: Python<'_>, name: String, sequences_of: Option<String>) -> PyResult<Table> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| {
            let source = run.table(&name, sequences_of, call)?;
            Table::new(name, source)
        })
    }

    /// Returns the largest possible gains, three lines each, and remarks on the whole run.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| Ok(run.findings(call)?.texts()))
    }

    /// Replays the graph. Returns the output of `etlink replay --json`, and the critical path's nodes.
    fn replay(
        &self,
        py: Python<'_>,
        scale: Vec<String>,
        what_if: Vec<String>,
    ) -> PyResult<(String, Table)> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| {
            let query = ReplayQuery {
                scale,
                what_if,
                critical_path: true,
            };
            let run = for_call(&run.query, call);
            let replayed = ReplayDocument::read(&run, &query)?;
            let path = TableSource::Batch(replayed.path_table()?);
            let path = Table::new("critical_path".to_owned(), path)?;
            Ok((replayed.to_json()?, path))
        })
    }

    /// Compares with a later run. Returns the output of `etlink diff --json`, its sentences and its
    /// tables.
    fn diff(
        &self,
        py: Python<'_>,
        other: &RunHandle,
    ) -> PyResult<(String, Vec<String>, Vec<Table>)> {
        let (before, after) = (self.opened(py)?, other.opened(py)?);
        run_cancellable(py, move |call| {
            let after = for_call(&after.query, call.clone());
            let before = for_call(&before.query, call);
            let diff = DiffDocument::read(&before, &after)?;
            let mut tables = vec![];
            for name in DiffDocument::TABLES {
                let table = TableSource::Batch(diff.table(name)?);
                tables.push(Table::new(name.to_owned(), table)?);
            }
            Ok((diff.to_json()?, diff.sentences(), tables))
        })
    }

    /// Returns the page about the run, as HTML.
    fn report(&self, py: Python<'_>, title: String) -> PyResult<Vec<u8>> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| {
            report_page(&for_call(&run.query, call), title)
        })
    }

    /// Writes a Chakra file per rank, and returns their paths.
    fn to_chakra(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        simulator: bool,
        overwrite: bool,
    ) -> PyResult<Vec<OsString>> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| {
            let run = for_call(&run.query, call);
            let files = write_chakra(&run, &folder, simulator, overwrite)?;
            Ok(files.into_iter().map(PathBuf::into_os_string).collect())
        })
    }

    /// Writes a trace of all ranks for Perfetto.
    fn timeline(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let run = self.opened(py)?;
        run_cancellable(py, move |call| {
            write_timeline(&for_call(&run.query, call), &path, overwrite)
        })
    }
}

impl RunHandle {
    fn opened(&self, py: Python<'_>) -> PyResult<Arc<OpenRun>> {
        let run = lock(&self.open).clone();
        run.ok_or_else(|| advised_exception(py, "the run is closed", "open it again"))
    }
}

impl OpenRun {
    fn find(source: RunSource, options: RunOptions, call: Call) -> Result<OpenRun> {
        let query = RunQuery { source, options };
        let run = Run::open(query.source.clone(), for_call(&query, call).options)?;
        let mut ranks = vec![];
        for rank in run.ranks() {
            let files = rank.files();
            let trace = files.graph.as_ref().or(files.device.as_ref());
            let number = files.rank;
            ranks.push((
                files.label.clone(),
                number,
                trace.cloned().map(PathBuf::into_os_string),
                files.host.clone().map(PathBuf::into_os_string),
            ));
        }
        if ranks.is_empty() {
            return Err(RunError::NoRankAsked.into());
        }
        let diagnostics = run.files().diagnostics.clone();
        Ok(OpenRun {
            query,
            ranks,
            diagnostics,
            documents: Documents::default(),
        })
    }

    /// Returns the diagnostics of the files and of all existing documents, each once.
    fn all_diagnostics(&self) -> Vec<Diagnostic> {
        let Documents {
            analyzed,
            ranks,
            findings,
            top,
            ops,
            traces,
        } = &self.documents;
        let mut told = self.diagnostics.clone();
        // without waiting: a document that is being made has no diagnostics yet
        if let Ok(analyzed) = analyzed.try_lock() {
            told.extend(analyzed.iter().flat_map(|(_, made)| made.diagnostics()));
        }
        told.extend(made_already(ranks).map_or(vec![], |made| made.diagnostics()));
        told.extend(made_already(findings).map_or(vec![], |made| made.diagnostics.clone()));
        told.extend(made_already(top).map_or(vec![], |made| made.diagnostics()));
        told.extend(made_already(ops).map_or(vec![], |made| made.diagnostics()));
        told.extend(made_already(traces).map_or(vec![], |made| made.diagnostics().to_vec()));
        // documents of the same files have mostly the same diagnostics
        Diagnostic::merge(told)
    }

    fn table(&self, name: &str, sequences_of: Option<String>, call: Call) -> Result<TableSource> {
        if name != "sequences" && sequences_of.is_some() {
            bail!("sequences_of applies only to the table sequences, not to {name}");
        }
        if let Some(table) = TraceTable::ALL.iter().find(|table| table.name() == name) {
            return Ok(TableSource::Traces(self.traces(call)?, *table));
        }
        Ok(TableSource::Batch(match name {
            FINDINGS => self.findings(call)?.table()?,
            TOP => {
                let query = for_call(&self.query, call);
                made_once(&self.documents.top, || TopDocument::read(&query))?.table()?
            }
            OPS => {
                let query = for_call(&self.query, call);
                made_once(&self.documents.ops, || OpsDocument::read(&query))?.table()?
            }
            name if name.starts_with(RANKS) => {
                let query = for_call(&self.query, call);
                let ranks = made_once(&self.documents.ranks, || RanksDocument::read(&query))?;
                ranks.table(name.strip_prefix(RANKS).unwrap_or(name))?
            }
            name => {
                let name = name.strip_prefix(ANALYZE).unwrap_or(name);
                self.analyzed_table(name, sequences_of, call)?
            }
        }))
    }

    fn analyzed_table(
        &self,
        name: &str,
        sequences_of: Option<String>,
        call: Call,
    ) -> Result<arrow_array::RecordBatch> {
        AnalyzeDocument::table_names()
            .find(|known| *known == name)
            .with_context(|| {
                let names = RunHandle::table_names().join(", ");
                format!("unknown table {name}; tables are {names}")
            })?;
        // an empty table would suggest that the trace has no sequences
        if name == "sequences" && sequences_of.is_none() {
            bail!(
                Failure::new("the table sequences needs the name of an op")
                    .advise("give sequences_of=\"…\"")
            );
        }
        let query = AnalyzeQuery {
            sequences_of,
            memory_timeline: name == "memory_timeline",
        };
        // held during the analysis, so that a second thread does not repeat it
        let mut analyzed = lock(&self.documents.analyzed);
        let known = analyzed.iter().find(|(made, _)| *made == query);
        let document = match known {
            Some((_, document)) => Arc::clone(document),
            None => {
                let run = for_call(&self.query, call);
                let document = Arc::new(AnalyzeDocument::read(&run, &query)?);
                analyzed.push((query, Arc::clone(&document)));
                document
            }
        };
        // other tables need not wait for the conversion of this one
        drop(analyzed);
        document.table(name)
    }

    fn traces(&self, call: Call) -> Result<Arc<TraceDocument>> {
        let query = for_call(&self.query, call);
        made_once(&self.documents.traces, || TraceDocument::read(&query))
    }

    fn findings(&self, call: Call) -> Result<Arc<FindingsReport>> {
        let query = for_call(&self.query, call);
        made_once(&self.documents.findings, || findings_of_run(&query))
    }
}

/// The query of one call.
fn for_call(query: &RunQuery, call: Call) -> RunQuery {
    RunQuery {
        source: query.source.clone(),
        options: call.options(query.options.clone()),
    }
}

/// Refuses missing files early: the library reports them only when it reads them.
pub(crate) fn check_files_exist<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Result<()> {
    for path in paths {
        storage::file_data(path)
            .map_err(|source| etlink_run::FileError {
                action: etlink_run::FileAction::Open,
                path: path.clone(),
                source,
            })
            .map_err(RunError::from)?;
    }
    Ok(())
}

fn run_source(mut paths: Vec<PathBuf>, is_list: bool) -> Result<RunSource> {
    check_files_exist(paths.iter())?;
    if is_list {
        return Ok(RunSource::Files(paths));
    }
    let path = paths
        .pop()
        .ok_or_else(|| Failure::new("no path").advise("give a trace or a folder of traces"))?;
    Ok(RunSource::with_stated_rank(&path))
}

fn made_once<T>(place: &Mutex<Option<Arc<T>>>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    // as above: a second thread waits, and finds the document made
    let mut place = lock(place);
    if let Some(made) = &*place {
        return Ok(Arc::clone(made));
    }
    let made = Arc::new(make()?);
    *place = Some(Arc::clone(&made));
    Ok(made)
}

/// Returns a document, unless it does not exist or another thread is making it.
fn made_already<T>(place: &Mutex<Option<Arc<T>>>) -> Option<Arc<T>> {
    place.try_lock().ok()?.clone()
}

/// Locks a value. It is complete at any time, because it is replaced, never changed in parts.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
