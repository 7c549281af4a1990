//! A Chakra trace, ours or another writer's, as a graph to run.

use super::placement::{NodeNumbers, runs_on_device};
use crate::proto::NodeType;
use crate::read::{ChakraGraph, NodePlacement};
use etlink_model::{
    Correlation, DurationNs, NodeIdx, ResourceIdx, TimeNs, TrackLabel, counted_text,
};
use etlink_replay::{
    EdgeKind, GraphBuilder, LabelSource, ReplayDep, ReplayGraph, ReplayKind, ReplayNode, Resource,
    stream_resource, thread_resource,
};
use indexmap::IndexMap;
use rustc_hash::FxHashSet;

/// How many nodes of a cycle a message names.
const NAMED_NODES: usize = 4;

/// Why a file cannot be run or drawn.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// Nodes wait for each other.
    #[error("{error}: {nodes}; `etlink check --json` lists up to 1,000")]
    Cycle {
        /// The cycle, with the number of its nodes.
        error: etlink_replay::Error,
        /// The first ones, for people.
        nodes: String,
    },
    /// The graph is too large.
    #[error(transparent)]
    Replay(etlink_replay::Error),
    /// Nothing to draw on a time axis.
    #[error("no node has a start time: there is nothing to show")]
    NoTimes,
}

/// Names and ids of the nodes of a file, for reports about its graph.
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

/// The graph, and notes about what is wrong with the file or missing in it. O(n log n).
///
/// # Errors
/// [`ConvertError::Cycle`], and graphs of more than 2^32 nodes or edges.
pub fn replay_graph(file: &ChakraGraph) -> Result<(ReplayGraph, Vec<String>), ConvertError> {
    let numbers = NodeNumbers::new(file);
    let placement = Placement::new(file);
    let mut builder = GraphBuilder::new(placement.resources.clone());
    // A wait in which a thread was blocked for a communication is the rest of that.
    let carriers: FxHashSet<u32> = file.transfers.iter().map(|(node, _)| *node).collect();
    let mut deps = vec![];
    let mut dangling = 0u64;
    let states_latencies = file.latency_ns.iter().any(Option::is_some);
    for index in 0..file.len() {
        let lists = [
            (true, file.ctrl_deps.list(index)),
            (false, file.data_deps.list(index)),
        ];
        for (is_control, ids) in lists {
            for (place, &id) in ids.iter().enumerate() {
                match numbers.find(id) {
                    Some(from) => deps.push(ReplayDep {
                        latency: dep_latency(file, index, is_control, place),
                        ..placement.dep(from, index, is_control)
                    }),
                    // `chakra_converter` drops the process root but not the deps on it: refusing
                    // such files would refuse all of its files.
                    None => dangling += 1,
                }
            }
        }
        let node = ReplayNode {
            kind: if u32::try_from(index).is_ok_and(|index| carriers.contains(&index)) {
                ReplayKind::Collective
            } else {
                node_kind(file, index, placement.on_device(index))
            },
            resource: placement.nodes[index],
            start: file.start_ns[index].map(TimeNs),
            duration: DurationNs(file.duration_ns[index]),
        };
        builder.push(node, deps.drain(..));
        // A file that states latencies states all that are not 0. They are exact, while its times
        // can be rounded.
        if states_latencies {
            let latency = file.latency_ns[index].unwrap_or_default();
            builder.state_latency(DurationNs(latency));
        }
    }
    let graph = builder.finish().map_err(|error| named_error(error, file))?;
    let notes = notes(file, &graph, numbers.duplicates, dangling);
    Ok((graph, notes))
}

/// What a dep of a node takes by itself, where the file says so.
fn dep_latency(
    file: &ChakraGraph,
    index: usize,
    is_control: bool,
    place: usize,
) -> Option<DurationNs> {
    if file.dep_latencies.is_empty() {
        return None;
    }
    let of_node = file.dep_latencies.get(&u32::try_from(index).ok()?);
    let (list, deps) = if is_control {
        (of_node.map(|of_node| &of_node.ctrl), &file.ctrl_deps)
    } else {
        (of_node.map(|of_node| &of_node.data), &file.data_deps)
    };
    match list.filter(|list| !list.is_empty()) {
        // Lists of nothing but zeros are not written.
        None => Some(DurationNs::ZERO),
        // A list of another length is of other deps.
        Some(list) if list.len() != deps.list(index).len() => None,
        Some(list) => list.get(place).copied().map(DurationNs),
    }
}

