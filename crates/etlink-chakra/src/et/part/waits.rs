//! Removes waits for other ranks from host work.
//!
//! ```text
//! thread    call | op | op | wait . . . . ====      call | op | op |          wait
//!                                             ->         \                    /
//! network                                                 communication ======
//! ```
//! Calls of Gloo return at once, and some node is blocked until the transfer has ended. The
//! communication becomes a node parallel to the thread: it begins with the call, and the blocked
//! node waits for it. The blocked node keeps the part of the transfer that exceeds the simulated
//! network's time. If the communication's own node is blocked (a worker's range), that remainder
//! becomes a node after it. A rank whose recording begins after another's gets a node that lasts
//! until then. O(nodes + edges).

use super::PartGraph;
use crate::rank_agreement::{HostTransfer, RankAgreement};
use etlink_link::{Edge, EdgeKind, Edges, Node, NodeKind, Nodes};
use etlink_model::{DurationNs, NodeIdx, TimeNs, TrackIdx};
use std::borrow::Cow;

/// Removes waits from a whole graph, as the ranks agreed.
pub(super) fn take_out(whole: &mut PartGraph<'_>, agreement: &RankAgreement) {
    let is_communication = |node| whole.communications.binary_search(&node).is_ok();
    let mut transfers = agreement.host_transfers.clone();
    transfers.retain(|transfer| is_communication(transfer.node));
    let offset = agreement.begins_later;
    if transfers.is_empty() && offset <= DurationNs::ZERO {
        return;
    }
    let mut split = SplitGraph::default();
    let first_start = whole.nodes.start.iter().min().copied();
    if offset > DurationNs::ZERO
        && let Some(first_start) = first_start
    {
        split.push(before_the_trace(first_start, offset), NodeIdx::NONE);
        whole.standing_for = "begins later";
    }
    let begin = split.nodes.indices().next();
    for node in whole.nodes.indices() {
        let at = transfers.binary_search_by_key(&node, |transfer| transfer.node);
        match at {
            Ok(at) => split.push_transfer(&whole.nodes, transfers[at]),
            Err(_) => {
                let number = split.push(whole.nodes.get(node), node);
                split.numbers.push(NewNumbers::same(number));
            }
        }
    }
    for edge in whole.edges.iter() {
        split.copy_edge(edge);
    }
    split.wait_for_communications();
    if let Some(begin) = begin {
        split.begin_after(begin);
    }
    let communications = whole.communications.iter();
    whole.communications = communications
        .map(|node| split.number_of(*node).comm)
        .collect();
    let comms = split.comms.iter();
    whole.transfers = Some(comms.map(|split| (split.comm, split.comm)).collect());
    whole.edges = Cow::Owned(Edges::new(split.edges, split.nodes.len()));
    (whole.nodes, whole.origin) = (Cow::Owned(split.nodes), split.origin);
}

/// New numbers of a node of the whole graph.
#[derive(Clone, Copy)]
struct NewNumbers {
    /// Node that takes over the deps.
    first: NodeIdx,
    /// Node that dependents now wait for.
    last: NodeIdx,
    /// Node of the communication, if there is one.
    comm: NodeIdx,
}

impl NewNumbers {
    fn same(number: NodeIdx) -> NewNumbers {
        NewNumbers {
            first: number,
            last: number,
            comm: number,
        }
    }
}

/// A communication that has become a node parallel to its thread.
struct SplitComm {
    comm: NodeIdx,
    /// Node of the whole graph that is blocked until the end; `None` for the node after the
    /// communication.
    carrier: Option<NodeIdx>,
}

/// The graph under construction.
#[derive(Default)]
struct SplitGraph {
    nodes: Nodes,
    origin: Vec<NodeIdx>,
    edges: Vec<Edge>,
    /// New numbers by node of the whole graph.
    numbers: Vec<NewNumbers>,
    comms: Vec<SplitComm>,
}

impl SplitGraph {
    fn push(&mut self, node: Node, origin: NodeIdx) -> NodeIdx {
        self.nodes.push(node);
        self.origin.push(origin);
        NodeIdx::new(self.nodes.len() - 1)
    }

