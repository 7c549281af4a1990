//! Writes a device trace in the layout of an Nsight Systems export, for tests and to compare tools
//! on the same run.

mod layout;

use crate::nsys::global_pid::TID_BITS;
use crate::nsys::{GlobalPid, calls, nvtx, rows, syncs};
use etlink_model::{
    Correlation, DeviceQueue, DeviceTrace, HostThread, NameId, RfId, RowKind, TrackLabel,
};
use layout::TableLayout;
use rusqlite::types::Value;
use rusqlite::{Connection, Statement, params_from_iter};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Table layout of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NsysSchema {
    /// 2.9, of Nsight Systems 2022.2: `EXPORT_META_DATA`, no green contexts.
    V2_9,
    /// 3.13, of Nsight Systems 2024.5: `META_DATA_EXPORT`, green contexts, synchronisation ids.
    #[default]
    V3_13,
}

impl NsysSchema {
    /// All layouts, oldest first.
    pub const ALL: [NsysSchema; 2] = [NsysSchema::V2_9, NsysSchema::V3_13];

    fn version(self) -> &'static str {
        match self {
            NsysSchema::V2_9 => "2.9.0",
            NsysSchema::V3_13 => "3.13.2",
        }
    }
}

/// Correlation id of a call that CUPTI did not see.
const NO_CORRELATION: i64 = 0;

/// `CUPTI_SYNCHRONIZATION_INVALID_VALUE`.
const NONE_32: i64 = 0xffff_ffff;

/// First id given to events that have none.
const FIRST_EVENT: i64 = 1 << 20;

/// Appends a trace to a database. Reading it back gives the same calls, device rows and
/// synchronisations, and the same thread ranges as far as NVTX expresses them (name, sequence
/// number, handle, shapes). A report of several processes is written process by process.
///
/// All rows are assigned to the process of the trace's first thread, whose id must be a number.
/// Graph nodes without work, memory events, Python frames and communication records are not
/// written: Nsight Systems has none of them.
///
/// # Errors
/// Errors of SQLite.
pub fn write(
    trace: &DeviceTrace,
    connection: &Connection,
    schema: NsysSchema,
) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    layout::create_tables(connection, schema)?;
    let mut writer = ExportWriter::new(trace, connection, schema)?;
    writer.write_header()?;
    writer.write_calls()?;
    writer.write_rows()?;
    writer.write_syncs()?;
    writer.write_ranges()?;
    writer.write_thread_names()?;
    writer.write_strings()?;
    drop(writer);
    connection.execute_batch("COMMIT")
}

struct ExportWriter<'t> {
    trace: &'t DeviceTrace,
    connection: &'t Connection,
    schema: NsysSchema,
    process: GlobalPid,
    /// `globalTid` of each thread.
    threads: Vec<i64>,
    strings: FxHashMap<String, i64>,
    first_string: i64,
    new_strings: Vec<String>,
}

/// Returns an integer, or NULL.
fn int(number: impl Into<Option<i64>>) -> Value {
    number.into().map_or(Value::Null, Value::Integer)
}

