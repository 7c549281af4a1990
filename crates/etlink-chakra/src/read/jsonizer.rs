//! Reads what `chakra_jsonizer` prints: the messages of a file as protobuf JSON, one object
//! after the other. Integers of 64 bits are strings there, enums are their names.

use super::{FileKind, Graph, GraphNode, Place, ReadError};
use crate::finding::{Example, FindingKind};
use crate::proto::NodeType;
use etlink_model::TrackLabel;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::{BufReader, Read};

/// A number, quoted or not.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Number {
    Int(i64),
    Text(String),
    Other(IgnoredAny),
    #[default]
    Absent,
}

impl Number {
    fn int(&self) -> Option<i64> {
        match self {
            Number::Int(number) => Some(*number),
            Number::Text(text) => text
                .parse()
                .ok()
                .or_else(|| Some(text.parse::<u64>().ok()?.cast_signed())),
            Number::Other(_) | Number::Absent => None,
        }
    }

    fn id(&self) -> u64 {
        self.int().unwrap_or_default().cast_unsigned()
    }
}

/// Metadata or a node; metadata has only attributes and a version.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Message {
    version: Option<String>,
    id: Number,
    name: String,
    r#type: Option<String>,
    ctrl_deps: Vec<Number>,
    data_deps: Vec<Number>,
    start_time_micros: Number,
    duration_micros: Number,
    attr: Vec<Attr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Attr {
    name: String,
    #[serde(
        alias = "int32Val",
        alias = "uint32Val",
        alias = "uint64Val",
        alias = "sint64Val",
        alias = "sint32Val"
    )]
    int64_val: Number,
    bool_val: Option<bool>,
    string_val: Option<String>,
}

pub(crate) fn read_jsonizer(source: impl Read) -> Result<Graph, ReadError> {
    let mut graph = Graph {
        format: FileKind::ChakraJson,
        ..Graph::default()
    };
    let mut messages =
        serde_json::Deserializer::from_reader(BufReader::new(source)).into_iter::<Message>();
    let mut first = true;
    while let Some(message) = messages.next() {
        let offset = messages.byte_offset() as u64;
        match message {
            Ok(message) if std::mem::take(&mut first) && message.r#type.is_none() => {
                metadata(&mut graph, message)
            }
            Ok(message) => node(&mut graph, &message),
            Err(error) => {
                let kind = if error.is_eof() {
                    FindingKind::Truncated
                } else {
                    FindingKind::Undecodable
                };
                graph.findings.note(kind, || Example {
                    offset: Some(offset),
                    detail: error.to_string(),
                    ..Example::default()
                });
                break;
            }
        }
    }
    graph.bytes = messages.byte_offset() as u64;
    Ok(graph)
}

fn metadata(graph: &mut Graph, message: Message) {
    graph.metadata.extend(
        message
            .version
            .map(|version| ("version".to_owned(), version)),
    );
    for attr in message.attr {
        let number = || attr.int64_val.int().map(|number| number.to_string());
        let flag = || attr.bool_val.map(|flag| flag.to_string());
        let value = attr.string_val.clone().or_else(number).or_else(flag);
        graph.metadata.push((attr.name, value.unwrap_or_default()));
    }
}

fn node(graph: &mut Graph, message: &Message) {
    let find = |name: &str| message.attr.iter().find(|attr| attr.name == name);
    let number = |name: &str| find(name)?.int64_val.int();
    let text = |name: &str| find(name)?.string_val.as_deref();
    let micros = |number: &Number| number.int().and_then(|us| us.checked_mul(1000));
    let node_type = message.r#type.as_deref().and_then(NodeType::from_str_name);
    let mut node = GraphNode {
        id: message.id.id(),
        node_type: node_type.unwrap_or(NodeType::InvalidNode),
        name: &message.name,
        kind: text("kind").unwrap_or_default(),
        start_ns: number("start_ns").or_else(|| micros(&message.start_time_micros)),
        duration_ns: number("duration_ns")
            .or_else(|| micros(&message.duration_micros))
            .unwrap_or_default(),
        inclusive_ns: None,
        latency_ns: number("latency_ns"),
        correlation: number("correlation"),
        place: Place {
            pid: None,
            tid: None,
            device: number("device"),
            stream: number("stream"),
        },
        is_cpu_op: find("is_cpu_op").and_then(|attr| attr.bool_val),
        comm: super::CommAttrs {
            comm_type: number("comm_type"),
            size: number("comm_size"),
            src: number("comm_src"),
            dst: number("comm_dst"),
            tag: number("comm_tag"),
            group: None,
        },
        transfer_of: number("transfer_of"),
    };
    for (label, name) in [(&mut node.place.pid, "pid"), (&mut node.place.tid, "tid")] {
        *label = number(name)
            .map(TrackLabel::Int)
            .or_else(|| Some(TrackLabel::Text(graph.names.intern(text(name)?))));
    }
    node.comm.group = text("pg_name").map(|group| graph.names.intern(group));
    let ids = |list: &[Number]| list.iter().map(Number::id).collect::<Vec<u64>>();
    graph.push(&node, &ids(&message.ctrl_deps), &ids(&message.data_deps));
}
