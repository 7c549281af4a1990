//! Reads an export in two halves, concurrently if there are two connections.
//!
//! ```text
//! ranges, names, calls of MPI, metrics ─┐
//! calls, device rows, synchronisations ─┴─> one trace
//! ```
//! Each half numbers names and threads on its own. The second half is renumbered to match the
//! first, in the same order whether they are read concurrently or in turn.

use crate::Error;
use crate::nsys::strings::StringTable;
use crate::nsys::{ExportReader, NsysProcess, NsysReadOptions};
use crate::sqlite::SqliteTables;
use etlink_model::{DeviceTrace, DeviceTraceAssembler, NameId, QueueIdx, ThreadIdx, TrackLabel};
use rusqlite::Connection;

/// Inputs shared by both halves.
#[derive(Clone, Copy)]
pub(crate) struct ExportParts<'t> {
    pub(crate) tables: &'t SqliteTables,
    pub(crate) process: Option<&'t NsysProcess>,
    /// Number of processes in the report.
    pub(crate) process_count: usize,
    pub(crate) options: NsysReadOptions,
}

impl ExportParts<'_> {
    fn reader<'c>(&'c self, connection: &'c Connection) -> Result<ExportReader<'c>, Error> {
        Ok(ExportReader {
            connection,
            tables: self.tables,
            strings: StringTable::new(connection, self.tables)?,
            process: self.process.cloned(),
            process_count: self.process_count,
            keep: self.options.keep,
            assembler: DeviceTraceAssembler::default(),
        })
    }

    /// Reads thread activity except calls, and the facts around the events.
    pub(crate) fn read_ranges(
        &self,
        connection: &Connection,
    ) -> Result<DeviceTraceAssembler, Error> {
        let mut reader = self.reader(connection)?;
        reader.read_header()?;
        reader.read_ranges()?;
        reader.read_mpi()?;
        reader.read_metrics()?;
        reader.strings.finish()?;
        Ok(reader.assembler)
    }

    /// Reads calls and device work.
    pub(crate) fn read_work(&self, connection: &Connection) -> Result<DeviceTrace, Error> {
        let mut reader = self.reader(connection)?;
        reader.read_calls()?;
        reader.read_rows()?;
        reader.read_syncs()?;
        reader.strings.finish()?;
        Ok(reader.assembler.trace)
    }
}

/// Merges the second half into the first. O(rows).
pub(crate) fn append_work(all: &mut DeviceTraceAssembler, mut work: DeviceTrace) {
    let mut names: Vec<NameId> = vec![];
    all.trace.names.absorb(&work.names, &mut names);
    let number = |label: TrackLabel| match label {
        TrackLabel::Int(number) => number,
        // this reader creates no other labels
        TrackLabel::Text(_) => 0,
    };
    let mut threads: Vec<ThreadIdx> = vec![];
    for thread in &work.threads {
        threads.push(all.thread_index(number(thread.pid), number(thread.tid)));
    }
    let mut queues: Vec<QueueIdx> = vec![];
    for queue in &work.queues {
        queues.push(all.queue_index(*queue));
    }
    for column in [
        &mut work.calls.name,
        &mut work.calls.kernel,
        &mut work.rows.name,
        &mut work.rows.category,
        &mut work.syncs.name,
    ] {
        for name in column {
            *name = names[name.index()];
        }
    }
    for thread in &mut work.calls.thread {
        *thread = threads[thread.index()];
    }
    for column in [&mut work.rows.queue, &mut work.syncs.queue] {
        for queue in column {
            *queue = queues[queue.index()];
        }
    }
    for (events, count) in &work.events {
        all.count_events(events, *count);
    }
    all.trace.calls.append(&mut work.calls);
    all.trace.rows.append(&mut work.rows);
    all.trace.syncs.append(&mut work.syncs);
    all.trace.anomalies.merge(work.anomalies);
}
