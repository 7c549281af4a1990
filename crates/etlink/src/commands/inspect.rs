//! `etlink inspect`: what kind of file is this, what is in it.

use super::{json_document, print_json, print_report, print_text};
use crate::args::InspectArgs;
use crate::rank_error::rank_error;
use crate::table::{FactRows, mb};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::check;
use etlink_chakra::read;
use etlink_chakra::simulated::{AstraLog, AstraLogReader};
use etlink_flight_recorder::FlightDump;
use etlink_model::{
    Anomalies, CollectiveKind, CollectiveRecords, DeviceTrace, HostTrace, MetricProfile, Names,
    Severity,
};
use etlink_nccl_inspector::InspectorLog;
use etlink_run::input::{InputFile, InputKind, database_processes};
use etlink_run::job::{read_device, read_host};
use etlink_run::measurements::{read_card_file, read_latency_file, read_metric_file};
use etlink_run::{Run, RunError, RunOptions, RunSource};
use etlink_workload::text_workload::TextWorkload;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use std::io::{BufReader, Read};
use std::path::Path;

/// A text workload has a line of some hundred bytes for each layer.
const MAX_WORKLOAD_BYTES: u64 = 64 << 20;

pub fn run(args: InspectArgs) -> Result<Outcome> {
    let threads = args.resources.start()?;
    let progress = crate::progress::progress_bar();
    let options = RunOptions {
        threads,
        memory: args.resources.memory.map(|memory| memory.as_u64()),
        progress: progress.clone(),
        ..RunOptions::default()
    };
    let stdin = args
        .files
        .iter()
        .filter(|file| file.as_path() == Path::new("-"));
    if stdin.count() > 1 {
        bail!("only one of the files can be standard input");
    }
    let (mut all, mut errors) = (vec![], vec![]);
    let mut is_damaged = false;
    for file in &args.files {
        match inspect_file(file, &options) {
            Ok((facts, damaged)) => {
                all.push(facts);
                is_damaged |= damaged;
            }
            // what the other files are is worth knowing all the same
            Err(error) => errors.push(error),
        }
    }
    progress.finish();
    if all.is_empty() {
        let errors = errors.into_iter().map(rank_error);
        return Err(RunError::no_trace_taken(errors.collect()).into());
    }
    match (&all[..], args.print.json) {
        // by what was named, not by what could be read: else a script would get a list one day
        ([facts], true) if args.files.len() == 1 => {
            print_text(&json_document("etlink.inspect", facts)?)?
        }
        (_, true) => print_json(&all)?,
        (_, false) => print_report(&all.iter().map(fact_lines).collect::<Vec<_>>().join("\n"))?,
    }
    for error in &errors {
        notes::print_message(format_args!("{error:#}"));
    }
    Ok(if args.strict && is_damaged || !errors.is_empty() {
        Outcome::Found
    } else {
        Outcome::Done
    })
}

/// What is in a file, and whether that is damaged.
fn inspect_file(file: &Path, options: &RunOptions) -> Result<(Map<String, Value>, bool)> {
    let run = Run::open(RunSource::File(file.to_owned()), options.clone())?;
    options.progress.phase("reading");
    let rank = run.only_rank()?;
    let input = rank.open_file()?;
    // before the content is read, which takes the input
    let (kind, stored) = (input.kind, input.stored_bytes);
    let what = if input.is_view {
        "a view for Perfetto that etlink wrote, not a recording"
    } else {
        kind.describe()
    };
    let taken_by = if input.is_view {
        "ui.perfetto.dev and other viewers: no command takes it"
    } else if input.is_read_back {
        // in a folder it lies beside what it was made of
        "link --device, analyze, findings, replay, report, top, diff, as a file; not in a folder"
    } else {
        kind.taken_by()
    };
    // A trace is of one process. Of a report of several it is told which they are.
    let processes = match (&input.plain_path, kind.has_processes()) {
        (Some(path), true) => database_processes(path)?,
        _ => vec![],
    };
    let found = match processes.len() {
        0 | 1 => read_contents(input, file, run.set().threads_each),
        _ => Ok((into_object(json!({ "processes": processes })), false)),
    };
    let mut facts = Map::new();
    facts.insert("file".into(), json!(file.display().to_string()));
    facts.insert("kind".into(), json!(kind));
    facts.insert("what".into(), json!(what));
    facts.insert("taken_by".into(), json!(taken_by));
    facts.extend(stored.map(|bytes| ("stored_bytes".into(), json!(bytes))));
    let (contents, damaged) = found.map_err(|error| {
        let refusal = rank.memory_refusal(error.as_ref());
        refusal.map_or(error, Into::into)
    })?;
    facts.extend(contents);
    Ok((facts, damaged))
}

