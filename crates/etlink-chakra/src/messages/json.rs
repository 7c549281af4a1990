//! Converts messages from and to JSON as `chakra_jsonizer` prints it: protobuf's own mapping, one
//! object after another, indented by two spaces. 64-bit integers are strings, enums are names, and
//! default values are omitted.

use super::{ChakraMessage, LossKind, Losses, sink_failed};
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, NodeType};
use crate::read::error::stopped;
use crate::wire::json::{decode_object, json_objects};
use etlink_model::Failure;
use serde::Serialize;
use std::io::{self, Read, Write};

pub(super) fn read_json(
    source: impl Read,
    sink: &mut dyn FnMut(ChakraMessage) -> io::Result<()>,
) -> Result<Losses, Failure> {
    let mut losses = Losses::default();
    let mut objects = json_objects(source);
    let mut is_first = true;
    while let Some(object) = objects.next() {
        let is_metadata = std::mem::take(&mut is_first);
        match object {
            Ok(object) => match decode_object(object.get(), is_metadata) {
                Ok(message) => sink(message).map_err(sink_failed)?,
                Err(_) => losses.add(LossKind::Undecodable, 1),
            },
            Err(error) if error.is_io() => {
                let offset = objects.byte_offset() as u64;
                return Err(stopped(offset, error.into()));
            }
            Err(_) => losses.add(LossKind::CutTail, 1),
        }
    }
    Ok(losses)
}

/// Writes a message. Values that JSON cannot represent are removed from their attributes and
/// counted.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_json(
    message: ChakraMessage,
    out: &mut impl Write,
    losses: &mut Losses,
) -> io::Result<()> {
    match message {
        ChakraMessage::Metadata(mut metadata) => {
            clear_not_finite(&mut metadata.attr, losses);
            write_object(&metadata, out)
        }
        ChakraMessage::Node(mut node) => {
            clear_not_finite(&mut node.attr, losses);
            if NodeType::try_from(node.r#type).is_err() {
                node.r#type = NodeType::InvalidNode as i32;
                losses.add(LossKind::UnknownType, 1);
            }
            write_object(&node, out)
        }
    }
}

fn write_object(object: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, object)?;
    // `chakra_jsonizer` writes no line breaks between objects, but lines are easier to find.
    out.write_all(b"\n")
}

fn clear_not_finite(attributes: &mut [AttributeProto], losses: &mut Losses) {
    for attribute in attributes {
        let is_finite = match &attribute.value {
            Some(Value::DoubleVal(number)) => number.is_finite(),
            Some(Value::FloatVal(number)) => number.is_finite(),
            Some(Value::DoubleList(list)) => list.values.iter().all(|number| number.is_finite()),
            Some(Value::FloatList(list)) => list.values.iter().all(|number| number.is_finite()),
            _ => true,
        };
        if !is_finite {
            attribute.value = None;
            losses.add(LossKind::NotFinite, 1);
        }
    }
}
