//! Converts a linked trace to Arrow tables, written as Parquet.
//!
//! ```text
//! LinkedTrace ─ batch (of a table's rows) ─> Arrow ─ write ─> Parquet
//! messages of a written graph <── written_graph ──> Parquet
//! ```
//! | table | a row is | key |
//! |---|---|---|
//! | `events` | an op, annotation, call, device row or synchronisation row | `rank`, `event` |
//! | `nodes` | a node of the graph: a slice of an event, or a delay | `rank`, `node` |
//! | `edges` | a reason for a node to wait | `rank`, `to_node`, `from_node`, `kind` |
//! | `collectives` | a collective, send or receive | `rank`, `node` |
//! | `kernel_metrics` | a metric that was measured of a kernel | `rank`, `event`, `metric` |
//!
//! Times are integers, ns; starts count from the Unix epoch by the rank's own clock, if the trace
//! has a base time. Unknown values are null. Names are dictionaries. Rows are built and written in
//! batches: memory is one batch.

mod collectives;
mod columns;
mod edges;
mod events;
mod kernel_metrics;
mod mark;
mod nodes;
mod records;
pub mod written_graph;

pub use mark::has_mark;
pub use records::RecordTable;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use etlink_link::LinkedTrace;
use etlink_model::DurationNs;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Metadata key of a file's writer.
pub const MARK: &str = "etlink_version";

/// Rows per batch.
// Sixteen batches exactly fill a Parquet row group (2^20 rows by default).
const BATCH: usize = 1 << 16;

/// Results of replaying the graph; a column is null if its list is empty.
#[derive(Clone, Debug, Default)]
pub struct GraphTimes {
    /// Per edge, in the order of the trace's edges: time from the end of the source to the start of
    /// the node, if the edge decides.
    pub edge_latency: Vec<DurationNs>,
    /// Per node: possible delay of its end without delaying the end of the rank's work.
    pub node_slack: Vec<DurationNs>,
}

/// A table of a linked trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TraceTable {
    /// Recorded events.
    Events,
    /// Nodes of the graph.
    Nodes,
    /// Edges of the graph.
    Edges,
    /// Collectives, sends and receives.
    Collectives,
    /// Measured metrics of kernels.
    KernelMetrics,
}

/// Reason why a table could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The columns do not fit together.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The sink failed, or the table exceeds the limits of a Parquet file.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A record of a report cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The tables do not hold a written graph.
    #[error(
        "not tables of a written graph with the columns that `etlink convert` writes; \
        convert the .et itself"
    )]
    NotAWrittenGraph,
    /// A value that should be a record has no fields.
    #[error("a row of a table is not a record")]
    NoRecord,
    /// The trace has more events than 32 bits can number.
    #[error("{events} events exceed the limit of the tables ({})", u32::MAX)]
    TooManyEvents {
        /// Number of events in the trace.
        events: usize,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}

impl TraceTable {
    /// All tables, in order.
    pub const ALL: [TraceTable; 5] = [
        TraceTable::Events,
        TraceTable::Nodes,
        TraceTable::Edges,
        TraceTable::Collectives,
        TraceTable::KernelMetrics,
    ];

    /// Returns the name of the table.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the number of places in `trace` to visit: nodes for collectives and edges.
    fn places(self, trace: &LinkedTrace) -> usize {
        match self {
            TraceTable::Events => events::event_count(trace),
            // Edges are stored by waiting node, and collectives are nodes: both are found from the
            // nodes.
            TraceTable::Nodes | TraceTable::Edges | TraceTable::Collectives => trace.nodes.len(),
            TraceTable::KernelMetrics => trace.kernel_metrics.len(),
        }
    }

    /// Builds the rows of some places; `rank` is `None` if it is unknown.
    ///
    /// # Errors
    /// A batch has too many different names for Arrow.
    fn batch(
        self,
        trace: &LinkedTrace,
        rank: Option<i64>,
        times: &GraphTimes,
        places: Range<usize>,
    ) -> Result<RecordBatch, Error> {
        match self {
            TraceTable::Events => events::events_batch(trace, places, rank),
            TraceTable::Nodes => nodes::nodes_batch(trace, times, places, rank),
            TraceTable::Edges => edges::edges_batch(trace, times, places, rank),
            TraceTable::Collectives => collectives::collectives_batch(trace, places, rank),
            TraceTable::KernelMetrics => kernel_metrics::metrics_batch(trace, places, rank),
        }
    }

