//! Exports of Nsight Systems as users have them: alone, compressed, of several processes, damaged.

use crate::tool::{Tool, gzip};
use etlink_testing::{DeviceQueue, TraceBuilder};
use rusqlite::Connection;
use std::path::Path;

/// Generates a process that launches two kernels and waits for its device.
fn drawn(pid: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.process(pid);
    let thread = draw.thread();
    draw.op(thread, "aten::mm", 0, 30_000);
    let queue = DeviceQueue::stream(7);
    draw.launch(thread, (1_000, 2_000), queue, "gemm", (3_000, 20_000));
    draw.launch(thread, (3_000, 4_000), queue, "relu", (21_000, 25_000));
    let id = draw.next_correlation();
    draw.call(thread, "cudaDeviceSynchronize", (5_000, 26_000), id);
    let everywhere = DeviceQueue::stream(-1);
    draw.sync("Context Sync", everywhere, (5_100, 25_900), id, None);
    draw.kineto()
}

const PROCESS: &str = include_str!("../../testdata/nsys/process.sql");
const SCHEMA_2_9: &str = include_str!("../../testdata/nsys/schema_2_9.sql");

/// Writes an export of these processes, of schema 3.13.
fn export(path: &Path, pids: &[i64]) {
    let connection = Connection::open(path).expect("opens");
    for pid in pids {
        let process = PROCESS.replace("PID", &pid.to_string());
        connection.execute_batch(&process).expect("writes");
    }
}

/// Changes an export to schema 2.9.
fn make_old(path: &Path) {
    let connection = Connection::open(path).expect("opens");
    connection.execute_batch(SCHEMA_2_9).expect("alters");
}

#[test]
fn an_export_links_as_the_kineto_trace_of_the_same_run() {
    let tool = Tool::new();
    tool.file("kineto.json", drawn(1000));
    let counts = |device: &str| {
        let said = tool
            .run(&format!("link --device {device} --json"))
            .exits(0)
            .json();
        (
            said["report"]["nodes"].clone(),
            said["report"]["edges"].clone(),
        )
    };
    let kineto = counts("kineto.json");
    assert_ne!(kineto.1["host_wait"], 0, "{kineto:?}");
    let path = tool.path("x.sqlite");
    export(&path, &[1000]);
    assert_eq!(counts("x.sqlite"), kineto);
    make_old(&path);
    assert_eq!(counts("x.sqlite"), kineto);
}

#[test]
fn notes_say_what_to_record_with_nsight_systems() {
    let tool = Tool::new();
    let write = |name: &str, change: &str| {
        let path = tool.path(name);
        export(&path, &[1000]);
        let connection = Connection::open(path).expect("opens");
        connection.execute_batch(change).expect("changes");
    };
    write("rangeless.sqlite", "DELETE FROM NVTX_EVENTS");
    let host = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz";
    tool.run(&format!("link {host} --device rangeless.sqlite"))
        .exits(0)
        .notes("so host ops have no times; record with `nsys profile -t cuda,nvtx`")
        .notes("emit_nvtx()`");
    let rename = "UPDATE NVTX_EVENTS SET text = 'a range of NVTX'";
    write("ranges.sqlite", rename);
    tool.run(&format!("link {host} --device ranges.sqlite"))
        .exits(2)
        .complains(&[
            "different programs",
            "`nsys profile -t cuda,nvtx`",
            "emit_nvtx()`",
        ]);
}

#[test]
fn a_packed_export_and_one_on_standard_input_are_unpacked() {
    let tool = Tool::new();
    export(&tool.path("x.sqlite"), &[1000]);
    let plain = tool.read("x.sqlite");
    tool.file("x.sqlite.gz", gzip(&plain));
    tool.run("link --device x.sqlite -o plain.et").exits(0);
    tool.run("link --device x.sqlite.gz -o packed.et").exits(0);
    tool.run_with("link --device - -o stdin.et", &plain)
        .exits(0);
    assert_eq!(tool.read("plain.et"), tool.read("packed.et"));
    assert_eq!(tool.read("plain.et"), tool.read("stdin.et"));
    // nothing is left next to the file
    let names = [
        "packed.et",
        "plain.et",
        "stdin.et",
        "x.sqlite",
        "x.sqlite.gz",
    ];
    assert_eq!(tool.names(), names);
}

