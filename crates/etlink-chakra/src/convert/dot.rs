//! A written graph as text for Graphviz (`dot -Tsvg`).

use super::placement::{NodeNumbers, runs_on_device};
use super::replay_graph::is_communication;
use crate::read::ChakraGraph;
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use std::fmt::Write;
use std::ops::Range;

/// Letters of a name that are drawn: kernels' names run to hundreds.
const NAME_LETTERS: usize = 60;

/// What is drawn.
#[derive(Clone, Debug)]
pub struct DotOptions {
    /// Places of the nodes in the file. Graphviz lays out some thousand nodes in reasonable time.
    pub nodes: Range<usize>,
}

impl Default for DotOptions {
    /// All nodes.
    fn default() -> Self {
        DotOptions {
            nodes: 0..usize::MAX,
        }
    }
}

/// Whether an edge is one of `ctrl_deps` or of `data_deps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DepKind {
    Control,
    Data,
}

/// The graph in Graphviz' language. Devices' nodes are boxes, hosts' nodes ellipses, communications
/// hexagons; edges of `data_deps` are solid, of `ctrl_deps` dashed. Edges point from a node to the
/// one that waits for it; those to nodes that are not drawn are left out. O(nodes + deps).
pub fn to_dot(file: &ChakraGraph, options: &DotOptions) -> String {
    let end = options.nodes.end.min(file.len());
    let drawn = options.nodes.start.min(end)..end;
    let numbers = NodeNumbers::new(file);
    let mut graph: DiGraph<usize, DepKind> = DiGraph::new();
    for index in drawn.clone() {
        graph.add_node(index);
    }
    for to in drawn.clone() {
        let lists = [
            (DepKind::Control, file.ctrl_deps.list(to)),
            (DepKind::Data, file.data_deps.list(to)),
        ];
        for (kind, ids) in lists {
            let known = ids.iter().filter_map(|id| numbers.find(*id));
            for from in known.map(|from| from as usize) {
                if drawn.contains(&from) {
                    let ends = [from, to].map(|node| NodeIndex::new(node - drawn.start));
                    graph.add_edge(ends[0], ends[1], kind);
                }
            }
        }
    }
    // labels are among the attributes, where their line breaks stay as they are
    let no_labels = [Config::NodeNoLabel, Config::EdgeNoLabel];
    format!(
        "{:?}",
        Dot::with_attr_getters(
            &graph,
            &no_labels,
            &|_, edge| edge_attributes(edge),
            &|_, (_, node)| node_attributes(file, *node),
        )
    )
}

fn edge_attributes(edge: EdgeReference<'_, DepKind>) -> String {
    match edge.weight() {
        DepKind::Control => "style = dashed".to_owned(),
        DepKind::Data => "style = solid".to_owned(),
    }
}

fn node_attributes(file: &ChakraGraph, node: usize) -> String {
    let shape = if is_communication(file.node_type[node]) {
        "hexagon"
    } else if runs_on_device(file, node, file.place_of(node)) {
        "box"
    } else {
        "ellipse"
    };
    let mut label = format!("{} ", file.id[node]);
    for letter in file.name_of(node).chars().take(NAME_LETTERS) {
        match letter {
            '"' | '\\' => label.extend(['\\', letter]),
            control if control.is_control() => label.push(' '),
            other => label.push(other),
        }
    }
    let micros = file.duration_ns[node] as f64 / 1000.0;
    // Graphviz breaks lines at the two letters \n
    let _ = write!(label, "\\n{micros:.1} us");
    format!("shape = {shape}, label = \"{label}\"")
}
