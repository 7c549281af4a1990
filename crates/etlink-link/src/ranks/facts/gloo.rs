//! Where communications run: Gloo's calls return at once.

use super::{Runs, small};
use crate::queued::queued;
use crate::{LinkedTrace, Node, NodeKind};
use etlink_model::OpIdx;
use rustc_hash::FxHashMap;

/// Where Gloo runs what host ops gave it.
#[derive(Default)]
pub(super) struct Gloo {
    any: bool,
    /// The first node of the worker's range, by the op that gave it the work.
    workers: FxHashMap<u32, u32>,
}

impl Gloo {
    /// O(nodes) where there is any.
    pub(super) fn of(trace: &LinkedTrace) -> Gloo {
        let device = &trace.device;
        if device.names.iter().all(|name| !name.starts_with("gloo:")) {
            return Gloo::default();
        }
        let given: FxHashMap<OpIdx, OpIdx> = queued(device).into_iter().map(|work| (work.run, work.given)).collect();
        let first = (0..trace.nodes.len()).map(|at| (at, trace.nodes.get(at))).filter(|(_, node)| node.kind == NodeKind::HostOp && node.first);
        Gloo { any: true, workers: first.filter_map(|(at, node)| Some((given.get(&OpIdx(node.source))?.0, small(at)))).collect() }
    }

    /// Where the communication of this node runs.
    pub(super) fn runs(&self, trace: &LinkedTrace, index: usize) -> Runs {
        runs(trace, self.range(trace, index).unwrap_or(small(index)))
    }

    /// The range that runs the op of this node: a worker's, or one of the op's own thread that begins inside the op and outlasts it, as messages do.
    fn range(&self, trace: &LinkedTrace, index: usize) -> Option<u32> {
        let op = trace.nodes.get(index);
        if !self.any || op.on_device {
            return None;
        }
        let inside = || {
            let nodes = (index + 1..trace.nodes.len()).map(|at| (at, trace.nodes.get(at)));
            let mut nodes = nodes.take_while(|(_, node)| node.start <= op.start + op.duration);
            nodes.find(|(_, node)| node.resource == op.resource && runs_it(trace, node)).map(|(at, _)| small(at))
        };
        self.workers.get(&op.source).copied().or_else(inside)
    }
}

fn runs_it(trace: &LinkedTrace, node: &Node) -> bool {
    node.kind == NodeKind::HostOp && trace.name(node).starts_with("gloo:")
}

/// The whole row or op that a node is a piece of.
fn runs(trace: &LinkedTrace, index: u32) -> Runs {
    let (node, device) = (trace.nodes.get(index as usize), &trace.device);
    let at = node.source as usize;
    let (start, duration) =
        if node.on_device { (device.rows.start[at], device.rows.duration[at]) } else { (device.ops.start[at], device.ops.duration[at]) };
    let start_ns = device.header.base_ns.saturating_add(start.0);
    Runs { node: index, start_ns, end_ns: start_ns.saturating_add(duration.0) }
}
