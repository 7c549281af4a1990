//! Runs with single nodes taken out: what a program would take without one of its causes.
//!
//! ```text
//! measured   launch ......==A==          A started 5 us after its launch, 400 us after B
//!            ==B==
//! edited     launch==A==                 B takes 500 us longer: what now decides is the stream
//!            ==B===========              order, and A starts after B by what *that* takes
//! ```
//! A run without edits gives the times of the plain run back, to the nanosecond.

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

/// A graph and its run without edits.
#[derive(Clone, Debug)]
pub struct EditableGraph<'g> {
    graph: &'g ReplayGraph,
    plain: ReplayRun,
}

impl<'g> EditableGraph<'g> {
    /// Runs the graph once. O(nodes + edges).
    pub fn new(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        let plain = run_graph(graph, &NoLabels, &ReplaySettings::default());
        EditableGraph { graph, plain }
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
                    false => graph.latency(edge),
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
