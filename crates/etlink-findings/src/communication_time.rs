//! When the device communicates.

use crate::covered_time::CoveredTime;
use etlink_model::NodeIdx;

/// When the device communicates.
#[derive(Debug)]
pub(crate) struct CommunicationTime {
    /// Per node, whether it communicates.
    pub(crate) nodes: Vec<bool>,
    pub(crate) covered: CoveredTime,
    /// End and node of communication on the device, ascending.
    pub(crate) ends: Vec<(i64, NodeIdx)>,
}
