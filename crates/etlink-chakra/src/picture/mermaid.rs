//! Writes a small graph as a Mermaid flowchart, which Markdown of GitHub and GitLab renders.

use super::{DepKind, NodeClass, Picture};
use petgraph::visit::EdgeRef;
use std::fmt::Write;

/// Maximum number of edges that Mermaid draws (`maxEdges` of its configuration).
pub const MERMAID_EDGES: usize = 500;

/// Error: Mermaid would reject the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the graph has {edges} edges, but Mermaid draws at most {MERMAID_EDGES}; select less with --range, --step or --depth, or use dot"
)]
pub struct TooLarge {
    /// Number of edges in the graph.
    pub edges: usize,
}

/// Returns the graph as a flowchart. Device nodes have corners, host nodes are round,
/// communications are hexagons. Edges of `ctrl_deps` are dotted.
///
/// # Errors
/// Fails if there are more edges than Mermaid draws.
pub fn to_mermaid(picture: &Picture<'_>) -> Result<String, TooLarge> {
    let (_, edges) = picture.size();
    if edges > MERMAID_EDGES {
        return Err(TooLarge { edges });
    }
    let file = picture.file;
    let mut out = String::from("flowchart TD\n");
    for &node in picture.graph.node_weights() {
        let (open, close) = match picture.class_of(node) {
            NodeClass::Communication => ("{{", "}}"),
            NodeClass::Device => ("[", "]"),
            NodeClass::Host => ("(", ")"),
        };
        let _ = write!(out, "  n{}{open}\"", file.id[node]);
        picture
            .short_name(node)
            .for_each(|letter| push_letter(&mut out, letter));
        let _ = writeln!(out, "<br/>{:.1} us\"{close}", picture.micros_of(node));
    }
    for edge in picture.graph.edge_references() {
        let [from, to] = [edge.source(), edge.target()].map(|end| file.id[picture.graph[end]]);
        let arrow = match edge.weight() {
            DepKind::Control => "-.->",
            DepKind::Data => "-->",
        };
        let _ = writeln!(out, "  n{from} {arrow} n{to}");
    }
    Ok(out)
}

/// Writes a letter; those with a meaning in Mermaid are written by number.
fn push_letter(out: &mut String, letter: char) {
    match letter {
        '"' | '#' | '<' | '>' | '&' | ';' | '`' | '\\' => {
            let _ = write!(out, "#{};", u32::from(letter));
        }
        other => out.push(other),
    }
}
