//! The work of nodes: what a simulator's roofline needs.

use etlink_link::roofline::{self, RooflineFormula, RooflineWork};
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

    /// The work of each node on a device, and of the first slice of each op; `None` where nothing
    /// says what it is.
    pub(crate) fn node_work(&self, trace: &LinkedTrace, node: &Node) -> Option<RooflineWork> {
        let work = if node.on_device {
            self.on_devices.get(trace.row_of(node)?.index())
        } else {
            let is_op = node.first && node.kind == NodeKind::HostOp;
            if is_op {
                self.on_host.get(node.source as usize)
            } else {
                None
            }
        };
        work.copied()
            .filter(|work| work.formula != RooflineFormula::None)
    }
}
