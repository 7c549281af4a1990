//! A Chakra trace, ours or another's, as a graph to run.
//!
//! Chakra says that a node waits, not why: the reason follows from where the two nodes run.

use anyhow::{Result, bail};
use etlink_chakra::proto::NodeType;
use etlink_chakra::read::{self, Place};
use etlink_model::{DurationNs, TimeNs, TrackLabel};
use etlink_replay::{
    EdgeKind, Error, GraphBuilder, LabelSource, ReplayDep, ReplayGraph, ReplayKind, ReplayNode,
    Resource, stream_resource, thread_resource,
};
use indexmap::IndexMap;

/// Its names.
pub struct Named<'f>(pub &'f read::Graph);

impl LabelSource for Named<'_> {
    fn name(&self, node: u32) -> &str {
        self.0.name_of(node as usize)
    }

    fn id(&self, node: u32) -> u64 {
        self.0.id[node as usize]
    }

    fn correlation(&self, node: u32) -> Option<i64> {
        self.0.correlation[node as usize]
    }
}

/// The graph, and what to know about it.
pub fn graph_of(file: &read::Graph) -> Result<(ReplayGraph, Vec<String>)> {
    let numbers = Numbers::new(file);
    let (resources, places) = places(file);
    let mut builder = GraphBuilder::new(resources.clone());
    let (mut deps, mut dangling) = (vec![], 0u64);
    for index in 0..file.len() {
        let here = places[index];
        for (order, ids) in [
            (true, file.ctrl_deps.of(index)),
            (false, file.data_deps.of(index)),
        ] {
            for &id in ids {
                let Some(from) = numbers.of(id) else {
                    dangling += 1;
                    continue;
                };
                let there = places[from as usize];
                let ends = [there, here].map(|place| resources[place as usize].on_device);
                deps.push(ReplayDep {
                    from,
                    kind: edge_kind(ends, there == here, order),
                    inferred: false,
                });
            }
        }
        let node = ReplayNode {
            kind: kind_of(file, index, resources[here as usize].on_device),
            resource: here,
            start: file.start_ns[index].map(TimeNs),
            duration: DurationNs(file.duration_ns[index]),
            latency: file.latency_ns[index].map(DurationNs),
        };
        builder.push(node, deps.drain(..));
    }
    let graph = builder
        .finish()
        .or_else(|error| bail!(in_words(&error, file)))?;
    let notes = notes(file, &graph, numbers.twice, dangling);
    Ok((graph, notes))
}

/// The nodes of a tree, which says nothing of what waits for what. What has no times is drawn nowhere.
pub fn nodes_of(file: &read::Graph) -> Result<ReplayGraph> {
    let (resources, places) = places(file);
    let Some(first) = file.start_ns.iter().flatten().min().copied() else {
        bail!("no node has a start time: there is nothing to show")
    };
    let mut builder = GraphBuilder::new(resources.clone());
    for (index, &resource) in places.iter().enumerate() {
        let start = file.start_ns[index];
        let kind = if start.is_some() {
            kind_of(file, index, resources[resource as usize].on_device)
        } else {
            ReplayKind::Boundary
        };
        let start = Some(TimeNs(start.unwrap_or(first)));
        builder.push(
            ReplayNode {
                kind,
                resource,
                start,
                duration: DurationNs(file.inclusive_ns[index]),
                latency: None,
            },
            [],
        );
    }
    Ok(builder.finish()?)
}

