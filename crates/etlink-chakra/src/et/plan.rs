//! What nodes need to know of the nodes before them, so that they can be encoded in any order.

use super::rounding::Rounding;
use etlink_link::{LinkedTrace, NodeKind};

/// See the columns.
pub(crate) struct Plan {
    /// Per node, its duration in whole microseconds with what rounding left over before it.
    pub(crate) duration_us: Vec<u64>,
    /// Per CPU op, the node of its first slice; `u32::MAX` = it has none.
    pub(crate) first_slice: Vec<u32>,
}

impl Plan {
    /// O(nodes).
    pub(crate) fn of(trace: &LinkedTrace) -> Plan {
        let nodes = &trace.nodes;
        let mut threads = Rounding::new(trace.device.threads.len());
        let mut queues = Rounding::new(trace.device.queues.len());
        let mut plan = Plan { duration_us: Vec::with_capacity(nodes.len()), first_slice: vec![u32::MAX; trace.device.ops.len()] };
        for node in 0..nodes.len() {
            let resource = if nodes.on_device[node] { &mut queues } else { &mut threads };
            plan.duration_us.push(resource.micros(nodes.resource[node], nodes.duration[node]));
            let of_op = matches!(nodes.kind[node], NodeKind::HostOp | NodeKind::HostGap | NodeKind::Collective) && !nodes.on_device[node];
            if let Some(first) = plan.first_slice.get_mut(nodes.source[node] as usize).filter(|first| of_op && **first == u32::MAX) {
                *first = u32::try_from(node).unwrap_or(u32::MAX);
            }
        }
        plan
    }
}
