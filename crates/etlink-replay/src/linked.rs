//! Converts a linked trace to a graph to run.

use crate::graph::{Error, GraphBuilder, ReplayDep, ReplayGraph, ReplayKind, ReplayNode, Resource};
use crate::labels::LabelSource;
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{Correlation, DeviceTrace, NodeIdx, ResourceIdx, RowKind};

/// Returns the graph of a linked trace. O(nodes + edges).
///
/// # Errors
/// None for a trace made by the linker: its edges go forward.
pub fn graph_from_trace(trace: &LinkedTrace) -> Result<ReplayGraph, Error> {
    let threads = trace.device.threads.len();
    let mut builder = GraphBuilder::new(resources(&trace.device));
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        // Threads precede streams in the list of resources, see `resources`.
        let resource = if node.on_device {
            ResourceIdx::new(threads + node.track.index())
        } else {
            ResourceIdx(node.track.0)
        };
        let deps = trace.edges.deps(index).iter().map(|edge| ReplayDep {
            from: edge.from,
            kind: edge.kind,
            inferred: edge.inferred,
            latency: None,
        });
        let (kind, start, duration) = (kind_of(trace, index), Some(node.start), node.duration);
        builder.push(
            ReplayNode {
                kind,
                resource,
                start,
                duration,
            },
            deps,
        );
    }
    builder.finish()
}

/// Name of a row in which an MTIA stream waits for an event.
const WAIT_ROW: &str = "event_wait";

fn kind_of(trace: &LinkedTrace, index: NodeIdx) -> ReplayKind {
    let node = trace.nodes.get(index);
    match node.kind {
        // A wait that blocked a thread for a communication is the rest of that communication.
        NodeKind::HostOp => match trace.host_comm(&node) {
            Some(comm) if comm.node == index => ReplayKind::Collective,
            _ => ReplayKind::HostOp,
        },
        NodeKind::Runtime => ReplayKind::Runtime,
        // MTIA has rows for the waits of its streams: time that passes, not work.
        NodeKind::DeviceOp if trace.name(&node) == WAIT_ROW => ReplayKind::UnexplainedWait,
        NodeKind::DeviceOp => match trace.device.rows.kind[node.source as usize] {
            // A host function inside a graph holds its stream up like a kernel.
            RowKind::Kernel | RowKind::GraphNode => ReplayKind::Kernel,
            RowKind::Memcpy | RowKind::Memset => ReplayKind::MemoryCopy,
        },
        NodeKind::Collective => ReplayKind::Collective,
        NodeKind::HostGap => ReplayKind::HostGap,
        NodeKind::Boundary => ReplayKind::Boundary,
        NodeKind::UnexplainedWait => ReplayKind::UnexplainedWait,
    }
}

/// Returns the resources: threads, then queues.
fn resources(device: &DeviceTrace) -> Vec<Resource> {
    let threads = device
        .threads
        .iter()
        .map(|thread| thread_resource(&device.label(thread.tid)));
    let queues = device
        .queues
        .iter()
        .map(|queue| stream_resource(queue.stream, Some(queue.device)));
    threads.chain(queues).collect()
}

/// Returns the resource of a host thread.
pub fn thread_resource(tid: &str) -> Resource {
    Resource {
        name: format!("thread {tid}"),
        on_device: false,
        rank: None,
    }
}

/// Returns the resource of a device stream.
pub fn stream_resource(stream: i64, device: Option<i64>) -> Resource {
    let device = device.map_or(String::new(), |device| format!(" of device {device}"));
    Resource {
        name: format!("stream {stream}{device}"),
        on_device: true,
        rank: None,
    }
}

impl LabelSource for LinkedTrace {
    fn name(&self, node: NodeIdx) -> &str {
        self.name(&self.nodes.get(node))
    }

    fn annotation(&self, node: NodeIdx) -> &str {
        let row = self.row_of(&self.nodes.get(node));
        row.map_or("", |row| self.device.row_annotation(row))
    }

    fn correlation(&self, node: NodeIdx) -> Option<Correlation> {
        let node = self.nodes.get(node);
        let correlation = match node.kind {
            NodeKind::Runtime => self.device.calls.correlation.get(node.source as usize),
            _ => self
                .device
                .rows
                .correlation
                .get(self.row_of(&node)?.index()),
        };
        correlation?.get()
    }
}
