//! What one rank is written with, so that its file fits those of the others.

use crate::demotion::Demotion;
use crate::roofline_device::RooflinePeaks;
use etlink_model::{DurationNs, NodeIdx};
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
    /// Communications whose transfer goes on in host nodes, by ascending node. Set for simulators.
    pub(crate) host_transfers: Vec<HostTransfer>,
    /// How much later than the first rank this one begins.
    pub(crate) begins_later: DurationNs,
    /// Of the device that the times of a roofline are for.
    pub(crate) peaks: RooflinePeaks,
}

/// Where a communication of the host waits for the others and transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostTransfer {
    /// The communication: when it begins, the rank has arrived.
    pub(crate) node: NodeIdx,
    /// The node that is blocked until the transfer ends; it can be the same.
    pub(crate) carrier: NodeIdx,
    /// From this rank's arrival to that of the last.
    pub(crate) until_last: DurationNs,
    /// What the simulator's network takes for it; `None`: the network takes what was measured.
    pub(crate) network: Option<DurationNs>,
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