impl<'t> ExportWriter<'t> {
    fn new(
        trace: &'t DeviceTrace,
        connection: &'t Connection,
        schema: NsysSchema,
    ) -> rusqlite::Result<ExportWriter<'t>> {
        let first = "SELECT coalesce(max(id) + 1, 0) FROM StringIds";
        let first_string = connection.query_row(first, [], |row| row.get(0))?;
        let pid = match trace.threads.first().map(|thread| thread.pid) {
            Some(TrackLabel::Int(pid)) => pid & 0xff_ffff,
            _ => 1,
        };
        // one machine, one virtual machine
        let process = GlobalPid((1 << 48) | (pid << TID_BITS));
        Ok(ExportWriter {
            trace,
            connection,
            schema,
            process,
            threads: global_threads(trace, process),
            strings: FxHashMap::default(),
            first_string,
            new_strings: vec![],
        })
    }

    /// Returns the number of a text, adding it if unknown.
    fn string(&mut self, text: &str) -> Value {
        if let Some(id) = self.strings.get(text) {
            return Value::Integer(*id);
        }
        let id = self.first_string + self.new_strings.len() as i64;
        self.strings.insert(text.to_owned(), id);
        self.new_strings.push(text.to_owned());
        Value::Integer(id)
    }

    fn name(&mut self, name: NameId) -> Value {
        let trace = self.trace;
        self.string(trace.names.get(name))
    }

    fn thread(&self, thread: usize) -> Value {
        int(self.threads.get(thread).copied())
    }

    fn table(&self, layout: &'static TableLayout) -> rusqlite::Result<TableRows<'t>> {
        let columns: Vec<&str> = layout.columns(self.schema).collect();
        let marks = vec!["?"; columns.len()].join(", ");
        let query = format!("INSERT INTO {} VALUES ({marks})", layout.name);
        Ok(TableRows {
            columns,
            insert: self.connection.prepare(&query)?,
        })
    }

    fn write_header(&mut self) -> rusqlite::Result<()> {
        let (trace, connection) = (self.trace, self.connection);
        let meta = layout::meta_table(self.schema);
        let facts = [
            ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            ("EXPORT_SCHEMA_VERSION", self.schema.version()),
        ];
        for (name, value) in facts {
            let insert = format!("INSERT INTO {meta} VALUES (?1, ?2)");
            connection.execute(&insert, (name, value))?;
        }
        let insert = "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, '', '')";
        connection.execute(insert, [trace.header.base_ns.0])?;
        let insert = "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Hostname', ?1)";
        connection.execute(insert, [&trace.header.host_name])?;
        for (device, name) in (0i64..).zip(&trace.header.devices) {
            let count = trace.multiprocessors.get(&device).copied();
            let insert = "INSERT INTO TARGET_INFO_GPU VALUES (?1, ?2, ?3, ?1)";
            connection.execute(insert, (device, name, count))?;
        }
        let pid = self.process.pid();
        let name = trace.process_names.first().map(|(_, name)| *name);
        let name = name.map_or("", |name| trace.names.get(name));
        let insert = "INSERT INTO PROCESSES VALUES (?1, ?2, ?3)";
        connection.execute(insert, (self.process.0, pid, name))?;
        let streams: BTreeSet<&DeviceQueue> = trace.queues.iter().collect();
        for queue in streams {
            let insert = "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?1, 0, 1, ?2, ?3, 0, 1)";
            connection.execute(insert, (queue.stream, pid, queue.context))?;
        }
        Ok(())
    }

    fn write_calls(&mut self) -> rusqlite::Result<()> {
        let trace = self.trace;
        let mut table = self.table(&layout::CALLS)?;
        for row in 0..trace.calls.len() {
            let call = trace.calls.row(row);
            let name = trace.names.get(call.name);
            let is_driver = name.starts_with("cu") && !name.starts_with("cuda");
            // like CUPTI, append the CUDA version that introduced a function
            let version = if is_driver { "" } else { "_v3020" };
            let name = self.string(&format!("{name}{version}"));
            let thread = self.thread(call.thread.index());
            table.insert(|column| match column {
                "start" => int(call.start.0),
                "end" => int((call.start + call.duration).0),
                "eventClass" => int(i64::from(is_driver)),
                "globalTid" => thread.clone(),
                "correlationId" => int(call.correlation.get().map_or(0, |id| id.0)),
                "nameId" => name.clone(),
                "returnValue" => int(0),
                _ => Value::Null,
            })?;
        }
        Ok(())
    }

    fn write_rows(&mut self) -> rusqlite::Result<()> {
        let trace = self.trace;
        let mut kernels = self.table(&layout::KERNELS)?;
        let mut copies = self.table(&layout::COPIES)?;
        let mut sets = self.table(&layout::SETS)?;
        for index in 0..trace.rows.len() {
            let row = trace.rows.row(index);
            let queue = trace.queues[row.queue.index()];
            let name = trace.names.get(row.name);
            let process = self.process.0;
            let common = |column: &str| match column {
                "start" => int(row.start.0),
                "end" => int((row.start + row.duration).0),
                "deviceId" => int(queue.device),
                "contextId" => int(queue.context),
                "streamId" => int(queue.stream),
                "correlationId" => int(row.correlation.get().map(|id| id.0)),
                "globalPid" => int(process),
                "graphNodeId" if row.graph_node != 0 => int(row.graph_node as i64),
                "bytes" => int(i64::try_from(row.bytes).ok()),
                _ => Value::Null,
            };
            match row.kind {
                RowKind::Kernel => {
                    let short = name.split(['<', '(']).next().unwrap_or(name);
                    let short = self.string(short);
                    let name = self.name(row.name);
                    kernels.insert(|column| match column {
                        "demangledName" | "mangledName" => name.clone(),
                        "shortName" => short.clone(),
                        "gridX" => int(i64::from(row.grid[0])),
                        "gridY" => int(i64::from(row.grid[1])),
                        "gridZ" => int(i64::from(row.grid[2])),
                        "blockX" => int(i64::from(row.block[0])),
                        "blockY" => int(i64::from(row.block[1])),
                        "blockZ" => int(i64::from(row.block[2])),
                        "launchType" => int(1),
                        _ => common(column),
                    })?;
                }
                RowKind::Memcpy => {
                    let [kind, from, to] = layout::copy_kinds(name);
                    copies.insert(|column| match column {
                        "copyKind" => int(kind),
                        "srcKind" => int(from),
                        "dstKind" => int(to),
                        _ => common(column),
                    })?;
                }
                RowKind::Memset => {
                    let kind = layout::set_kind(name);
                    sets.insert(|column| match column {
                        "memKind" => int(kind),
                        _ => common(column),
                    })?;
                }
                RowKind::GraphNode => {}
            }
        }
        Ok(())
    }

    fn write_syncs(&mut self) -> rusqlite::Result<()> {
        let trace = self.trace;
        let mut table = self.table(&layout::SYNCS)?;
        let mut events = self.table(&layout::EVENTS)?;
        let mut recorded: BTreeSet<(Correlation, i64)> = BTreeSet::new();
        for (index, own_event) in (0..trace.syncs.len()).zip(FIRST_EVENT..) {
            let row = trace.syncs.row(index);
            let queue = trace.queues[row.queue.index()];
            let process = self.process.0;
            let record = row.wait_record.get().filter(|record| record.0 > 0);
            // A wait can name the stream without the call that recorded its event. Such a wait gets
            // an event of its own here: event ids are reused, and records are found by them.
            let is_unrecorded = record.is_none() && row.wait_stream >= 0;
            let event = match row.wait_event {
                _ if is_unrecorded => Some(own_event),
                -1 => record.map(|_| own_event),
                event => Some(event),
            };
            let record = record.or(is_unrecorded.then_some(Correlation(NO_CORRELATION)));
            let shared = |column: &str| match column {
                "deviceId" => int(queue.device),
                "contextId" => int(queue.context),
                "globalPid" => int(process),
                "eventId" => int(event.unwrap_or(NONE_32)),
                "eventSyncId" => int(record.map(|record| record.0).filter(|id| *id > 0)),
                _ => Value::Null,
            };
            if let (Some(record), Some(event)) = (record, event)
                && recorded.insert((record, event))
            {
                events.insert(|column| match column {
                    "correlationId" => int(record.0),
                    "streamId" => int(row.wait_stream),
                    _ => shared(column),
                })?;
            }
            let kind = layout::sync_kind(trace.names.get(row.name));
            let stream = if queue.stream < 0 {
                NONE_32
            } else {
                queue.stream
            };
            table.insert(|column| match column {
                "start" => int(row.start.0),
                "end" => int((row.start + row.duration).0),
                "streamId" => int(stream),
                "correlationId" => int(row.correlation.get().map(|id| id.0)),
                "syncType" => int(kind),
                _ => shared(column),
            })?;
        }
        Ok(())
    }

    fn write_ranges(&mut self) -> rusqlite::Result<()> {
        let trace = self.trace;
        let mut table = self.table(&layout::RANGES)?;
        let producers = producers_by_reader(trace);
        for index in 0..trace.ops.len() {
            let text = emitted_text(trace, &producers, index);
            let op = trace.ops.row(index);
            let thread = self.thread(op.thread.index());
            let end = (!op.unfinished).then(|| (op.start + op.duration).0);
            table.insert(|column| match column {
                "start" => int(op.start.0),
                "end" => int(end),
                "eventType" => int(59),
                "text" => Value::Text(text.clone()),
                "globalTid" => thread.clone(),
                "domainId" => int(0),
                _ => Value::Null,
            })?;
        }
        Ok(())
    }

    fn write_thread_names(&mut self) -> rusqlite::Result<()> {
        let trace = self.trace;
        for (thread, name) in &trace.thread_names {
            let place = trace.threads.iter().position(|known| known == thread);
            let Some(global_tid) = place.map(|place| self.threads[place]) else {
                continue;
            };
            let name = self.name(*name);
            let insert = "INSERT INTO ThreadNames VALUES (?1, 0, ?2)";
            self.connection.execute(insert, (name, global_tid))?;
        }
        Ok(())
    }

    fn write_strings(&mut self) -> rusqlite::Result<()> {
        let insert = "INSERT INTO StringIds VALUES (?1, ?2)";
        let mut insert = self.connection.prepare(insert)?;
        for (id, text) in (self.first_string..).zip(&self.new_strings) {
            insert.execute((id, text))?;
        }
        Ok(())
    }
}

