//! Small whole documents, drawn or cut from recordings in testdata.

use anyhow::{Context, Result};
use etlink_kineto::KinetoReadOptions;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{DeviceTrace, KeepEvents};
use etlink_nsys::NsysSchema;
use etlink_report::perfetto::{TimelineFormat, write_trace};
use etlink_testing::{
    DeviceQueue, HostSchema, Oddity, ParamComms, TraceBuilder, rocprof_json, write_rocpd, xla_json,
    xla_space,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use rusqlite::{Connection, MAIN_DB};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// What stands between the two traces of a pair.
pub(super) const PAIR_MARK: &[u8] = b"\n#pair#\n";

/// Events of an odd trace: each kind of them comes once or twice.
const ODD_EVENTS: usize = 6;
/// A seed cut from a recording has at most so many bytes.
const MOST_BYTES: usize = 3_000;

type Seeds = Result<Vec<Vec<u8>>>;

/// A step of a rank with a launch, a copy, a collective and a wait.
fn draw_step() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 190_000);
    draw.op(main, "aten::mm", 2_000, 40_000);
    let queue = DeviceQueue::stream(7);
    draw.launch(main, (5_000, 8_000), queue, "gemm", (12_000, 60_000));
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    draw.collective(main, &comms, 50_000, 60_000);
    let reduce = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (52_000, 55_000), reduce);
    draw.collective_kernel(
        DeviceQueue::stream(24),
        "ncclDevKernel_AllReduce_Sum_f32",
        (58_000, 90_000),
        reduce,
        &comms,
    );
    let wait = draw.next_correlation();
    draw.call(main, "cudaStreamWaitEvent", (92_000, 93_000), wait);
    draw.sync(
        "Stream Wait Event",
        queue,
        (92_000, 93_000),
        wait,
        Some((24, reduce)),
    );
    draw
}

fn drawn_device() -> Result<DeviceTrace> {
    read_device(&draw_step().kineto())
}

fn read_device(text: &[u8]) -> Result<DeviceTrace> {
    let options = KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: KeepEvents::Everything,
    };
    Ok(etlink_kineto::read(text, options)?)
}

fn drawn_link() -> Result<LinkedTrace> {
    let draw = draw_step();
    let host = draw.host(HostSchema::V1_1_1);
    let options = etlink_host::HostReadOptions { threads: 1 };
    let host = etlink_host::read(&host[..], options)?;
    Ok(etlink_link::link(
        Some(host),
        drawn_device()?,
        LinkOptions::default(),
    )?)
}

