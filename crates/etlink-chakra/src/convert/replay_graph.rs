//! Converts a Chakra trace, etlink's or another writer's, to a graph to run.

use super::placement::{NodeNumbers, runs_on_device};
use crate::proto::NodeType;
use crate::read::{ChakraGraph, NodePlacement};
use etlink_model::{
    Correlation, Diagnostic, DurationNs, Failure, NodeIdx, ResourceIdx, TimeNs, TrackLabel,
    counted_text, diagnostic,
};
use etlink_replay::{
    EdgeKind, GraphBuilder, LabelSource, ReplayDep, ReplayGraph, ReplayKind, ReplayNode, Resource,
    stream_resource, thread_resource,
};
use indexmap::IndexMap;
use rustc_hash::FxHashSet;

/// Maximum number of a cycle's nodes named in a message.
const NAMED_NODES: usize = 4;

/// Names and ids of a file's nodes, for reports about its graph.
#[derive(Clone, Copy, Debug)]
pub struct NodeNames<'f>(pub &'f ChakraGraph);

impl LabelSource for NodeNames<'_> {
    fn name(&self, node: NodeIdx) -> &str {
        self.0.name_of(node.index())
    }

    fn id(&self, node: NodeIdx) -> u64 {
        self.0.id[node.index()]
    }

    fn correlation(&self, node: NodeIdx) -> Option<Correlation> {
        self.0.correlation[node.index()].map(Correlation)
    }
}

/// Returns the graph, and notes on damage and gaps of the file. O(n log n).
///
/// # Errors
/// Fails on cycles, and on graphs of more than 2^32 nodes or edges.
pub fn replay_graph(file: &ChakraGraph) -> Result<(ReplayGraph, Vec<Diagnostic>), Failure> {
    let numbers = NodeNumbers::new(file);
    let placement = Placement::new(file);
    let mut builder = GraphBuilder::new(placement.resources.clone());
    // If a thread was blocked in a communication, the wait belongs to the communication.
    let carriers: FxHashSet<u32> = file.transfers.iter().map(|(node, _)| *node).collect();
    let mut deps = vec![];
    let mut dangling = 0u64;
    let states_latencies = file.latency_ns.iter().any(Option::is_some);
    for index in 0..file.len() {
        for (place, (is_control, id)) in file.deps(index).enumerate() {
            match numbers.find(id) {
                Some(from) => deps.push(ReplayDep {
                    latency: dep_latency(file, index, place),
                    ..placement.dep(from, index, is_control)
                }),
                // `chakra_converter` drops the process root but not the deps on it: rejecting such
                // files would reject all of its files.
                None => dangling += 1,
            }
        }
        let mut node = placement.node(file, index);
        if u32::try_from(index).is_ok_and(|index| carriers.contains(&index)) {
            node.kind = ReplayKind::Collective;
        }
        builder.push(node, deps.drain(..));
        // A file that states latencies states all latencies other than 0. They are exact, while its
        // times can be rounded.
        if states_latencies {
            let latency = file.latency_ns[index].unwrap_or_default();
            builder.state_latency(DurationNs(latency));
        }
    }
    let graph = builder
        .finish()
        .map_err(|error| named_error(&error, file))?;
    let told = diagnostics(file, &graph, numbers.duplicates, dangling);
    Ok((graph, told))
}

/// Returns the latency of the dep at `place` of a node's deps, if the file states it.
fn dep_latency(file: &ChakraGraph, index: usize, place: usize) -> Option<DurationNs> {
    if file.dep_latencies.is_empty() {
        return None;
    }
    let of_node = file.dep_latencies.get(&u32::try_from(index).ok()?);
    let [ctrl, data] = [&file.ctrl_deps, &file.data_deps].map(|deps| deps.list(index).len());
    let (list, deps, place) = match place.checked_sub(ctrl) {
        None => (of_node.map(|of_node| &of_node.ctrl), ctrl, place),
        Some(place) => (of_node.map(|of_node| &of_node.data), data, place),
    };
    match list.filter(|list| !list.is_empty()) {
        // Lists that contain only zeros are not written.
        None => Some(DurationNs::ZERO),
        // A list of a different length belongs to different deps.
        Some(list) if list.len() != deps => None,
        Some(list) => list.get(place).copied().map(DurationNs),
    }
}

