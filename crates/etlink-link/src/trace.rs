//! The linked trace of a rank.

use crate::device::calls::{self, Does};
use crate::device::capture::CapturedOps;
use crate::device::clocks;
use crate::device::launch_queue::FullQueue;
use crate::graph::edges::Edges;
use crate::graph::kinds::{MatchRule, NoLaunch, NodeKind};
use crate::graph::nodes::{Node, Nodes};
use crate::host::comms::HostComm;
use crate::report::LinkReport;
use etlink_model::{
    CallIdx, Collective, CollectiveKind, DeviceTrace, DurationNs, HostIdx, HostTrace,
    KernelMetrics, NameId, Names, NodeIdx, OpIdx, RowIdx, TimeNs,
};
use std::ops::Range;

/// Record of a node's communication, with the table of its names.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveRef<'t> {
    /// Record of the communication.
    pub record: Collective,
    /// Names of the trace that the record comes from.
    pub names: &'t Names,
}

impl CollectiveRef<'_> {
    /// Kind of the communication.
    pub fn kind(&self) -> CollectiveKind {
        self.record.kind(self.names)
    }
}

/// Linked trace of one rank.
#[derive(Clone, Debug, Default)]
pub struct LinkedTrace {
    /// Host trace, if there is one.
    pub host: Option<HostTrace>,
    /// Device trace.
    pub device: DeviceTrace,
    /// Host node of each CPU op.
    pub op_host: Vec<HostIdx>,
    /// Rule by which each CPU op was matched.
    pub op_rule: Vec<MatchRule>,
    /// Enclosing op on the same thread, for each CPU op.
    pub op_parent: Vec<OpIdx>,
    /// Time in which each CPU op itself ran, without its children and calls.
    pub op_exclusive: Vec<DurationNs>,
    /// Innermost enclosing op of each runtime call.
    pub call_op: Vec<OpIdx>,
    /// Call that caused each device row.
    pub row_call: Vec<CallIdx>,
    /// Owner of each device row: `record_param_comms` for a collective, else the innermost op
    /// around its call.
    pub row_op: Vec<OpIdx>,
    /// Reason each device row has no launch edge.
    pub row_no_launch: Vec<NoLaunch>,
    /// Communications of host ops that continue in another op, sorted by that op.
    pub host_comms: Vec<HostComm>,
    /// Queues that launch calls blocked on.
    pub full_queues: Vec<FullQueue>,
    /// Nodes of the graph, by time.
    pub nodes: Nodes,
    /// Edges of the graph.
    pub edges: Edges,
    /// Ops that launched the kernels of graph launches at capture time; `None` without a
    /// capture-time trace.
    pub captured: Option<CapturedOps>,
    /// Metrics of kernels measured by other tools, by kernel.
    pub kernel_metrics: KernelMetrics,
    /// True if the two traces are of alternating steps and were matched as such.
    pub is_interleaved: bool,
    /// Report on the linking.
    pub report: LinkReport,
}

impl LinkedTrace {
    /// Name of a node's op, call or row; `host gap`, `boundary` or `unexplained wait` if it has
    /// none.
    pub fn name(&self, node: &Node) -> &str {
        let device = &self.device;
        let name = match node.kind {
            NodeKind::Runtime => device.calls.name[node.source as usize],
            NodeKind::DeviceOp => device.rows.name[node.source as usize],
            NodeKind::Collective if node.on_device => device.rows.name[node.source as usize],
            NodeKind::HostOp | NodeKind::Collective => device.ops.name[node.source as usize],
            NodeKind::HostGap => match OpIdx(node.source).get() {
                Some(op) => device.ops.name[op.index()],
                None => return "host gap",
            },
            NodeKind::Boundary => return "boundary",
            NodeKind::UnexplainedWait => return "unexplained wait",
        };
        device.names.get(name)
    }

    /// CPU op that a node belongs to: a slice's op, a call's innermost op, a device row's owner.
    pub fn op_of(&self, node: &Node) -> Option<OpIdx> {
        let at = node.source as usize;
        match node.kind {
            NodeKind::HostOp | NodeKind::HostGap => OpIdx(node.source).get(),
            NodeKind::Runtime => self.call_op[at].get(),
            NodeKind::DeviceOp => self.row_op[at].get(),
            NodeKind::Collective if node.on_device => self.row_op[at].get(),
            NodeKind::Collective => OpIdx(node.source).get(),
            NodeKind::Boundary | NodeKind::UnexplainedWait => None,
        }
    }

    /// Device row of a node on a device; `None` for delays.
    pub fn row_of(&self, node: &Node) -> Option<RowIdx> {
        (node.on_device && !node.kind.is_delay()).then_some(RowIdx(node.source))
    }

