//! A table, as Arrow's C stream.

use crate::errors::to_exception;
use anyhow::Result;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use etlink::documents::TraceDocument;
use etlink_tables::TraceTable;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Name of a capsule with a stream, in Arrow's PyCapsule interface.
const STREAM_NAME: &std::ffi::CStr = c"arrow_array_stream";

/// Source of a table's rows.
pub(crate) enum TableSource {
    /// Rows that exist already.
    Batch(RecordBatch),
    /// Rows made from linked traces, a batch at a time.
    Traces(Arc<TraceDocument>, TraceTable),
}

/// A table of a run. polars, pyarrow and DuckDB read it without a copy.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct Table {
    name: String,
    source: TableSource,
    schema: SchemaRef,
    /// Number of rows, once requested: edges and collectives have to be made to be counted.
    lines: OnceLock<u64>,
}

impl Table {
    pub(crate) fn new(name: String, source: TableSource) -> Result<Table> {
        let schema = match &source {
            TableSource::Batch(batch) => batch.schema(),
            TableSource::Traces(traces, table) => traces.table(*table)?.schema(),
        };
        Ok(Table {
            name,
            source,
            schema,
            lines: OnceLock::new(),
        })
    }

    fn count_lines(&self) -> Result<u64> {
        if let Some(lines) = self.lines.get() {
            return Ok(*lines);
        }
        let lines = match &self.source {
            TableSource::Batch(batch) => batch.num_rows() as u64,
            TableSource::Traces(traces, table) => traces.table(*table)?.count_lines()?,
        };
        // two threads that count at once get the same result
        Ok(*self.lines.get_or_init(|| lines))
    }

    fn reader(&self) -> Result<Box<dyn RecordBatchReader + Send>> {
        Ok(match &self.source {
            TableSource::Batch(batch) => {
                // columns are shared, not copied: a batch is a list of pointers
                let batches = [Ok::<_, ArrowError>(batch.clone())];
                let schema = Arc::clone(&self.schema);
                Box::new(RecordBatchIterator::new(batches, schema))
            }
            TableSource::Traces(traces, table) => Box::new(traces.table(*table)?),
        })
    }
}

#[pymethods]
impl Table {
    /// Name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let counted = py.detach(|| self.count_lines());
        let lines = counted.map_err(|error| to_exception(py, &error))?;
        Ok(usize::try_from(lines)?)
    }

    /// Arrow's PyCapsule interface: returns a new stream of all rows at each call.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // the interface lets a producer that cannot convert answer with its own types
        drop(requested_schema);
        let reader = self.reader().map_err(|error| to_exception(py, &error))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM_NAME)
    }

    /// Number of rows and of columns.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        Ok((self.__len__(py)?, self.schema.fields().len()))
    }

    /// Iterates over the rows, as dictionaries.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Rows> {
        let reader = self.reader().map_err(|error| to_exception(py, &error))?;
        Ok(Rows(Mutex::new(RowReader {
            reader,
            batch: None,
            next: 0,
        })))
    }

    /// Returns the values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(index) = self.schema.index_of(column) else {
            let columns = self.columns().join(", ");
            let text = format!("{} has no column {column}; columns: {columns}", self.name);
            return Err(PyKeyError::new_err(text));
        };
        let values = PyList::empty(py);
        let mut reader = self.reader().map_err(|error| to_exception(py, &error))?;
        while let Some(batch) = py.detach(|| reader.next()) {
            let batch = batch.map_err(|error| to_exception(py, &error.into()))?;
            for row in 0..batch.num_rows() {
                values.append(cell_value(py, batch.column(index).as_ref(), row)?)?;
            }
            py.check_signals()?;
        }
        Ok(values)
    }

    /// Returns the first rows as a table of their own.
    #[pyo3(signature = (rows=5))]
    fn head(&self, py: Python<'_>, rows: usize) -> PyResult<Table> {
        let mut reader = self.reader().map_err(|error| to_exception(py, &error))?;
        let (mut first, mut left) = (vec![], rows);
        while left > 0
            && let Some(batch) = py.detach(|| reader.next())
        {
            let batch = batch.map_err(|error| to_exception(py, &error.into()))?;
            let taken = batch.num_rows().min(left);
            first.push(batch.slice(0, taken));
            left -= taken;
        }
        let first = concat_batches(&self.schema, &first);
        let first = first.map_err(|error| to_exception(py, &error.into()))?;
        let table = Table::new(self.name.clone(), TableSource::Batch(first));
        table.map_err(|error| to_exception(py, &error))
    }

    /// Returns the rows as dictionaries, at most `limit`.
    #[pyo3(signature = (limit=None))]
    fn to_pylist<'py>(
        &self,
        py: Python<'py>,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let lines = PyList::empty(py);
        // batch by batch, so that a few rows of a million are cheap
        let rows = self.__iter__(py)?;
        for _ in 0..limit.unwrap_or(usize::MAX) {
            let Some(line) = rows.__next__(py)? else {
                break;
            };
            lines.append(line)?;
        }
        Ok(lines)
    }
}

