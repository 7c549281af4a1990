//! Builds the graph of one rank, node by node.

use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, CollectiveCommType, GlobalMetadata, Node, NodeType};

/// Id of a node, assigned by its rank's builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Builder for the nodes of one rank. Ids ascend from 0 in the order of the calls. A node can wait
/// only for earlier ones, so there are no cycles.
#[derive(Clone, Debug, Default)]
pub struct WorkloadBuilder {
    nodes: Vec<Node>,
}

impl WorkloadBuilder {
    /// Adds a computation on the device.
    pub fn add_computation(&mut self, name: &str, micros: u64, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CompNode, deps);
        self.set_duration(micros);
        id
    }

    /// Sets the duration of the last added node.
    pub fn set_duration(&mut self, micros: u64) {
        if let Some(node) = self.nodes.last_mut() {
            node.duration_micros = micros;
        }
    }

    /// Adds a collective of a group in `comm_group.json`, or of all ranks.
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

    /// Adds a message to another rank.
    pub fn add_send(&mut self, name: &str, message: Message, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CommSendNode, deps);
        self.add_message(message);
        id
    }

    /// Adds a message from another rank.
    pub fn add_receive(&mut self, name: &str, message: Message, deps: &[NodeId]) -> NodeId {
        let id = self.push(name, NodeType::CommRecvNode, deps);
        self.add_message(message);
        id
    }

    /// Finishes the graph. Its metadata states the number of nodes, so that truncated files are
    /// detected.
    pub fn finish(self, attributes: &[(&str, &str)]) -> ChakraMessages {
        let mut attr: Vec<AttributeProto> = attributes
            .iter()
            .map(|(name, text)| AttributeProto::new(name, Value::StringVal((*text).to_owned())))
            .collect();
        attr.push(AttributeProto::new(
            "writer",
            Value::StringVal(WRITER.to_owned()),
        ));
        let count = self.nodes.len() as u64;
        attr.push(AttributeProto::new("node_count", Value::Uint64Val(count)));
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
            // ASTRA-sim assumes a device node if the attribute is missing; other readers require it
            attr: vec![AttributeProto::new("is_cpu_op", Value::BoolVal(false))],
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
            // type expected by Chakra's first feeder
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
            node.attr.push(AttributeProto::new(name, value));
        }
    }
}

/// Version of the Chakra schema that the nodes follow.
const SCHEMA_VERSION: &str = "0.0.4";
/// Program name and version in written files.
const WRITER: &str = concat!("etlink ", env!("CARGO_PKG_VERSION"));

/// A message between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank that sends.
    pub source: u32,
    /// The rank that receives.
    pub destination: u32,
    /// Tag of the message.
    pub tag: u32,
    /// Size of the message, bytes.
    pub bytes: u64,
}