    /// [`Nodes::latency`] of a node.
    pub fn latency(&self, node: NodeIdx) -> DurationNs {
        self.nodes.latency(&self.edges, node)
    }

    /// Index range of a device row's metrics in [`Self::kernel_metrics`]. O(log metrics).
    pub fn row_metrics(&self, row: RowIdx) -> Range<usize> {
        let rows = &self.kernel_metrics.row;
        let begin = rows.partition_point(|other| *other < row);
        begin..rows.partition_point(|other| *other <= row)
    }

    /// Index range of a call's metrics, for traces with launches but without kernels. O(log
    /// metrics).
    pub fn call_metrics(&self, call: CallIdx) -> Range<usize> {
        let unrowed = self.row_metrics(RowIdx::NONE);
        let calls = &self.kernel_metrics.call[unrowed.clone()];
        let begin = unrowed.start + calls.partition_point(|other| *other < call);
        begin..unrowed.start + calls.partition_point(|other| *other <= call)
    }

    /// True if the recording has calls that wait for a device, as most have: synchronisation of a
    /// stream or event, a blocking copy, or rows of such waits. O(calls).
    pub fn records_waits(&self) -> bool {
        let mut calls = calls::all(&self.device).into_iter();
        !self.device.syncs.is_empty() || calls.any(Does::blocks)
    }

    /// Converts a time of a device row to the host's clock, which nodes and calls use. Rows keep
    /// the times of their device's clock.
    pub fn host_time(&self, row: RowIdx, time: TimeNs) -> TimeNs {
        clocks::host_time(&self.report.device_clocks, self.row_device(row), time)
    }

    /// Converts a time of a call or a node to the clock of a row's device.
    pub fn device_time(&self, row: RowIdx, time: TimeNs) -> TimeNs {
        clocks::device_time(&self.report.device_clocks, self.row_device(row), time)
    }

    /// Number of a row's device.
    pub(crate) fn row_device(&self, row: RowIdx) -> i64 {
        let device = &self.device;
        device.queues[device.rows.queue[row.index()].index()].device
    }

    /// Record of an op's communication, from the device trace if it has one, else from the host
    /// trace.
    pub fn op_collective(&self, op: OpIdx) -> Option<CollectiveRef<'_>> {
        let device = &self.device;
        if let Some(record) = collective(&device.collectives, device.ops.collective[op.index()]) {
            return Some(CollectiveRef {
                record,
                names: &device.names,
            });
        }
        let host = self.host.as_ref()?;
        let node = self.op_host[op.index()].get()?;
        let record = collective(&host.collectives, host.nodes.collective[node.index()])?;
        Some(CollectiveRef {
            record,
            names: &host.names,
        })
    }

    /// Record of a device row's communication, from its own arguments, else from its owner's.
    pub fn row_collective(&self, row: RowIdx) -> Option<CollectiveRef<'_>> {
        let device = &self.device;
        match collective(&device.collectives, device.rows.collective[row.index()]) {
            Some(record) => Some(CollectiveRef {
                record,
                names: &device.names,
            }),
            None => self.op_collective(self.row_op[row.index()].get()?),
        }
    }

    /// Communication of a node of kind [`NodeKind::Collective`]; `None` if only a kernel's name is
    /// known.
    pub fn collective(&self, node: &Node) -> Option<CollectiveRef<'_>> {
        match node.kind {
            NodeKind::Collective if node.on_device => self.row_collective(RowIdx(node.source)),
            NodeKind::Collective => {
                let comm = self.host_comm(node).filter(|comm| !comm.is_wait);
                let given = comm.map_or(OpIdx(node.source), |comm| comm.given);
                self.op_collective(given.get()?)
            }
            _ => None,
        }
    }

    /// Communication that a node of the host, a slice of its op, carries out for another op.
    pub fn host_comm(&self, node: &Node) -> Option<&HostComm> {
        let may = matches!(node.kind, NodeKind::HostOp | NodeKind::Collective) && !node.on_device;
        if self.host_comms.is_empty() || !may {
            return None;
        }
        let op = OpIdx(node.source);
        let at = self
            .host_comms
            .binary_search_by_key(&op, |comm| comm.carrier);
        self.host_comms.get(at.ok()?)
    }

    /// True if a node is a communication, and not a later slice of one.
    pub fn is_communication(&self, node: &Node) -> bool {
        // A worker's range has one slice of this kind, which need not be its first.
        let is_range = || self.host_comm(node).is_some_and(|comm| !comm.is_wait);
        node.kind == NodeKind::Collective && (node.first || is_range())
    }

    /// Returns a name of the device trace.
    pub fn device_name(&self, id: NameId) -> &str {
        self.device.names.get(id)
    }
}

fn collective(table: &etlink_model::CollectiveRecords, row: u32) -> Option<Collective> {
    (row != u32::MAX).then(|| table.row(row as usize))
}
