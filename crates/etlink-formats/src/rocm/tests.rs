//! Tests with programs of known truth, and with damage.

mod documented;

use crate::Error;
use crate::kineto::KinetoReadOptions;
use crate::rocm::{is_rocpd, read_rocpd, read_rocprof_json, rocpd_processes, rocpd_row_count};
use crate::sqlite::SqliteTables;
use etlink_model::{AnomalyKind, DeviceTrace, GlobalRank, RowKind, TimeNs, TraceRecorder};
use proptest::prelude::*;
use rusqlite::Connection;
use std::fmt::Debug;
use std::io::Read;

/// Number of recorded programs, from 1.
const PROGRAMS: u64 = 3;

/// Nanoseconds by which ROCm's times are later: they count from the machine's start.
const ORIGIN_NS: i64 = 5_000_000_000;

/// A process as rocpd: its tables end in `@`, and `ENVIRONMENT` stands for the recorded one.
const PROCESS: &str = include_str!("../../../../testdata/recorders/process.rocpd.sql");

/// Returns the content of a recording of a program.
#[expect(clippy::disallowed_methods, reason = "test data are files")]
fn recorded(program: u64, form: &str) -> Vec<u8> {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/recorders/program{program}.{form}.gz");
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut bytes = vec![];
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    unpacked.read_to_end(&mut bytes).expect("unpacks");
    bytes
}

/// Returns a program as Kineto records it.
fn drawn(program: u64) -> DeviceTrace {
    let kineto = recorded(program, "kineto.json");
    let trace = crate::kineto::read(&kineto[..], KinetoReadOptions::default());
    trace.expect("a device trace")
}

fn rocprof_json(program: u64) -> Vec<u8> {
    recorded(program, "rocprof.json")
}

/// Opens a program's database; its tables end in `_a`.
fn database(program: u64) -> Connection {
    let bytes = recorded(program, "rocpd.db");
    let mut connection = Connection::open_in_memory().expect("opens");
    connection
        .deserialize_read_exact("main", &bytes[..], bytes.len(), false)
        .expect("a database");
    connection
}

/// Makes a database of processes with these suffixes and environments.
fn processes(all: &[(&str, &str)]) -> Connection {
    let connection = Connection::open_in_memory().expect("opens");
    for (suffix, environment) in all {
        let process = PROCESS.replace("ENVIRONMENT", environment);
        let process = process.replace('@', suffix);
        connection.execute_batch(&process).expect("SQL");
    }
    connection
}

fn json(bytes: &[u8]) -> DeviceTrace {
    read_rocprof_json(bytes).expect("JSON of rocprofv3")
}

/// Describes work and its launches in a trace, with times relative to `origin`.
fn meaning(trace: &DeviceTrace, origin: i64) -> Vec<String> {
    let mut all = vec![];
    let mut push = |what: &dyn Debug| all.push(format!("{what:?}"));
    let at = |time: TimeNs| time.0 - origin;
    let rows = &trace.rows;
    for row in 0..rows.len() {
        let row = rows.row(row);
        let queue = trace.queues[row.queue.index()];
        // ROCm has its own names for copies.
        let is_copy = row.kind == RowKind::Memcpy;
        let name = if is_copy {
            ""
        } else {
            trace.names.get(row.name)
        };
        let bytes = if is_copy { row.bytes } else { 0 };
        let place = (queue.device, queue.stream, row.correlation);
        let sizes = (row.grid, row.block, bytes);
        push(&("row", at(row.start), row.duration, name, place, sizes));
    }
    let calls = &trace.calls;
    for call in 0..calls.len() {
        let call = calls.row(call);
        let name = trace.names.get(call.name);
        push(&(
            "call",
            at(call.start),
            call.duration,
            name,
            call.correlation,
        ));
    }
    let ops = &trace.ops;
    for op in 0..ops.len() {
        let op = ops.row(op);
        push(&("op", at(op.start), op.duration, trace.names.get(op.name)));
    }
    all.sort();
    all
}

#[test]
fn a_program_comes_back_from_both_forms() {
    let mut rows = 0;
    for seed in 1..=PROGRAMS {
        let trace = drawn(seed);
        rows += trace.rows.len();
        let truth = meaning(&trace, 0);
        let bytes = rocprof_json(seed);
        let connection = database(seed);
        let tables = SqliteTables::probe(&connection).expect("tables");
        assert!(is_rocpd(&tables));
        let database = read_rocpd(&connection, None).expect("a rocpd database");
        for read in [json(&bytes), database] {
            assert_eq!(meaning(&read, ORIGIN_NS), truth, "program {seed}");
            assert_eq!(read.anomalies.iter().count(), 0, "{:?}", read.anomalies);
            assert_eq!(read.header.devices, ["AMD Instinct MI300X"]);
            assert_eq!(read.header.recorder, TraceRecorder::Rocprof);
            assert_eq!(read.multiprocessors(0), Some(304));
            assert!(read.bytes > 0);
        }
    }
    assert!(rows > 100, "the test could not fail: {rows} rows");
}