/// Adds tables that do not belong to an export.
fn add_other_tables(connection: &Connection, numbers: std::ops::Range<u32>) {
    let columns: Vec<String> = (0..100).map(|column| format!("column_{column}")).collect();
    let columns = columns.join(", ");
    for number in numbers {
        connection
            .execute_batch(&format!("CREATE TABLE other_{number} ({columns})"))
            .expect("creates");
    }
}

/// Builds an export whose first pages name none of its tables, like after creating many others.
fn late_export(tool: &Tool, name: &str) -> Vec<u8> {
    let early = tool.path("early.sqlite");
    export(&early, &[1000]);
    let late = Connection::open(tool.path(name)).expect("opens");
    late.execute("ATTACH ? AS early", [early.to_str()])
        .expect("attaches");
    add_other_tables(&late, 0..40);
    late.execute_batch("INSERT INTO other_0 (column_0) VALUES (zeroblob(1000000))")
        .expect("inserts");
    // the last page of names before the rows still has room
    add_other_tables(&late, 40..60);
    let mut tables = late
        .prepare("SELECT name, sql FROM early.sqlite_master WHERE type = 'table'")
        .expect("lists");
    let rows = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Vec<(String, String)> = rows.expect("rows").map(|row| row.expect("row")).collect();
    for (table, sql) in rows {
        late.execute_batch(&format!(
            "{sql}; INSERT INTO main.{table} SELECT * FROM early.{table};"
        ))
        .expect("copies");
    }
    drop(tables);
    drop(late);
    std::fs::remove_file(early).expect("removes");
    tool.read(name)
}

#[test]
fn an_export_is_known_by_its_tables_wherever_they_stand() {
    let tool = Tool::new();
    let plain = late_export(&tool, "x.sqlite");
    let head = &plain[..256 << 10];
    for text in [
        "CUPTI_ACTIVITY_KIND_",
        "META_DATA_EXPORT",
        "EXPORT_META_DATA",
    ] {
        let mut windows = head.windows(text.len());
        assert!(!windows.any(|bytes| bytes == text.as_bytes()), "{text}");
    }
    tool.run("link --device x.sqlite -o plain.et").exits(0);
    let zstd = zstd::bulk::compress(&plain, 3).expect("packs");
    tool.file("gz/nsys_0.sqlite.gz", gzip(&plain));
    tool.file("zst/nsys_0.sqlite.zst", zstd);
    for ending in ["gz", "zst"] {
        let file = format!("{ending}/nsys_0.sqlite.{ending}");
        tool.run(&format!("inspect {file}"))
            .exits(0)
            .says("an export of Nsight Systems");
        tool.run(&format!("link --device {file} -o {ending}.et"))
            .exits(0);
        assert!(tool.read("plain.et") == tool.read(&format!("{ending}.et")));
        tool.run(&format!("merge {ending} -o out-{ending}"))
            .exits(0)
            .says("1 linked, 0 failed");
    }
    tool.run_with("inspect -", &plain)
        .exits(0)
        .says("an export of Nsight Systems");
    tool.run_with("link --device - -o stdin.et", &plain)
        .exits(0);
    assert!(tool.read("plain.et") == tool.read("stdin.et"));
    // other databases are reported as such, also if compressed
    let other = Connection::open(tool.path("other.sqlite")).expect("opens");
    other
        .execute("CREATE TABLE users (id)", [])
        .expect("creates");
    drop(other);
    tool.file("other.sqlite.gz", gzip(&tool.read("other.sqlite")));
    tool.run("link --device other.sqlite.gz")
        .exits(2)
        .notes("an unknown SQLite database");
}

