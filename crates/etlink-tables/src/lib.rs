//! A linked trace as Arrow tables, written as Parquet.
//!
//! ```text
//! LinkedTrace ─ batch (of a table's rows) ─> Arrow ─ write ─> Parquet
//! messages of a written graph <── written_graph ──> Parquet
//! ```
//! | table | a line is | key |
//! |---|---|---|
//! | `events` | an op, annotation, call, device row or synchronisation row | `rank`, `event` |
//! | `nodes` | a node of the graph: a slice of an event, or a delay | `rank`, `node` |
//! | `edges` | a reason for a node to wait | `rank`, `to_node`, `from_node`, `kind` |
//! | `collectives` | a collective, send or receive | `rank`, `node` |
//! | `kernel_metrics` | a metric that was measured of a kernel | `rank`, `event`, `metric` |
//!
//! Times are integers, ns; starts since the Unix epoch by the rank's own clock, where the trace has
//! a base time. What is not known is null. Names are dictionaries. Rows are made and written in
//! batches: memory is that of a batch.

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
use columns::ColumnSet;
use etlink_link::LinkedTrace;
use etlink_model::DurationNs;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// The key of the metadata of a file that names who wrote it.
pub const MARK: &str = "etlink_version";

/// Lines that are made at once.
// Sixteen of these fill a row group of Parquet (2^20 rows by default) without a rest.
const BATCH: usize = 1 << 16;

/// What a replay says of the graph; its columns are null where a list is empty.
#[derive(Clone, Debug, Default)]
pub struct GraphTimes {
    /// Per edge, in the order of the trace's edges: what it takes from the end of its source to the
    /// start of the node, where it decides.
    pub edge_latency: Vec<DurationNs>,
    /// Per node: how much later it could end without the work of this rank ending later.
    pub node_slack: Vec<DurationNs>,
}

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceTable {
    /// What the traces recorded.
    Events,
    /// Nodes of the graph.
    Nodes,
    /// Edges of the graph.
    Edges,
    /// Communication.
    Collectives,
    /// Metrics of kernels.
    KernelMetrics,
}

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The columns do not fit together.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The sink failed, or the table has more than a Parquet file can hold.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A record of a report cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Tables that are not those of a written graph.
    #[error(
        "these are no tables of a written graph, with the columns that `etlink convert` writes; \
        convert the .et itself"
    )]
    NotAWrittenGraph,
    /// What was to be a record has no fields.
    #[error("a line of a table is no record")]
    NoRecord,
    /// The tables number events with 32 bits.
    #[error("{events} events are more than the tables can number ({})", u32::MAX)]
    TooManyEvents {
        /// How many the trace has.
        events: usize,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}

impl TraceTable {
    /// All of them.
    pub const ALL: [TraceTable; 5] = [
        TraceTable::Events,
        TraceTable::Nodes,
        TraceTable::Edges,
        TraceTable::Collectives,
        TraceTable::KernelMetrics,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TraceTable::Events => "events",
            TraceTable::Nodes => "nodes",
            TraceTable::Edges => "edges",
            TraceTable::Collectives => "collectives",
            TraceTable::KernelMetrics => "kernel_metrics",
        }
    }

    /// How many lines of `trace` there are to go through: nodes for collectives and edges.
    fn places(self, trace: &LinkedTrace) -> usize {
        match self {
            TraceTable::Events => events::event_count(trace),
            // Edges are stored by the node that waits, and
            // collectives are nodes: both are found from there.
            TraceTable::Nodes | TraceTable::Edges | TraceTable::Collectives => trace.nodes.len(),
            TraceTable::KernelMetrics => trace.kernel_metrics.len(),
        }
    }

    /// The lines of some places, `None` where the rank is not known.
    ///
    /// # Errors
    /// If a batch has too many different names for Arrow.
    fn batch(
        self,
        trace: &LinkedTrace,
        rank: Option<i64>,
        times: &GraphTimes,
        places: Range<usize>,
    ) -> Result<RecordBatch, Error> {
        let columns = ColumnSet::new(rank);
        match self {
            TraceTable::Events => events::events_batch(trace, places, columns),
            TraceTable::Nodes => nodes::nodes_batch(trace, times, places, columns),
            TraceTable::Edges => edges::edges_batch(trace, times, places, columns),
            TraceTable::Collectives => collectives::collectives_batch(trace, places, columns),
            TraceTable::KernelMetrics => kernel_metrics::metrics_batch(trace, places, columns),
        }
    }

    /// Writes the table of `trace`, which is that of `rank`. Returns how many lines it has.
    /// O(lines).
    ///
    /// # Errors
    /// If `out` fails, or the trace has more events than can be numbered.
    pub fn write(
        self,
        trace: &LinkedTrace,
        rank: Option<i64>,
        times: &GraphTimes,
        out: impl Write + Send,
    ) -> Result<u64, Error> {
        // Nodes refer to events by the same numbers.
        events::check_count(events::event_count(trace))?;
        // The schema is that of a batch without lines: so a table without any has its columns too,
        // and files of all ranks can be read as one.
        let empty = self.batch(trace, rank, times, 0..0)?;
        let writer = KeyValue::new(MARK.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        // pandas and DuckDB write Snappy by default, so that no reader lacks it.
        let settings = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![writer]))
            .build();
        let mut writer = ArrowWriter::try_new(out, empty.schema(), Some(settings))?;
        let places = self.places(trace);
        let mut lines = 0;
        for start in (0..places).step_by(BATCH) {
            let end = places.min(start + BATCH);
            let batch = self.batch(trace, rank, times, start..end)?;
            lines += batch.num_rows() as u64;
            writer.write(&batch)?;
        }
        // This writes the footer. A file without it cannot be read, and dropping the writer would
        // hide why.
        writer.close()?;
        Ok(lines)
    }
}

/// A table of several ranks, made batch by batch as it is read.
///
/// It holds the traces: who reads it has memory for one batch beside them.
pub struct TraceTableReader {
    table: TraceTable,
    ranks: Vec<RankTrace>,
    schema: SchemaRef,
    /// The rank that is read, and the first place in it that is not.
    next: (usize, usize),
}

/// A trace and the rank that it is of, where that is known.
#[derive(Clone)]
pub struct RankTrace {
    /// The rank.
    pub rank: Option<i64>,
    /// Its trace.
    pub trace: Arc<LinkedTrace>,
    /// What its replay says.
    pub times: Arc<GraphTimes>,
}

impl TraceTableReader {
    /// The table of `ranks`, one after the other.
    ///
    /// # Errors
    /// There is no rank, or one has more events than can be numbered.
    pub fn new(table: TraceTable, ranks: Vec<RankTrace>) -> Result<TraceTableReader, Error> {
        for rank in &ranks {
            events::check_count(events::event_count(&rank.trace))?;
        }
        // columns are those of a trace: a table of no trace would have none
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

    /// How many lines it has. O(nodes) for edges and collectives.
    ///
    /// # Errors
    /// A batch has too many different names for Arrow.
    pub fn count_lines(&self) -> Result<u64, Error> {
        let mut lines = 0;
        for RankTrace { rank, trace, times } in &self.ranks {
            let places = self.table.places(trace);
            // of events and nodes each place is a line; of the others nobody has counted
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
