use crate::Error;
use crate::nsys::{GlobalPid, NsysReadOptions, RankSource, is_export, processes, read};
use crate::sqlite::SqliteTables;
use etlink_model::{
    AnomalyKind, CollectiveKind, DeviceQueue, DeviceTrace, KeepEvents, RfId, TimeNs, TraceRecorder,
};
use rusqlite::Connection;

const PROCESS: &str = include_str!("../../../../testdata/nsys/process.sql");
const SCHEMA_2_9: &str = include_str!("../../../../testdata/nsys/schema_2_9.sql");

/// Makes an export of these processes, of schema 3.13.
fn export(pids: &[i64]) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for pid in pids {
        let process = PROCESS.replace("PID", &pid.to_string());
        connection.execute_batch(&process).unwrap();
    }
    connection
}

/// Makes an export of these processes, of schema 2.9.
fn old_export(pids: &[i64]) -> Connection {
    let connection = export(pids);
    connection.execute_batch(SCHEMA_2_9).unwrap();
    connection
}

fn read_only_process(connection: &Connection) -> DeviceTrace {
    read(connection, NsysReadOptions::default()).unwrap()
}

#[test]
fn both_schemas_are_read() {
    for export in [export(&[1000]), old_export(&[1000])] {
        let trace = read_only_process(&export);
        let name = |id| trace.names.get(id);
        assert_eq!(name(trace.ops.name[0]), "aten::mm");
        assert_eq!(trace.ops.rf_id, [RfId(9)]);
        assert_eq!(trace.ops.seq_id, [4]);
        assert_eq!(name(trace.ops.shapes[0]), "[[2, 3], [3, 4]]");
        assert!(trace.has_rf_ids);
        assert_eq!(name(trace.calls.name[0]), "cudaLaunchKernel");
        assert_eq!(trace.calls.correlation[..2], trace.rows.correlation);
        assert_eq!(name(trace.rows.name[0]), "gemm");
        assert_eq!(trace.rows.grid, [[64, 2, 1]; 2]);
        assert_eq!(trace.queues[0], DeviceQueue::stream(7));
        assert_eq!(trace.anomalies.iter().count(), 0);
        assert_eq!(trace.header.recorder, TraceRecorder::Nsight);
        assert_eq!(trace.events["X kernel"], 2);
        assert_eq!(trace.threads.len(), 1);
    }
}

#[test]
fn one_trace_is_of_one_process() {
    let connection = export(&[1000, 1001]);
    let error = read(&connection, NsysReadOptions::default()).unwrap_err();
    assert!(matches!(error, Error::SeveralProcesses { .. }), "{error}");
    assert!(error.to_string().contains("[1000, 1001]"));
    let all = processes(&connection).unwrap();
    let ranks: Vec<_> = all.iter().map(|one| one.rank.unwrap()).collect();
    assert_eq!([ranks[0].rank, ranks[1].rank], [0, 1]);
    assert_eq!(ranks[0].source, RankSource::Order);
    let options = NsysReadOptions {
        process: Some(all[1].global_pid),
        ..NsysReadOptions::default()
    };
    let trace = read(&connection, options).unwrap();
    // Both processes have a call 2; only one of them belongs to this process.
    assert_eq!((trace.calls.len(), trace.rows.len()), (3, 2));
    assert_eq!(trace.header.rank.unwrap().0, 1);
}

#[test]
fn processes_are_found_without_a_list_of_streams() {
    let connection = old_export(&[1000, 1001]);
    let drop = "DROP TABLE TARGET_INFO_CUDA_STREAM";
    connection.execute(drop, []).unwrap();
    let pids: Vec<i64> = processes(&connection)
        .unwrap()
        .iter()
        .map(|one| one.pid)
        .collect();
    assert_eq!(pids, [1000, 1001]);
}