#[test]
fn each_process_of_a_report_is_a_rank() {
    let tool = Tool::new();
    tool.file("runs/.keep", "");
    export(&tool.path("runs/job.sqlite"), &[2001, 2000]);
    let merged = tool.run("merge runs -o out").exits(0);
    merged.notes("2 processes with device work, each taken as a rank, by the order of process ids");
    let files: Vec<String> = tool.files("out").into_keys().collect();
    assert!(
        files.contains(&"runs.0.et".to_owned()) && files.contains(&"runs.1.et".to_owned()),
        "{files:?}"
    );
    // the report is itself a run of two ranks, which can be selected
    tool.run("analyze runs/job.sqlite").exits(0);
    tool.run("link --device runs/job.sqlite --rank 1 -o one.et")
        .exits(0);
    tool.run("link --device runs/job.sqlite -o none.et")
        .exits(2)
        .notes("2 processes of the report have device work (pids [2000, 2001])");
}

#[test]
fn sizes_that_a_report_does_not_say_are_no_zeros() {
    let tool = Tool::new();
    export(&tool.path("job.sqlite"), &[1000]);
    let connection = Connection::open(tool.path("job.sqlite")).expect("opens");
    let thread = (1_i64 << 48) | (1000 << 24) | 1000;
    connection
        .execute_batch(&format!(
            "CREATE TABLE MPI_P2P_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, \
             textId INTEGER, commHandle INTEGER, tag INTEGER, remoteRank INTEGER, size INTEGER); \
             INSERT INTO StringIds VALUES (901, 'MPI_Send'), (902, 'MPI_Recv'); \
             INSERT INTO MPI_P2P_EVENTS VALUES \
             (40000, 42000, {thread}, 901, -5, 0, 1, 64), \
             (50000, 54000, {thread}, 901, -5, 0, 1, NULL), \
             (60000, 62000, {thread}, 902, -5, 0, 1, NULL);"
        ))
        .expect("writes");
    let table = "analyze job.sqlite --table collectives";
    let text = tool.run(table).exits(0);
    let text = text.says("bytes: sum of collectives with a size");
    let cells = |kind: &str| -> Vec<String> {
        let line = text
            .stdout
            .lines()
            .find(|line| line.trim().starts_with(kind));
        let line = line.expect("a line of the kind");
        line.split_whitespace().map(str::to_owned).collect()
    };
    // kind, group, on, times, without size, bytes
    assert_eq!(cells("send")[2..6], ["host", "2", "1", "64"]);
    assert_eq!(cells("recv")[2..6], ["host", "1", "1", "-"]);
    let json = tool.run(&format!("{table} --json")).exits(0).runs();
    let kinds = json[0]["total"]["collectives"]
        .as_array()
        .expect("a list")
        .clone();
    let of = |kind: &str| {
        kinds
            .iter()
            .find(|one| one["kind"] == kind)
            .expect("there")
            .clone()
    };
    let (send, recv) = (of("send"), of("recv"));
    assert_eq!(
        (&send["bytes"], &send["without_size"]),
        (&64.into(), &1.into())
    );
    assert!(
        recv["bytes"].is_null() && recv["in_bytes"].is_null(),
        "{recv}"
    );
    let csv = tool.run(&format!("{table} --csv")).exits(0).stdout;
    let row = csv
        .lines()
        .find(|line| line.contains(",recv,"))
        .expect("a line");
    let head: Vec<&str> = csv.lines().next().expect("a head").split(',').collect();
    let cell = |name: &str| {
        let at = head
            .iter()
            .position(|head| *head == name)
            .expect("a column");
        row.split(',').nth(at).expect("a cell")
    };
    assert_eq!(
        (cell("bytes"), cell("in_bytes"), cell("without_size")),
        ("", "", "1")
    );
}

