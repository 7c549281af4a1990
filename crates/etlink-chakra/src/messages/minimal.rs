//! Reduces messages to what simulators read: `--attrs minimal` for existing files.

use super::ChakraMessage;
use super::loss::{LossKind, Losses};
use crate::AttributeSet;
use crate::et::attributes::ATTRIBUTE_SET;
use crate::et::shared_texts::{ARGUMENT_TYPES, OP_SCHEMAS};
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node};

/// Attributes that Chakra's feeders and ASTRA-sim read.
// See `et_feeder_node.cpp` and `Workload.cc`.
const READ_BY_SIMULATORS: [&str; 10] = [
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_priority",
    "pg_name",
];

/// Reduces a message to what simulators read, and counts the nodes that had more.
pub fn to_minimal(message: ChakraMessage, losses: &mut Losses) -> ChakraMessage {
    match message {
        ChakraMessage::Metadata(metadata) => ChakraMessage::Metadata(minimal_metadata(metadata)),
        ChakraMessage::Node(mut node) => {
            let had_more = node.start_time_micros != 0
                || node.inputs.is_some()
                || node.outputs.is_some()
                || node.attr.iter().any(|attr| !is_read(attr));
            losses.add(LossKind::AttributesNotChosen, u64::from(had_more));
            node.attr.retain(is_read);
            ChakraMessage::Node(Box::new(Node {
                start_time_micros: 0,
                inputs: None,
                outputs: None,
                ..*node
            }))
        }
    }
}

fn is_read(attribute: &AttributeProto) -> bool {
    READ_BY_SIMULATORS.contains(&&attribute.name[..])
}

fn minimal_metadata(mut metadata: GlobalMetadata) -> GlobalMetadata {
    // Lists of texts that no node refers to any longer.
    let is_list = |name: &str| [OP_SCHEMAS, ARGUMENT_TYPES].contains(&name);
    metadata.attr.retain(|attr| !is_list(&attr.name));
    let set = Value::StringVal(AttributeSet::Minimal.name().to_owned());
    AttributeProto::set(&mut metadata.attr, ATTRIBUTE_SET, set);
    metadata
}

/// Returns true if a file states that it contains only what simulators read.
pub fn is_minimal(metadata: &GlobalMetadata) -> bool {
    let minimal = Value::StringVal(AttributeSet::Minimal.name().to_owned());
    AttributeProto::find(&metadata.attr, ATTRIBUTE_SET) == Some(&minimal)
}