#[test]
fn ranks_by_mpi_and_names_of_threads() {
    let connection = export(&[1000, 1001]);
    let thread = |pid: i64| GlobalPid((1 << 48) | (pid << 24)).0 | pid;
    let name = "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid) VALUES (0, 39, ?1, ?2)";
    for (pid, text) in [(1000, "MPI Rank 5"), (1001, "MPI Rank 2")] {
        connection.execute(name, (text, thread(pid))).unwrap();
    }
    let ranks = |connection: &Connection| -> Vec<(i64, RankSource)> {
        let all = processes(connection).unwrap();
        all.iter()
            .map(|one| (one.rank.unwrap().rank, one.rank.unwrap().source))
            .collect()
    };
    let by_name = RankSource::ThreadName;
    assert_eq!(ranks(&connection), [(5, by_name), (2, by_name)]);
    let table = "CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER)";
    connection.execute(table, []).unwrap();
    for (pid, rank) in [(1000, 7), (1001, 6)] {
        let insert = "INSERT INTO MPI_RANKS VALUES (?1, ?2)";
        connection.execute(insert, (thread(pid), rank)).unwrap();
    }
    let by_table = RankSource::MpiTable;
    assert_eq!(ranks(&connection), [(7, by_table), (6, by_table)]);
}

#[test]
fn ranges_of_nccl_communicate() {
    let connection = export(&[1000]);
    let thread = GlobalPid((1 << 48) | (1000 << 24)).0 | 1000;
    let insert = "INSERT INTO NVTX_EVENTS \
                  (start, end, eventType, text, globalTid, domainId, jsonText) \
                  VALUES (?1, ?2, ?3, ?4, ?5, 3, ?6)";
    let init = r#"{"NCCL communicator ID": 77, "No. of ranks": 8, "Rank": 3, "CUDA device": 3}"#;
    let gather = r#"{"NCCL communicator ID": 77, "Message size [bytes]": 1024}"#;
    for (times, kind, text, payload) in [
        ([0, 0], 75, "NCCL", ""),
        ([10, 20], 59, "ncclCommInitRank", init),
        ([1_100, 3_000], 59, "ncclAllGather", gather),
    ] {
        let values = (times[0], times[1], kind, text, thread, payload);
        connection.execute(insert, values).unwrap();
    }
    let trace = read_only_process(&connection);
    assert_eq!(trace.collectives.len(), 1);
    let record = trace.collectives.row(0);
    assert_eq!(record.kind(&trace.names), CollectiveKind::AllGather);
    assert_eq!((record.in_elements, record.out_elements), (1024, 8192));
    assert_eq!(record.group_size, 8);
    let rank = trace.header.rank.map(|rank| rank.0);
    assert_eq!((rank, trace.header.world_size), (Some(3), Some(8)));
}