#[test]
fn messages_that_say_no_peer_are_counted_beside_what_matches() {
    let tool = Tool::new();
    tool.file("runs/.keep", "");
    let path = tool.path("runs/job.sqlite");
    export(&path, &[2000, 2001]);
    let connection = Connection::open(path).expect("opens");
    let thread = (1_i64 << 48) | (2000 << 24) | 2000;
    connection
        .execute_batch(&format!(
            "CREATE TABLE MPI_P2P_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, \
             textId INTEGER, commHandle INTEGER, tag INTEGER, remoteRank INTEGER, size INTEGER); \
             INSERT INTO StringIds VALUES (901, 'MPI_Send'); \
             INSERT INTO MPI_P2P_EVENTS VALUES \
             (40000, 42000, {thread}, 901, -5, 0, NULL, NULL), \
             (50000, 54000, {thread}, 901, -5, 0, NULL, NULL);"
        ))
        .expect("writes");
    let unknown = "sends or receives without a peer rank";
    tool.run("ranks runs")
        .says("2 ranks, 0 matched collectives and messages")
        .notes(unknown);
    tool.run("merge runs -o out")
        .says("0 collectives and 0 messages matched, 0 not")
        .says(unknown);
}

#[test]
fn tables_and_lists_of_a_report_of_several_processes() {
    let tool = Tool::new();
    export(&tool.path("job.sqlite"), &[2001, 2000]);
    let tables = tool.run("top job.sqlite --json").exits(0).json();
    let ranks: Vec<_> = tables["tables"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(
        (&ranks[0]["rank"], &ranks[1]["rank"]),
        (&0.into(), &1.into())
    );
    // In a row of a synchronization the host waits; no device works.
    let rows = ranks[0]["rows"].as_array().expect("rows");
    assert!(
        rows.iter().all(|row| row["name"] != "Context Sync"),
        "{rows:?}"
    );
    tool.run("diff job.sqlite job.sqlite").exits(0);
    let listed = tool.run("inspect job.sqlite --json").exits(0).only_file();
    let processes = &listed["processes"];
    assert_eq!(processes[0]["pid"], 2000);
    assert_eq!(
        (&processes[1]["pid"], &processes[1]["rank"]),
        (&2001.into(), &1.into())
    );
    tool.run("inspect job.sqlite").exits(0).says("pid 2001");
    tool.run("link --device job.sqlite --rank 7")
        .exits(2)
        .notes("no process is rank 7; the processes are ranks 0, 1");
    // measured for one rank, according to the file name
    let metrics = "\"ID\",\"Kernel Name\",\"dram__bytes.sum\"\n\"\",\"\",\"Mbyte\"\n\
                   \"0\",\"gemm\",\"1\"\n";
    tool.file("ncu_rank_1.csv", metrics);
    tool.run("analyze job.sqlite --metrics ncu_rank_1.csv")
        .exits(0)
        .notes("metrics of ncu_rank_1.csv are joined to 1 kernel by name");
    tool.file("ncu.csv", metrics);
    tool.run("analyze job.sqlite --metrics ncu.csv")
        .exits(0)
        .notes("ncu.csv has kernel metrics, but no rank in its name: not used");
}

#[test]
fn a_packed_report_of_several_processes_is_to_be_unpacked() {
    let tool = Tool::new();
    export(&tool.path("job.sqlite"), &[2001, 2000]);
    let plain = tool.read("job.sqlite");
    tool.file("runs/job.sqlite.gz", gzip(&plain));
    tool.run("merge runs -o out")
        .exits(2)
        .notes("decompress it first (gunzip");
    tool.run("link --device runs/job.sqlite.gz --rank 1")
        .exits(2)
        .notes("decompress it first (gunzip");
    tool.run_with("link --device -", &plain)
        .exits(2)
        .notes("save standard input to a file");
}

#[test]
fn reports_of_machines_are_in_the_order_of_the_numbers_in_their_names() {
    let tool = Tool::new();
    tool.file("runs/.keep", "");
    for (node, pid) in [(10, 2000), (2, 3000)] {
        let path = tool.path(&format!("runs/report_node{node}.sqlite"));
        export(&path, &[pid, pid + 1]);
    }
    tool.run("merge runs -o out")
        .exits(0)
        .notes("in this order: report_node2.sqlite, report_node10.sqlite");
}

#[test]
fn exports_are_found_by_the_ranks_in_their_names() {
    let tool = Tool::new();
    tool.file("runs/.keep", "");
    for rank in 0..2 {
        let path = tool.path(&format!("runs/nsys_{rank}.sqlite"));
        export(&path, &[3000 + rank]);
        make_old(&path);
    }
    // the report next to its export is the export's source
    tool.file("runs/nsys_0.nsys-rep", "not public");
    let said = tool.run("merge runs -o out --json").exits(0);
    assert!(!said.stderr.contains("nsys export"), "{}", said.stderr);
    let files: Vec<String> = tool.files("out").into_keys().collect();
    assert!(files.contains(&"runs.1.et".to_owned()), "{files:?}");
}

#[test]
fn a_report_that_was_not_exported_is_told_how_to_be() {
    let tool = Tool::new();
    tool.file("runs/profile.nsys-rep", "not public");
    let command = "nsys export --type sqlite";
    tool.run("link --device runs/profile.nsys-rep")
        .exits(2)
        .notes(command);
    tool.run("inspect runs/profile.nsys-rep")
        .exits(2)
        .notes(command);
    tool.run("analyze runs/profile.nsys-rep")
        .exits(2)
        .notes(command);
    tool.run("merge runs -o out").exits(2).notes(command);
}

#[test]
fn tables_of_a_parquet_export_are_told_what_to_export_instead() {
    let tool = Tool::new();
    tool.file("run/.keep", "");
    export(&tool.path("run/nsys_0.sqlite"), &[3000]);
    tool.run("analyze run --parquet tables").exits(0);
    let table = std::fs::read(tool.path("tables/events/0.parquet")).expect("a table");
    let path = "run.parquetdir/CUPTI_ACTIVITY_KIND_KERNEL.parquet";
    tool.file(path, table);
    let command = "nsys export --type sqlite";
    for line in [
        format!("link --device {path}"),
        format!("inspect {path}"),
        format!("analyze {path}"),
        "merge run.parquetdir -o out".to_owned(),
        "link --device run.parquetdir".to_owned(),
        "inspect run.parquetdir".to_owned(),
    ] {
        tool.run(&line).exits(2).notes(command);
    }
    tool.file("above/run.parquetdir/StringIds.parquet", tool.read(path));
    tool.run("merge above -o out")
        .exits(2)
        .complains(&["above/run.parquetdir has tables", command]);
    tool.file("deep/one/a.nsys-rep", "no export");
    tool.run("merge deep -o out")
        .exits(2)
        .complains(&["`nsys export --type sqlite deep/one/a.nsys-rep`"]);
    // next to other traces they are reported, unless they were exported too
    tool.run("merge run -o out -v")
        .exits(0)
        .notes("run/nsys_0.sqlite, by names of Nsight Systems' reports, `nsys_N`");
    tool.file("run/nsys_1.parquetdir/StringIds.parquet", tool.read(path));
    tool.run("merge run -o out --overwrite")
        .exits(0)
        .notes("run/nsys_1.parquetdir has tables exported by Nsight Systems");
    export(&tool.path("run/nsys_1.sqlite"), &[3000]);
    let ran = tool.run("merge run -o out --overwrite").exits(0);
    assert!(!ran.stderr.contains("parquetdir"), "{}", ran.shown());
    // the export may be anywhere; several unexported reports share one note
    tool.file("run/raw/nsys_0.nsys-rep", "exported above");
    let ran = tool.run("merge run -o out --overwrite").exits(0);
    assert!(!ran.stderr.contains("nsys-rep"), "{}", ran.shown());
    for name in ["b", "c", "d"] {
        tool.file(&format!("run/raw_{name}/{name}.nsys-rep"), "no export");
    }
    let ran = tool.run("merge run -o out --overwrite").exits(0);
    let ran = ran.notes("3 reports of Nsight Systems must be exported first");
    assert_eq!(ran.stderr.matches("nsys-rep").count(), 1, "{}", ran.shown());
}

#[test]
fn other_and_damaged_databases_are_refused_in_words() {
    let tool = Tool::new();
    let other = Connection::open(tool.path("other.sqlite")).expect("opens");
    other
        .execute("CREATE TABLE users (id)", [])
        .expect("creates");
    drop(other);
    tool.run("link --device other.sqlite")
        .exits(2)
        .notes("an unknown SQLite database");
    export(&tool.path("x.sqlite"), &[1000]);
    let whole = tool.read("x.sqlite");
    // only the header of the first page is left
    let mut cut = whole.clone();
    cut.truncate(600);
    tool.file("cut.sqlite", cut);
    tool.run("link --device cut.sqlite").exits(2);
    let mut damaged = whole;
    let middle = damaged.len() / 3;
    damaged[middle..].fill(0x5a);
    tool.file("damaged.sqlite", damaged);
    // an error or a partial trace, but never a panic
    let ran = tool.run("link --device damaged.sqlite");
    assert!(ran.code == 0 || ran.code == 2, "{}", ran.code);
}

#[test]
fn a_locked_database_is_an_error_that_says_so() {
    let tool = Tool::new();
    export(&tool.path("x.sqlite"), &[1000]);
    let writer = Connection::open(tool.path("x.sqlite")).expect("opens");
    writer.execute_batch("BEGIN EXCLUSIVE").expect("locks");
    tool.run("link --device x.sqlite")
        .exits(2)
        .notes("another program is writing this database");
}

#[test]
fn metrics_of_gpus_are_counters_in_a_trace_for_perfetto() {
    let tool = Tool::new();
    export(&tool.path("x.sqlite"), &[1000]);
    let connection = Connection::open(tool.path("x.sqlite")).expect("opens");
    connection
        .execute_batch(
            "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, \
             value INTEGER); INSERT INTO GPU_METRICS VALUES (5000, 0, 3, 97), (9000, 0, 3, 12);",
        )
        .expect("adds");
    drop(connection);
    tool.run("link --device x.sqlite -o x.trace.json").exits(0);
    let text = String::from_utf8(tool.read("x.trace.json")).expect("JSON");
    assert!(text.contains("GPU 0 metric 3"), "{text}");
    tool.run("link --device x.sqlite -o x.pftrace").exits(0);
}

/// A truncated copy or a full disk: a rank is missing, which must not go unnoticed.
#[test]
fn device_files_that_are_empty_or_cut_are_ranks_that_failed() {
    let tool = Tool::new();
    for rank in 0..2 {
        let trace = crate::tool::unpacked(&format!("ddp2-2.15.0/kineto_trace_{rank}.json.gz"));
        tool.file(&format!("run/kineto_trace_{rank}.json"), &trace);
    }
    // of another program
    tool.file("run/test_results.db", "no database");
    tool.run("merge run -o out").exits(0);
    for name in ["nsys_2.sqlite", "rank2.xplane.pb", "4711_results.db"] {
        for content in [&b""[..], b"SQLite form"] {
            let path = format!("run/{name}");
            tool.file(&path, content);
            tool.run("merge run -o out -f")
                .exits(1)
                .says("1 failed")
                .notes(name);
            std::fs::remove_file(tool.path(&path)).expect("removes");
        }
    }
}

#[test]
fn an_empty_profile_hides_no_trace_that_was_drawn_of_it() {
    let tool = Tool::new();
    let drawn = crate::tool::pairs().join("../jax/mlp-0.10.2/host.trace.json.gz");
    let drawn = std::fs::read(drawn).expect("recorded");
    tool.file("run/rank0.trace.json.gz", drawn);
    tool.file("run/rank0.xplane.pb", []);
    tool.run("merge run -o out")
        .lacks("left out: drawn")
        .says("1 linked");
}