/// Builds a document of one process with these lists in `buffer_records`.
fn document(lists: &str) -> String {
    format!(
        r#"{{"rocprofiler-sdk-tool": [{{
            "buffer_records": {{{lists}}},
            "kernel_symbols": [{{"kernel_id": 7, "formatted_kernel_name": "gemm"}}],
            "agents": [{{"id": {{"handle": 12}}, "type": 2, "logical_node_type_id": 3}}],
            "strings": {{
                "buffer_records": [{{"kind": "NONE", "operations": []}},
                    {{"kind": "HIP_RUNTIME_API", "operations": ["hipFree", "hipLaunchKernel"]}},
                    {{"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]}},
                    {{"kind": "RCCL_API", "operations": ["ncclAllReduce"]}}],
                "marker_api": [{{"key": 5, "value": "forward"}}, {{"key": 6, "value": "mark"}}]}},
            "metadata": {{"pid": 9, "node": {{"hostname": "gpu1"}}}}}}]}}"#
    )
}

const KERNEL: &str = r#""kernel_dispatch": [{"thread_id": 9, "correlation_id": {"internal": 4},
    "start_timestamp": 100, "end_timestamp": 150, "dispatch_info": {"agent_id": {"handle": 12},
    "queue_id": {"handle": 2}, "kernel_id": 7, "workgroup_size": {"x": 64, "y": 1, "z": 1},
    "grid_size": {"x": 130, "y": 1, "z": 1}}}]"#;

#[test]
fn lists_come_in_any_order_and_queues_stand_for_streams() {
    let trace = json(
        document(&format!(
            r#"{KERNEL}, "hip_api": [{{"kind": 1, "operation": 1, "thread_id": 9,
                "correlation_id": {{"internal": 4}}, "start_timestamp": 80, "end_timestamp": 95}}],
            "marker_api": [{{"kind": 2, "operation": 1, "thread_id": 9,
                "correlation_id": {{"internal": 5}}, "start_timestamp": 70, "end_timestamp": 200}},
                {{"kind": 2, "operation": 0, "thread_id": 9,
                "correlation_id": {{"internal": 6}}, "start_timestamp": 71, "end_timestamp": 71}}],
            "rccl_api": [{{"kind": 3, "operation": 0, "thread_id": 9,
                "correlation_id": {{"internal": 8}}, "start_timestamp": 160, "end_timestamp": 170}}],
            "page_faults": [1, {{"a": []}}, "x"]"#
        ))
        .as_bytes(),
    );
    let queue = trace.queues[0];
    // Only the queue is recorded, not the stream.
    assert_eq!((queue.device, queue.stream), (3, 2));
    let row = trace.rows.row(0);
    assert_eq!(trace.names.get(row.name), "gemm");
    assert_eq!((row.grid, row.block), ([3, 1, 1], [64, 1, 1]));
    assert_eq!(trace.calls.row(0).correlation, row.correlation);
    assert_eq!(trace.names.get(trace.calls.row(0).name), "hipLaunchKernel");
    let ops: Vec<(&str, bool)> = (0..trace.ops.len())
        .map(|op| trace.ops.row(op))
        .map(|op| (trace.names.get(op.name), op.annotation))
        .collect();
    assert_eq!(ops, [("forward", true), ("ncclAllReduce", false)]);
    assert_eq!(trace.header.host_name, "gpu1");
    assert_eq!(trace.anomalies.iter().count(), 0, "{:?}", trace.anomalies);
}

