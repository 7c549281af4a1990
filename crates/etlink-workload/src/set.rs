//! The graphs of all ranks of a run, with the ranks of their groups.

use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, NodeType};
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// A run that was made, not recorded.
#[derive(Clone, Debug, Default)]
pub struct WorkloadSet {
    /// The graph of each rank, from 0.
    pub ranks: Vec<ChakraMessages>,
    /// The ranks of groups, by number: what `comm_group.json` has to say.
    pub groups: BTreeMap<u32, Vec<u32>>,
}

impl WorkloadSet {
    /// Whether a node runs on the host.
    pub fn has_host_nodes(&self) -> bool {
        let is_on_host = |attribute: &AttributeProto| {
            attribute.name == "is_cpu_op" && attribute.value == Some(Value::BoolVal(true))
        };
        let mut nodes = self.ranks.iter().flat_map(|rank| &rank.nodes);
        nodes.any(|node| node.attr.iter().any(is_on_host))
    }

    /// Whether a node communicates.
    pub fn communicates(&self) -> bool {
        let mut nodes = self.ranks.iter().flat_map(|rank| &rank.nodes);
        nodes.any(|node| {
            matches!(
                node.r#type(),
                NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode
            )
        })
    }

    /// `comm_group.json`, as ASTRA-sim reads it; `None` where all collectives are of all ranks.
    pub fn group_list(&self) -> Option<String> {
        if self.groups.is_empty() {
            return None;
        }
        let lines: Vec<String> = self
            .groups
            .iter()
            .map(|(number, ranks)| {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                format!("  \"{number}\": [{}]", ranks.join(", "))
            })
            .collect();
        Some(format!("{{\n{}\n}}\n", lines.join(",\n")))
    }
}

/// Numbers of groups: the same ranks have the same number, from 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupNumbers {
    groups: IndexMap<Vec<u32>, ()>,
}

impl GroupNumbers {
    pub(crate) fn number(&mut self, ranks: Vec<u32>) -> u32 {
        let entry = self.groups.entry(ranks);
        let index = entry.index() as u32;
        entry.or_default();
        index + 1
    }

    pub(crate) fn into_groups(self) -> BTreeMap<u32, Vec<u32>> {
        (1..).zip(self.groups.into_keys()).collect()
    }
}
