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
        let settings = ReplaySettings {
            edits: edits.clone(),
            ..ReplaySettings::default()
        };
        run_graph(self.graph, &NoLabels, &settings)
    }
}