/// Some elements of the list of a document, of each shape one.
fn cut_document(path: &Path, list: &str) -> Result<Vec<u8>> {
    let mut document: Value =
        serde_json::from_slice(&unpacked(path)?).with_context(|| path.display().to_string())?;
    let elements = document[list].as_array_mut();
    let elements = elements.with_context(|| format!("{}: no {list}", path.display()))?;
    let (mut shapes, mut bytes) = (BTreeSet::new(), 0);
    elements.retain(|element| {
        let length = element.to_string().len();
        let is_new = bytes + length < MOST_BYTES && shapes.insert(shape_of(element));
        bytes += if is_new { length } else { 0 };
        is_new
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// Keys of an event and of its arguments, and its category.
fn shape_of(element: &Value) -> String {
    let keys = |value: &Value| -> Vec<String> {
        let object = value.as_object();
        object.map_or(vec![], |object| object.keys().cloned().collect())
    };
    let arguments = keys(&element["args"]);
    format!("{:?} {arguments:?} {}", keys(element), element["cat"])
}

fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let file = std::fs::read(path).with_context(|| path.display().to_string())?;
    let mut text = vec![];
    flate2::read::MultiGzDecoder::new(&file[..]).read_to_end(&mut text)?;
    Ok(text)
}

/// Files of a folder of testdata whose names contain a word, at any depth.
fn files_of(folder: &str, word: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let entries = folder
            .read_dir()
            .with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(word) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn host_traces() -> Seeds {
    let mut all = vec![draw_step().host(HostSchema::V1_1_1)];
    let odd = Oddity::ALL.into_iter();
    all.extend(odd.filter_map(|oddity| oddity.draw_rank(ODD_EVENTS, 0).host));
    for path in files_of("testdata/pairs", "torch_et_0")? {
        all.push(cut_document(&path, "nodes")?);
    }
    Ok(all)
}

pub(super) fn kineto_traces() -> Seeds {
    let mut all = vec![draw_step().kineto()];
    let odd = Oddity::ALL.into_iter();
    all.extend(odd.map(|oddity| oddity.draw_rank(ODD_EVENTS, 0).device));
    for path in files_of("testdata/pairs", "kineto_trace_0")? {
        all.push(cut_document(&path, "traceEvents")?);
    }
    for path in files_of("testdata/graphs", ".json")? {
        let text = std::fs::read(&path)?;
        all.push(text.get(..MOST_BYTES).unwrap_or(&text).to_vec());
    }
    Ok(all)
}

pub(super) fn pairs() -> Seeds {
    let draw = draw_step();
    let mut all = vec![[&draw.host(HostSchema::V1_1_1), PAIR_MARK, &draw.kineto()].concat()];
    for oddity in Oddity::ALL {
        let drawn = oddity.draw_rank(ODD_EVENTS, 0);
        let host = drawn.host.unwrap_or_default();
        all.push([&host, PAIR_MARK, &drawn.device].concat());
    }
    Ok(all)
}

pub(super) fn et_graphs() -> Seeds {
    let trace = drawn_link()?;
    let mut graph = vec![];
    etlink_chakra::et::write_et(&trace, &etlink_chakra::WriteOptions::default(), &mut graph)?;
    Ok(vec![graph])
}

pub(super) fn etplus_graphs() -> Seeds {
    let mut graph = vec![];
    etlink_chakra::etplus::write_etplus(&drawn_link()?, &mut graph)?;
    let mut all = vec![graph, draw_step().host(HostSchema::V1_1_1)];
    for path in files_of("testdata/layouts/chakra-samples", "host")? {
        all.push(cut_document(&path, "nodes")?);
    }
    Ok(all)
}

pub(super) fn jsonizer_graphs() -> Seeds {
    let text = r#"{
  "version": "0.0.4", "attr": [{"name": "pid", "uint64Val": "7"}]
}
{"id": "3", "name": "a \"}{\\", "type": "COMP_NODE", "ctrlDeps": ["0", 1.5, 18446744073709551615],
 "durationMicros": 12, "attr": [{"name": "x", "doubleVal": 1.5}, {"name": "pid", "stringVal": "é"}]
}{"id": 4, "type": "COMM_COLL_NODE", "dataDeps": ["3"], "startTimeMicros": "9",
  "attr": [{"name": "comm_size", "int64Val": "8"}, {"name": "is_cpu_op", "boolVal": true},
  {"name": "comm_type", "int64Val": "0"}, {"name": "pg_name", "stringVal": "1"}]}
"#;
    Ok(vec![text.as_bytes().to_vec()])
}

pub(super) fn pickles() -> Seeds {
    let dumps = files_of("testdata/flight", "nccl_trace")?;
    let read = dumps.iter().map(std::fs::read);
    Ok(read.collect::<Result<_, _>>()?)
}

pub(super) fn flight_json() -> Seeds {
    let text = r#"{"version": "2.10", "comm_lib_version": "2.21", "pg_config": {"0": {"name": "0",
"desc": "default_pg", "ranks": "[0, 1]"}}, "pg_status": {"0": {"last_enqueued_collective": 7,
"last_started_collective": 6, "last_completed_collective": 5}},
"entries": [{"process_group": ["0", "default_pg"], "frames": [{"name": "f", "filename": "a.py",
"line": 3}], "record_id": 1, "pg_id": 0, "collective_seq_id": 7, "p2p_seq_id": 0, "op_id": 1,
"profiling_name": "nccl:all_reduce", "time_created_ns": 1700000000000000005,
"time_discovered_started_ns": 1700000000000000105, "duration_ms": 0.5, "is_p2p": false,
"input_sizes": [[10, 2]], "input_dtypes": ["Float"], "output_sizes": [[10, 2]],
"output_dtypes": ["Float"], "state": "scheduled", "retired": true, "timeout_ms": 600000}]}"#;
    Ok(vec![text.as_bytes().to_vec()])
}

