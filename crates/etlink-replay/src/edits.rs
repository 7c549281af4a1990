//! Runs with single nodes taken out: what a program would take without one of its causes.
//!
//! ```text
//! measured   launch ......==A==          A started 5 us after its launch, 400 us after B
//!            ==B==
//! edited     launch==A==                 B takes 500 us longer: what now decides is the stream
//!            ==B===========              order, and A starts after B by what *that* takes
//! ```
//! [`run_graph`](crate::run_graph) keeps one latency per node. It belongs to the cause that decided
//! in the recording, and another can decide in the changed run. So here each edge has a latency of
//! its own: of the edge that decided the measured one, of the others what edges of their kind take
//! where they decide, but no more than the measured times allow. A run without edits gives the
//! times of the plain run back, to the nanosecond.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, TimeNs};

/// What is changed about single nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphEdits {
    /// These take no time, and neither does what keeps them from starting once all that they wait
    /// for has ended. A stream's wait for what came before the recording is over at the begin.
    pub removed: Vec<NodeIdx>,
    /// These start as soon as all that they wait for has ended, as parts of one kernel do.
    pub at_once: Vec<NodeIdx>,
    /// Factors on durations; of a node that stands here twice both count.
    pub scaled: Vec<(NodeIdx, f64)>,
    /// These wait no more for what edges of this kind bring.
    pub freed: Vec<(NodeIdx, EdgeKind)>,
}

impl GraphEdits {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
            && self.at_once.is_empty()
            && self.scaled.is_empty()
            && self.freed.is_empty()
    }

    /// Adds those of a graph whose first node has this number in another graph.
    pub fn extend_shifted(&mut self, other: &GraphEdits, first: NodeIdx) {
        let shift = |node: &NodeIdx| NodeIdx(first.0.saturating_add(node.0));
        self.removed.extend(other.removed.iter().map(shift));
        self.at_once.extend(other.at_once.iter().map(shift));
        let scaled = other.scaled.iter();
        self.scaled
            .extend(scaled.map(|(node, by)| (shift(node), *by)));
        let freed = other.freed.iter();
        self.freed
            .extend(freed.map(|(node, kind)| (shift(node), *kind)));
    }
}

/// A graph with a latency for each of its edges.
#[derive(Clone, Debug)]
pub struct EditableGraph<'g> {
    graph: &'g ReplayGraph,
    plain: ReplayRun,
    /// Per edge.
    latency: Vec<DurationNs>,
}

/// Which latencies are alike: those of one kind of edge to the host or to a device.
type LatencyClass = (EdgeKind, bool);

/// What an edge takes that decides, where none of its class does so in the recording.
///
/// Launches, streams and events take a few microseconds on all devices; the host goes on at once.
fn default_latency((kind, _): LatencyClass) -> DurationNs {
    match kind {
        EdgeKind::Launch | EdgeKind::HostWait => DurationNs(5_000),
        EdgeKind::StreamOrder => DurationNs(1_000),
        EdgeKind::EventWait => DurationNs(2_000),
        _ => DurationNs::ZERO,
    }
}

impl<'g> EditableGraph<'g> {
    /// Finds the latencies. O(edges log edges).
    pub fn new(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        let plain = run_graph(graph, &NoLabels, &ReplaySettings::default());
        let typical = typical_latencies(graph, &plain);
        let mut latency = Vec::with_capacity(graph.edges());
        for node in graph.indices() {
            let own = graph.latency[node.index()];
            let decided = plain.deciding_edge(node);
            let latest = decided.map(|edge| plain.end(graph.dep(edge).from));
            for edge in graph.edges_to(node) {
                let dep = graph.dep(edge);
                // The edge's slack: with more than this the node would have started later.
                let slack = latest.map_or(own, |latest| own + (latest - plain.end(dep.from)));
                let usual = typical[class_index((dep.kind, graph.on_device(node)))];
                latency.push(match decided == Some(edge) {
                    true => slack,
                    false => usual.min(slack),
                });
            }
        }
        EditableGraph {
            graph,
            plain,
            latency,
        }
    }

    /// The run without edits.
    pub fn plain_run(&self) -> &ReplayRun {
        &self.plain
    }

