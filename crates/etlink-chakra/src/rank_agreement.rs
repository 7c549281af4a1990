//! What one rank is written with, so that its file fits those of the others.

use crate::demotion::Demotion;
use etlink_model::NodeIdx;
use serde::{Deserialize, Serialize};

/// What becomes of a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommDecision {
    /// A communication node.
    Communication {
        /// Number of its group, for a collective.
        group: Option<u32>,
        /// Size, the same on all ranks.
        bytes: i64,
    },
    /// Computation with the measured duration.
    Compute(Demotion),
}

/// What one rank is written with: [`WriteOptions::agreement`](crate::WriteOptions::agreement).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankAgreement {
    /// By ascending node.
    pub(crate) decisions: Vec<(NodeIdx, CommDecision)>,
    /// Nodes in the order in which they go one after the other, where that is not the order of
    /// nodes.
    pub(crate) serial_order: Vec<NodeIdx>,
}

impl RankAgreement {
    /// What becomes of a node; what no rank has spoken of is of a group that is not known.
    pub fn decision_for(&self, node: NodeIdx) -> CommDecision {
        // Nodes come in any order here, as blocks are encoded by several threads.
        let at = self
            .decisions
            .binary_search_by_key(&node, |(node, _)| *node);
        at.map_or(CommDecision::Compute(Demotion::UnknownGroup), |at| {
            self.decisions[at].1
        })
    }
}
