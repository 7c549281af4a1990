//! Facts about a file, by its kind.

use etlink_chakra::check;
use etlink_chakra::read::{ChakraGraph, GraphSummary};
use etlink_link::RecordingContent;
use etlink_model::{
    Anomalies, CollectiveKind, CollectiveRecords, DeviceTrace, GlobalRank, HostTrace, NameId,
    Names, ProcessGroup,
};
use etlink_run::input::{DatabaseProcess, InputKind};
use indexmap::IndexMap;
use serde::Serialize;

/// Facts about a file.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FileFacts {
    /// Path as it was given.
    pub(super) file: String,
    /// Kind of the file.
    pub(super) kind: InputKind,
    /// Kind of the file, for people.
    pub(super) what: &'static str,
    /// Commands that take the file.
    pub(super) taken_by: &'static str,
    /// Size of a compressed file, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stored_bytes: Option<u64>,
    /// Facts about the content.
    #[serde(flatten)]
    pub(super) content: ContentFacts,
}

/// Facts about the content of a file.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum ContentFacts {
    /// An export of several processes.
    Processes {
        /// Processes of the export.
        processes: Vec<DatabaseProcess>,
    },
    /// A host trace.
    Host(Box<HostFacts>),
    /// A device trace.
    Device(Box<DeviceFacts>),
    /// A written graph.
    Graph(Box<GraphFacts>),
    /// A file whose content other commands print.
    Unread {},
}

/// Facts about a host trace.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct HostFacts {
    /// Size of the unpacked file, bytes.
    bytes: u64,
    /// Version of the format.
    schema: String,
    /// Process that was recorded.
    pid: Option<i64>,
    /// Time of the recording, as written.
    time: String,
    /// Number of nodes.
    nodes: usize,
    /// Number of nodes with an id that device traces also have.
    nodes_with_id: usize,
    /// Numbers of the threads.
    threads: Vec<u32>,
    /// Number of inputs and outputs that are tensors.
    tensor_uses: usize,
    /// Collectives by kind.
    collectives: IndexMap<CollectiveKind, u64>,
    /// Process groups.
    process_groups: Vec<ProcessGroup>,
    /// Names of the steps.
    steps: Vec<String>,
    /// Anomalies by their meaning.
    anomalies: IndexMap<&'static str, u64>,
}

impl HostFacts {
    pub(super) fn new(trace: &HostTrace) -> HostFacts {
        let header = &trace.header;
        let mut threads = trace.nodes.tid.clone();
        // sort first: nodes of threads alternate, and `dedup` only compares neighbors
        threads.sort_unstable();
        threads.dedup();
        let ids = trace.nodes.rf_id.iter();
        HostFacts {
            bytes: trace.bytes,
            schema: header.schema.clone(),
            pid: header.pid,
            time: header.time.clone(),
            nodes: trace.nodes.len(),
            nodes_with_id: ids.filter(|id| id.get().is_some()).count(),
            threads,
            tensor_uses: etlink_formats::host::tensor_uses(trace).refs.len(),
            collectives: count_collectives(&trace.collectives, &trace.names),
            process_groups: trace.groups.clone(),
            steps: step_names(&trace.nodes.name, &trace.names),
            anomalies: count_anomalies(&trace.anomalies),
        }
    }
}

/// Facts about a device trace.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct DeviceFacts {
    /// Content in one line, with what the recording cannot answer.
    recording: String,
    /// Size of the unpacked file, bytes.
    bytes: u64,
    /// Rank that the trace reports.
    rank: Option<GlobalRank>,
    /// Number of ranks that the trace reports.
    world_size: Option<i64>,
    /// Backend of collectives.
    backend: String,
    /// Devices by name.
    devices: IndexMap<String, u64>,
    /// First start and last end since the origin of the trace, ns.
    window_ns: Option<(i64, i64)>,
    /// Origin of the trace in Unix time, ns; 0 if its times are Unix times.
    base_ns: i64,
    /// Number of CPU ops.
    cpu_ops: usize,
    /// Number of CPU ops with an id that host traces also have.
    ops_with_id: usize,
    /// Number of runtime calls.
    runtime_calls: usize,
    /// Calls that begin the capture of a graph; null if there are none.
    graph_captures: Option<usize>,
    /// Calls that launch a graph; null if there are none.
    graph_launches: Option<usize>,
    /// Number of device rows.
    device_rows: usize,
    /// Number of synchronisation rows.
    sync_rows: usize,
    /// Names of threads.
    threads: Vec<String>,
    /// Devices, contexts and streams.
    queues: Vec<String>,
    /// Collectives by kind.
    collectives: IndexMap<CollectiveKind, u64>,
    /// Process groups.
    process_groups: Vec<ProcessGroup>,
    /// Names of the steps.
    steps: Vec<String>,
    /// Events by category.
    events: IndexMap<String, u64>,
    /// Anomalies by their meaning.
    anomalies: IndexMap<&'static str, u64>,
}

