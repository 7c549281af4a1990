//! A linked trace as Arrow tables, written as Parquet.
//!
//! ```text
//! LinkedTrace ─ batch (of a table's rows) ─> Arrow ─ write ─> Parquet
//! ```
//! | table | a line is | key |
//! |---|---|---|
//! | `events` | an op, annotation, call, device row or synchronisation row | `rank`, `event` |
//! | `nodes` | a node of the graph: a slice of an event, or a delay | `rank`, `node` |
//! | `edges` | a reason for a node to wait | `rank`, `to_node`, `from_node`, `kind` |
//! | `collectives` | a collective, send or receive | `rank`, `node` |
//!
//! Times are integers, ns; starts since the Unix epoch by the rank's own clock, where the trace has
//! a base time. What is not known is null. Names are dictionaries. Rows are made and written in
//! batches: memory is that of a batch.

mod collectives;
mod columns;
mod edges;
mod events;
mod nodes;

use arrow_array::RecordBatch;
use columns::ColumnSet;
use etlink_link::LinkedTrace;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::ops::Range;

/// The key of the metadata of a file that names who wrote it.
pub const MARK: &str = "etlink_version";

/// Lines that are made at once.
// Sixteen of these fill a row group of Parquet (2^20 rows by default) without a rest.
const BATCH: usize = 1 << 16;

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
    pub const ALL: [TraceTable; 4] = [
        TraceTable::Events,
        TraceTable::Nodes,
        TraceTable::Edges,
        TraceTable::Collectives,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TraceTable::Events => "events",
            TraceTable::Nodes => "nodes",
            TraceTable::Edges => "edges",
            TraceTable::Collectives => "collectives",
        }
    }

    /// How many lines of `trace` there are to go through: nodes for collectives and edges.
    fn places(self, trace: &LinkedTrace) -> usize {
        match self {
            TraceTable::Events => events::event_count(trace),
            // Edges are stored by the node that waits, and
            // collectives are nodes: both are found from there.
            TraceTable::Nodes | TraceTable::Edges | TraceTable::Collectives => trace.nodes.len(),
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
        places: Range<usize>,
    ) -> Result<RecordBatch, Error> {
        let columns = ColumnSet::new(rank);
        match self {
            TraceTable::Events => events::events_batch(trace, places, columns),
            TraceTable::Nodes => nodes::nodes_batch(trace, places, columns),
            TraceTable::Edges => edges::edges_batch(trace, places, columns),
            TraceTable::Collectives => collectives::collectives_batch(trace, places, columns),
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
        out: impl Write + Send,
    ) -> Result<u64, Error> {
        // Nodes refer to events by the same numbers.
        events::check_count(events::event_count(trace))?;
        // The schema is that of a batch without lines: so a table without any has its columns too,
        // and files of all ranks can be read as one.
        let empty = self.batch(trace, rank, 0..0)?;
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
            let batch = self.batch(trace, rank, start..places.min(start + BATCH))?;
            lines += batch.num_rows() as u64;
            writer.write(&batch)?;
        }
        // This writes the footer. A file without it cannot be read, and dropping the writer would
        // hide why.
        writer.close()?;
        Ok(lines)
    }
}

#[cfg(test)]
mod tests;