/// Creates an export of processes that each run one reduction in a group of `size` ranks, given the
/// ids of their groups.
fn export_of_groups(ids: &[u64], size: u64) -> Connection {
    let pids: Vec<i64> = (1000..).take(ids.len()).collect();
    let connection = export(&pids);
    let insert = "INSERT INTO NVTX_EVENTS \
                  (start, end, eventType, text, globalTid, domainId, jsonText) \
                  VALUES (?1, ?2, ?3, ?4, ?5, 3, ?6)";
    for (pid, id) in pids.iter().zip(ids) {
        let thread = GlobalPid((1 << 48) | (pid << 24)).0 | pid;
        let payload =
            format!(r#"{{"NCCL communicator ID": {id}, "No. of ranks": {size}, "Rank": 0}}"#);
        for values in [
            (0, 0, 75, "NCCL", thread, ""),
            (1_100, 3_000, 59, "ncclAllReduce", thread, &payload),
        ] {
            connection.execute(insert, values).unwrap();
        }
    }
    connection
}

/// Returns the id by which each process names its group.
fn group_ids(connection: &Connection) -> Vec<String> {
    let mut ids = vec![];
    for process in processes(connection).unwrap() {
        let options = NsysReadOptions {
            process: Some(process.global_pid),
            ..NsysReadOptions::default()
        };
        let trace = read(connection, options).unwrap();
        let record = trace.collectives.row(0);
        assert_eq!(trace.collectives.len(), 1);
        ids.push(trace.names.get(record.comms_id).to_owned());
    }
    ids
}

#[test]
fn groups_of_one_communicator_each_are_told_apart() {
    // The id is a hash that the ranks of a group share.
    let two_groups = export_of_groups(&[10, 10, 11, 11], 2);
    assert_eq!(group_ids(&two_groups), ["0xa", "0xa", "0xb", "0xb"]);
    // Addresses of one group of all ranks: no name is needed.
    let addresses = export_of_groups(&[10, 20, 30, 40], 4);
    assert_eq!(group_ids(&addresses), [""; 4]);
    // Addresses of two groups: membership is unknown, so nothing is joined.
    let unknown = export_of_groups(&[10, 20, 30, 40], 2);
    assert_eq!(group_ids(&unknown), ["0xa", "0x14", "0x1e", "0x28"]);
    // `1` is a digit of the other number, not the same id.
    let part = export_of_groups(&[1, 21], 2);
    assert_eq!(group_ids(&part), [""; 2]);
    // Even in a report of one rank, an id that cannot be an address is shared with other reports.
    let alone = export_of_groups(&[0xabcd_0000_0000_0001], 2);
    assert_eq!(group_ids(&alone), ["0xabcd000000000001"]);
    assert_eq!(group_ids(&export_of_groups(&[10], 2)), [""]);
}

#[test]
fn processes_that_no_list_has_are_found() {
    let connection = export(&[1000, 1001]);
    let delete = "DELETE FROM TARGET_INFO_CUDA_STREAM WHERE processId = 1001";
    assert_ne!(connection.execute(delete, []).unwrap(), 0);
    assert_eq!(processes(&connection).unwrap().len(), 2);
}

#[test]
fn a_list_of_very_many_processes_takes_no_time() {
    let connection = export(&[1000]);
    connection
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) \
             INSERT INTO TARGET_INFO_CUDA_STREAM (hwId, vmId, processId) \
             SELECT 0, 0, 2000 + i FROM n; \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, streamId) \
             SELECT k.start, k.end, k.globalPid, k.streamId \
             FROM n, (SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1) k;",
        )
        .unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test")]
    let begin = std::time::Instant::now();
    assert_eq!(processes(&connection).unwrap().len(), 1);
    let taken = begin.elapsed();
    // A scan of 20,000 rows for each of 60,000 processes takes minutes.
    assert!(taken.as_secs() < 20, "{taken:?}");
}

#[test]
fn calls_of_mpi_communicate() {
    let connection = export(&[1000]);
    let thread = GlobalPid((1 << 48) | (1000 << 24)).0 | 1000;
    connection
        .execute_batch(&format!(
            "CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, \
             textId INTEGER, commHandle INTEGER, rootRank INTEGER, size INTEGER, recvSize INTEGER); \
             CREATE TABLE MPI_P2P_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, \
             textId INTEGER, commHandle INTEGER, tag INTEGER, remoteRank INTEGER, size INTEGER); \
             CREATE TABLE MPI_COMMUNICATORS (rank INTEGER, commHandle INTEGER, size INTEGER, \
             members TEXT); \
             INSERT INTO StringIds VALUES (900, 'MPI_Bcast'), (901, 'MPI_Isend'); \
             INSERT INTO MPI_COMMUNICATORS VALUES (0, -5, 2, '4,6'); \
             INSERT INTO MPI_COLLECTIVES_EVENTS VALUES (5, 9, {thread}, 900, -5, 1, 64, NULL); \
             INSERT INTO MPI_P2P_EVENTS VALUES (10, 12, {thread}, 901, -5, 0, 1, 32);"
        ))
        .unwrap();
    let trace = read_only_process(&connection);
    let (first, second) = (trace.collectives.row(0), trace.collectives.row(1));
    assert_eq!(first.kind(&trace.names), CollectiveKind::Broadcast);
    assert_eq!(
        (first.in_elements, first.rank, first.group_size),
        (64, 1, 2)
    );
    assert_eq!(trace.names.get(first.group_ranks), "[4, 6]");
    assert_eq!(second.kind(&trace.names), CollectiveKind::Send);
    assert!(second.asynchronous && !first.asynchronous);
    assert_eq!((second.in_elements, second.out_elements), (32, 0));
}

