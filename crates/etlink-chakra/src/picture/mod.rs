//! Draws written graphs: Graphviz and GraphML.
//!
//! ```text
//! ChakraGraph ─ NodeChoice ─> Picture ─┬─ to_dot ─────> dot -Tsvg
//!                                      └─ to_graphml ─> networkx, yEd, Gephi
//! ```
//! A graph of a step has tens of thousands of nodes, too many to view: a [`NodeChoice`] selects the
//! nodes to draw. Edges point from a node to its dependents; in a tree (ET+), from an op to the ops
//! inside. O(nodes + deps).

mod choice;
mod dot;
mod graphml;

#[cfg(test)]
mod tests;

pub use choice::NodeChoice;
pub use dot::to_dot;
pub use graphml::to_graphml;

use crate::convert::{NodeNumbers, is_communication, runs_on_device};
use crate::messages::{LossKind, Losses};
use crate::read::ChakraGraph;
use etlink_model::Failure;
use petgraph::graph::{DiGraph, NodeIndex};

/// Letters of a name that are drawn; kernel names can have hundreds.
const NAME_LETTERS: usize = 60;

/// Kind of an edge: from `ctrl_deps` or from `data_deps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DepKind {
    Control,
    Data,
}

impl DepKind {
    fn name(self) -> &'static str {
        match self {
            DepKind::Control => "ctrl",
            DepKind::Data => "data",
        }
    }
}

/// Place of a node, which determines its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum NodeClass {
    Host,
    Device,
    Communication,
}

impl NodeClass {
    fn name(self) -> &'static str {
        self.into()
    }
}

/// Nodes and edges of a file that are drawn.
#[derive(Clone, Debug)]
pub struct Picture<'f> {
    file: &'f ChakraGraph,
    /// Each node holds its position in the file.
    graph: DiGraph<usize, DepKind>,
    losses: Losses,
}

impl<'f> Picture<'f> {
    /// Selects the chosen nodes of `file`. O(nodes + deps).
    ///
    /// # Errors
    /// Fails if nothing is chosen, or if the file does not have the step.
    pub fn new(file: &'f ChakraGraph, choice: &NodeChoice) -> Result<Picture<'f>, Failure> {
        let numbers = NodeNumbers::new(file);
        let is_drawn = choice.find_nodes(file, &numbers)?;
        let mut losses = Losses::default();
        losses.add(LossKind::DuplicateId, numbers.duplicates());
        let mut graph = DiGraph::new();
        let mut drawn: Vec<Option<NodeIndex>> = vec![None; file.len()];
        for (index, _) in is_drawn.iter().enumerate().filter(|(_, drawn)| **drawn) {
            drawn[index] = Some(graph.add_node(index));
        }
        losses.add(
            LossKind::NodeNotChosen,
            (file.len() - graph.node_count()) as u64,
        );
        for to in 0..file.len() {
            for (is_control, id) in file.deps(to) {
                let kind = if is_control {
                    DepKind::Control
                } else {
                    DepKind::Data
                };
                let Some(from) = numbers.find(id) else {
                    losses.add(LossKind::DanglingDep, 1);
                    continue;
                };
                match (drawn[from as usize], drawn[to]) {
                    // The process root of a tree is its own parent.
                    (Some(from), Some(to)) if from != to => {
                        graph.add_edge(from, to, kind);
                    }
                    (Some(_), None) | (None, Some(_)) => losses.add(LossKind::DepNotChosen, 1),
                    _ => {}
                }
            }
        }
        Ok(Picture {
            file,
            graph,
            losses,
        })
    }

    /// Returns the number of drawn nodes and edges.
    pub fn size(&self) -> (usize, usize) {
        (self.graph.node_count(), self.graph.edge_count())
    }

    /// Returns the parts of the file that are not drawn.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    fn class_of(&self, node: usize) -> NodeClass {
        if is_communication(self.file.node_type[node]) {
            NodeClass::Communication
        } else if runs_on_device(self.file, node, self.file.place_of(node)) {
            NodeClass::Device
        } else {
            NodeClass::Host
        }
    }

    fn micros_of(&self, node: usize) -> f64 {
        self.file.duration_ns[node] as f64 / 1000.0
    }

    /// Returns the first letters of a node's name, without control characters.
    fn short_name(&self, node: usize) -> impl Iterator<Item = char> {
        let letters = self.file.name_of(node).chars().take(NAME_LETTERS);
        letters.map(|letter| if letter.is_control() { ' ' } else { letter })
    }
}