    /// When each node starts and how long it takes with these edits. O(nodes + edges).
    pub fn run_edited(&self, edits: &GraphEdits) -> ReplayRun {
        let graph = self.graph;
        let mut run = ReplayRun {
            start: vec![TimeNs(0); graph.len()],
            duration: edited_durations(graph, edits),
            decided: vec![EdgeIdx::NONE; graph.len()],
            held: vec![],
        };
        let mut at_once = vec![false; graph.len()];
        for node in edits.removed.iter().chain(&edits.at_once) {
            mark_node(&mut at_once, *node);
        }
        let mut freed = vec![0u16; graph.len()];
        for (node, kind) in &edits.freed {
            if let Some(kinds) = freed.get_mut(node.index()) {
                *kinds |= kind_bit(*kind);
            }
        }
        let origin = graph.start.iter().min().copied().unwrap_or_default();
        for node in graph.order() {
            let index = node.index();
            if graph.count_deps(node) == 0 {
                // A wait for what came before the recording ends at a time of its own.
                let is_free = at_once[index] && graph.kind[index] == ReplayKind::Boundary;
                run.start[index] = match is_free && graph.on_device(node) {
                    true => origin,
                    false => graph.start[index],
                };
                continue;
            }
            let (mut start, mut decided) = (origin, EdgeIdx::NONE);
            for edge in graph.edges_to(node) {
                let dep = graph.dep(edge);
                if freed[index] & kind_bit(dep.kind) != 0 {
                    continue;
                }
                let latency = match at_once[index] {
                    true => DurationNs::ZERO,
                    false => self.latency[edge.index()],
                };
                let ready = run.end(dep.from) + latency;
                if decided == EdgeIdx::NONE || ready > start {
                    (start, decided) = (ready, edge);
                }
            }
            (run.start[index], run.decided[index]) = (start, decided);
        }
        run
    }
}

fn mark_node(marks: &mut [bool], node: NodeIdx) {
    // Edits of another graph name nodes that this one does not have, and change nothing.
    if let Some(mark) = marks.get_mut(node.index()) {
        *mark = true;
    }
}

fn kind_bit(kind: EdgeKind) -> u16 {
    1 << kind as u16
}

fn class_index((kind, on_device): LatencyClass) -> usize {
    2 * kind as usize + usize::from(on_device)
}

fn edited_durations(graph: &ReplayGraph, edits: &GraphEdits) -> Vec<DurationNs> {
    let mut durations = graph.duration.clone();
    for (node, factor) in &edits.scaled {
        if let Some(duration) = durations.get_mut(node.index()) {
            *duration = DurationNs((duration.0 as f64 * factor).round() as i64);
        }
    }
    for node in &edits.removed {
        if let Some(duration) = durations.get_mut(node.index()) {
            *duration = DurationNs::ZERO;
        }
    }
    durations
}

/// The median latency of the edges that decide, by class.
fn typical_latencies(graph: &ReplayGraph, plain: &ReplayRun) -> Vec<DurationNs> {
    let mut by_class: Vec<Vec<DurationNs>> = vec![vec![]; 2 * EdgeKind::ALL.len()];
    for node in graph.indices() {
        // What nothing explains is no mechanism's latency.
        if graph.kind[node.index()].is_delay() {
            continue;
        }
        if let Some(edge) = plain.deciding_edge(node) {
            let class = (graph.dep(edge).kind, graph.on_device(node));
            // Clocks are off by a little: an effect cannot come before its cause.
            let latency = graph.latency[node.index()].max(DurationNs::ZERO);
            by_class[class_index(class)].push(latency);
        }
    }
    let mut typical = vec![];
    for (index, latencies) in by_class.iter_mut().enumerate() {
        let class = (EdgeKind::ALL[index / 2], index % 2 == 1);
        typical.push(median(latencies).unwrap_or_else(|| default_latency(class)));
    }
    typical
}

fn median(values: &mut [DurationNs]) -> Option<DurationNs> {
    let middle = values.len().checked_sub(1)? / 2;
    let (_, value, _) = values.select_nth_unstable(middle);
    Some(*value)
}
