//! Writes a graph as text for Graphviz (`dot -Tsvg`).

use super::{DepKind, NodeClass, Picture};
use petgraph::dot::{Config, Dot};
use petgraph::graph::EdgeReference;
use std::fmt::Write;

/// Returns the graph in Graphviz' language. Device nodes are boxes, host nodes are ellipses,
/// communications are hexagons. Edges of `data_deps` are solid, edges of `ctrl_deps` are dashed.
pub fn to_dot(picture: &Picture<'_>) -> String {
    // Labels are among the attributes, where their line breaks stay unchanged.
    let no_labels = [Config::NodeNoLabel, Config::EdgeNoLabel];
    format!(
        "{:?}",
        Dot::with_attr_getters(
            &picture.graph,
            &no_labels,
            &|_, edge| edge_attributes(edge),
            &|_, (_, node)| node_attributes(picture, *node),
        )
    )
}

fn edge_attributes(edge: EdgeReference<'_, DepKind>) -> String {
    match edge.weight() {
        DepKind::Control => "style = dashed".to_owned(),
        DepKind::Data => "style = solid".to_owned(),
    }
}

fn node_attributes(picture: &Picture<'_>, node: usize) -> String {
    let shape = match picture.class_of(node) {
        NodeClass::Communication => "hexagon",
        NodeClass::Device => "box",
        NodeClass::Host => "ellipse",
    };
    let mut label = format!("{} ", picture.file.id[node]);
    for letter in picture.short_name(node) {
        match letter {
            '"' | '\\' => label.extend(['\\', letter]),
            other => label.push(other),
        }
    }
    // Graphviz breaks lines at the two characters \n.
    let _ = write!(label, "\\n{:.1} us", picture.micros_of(node));
    format!("shape = {shape}, label = \"{label}\"")
}
