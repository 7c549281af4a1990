//! HTA's tables of named files, for `etlink.hta`.

use crate::run::check_files_exist;
use crate::run::diagnostics_json;
use crate::table::{Table, TableSource};
use crate::worker::run_cancellable;
use etlink::documents::{HtaDocument, HtaQuery};
use etlink_analysis::hta::{HtaOptions, StragglerQuery};
use etlink_run::RunOptions;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Traces, loaded like HTA does.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct HtaHandle {
    document: Arc<HtaDocument>,
}

#[pymethods]
impl HtaHandle {
    /// Reads the traces: each file with its rank; `None` if the file states it.
    #[new]
    #[pyo3(signature = (files, is_folder, include_last, nanoseconds))]
    fn new(
        py: Python<'_>,
        files: Vec<(Option<i64>, PathBuf)>,
        is_folder: bool,
        include_last: bool,
        nanoseconds: bool,
    ) -> PyResult<HtaHandle> {
        let document = run_cancellable(py, move |call| {
            check_files_exist(files.iter().map(|(_, file)| file))?;
            let settings = HtaOptions {
                include_last,
                nanoseconds,
                rank: None,
            };
            let options = call.options(RunOptions::default());
            HtaDocument::read(HtaQuery {
                files,
                is_folder,
                settings,
                options,
            })
        })?;
        Ok(HtaHandle {
            document: Arc::new(document),
        })
    }

    /// File of each rank.
    #[getter]
    fn files(&self) -> Vec<(i64, PathBuf)> {
        let files = self.document.files();
        files.map(|(rank, file)| (rank, file.clone())).collect()
    }

    /// Diagnostics of the files, as JSON.
    #[getter]
    fn diagnostics(&self) -> PyResult<String> {
        diagnostics_json(self.document.diagnostics())
    }

    /// Returns the result of `get_profiler_steps`.
    #[getter]
    fn profiler_steps(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let document = Arc::clone(&self.document);
        run_cancellable(py, move |_| Ok(document.profiler_steps()))
    }

    /// Returns the result of `get_potential_stragglers` for these steps.
    fn potential_stragglers(
        &self,
        py: Python<'_>,
        steps: Vec<u64>,
        candidates: usize,
    ) -> PyResult<Vec<i64>> {
        let document = Arc::clone(&self.document);
        run_cancellable(py, move |_| {
            Ok(document.potential_stragglers(&StragglerQuery {
                steps: Some(steps.into_iter().collect()),
                candidates,
            }))
        })
    }

    /// Returns a table by name.
    fn table(&self, py: Python<'_>, name: String) -> PyResult<Table> {
        let document = Arc::clone(&self.document);
        run_cancellable(py, move |_| {
            let batch = TableSource::Batch(document.table(&name)?);
            Table::new(name, batch)
        })
    }
}
