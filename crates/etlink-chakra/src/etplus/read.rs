//! Reads ET+ JSON and plain host traces: the op tree, with times if there are any.
//!
//! `ctrl_deps` (1.0.1: `parent`) is the parent's id. Missing keys and attributes that
//! `chakra_converter` and et_replay require are reported.

use crate::finding::{FindingExample, FindingKind};
use crate::proto::NodeType;
use crate::read::error::no_nodes;
use crate::read::graph::{ChakraGraph, FileKind, GraphNode, NodePlacement};
use etlink_json::{
    ArrayEnvelope, ArrayLayout, BrokenJson, JsonScanner, JsonValue, ReadDamage, read_elements,
    scan_fields,
};
use etlink_model::{Failure, HostVersion, TrackLabel};
use std::io::Read;

/// Elements all begin with the same key as the first one: `id`, in 1.0.1 `name`.
const LAYOUT: ArrayLayout = ArrayLayout {
    array: "nodes",
    first_keys: &[],
    chunk_bytes: 1 << 20,
};
const DOCUMENT_KEYS: [&str; 5] = ["schema", "pid", "time", "start_ts", "finish_ts"];
const NODE_KEYS: [&str; 6] = ["id", "name", "ctrl_deps", "inputs", "outputs", "attrs"];
const NODE_ATTRS: [&str; 7] = [
    "rf_id",
    "fw_parent",
    "seq_id",
    "scope",
    "tid",
    "fw_tid",
    "op_schema",
];

/// `RecordScope::USER_SCOPE`: a range that the program named.
const USER_SCOPE: i64 = 7;

/// One entry of the array.
#[derive(Default)]
struct TreeElement {
    id: u64,
    parent: Option<u64>,
    name: String,
    on_device: bool,
    start_ns: Option<i64>,
    exclusive_ns: Option<i64>,
    inclusive_ns: Option<i64>,
    correlation: Option<i64>,
    place: NodePlacement,
    scope: Option<i64>,
    deps: Vec<u64>,
    keys: Vec<&'static str>,
    attrs: Vec<&'static str>,
}

pub(crate) fn read_etplus(source: impl Read + Send) -> Result<ChakraGraph, Failure> {
    let mut graph = ChakraGraph {
        format: FileKind::HostTrace,
        ..ChakraGraph::default()
    };
    let envelope = read_elements(source, LAYOUT, 1, parse_element, |part| {
        part.drain(..)
            .for_each(|element| push_element(&mut graph, &element));
    })
    .map_err(|error| no_nodes(&error))?;
    read_document(&mut graph, &envelope);
    note_damage(&mut graph, &envelope.damage);
    graph.bytes = envelope.bytes;
    Ok(graph)
}

fn parse_element(
    part: &mut Vec<TreeElement>,
    scanner: &mut JsonScanner<'_>,
) -> Result<(), BrokenJson> {
    part.push(read_element(scanner)?);
    Ok(())
}

fn read_element(scanner: &mut JsonScanner<'_>) -> Result<TreeElement, BrokenJson> {
    let mut element = TreeElement::default();
    while let Some(key) = scanner.key()? {
        let value = scanner.value()?;
        mark_seen(&NODE_KEYS, key, &mut element.keys);
        mark_seen(&NODE_ATTRS, key, &mut element.attrs);
        match key {
            b"id" => element.id = value.uint().unwrap_or_default(),
            b"name" => element.name = value.text().into_owned(),
            b"ctrl_deps" => element.parent = value.uint(),
            b"parent" => {
                element.parent = value.uint();
                // Schema 1.0.1 has its attributes as keys.
                element.keys.extend(["ctrl_deps", "attrs"]);
            }
            // `chakra_trace_link` gives only device rows a category.
            b"cat" => element.on_device = true,
            b"ts" => element.start_ns = value.time_ns(),
            b"exclusive_dur" => element.exclusive_ns = value.time_ns(),
            b"inclusive_dur" => element.inclusive_ns = value.time_ns(),
            b"correlation" => element.correlation = value.int(),
            b"stream" => element.place.stream = value.int(),
            b"device" => element.place.device = value.int(),
            b"scope" => element.scope = value.int(),
            b"inter_thread_dep" => element.deps.extend(value.uint()),
            b"sync_dep" => read_ids(value, &mut element.deps)?,
            b"attrs" => read_attrs(value, &mut element)?,
            _ => {}
        }
    }
    Ok(element)
}

