//! Writes a device trace as ROCm's rocprofv3 would, in both of its formats.

use etlink_model::{Correlation, DeviceTrace, DurationNs, NameId, RowKind, TimeNs};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds added to all times: ROCm's times count from the machine's start, and 0 means none.
pub const ROCM_ORIGIN_NS: i64 = 5_000_000_000;

const PID: i64 = 4711;
/// Handles of agents are not device numbers.
const FIRST_AGENT: i64 = 37_000;
const COPY_OPERATIONS: [&str; 5] = [
    "MEMORY_COPY_NONE",
    "MEMORY_COPY_HOST_TO_HOST",
    "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
];
/// Indices of kinds in the list of strings.
const HIP_KIND: usize = 0;
const MARKER_KIND: usize = 1;
const COPY_KIND: usize = 2;

/// A record with the fields that all records share.
struct DrawnRecord {
    thread: u32,
    correlation: i64,
    start: i64,
    end: i64,
    body: DrawnBody,
}

enum DrawnBody {
    Kernel {
        device: i64,
        stream: i64,
        name: NameId,
        grid: [u64; 3],
        block: [u32; 3],
    },
    Copy {
        device: i64,
        stream: i64,
        operation: usize,
        bytes: u64,
    },
    Call(NameId),
    Range(NameId),
}

/// Returns device rows, runtime calls and ops as records; ops become ROCTx ranges. Memsets are
/// kernels, as in ROCm.
fn drawn_records(trace: &DeviceTrace) -> Vec<DrawnRecord> {
    let record = |thread, correlation: Correlation, start: TimeNs, duration: DurationNs, body| {
        let start = start.0.saturating_add(ROCM_ORIGIN_NS);
        DrawnRecord {
            thread,
            correlation: correlation.get().map_or(0, |id| id.0),
            start,
            end: start.saturating_add(duration.0),
            body,
        }
    };
    let mut records = vec![];
    for row in 0..trace.rows.len() {
        let row = trace.rows.row(row);
        let queue = trace.queues[row.queue.index()];
        let (device, stream) = (queue.device, queue.stream);
        let name = trace.names.get(row.name);
        let directions = ["none", "HtoH", "HtoD", "DtoH", "DtoD"];
        let operation = directions.iter().position(|word| name.contains(word));
        let body = match row.kind {
            RowKind::Memcpy => DrawnBody::Copy {
                device,
                stream,
                operation: operation.unwrap_or(0),
                bytes: row.bytes,
            },
            RowKind::Kernel | RowKind::Memset | RowKind::GraphNode => {
                let mut grid = [0; 3];
                for (axis, items) in grid.iter_mut().enumerate() {
                    *items = u64::from(row.grid[axis]) * u64::from(row.block[axis].max(1));
                }
                DrawnBody::Kernel {
                    device,
                    stream,
                    name: row.name,
                    grid,
                    block: row.block,
                }
            }
        };
        records.push(record(0, row.correlation, row.start, row.duration, body));
    }
    for call in 0..trace.calls.len() {
        let call = trace.calls.row(call);
        let body = DrawnBody::Call(call.name);
        records.push(record(
            call.thread.0,
            call.correlation,
            call.start,
            call.duration,
            body,
        ));
    }
    // Ranges have ids of their own.
    let ids = trace
        .calls
        .correlation
        .iter()
        .chain(&trace.rows.correlation);
    let ids = ids.filter_map(|id| id.get()).map(|id| id.0);
    let first = ids.max().unwrap_or(0).clamp(0, i64::MAX / 2) + 1;
    for (op, id) in (0..trace.ops.len()).zip(first..) {
        let op = trace.ops.row(op);
        let body = DrawnBody::Range(op.name);
        records.push(record(
            op.thread.0,
            Correlation(id),
            op.start,
            op.duration,
            body,
        ));
    }
    records
}

fn devices(records: &[DrawnRecord]) -> BTreeSet<i64> {
    let devices = records.iter().filter_map(|record| match &record.body {
        DrawnBody::Kernel { device, .. } | DrawnBody::Copy { device, .. } => Some(*device),
        DrawnBody::Call(_) | DrawnBody::Range(_) => None,
    });
    devices.collect()
}