/// Insert statement of a table, with its columns.
struct TableRows<'c> {
    columns: Vec<&'static str>,
    insert: Statement<'c>,
}

impl TableRows<'_> {
    fn insert(&mut self, value_of: impl Fn(&str) -> Value) -> rusqlite::Result<()> {
        let values = self.columns.iter().map(|column| value_of(column));
        self.insert.execute(params_from_iter(values)).map(|_| ())
    }
}

/// Returns the `globalTid` of each thread: Linux ids fit in 24 bits, other ids get the next free
/// number.
fn global_threads(trace: &DeviceTrace, process: GlobalPid) -> Vec<i64> {
    let mut used = BTreeSet::new();
    let mut number = |thread: &HostThread| {
        let wanted = match thread.tid {
            TrackLabel::Int(tid) if (0..1 << TID_BITS).contains(&tid) => tid,
            _ => 1,
        };
        let mut tid = wanted;
        while !used.insert(tid) {
            tid += 1;
        }
        process.0 | tid
    };
    trace.threads.iter().map(&mut number).collect()
}

/// Returns the producers of each op's inputs.
fn producers_by_reader(trace: &DeviceTrace) -> FxHashMap<RfId, Vec<RfId>> {
    let mut producers: FxHashMap<RfId, Vec<RfId>> = FxHashMap::default();
    let inputs = &trace.op_producers;
    for (reader, producer) in inputs.reader.iter().zip(&inputs.producer) {
        producers.entry(*reader).or_default().push(*producer);
    }
    producers
}

/// Returns the text that `emit_nvtx` writes for an op.
fn emitted_text(
    trace: &DeviceTrace,
    producers: &FxHashMap<RfId, Vec<RfId>>,
    index: usize,
) -> String {
    let op = trace.ops.row(index);
    let mut text = trace.names.get(op.name).to_owned();
    if op.annotation {
        return text;
    }
    if op.seq_id >= 0 {
        text += &format!(", seq = {}", op.seq_id);
    }
    if let Some(id) = op.rf_id.get() {
        text += &format!(", op_id = {}", id.0);
    }
    match trace.names.get(op.shapes) {
        "" => {}
        shapes => text += &format!(", sizes = {shapes}"),
    }
    if let Some(producers) = producers.get(&op.rf_id) {
        // The trace does not keep which output of the producer it was.
        let pairs: Vec<String> = producers
            .iter()
            .map(|producer| format!("({},0)", producer.0))
            .collect();
        text += &format!(", input_op_ids = [{}]", pairs.join(", "));
    }
    text
}
