//! Reads messages from JSON as `chakra_jsonizer` prints it: one object after another.

use crate::proto::{GlobalMetadata, Node, NodeType};
use serde_json::de::IoRead;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, StreamDeserializer, Value};
use std::io::{BufReader, Read};

/// A message of a trace file.
#[derive(Clone, Debug, PartialEq)]
pub enum ChakraMessage {
    /// Metadata before the nodes.
    Metadata(GlobalMetadata),
    /// A node.
    Node(Box<Node>),
}

/// Returns the objects of a stream as text, up to the first that is not JSON.
pub(crate) fn json_objects<R: Read>(
    source: R,
) -> StreamDeserializer<'static, IoRead<BufReader<R>>, Box<RawValue>> {
    Deserializer::from_reader(BufReader::with_capacity(1 << 16, source)).into_iter()
}

/// Fields of nodes, in the spelling of the schema and in that of JSON.
const NODE_FIELDS: [&str; 14] = [
    "id",
    "name",
    "type",
    "ctrl_deps",
    "ctrlDeps",
    "data_deps",
    "dataDeps",
    "start_time_micros",
    "startTimeMicros",
    "duration_micros",
    "durationMicros",
    "inputs",
    "outputs",
    "attr",
];

/// Decodes a message of a later schema by the fields that this schema has. A node of an unknown type
/// is an invalid node.
pub(crate) fn decode_known_fields(
    object: &str,
    is_first: bool,
) -> Result<ChakraMessage, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_str(object)?;
    let is_node = ["id", "name", "type"]
        .iter()
        .any(|name| fields.contains_key(*name));
    if is_first && !is_node {
        fields.retain(|name, _| matches!(name.as_str(), "version" | "attr"));
        let metadata = serde_json::from_value(Value::Object(fields))?;
        return Ok(ChakraMessage::Metadata(metadata));
    }
    fields.retain(|name, _| NODE_FIELDS.contains(&name.as_str()));
    let kind = fields.get("type").and_then(Value::as_str);
    if kind.is_some_and(|name| NodeType::from_str_name(name).is_none()) {
        fields.remove("type");
    }
    let node: Node = serde_json::from_value(Value::Object(fields))?;
    Ok(ChakraMessage::Node(Box::new(node)))
}

/// Decodes a message. The first object is metadata unless it has fields of a node.
pub(crate) fn decode_object(
    object: &str,
    is_first: bool,
) -> Result<ChakraMessage, serde_json::Error> {
    if is_first && let Ok(metadata) = serde_json::from_str::<GlobalMetadata>(object) {
        return Ok(ChakraMessage::Metadata(metadata));
    }
    let node: Node = serde_json::from_str(object)?;
    Ok(ChakraMessage::Node(Box::new(node)))
}
