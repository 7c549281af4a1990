//! Converts messages from and to varint-delimited protobuf.

use super::{ChakraMessage, LossKind, Losses, sink_failed};
use crate::et::metadata::NODE_COUNT;
use crate::et::{MessageReader, NextMessage, is_metadata};
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node};
use etlink_model::Failure;
use prost::Message;
use prost::encoding::encode_varint;
use std::io::{self, Read, Write};

pub(super) fn read_et(
    source: impl Read,
    sink: &mut dyn FnMut(ChakraMessage) -> io::Result<()>,
) -> Result<Losses, Failure> {
    let mut losses = Losses::default();
    let mut messages = MessageReader::new(source);
    let mut bytes = vec![];
    let (mut is_first, mut stated, mut nodes) = (true, None, 0);
    loop {
        match messages.next(&mut bytes)? {
            NextMessage::End => break,
            NextMessage::Cut(_) => {
                losses.add(LossKind::CutTail, 1);
                break;
            }
            NextMessage::Message => {}
        }
        let message = if std::mem::take(&mut is_first) && is_metadata(&bytes) {
            decode::<GlobalMetadata>(&bytes, &mut losses).map(ChakraMessage::Metadata)
        } else {
            decode::<Node>(&bytes, &mut losses).map(|node| ChakraMessage::Node(Box::new(node)))
        };
        match &message {
            Some(ChakraMessage::Metadata(metadata)) => stated = stated_nodes(metadata),
            // A node that cannot be decoded counts here too; it is counted as undecodable.
            _ => nodes += 1,
        }
        if let Some(message) = message {
            sink(message).map_err(sink_failed)?;
        }
    }
    let missing = stated.map_or(0, |stated: u64| stated.saturating_sub(nodes));
    losses.add(LossKind::MissingNode, missing);
    Ok(losses)
}

/// Returns the number of nodes that a file states.
fn stated_nodes(metadata: &GlobalMetadata) -> Option<u64> {
    match AttributeProto::find(&metadata.attr, NODE_COUNT)? {
        Value::Uint64Val(count) => Some(*count),
        _ => None,
    }
}

/// Decodes a message and counts data that the schema does not have.
fn decode<M: Message + Default>(bytes: &[u8], losses: &mut Losses) -> Option<M> {
    let Ok(message) = M::decode(bytes) else {
        losses.add(LossKind::Undecodable, 1);
        return None;
    };
    // prost drops unknown fields, which makes the message shorter.
    let is_whole = message.encoded_len() >= bytes.len();
    losses.add(LossKind::UnknownField, u64::from(!is_whole));
    Some(message)
}

/// Writes a length-delimited message.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_et(message: &ChakraMessage, out: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![];
    match message {
        ChakraMessage::Metadata(metadata) => append(&mut bytes, metadata),
        ChakraMessage::Node(node) => append(&mut bytes, node.as_ref()),
    }
    out.write_all(&bytes)
}

/// Appends a length-delimited message.
pub(super) fn append(bytes: &mut Vec<u8>, message: &impl Message) {
    encode_varint(message.encoded_len() as u64, bytes);
    bytes.extend(message.encode_to_vec());
}
