//! Reads what `chakra_jsonizer` prints: the messages of a file as protobuf JSON, one object
//! after the other. Integers of 64 bits are strings there, enums are their names.

use crate::finding::{FindingExample, FindingKind};
use crate::proto::NodeType;
use crate::read::error::ChakraReadError;
use crate::read::graph::{ChakraGraph, FileKind, GraphNode, NodePlacement};
use etlink_model::TrackLabel;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::{BufReader, Read};

/// A number, quoted or not.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Int(i64),
    Text(String),
    Other(IgnoredAny),
    #[default]
    Absent,
}

impl JsonNumber {
    fn int(&self) -> Option<i64> {
        match self {
            JsonNumber::Int(number) => Some(*number),
            JsonNumber::Text(text) => text
                .parse()
                .ok()
                // Ids are unsigned: one above 2^63 comes back as the same 64 bits.
                .or_else(|| Some(text.parse::<u64>().ok()?.cast_signed())),
            JsonNumber::Other(_) | JsonNumber::Absent => None,
        }
    }

    /// A number of microseconds as nanoseconds; `None` where those are more than 64 bits hold.
    fn micros_as_ns(&self) -> Option<i64> {
        self.int()?.checked_mul(1000)
    }

    fn id(&self) -> u64 {
        self.int().unwrap_or_default().cast_unsigned()
    }
}

/// Metadata or a node; metadata has only attributes and a version.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonMessage {
    version: Option<String>,
    id: JsonNumber,
    name: String,
    r#type: Option<String>,
    ctrl_deps: Vec<JsonNumber>,
    data_deps: Vec<JsonNumber>,
    start_time_micros: JsonNumber,
    duration_micros: JsonNumber,
    attr: Vec<JsonAttr>,
}

impl JsonMessage {
    fn attr(&self, name: &str) -> Option<&JsonAttr> {
        self.attr.iter().find(|attr| attr.name == name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.attr(name)?.int64_val.int()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.attr(name)?.string_val.as_deref()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonAttr {
    name: String,
    #[serde(
        alias = "int32Val",
        alias = "uint32Val",
        alias = "uint64Val",
        alias = "sint64Val",
        alias = "sint32Val"
    )]
    int64_val: JsonNumber,
    bool_val: Option<bool>,
    string_val: Option<String>,
}

pub(crate) fn read_jsonizer(source: impl Read) -> Result<ChakraGraph, ChakraReadError> {
    let mut graph = ChakraGraph {
        format: FileKind::ChakraJson,
        ..ChakraGraph::default()
    };
    let mut messages =
        serde_json::Deserializer::from_reader(BufReader::new(source)).into_iter::<JsonMessage>();
    let mut first = true;
    while let Some(message) = messages.next() {
        let offset = messages.byte_offset() as u64;
        match message {
            // Protobuf JSON has no type names: the first message without `type` is the metadata.
            Ok(message) if std::mem::take(&mut first) && message.r#type.is_none() => {
                read_metadata(&mut graph, message)
            }
            Ok(message) => push_node(&mut graph, &message),
            Err(error) => {
                let kind = if error.is_eof() {
                    FindingKind::Truncated
                } else {
                    FindingKind::Undecodable
                };
                graph.findings.note(kind, || FindingExample {
                    offset: Some(offset),
                    detail: error.to_string(),
                    ..FindingExample::default()
                });
                // Behind broken JSON nothing says where the next object begins.
                break;
            }
        }
    }
    graph.bytes = messages.byte_offset() as u64;
    Ok(graph)
}

fn read_metadata(graph: &mut ChakraGraph, message: JsonMessage) {
    graph.metadata.extend(
        message
            .version
            .map(|version| ("version".to_owned(), version)),
    );
    for attr in message.attr {
        let number = attr.int64_val.int().map(|number| number.to_string());
        let flag = attr.bool_val.map(|flag| flag.to_string());
        // lists and floats are not used here
        let value = attr.string_val.or(number).or(flag).unwrap_or_default();
        graph.metadata.push((attr.name, value));
    }
}

fn push_node(graph: &mut ChakraGraph, message: &JsonMessage) {
    // A type that this schema does not have is one of a later Chakra: `check` names the node.
    let node_type = message.r#type.as_deref().and_then(NodeType::from_str_name);
    let mut node = GraphNode {
        id: message.id.id(),
        node_type: node_type.unwrap_or(NodeType::InvalidNode),
        name: &message.name,
        kind: message.text("kind").unwrap_or_default(),
        start_ns: message
            .number("start_ns")
            .or_else(|| message.start_time_micros.micros_as_ns()),
        duration_ns: message
            .number("duration_ns")
            .or_else(|| message.duration_micros.micros_as_ns())
            .unwrap_or_default(),
        inclusive_ns: None,
        latency_ns: message.number("latency_ns"),
        correlation: message.number("correlation"),
        place: NodePlacement {
            pid: None,
            tid: None,
            device: message.number("device"),
            stream: message.number("stream"),
        },
        is_cpu_op: message.attr("is_cpu_op").and_then(|attr| attr.bool_val),
        comm: crate::read::graph::CommAttrs {
            comm_type: message.number("comm_type"),
            size: message.number("comm_size"),
            src: message.number("comm_src"),
            dst: message.number("comm_dst"),
            tag: message.number("comm_tag"),
            group: None,
        },
        transfer_of: message.number("transfer_of"),
    };
    // A process or thread is a number or a text, as in the Kineto file that it comes from.
    for (label, name) in [(&mut node.place.pid, "pid"), (&mut node.place.tid, "tid")] {
        *label = message
            .number(name)
            .map(TrackLabel::Int)
            .or_else(|| Some(TrackLabel::Text(graph.names.intern(message.text(name)?))));
    }
    node.comm.group = message
        .text("pg_name")
        .map(|group| graph.names.intern(group));
    let [ctrl_deps, data_deps] = [&message.ctrl_deps, &message.data_deps]
        .map(|list| list.iter().map(JsonNumber::id).collect::<Vec<u64>>());
    graph.push(&node, &ctrl_deps, &data_deps);
}