    fn number_of(&self, node: NodeIdx) -> NewNumbers {
        self.numbers[node.index()]
    }

    fn push_transfer(&mut self, whole: &Nodes, transfer: HostTransfer) {
        let (own, is_carrier) = (whole.get(transfer.node), transfer.carrier == transfer.node);
        let end = whole.end(transfer.carrier).max(own.start);
        let begins = end.shifted(-beyond_network(whole, &transfer).0);
        let comm = Node {
            duration: begins - own.start,
            ..own
        };
        let rest = Node {
            kind: NodeKind::HostOp,
            ..own
        };
        let numbers = if is_carrier {
            let comm = self.push(comm, transfer.node);
            let rest = Node {
                first: false,
                start: begins,
                duration: end - begins,
                ..rest
            };
            let last = self.push(rest, transfer.node);
            self.add_edge(EdgeKind::ProgramOrder, comm, last);
            NewNumbers {
                first: comm,
                last,
                comm,
            }
        } else {
            // The call itself continues in parallel to the communication.
            let call = self.push(rest, transfer.node);
            let comm = self.push(comm, transfer.node);
            NewNumbers {
                comm,
                ..NewNumbers::same(call)
            }
        };
        self.numbers.push(numbers);
        self.comms.push(SplitComm {
            comm: numbers.comm,
            carrier: (!is_carrier).then_some(transfer.carrier),
        });
    }

    fn add_edge(&mut self, kind: EdgeKind, from: NodeIdx, to: NodeIdx) {
        self.edges.push(Edge {
            to,
            kind,
            from,
            inferred: false,
        });
    }

    fn copy_edge(&mut self, edge: Edge) {
        let (to, from) = (self.number_of(edge.to), self.number_of(edge.from).last);
        self.edges.push(Edge {
            to: to.first,
            from,
            ..edge
        });
        if to.comm != to.first {
            self.edges.push(Edge {
                to: to.comm,
                from,
                ..edge
            });
        }
    }

    /// Makes the blocked nodes wait, and reduces them to their remaining time.
    fn wait_for_communications(&mut self) {
        for split in std::mem::take(&mut self.comms) {
            if let Some(carrier) = split.carrier {
                let blocked = self.number_of(carrier).first;
                self.add_edge(EdgeKind::HostWait, split.comm, blocked);
                // A node can wait for several communications: it continues after the last.
                let (since, end) = (self.nodes.end(split.comm), self.nodes.end(blocked));
                let at = blocked.index();
                self.nodes.start[at] = self.nodes.start[at].max(since.min(end));
                self.nodes.duration[at] = end - self.nodes.start[at];
            }
            self.comms.push(split);
        }
    }

    /// Makes all nodes without deps wait for `begin`.
    fn begin_after(&mut self, begin: NodeIdx) {
        let mut waits = vec![false; self.nodes.len()];
        waits[begin.index()] = true;
        for edge in &self.edges {
            waits[edge.to.index()] = true;
        }
        for node in self.nodes.indices() {
            if !waits[node.index()] {
                self.add_edge(EdgeKind::Handoff, begin, node);
            }
        }
    }
}

/// Returns the part of a rank's blocked time that exceeds the simulated network's time.
fn beyond_network(whole: &Nodes, transfer: &HostTransfer) -> DurationNs {
    let Some(network) = transfer.network else {
        return DurationNs::ZERO;
    };
    let met = whole.start[transfer.node.index()] + transfer.until_last;
    let (since, end) = (
        whole.start[transfer.carrier.index()],
        whole.end(transfer.carrier),
    );
    (end - (met + network).max(since)).max(DurationNs::ZERO)
}

/// Creates a node for the time before a rank begins, whose first node starts at `first_start`.
fn before_the_trace(first_start: TimeNs, offset: DurationNs) -> Node {
    Node {
        kind: NodeKind::Boundary,
        source: u32::MAX,
        first: true,
        on_device: false,
        track: TrackIdx::NONE,
        start: first_start.shifted(-offset.0),
        duration: offset,
    }
}
