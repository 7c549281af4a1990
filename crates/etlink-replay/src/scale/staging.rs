//! Calls in which a thread copies memory for a device.
//!
//! ```text
//! thread     |== cudaMemcpyAsync ========|        the driver moves memory that is not pinned
//! stream       |== Memcpy HtoD ============|      through memory of its own
//! ```
//! The call returns before the copy ends, so it does not wait; but the copy determines its
//! duration. A shorter copy shortens its call. O(edges) of copies.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use etlink_model::{DurationNs, NodeIdx};

/// Shortest copy considered: shorter ones may be as long as their launches by chance.
const LEAST_COPY: DurationNs = DurationNs(100_000);

/// Largest number of nodes of other threads and streams between a launch and its copy.
const MOST_BETWEEN: usize = 1_000;

/// Returns the call that a copy keeps busy, if any.
pub(super) fn staging_call(graph: &ReplayGraph, copy: NodeIdx) -> Option<NodeIdx> {
    let length = graph.duration[copy.index()];
    let is_copy = graph.kind[copy.index()] == ReplayKind::MemoryCopy;
    if !is_copy || length < LEAST_COPY || !graph.measured {
        return None;
    }
    let mut launches = graph.deps(copy).filter(|dep| dep.kind == EdgeKind::Launch);
    let call = call_behind(graph, launches.next()?.from, copy)?;
    let call_length = graph.duration[call.index()];
    let is_alike = |one: DurationNs, other: DurationNs| one.0.saturating_mul(2) >= other.0;
    // Call and copy both continue from the start of the copy to the end of the call.
    let call_end = graph.start[call.index()] + call_length;
    let both = call_end - graph.start[copy.index()];
    let copies = is_alike(length, call_length) && is_alike(call_length, length);
    (copies && is_alike(both, length)).then_some(call)
}

/// Returns the call of a launch edge: the edge's source or, if a copy starts before its call ends,
/// a node after it. Nodes are numbered by time, so the call is between source and copy.
fn call_behind(graph: &ReplayGraph, from: NodeIdx, copy: NodeIdx) -> Option<NodeIdx> {
    let is_call = |node: &NodeIdx| {
        graph.kind[node.index()] == ReplayKind::Runtime
            && graph.resource[node.index()] == graph.resource[from.index()]
    };
    let mut nodes = (from.0..copy.0).take(MOST_BETWEEN).map(NodeIdx);
    nodes.find(is_call)
}
