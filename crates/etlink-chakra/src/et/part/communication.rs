//! Reduces a graph to its communications and one chain of computation.
//!
//! ```text
//! stream 7    gemm | gemm |          gemm |     |       compute =====|=====          ========
//! stream 20        all_reduce |           all_reduce  ->      all_reduce ==         all_reduce =
//!                          exposed    exposed
//! ```
//! Simulators run one compute node of a rank at a time, so there is a single chain for all groups:
//! one chain per group would count time that passes in several of them several times. A
//! communication is *exposed* from the moment the device's other work stopped until its end, if
//! something waited for it. Computation is all other time from the first start to the last end,
//! split where communications start and where they become exposed. A communication waits for the
//! computation before its start and for the previous communication on its stream (or thread).
//! Computation waits for the previous piece and for the communication exposed before it. If
//! communications take their measured time, each starts and everything ends as measured; a longer
//! communication delays what it delayed before. O(n log n).

use super::{PartGraph, stand_in};
use etlink_link::{Edge, EdgeKind, Edges, LinkedTrace, Node, Nodes};
use etlink_model::{NodeIdx, TimeNs, TrackIdx};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Start and end of a time range.
type Span = (TimeNs, TimeNs);

/// A communication and its exposure.
#[derive(Clone, Copy)]
struct ExposedComm {
    node: Node,
    /// Number of the node in the whole graph.
    number: NodeIdx,
    /// Time from which nothing else ran; `None` if the communication is not exposed.
    exposed: Option<TimeNs>,
}

impl ExposedComm {
    fn end(&self) -> TimeNs {
        self.node.start + self.node.duration
    }
}

/// Returns the part of `whole`, which covers all of `trace`. If `serialize_comms` is set,
/// communications are ordered elsewhere.
pub(super) fn of<'t>(
    trace: &LinkedTrace,
    whole: PartGraph<'t>,
    serialize_comms: bool,
) -> PartGraph<'t> {
    let comms = exposed_communications(trace, &whole);
    let pieces = compute_pieces(&whole.nodes, &comms);
    let mut all: Vec<(TimeNs, bool, usize)> = (0..)
        .zip(&comms)
        .map(|(at, comm)| (comm.node.start, false, at))
        .collect();
    all.extend(
        (0..)
            .zip(&pieces)
            .map(|(at, (start, _))| (*start, true, at)),
    );
    all.sort_unstable();
    let (mut nodes, mut origin, mut communications) = (Nodes::default(), vec![], vec![]);
    let (mut comm_number, mut piece_number) = (
        vec![NodeIdx(0); comms.len()],
        vec![NodeIdx(0); pieces.len()],
    );
    for (start, is_piece, at) in all {
        let number = NodeIdx::new(nodes.len());
        if is_piece {
            piece_number[at] = number;
            origin.push(NodeIdx::NONE);
            let place = Node {
                start,
                track: TrackIdx::NONE,
                ..Node::default()
            };
            nodes.push(stand_in(place, pieces[at].1 - start));
        } else {
            comm_number[at] = number;
            origin.push(whole.origin(comms[at].number).unwrap_or(NodeIdx::NONE));
            communications.push(number);
            nodes.push(comms[at].node);
        }
    }
    let edges = piece_edges(
        &comms,
        &pieces,
        &comm_number,
        &piece_number,
        serialize_comms,
    );
    let edges = Cow::Owned(Edges::new(edges, nodes.len()));
    PartGraph {
        nodes: Cow::Owned(nodes),
        edges,
        origin,
        communications,
        standing_for: "compute",
        ..whole
    }
}

/// Returns the communications in order of time, with their exposure.
fn exposed_communications(trace: &LinkedTrace, whole: &PartGraph<'_>) -> Vec<ExposedComm> {
    let nodes = &whole.nodes;
    let mut holds_up = vec![false; nodes.len()];
    for node in nodes.indices() {
        let deps = whole.edges.deps(node).iter().map(|edge| edge.from);
        // Only the last dep to end delays a node; for equal ends, the later node counts.
        if let Some(last) = deps.max_by_key(|from| (nodes.end(*from), *from)) {
            holds_up[last.index()] = true;
        }
    }
    let busy = busy_intervals(trace, whole);
    let mut comms: Vec<ExposedComm> = vec![];
    for &number in &whole.communications {
        let node = nodes.get(number);
        let mut comm = ExposedComm {
            node,
            number,
            exposed: None,
        };
        // The communication is exposed once the last other work before its end has stopped.
        let before = &busy[..busy.partition_point(|(start, _)| *start < comm.end())];
        let idle = before.last().map_or(node.start, |(_, end)| *end);
        if holds_up[number.index()] && idle < comm.end() {
            comm.exposed = Some(idle.max(node.start));
        }
        comms.push(comm);
    }
    comms.sort_by_key(|comm| (comm.node.start, comm.number));
    comms
}

