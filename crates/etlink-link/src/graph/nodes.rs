//! Nodes, by time.

use super::edges::Edges;
use super::kinds::NodeKind;
use etlink_model::{DurationNs, NodeIdx, QueueIdx, ThreadIdx, TimeNs, TrackIdx};

/// An interval of work, or of waiting, on one thread or queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What ran, or why nothing did.
    pub kind: NodeKind,
    /// Row of [`DeviceTrace::ops`](etlink_model::DeviceTrace::ops) (host op; gap: the enclosing
    /// annotation or `u32::MAX`), `calls` (runtime) or `rows` (device op). A collective is a row
    /// when `on_device`, else an op. Of a delay on a queue: the row that it delays.
    pub source: u32,
    /// The first, or only, slice of its source: it bears the op's identity.
    pub first: bool,
    /// Whether it runs on a device queue.
    pub on_device: bool,
    /// Its thread or queue, see [`Node::thread`] and [`Node::queue`].
    pub track: TrackIdx,
    /// When it began.
    pub start: TimeNs,
    /// How long this slice took.
    pub duration: DurationNs,
}

impl Node {
    /// The thread of a node of the host.
    pub fn thread(&self) -> Option<ThreadIdx> {
        (!self.on_device).then_some(ThreadIdx(self.track.0))
    }

    /// The queue of a node of a device.
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

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// The numbers of all nodes, ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = NodeIdx> + use<> {
        (0..self.len() as u32).map(NodeIdx)
    }

    /// A node from its columns.
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

    /// When a node ended.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// From the end of the last node that a node waits for to its start: what launches and waits
    /// took. Below zero for a device op that starts before: with programmatic dependent launch. What
    /// is left of the op then takes no less than no time. Zero without deps. O(deps).
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