/// Returns the names of calls, in the order of their operations.
fn call_names(records: &[DrawnRecord]) -> Vec<NameId> {
    let names = records.iter().filter_map(|record| match record.body {
        DrawnBody::Call(name) => Some(name),
        _ => None,
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn kernel_names(records: &[DrawnRecord]) -> BTreeSet<NameId> {
    let names = records.iter().filter_map(|record| match record.body {
        DrawnBody::Kernel { name, .. } => Some(name),
        _ => None,
    });
    names.collect()
}

/// Returns the source and destination agents of a copy.
fn copy_ends(operation: usize, device: i64) -> [i64; 2] {
    let (host, device) = (FIRST_AGENT - 1, FIRST_AGENT + device);
    match COPY_OPERATIONS[operation] {
        "MEMORY_COPY_HOST_TO_DEVICE" => [host, device],
        "MEMORY_COPY_DEVICE_TO_HOST" => [device, host],
        _ => [device, device],
    }
}

/// Returns a device trace as `*_results.json`. Names are written unescaped.
pub fn rocprof_json(trace: &DeviceTrace) -> Vec<u8> {
    let records = drawn_records(trace);
    let name = |id: NameId| trace.names.get(id);
    let calls = call_names(&records);
    let place = |wanted: NameId| calls.iter().position(|known| *known == wanted).unwrap_or(0);
    let mut agents = vec![format!(
        r#"{{"id":{{"handle":{}}},"type":1,"logical_node_type_id":0,"cu_count":64,"name":"CPU"}}"#,
        FIRST_AGENT - 1
    )];
    for device in devices(&records) {
        agents.push(format!(
            r#"{{"id":{{"handle":{}}},"type":2,"logical_node_type_id":{device},"cu_count":304,"name":"gfx942","product_name":"AMD Instinct MI300X"}}"#,
            FIRST_AGENT + device
        ));
    }
    let symbols: Vec<String> = kernel_names(&records)
        .iter()
        .map(|id| {
            let text = name(*id);
            format!(
                r#"{{"kernel_id":{},"kernel_name":"{text}.kd","formatted_kernel_name":"{text}"}}"#,
                id.0
            )
        })
        .collect();
    let quoted = |names: Vec<&str>| {
        names
            .iter()
            .map(|name| format!("\"{name}\""))
            .collect::<Vec<_>>()
    };
    let call_list = quoted(calls.iter().map(|id| name(*id)).collect()).join(",");
    let copy_list = quoted(COPY_OPERATIONS.to_vec()).join(",");
    let (mut kernels, mut copies) = (vec![], vec![]);
    let (mut apis, mut ranges, mut messages) = (vec![], vec![], vec![]);
    for record in &records {
        let DrawnRecord {
            thread,
            correlation,
            start,
            end,
            body,
        } = record;
        let head = format!(
            r#""thread_id":{thread},"correlation_id":{{"internal":{correlation},"external":0}},"start_timestamp":{start},"end_timestamp":{end}"#
        );
        match body {
            DrawnBody::Kernel {
                device,
                stream,
                name,
                grid: [x, y, z],
                block: [a, b, c],
            } => kernels.push(format!(
                r#"{{"size":184,{head},"dispatch_info":{{"agent_id":{{"handle":{}}},"queue_id":{{"handle":9}},"kernel_id":{},"workgroup_size":{{"x":{a},"y":{b},"z":{c}}},"grid_size":{{"x":{x},"y":{y},"z":{z}}}}},"stream_id":{{"handle":{stream}}}}}"#,
                FIRST_AGENT + device,
                name.0
            )),
            DrawnBody::Copy {
                device,
                stream,
                operation,
                bytes,
            } => {
                let [from, to] = copy_ends(*operation, *device);
                copies.push(format!(
                    r#"{{"kind":{COPY_KIND},"operation":{operation},{head},"src_agent_id":{{"handle":{from}}},"dst_agent_id":{{"handle":{to}}},"bytes":{bytes},"stream_id":{{"handle":{stream}}}}}"#
                ));
            }
            DrawnBody::Call(name) => {
                let operation = place(*name);
                apis.push(format!(r#"{{"kind":{HIP_KIND},"operation":{operation},{head}}}"#));
            }
            DrawnBody::Range(id) => {
                messages.push(format!(r#"{{"key":{correlation},"value":"{}"}}"#, name(*id)));
                ranges.push(format!(r#"{{"kind":{MARKER_KIND},"operation":0,{head}}}"#));
            }
        }
    }
    let [agents, symbols, messages] = [agents, symbols, messages].map(|list| list.join(","));
    let [kernels, copies, apis, ranges] =
        [kernels, copies, apis, ranges].map(|list| list.join(",\n"));
    let host = &trace.header.host_name;
    let text = format!(
        r#"{{"rocprofiler-sdk-tool":[{{"metadata":{{"pid":{PID},"node":{{"hostname":"{host}"}}}},"agents":[{agents}],"counters":[],"strings":{{"callback_records":[],"buffer_records":[{{"kind":"HIP_RUNTIME_API","operations":[{call_list}]}},{{"kind":"MARKER_CORE_RANGE_API","operations":["roctxThreadRangeA"]}},{{"kind":"MEMORY_COPY","operations":[{copy_list}]}}],"marker_api":[{messages}]}},"kernel_symbols":[{symbols}],"callback_records":{{"counter_collection":[]}},"buffer_records":{{"kernel_dispatch":[{kernels}],"hip_api":[{apis}],"hsa_api":[],"marker_api":[{ranges}],"memory_copy":[{copies}],"scratch_memory":[]}}}}]}}"#
    );
    text.into_bytes()
}

/// Tables of rocpd that a trace is read from (`rocpd_tables.sql` of rocprofiler-sdk), without
/// unused columns.
const ROCPD_TABLES: &str = "
CREATE TABLE rocpd_string@ (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
CREATE TABLE rocpd_info_node@ (id INTEGER PRIMARY KEY, guid TEXT, hostname TEXT);
CREATE TABLE rocpd_info_process@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    environment JSONB);
CREATE TABLE rocpd_info_thread@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, name TEXT);
CREATE TABLE rocpd_info_agent@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    type TEXT, type_index INTEGER, name TEXT, product_name TEXT, extdata JSONB);
CREATE TABLE rocpd_info_kernel_symbol@ (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT,
    display_name TEXT);
CREATE TABLE rocpd_event@ (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER,
    stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB);
CREATE TABLE rocpd_region@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, \"end\" BIGINT, name_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_kernel_dispatch@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER,
    stream_id INTEGER, start BIGINT, \"end\" BIGINT, workgroup_size_x INTEGER,
    workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER,
    grid_size_z INTEGER, event_id INTEGER);
CREATE TABLE rocpd_memory_copy@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, \"end\" BIGINT, name_id INTEGER, dst_agent_id INTEGER,
    src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER);
CREATE VIEW rocpd_string AS SELECT * FROM rocpd_string@;
CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch@;
";

/// Numbering of a database's texts.
#[derive(Default)]
struct TextNumbers(BTreeMap<String, i64>);

impl TextNumbers {
    fn of(&mut self, text: &str) -> i64 {
        let next = self.0.len() as i64 + 1;
        *self.0.entry(text.to_owned()).or_insert(next)
    }
}

/// Writes a device trace into an empty database as rocpd. `suffix` distinguishes the tables of
/// different processes: `_0197a`.
///
/// # Errors
/// Fails if SQLite fails.
pub fn write_rocpd(
    trace: &DeviceTrace,
    suffix: &str,
    connection: &Connection,
) -> rusqlite::Result<()> {
    let records = drawn_records(trace);
    let table = |statement: &str| statement.replace('@', suffix);
    connection.execute_batch("BEGIN")?;
    connection.execute_batch(&table(ROCPD_TABLES))?;
    let insert = |statement: &str, values: &[&dyn rusqlite::ToSql]| {
        connection.prepare(&table(statement))?.execute(values)
    };
    let mut texts = TextNumbers::default();
    let host = &trace.header.host_name;
    insert(
        "INSERT INTO rocpd_info_node@ (id, hostname) VALUES (1, ?1)",
        params![host],
    )?;
    let mut environment = "{\"PATH\": \"/bin\"".to_owned();
    if let Some(rank) = trace.header.rank {
        environment += &format!(", \"SLURM_PROCID\": \"7\", \"RANK\": \"{rank}\"");
    }
    if let Some(size) = trace.header.world_size {
        environment += &format!(", \"WORLD_SIZE\": \"{size}\"");
    }
    environment.push('}');
    insert(
        "INSERT INTO rocpd_info_process@ (id, nid, pid, environment) VALUES (?1, 1, ?1, ?2)",
        params![PID, environment],
    )?;
    let agent = "INSERT INTO rocpd_info_agent@ (id, nid, pid, type, type_index, name, product_name, \
                 extdata) VALUES (?1, 1, 4711, ?2, ?3, ?4, ?5, '{\"size\":312,\"cu_count\":304}')";
    insert(agent, params![FIRST_AGENT - 1, "CPU", 0, "CPU", ""])?;
    for device in devices(&records) {
        let id = FIRST_AGENT + device;
        insert(
            agent,
            params![id, "GPU", device, "gfx942", "AMD Instinct MI300X"],
        )?;
    }
    for kernel in kernel_names(&records) {
        let name = trace.names.get(kernel);
        insert(
            "INSERT INTO rocpd_info_kernel_symbol@ (id, kernel_name, display_name) VALUES (?1, ?2, ?3)",
            params![kernel.0, format!("{name}.kd"), name],
        )?;
    }
    let threads: BTreeSet<u32> = records.iter().map(|record| record.thread).collect();
    for thread in threads {
        insert(
            "INSERT INTO rocpd_info_thread@ (id, nid, pid, tid) VALUES (?1, 1, 4711, ?1)",
            params![thread],
        )?;
    }
    for (event, record) in (1..).zip(&records) {
        let DrawnRecord {
            thread,
            correlation,
            start,
            end,
            body,
        } = record;
        let (category, message) = match body {
            DrawnBody::Kernel { .. } => ("KERNEL_DISPATCH", "{}".to_owned()),
            DrawnBody::Copy { .. } => ("MEMORY_COPY", "{}".to_owned()),
            DrawnBody::Call(_) => ("HIP_RUNTIME_API_EXT", "{}".to_owned()),
            DrawnBody::Range(name) => {
                let text = format!("{{\"message\": \"{}\"}}", trace.names.get(*name));
                ("MARKER_CORE_RANGE_API", text)
            }
        };
        insert(
            "INSERT INTO rocpd_event@ (id, category_id, stack_id, parent_stack_id, correlation_id, \
             extdata) VALUES (?1, ?2, ?3, ?3, 0, ?4)",
            params![event, texts.of(category), correlation, message],
        )?;
        match body {
            DrawnBody::Kernel {
                device,
                stream,
                name,
                grid,
                block,
            } => {
                let [x, y, z] = grid.map(|items| items as i64);
                let [a, b, c] = *block;
                insert(
                    "INSERT INTO rocpd_kernel_dispatch@ (nid, pid, tid, agent_id, kernel_id, \
                     dispatch_id, queue_id, stream_id, start, \"end\", workgroup_size_x, \
                     workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, \
                     event_id) VALUES (1, 4711, ?1, ?2, ?3, ?4, 9, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
                     ?12, ?13, ?4)",
                    params![
                        thread,
                        FIRST_AGENT + device,
                        name.0,
                        event,
                        stream,
                        start,
                        end,
                        a,
                        b,
                        c,
                        x,
                        y,
                        z
                    ],
                )?;
            }
            DrawnBody::Copy {
                device,
                stream,
                operation,
                bytes,
            } => {
                let [from, to] = copy_ends(*operation, *device);
                let name = texts.of(COPY_OPERATIONS[*operation]);
                insert(
                    "INSERT INTO rocpd_memory_copy@ (nid, pid, tid, start, \"end\", name_id, \
                     dst_agent_id, src_agent_id, size, stream_id, event_id) \
                     VALUES (1, 4711, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![
                        thread,
                        start,
                        end,
                        name,
                        to,
                        from,
                        *bytes as i64,
                        stream,
                        event
                    ],
                )?;
            }
            DrawnBody::Call(name) | DrawnBody::Range(name) => {
                let name = match body {
                    DrawnBody::Call(_) => trace.names.get(*name),
                    _ => "roctxThreadRangeA",
                };
                insert(
                    "INSERT INTO rocpd_region@ (nid, pid, tid, start, \"end\", name_id, event_id) \
                     VALUES (1, 4711, ?1, ?2, ?3, ?4, ?5)",
                    params![thread, start, end, texts.of(name), event],
                )?;
            }
        }
    }
    for (text, id) in &texts.0 {
        insert(
            "INSERT INTO rocpd_string@ (id, string) VALUES (?1, ?2)",
            params![id, text],
        )?;
    }
    connection.execute_batch("COMMIT")
}