/// The graph as other readers have it: whole microseconds of `duration_micros`, no attributes of
/// ours, and a node starts when all that it waits for has ended. O(n log n).
///
/// # Errors
/// As [`replay_graph`].
pub fn stock_graph(file: &ChakraGraph) -> Result<ReplayGraph, ConvertError> {
    let numbers = NodeNumbers::new(file);
    let placement = Placement::new(file);
    let mut builder = GraphBuilder::new(placement.resources.clone());
    for index in 0..file.len() {
        let lists = [
            (true, file.ctrl_deps.list(index)),
            (false, file.data_deps.list(index)),
        ];
        let mut deps = vec![];
        for (is_control, ids) in lists {
            let known = ids.iter().filter_map(|id| numbers.find(*id));
            deps.extend(known.map(|from| placement.dep(from, index, is_control)));
        }
        let node = ReplayNode {
            kind: node_kind(file, index, placement.on_device(index)),
            resource: placement.nodes[index],
            start: None,
            duration: DurationNs(file.stock_duration_ns[index]),
        };
        builder.push(node, deps);
    }
    builder.finish().map_err(|error| named_error(error, file))
}

/// The nodes of a tree (ET+), which states nothing of what waits for what. Nodes without times
/// are drawn nowhere.
///
/// # Errors
/// [`ConvertError::NoTimes`].
pub fn tree_graph(file: &ChakraGraph) -> Result<ReplayGraph, ConvertError> {
    let placement = Placement::new(file);
    let first = file.start_ns.iter().flatten().min().copied();
    let first = first.ok_or(ConvertError::NoTimes)?;
    let mut builder = GraphBuilder::new(placement.resources.clone());
    for index in 0..file.len() {
        let start = file.start_ns[index];
        let kind = match start {
            Some(_) => node_kind(file, index, placement.on_device(index)),
            // what came before the recording is not drawn
            None => ReplayKind::Boundary,
        };
        let node = ReplayNode {
            kind,
            resource: placement.nodes[index],
            start: Some(TimeNs(start.unwrap_or(first))),
            duration: DurationNs(file.inclusive_ns[index]),
        };
        builder.push(node, []);
    }
    builder.finish().map_err(ConvertError::Replay)
}

/// What was wrong with the file, and what is missing in it.
fn notes(file: &ChakraGraph, graph: &ReplayGraph, duplicates: u64, dangling: u64) -> Vec<String> {
    let findings = file.findings.clone().into_sorted();
    let mut notes: Vec<String> = findings
        .iter()
        .map(|finding| counted_text(finding.count, finding.kind.describe()))
        .collect();
    if dangling > 0 {
        notes.push(format!(
            "{dangling} deps name nodes that are not in the file; they are left out"
        ));
    }
    if duplicates > 0 {
        notes.push(format!(
            "{duplicates} nodes have an id that another has already; nothing waits for them"
        ));
    }
    if let Some(unsaid) = file.unsaid() {
        notes.push(format!(
            "{unsaid}; all of the host is one thread here, all of the devices one stream, and what \
            hosts wait is their work"
        ));
    }
    if !graph.measured {
        notes.push(format!(
            "{} of {} nodes have no start time: there is nothing to compare the replay with",
            graph.without_start,
            graph.len()
        ));
    }
    notes
}

fn named_error(error: etlink_replay::Error, file: &ChakraGraph) -> ConvertError {
    let etlink_replay::Error::Cycle(nodes) = &error else {
        return ConvertError::Replay(error);
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
    ConvertError::Cycle { error, nodes }
}

/// Threads and streams, and on which of them each node runs.
struct Placement {
    resources: Vec<Resource>,
    /// Per node, its entry of `resources`.
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
            // The key has lost what does not tell places apart, such as the stream that
            // `chakra_converter` gives a host node.
            let (_, place) = *entry.key();
            entry.or_insert_with(|| resource_of_node(file, on_device, place));
        }
        let resources = known.into_values().collect();
        Placement { resources, nodes }
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

/// A device's nodes differ by stream, a host's by thread, whatever else the file states of them.
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

/// Whether a node of this type sends, receives or takes part in a collective.
pub(crate) fn is_communication(node_type: NodeType) -> bool {
    matches!(
        node_type,
        NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode
    )
}

/// Why a node waits, from where it and the other one run.
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
