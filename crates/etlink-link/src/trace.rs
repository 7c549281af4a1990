//! The linked trace.

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

/// What is known of a node's communication, with the table that its names are in.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveRef<'t> {
    /// The record.
    pub record: Collective,
    /// Names of the trace that the record is from.
    pub names: &'t Names,
}

impl CollectiveRef<'_> {
    /// What kind it is.
    pub fn kind(&self) -> CollectiveKind {
        self.record.kind(self.names)
    }
}

/// One rank, linked.
#[derive(Clone, Debug, Default)]
pub struct LinkedTrace {
    /// The host trace, if there is one.
    pub host: Option<HostTrace>,
    /// The device trace.
    pub device: DeviceTrace,
    /// Per CPU op: its host node.
    pub op_host: Vec<HostIdx>,
    /// Per CPU op: by which rule it was matched.
    pub op_rule: Vec<MatchRule>,
    /// Per CPU op: the op that encloses it on its thread.
    pub op_parent: Vec<OpIdx>,
    /// Per CPU op: time in which it ran itself and none of its children or calls did.
    pub op_exclusive: Vec<DurationNs>,
    /// Per runtime call: the innermost op that encloses it.
    pub call_op: Vec<OpIdx>,
    /// Per device row: the call that caused it.
    pub row_call: Vec<CallIdx>,
    /// Per device row: the op that owns it: `record_param_comms` for a collective, else the
    /// innermost around its call.
    pub row_op: Vec<OpIdx>,
    /// Per device row: why it has no launch edge.
    pub row_no_launch: Vec<NoLaunch>,
    /// Communications of host ops that go on in another op, by that.
    pub host_comms: Vec<HostComm>,
    /// Queues that launch calls have blocked on.
    pub full_queues: Vec<FullQueue>,
    /// The graph's nodes, by time.
    pub nodes: Nodes,
    /// The graph's edges.
    pub edges: Edges,
    /// Ops that launched the kernels of graph launches at capture time, if a trace of that was
    /// given.
    pub captured: Option<CapturedOps>,
    /// Metrics of kernels that were measured beside the trace, by kernel.
    pub kernel_metrics: KernelMetrics,
    /// The two traces are of steps in turn, and were matched as such.
    pub is_interleaved: bool,
    /// How it went.
    pub report: LinkReport,
}

impl LinkedTrace {
    /// A node's name: of its op, call or row; `host gap`, `boundary` or `unexplained wait` where it
    /// has none.
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

    /// The CPU op that a node belongs to: a slice's op, a call's innermost op, a device row's
    /// owner.
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

    /// The device row of a node on a device; none of a delay.
    pub fn row_of(&self, node: &Node) -> Option<RowIdx> {
        (node.on_device && !node.kind.is_delay()).then_some(RowIdx(node.source))
    }

    /// [`Nodes::latency`] of a node.
    pub fn latency(&self, node: NodeIdx) -> DurationNs {
        self.nodes.latency(&self.edges, node)
    }

    /// The places of a device row's metrics in [`Self::kernel_metrics`]. O(log metrics).
    pub fn row_metrics(&self, row: RowIdx) -> Range<usize> {
        let rows = &self.kernel_metrics.row;
        let begin = rows.partition_point(|other| *other < row);
        begin..rows.partition_point(|other| *other <= row)
    }

    /// The places of a call's metrics, in a trace that has launches and no kernels. O(log metrics).
    pub fn call_metrics(&self, call: CallIdx) -> Range<usize> {
        let unrowed = self.row_metrics(RowIdx::NONE);
        let calls = &self.kernel_metrics.call[unrowed.clone()];
        let begin = unrowed.start + calls.partition_point(|other| *other < call);
        begin..unrowed.start + calls.partition_point(|other| *other <= call)
    }

    /// Whether the recording has calls that wait for a device, as most have: a stream's or event's
    /// synchronisation, a blocking copy, rows of such waits. O(calls).
    pub fn records_waits(&self) -> bool {
        let mut calls = calls::all(&self.device).into_iter();
        !self.device.syncs.is_empty() || calls.any(Does::blocks)
    }

    /// A time of a device row by the host's clock, which times of nodes and calls are by. Rows keep
    /// the times of their device's clock.
    pub fn host_time(&self, row: RowIdx, time: TimeNs) -> TimeNs {
        clocks::host_time(&self.report.device_clocks, self.row_device(row), time)
    }

    /// A time of a call or a node by the clock of a row's device.
    pub fn device_time(&self, row: RowIdx, time: TimeNs) -> TimeNs {
        clocks::device_time(&self.report.device_clocks, self.row_device(row), time)
    }

    fn row_device(&self, row: RowIdx) -> i64 {
        let device = &self.device;
        device.queues[device.rows.queue[row.index()].index()].device
    }

    /// What the traces say of an op's communication; the device trace before the host trace.
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

    /// What the traces say of a device row's communication: its own arguments, else its owner's.
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

    /// Communication of a node of kind [`NodeKind::Collective`]. `None` where only a kernel's name
    /// tells.
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

    /// The communication that a node of the host, a slice of its op, carries on for another op.
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

    /// Whether a node is a communication, no later slice of one.
    pub fn is_communication(&self, node: &Node) -> bool {
        // A range of a worker has one slice of this kind, which need not be its first.
        let is_range = || self.host_comm(node).is_some_and(|comm| !comm.is_wait);
        node.kind == NodeKind::Collective && (node.first || is_range())
    }

    /// A name of the device trace.
    pub fn device_name(&self, id: NameId) -> &str {
        self.device.names.get(id)
    }
}

fn collective(table: &etlink_model::CollectiveRecords, row: u32) -> Option<Collective> {
    (row != u32::MAX).then(|| table.row(row as usize))
}