pub(super) fn inspector_logs() -> Seeds {
    let text = concat!(
        r#"{"header":{"id":"0x1","comm_name":"unknown","rank":0,"n_ranks":2,"nnodes":1},"#,
        r#""metadata":{"inspector_output_format_version":"v4.0","#,
        r#""dump_timestamp_us":1748030377748202,"hostname":"a","pid":4711},"coll_perf":"#,
        r#"{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":8192,"coll_exec_time_us":40,"#,
        r#""coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.5,"coll_busbw_gbs":1.5}}"#,
        "\n",
        r#"{"header":{"id":"0x9","rank":0,"n_ranks":2,"nnodes":1},"metadata":{},"p2p_perf":"#,
        r#"{"p2p":"Send","p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":4096,"#,
        r#""p2p_exec_time_us":7}}"#,
        "\n"
    );
    Ok(vec![text.as_bytes().to_vec()])
}

/// A database with small pages, so that it has few bytes.
fn image_of(fill: impl FnOnce(&Connection) -> Result<()>) -> Result<Vec<u8>> {
    let mut connection = Connection::open_in_memory()?;
    connection.execute_batch("PRAGMA page_size = 512")?;
    fill(&connection)?;
    Ok(connection.serialize(MAIN_DB)?.to_vec())
}

/// A database, and for each of its tables with rows one that has only this table and those that
/// `is_shared` names: they are read several times as fast.
fn images_of(
    fill: impl Fn(&Connection) -> Result<()>,
    is_shared: impl Fn(&str) -> bool,
) -> Result<Vec<Vec<u8>>> {
    let mut tables = vec![];
    let whole = image_of(|connection| {
        fill(connection)?;
        tables = tables_of(connection)?;
        Ok(())
    })?;
    let mut all = vec![whole];
    let is_wanted = |(name, has_rows): &&(String, bool)| *has_rows && !is_shared(name);
    for (kept, _) in tables.iter().filter(is_wanted) {
        all.push(image_of(|connection| {
            fill(connection)?;
            for (name, has_rows) in &tables {
                if name != kept && !(*has_rows && is_shared(name)) {
                    connection.execute_batch(&format!("DROP TABLE \"{name}\""))?;
                }
            }
            Ok(connection.execute_batch("VACUUM")?)
        })?);
    }
    Ok(all)
}

/// The tables of a database, and whether they have rows.
fn tables_of(connection: &Connection) -> Result<Vec<(String, bool)>> {
    let mut query = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = query.query_map([], |row| row.get(0))?;
    let mut tables = vec![];
    for name in names {
        let name: String = name?;
        let query = format!("SELECT EXISTS (SELECT 1 FROM \"{name}\")");
        let has_rows = connection.query_row(&query, [], |row| row.get(0))?;
        tables.push((name, has_rows));
    }
    Ok(tables)
}

pub(super) fn nsys_exports() -> Seeds {
    let trace = drawn_device()?;
    let mut all = vec![];
    for schema in NsysSchema::ALL {
        all.extend(images_of(
            |connection| Ok(etlink_nsys::write(&trace, connection, schema)?),
            |table| table == "StringIds" || table == "CUPTI_ACTIVITY_KIND_KERNEL",
        )?);
    }
    Ok(all)
}

pub(super) fn rocpd_databases() -> Seeds {
    let trace = drawn_device()?;
    let records = ["rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"];
    images_of(
        |connection| Ok(write_rocpd(&trace, "_0197a", connection)?),
        |table| !records.iter().any(|record| table.starts_with(record)),
    )
}

pub(super) fn rocprof_documents() -> Seeds {
    Ok(vec![rocprof_json(&drawn_device()?)])
}

pub(super) fn xla_spaces() -> Seeds {
    Ok(vec![xla_space(&drawn_device()?)])
}

pub(super) fn xla_documents() -> Seeds {
    let mut all = vec![xla_json(&drawn_device()?)];
    for path in files_of("testdata/jax", "trace.json")? {
        all.push(cut_document(&path, "traceEvents")?);
    }
    Ok(all)
}

pub(super) fn perfetto_traces() -> Seeds {
    let mut bytes = vec![];
    write_trace(&drawn_link()?, &[], TimelineFormat::Protobuf, &mut bytes)?;
    Ok(vec![bytes])
}