/// Returns the graph as other readers see it: whole microseconds of `duration_micros`, no
/// attributes of etlink, and each node starts once all its dependencies have ended. O(n log n).
///
/// # Errors
/// Fails like [`replay_graph`].
pub fn stock_graph(file: &ChakraGraph) -> Result<ReplayGraph, Failure> {
    let numbers = NodeNumbers::new(file);
    let placement = Placement::new(file);
    let mut builder = GraphBuilder::new(placement.resources.clone());
    for index in 0..file.len() {
        let deps = file.deps(index).filter_map(|(is_control, id)| {
            let from = numbers.find(id)?;
            Some(placement.dep(from, index, is_control))
        });
        let mut node = placement.node(file, index);
        (node.start, node.duration) = (None, DurationNs(file.stock_duration_ns[index]));
        builder.push(node, deps);
    }
    builder.finish().map_err(|error| named_error(&error, file))
}

/// Returns the nodes of a tree (ET+), which states no dependencies. Nodes without times are not
/// drawn.
///
/// # Errors
/// Fails if no node has a start time.
pub fn tree_graph(file: &ChakraGraph) -> Result<ReplayGraph, Failure> {
    let placement = Placement::new(file);
    let first = file.start_ns.iter().flatten().min().copied();
    let first = first
        .ok_or_else(|| Failure::new("no node has a start time, so there is nothing to show"))?;
    let mut builder = GraphBuilder::new(placement.resources.clone());
    for index in 0..file.len() {
        let mut node = placement.node(file, index);
        node.duration = DurationNs(file.inclusive_ns[index]);
        // Nodes before the recording are not drawn.
        if node.start.is_none() {
            (node.kind, node.start) = (ReplayKind::Boundary, Some(TimeNs(first)));
        }
        builder.push(node, []);
    }
    builder
        .finish()
        .map_err(|error| Failure::new(error.to_string()))
}

/// Returns the damage of the file and the data missing in it.
fn diagnostics(
    file: &ChakraGraph,
    graph: &ReplayGraph,
    duplicates: u64,
    dangling: u64,
) -> Vec<Diagnostic> {
    let findings = file.findings.clone().into_sorted();
    let faults = findings.iter().map(|finding| {
        let fault = counted_text(finding.count, finding.kind.describe());
        diagnostic!(GraphRepaired, "{fault}")
    });
    let mut told: Vec<Diagnostic> = faults.collect();
    if dangling > 0 {
        told.push(diagnostic!(
            GraphRepaired,
            "dependencies on nodes that are missing from the file, left out: {dangling}"
        ));
    }
    if duplicates > 0 {
        told.push(diagnostic!(
            GraphRepaired,
            "nodes with an id that another node has, which nothing waits for: {duplicates}"
        ));
    }
    if let Some(unsaid) = file.unsaid() {
        told.push(diagnostic!(
            GraphLacks,
            "{unsaid}; the replay uses one host thread and one device stream, and counts host waits \
            as work"
        ));
    }
    if !graph.measured {
        told.push(diagnostic!(
            TimesUncertain,
            "{} of {} nodes have no start time, so the replay cannot be compared with the recording",
            graph.without_start,
            graph.len()
        ));
    }
    told
}

fn named_error(error: &etlink_replay::Error, file: &ChakraGraph) -> Failure {
    let etlink_replay::Error::Cycle(nodes) = error else {
        return Failure::new(error.to_string());
    };
    let mut named = vec![];
    for &node in nodes.iter().take(NAMED_NODES) {
        let (id, name) = (file.id[node.index()], file.name_of(node.index()));
        named.push(format!("node {id} {name:?}"));
    }
    let more = if nodes.len() > NAMED_NODES {
        ", …"
    } else {
        ""
    };
    let nodes = named.join(", ") + more;
    Failure::new(format!(
        "{error}: {nodes}; `etlink check --json` lists up to 1,000"
    ))
}

/// Threads and streams, and the one each node runs on.
struct Placement {
    resources: Vec<Resource>,
    /// Entry of `resources` per node.
    nodes: Vec<ResourceIdx>,
}