/// What was wrong with the file, and what is missing in it.
fn notes(file: &read::Graph, graph: &ReplayGraph, twice: u64, dangling: u64) -> Vec<String> {
    let found = file.findings.clone().into_sorted();
    let mut notes: Vec<String> = found
        .iter()
        .map(|found| format!("{} {}", found.count, found.kind.describe()))
        .collect();
    if dangling > 0 {
        notes.push(format!(
            "{dangling} deps name nodes that are not in the file; they are left out"
        ));
    }
    if twice > 0 {
        notes.push(format!(
            "{twice} nodes have an id that another has already; nothing waits for them"
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

/// Nodes by id. Of several with one id the first is meant.
pub struct Numbers {
    sorted: Vec<(u64, u32)>,
    /// Nodes whose id another has already.
    twice: u64,
}

impl Numbers {
    /// Those of a file.
    pub fn new(file: &read::Graph) -> Numbers {
        let mut sorted: Vec<(u64, u32)> = file.id.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(id, _)| *id);
        Numbers {
            twice: (file.len() - sorted.len()) as u64,
            sorted,
        }
    }

    /// The node with this id.
    pub fn of(&self, id: u64) -> Option<u32> {
        let at = self.sorted.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.sorted[at].1)
    }
}

fn in_words(error: &Error, file: &read::Graph) -> String {
    let Error::Cycle(nodes) = error else {
        return error.to_string();
    };
    let named = nodes.iter().take(4).map(|&node| {
        format!(
            "{} {:?}",
            file.id[node as usize],
            file.name_of(node as usize)
        )
    });
    let more = if nodes.len() > 4 { ", …" } else { "" };
    format!(
        "{error}: node {}{more}; `etlink check` lists them all",
        named.collect::<Vec<_>>().join(", node ")
    )
}

/// Threads and streams, and the one of each node.
fn places(file: &read::Graph) -> (Vec<Resource>, Vec<u32>) {
    let mut all: IndexMap<(bool, Place), Resource> = IndexMap::new();
    let mut place_of = |index: usize| {
        let place = file.place_of(index);
        let on_device = on_device(file, index, place);
        let key = if on_device {
            Place {
                pid: None,
                tid: None,
                ..place
            }
        } else {
            Place {
                device: None,
                stream: None,
                ..place
            }
        };
        let entry = all.entry((on_device, key));
        let number = entry.index();
        entry.or_insert_with(|| resource(file, on_device, key));
        number as u32
    };
    let places = (0..file.len()).map(&mut place_of).collect();
    (all.into_values().collect(), places)
}

fn resource(file: &read::Graph, on_device: bool, place: Place) -> Resource {
    match (on_device, place.stream, place.tid) {
        (true, Some(stream), _) => stream_resource(stream, place.device),
        (true, None, _) => Resource {
            name: "device".into(),
            on_device,
            rank: None,
        },
        (false, _, Some(TrackLabel::Int(tid))) => thread_resource(&tid.to_string()),
        (false, _, Some(TrackLabel::Text(tid))) => thread_resource(file.names.get(tid)),
        (false, _, None) => Resource {
            name: "host".into(),
            on_device,
            rank: None,
        },
    }
}

/// Files of the Chakra converter give every node a thread and a stream; then `is_cpu_op` tells,
/// which simulators take as false where it is absent.
pub fn on_device(file: &read::Graph, index: usize, place: Place) -> bool {
    match (file.names.get(file.kind[index]), place.stream, place.tid) {
        ("device_op", ..) => true,
        ("host_op" | "runtime" | "host_gap" | "host" | "compute", ..) => false,
        (_, Some(_), None) => true,
        (_, None, Some(_)) => {
            file.is_cpu_op[index] == Some(false) && file.names.get(file.kind[index]).is_empty()
        }
        _ => file.is_cpu_op[index] != Some(true),
    }
}

fn kind_of(file: &read::Graph, index: usize, on_device: bool) -> ReplayKind {
    let name = file.name_of(index);
    let copy = name.starts_with("Memcpy") || name.starts_with("Memset");
    match file.names.get(file.kind[index]) {
        "host_op" => ReplayKind::HostOp,
        "runtime" => ReplayKind::Runtime,
        "collective" => ReplayKind::Collective,
        "host_gap" | "host" | "compute" => ReplayKind::HostGap,
        "boundary" => ReplayKind::Boundary,
        "unexplained_wait" => ReplayKind::UnexplainedWait,
        "latency" => ReplayKind::Latency,
        _ => match file.node_type[index] {
            NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode => {
                ReplayKind::Collective
            }
            _ if on_device && copy => ReplayKind::MemoryCopy,
            _ if on_device => ReplayKind::Kernel,
            _ => ReplayKind::HostOp,
        },
    }
}

/// `order`: among the `ctrl_deps`.
fn edge_kind(on_device: [bool; 2], same_place: bool, order: bool) -> EdgeKind {
    match (on_device, same_place) {
        ([false, true], _) => EdgeKind::Launch,
        ([true, false], _) => EdgeKind::HostWait,
        ([true, true], true) => EdgeKind::StreamOrder,
        ([true, true], false) => EdgeKind::EventWait,
        ([false, false], _) if !order => EdgeKind::Tensor,
        ([false, false], true) => EdgeKind::ProgramOrder,
        ([false, false], false) => EdgeKind::Handoff,
    }
}
