//! In which nodes of a rank its communications go on.
//!
//! ```text
//! NCCL     stream    |== kernel: waits for the others, transfers ==|
//! Gloo     thread    record(all_reduce)  …  record(wait) . . . . . . ____
//!          worker               |== gloo:all_reduce ==============|
//! Gloo     thread    record(recv)  …  record(wait)===============____
//! ```
//! A device row is both: the rank arrives when it begins, and the transfer ends when it does. A
//! host op only gives the work away: a worker's range carries it out, else whoever waits for it is
//! blocked until it is done. Of a range in several slices, cut by ops that it calls, the longest is
//! the transfer; those around it prepare and copy. Where no wait is recorded, a range of the op's
//! own thread that begins inside the op and outlasts it says at least until when it went on. A
//! message is under way from its call on: where that is slow to return, its receive can end
//! milliseconds before the range `gloo:send` begins.

use super::CommExtent;
use crate::host::pending::{ThreadKey, collective_key, pending_collectives, recorded_waits};
use crate::{LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, NodeIdx, OpIdx, UnixNs};
use rustc_hash::FxHashMap;

/// What carries out the communications that host ops give away.
pub(super) struct Carriers {
    /// The worker's range, by the op that gave it the work.
    ranges: FxHashMap<OpIdx, OpIdx>,
    /// The record of the wait.
    waits: FxHashMap<ThreadKey, OpIdx>,
    /// Per range and wait, its longest slice and how long that is.
    slices: FxHashMap<OpIdx, (DurationNs, NodeIdx)>,
    gloo: bool,
}

impl Carriers {
    /// O(n).
    pub(super) fn of(trace: &LinkedTrace) -> Carriers {
        let device = &trace.device;
        let ranges: FxHashMap<OpIdx, OpIdx> = pending_collectives(device)
            .into_iter()
            .map(|carried_out| (carried_out.given, carried_out.range))
            .collect();
        let waits: FxHashMap<ThreadKey, OpIdx> = recorded_waits(device)
            .map(|(key, op)| (key, OpIdx::new(op)))
            .collect();
        let mut slices: FxHashMap<OpIdx, (DurationNs, NodeIdx)> = ranges
            .values()
            .chain(waits.values())
            .map(|op| (*op, (DurationNs(-1), NodeIdx(0))))
            .collect();
        for at in trace.nodes.indices() {
            let node = trace.nodes.get(at);
            if node.kind == NodeKind::HostOp
                && let Some(longest) = slices.get_mut(&OpIdx(node.source))
                && node.duration > longest.0
            {
                *longest = (node.duration, at);
            }
        }
        slices.retain(|_, (duration, _)| duration.0 >= 0);
        Carriers {
            ranges,
            waits,
            slices,
            gloo: device.names.iter().any(|name| name.starts_with("gloo:")),
        }
    }

    /// Where the communication of this node, which is of a host op, runs.
    pub(super) fn extent(&self, trace: &LinkedTrace, node: NodeIdx) -> CommExtent {
        let op = OpIdx(trace.nodes.source[node.index()]);
        if let Some((_, slice)) = self
            .ranges
            .get(&op)
            .and_then(|range| self.slices.get(range))
        {
            return of_node(trace, *slice);
        }
        let arrives = of_node(trace, node);
        // The wait must lie behind the call: a number that comes back would name an earlier one.
        let wait = collective_key(&trace.device, op.index())
            .and_then(|key| self.slices.get(self.waits.get(&key)?));
        if let Some((_, slice)) = wait.filter(|(_, slice)| *slice > node) {
            return CommExtent {
                arrives: arrives.arrives,
                arrival_ns: arrives.arrival_ns,
                ..of_node(trace, *slice)
            };
        }
        let ((start_ns, end_ns), waits) = self
            .range(trace, node)
            .map_or((whole(trace, node), node), |range| {
                (whole(trace, range), range)
            });
        CommExtent {
            waits,
            start_ns,
            end_ns,
            is_transfer: false,
            ..arrives
        }
    }

    /// A range of Gloo on the thread of this node.
    fn range(&self, trace: &LinkedTrace, node: NodeIdx) -> Option<NodeIdx> {
        if !self.gloo {
            return None;
        }
        let op = trace.nodes.get(node);
        let later = (node.0 + 1..trace.nodes.len() as u32).map(NodeIdx);
        let nodes = later.map(|at| (at, trace.nodes.get(at)));
        // What begins after the op has returned is not its own.
        let mut nodes = nodes.take_while(|(_, node)| node.start <= op.start + op.duration);
        nodes
            .find(|(_, node)| node.track == op.track && runs_it(trace, node))
            .map(|(at, _)| at)
    }
}

/// A node that is all of it.
pub(super) fn of_node(trace: &LinkedTrace, index: NodeIdx) -> CommExtent {
    let node = trace.nodes.get(index);
    let start_ns = trace.device.header.unix_time(node.start);
    CommExtent::from_node(index, (start_ns, start_ns + node.duration))
}

fn runs_it(trace: &LinkedTrace, node: &Node) -> bool {
    node.kind == NodeKind::HostOp && trace.name(node).starts_with("gloo:")
}

/// The op that a node is a piece of.
fn whole(trace: &LinkedTrace, index: NodeIdx) -> (UnixNs, UnixNs) {
    let (op, device) = (trace.nodes.source[index.index()] as usize, &trace.device);
    let start_ns = device.header.unix_time(device.ops.start[op]);
    (start_ns, start_ns + device.ops.duration[op])
}