impl Placement {
    fn new(file: &ChakraGraph) -> Placement {
        let mut known: IndexMap<(bool, NodePlacement), Resource> = IndexMap::new();
        let mut nodes = Vec::with_capacity(file.len());
        for index in 0..file.len() {
            let place = file.place_of(index);
            let on_device = runs_on_device(file, index, place);
            let entry = known.entry((on_device, own_part(place, on_device)));
            nodes.push(ResourceIdx::new(entry.index()));
            // The key omits what does not distinguish places, such as the stream that
            // `chakra_converter` gives a host node.
            let (_, place) = *entry.key();
            entry.or_insert_with(|| resource_of_node(file, on_device, place));
        }
        let resources = known.into_values().collect();
        Placement { resources, nodes }
    }

    /// Returns a node with the times that the file states.
    fn node(&self, file: &ChakraGraph, index: usize) -> ReplayNode {
        ReplayNode {
            kind: node_kind(file, index, self.on_device(index)),
            resource: self.nodes[index],
            start: file.start_ns[index].map(TimeNs),
            duration: DurationNs(file.duration_ns[index]),
        }
    }

    fn on_device(&self, index: usize) -> bool {
        self.resources[self.nodes[index].index()].on_device
    }

    fn dep(&self, from: u32, to: usize, is_control: bool) -> ReplayDep {
        let ends = [self.on_device(from as usize), self.on_device(to)];
        let same_place = self.nodes[from as usize] == self.nodes[to];
        ReplayDep {
            from: NodeIdx(from),
            kind: edge_kind(ends, same_place, is_control),
            inferred: false,
            latency: None,
        }
    }
}

/// Reduces a placement to what distinguishes its resource: the stream of a device node, the thread
/// of a host node.
fn own_part(place: NodePlacement, on_device: bool) -> NodePlacement {
    if on_device {
        NodePlacement {
            pid: None,
            tid: None,
            ..place
        }
    } else {
        NodePlacement {
            device: None,
            stream: None,
            ..place
        }
    }
}

fn resource_of_node(file: &ChakraGraph, on_device: bool, place: NodePlacement) -> Resource {
    match (on_device, place.stream, place.tid) {
        (true, Some(stream), _) => stream_resource(stream, place.device),
        (true, None, _) => nameless_resource("device", on_device),
        (false, _, Some(TrackLabel::Int(tid))) => thread_resource(&tid.to_string()),
        (false, _, Some(TrackLabel::Text(tid))) => thread_resource(file.names.get(tid)),
        (false, _, None) => nameless_resource("host", on_device),
    }
}

fn nameless_resource(name: &str, on_device: bool) -> Resource {
    Resource {
        name: name.into(),
        on_device,
        rank: None,
    }
}

fn node_kind(file: &ChakraGraph, index: usize, on_device: bool) -> ReplayKind {
    let name = file.name_of(index);
    // CUPTI's names: `Memcpy HtoD (Pinned -> Device)`, `Memset (Device)`.
    let is_copy = name.starts_with("Memcpy") || name.starts_with("Memset");
    match file.kind_of(index) {
        "host_op" => ReplayKind::HostOp,
        "runtime" => ReplayKind::Runtime,
        "collective" => ReplayKind::Collective,
        "host_gap" | "host" | "compute" => ReplayKind::HostGap,
        "boundary" => ReplayKind::Boundary,
        "unexplained_wait" => ReplayKind::UnexplainedWait,
        "latency" => ReplayKind::Latency,
        _ if is_communication(file.node_type[index]) => ReplayKind::Collective,
        _ if on_device && is_copy => ReplayKind::MemoryCopy,
        _ if on_device => ReplayKind::Kernel,
        _ => ReplayKind::HostOp,
    }
}

/// Returns true if a node of this type sends, receives or takes part in a collective.
pub(crate) fn is_communication(node_type: NodeType) -> bool {
    matches!(
        node_type,
        NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode
    )
}

/// Derives the reason for a wait from the places where both nodes run.
fn edge_kind(on_device: [bool; 2], same_place: bool, is_control: bool) -> EdgeKind {
    match (on_device, same_place) {
        ([false, true], _) => EdgeKind::Launch,
        ([true, false], _) => EdgeKind::HostWait,
        ([true, true], true) => EdgeKind::StreamOrder,
        ([true, true], false) => EdgeKind::EventWait,
        // A data dep between host nodes is a tensor's; threads are ordered by control deps.
        ([false, false], _) if !is_control => EdgeKind::Tensor,
        ([false, false], true) => EdgeKind::ProgramOrder,
        ([false, false], false) => EdgeKind::Handoff,
    }
}
