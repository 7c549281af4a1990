//! Trace files as complete messages of Chakra's schema.
//!
//! ```text
//! .et ──────────────┐                              ┌──> .et
//!                   ├─> for_each_message ─> sink ──┤
//! jsonizer's JSON ──┘                              └──> jsonizer's JSON
//! ```
//! [`read`](crate::read) keeps the parts of a file that graphs, checks and figures need. A file
//! that is written again needs everything: attributes of any name and type, arguments,
//! documentation texts. Messages are processed one at a time, so memory does not grow with the
//! file. Data of a message that the schema does not have, or that cannot be decoded, is counted in
//! [`Losses`].

mod json;
mod loss;
mod minimal;
mod protobuf;

#[cfg(test)]
mod tests;

pub use crate::wire::json::ChakraMessage;
pub use json::write_json;
pub use loss::{LossKind, Losses};
pub use minimal::{is_minimal, to_minimal};
pub use protobuf::write_et;

use crate::et::attributes::{NS, joined_times};
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node};
use crate::read::error::{not_chakra, stopped};
use crate::read::{FileKind, SNIFF_BYTES, sniff};
use etlink_model::Failure;
use std::io::{self, Read};

/// Returns the failure of a sink.
fn sink_failed(cause: io::Error) -> Failure {
    Failure::new("the messages cannot be passed on").because(cause)
}

/// Reads a `.et` or jsonizer's JSON, already decompressed, and passes each message to `sink`.
/// Returns the losses.
///
/// # Errors
/// Fails if the source fails or has neither format, or if `sink` fails.
pub fn for_each_message(
    mut source: impl Read,
    sink: &mut dyn FnMut(ChakraMessage) -> io::Result<()>,
) -> Result<Losses, Failure> {
    let mut head = vec![];
    let wanted = SNIFF_BYTES as u64;
    let read = source.by_ref().take(wanted).read_to_end(&mut head);
    read.map_err(|source| stopped(0, source))?;
    let kind = sniff(&head);
    let whole = head.as_slice().chain(source);
    match kind {
        FileKind::ChakraEt => protobuf::read_et(whole, sink),
        FileKind::ChakraJson => json::read_json(whole, sink),
        kind => Err(not_chakra(kind)),
    }
}

/// Returns exact start and duration of a node in nanoseconds; `None` if its attributes do not state
/// them.
pub fn exact_times(node: &Node) -> Option<(i64, i64)> {
    let value_of = |name| AttributeProto::find(&node.attr, name);
    match value_of(NS) {
        Some(Value::Int64List(ns)) => joined_times(node.start_time_micros, &ns.values),
        _ => match (value_of("start_ns")?, value_of("duration_ns")?) {
            (Value::Int64Val(start), Value::Int64Val(duration)) => Some((*start, *duration)),
            _ => None,
        },
    }
}

/// All messages of a file, in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChakraMessages {
    /// Metadata before the nodes.
    pub metadata: GlobalMetadata,
    /// Nodes in file order.
    pub nodes: Vec<Node>,
}

impl ChakraMessages {
    /// Reads a complete file, like [`for_each_message`].
    ///
    /// # Errors
    /// Fails like [`for_each_message`].
    pub fn read(source: impl Read) -> Result<(ChakraMessages, Losses), Failure> {
        let mut all = ChakraMessages::default();
        let losses = for_each_message(source, &mut |message| {
            all.push(message);
            Ok(())
        })?;
        Ok((all, losses))
    }

    /// Adds the next message of a file.
    pub fn push(&mut self, message: ChakraMessage) {
        match message {
            ChakraMessage::Metadata(metadata) => self.metadata = metadata,
            ChakraMessage::Node(node) => self.nodes.push(*node),
        }
    }

    /// Returns the file as Chakra protobuf.
    pub fn to_et(&self) -> Vec<u8> {
        let mut bytes = vec![];
        protobuf::append(&mut bytes, &self.metadata);
        for node in &self.nodes {
            protobuf::append(&mut bytes, node);
        }
        bytes
    }
}