pub(super) fn torch_pftraces() -> Seeds {
    let files = files_of("testdata/graphs", ".pftrace")?;
    files.iter().map(|path| unpacked(path)).collect()
}

pub(super) fn compute_tables() -> Seeds {
    let text = "==PROF== Connected to process 1\n\
\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"dram__bytes.sum\"\n\
\"\",\"\",\"\",\"\",\"\",\"Mbyte\"\n\
\"0\",\"1\",\"gemm(float, \"\"a\"\")\",\"(128, 1, 1)\",\"(8, 2, 1)\",\"1,024.5\"\n\
\"1\",\"1\",\"add\",\"(128, 1, 1)\",\"(8, 2, 1)\",\"n/a\"\n";
    let long = "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\
\"Metric Value\"\n\"0\",\"1\",\"gemm\",\"dram__bytes.sum\",\"Kbyte\",\"7.5\"\n";
    Ok(vec![text.into(), long.into()])
}

pub(super) fn latencies() -> Seeds {
    let text = r#"{"backend": "vllm", "model_id": "m", "completed": 3, "mean_ttft_ms": 12.5,
"median_ttft_ms": 12.0, "p99_e2el_ms": 20.25, "ttfts": [0.1, 0.3], "itls": [[0.01, 0.03], [0.02]],
"avg_latency": 2.5, "percentiles": {"50": 2.5, "99": 2.99}}"#;
    let line = r#"{"backend": "sglang", "completed": 1, "mean_ttft_ms": 12.5}"#;
    Ok(vec![text.into(), format!("{line}\n{line}\n").into()])
}

pub(super) fn cards() -> Seeds {
    let text = "version: 1
workload: &w
  model: {phase: training, model_arch: {num_params: 8.03e9}}
  data: {batch_size: '4', seq_len: [1024]}
Model-executor:
  framework: {name: torchtitan}
  model_plan_parallelization: {dp_replicate: 2, tp: 4, pp: 1}
metric_source:
  traces: [kineto_trace, *w]
";
    Ok(vec![text.into()])
}

pub(super) fn manifests() -> Seeds {
    let manifest = r#"{"ranks": [{"rank": 0, "pid": 7, "host": "a", "launcher": "b", "world_size": 2,
"python": "3.11", "torch": "2.15.0", "device": null, "steps": 12, "lost": false, "notes": ["n"],
"cycles": [{"number": 1, "first_step": 3, "last_step": 5, "host_trace": "c/torch_et_0.json.gz",
"device_trace": "c/kineto_trace_0.json.gz", "host_steps": [3, 4], "recorded_ns": 9, "plain_ns": 7}]
}], "job": "1", "tasks": [{"task": 0, "ended": {"exit_code": 0}, "notes": []}]}"#;
    let status = r#"{"pid": 7, "rank": 0, "state": "armed", "step": 3, "request": "1"}"#;
    Ok(vec![manifest.into(), status.into()])
}

pub(super) fn rules() -> Seeds {
    let texts = [
        "gemm*=0.5",
        "rank=1/kind=device 2.0",
        "kind=collective=1e3",
        "fuse=triton_.*",
        "ranks=64",
        "bandwidth=dp:2",
        "device=H100",
        "straggler=3",
        "step > 5%",
        "class gemm > 2ms",
        "kernel a b < -3us",
        "0-3,7,9-11",
    ];
    Ok(texts.iter().map(|text| text.as_bytes().to_vec()).collect())
}

pub(super) fn kernel_rules() -> Seeds {
    let text = "# mine\ncomputation  gemm  (?i)gemm|^cutlass\nother  wait  ^wait\n\
                communication nccl nccl[A-Z]{2,9}\n";
    Ok(vec![text.into()])
}

/// One member, two members, a member for each block as bgzip writes them, and zstd.
pub(super) fn packed_files() -> Seeds {
    let text = draw_step().kineto();
    let text = &text[..text.len().min(900)];
    let (one, two) = text.split_at(text.len() / 2);
    let packed = |text: &[u8]| -> Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text)?;
        Ok(encoder.finish()?)
    };
    Ok(vec![
        packed(text)?,
        [packed(one)?, packed(two)?].concat(),
        zstd::encode_all(text, 3)?,
        [packed(one)?, vec![0; 20]].concat(),
    ])
}
