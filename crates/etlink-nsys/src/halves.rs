//! An export in two halves, which are read side by side where there are two connections.
//!
//! ```text
//! ranges, names, calls of MPI, metrics ─┐
//! calls, device rows, synchronisations ─┴─> one trace
//! ```
//! Each half has numbers of its own for names and threads. Those of the second become those of the
//! first, in the same order whether the halves are read at once or in turn.

use crate::strings::StringTable;
use crate::{Error, ExportReader, NsysProcess, NsysReadOptions};
use etlink_model::{DeviceTrace, DeviceTraceAssembler, NameId, QueueIdx, ThreadIdx, TrackLabel};
use etlink_sqlite::SqliteTables;
use rusqlite::Connection;

/// What both halves are read with.
#[derive(Clone, Copy)]
pub(crate) struct ExportParts<'t> {
    pub(crate) tables: &'t SqliteTables,
    pub(crate) process: Option<&'t NsysProcess>,
    /// How many there are in the report.
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

    /// What threads did, but for calls, and what stands around the events.
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

    /// Calls, and what devices did.
    pub(crate) fn read_work(&self, connection: &Connection) -> Result<DeviceTrace, Error> {
        let mut reader = self.reader(connection)?;
        reader.read_calls()?;
        reader.read_rows()?;
        reader.read_syncs()?;
        reader.strings.finish()?;
        Ok(reader.assembler.trace)
    }
}

/// Takes over the second half. O(rows).
pub(crate) fn append_work(all: &mut DeviceTraceAssembler, mut work: DeviceTrace) {
    let mut names: Vec<NameId> = vec![];
    all.trace.names.absorb(&work.names, &mut names);
    let number = |label: TrackLabel| match label {
        TrackLabel::Int(number) => number,
        // this reader has no other labels
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
