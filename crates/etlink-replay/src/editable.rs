//! A graph with the baseline run for edits.

use crate::edits::GraphEdits;
use crate::graph::ReplayGraph;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};

/// A graph and its run without edits.
#[derive(Clone, Debug)]
pub struct EditableGraph<'g> {
    graph: &'g ReplayGraph,
    plain: ReplayRun,
    /// Edits of every run, in addition to its own.
    always: GraphEdits,
}

impl<'g> EditableGraph<'g> {
    /// Runs the graph once. O(nodes + edges).
    pub fn new(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        EditableGraph::with_edits(graph, GraphEdits::default())
    }

    /// Like [`EditableGraph::new`], without waits found only by a rule. O(nodes + edges).
    pub fn without_inferred(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        let mut always = GraphEdits::default();
        for node in graph.indices() {
            // A node with only inferred edges keeps them: nothing else places it.
            if graph.deps(node).all(|dep| dep.inferred) {
                continue;
            }
            for dep in graph.deps(node).filter(|dep| dep.inferred) {
                let mut same = graph.deps(node).filter(|other| other.kind == dep.kind);
                if same.all(|other| other.inferred) {
                    always.freed.push((node, dep.kind));
                }
            }
        }
        EditableGraph::with_edits(graph, always)
    }

    fn with_edits(graph: &'g ReplayGraph, always: GraphEdits) -> EditableGraph<'g> {
        let mut editable = EditableGraph {
            graph,
            plain: ReplayRun::default(),
            always,
        };
        editable.plain = editable.run_edited(&GraphEdits::default());
        editable
    }

    /// Returns the run without edits.
    pub fn plain_run(&self) -> &ReplayRun {
        &self.plain
    }

    /// Runs the graph with these edits. O(nodes + edges).
    pub fn run_edited(&self, edits: &GraphEdits) -> ReplayRun {
        let mut edits = edits.clone();
        edits.extend(&self.always);
        let settings = ReplaySettings {
            edits,
            ..ReplaySettings::default()
        };
        run_graph(self.graph, &NoLabels, &settings)
    }
}
