//! Decisions for one rank, which make its file fit the others.

use crate::demotion::Demotion;
use crate::roofline_device::RooflinePeaks;
use etlink_model::{DurationNs, NodeIdx};

/// Decision about a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommDecision {
    /// Written as a communication node.
    Communication {
        /// Number of the group of a collective; `None` for messages.
        group: Option<u32>,
        /// Size in bytes, the same on all ranks.
        bytes: i64,
    },
    /// Written as computation with the measured duration.
    Compute(Demotion),
}

/// Decisions for one rank: [`WriteOptions::agreement`](crate::WriteOptions::agreement).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankAgreement {
    /// Decisions by ascending node.
    pub(crate) decisions: Vec<(NodeIdx, CommDecision)>,
    /// Nodes in serialized order; empty if it is the order of nodes.
    pub(crate) serial_order: Vec<NodeIdx>,
    /// Communications whose transfer takes place in host nodes, by ascending node. Set for
    /// simulators.
    pub(crate) host_transfers: Vec<HostTransfer>,
    /// Delay of this rank's start after the first rank's.
    pub(crate) begins_later: DurationNs,
    /// Peaks of the device that roofline times are computed for.
    pub(crate) peaks: RooflinePeaks,
}

/// Nodes and times of a host communication's wait and transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostTransfer {
    /// Communication node; its start is the rank's arrival.
    pub(crate) node: NodeIdx,
    /// Node that is blocked until the transfer ends; it can be the same node.
    pub(crate) carrier: NodeIdx,
    /// Time from this rank's arrival to the last rank's arrival.
    pub(crate) until_last: DurationNs,
    /// Time of the simulator's network for the transfer; `None` if the network takes the measured
    /// time.
    pub(crate) network: Option<DurationNs>,
}

impl RankAgreement {
    /// Returns the decision about a node; a node without one belongs to an unknown group.
    pub fn decision_for(&self, node: NodeIdx) -> CommDecision {
        // Nodes are requested in any order, because blocks are encoded by several threads.
        let at = self
            .decisions
            .binary_search_by_key(&node, |(node, _)| *node);
        at.map_or(CommDecision::Compute(Demotion::UnknownGroup), |at| {
            self.decisions[at].1
        })
    }
}