#[test]
fn damage_is_counted_and_the_rest_is_read() {
    let connection = export(&[1000]);
    let process = GlobalPid((1 << 48) | (1000 << 24)).0;
    connection
        .execute_batch(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, streamId) VALUES \
             (NULL, 5, {process}, 7), (100, 50, {process}, 7), (-50, -20, {process}, 7), \
             ('x', 5, {process}, 7), (200, NULL, {process}, 'seven'); \
             INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid) \
             VALUES (3000, 59, 'still open', {process} + 1000);"
        ))
        .unwrap();
    let trace = read_only_process(&connection);
    let count = |kind| trace.anomalies.count(kind);
    assert_eq!(count(AnomalyKind::NoTime), 2, "NULL and a text");
    assert_eq!(count(AnomalyKind::NegativeDuration), 1);
    assert_eq!(count(AnomalyKind::BadNumber), 1);
    assert_eq!(count(AnomalyKind::BadCell), 2, "'x' and 'seven'");
    assert_eq!(count(AnomalyKind::Unfinished), 1);
    assert_eq!(trace.rows.len(), 5);
    assert_eq!(trace.rows.start[0], TimeNs(-50), "before the session");
    let open = trace.ops.unfinished.iter().position(|open| *open).unwrap();
    let end = trace.ops.start[open] + trace.ops.duration[open];
    assert_eq!(Some(end), trace.window().map(|(_, end)| end));
}

#[test]
fn calls_that_stand_twice_for_their_stack_are_one() {
    let connection = old_export(&[1000]);
    connection
        .execute_batch(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME \
             SELECT start, end, 67, globalTid, correlationId, nameId, 0, 5 \
             FROM CUPTI_ACTIVITY_KIND_RUNTIME",
        )
        .unwrap();
    assert_eq!(read_only_process(&connection).calls.len(), 3);
}

#[test]
fn launches_of_graphs_are_work_where_their_nodes_are_not_recorded() {
    let connection = export(&[1000]);
    let process = GlobalPid((1 << 48) | (1000 << 24)).0;
    connection
        .execute_batch(&format!(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, \
             deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, \
             globalPid INTEGER, graphId INTEGER, graphExecId INTEGER); \
             INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES \
             (6000, 7000, 0, 1, 7, 12, {process}, 3, 4);"
        ))
        .unwrap();
    let trace = read_only_process(&connection);
    assert_eq!(trace.names.get(trace.rows.name[1]), "CUDA graph 3");
}

#[test]
fn other_databases_are_none() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute("CREATE TABLE users (id)", []).unwrap();
    let tables = SqliteTables::probe(&connection).unwrap();
    assert!(!is_export(&tables));
    let error = read(&connection, NsysReadOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("nsys export --type sqlite"),
        "{error}"
    );
}

#[test]
fn a_view_in_place_of_a_table_is_not_asked() {
    let connection = export(&[1000]);
    connection
        .execute_batch(
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS \
             WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n) SELECT start FROM n;",
        )
        .unwrap();
    // reading the view would never end
    assert_eq!(read_only_process(&connection).rows.len(), 0);
}

#[test]
fn metrics_of_gpus_are_counters_where_all_is_kept() {
    let connection = export(&[1000]);
    connection
        .execute_batch(
            "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, \
             value INTEGER); \
             CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, metricId INTEGER, \
             metricName TEXT); \
             INSERT INTO TARGET_INFO_GPU_METRICS VALUES (256, 5, 'SMs Active [%]'); \
             INSERT INTO GPU_METRICS VALUES (10, 256, 5, 97), (20, 256, 6, 1);",
        )
        .unwrap();
    assert!(read_only_process(&connection).details.is_none());
    let options = NsysReadOptions {
        process: None,
        keep: KeepEvents::Everything,
    };
    let trace = read(&connection, options).unwrap();
    let details = trace.details.as_ref().unwrap();
    let name = |row: usize| trace.names.get(details.others.name[row]);
    assert_eq!(
        [name(0), name(1)],
        ["GPU 0 SMs Active [%]", "GPU 0 metric 6"]
    );
    let args = details.other_details.args[0];
    assert_eq!(details.args(args), b"{\"value\": 97}");
    // details exist for all events or for none
    assert_eq!(details.calls.len(), trace.calls.len());
    assert_eq!(details.rows.len(), trace.rows.len());
}