#[test]
fn what_is_odd_is_counted() {
    let text = document(
        r#""kernel_dispatch": [5, {"start_timestamp": 1}, {"correlation_id": {"internal": 4},
            "start_timestamp": 0, "end_timestamp": 0, "dispatch_info": {}},
            {"start_timestamp": 100, "end_timestamp": 90, "dispatch_info": {"kernel_id": 99}}],
        "hip_api": [{"kind": 1, "operation": 77, "start_timestamp": 5, "end_timestamp": 6},
            {"kind": 1, "operation": 0, "start_timestamp": 18446744073709551615}]"#,
    );
    let trace = json(text.as_bytes());
    let count = |kind| trace.anomalies.count(kind);
    assert_eq!(count(AnomalyKind::Skipped), 2, "no object, no dispatch");
    assert_eq!(count(AnomalyKind::NoTime), 1);
    assert_eq!(count(AnomalyKind::NegativeDuration), 1);
    assert_eq!(count(AnomalyKind::NamelessKernel), 1);
    assert_eq!(count(AnomalyKind::NamelessEvent), 1);
    assert_eq!(count(AnomalyKind::TimeOutOfRange), 1);
    assert_eq!(trace.names.get(trace.rows.name[0]), "unknown_kernel");
}

#[test]
fn what_is_cut_is_used_as_far_as_it_goes() {
    let bytes = rocprof_json(2);
    let whole = json(&bytes);
    let cut = json(&bytes[..bytes.len() * 2 / 3]);
    assert_eq!(cut.anomalies.count(AnomalyKind::Truncated), 1);
    assert!(!cut.rows.is_empty() && cut.rows.len() <= whole.rows.len());
    for text in [
        &b""[..],
        b"{",
        b"{\"rocprofiler-sdk-tool\": [",
        b"[1]",
        b"{\"a\": 5}",
    ] {
        let read = read_rocprof_json(text);
        let is_refused = matches!(read, Err(Error::NotFound { .. }));
        // a document without the list is read to the end
        assert!(
            is_refused || read.is_ok_and(|trace| trace.window().is_none()),
            "{text:?}"
        );
    }
}