fn read_contents(
    input: InputFile,
    path: &Path,
    threads: usize,
) -> Result<(Map<String, Value>, bool)> {
    match input.kind {
        // its events are ranges that etlink drew: counts of them would pass for those of a program
        InputKind::KinetoTrace if input.is_view => Ok((Map::new(), false)),
        InputKind::HostTrace => {
            let trace = read_host(input, threads, etlink_link::TensorEdges::None)?;
            Ok((host_facts(&trace), trace.anomalies.any(Severity::Damage)))
        }
        kind if kind.is_device_trace() => {
            let trace = read_device(input, threads, true)?;
            Ok((device_facts(&trace), trace.anomalies.any(Severity::Damage)))
        }
        InputKind::ChakraEt | InputKind::ChakraJson | InputKind::EtPlus => {
            let graph = read::read(input.content).with_context(|| path.display().to_string())?;
            let mut facts = into_object(json!(graph.summary()));
            // `kind` says it already
            facts.shift_remove("format");
            let findings = check::check(&graph)
                .into_iter()
                .map(|finding| (finding.kind.describe().to_owned(), json!(finding.count)));
            facts.insert("findings".into(), Value::Object(findings.collect()));
            facts.extend(
                graph
                    .metadata
                    .iter()
                    .map(|(key, value)| (format!("metadata {key}"), json!(value))),
            );
            Ok((facts, graph.damage().is_some()))
        }
        InputKind::NcclInspector => {
            let log = etlink_run::inspector::read_opened_log(input)?;
            let damaged = log.anomalies.any(Severity::Damage);
            Ok((log_facts(&log), damaged))
        }
        InputKind::FlightRecorder => {
            let dump = etlink_run::flight::read_opened(input)?;
            let damaged = dump.anomalies.any(Severity::Damage);
            Ok((dump_facts(&dump), damaged))
        }
        InputKind::NsysReport => bail!(
            "{} is {}; export it with `nsys export --type sqlite {}`",
            input.name,
            input.kind.describe(),
            input.name
        ),
        InputKind::ParquetTable => bail!(
            "{} is {}; export a report of Nsight Systems with `nsys export --type sqlite` instead",
            input.name,
            input.kind.describe()
        ),
        InputKind::KernelMetrics => Ok((metric_facts(&read_metric_file(input)?), false)),
        InputKind::RequestLatencies => {
            let runs = read_latency_file(input)?;
            Ok((into_object(json!({ "runs": runs })), false))
        }
        InputKind::WorkloadCard => Ok((into_object(json!(read_card_file(input)?)), false)),
        InputKind::AstraLog => {
            let mut reader = AstraLogReader::default();
            let read = reader.read(BufReader::new(input.content));
            read.with_context(|| path.display().to_string())?;
            let log = reader.finish();
            let damaged = log.damaged > 0;
            Ok((simulation_facts(&log), damaged))
        }
        InputKind::TextWorkload => {
            let taken_for = || {
                format!(
                    "{}: by its first line it is a text workload of ASTRA-sim 1.0",
                    path.display()
                )
            };
            let mut text = String::new();
            let read = BufReader::new(input.content)
                .take(MAX_WORKLOAD_BYTES + 1)
                .read_to_string(&mut text);
            read.with_context(taken_for)?;
            if text.len() as u64 > MAX_WORKLOAD_BYTES {
                bail!(
                    "{}, but larger than {MAX_WORKLOAD_BYTES} bytes",
                    taken_for()
                );
            }
            let workload = TextWorkload::parse(&text).with_context(taken_for)?;
            let facts = json!({ "layers": workload.layer_count() });
            Ok((into_object(facts), false))
        }
        _ => {
            bail!(
                "{} is {}; give a host trace, a device trace, a .et or merged JSON",
                input.name,
                input.kind.describe()
            )
        }
    }
}

