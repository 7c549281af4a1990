//! Time in which the device communicates.

use crate::findings::covered_time::CoveredTime;
use etlink_model::NodeIdx;

/// Time in which the device communicates.
#[derive(Debug)]
pub(crate) struct CommunicationTime {
    /// For each node: true if it communicates.
    pub(crate) nodes: Vec<bool>,
    pub(crate) covered: CoveredTime,
    /// End and node of each communication on the device, ascending.
    pub(crate) ends: Vec<(i64, NodeIdx)>,
}