/// Returns the times in which anything but communications ran: on devices if the trace has any,
/// else on threads. Intervals are disjoint and ordered.
fn busy_intervals(trace: &LinkedTrace, whole: &PartGraph<'_>) -> Vec<Span> {
    let nodes = &whole.nodes;
    let (on_device, looks_on) = (nodes.on_device.contains(&true), trace.passive_threads());
    let mut busy: Vec<Span> = vec![];
    for node in (0..nodes.len())
        .filter(|node| nodes.on_device[*node] == on_device && !nodes.kind[*node].is_delay())
    {
        if !on_device && looks_on[nodes.track[node].index()]
            || whole.is_communication(NodeIdx::new(node))
        {
            continue;
        }
        let (start, end) = (nodes.start[node], nodes.start[node] + nodes.duration[node]);
        match busy.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => busy.push((start, end)),
        }
    }
    busy
}

/// Returns the pieces of computation, in order.
fn compute_pieces(nodes: &Nodes, comms: &[ExposedComm]) -> Vec<Span> {
    let ends = nodes
        .start
        .iter()
        .zip(&nodes.duration)
        .map(|(start, duration)| *start + *duration);
    let (Some(&first), Some(last)) = (nodes.start.iter().min(), ends.max()) else {
        return vec![];
    };
    let exposed = comms
        .iter()
        .filter_map(|comm| Some((comm.exposed?, comm.end())));
    let mut cuts: BTreeMap<TimeNs, i32> = BTreeMap::from([(first, 0), (last, 0)]);
    comms
        .iter()
        // A split without a change of depth: the communication depends on the piece that ends here.
        .for_each(|comm| *cuts.entry(comm.node.start).or_default() += 0);
    for (start, end) in exposed {
        *cuts.entry(start).or_default() += 1;
        *cuts.entry(end).or_default() -= 1;
    }
    let (mut pieces, mut depth, mut since) = (vec![], 0, first);
    for (at, change) in cuts {
        if depth == 0 && at > since {
            pieces.push((since, at));
        }
        (depth, since) = (depth + change, at);
    }
    pieces
}

/// Creates an edge that follows from times, not from the recording.
fn inferred_edge(kind: EdgeKind, from: NodeIdx, to: NodeIdx) -> Edge {
    Edge {
        to,
        kind,
        from,
        inferred: true,
    }
}

fn piece_edges(
    comms: &[ExposedComm],
    pieces: &[Span],
    comm_number: &[NodeIdx],
    piece_number: &[NodeIdx],
    serialize_comms: bool,
) -> Vec<Edge> {
    let mut edges: Vec<Edge> = piece_number
        .windows(2)
        .map(|pair| inferred_edge(EdgeKind::ProgramOrder, pair[0], pair[1]))
        .collect();
    let mut last: BTreeMap<(bool, TrackIdx), NodeIdx> = BTreeMap::new();
    for (comm, &number) in comms.iter().zip(comm_number) {
        let before = pieces.partition_point(|(_, end)| *end <= comm.node.start);
        edges.extend(
            before
                .checked_sub(1)
                .map(|piece| inferred_edge(EdgeKind::Launch, piece_number[piece], number)),
        );
        let before = last.insert((comm.node.on_device, comm.node.track), number);
        if let Some(before) = before
            && !serialize_comms
        {
            edges.push(inferred_edge(EdgeKind::StreamOrder, before, number));
        }
        // The first piece after its end is the one that the communication delayed.
        let after = pieces.partition_point(|(start, _)| *start < comm.end());
        if comm.exposed.is_some()
            && let Some(&piece) = piece_number.get(after)
        {
            edges.push(inferred_edge(EdgeKind::HostWait, number, piece));
        }
    }
    edges
}