fn metric_facts(profile: &MetricProfile) -> Map<String, Value> {
    let mut metrics: Vec<&str> = vec![];
    for name in &profile.metrics.metric {
        metrics.push(profile.names.get(*name));
    }
    metrics.sort_unstable();
    metrics.dedup();
    let mut kernels: IndexMap<&str, u64> = IndexMap::new();
    for name in &profile.kernels.name {
        *kernels.entry(profile.names.get(*name)).or_default() += 1;
    }
    into_object(json!({
        "kernels": profile.kernels.len(),
        "kernels_by_name": kernels,
        "metrics": metrics,
        "damaged_lines": profile.damaged_lines,
    }))
}

fn host_facts(trace: &HostTrace) -> Map<String, Value> {
    let header = &trace.header;
    let mut threads = trace.nodes.tid.clone();
    // nodes of threads alternate, so only sorted ones are found to be the same
    threads.sort_unstable();
    threads.dedup();
    into_object(json!({
        "bytes": trace.bytes,
        "schema": header.schema,
        "pid": header.pid,
        "time": header.time,
        "nodes": trace.nodes.len(),
        "nodes_with_id": trace.nodes.rf_id.iter().filter(|id| id.get().is_some()).count(),
        "threads": threads,
        "tensor_uses": etlink_host::tensor_uses(trace).refs.len(),
        "collectives": count_collectives(&trace.collectives, &trace.names),
        "process_groups": trace.groups,
        "steps": step_names(&trace.nodes.name, &trace.names),
        "anomalies": count_anomalies(&trace.anomalies),
    }))
}

fn device_facts(trace: &DeviceTrace) -> Map<String, Value> {
    let header = &trace.header;
    let queues = trace.queues.iter().map(|queue| {
        format!(
            "device {} context {} stream {}",
            queue.device, queue.context, queue.stream
        )
    });
    let threads = trace
        .threads
        .iter()
        .map(|thread| format!("{}/{}", trace.label(thread.pid), trace.label(thread.tid)));
    let mut devices: IndexMap<&str, u64> = IndexMap::new();
    header
        .devices
        .iter()
        .for_each(|device| *devices.entry(device).or_default() += 1);
    let mut events = Map::new();
    for (kind, count) in &trace.events {
        events.insert(kind.trim().to_owned(), json!(count));
    }
    into_object(json!({
        "bytes": trace.bytes,
        "rank": header.rank,
        "world_size": header.world_size,
        "backend": header.backend,
        "devices": devices,
        "window_ns": trace.window().map(|(start, end)| (start.0, end.0)),
        "base_ns": header.base_ns.0,
        "cpu_ops": trace.ops.len(),
        "ops_with_id": trace.ops.rf_id.iter().filter(|id| id.get().is_some()).count(),
        "runtime_calls": trace.calls.len(),
        "graph_captures": count_calls(trace, etlink_link::begins_capture),
        "graph_launches": count_calls(trace, etlink_link::launches_graph),
        "device_rows": trace.rows.len(),
        "sync_rows": trace.syncs.len(),
        "threads": threads.collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(),
        "collectives": count_collectives(&trace.collectives, &trace.names),
        "process_groups": header.groups,
        "steps": step_names(&trace.ops.name, &trace.names),
        "events": events,
        "anomalies": count_anomalies(&trace.anomalies),
    }))
}

