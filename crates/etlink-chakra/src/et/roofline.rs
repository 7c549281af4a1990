//! Provides the work of nodes for a simulator's roofline.

use etlink_link::roofline::{self, RooflineFormula, RooflineWork};
use etlink_link::{LinkedTrace, Node, NodeKind};

/// Work of all nodes of a trace.
pub(crate) struct RooflineWorks {
    /// Work of each CPU op.
    on_host: Vec<RooflineWork>,
    /// Work of each device row.
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

    /// Returns the work of a device node, or of the first slice of an op; `None` if it is unknown.
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
