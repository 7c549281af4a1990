//! Writes a graph as GraphML, which networkx, yEd and Gephi read.
//!
//! Node names are `n` followed by the id. The keys follow the format's primer
//! (<http://graphml.graphdrawing.org/primer/graphml-primer.html>).

use super::Picture;
use petgraph::visit::EdgeRef;
use std::fmt::Write;

/// Name, element and type of the data of nodes and edges.
const KEYS: [(&str, &str, &str); 7] = [
    ("name", "node", "string"),
    ("type", "node", "string"),
    ("class", "node", "string"),
    ("start_ns", "node", "long"),
    ("duration_ns", "node", "long"),
    ("comm_size", "node", "long"),
    ("dep", "edge", "string"),
];

/// Returns the graph as GraphML. Names are complete; characters that XML cannot represent become
/// U+FFFD.
pub fn to_graphml(picture: &Picture<'_>) -> String {
    let file = picture.file;
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (name, element, kind) in KEYS {
        let _ = writeln!(
            out,
            "  <key id=\"{name}\" for=\"{element}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
        );
    }
    out.push_str("  <graph edgedefault=\"directed\">\n");
    for &node in picture.graph.node_weights() {
        let _ = writeln!(out, "    <node id=\"n{}\">", file.id[node]);
        add_data(&mut out, "name", file.name_of(node));
        add_data(&mut out, "type", file.node_type[node].as_str_name());
        add_data(&mut out, "class", picture.class_of(node).name());
        let numbers = [
            ("start_ns", file.start_ns[node]),
            ("duration_ns", Some(file.duration_ns[node])),
            ("comm_size", file.comm_of(node).size),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                add_data(&mut out, key, &number.to_string());
            }
        }
        out.push_str("    </node>\n");
    }
    for edge in picture.graph.edge_references() {
        let [from, to] = [edge.source(), edge.target()].map(|end| file.id[picture.graph[end]]);
        let _ = writeln!(out, "    <edge source=\"n{from}\" target=\"n{to}\">");
        add_data(&mut out, "dep", edge.weight().name());
        out.push_str("    </edge>\n");
    }
    out.push_str("  </graph>\n</graphml>\n");
    out
}

fn add_data(out: &mut String, key: &str, value: &str) {
    let _ = write!(out, "      <data key=\"{key}\">");
    for letter in value.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML 1.0 has no other control characters, not even escaped.
            '\t' | '\n' => out.push(letter),
            control if control.is_control() => out.push('\u{FFFD}'),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out.push_str("</data>\n");
}