    /// Writes the table of `trace`, recorded on `rank`. Returns the number of rows. O(rows).
    ///
    /// # Errors
    /// `out` fails, or the trace has more events than can be numbered.
    pub fn write(
        self,
        trace: &LinkedTrace,
        rank: Option<i64>,
        times: &GraphTimes,
        out: impl Write + Send,
    ) -> Result<u64, Error> {
        // Nodes refer to events by the same numbers.
        events::check_count(events::event_count(trace))?;
        // The schema comes from an empty batch: an empty table then has its columns too, and files
        // of all ranks can be read as one.
        let empty = self.batch(trace, rank, times, 0..0)?;
        let mut writer = parquet_writer(out, empty.schema(), vec![])?;
        let places = self.places(trace);
        let mut lines = 0;
        for start in (0..places).step_by(BATCH) {
            let end = places.min(start + BATCH);
            let batch = self.batch(trace, rank, times, start..end)?;
            lines += batch.num_rows() as u64;
            writer.write(&batch)?;
        }
        // Writes the footer. A file without one is unreadable, and dropping the writer would hide
        // the error.
        writer.close()?;
        Ok(lines)
    }
}

/// Begins a Parquet file with etlink's mark and other pairs as metadata.
fn parquet_writer<W: Write + Send>(
    out: W,
    schema: SchemaRef,
    pairs: Vec<(&str, String)>,
) -> Result<ArrowWriter<W>, Error> {
    let mark = (MARK, env!("CARGO_PKG_VERSION").to_owned());
    let pairs = pairs.into_iter().chain([mark]);
    let metadata = pairs.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    // Snappy is the default of pandas and DuckDB, so every reader supports it.
    let settings = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata.collect()))
        .build();
    Ok(ArrowWriter::try_new(out, schema, Some(settings))?)
}

/// Reads a table of several ranks, building it batch by batch.
///
/// Holds the traces: a reader needs memory for just one more batch.
pub struct TraceTableReader {
    table: TraceTable,
    ranks: Vec<RankTrace>,
    schema: SchemaRef,
    /// Current rank, and the first place in it that is not read yet.
    next: (usize, usize),
}

/// A trace with its rank, if known.
#[derive(Clone)]
pub struct RankTrace {
    /// Rank of the trace; `None` if unknown.
    pub rank: Option<i64>,
    /// Linked trace of the rank.
    pub trace: Arc<LinkedTrace>,
    /// Replay results of the trace.
    pub times: Arc<GraphTimes>,
}

impl TraceTableReader {
    /// Creates a reader of the table of `ranks`, one rank after the other.
    ///
    /// # Errors
    /// There are no ranks, or one has more events than can be numbered.
    pub fn new(table: TraceTable, ranks: Vec<RankTrace>) -> Result<TraceTableReader, Error> {
        for rank in &ranks {
            events::check_count(events::event_count(&rank.trace))?;
        }
        // columns come from a trace: without any, there would be none
        let first = ranks.first().ok_or(Error::NoRecord)?;
        let schema = table
            .batch(&first.trace, None, &first.times, 0..0)?
            .schema();
        Ok(TraceTableReader {
            table,
            ranks,
            schema,
            next: (0, 0),
        })
    }

    /// Returns the number of rows. O(nodes) for edges and collectives.
    ///
    /// # Errors
    /// A batch has too many different names for Arrow.
    pub fn count_lines(&self) -> Result<u64, Error> {
        let mut lines = 0;
        for RankTrace { rank, trace, times } in &self.ranks {
            let places = self.table.places(trace);
            // each event or node is a row; rows of the other tables must be counted
            if matches!(self.table, TraceTable::Events | TraceTable::Nodes) {
                lines += places as u64;
                continue;
            }
            for start in (0..places).step_by(BATCH) {
                let places = start..places.min(start + BATCH);
                lines += self.table.batch(trace, *rank, times, places)?.num_rows() as u64;
            }
        }
        Ok(lines)
    }
}

impl Iterator for TraceTableReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (index, start) = self.next;
            let RankTrace { rank, trace, times } = self.ranks.get(index)?;
            let end = self.table.places(trace).min(start + BATCH);
            if start >= end {
                self.next = (index + 1, 0);
                continue;
            }
            self.next = (index, end);
            let batch = self.table.batch(trace, *rank, times, start..end);
            return Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))));
        }
    }
}

impl RecordBatchReader for TraceTableReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests;
