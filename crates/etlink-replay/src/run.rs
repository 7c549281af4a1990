//! Runs a graph: edges, durations and latencies decide when each node starts.
//!
//! A node starts when all that it waits for has ended and the latency of each of these edges has
//! passed. One that waits for nothing starts when it was measured to; one whose reasons to wait are
//! all left out, at once. O(nodes + edges).

mod resources;

use crate::assumed::Assumed;
use crate::edits::{GraphEdits, NodeEdits};
use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::scale::{self, DurationScale};
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, TimeNs};

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// Factors on durations.
    pub scales: Vec<DurationScale>,
    /// Reasons to wait that are left out.
    pub drop_edges: Vec<EdgeKind>,
    /// A thread or stream runs one node at a time, of those that could start the one with the
    /// earliest measured start. O(nodes log nodes + edges).
    pub resources: bool,
    /// What is different about single nodes, after the factors.
    pub edits: GraphEdits,
}

impl ReplaySettings {
    /// The least, or the greatest, factor by which the changes can change what waits for them: 1
    /// where there are none of that kind, 0 where something is left out.
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

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayRun {
    /// When each node started.
    pub start: Vec<TimeNs>,
    /// How long it ran.
    pub duration: Vec<DurationNs>,
    /// The edge that decided when each node could start: the first of those whose source's end and
    /// own latency came last. [`EdgeIdx::NONE`] without deps.
    pub decided: Vec<EdgeIdx>,
    /// With resources: the node that kept this one's thread or stream busy when it could have
    /// started, or [`NodeIdx::NONE`].
    pub held: Vec<NodeIdx>,
}

impl ReplayRun {
    /// The edge that decided when a node could start.
    pub fn deciding_edge(&self, node: NodeIdx) -> Option<EdgeIdx> {
        self.decided[node.index()].get()
    }

    /// When a node ended.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// When an edge from a node that takes this long lets its target start. A target that starts
    /// before its source ends, with a latency below zero, still starts no earlier than its source.
    pub(crate) fn ready(&self, from: NodeIdx, latency: DurationNs) -> TimeNs {
        let ready = self.end(from) + latency;
        if latency < DurationNs::ZERO {
            ready.max(self.start[from.index()])
        } else {
            ready
        }
    }

    /// First start and last end.
    pub fn window(&self) -> (TimeNs, TimeNs) {
        let first = self.start.iter().min().copied().unwrap_or_default();
        let durations = self.start.iter().zip(&self.duration);
        let ends = durations.map(|(start, duration)| *start + *duration);
        (first, ends.max().unwrap_or_default())
    }

    /// From the first start to the last end.
    pub fn makespan(&self) -> DurationNs {
        let (first, last) = self.window();
        last - first
    }

    /// The node that held this one up when it could have started.
    pub fn held_by(&self, node: NodeIdx) -> Option<NodeIdx> {
        self.held.get(node.index())?.get()
    }
}

/// Runs a graph.
pub fn run_graph(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    settings: &ReplaySettings,
) -> ReplayRun {
    let mut duration = scale::durations(graph, labels, &settings.scales);
    settings.edits.apply_to_durations(&mut duration);
    run_assuming(graph, settings, duration, Assumed::default())
}

/// Runs a graph whose nodes take `duration`, under assumptions about its waits.
pub(crate) fn run_assuming(
    graph: &ReplayGraph,
    settings: &ReplaySettings,
    duration: Vec<DurationNs>,
    assumed: Assumed<'_>,
) -> ReplayRun {
    // Edges that are dropped stay in the graph: it is shared by all questions about a trace.
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

/// When a node may start.
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

    /// Whether edges of this kind count.
    pub(crate) fn counts(&self, kind: EdgeKind) -> bool {
        !self.dropped[kind as usize]
    }

    /// Whether a node waits for an edge in this run.
    fn edge_counts(&self, node: NodeIdx, edge: EdgeIdx) -> bool {
        let dep = self.graph.dep(edge);
        self.kind_counts(node, dep.kind) && self.assumed.keeps(edge)
    }

    fn kind_counts(&self, node: NodeIdx, kind: EdgeKind) -> bool {
        self.counts(kind) && !self.edits.is_freed(node, kind)
    }

    /// From when on a node may run, and the edge that decided it. `run` has all that it waits for.
    pub(crate) fn earliest_start(&self, node: NodeIdx, run: &ReplayRun) -> (TimeNs, EdgeIdx) {
        let graph = self.graph;
        let edges = graph.edges_to(node);
        let at_once = self.edits.starts_at_once(node);
        // A node without deps starts when the program did that outside the trace: its measured
        // start is all that is known.
        if edges.len() == 0 {
            // A stream's wait for what came before the recording ends at a time of its own.
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
            // The first of equal ones decides, so that the same input gives the same path at
            // every run.
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
