//! A graph of one rank, node by node.

use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, CollectiveCommType, GlobalMetadata, Node, NodeType};

/// The id of a node, which its rank's builder gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Nodes of one rank. Ids ascend from 0 in the order of the calls: a node can wait for earlier ones
/// alone, so that there is no cycle.
#[derive(Clone, Debug, Default)]
pub struct WorkloadBuilder {
    nodes: Vec<Node>,
}

impl WorkloadBuilder {
    /// A calculation on the device.
    pub fn add_computation(&mut self, name: &str, micros: u64, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CompNode, deps);
        self.set_duration(micros);
        id
    }

    /// Sets how long the node that was added last takes.
    pub fn set_duration(&mut self, micros: u64) {
        if let Some(node) = self.nodes.last_mut() {
            node.duration_micros = micros;
        }
    }

    /// A collective of a group of `comm_group.json`, or of all ranks.
    pub fn add_collective(
        &mut self,
        name: &str,
        kind: CollectiveCommType,
        bytes: u64,
        group: Option<u32>,
        deps: &[NodeId],
    ) -> NodeId {
        let id = self.push(name, NodeType::CommCollNode, deps);
        self.add_int("comm_type", i64::from(kind as i32));
        self.add_int("comm_size", bytes.cast_signed());
        if let Some(group) = group {
            self.add_attribute("pg_name", Value::StringVal(group.to_string()));
        }
        id
    }

    /// A message to another rank.
    pub fn add_send(&mut self, name: &str, message: Message, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CommSendNode, deps);
        self.add_message(message);
        id
    }

    /// A message from another rank.
    pub fn add_receive(&mut self, name: &str, message: Message, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CommRecvNode, deps);
        self.add_message(message);
        id
    }

    /// The node that was added last, if one was.
    pub fn last(&self) -> Option<NodeId> {
        Some(NodeId(self.nodes.last()?.id))
    }

    /// The graph. Its metadata says how many nodes it has, so that a cut file is known.
    pub fn finish(self, attributes: &[(&str, &str)]) -> ChakraMessages {
        let mut attr: Vec<AttributeProto> = attributes
            .iter()
            .map(|(name, text)| attribute(name, Value::StringVal((*text).to_owned())))
            .collect();
        attr.push(attribute("writer", Value::StringVal(WRITER.to_owned())));
        let count = self.nodes.len() as u64;
        attr.push(attribute("node_count", Value::Uint64Val(count)));
        ChakraMessages {
            metadata: GlobalMetadata {
                version: SCHEMA_VERSION.to_owned(),
                attr,
            },
            nodes: self.nodes,
        }
    }

    fn push(&mut self, name: &str, kind: NodeType, deps: &[NodeId]) -> NodeId {
        let id = self.nodes.len() as u64;
        let mut data_deps: Vec<u64> = deps.iter().map(|dep| dep.0).collect();
        data_deps.sort_unstable();
        data_deps.dedup();
        self.nodes.push(Node {
            id,
            name: name.to_owned(),
            r#type: kind as i32,
            data_deps,
            // ASTRA-sim takes a node without it for a device's, other readers want it
            attr: vec![attribute("is_cpu_op", Value::BoolVal(false))],
            ..Node::default()
        });
        NodeId(id)
    }

    fn add_message(&mut self, message: Message) {
        for (name, number) in [
            ("comm_src", message.source),
            ("comm_dst", message.destination),
            ("comm_tag", message.tag),
        ] {
            // the type that Chakra's first feeder asks for
            let number = i32::try_from(number).unwrap_or(i32::MAX);
            self.add_attribute(name, Value::Int32Val(number));
        }
        self.add_int("comm_size", message.bytes.cast_signed());
    }

    fn add_int(&mut self, name: &str, number: i64) {
        self.add_attribute(name, Value::Int64Val(number));
    }

    fn add_attribute(&mut self, name: &str, value: Value) {
        if let Some(node) = self.nodes.last_mut() {
            node.attr.push(attribute(name, value));
        }
    }
}

/// Version of the Chakra schema that the nodes follow.
const SCHEMA_VERSION: &str = "0.0.4";
/// Who wrote the file.
const WRITER: &str = concat!("etlink ", env!("CARGO_PKG_VERSION"));

/// A message between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank that sends.
    pub source: u32,
    /// The rank that receives.
    pub destination: u32,
    /// Its tag.
    pub tag: u32,
    /// Its size.
    pub bytes: u64,
}

fn attribute(name: &str, value: Value) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        doc_string: String::new(),
        value: Some(value),
    }
}