/// Rows of a table that are still to come. Threads may share them: each row goes to one of them.
#[pyclass(frozen, module = "etlink._etlink")]
pub(crate) struct Rows(Mutex<RowReader>);

struct RowReader {
    reader: Box<dyn RecordBatchReader + Send>,
    /// Batch of the next row; `None` before the first.
    batch: Option<RecordBatch>,
    /// Index of the next row in its batch.
    next: usize,
}

#[pymethods]
impl Rows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // waits without Python's lock, which the thread that reads needs
        let rows = self.0.lock_py_attached(py);
        let mut rows = rows.unwrap_or_else(PoisonError::into_inner);
        let rows = &mut *rows;
        loop {
            if let Some(batch) = &rows.batch
                && rows.next < batch.num_rows()
            {
                rows.next += 1;
                return row_values(py, batch, rows.next - 1).map(Some);
            }
            // a million rows take seconds
            py.check_signals()?;
            // only making objects of a batch needs Python's lock
            let Some(batch) = py.detach(|| rows.reader.next()) else {
                return Ok(None);
            };
            rows.batch = Some(batch.map_err(|error| to_exception(py, &error.into()))?);
            rows.next = 0;
        }
    }
}

fn row_values<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    row: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let line = PyDict::new(py);
    let schema = batch.schema_ref();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        line.set_item(field.name(), cell_value(py, column.as_ref(), row)?)?;
    }
    Ok(line)
}

/// Returns a cell as a Python object. Supports only the types that etlink's tables have.
fn cell_value<'py>(py: Python<'py>, column: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    // not `is_null`, which finds no null in a column without a type
    if column.is_null(row) || column.data_type() == &DataType::Null {
        return Ok(py.None().into_bound(py));
    }
    Ok(match column.data_type() {
        DataType::Boolean => {
            let flag = column.as_boolean().value(row);
            flag.into_pyobject(py)?.to_owned().into_any()
        }
        DataType::Int64 => {
            let number = column.as_primitive::<Int64Type>().value(row);
            number.into_pyobject(py)?.into_any()
        }
        DataType::UInt64 => {
            let number = column.as_primitive::<UInt64Type>().value(row);
            number.into_pyobject(py)?.into_any()
        }
        DataType::UInt32 => {
            let number = column.as_primitive::<UInt32Type>().value(row);
            number.into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            let number = column.as_primitive::<Float64Type>().value(row);
            number.into_pyobject(py)?.into_any()
        }
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            text.into_pyobject(py)?.into_any()
        }
        DataType::Dictionary(..) => {
            let names = column.as_dictionary::<Int32Type>();
            let Some(name) = names.key(row) else {
                return Ok(py.None().into_bound(py));
            };
            let text = names.values().as_string::<i32>().value(name);
            text.into_pyobject(py)?.into_any()
        }
        other => return Err(PyTypeError::new_err(format!("unknown column: {other}"))),
    })
}
