//! A graph with the run that edits are compared with.

use crate::edits::GraphEdits;
use crate::graph::ReplayGraph;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};

/// A graph and its run without edits.
#[derive(Clone, Debug)]
pub struct EditableGraph<'g> {
    graph: &'g ReplayGraph,
    plain: ReplayRun,
    inferred_as_measured: bool,
}

impl<'g> EditableGraph<'g> {
    /// Runs the graph once. O(nodes + edges).
    pub fn new(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        EditableGraph::with_waits(graph, false)
    }

    /// The same graph if waits that the trace does not state last as they were measured to, whatever
    /// becomes of what they are said to be for. O(nodes + edges).
    pub fn of_stated_waits(graph: &'g ReplayGraph) -> EditableGraph<'g> {
        EditableGraph::with_waits(graph, true)
    }

    fn with_waits(graph: &'g ReplayGraph, inferred_as_measured: bool) -> EditableGraph<'g> {
        let mut editable = EditableGraph {
            graph,
            plain: ReplayRun::default(),
            inferred_as_measured,
        };
        editable.plain = editable.run_edited(&GraphEdits::default());
        editable
    }

    /// The run without edits.
    pub fn plain_run(&self) -> &ReplayRun {
        &self.plain
    }

    /// When each node starts and how long it takes with these edits. O(nodes + edges).
    pub fn run_edited(&self, edits: &GraphEdits) -> ReplayRun {
        let settings = ReplaySettings {
            edits: edits.clone(),
            inferred_as_measured: self.inferred_as_measured,
            ..ReplaySettings::default()
        };
        run_graph(self.graph, &NoLabels, &settings)
    }
}
