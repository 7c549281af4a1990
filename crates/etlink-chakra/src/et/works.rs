//! The work of nodes: what a simulator's roofline needs.

use etlink_link::work::{self, Work};
use etlink_link::{LinkedTrace, Node, NodeKind};

/// Of all nodes of a trace.
pub(crate) struct Works {
    /// Per CPU op.
    on_host: Vec<Work>,
    /// Per device row.
    on_devices: Vec<Work>,
}

impl Works {
    pub(crate) fn of(trace: &LinkedTrace) -> Works {
        let ops = work::ops(trace);
        Works {
            on_host: work::on_host(trace, &ops),
            on_devices: work::on_devices(trace, &ops),
        }
    }

    /// The work of each node on a device, and of the first slice of each op that does any.
    pub(crate) fn of_node(&self, trace: &LinkedTrace, node: &Node) -> Option<Work> {
        if node.on_device {
            return Some(
                trace
                    .row_of(node)
                    .map_or_else(Work::default, |row| self.on_devices[row.index()]),
            );
        }
        let work = *self
            .on_host
            .get(node.source as usize)
            .filter(|_| node.first && node.kind == NodeKind::HostOp)?;
        Some(work).filter(|work| *work != Work::default())
    }
}
