//! Reads messages from JSON as `chakra_jsonizer` prints it: one object after another.

use crate::proto::{GlobalMetadata, Node};
use serde_json::de::IoRead;
use serde_json::value::RawValue;
use serde_json::{Deserializer, StreamDeserializer};
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