#[test]
fn nesting_takes_no_memory() {
    let deep = "[".repeat(1 << 20);
    let text = document(&format!(r#""scratch_memory": {deep}"#));
    assert_eq!(
        json(text.as_bytes())
            .anomalies
            .count(AnomalyKind::Truncated),
        1
    );
}

#[test]
fn the_environment_tells_the_rank() {
    let environment = r#"{"PATH": "/bin", "SLURM_PROCID": "7", "RANK": "3", "WORLD_SIZE": "8"}"#;
    let connection = processes(&[("_a", environment)]);
    let host = "UPDATE rocpd_info_node_a SET hostname = 'gpu1'";
    connection.execute(host, []).expect("changes");
    let read = read_rocpd(&connection, None).expect("reads");
    assert_eq!(read.header.rank, Some(GlobalRank(3)));
    assert_eq!(read.header.world_size, Some(8));
    assert_eq!(read.header.host_name, "gpu1");
    let unknown = read_rocpd(&database(1), None).expect("reads");
    assert_eq!(unknown.header.rank, None);
}

#[test]
fn several_processes_are_refused() {
    let one = document(KERNEL);
    let process = one
        .trim_start_matches("{\"rocprofiler-sdk-tool\": [")
        .trim_end_matches("]}");
    let both = format!("{{\"rocprofiler-sdk-tool\": [{process}, {process}]}}");
    let refused = read_rocprof_json(both.as_bytes());
    let Err(Error::SeveralProcesses { pids, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(pids, [9, 9]);
    // A process without work on devices does not matter.
    let other = format!("{{\"rocprofiler-sdk-tool\": [{{\"metadata\": {{}}}}, {process}]}}");
    assert_eq!(json(other.as_bytes()).rows.len(), 1);
}

#[test]
fn each_process_of_a_merged_database_is_a_trace() {
    let connection = processes(&[("_a", r#"{"RANK": "1"}"#), ("_b", r#"{"RANK": "0"}"#)]);
    let later = r#"UPDATE rocpd_kernel_dispatch_b SET "end" = "end" + 7"#;
    connection.execute(later, []).expect("changes");
    let refused = read_rocpd(&connection, None);
    let is_refused =
        matches!(&refused, Err(Error::SeveralProcesses { pids, .. }) if pids.len() == 2);
    assert!(is_refused, "{refused:?}");
    let all = rocpd_processes(&connection).expect("lists");
    let ranks: Vec<_> = all.iter().map(|process| process.rank).collect();
    assert_eq!(ranks, [Some(1), Some(0)]);
    let [one, two] = [0, 1].map(|at: usize| {
        let read = read_rocpd(&connection, Some(all[at].place));
        read.expect("reads")
    });
    let alone = read_rocpd(&processes(&[("_a", "{}")]), None).expect("reads");
    assert_eq!(meaning(&one, 0), meaning(&alone, 0));
    assert_eq!((two.rows.len(), two.calls.len(), two.ops.len()), (4, 4, 2));
    assert_eq!(two.rows.duration[0].0, alone.rows.duration[0].0 + 7);
    let rows = rocpd_row_count(&connection).expect("counts");
    assert_eq!(rows, 2 * (4 + 4 + 2));
    let none = read_rocpd(&connection, Some(2));
    assert!(matches!(none, Err(Error::Failed(_))), "{none:?}");
}

/// Some versions of ROCTx write ranges without an internal correlation id.
#[test]
fn ranges_without_an_id_keep_their_own_messages() {
    let trace = drawn(1);
    let connection = database(1);
    let category = "(SELECT id FROM rocpd_string_a WHERE string LIKE 'MARKER%')";
    let forget = format!("UPDATE rocpd_event_a SET stack_id = 0 WHERE category_id = {category}");
    let forgotten = connection.execute(&forget, []).expect("forgets");
    assert!(forgotten > 1, "the test could not fail");
    let read = read_rocpd(&connection, None).expect("reads");
    assert_eq!(meaning(&read, ORIGIN_NS), meaning(&trace, 0));
}

/// Regression: each process had its own copy of all agents and kernels, and searched all rows.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is of time")]
fn many_processes_of_one_part_share_what_they_refer_to() {
    let connection = database(1);
    connection
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO rocpd_info_process_a (id, pid) SELECT 1000000 + i, i FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO rocpd_info_kernel_symbol_a (id, display_name) SELECT 1000000 + i, i FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
             INSERT INTO rocpd_kernel_dispatch_a (pid, start, \"end\") SELECT 4711, i, i + 1 FROM n;",
        )
        .expect("inserts");
    let started = std::time::Instant::now();
    assert_eq!(rocpd_processes(&connection).expect("lists").len(), 1);
    let read = read_rocpd(&connection, None).expect("reads");
    assert!(read.rows.len() >= 100_000);
    // Linear work takes seconds; quadratic work would take hours.
    assert!(started.elapsed().as_secs() < 60);
}

#[test]
fn times_at_the_ends_of_the_range_are_left_out() {
    let most = i64::MAX - 1;
    let dispatch = |start: i64, end: i64| {
        format!(
            r#"{{"start_timestamp": {start}, "end_timestamp": {end}, "dispatch_info": {{"kernel_id": 7}}}}"#
        )
    };
    let (first, late, long) = (dispatch(5, 6), dispatch(most, most), dispatch(7, most));
    let list = format!(r#""kernel_dispatch": [{first}, {late}, {long}]"#);
    let trace = json(document(&list).as_bytes());
    assert_eq!(trace.anomalies.count(AnomalyKind::TimeOutOfRange), 2);
    assert_eq!(trace.rows.start, [TimeNs(5)]);
    let connection = database(1);
    let change = format!("UPDATE rocpd_kernel_dispatch_a SET \"end\" = {most} WHERE id = 1");
    connection.execute(&change, []).expect("changes");
    let read = read_rocpd(&connection, None).expect("reads");
    assert_eq!(read.anomalies.count(AnomalyKind::TimeOutOfRange), 1);
}

#[test]
fn other_and_damaged_databases() {
    let empty = Connection::open_in_memory().expect("opens");
    assert!(matches!(read_rocpd(&empty, None), Err(Error::Sqlite(_))));
    let trace = drawn(1);
    let connection = database(1);
    // Other tools leave cells of other types, missing cells and missing tables.
    connection
        .execute_batch(
            "UPDATE rocpd_kernel_dispatch_a SET start = 'soon' WHERE id = 1;
             UPDATE rocpd_kernel_dispatch_a SET kernel_id = NULL WHERE id = 2;
             UPDATE rocpd_kernel_dispatch_a SET \"end\" = NULL, grid_size_x = -1 WHERE id = 3;
             DROP TABLE rocpd_info_thread_a;
             ALTER TABLE rocpd_memory_copy_a DROP COLUMN size;",
        )
        .expect("damages");
    let read = read_rocpd(&connection, None).expect("reads");
    assert_eq!(read.rows.len(), trace.rows.len() - 1);
    let count = |kind| read.anomalies.count(kind);
    assert_eq!(count(AnomalyKind::NoTime), 1);
    assert_eq!(count(AnomalyKind::NamelessKernel), 1);
    assert_eq!(count(AnomalyKind::BadNumber), 1);
    assert_eq!(count(AnomalyKind::BadCell), 2, "{:?}", read.anomalies);
}

proptest! {
    #[test]
    fn damaged_bytes_are_no_panic(
        program in 1..=PROGRAMS,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = rocprof_json(program);
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        drop(read_rocprof_json(&bytes[..]));
    }
}
