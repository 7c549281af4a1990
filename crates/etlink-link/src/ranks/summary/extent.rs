//! Finds the nodes in which a rank's communications are carried out.
//!
//! ```text
//! NCCL     stream    |== kernel: waits for the others, transfers ==|
//! Gloo     thread    record(all_reduce)  …  record(wait) . . . . . . ____
//!          worker               |== gloo:all_reduce ==============|
//! Gloo     thread    record(recv)  …  record(wait)===============____
//! ```
//! A device row is both: the rank arrives at its start, and the transfer ends at its end. A host op
//! only hands over the work: a worker's range carries it out; otherwise, a wait for it blocks until
//! it is done. If called ops split a range into several slices, the longest is the transfer; those
//! around it prepare and copy. If no wait is recorded, a range of the op's own thread that begins
//! inside the op and outlasts it gives a lower bound on its end; a message ends with it if the
//! thread did nothing else in it. A message is in transit from its call on: if the call is slow to
//! return, its receive can end milliseconds before the range `gloo:send` begins.

use super::CommExtent;
use crate::{LinkedTrace, Node, NodeKind};
use etlink_model::{NodeIdx, OpIdx, UnixNs};
use rustc_hash::FxHashMap;

/// Nodes that end with communications begun by host ops.
pub(super) struct Carriers {
    /// Slice that waits, by the op that began the awaited communication.
    waits: FxHashMap<OpIdx, NodeIdx>,
    gloo: bool,
}

impl Carriers {
    /// Indexes the waits of a trace. O(communications + names).
    pub(super) fn new(trace: &LinkedTrace) -> Carriers {
        let waits = trace.host_comms.iter().filter(|comm| comm.is_wait);
        Carriers {
            waits: waits.map(|comm| (comm.given, comm.node)).collect(),
            gloo: trace
                .device
                .names
                .iter()
                .any(|name| name.starts_with("gloo:")),
        }
    }

    /// Returns the nodes that carry out the communication of this host node. A message ends with
    /// its range: sender and receiver each have their own.
    pub(super) fn extent(
        &self,
        trace: &LinkedTrace,
        node: NodeIdx,
        is_message: bool,
    ) -> CommExtent {
        let arrives = of_node(trace, node);
        let range = trace.host_comm(&trace.nodes.get(node));
        if range.is_some_and(|comm| !comm.is_wait) {
            return arrives;
        }
        let op = OpIdx(trace.nodes.source[node.index()]);
        if let Some(slice) = self.waits.get(&op).filter(|slice| **slice > node) {
            return CommExtent {
                arrives: arrives.arrives,
                arrival_ns: arrives.arrival_ns,
                ..of_node(trace, *slice)
            };
        }
        let range = self.range(trace, node);
        let waits = range.unwrap_or(node);
        let (start_ns, end_ns) = whole(trace, waits);
        CommExtent {
            waits,
            start_ns,
            end_ns,
            is_transfer: is_message && range.is_some_and(|range| is_blocked_by(trace, range)),
            ..arrives
        }
    }

    /// Returns a range of Gloo on the thread of this node.
    fn range(&self, trace: &LinkedTrace, node: NodeIdx) -> Option<NodeIdx> {
        if !self.gloo {
            return None;
        }
        let op = trace.nodes.get(node);
        let later = (node.0 + 1..trace.nodes.len() as u32).map(NodeIdx);
        let nodes = later.map(|at| (at, trace.nodes.get(at)));
        // A range that begins after the op has returned is not its own.
        let mut nodes = nodes.take_while(|(_, node)| node.start <= op.start + op.duration);
        nodes
            .find(|(_, node)| node.track == op.track && runs_it(trace, node))
            .map(|(at, _)| at)
    }
}

/// Returns the extent of a communication carried out by one node.
pub(super) fn of_node(trace: &LinkedTrace, index: NodeIdx) -> CommExtent {
    let node = trace.nodes.get(index);
    let start_ns = trace.device.header.unix_time(node.start);
    CommExtent::from_node(index, (start_ns, start_ns + node.duration))
}

/// Returns true if the thread did nothing else in the range of a communication: the slice that
/// begins it is all of it.
fn is_blocked_by(trace: &LinkedTrace, range: NodeIdx) -> bool {
    of_node(trace, range).end_ns == whole(trace, range).1
}

fn runs_it(trace: &LinkedTrace, node: &Node) -> bool {
    node.kind == NodeKind::HostOp && trace.name(node).starts_with("gloo:")
}

/// Returns start and end of the op that a node is a slice of.
fn whole(trace: &LinkedTrace, index: NodeIdx) -> (UnixNs, UnixNs) {
    let (op, device) = (trace.nodes.source[index.index()] as usize, &trace.device);
    let start_ns = device.header.unix_time(device.ops.start[op]);
    (start_ns, start_ns + device.ops.duration[op])
}
