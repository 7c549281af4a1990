//! The linked trace.

use crate::capture::CapturedOps;
use crate::edges::Edges;
use crate::report::LinkReport;
use etlink_model::{
    CallIdx, Collective, CollectiveKind, DeviceTrace, DurationNs, HostIdx, HostTrace, NameId,
    Names, OpIdx, RowIdx, TimeNs,
};
use serde::Serialize;

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A slice of a host op: time on its thread in which the op itself runs, not its children.
    #[default]
    HostOp,
    /// A runtime or driver call.
    Runtime,
    /// A kernel, copy or memset.
    DeviceOp,
    /// A collective, send or receive: its device row, or its host op where no device takes part.
    Collective,
    /// Time on a thread in which no op runs but the program does; inside a user annotation it bears its name.
    HostGap,
    /// The head of a thread or queue, from the window's start on: what came before the recording.
    Boundary,
    /// On a queue, between the end of all known causes of the next row and its start, where that is longer
    /// than launches and waits take.
    UnexplainedWait,
}

impl NodeKind {
    /// Its name in reports and outputs.
    pub fn name(self) -> &'static str {
        match self {
            NodeKind::HostOp => "host_op",
            NodeKind::Runtime => "runtime",
            NodeKind::DeviceOp => "device_op",
            NodeKind::Collective => "collective",
            NodeKind::HostGap => "host_gap",
            NodeKind::Boundary => "boundary",
            NodeKind::UnexplainedWait => "unexplained_wait",
        }
    }

    /// Whether it stands for time that passes, not for work.
    pub fn is_delay(self) -> bool {
        matches!(self, NodeKind::Boundary | NodeKind::UnexplainedWait)
    }
}

/// Why an edge is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// Previous slice of a thread to the next.
    #[default]
    ProgramOrder,
    /// What ran before a runtime call to the device row that the call caused.
    Launch,
    /// Previous row of a queue to the next.
    StreamOrder,
    /// Last row before an event was recorded to the first row after another queue waited for it.
    EventWait,
    /// The row that a host call blocked for to what the call does after that.
    HostWait,
    /// What gave another thread its work to that work, and that work to what waits for it.
    Handoff,
    /// The last to write a tensor to what reads it on another thread.
    Tensor,
    /// Each rank's arrival at a collective to what the ranks do together then. Only between ranks: a linked trace has none.
    Collective,
}

impl EdgeKind {
    /// All of them, in order.
    pub const ALL: [EdgeKind; 8] = [
        EdgeKind::ProgramOrder,
        EdgeKind::Launch,
        EdgeKind::StreamOrder,
        EdgeKind::EventWait,
        EdgeKind::HostWait,
        EdgeKind::Handoff,
        EdgeKind::Tensor,
        EdgeKind::Collective,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            EdgeKind::ProgramOrder => "program_order",
            EdgeKind::Launch => "launch",
            EdgeKind::StreamOrder => "stream_order",
            EdgeKind::EventWait => "event_wait",
            EdgeKind::HostWait => "host_wait",
            EdgeKind::Handoff => "handoff",
            EdgeKind::Tensor => "tensor",
            EdgeKind::Collective => "collective",
        }
    }

    /// Whether it orders a thread's work, rather than bringing work or data to it.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            EdgeKind::ProgramOrder | EdgeKind::HostWait | EdgeKind::Handoff
        )
    }
}

/// By which rule a CPU op found its host node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchRule {
    /// Not matched.
    #[default]
    None,
    /// `rf_id` is `Record function id` and the names agree.
    Id,
    /// Same place in the same sequence of names of a thread.
    Order,
}

/// Why a device row has no launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoLaunch {
    /// It has one.
    #[default]
    Launched,
    /// The trace has no runtime calls at all.
    NoCallsRecorded,
    /// The row has no correlation id.
    NoCorrelation,
    /// Started, or by its id was launched, before the first call that the trace has.
    BeforeWindow,
    /// A correlation id that no call has.
    CallNotRecorded,
    /// The call starts after the row: the clocks disagree or the ids were reused.
    StartsBeforeCall,
}

