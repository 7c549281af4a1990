//! Nodes of the graph, in order of time.

use super::edges::Edges;
use super::kinds::NodeKind;
use etlink_model::{DurationNs, NodeIdx, QueueIdx, ThreadIdx, TimeNs, TrackIdx};

/// An interval of work, or of waiting, on one thread or queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Kind of work, or of waiting.
    pub kind: NodeKind,
    /// Row of [`DeviceTrace::ops`](etlink_model::DeviceTrace::ops) (host op; for a gap, the
    /// enclosing annotation or `u32::MAX`), `calls` (runtime) or `rows` (device op). A collective
    /// refers to a row if `on_device`, else to an op. A delay on a queue refers to the delayed row.
    pub source: u32,
    /// True for the first, or only, slice of its source, which carries the op's identity.
    pub first: bool,
    /// True if the node runs on a device queue.
    pub on_device: bool,
    /// Thread or queue of the node, see [`Node::thread`] and [`Node::queue`].
    pub track: TrackIdx,
    /// Start of the node.
    pub start: TimeNs,
    /// Duration of this slice.
    pub duration: DurationNs,
}

impl Node {
    /// Thread of a host node; `None` for device nodes.
    pub fn thread(&self) -> Option<ThreadIdx> {
        (!self.on_device).then_some(ThreadIdx(self.track.0))
    }

    /// Queue of a device node; `None` for host nodes.
    pub fn queue(&self) -> Option<QueueIdx> {
        self.on_device.then_some(QueueIdx(self.track.0))
    }
}

/// Nodes in order of time, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Node`")]
pub struct Nodes {
    pub kind: Vec<NodeKind>,
    pub source: Vec<u32>,
    pub first: Vec<bool>,
    pub on_device: Vec<bool>,
    pub track: Vec<TrackIdx>,
    pub start: Vec<TimeNs>,
    pub duration: Vec<DurationNs>,
}

impl Nodes {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// True if the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Numbers of all nodes, ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = NodeIdx> + use<> {
        (0..self.len() as u32).map(NodeIdx)
    }

    /// Assembles a node from the columns.
    pub fn get(&self, node: NodeIdx) -> Node {
        let index = node.index();
        Node {
            kind: self.kind[index],
            source: self.source[index],
            first: self.first[index],
            on_device: self.on_device[index],
            track: self.track[index],
            start: self.start[index],
            duration: self.duration[index],
        }
    }

    /// End of a node.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// Time from the end of the last awaited node to the node's start: the cost of launches and
    /// waits. Negative for a device op that starts earlier, with programmatic dependent launch; the
    /// rest of the op then takes at least 0. Zero without dependencies. O(deps).
    pub fn latency(&self, edges: &Edges, node: NodeIdx) -> DurationNs {
        let deps = edges.deps(node).iter();
        let Some(latest) = deps.map(|edge| self.end(edge.from)).max() else {
            return DurationNs(0);
        };
        let at = node.index();
        if self.on_device[at] && !self.kind[at].is_delay() {
            DurationNs(self.start[at].since(latest).max(-self.duration[at].0))
        } else {
            self.start[at] - latest
        }
    }

    /// Appends a node.
    pub fn push(&mut self, node: Node) {
        self.kind.push(node.kind);
        self.source.push(node.source);
        self.first.push(node.first);
        self.on_device.push(node.on_device);
        self.track.push(node.track);
        self.start.push(node.start);
        self.duration.push(node.duration);
    }
}
