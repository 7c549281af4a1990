//! Runs a graph: edges, durations and latencies decide when each node starts.
//!
//! A node starts when all its causes have ended and the latency of each of these edges has passed.
//! A node without causes starts at its measured time; a node whose causes are all left out starts
//! at once. O(nodes + edges).

mod resources;

use crate::assumed::Assumed;
use crate::edits::{GraphEdits, NodeEdits};
use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::scale::{self, DurationScale};
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, TimeNs};

/// Settings of a run.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// Factors on durations.
    pub scales: Vec<DurationScale>,
    /// Kinds of edges to leave out.
    pub drop_edges: Vec<EdgeKind>,
    /// True if each thread or stream runs one node at a time, the ready one with the earliest
    /// measured start. O(nodes log nodes + edges).
    pub resources: bool,
    /// Changes of single nodes, applied after the factors.
    pub edits: GraphEdits,
    /// Edits for each overhead that the recording may have, only for the range of an answer.
    pub overhead_doubt: Vec<GraphEdits>,
}

impl ReplaySettings {
    /// Returns the smallest or largest factor by which the changes can affect work that others wait
    /// for: 1 without such changes, 0 if something is left out.
    pub(crate) fn factor_of_causes(&self, greatest: bool) -> f64 {
        let scaled = self.edits.scaled.iter().map(|(_, factor)| *factor);
        let factors = self.scales.iter().map(DurationScale::factor).chain(scaled);
        if greatest {
            return factors.fold(1.0, f64::max);
        }
        let edits = &self.edits;
        let leaves_out = [&edits.removed, &edits.at_once]
            .iter()
            .any(|nodes| !nodes.is_empty());
        if leaves_out || !edits.freed.is_empty() || !self.drop_edges.is_empty() {
            0.0
        } else {
            factors.fold(1.0, f64::min)
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayRun {
    /// Start of each node.
    pub start: Vec<TimeNs>,
    /// Duration of each node.
    pub duration: Vec<DurationNs>,
    /// Edge that decided when each node could start: the first of those whose source's end plus
    /// latency came last. [`EdgeIdx::NONE`] without dependencies.
    pub decided: Vec<EdgeIdx>,
    /// Node that kept this one's thread or stream busy when it could have started, if resources are
    /// limited; [`NodeIdx::NONE`] if none.
    pub held: Vec<NodeIdx>,
}

impl ReplayRun {
    /// Returns the edge that decided when a node could start.
    pub fn deciding_edge(&self, node: NodeIdx) -> Option<EdgeIdx> {
        self.decided[node.index()].get()
    }

    /// Returns the end of a node.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// Returns the time at which an edge with this latency lets its target start. With a negative
    /// latency, the target starts before its source ends, but no earlier than the source.
    pub(crate) fn ready(&self, from: NodeIdx, latency: DurationNs) -> TimeNs {
        let ready = self.end(from) + latency;
        if latency < DurationNs::ZERO {
            ready.max(self.start[from.index()])
        } else {
            ready
        }
    }

    /// Returns the first start and the last end.
    pub fn window(&self) -> (TimeNs, TimeNs) {
        let first = self.start.iter().min().copied().unwrap_or_default();
        let durations = self.start.iter().zip(&self.duration);
        let ends = durations.map(|(start, duration)| *start + *duration);
        (first, ends.max().unwrap_or_default())
    }

    /// Returns the time from the first start to the last end.
    pub fn makespan(&self) -> DurationNs {
        let (first, last) = self.window();
        last - first
    }

    /// Returns the node that held this one up when it could have started.
    pub fn held_by(&self, node: NodeIdx) -> Option<NodeIdx> {
        self.held.get(node.index())?.get()
    }
}

/// Runs a graph with these settings.
pub fn run_graph(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    settings: &ReplaySettings,
) -> ReplayRun {
    let mut duration = scale::durations(graph, labels, &settings.scales);
    settings.edits.apply_to_durations(&mut duration);
    run_assuming(graph, settings, duration, Assumed::default())
}

/// Runs a graph with these node durations, under assumptions about its waits.
pub(crate) fn run_assuming(
    graph: &ReplayGraph,
    settings: &ReplaySettings,
    duration: Vec<DurationNs>,
    assumed: Assumed<'_>,
) -> ReplayRun {
    // Dropped edges stay in the graph, which is shared by all questions about a trace.
    let rules = Rules::new(graph, settings, assumed);
    if settings.resources {
        return resources::run_graph(&rules, duration);
    }
    let mut run = ReplayRun {
        start: vec![TimeNs(0); graph.len()],
        duration,
        decided: vec![EdgeIdx::NONE; graph.len()],
        held: vec![],
    };
    for node in graph.order() {
        let (start, decided) = rules.earliest_start(node, &run);
        (run.start[node.index()], run.decided[node.index()]) = (start, decided);
    }
    run
}

/// Rules for the start of nodes.
pub(crate) struct Rules<'g> {
    pub(crate) graph: &'g ReplayGraph,
    dropped: [bool; EdgeKind::ALL.len()],
    edits: NodeEdits,
    assumed: Assumed<'g>,
    origin: TimeNs,
}

impl<'g> Rules<'g> {
    fn new(graph: &'g ReplayGraph, settings: &ReplaySettings, assumed: Assumed<'g>) -> Rules<'g> {
        let dropped = EdgeKind::ALL.map(|kind| settings.drop_edges.contains(&kind));
        Rules {
            graph,
            dropped,
            edits: NodeEdits::new(graph, &settings.edits),
            assumed,
            // an empty graph has no node that could ask for it
            origin: graph.start.iter().min().copied().unwrap_or_default(),
        }
    }

    /// Returns true if edges of this kind count.
    pub(crate) fn counts(&self, kind: EdgeKind) -> bool {
        !self.dropped[kind as usize]
    }

    /// Returns true if a node waits for an edge in this run.
    fn edge_counts(&self, node: NodeIdx, edge: EdgeIdx) -> bool {
        let dep = self.graph.dep(edge);
        self.kind_counts(node, dep.kind) && self.assumed.keeps(edge)
    }

    fn kind_counts(&self, node: NodeIdx, kind: EdgeKind) -> bool {
        self.counts(kind) && !self.edits.is_freed(node, kind)
    }

    /// Returns the earliest start of a node, and the edge that decided it. `run` must contain all
    /// its causes.
    pub(crate) fn earliest_start(&self, node: NodeIdx, run: &ReplayRun) -> (TimeNs, EdgeIdx) {
        let graph = self.graph;
        let edges = graph.edges_to(node);
        let at_once = self.edits.starts_at_once(node);
        // A node without dependencies starts when the program started it outside the trace: its
        // measured start is all that is known.
        if edges.len() == 0 {
            // A stream's wait for events before the recording ends at its own time.
            let is_boundary = graph.kind[node.index()] == ReplayKind::Boundary;
            let start = if at_once && is_boundary && graph.on_device(node) {
                self.origin
            } else {
                graph.start[node.index()]
            };
            return (start, EdgeIdx::NONE);
        }
        let (mut latest, mut decided) = (self.origin, EdgeIdx::NONE);
        for edge in edges.filter(|edge| self.edge_counts(node, *edge)) {
            let latency = if at_once {
                DurationNs::ZERO
            } else {
                graph.latency(edge)
            };
            let ready = run.ready(graph.dep(edge).from, latency);
            // The first of equal ones decides, so the same input always gives the same path.
            if decided == EdgeIdx::NONE || ready > latest {
                (latest, decided) = (ready, edge);
            }
        }
        for wait in self.assumed.waits_of(node) {
            if !at_once && self.kind_counts(node, wait.kind) {
                latest = run.ready(wait.from, wait.latency).max(latest);
            }
        }
        (latest, decided)
    }
}