/// Records `key` as seen if it is one of `wanted`.
fn mark_seen(wanted: &[&'static str], key: &[u8], seen: &mut Vec<&'static str>) {
    if let Some(known) = wanted.iter().find(|known| known.as_bytes() == key) {
        seen.push(known);
    }
}

fn read_ids(list: JsonValue<'_>, out: &mut Vec<u64>) -> Result<(), BrokenJson> {
    let mut items = JsonScanner::new(list.raw());
    if items.eat(b'[') {
        while let Some(item) = items.item()? {
            out.extend(item.uint());
        }
    }
    Ok(())
}

fn read_attrs(list: JsonValue<'_>, element: &mut TreeElement) -> Result<(), BrokenJson> {
    let mut items = JsonScanner::new(list.raw());
    if !items.eat(b'[') {
        return Ok(());
    }
    while let Some(item) = items.item()? {
        let JsonValue::Nested(object) = item else {
            continue;
        };
        let mut fields = JsonScanner::new(object);
        fields.enter()?;
        let (mut is_thread, mut is_scope) = (false, false);
        while let Some(key) = fields.key()? {
            let value = fields.value()?;
            match key {
                // The members of an attribute appear in the order name, type, value, as PyTorch
                // writes them.
                b"name" => {
                    is_thread = value.raw() == b"tid";
                    is_scope = value.raw() == b"scope";
                    mark_seen(&NODE_ATTRS, value.raw(), &mut element.attrs);
                }
                b"value" if is_thread => element.place.tid = value.int().map(TrackLabel::Int),
                b"value" if is_scope => element.scope = value.int(),
                _ => {}
            }
        }
    }
    Ok(())
}

fn push_element(graph: &mut ChakraGraph, element: &TreeElement) {
    for (kind, wanted, seen) in [
        (FindingKind::MissingKey, &NODE_KEYS[..], &element.keys),
        (FindingKind::MissingAttr, &NODE_ATTRS[..], &element.attrs),
    ] {
        let missing = missing_keys(wanted, seen);
        if !missing.is_empty() {
            graph.findings.note(kind, || FindingExample {
                id: Some(element.id),
                name: element.name.clone(),
                offset: None,
                detail: missing,
                ..FindingExample::default()
            });
        }
    }
    // A plain host trace has no times at all, so a single node with a time distinguishes the two.
    if element.on_device || element.exclusive_ns.is_some() || element.start_ns.is_some() {
        graph.format = FileKind::EtPlus;
    }
    let node = GraphNode {
        id: element.id,
        node_type: NodeType::CompNode,
        name: &element.name,
        kind: if element.on_device {
            "device_op"
        } else {
            "host_op"
        },
        start_ns: element.start_ns,
        // The root of a thread has a duration, that of time outside all ops, but no place in time.
        duration_ns: element
            .start_ns
            .and(element.exclusive_ns)
            .unwrap_or_default(),
        inclusive_ns: element.inclusive_ns,
        correlation: element.correlation,
        // A device row has the thread of its op.
        place: if element.on_device {
            NodePlacement {
                tid: None,
                ..element.place
            }
        } else {
            element.place
        },
        is_cpu_op: Some(!element.on_device),
        ..GraphNode::default()
    };
    if element.scope == Some(USER_SCOPE) {
        graph.annotations.insert(graph.len() as u32);
    }
    graph.push(&node, element.parent.as_slice(), &element.deps);
}

fn missing_keys(wanted: &[&str], seen: &[&str]) -> String {
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|key| !seen.contains(key))
        .collect();
    missing.join(", ")
}

/// Reads the text around the nodes.
fn read_document(graph: &mut ChakraGraph, envelope: &ArrayEnvelope) {
    // Fields before and after the nodes are equivalent: writers differ in where they put them.
    let metadata = &mut graph.metadata;
    let mut field = |key: &[u8], value: JsonValue<'_>| {
        metadata.push((
            String::from_utf8_lossy(key).into_owned(),
            value.text().into_owned(),
        ));
    };
    scan_fields(&envelope.header, &mut field);
    scan_fields(&envelope.trailer, &mut field);
    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key.as_str()).collect();
    for key in DOCUMENT_KEYS.iter().filter(|key| !keys.contains(key)) {
        graph
            .findings
            .note(FindingKind::MissingKey, || FindingExample::described(*key));
    }
    let schema = metadata
        .iter()
        .find(|(key, _)| key == "schema")
        .map(|(_, value)| value.clone());
    if let Some(schema) = schema
        && HostVersion::find_converted(&schema).is_none()
    {
        graph.findings.note(FindingKind::UnknownSchema, || {
            FindingExample::described(schema)
        });
    }
}

fn damage_example(damage: &ReadDamage, detail: &str) -> FindingExample {
    FindingExample {
        offset: damage.first_offset,
        detail: detail.to_owned(),
        ..FindingExample::default()
    }
}

fn note_damage(graph: &mut ChakraGraph, damage: &ReadDamage) {
    if damage.truncated || damage.source_error.is_some() {
        let detail = damage
            .source_error
            .as_deref()
            .unwrap_or("the node list is not closed");
        graph
            .findings
            .note(FindingKind::Truncated, || FindingExample::described(detail));
    }
    graph
        .findings
        .add(FindingKind::Undecodable, damage.skipped, || {
            damage_example(damage, "not JSON")
        });
    graph
        .findings
        .add(FindingKind::Undecodable, damage.not_objects, || {
            damage_example(damage, "not an object")
        });
    graph
        .findings
        .add(FindingKind::Repaired, damage.repaired, || {
            damage_example(damage, "quotes in a string")
        });
}