fn log_facts(log: &InspectorLog) -> Map<String, Value> {
    let mut collectives: IndexMap<CollectiveKind, u64> = IndexMap::new();
    for name in &log.calls.name {
        let kind = CollectiveKind::from_name(log.names.get(*name));
        *collectives.entry(kind).or_default() += 1;
    }
    collectives.sort_unstable_keys();
    into_object(json!({
        "bytes": log.bytes,
        "calls": log.calls.len(),
        "collectives": collectives,
        "communicators": log.communicators,
        "anomalies": count_anomalies(&log.anomalies),
    }))
}

fn simulation_facts(log: &AstraLog) -> Map<String, Value> {
    let ranks = log.ranks.values();
    let finished = ranks.clone().filter(|rank| rank.finished_ns.is_some());
    let nodes: usize = ranks.map(|rank| rank.nodes.len()).sum();
    into_object(json!({
        "lines": log.lines,
        "simulations": log.runs,
        "ranks": log.ranks.len(),
        "ranks_finished": finished.count(),
        "nodes": nodes,
        "last_ns": log.last_ns,
        "has_end": log.has_end,
        "damaged_lines": log.damaged,
    }))
}

fn dump_facts(dump: &FlightDump) -> Map<String, Value> {
    let mut collectives: IndexMap<CollectiveKind, u64> = IndexMap::new();
    for entry in &dump.entries {
        *collectives.entry(entry.kind).or_default() += 1;
    }
    collectives.sort_unstable_keys();
    let ended = dump.entries.iter().filter(|entry| dump.has_ended(entry));
    let times = dump.entries.iter().map(|entry| entry.created.0);
    into_object(json!({
        "bytes": dump.bytes,
        "version": dump.version,
        "entries": dump.entries.len(),
        "ended": ended.count(),
        "first_created_ns": times.clone().min(),
        "last_created_ns": times.max(),
        "collectives": collectives,
        "process_groups": dump.groups,
        "progress": dump.progress,
        "anomalies": count_anomalies(&dump.anomalies),
    }))
}

/// Runtime calls by their names; nothing where there are none.
fn count_calls(trace: &DeviceTrace, of: fn(&str) -> bool) -> Option<usize> {
    let count = trace
        .calls
        .name
        .iter()
        .filter(|name| of(trace.names.get(**name)))
        .count();
    (count > 0).then_some(count)
}

fn count_collectives(table: &CollectiveRecords, names: &Names) -> Value {
    let mut counts: IndexMap<CollectiveKind, u64> = IndexMap::new();
    (0..table.len()).for_each(|row| *counts.entry(table.row(row).kind(names)).or_default() += 1);
    counts.sort_unstable_keys();
    json!(counts)
}

fn step_names(used: &[etlink_model::NameId], names: &Names) -> Value {
    let mut found: Vec<&str> = used
        .iter()
        .map(|name| names.get(*name))
        .filter(|name| name.starts_with("ProfilerStep"))
        .collect();
    found.dedup();
    json!(found)
}

fn count_anomalies(all: &Anomalies) -> Value {
    Value::Object(
        all.iter()
            .map(|(kind, anomaly)| (kind.describe().to_owned(), json!(anomaly.count)))
            .collect(),
    )
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// One line per fact; lists and tables one line per entry.
fn fact_lines(facts: &Map<String, Value>) -> String {
    let mut rows = FactRows::default();
    for (key, value) in facts {
        let name = key.replace('_', " ");
        match value {
            // what a trace does not say is left out here, and null in JSON
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {}
            // keys name their unit, in JSON as here
            Value::Number(bytes) if key.ends_with("bytes") => {
                rows.add(&name, mb(bytes.as_u64().unwrap_or(0)), "")
            }
            Value::Object(table) => table
                .iter()
                .for_each(|(entry, count)| rows.add(&name, value_text(count), entry)),
            Value::Array(list) if list.len() > 3 || list.iter().any(Value::is_object) => {
                rows.add(&name, list.len(), "");
                list.iter()
                    // threads and streams can be thousands; JSON has them all
                    .take(20)
                    .for_each(|entry| rows.add("", "", value_text(entry)));
            }
            other => rows.add(&name, "", value_text(other)),
        }
    }
    rows.to_string()
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| format!("{key} {}", value_text(value)))
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    }
}
