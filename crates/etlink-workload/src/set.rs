//! Graphs of all ranks of a run, with the ranks of their groups.

use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, NodeType};
use indexmap::IndexSet;
use std::collections::BTreeMap;

/// A generated run, as opposed to a recorded one.
#[derive(Clone, Debug, Default)]
pub struct WorkloadSet {
    /// Graph of each rank, from 0.
    pub ranks: Vec<ChakraMessages>,
    /// Ranks of groups, by number: the contents of `comm_group.json`.
    pub groups: BTreeMap<u32, Vec<u32>>,
}

impl WorkloadSet {
    /// Returns true if a node runs on the host.
    pub fn has_host_nodes(&self) -> bool {
        let mut nodes = self.ranks.iter().flat_map(|rank| &rank.nodes);
        let on_host = Value::BoolVal(true);
        nodes.any(|node| AttributeProto::find(&node.attr, "is_cpu_op") == Some(&on_host))
    }

    /// Returns true if a node communicates.
    pub fn communicates(&self) -> bool {
        let mut nodes = self.ranks.iter().flat_map(|rank| &rank.nodes);
        nodes.any(|node| {
            matches!(
                node.r#type(),
                NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode
            )
        })
    }

    /// Formats `comm_group.json` as ASTRA-sim reads it; `None` if all collectives span all ranks.
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

/// Numbers of groups, from 1: equal ranks share a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupNumbers {
    groups: IndexSet<Vec<u32>>,
}

impl GroupNumbers {
    pub(crate) fn number(&mut self, ranks: Vec<u32>) -> u32 {
        let (index, _) = self.groups.insert_full(ranks);
        index as u32 + 1
    }

    pub(crate) fn into_groups(self) -> BTreeMap<u32, Vec<u32>> {
        (1..).zip(self.groups).collect()
    }
}