/// One node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Row of [`DeviceTrace::ops`] (host op; gap: the enclosing annotation or `u32::MAX`), `calls` (runtime)
    /// or `rows` (device op). A collective is a row when `on_device`, else an op. Of a delay on a queue: the row
    /// that it delays.
    pub source: u32,
    /// The first, or only, slice of its source: it bears the op's identity.
    pub first: bool,
    /// Whether it runs on a device queue.
    pub on_device: bool,
    /// Thread or queue number.
    pub resource: u32,
    /// When it began.
    pub start: TimeNs,
    /// How long this slice took.
    pub duration: DurationNs,
}

/// Nodes in order of time, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Node`")]
pub struct Nodes {
    pub kind: Vec<NodeKind>,
    pub source: Vec<u32>,
    pub first: Vec<bool>,
    pub on_device: Vec<bool>,
    pub resource: Vec<u32>,
    pub start: Vec<TimeNs>,
    pub duration: Vec<DurationNs>,
}

impl Nodes {
    /// How many.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Node `index`.
    pub fn get(&self, index: usize) -> Node {
        Node {
            kind: self.kind[index],
            source: self.source[index],
            first: self.first[index],
            on_device: self.on_device[index],
            resource: self.resource[index],
            start: self.start[index],
            duration: self.duration[index],
        }
    }

    /// From the end of the last node that a node waits for to its start: what launches and waits took. Zero
    /// without deps. O(deps).
    pub fn latency(&self, edges: &Edges, node: usize) -> DurationNs {
        let ends = edges
            .deps(node)
            .iter()
            .map(|edge| self.start[edge.from as usize] + self.duration[edge.from as usize]);
        ends.max()
            .map_or(DurationNs(0), |latest| self.start[node] - latest)
    }

    /// Appends a node.
    pub fn push(&mut self, node: Node) {
        self.kind.push(node.kind);
        self.source.push(node.source);
        self.first.push(node.first);
        self.on_device.push(node.on_device);
        self.resource.push(node.resource);
        self.start.push(node.start);
        self.duration.push(node.duration);
    }
}

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
    /// Per device row: the op that owns it: `record_param_comms` for a collective, else the innermost around its call.
    pub row_op: Vec<OpIdx>,
    /// Per device row: why it has no launch edge.
    pub row_no_launch: Vec<NoLaunch>,
    /// The graph's nodes, by time.
    pub nodes: Nodes,
    /// The graph's edges.
    pub edges: Edges,
    /// Ops that launched the kernels of graph launches at capture time, if a trace of that was given.
    pub captured: Option<CapturedOps>,
    /// How it went.
    pub report: LinkReport,
}

impl LinkedTrace {
    /// A node's name: of its op, call or row; `host gap`, `boundary` or `unexplained wait` where it has none.
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

    /// The CPU op that a node belongs to: a slice's op, a call's innermost op, a device row's owner.
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
    pub fn latency(&self, node: usize) -> DurationNs {
        self.nodes.latency(&self.edges, node)
    }

    /// Per thread, whether it only looks on: nothing on another thread or on a queue waits for it, while there are
    /// threads of which that is not so. NCCL's watchdog is one. O(edges).
    pub fn passive_threads(&self) -> Vec<bool> {
        let nodes = &self.nodes;
        let mut looks_on = vec![true; self.device.threads.len()];
        for (to, edge) in
            (0..nodes.len()).flat_map(|to| self.edges.deps(to).iter().map(move |edge| (to, edge)))
        {
            let from = edge.from as usize;
            if edge.kind != EdgeKind::ProgramOrder
                && !nodes.on_device[from]
                && (nodes.on_device[to] || nodes.resource[to] != nodes.resource[from])
            {
                looks_on[nodes.resource[from] as usize] = false;
            }
        }
        let all = looks_on.iter().all(|looks_on| *looks_on);
        looks_on.iter().map(|looks_on| *looks_on && !all).collect()
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

    /// Communication of a node of kind [`NodeKind::Collective`]. `None` where only a kernel's name tells.
    pub fn collective(&self, node: &Node) -> Option<CollectiveRef<'_>> {
        match node.kind {
            NodeKind::Collective if node.on_device => self.row_collective(RowIdx(node.source)),
            NodeKind::Collective => self.op_collective(OpIdx(node.source)),
            _ => None,
        }
    }

    /// A name of the device trace.
    pub fn device_name(&self, id: NameId) -> &str {
        self.device.names.get(id)
    }
}

fn collective(table: &etlink_model::CollectiveRecords, row: u32) -> Option<Collective> {
    (row != u32::MAX).then(|| table.row(row as usize))
}
