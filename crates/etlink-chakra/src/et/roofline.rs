//! The work of nodes: what a simulator's roofline needs.

use etlink_link::roofline::{self, RooflineWork};
use etlink_link::{LinkedTrace, Node, NodeKind};

/// Of all nodes of a trace.
pub(crate) struct RooflineWorks {
    /// Per CPU op.
    on_host: Vec<RooflineWork>,
    /// Per device row.
    on_devices: Vec<RooflineWork>,
}

impl RooflineWorks {
    pub(crate) fn of(trace: &LinkedTrace) -> RooflineWorks {
        let ops = roofline::op_work(trace);
        RooflineWorks {
            on_host: roofline::host_work(trace, &ops),
            on_devices: roofline::row_work(trace, &ops),
        }
    }

    /// The work of each node on a device, and of the first slice of each op that does any.
    pub(crate) fn node_work(&self, trace: &LinkedTrace, node: &Node) -> Option<RooflineWork> {
        // Every device node needs work in a roofline, or it takes no time and ASTRA-sim aborts.
        if node.on_device {
            return Some(
                trace
                    .row_of(node)
                    .map_or_else(RooflineWork::default, |row| self.on_devices[row.index()]),
            );
        }
        let work = *self
            .on_host
            .get(node.source as usize)
            .filter(|_| node.first && node.kind == NodeKind::HostOp)?;
        Some(work).filter(|work| *work != RooflineWork::default())
    }
}