impl DeviceFacts {
    pub(super) fn new(trace: &DeviceTrace) -> DeviceFacts {
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
        let mut devices: IndexMap<String, u64> = IndexMap::new();
        for device in &header.devices {
            *devices.entry(device.clone()).or_default() += 1;
        }
        let events = trace.events.iter();
        let events = events.map(|(kind, count)| (kind.trim().to_owned(), *count));
        let ids = trace.ops.rf_id.iter();
        DeviceFacts {
            recording: RecordingContent::of_device(trace).sentence(),
            bytes: trace.bytes,
            rank: header.rank,
            world_size: header.world_size,
            backend: header.backend.clone(),
            devices,
            window_ns: trace.window().map(|(start, end)| (start.0, end.0)),
            base_ns: header.base_ns.0,
            cpu_ops: trace.ops.len(),
            ops_with_id: ids.filter(|id| id.get().is_some()).count(),
            runtime_calls: trace.calls.len(),
            graph_captures: count_calls(trace, etlink_link::begins_capture),
            graph_launches: count_calls(trace, etlink_link::launches_graph),
            device_rows: trace.rows.len(),
            sync_rows: trace.syncs.len(),
            threads: threads.collect(),
            queues: queues.collect(),
            collectives: count_collectives(&trace.collectives, &trace.names),
            process_groups: header.groups.clone(),
            steps: step_names(&trace.ops.name, &trace.names),
            events: events.collect(),
            anomalies: count_anomalies(&trace.anomalies),
        }
    }
}

/// Facts about a written graph.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct GraphFacts {
    #[serde(flatten)]
    summary: GraphSummary,
    /// Findings of `check`, by their meaning.
    findings: IndexMap<&'static str, u64>,
    /// Attributes of the first message.
    metadata: IndexMap<String, String>,
}

impl GraphFacts {
    pub(super) fn new(graph: &ChakraGraph) -> GraphFacts {
        let findings = check::check(graph).into_iter();
        let metadata = graph.metadata.iter();
        GraphFacts {
            summary: graph.summary(),
            findings: findings
                .map(|finding| (finding.kind.describe(), finding.count))
                .collect(),
            metadata: metadata.cloned().collect(),
        }
    }
}

/// Counts runtime calls by their names; `None` if there are none.
fn count_calls(trace: &DeviceTrace, of: fn(&str) -> bool) -> Option<usize> {
    let names = trace.calls.name.iter();
    let count = names.filter(|name| of(trace.names.get(**name))).count();
    (count > 0).then_some(count)
}

fn count_collectives(table: &CollectiveRecords, names: &Names) -> IndexMap<CollectiveKind, u64> {
    let mut counts: IndexMap<CollectiveKind, u64> = IndexMap::new();
    for row in 0..table.len() {
        *counts.entry(table.row(row).kind(names)).or_default() += 1;
    }
    counts.sort_unstable_keys();
    counts
}

fn step_names(used: &[NameId], names: &Names) -> Vec<String> {
    let mut found: Vec<String> = used
        .iter()
        .map(|name| names.get(*name))
        .filter(|name| name.starts_with("ProfilerStep"))
        .map(str::to_owned)
        .collect();
    found.dedup();
    found
}

fn count_anomalies(all: &Anomalies) -> IndexMap<&'static str, u64> {
    all.iter()
        .map(|(kind, anomaly)| (kind.describe(), anomaly.count))
        .collect()
}
