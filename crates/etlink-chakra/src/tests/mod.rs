//! Linked traces for tests, drawn by hand.

use crate::network::{NetworkFit, NetworkLevel};
use etlink_link::{Edge, EdgeKind, Edges, LinkedTrace, MatchRule, Node, NodeKind};
use etlink_model::{
    CallIdx, Collective, Correlation, CpuOp, DeviceQueue, DeviceRow, DurationNs, GlobalRank,
    HostIdx, HostNode, HostThread, HostTrace, NameId, NodeIdx, OpIdx, QueueIdx, RfId, RowIdx,
    RowKind, RuntimeCall, TextSpan, ThreadIdx, TimeNs, TrackIdx, TrackLabel, ValueList,
};

/// A trace under construction: one process, one thread, one stream.
pub(crate) struct TraceSketch {
    pub(crate) trace: LinkedTrace,
    edges: Vec<Edge>,
}

impl TraceSketch {
    pub(crate) fn new() -> Self {
        let mut trace = LinkedTrace::default();
        trace.device.threads.push(HostThread {
            pid: TrackLabel::Int(100),
            tid: TrackLabel::Int(101),
        });
        trace.device.queues.push(DeviceQueue {
            device: 0,
            context: 1,
            stream: 7,
        });
        trace.device.header.rank = Some(GlobalRank(0));
        trace.device.header.base_ns.0 = 1_700_000_000_000_000_000;
        TraceSketch {
            trace,
            edges: vec![],
        }
    }

    pub(crate) fn op(
        &mut self,
        name: &str,
        start: i64,
        duration: i64,
        parent: Option<OpIdx>,
    ) -> OpIdx {
        let device = &mut self.trace.device;
        let op = OpIdx::new(device.ops.len());
        let row = CpuOp {
            name: device.names.intern(name),
            start: TimeNs(start),
            duration: DurationNs(duration),
            external_id: -1,
            seq_id: -1,
            shapes: device.names.intern("[[2, 3]]"),
            types: device.names.intern("[\"float\"]"),
            collective: u32::MAX,
            ..CpuOp::default()
        };
        device.ops.push(row);
        self.trace.op_host.push(HostIdx::NONE);
        self.trace.op_rule.push(MatchRule::None);
        self.trace.op_parent.push(parent.unwrap_or(OpIdx::NONE));
        self.trace.op_exclusive.push(DurationNs(duration / 2));
        op
    }

    pub(crate) fn call(&mut self, name: &str, op: OpIdx, start: i64, correlation: i64) -> CallIdx {
        let device = &mut self.trace.device;
        let call = CallIdx::new(device.calls.len());
        let name = device.names.intern(name);
        let (start, duration, correlation) =
            (TimeNs(start), DurationNs(2_000), Correlation(correlation));
        device.calls.push(RuntimeCall {
            name,
            start,
            duration,
            correlation,
            thread: ThreadIdx(0),
            external_id: -1,
            ..RuntimeCall::default()
        });
        self.trace.call_op.push(op);
        call
    }

    pub(crate) fn row(
        &mut self,
        name: &str,
        start: i64,
        duration: i64,
        op: OpIdx,
        call: CallIdx,
    ) -> RowIdx {
        let device = &mut self.trace.device;
        let row = RowIdx::new(device.rows.len());
        let copy = name.starts_with("Memcpy");
        device.rows.push(DeviceRow {
            kind: if copy {
                RowKind::Memcpy
            } else {
                RowKind::Kernel
            },
            category: device
                .names
                .intern(if copy { "gpu_memcpy" } else { "kernel" }),
            name: device.names.intern(name),
            queue: QueueIdx(0),
            start: TimeNs(start),
            duration: DurationNs(duration),
            correlation: Correlation(5),
            external_id: 9,
            bytes: if copy { 4096 } else { 0 },
            gb_per_s: -1.0,
            grid: if copy { [0; 3] } else { [80, 1, 1] },
            block: [256, 1, 1],
            graph_node: 0,
            collective: u32::MAX,
        });
        self.trace.row_op.push(op);
        self.trace.row_call.push(call);
        self.trace.row_no_launch.push(Default::default());
        row
    }

    pub(crate) fn collective(&mut self, name: &str, dtype: &str, elements: u64) -> u32 {
        let device = &mut self.trace.device;
        let record = Collective {
            name: device.names.intern(name),
            dtype: device.names.intern(dtype),
            in_elements: elements,
            out_elements: elements,
            rank_start: 0,
            rank_stride: 1,
            rank: 1,
            group_size: 2,
            group_name: device.names.intern("0"),
            seq: 17,
            ..Collective::absent()
        };
        device.collectives.push(record);
        u32::try_from(device.collectives.len() - 1).expect("few")
    }

    pub(crate) fn node(
        &mut self,
        kind: NodeKind,
        source: u32,
        start: i64,
        duration: i64,
    ) -> NodeIdx {
        self.slice(kind, source, true, start, duration)
    }

    pub(crate) fn slice(
        &mut self,
        kind: NodeKind,
        source: u32,
        first: bool,
        start: i64,
        duration: i64,
    ) -> NodeIdx {
        let on_device = kind == NodeKind::DeviceOp;
        let (start, duration) = (TimeNs(start), DurationNs(duration));
        self.trace.nodes.push(Node {
            kind,
            source,
            first,
            on_device,
            track: TrackIdx(0),
            start,
            duration,
        });
        NodeIdx::new(self.trace.nodes.len() - 1)
    }

    /// Adds a collective that runs on the device.
    pub(crate) fn device_collective(&mut self, row: RowIdx, start: i64, duration: i64) -> NodeIdx {
        let node = self.node(NodeKind::Collective, row.0, start, duration);
        self.trace.nodes.on_device[node.index()] = true;
        node
    }

    pub(crate) fn edge(&mut self, kind: EdgeKind, from: NodeIdx, to: NodeIdx) {
        self.edges.push(Edge {
            to,
            kind,
            from,
            inferred: false,
        });
    }

    pub(crate) fn done(mut self) -> LinkedTrace {
        self.trace.edges = Edges::new(self.edges, self.trace.nodes.len());
        self.trace
    }
}

/// Creates a trace of rank 0 of 2 with this record of a communication.
pub(crate) fn comm(name: &str, dtype: &str, elements: u64) -> (LinkedTrace, Collective) {
    let mut builder = TraceSketch::new();
    let record = builder.collective(name, dtype, elements);
    let record = builder.trace.device.collectives.row(record as usize);
    (builder.done(), record)
}

/// ```text
/// thread 101   boundary | train [ aten::mm ( launch ) ] gap | record_param_comms ( launch ) | wait
/// stream 7                              gemm | Memcpy        ncclDevKernel_AllReduce
/// ```
/// Creates a trace; with a host trace if `host`, whose nodes 10, 12 and 20 are the three ops.
pub(crate) fn sample(host: bool) -> LinkedTrace {
    let mut b = TraceSketch::new();
    let train = b.op("train \"x\"", 1_000, 40_000, None);
    let mm = b.op("aten::mm", 2_500, 20_000, Some(train));
    let comms = b.op("record_param_comms", 50_400, 9_000, None);
    let record = b.collective("allreduce", "Float", 1024);
    b.trace.device.ops.collective[comms.index()] = record;
    let launch = b.call("cudaLaunchKernel", mm, 5_100, 5);
    let launch_comm = b.call("cudaLaunchKernelExC", comms, 52_000, 6);
    let gemm = b.row("gemm<float>", 9_000, 700, mm, launch);
    let copy = b.row("Memcpy DtoD", 9_800, 650, OpIdx::NONE, CallIdx::NONE);
    let nccl = b.row(
        "ncclDevKernel_AllReduce_Sum_f32",
        60_000,
        30_300,
        comms,
        launch_comm,
    );
    let boundary = b.node(NodeKind::Boundary, u32::MAX, 0, 1_000);
    let train_1 = b.slice(NodeKind::HostOp, train.0, true, 1_000, 1_500);
    let mm_1 = b.slice(NodeKind::HostOp, mm.0, true, 2_500, 2_600);
    let call_1 = b.node(NodeKind::Runtime, launch.0, 5_100, 2_000);
    let mm_2 = b.slice(NodeKind::HostOp, mm.0, false, 7_100, 15_400);
    let gemm_n = b.node(NodeKind::DeviceOp, gemm.0, 9_000, 700);
    let copy_n = b.node(NodeKind::DeviceOp, copy.0, 9_800, 650);
    let gap = b.node(NodeKind::HostGap, u32::MAX, 41_000, 9_400);
    let comms_1 = b.slice(NodeKind::HostOp, comms.0, true, 50_400, 1_600);
    let nccl_n = b.device_collective(nccl, 60_000, 30_300);
    for pair in [boundary, train_1, mm_1, call_1, mm_2, gap, comms_1].windows(2) {
        b.edge(EdgeKind::ProgramOrder, pair[0], pair[1]);
    }
    b.edge(EdgeKind::Launch, mm_1, gemm_n);
    b.edge(EdgeKind::StreamOrder, gemm_n, copy_n);
    b.edge(EdgeKind::Launch, copy_n, nccl_n);
    b.edge(EdgeKind::StreamOrder, copy_n, nccl_n);
    b.edge(EdgeKind::Launch, comms_1, nccl_n);
    let mut trace = b.done();
    if host {
        add_host(&mut trace);
    }
    trace
}

fn add_host(trace: &mut LinkedTrace) {
    let mut host = HostTrace::default();
    host.header.schema = "1.1.1-chakra.0.0.4".to_owned();
    host.header.pid = Some(100);
    host.header.start_ms = Some(1_550_002);
    let nodes = [
        (1, 1, "[pytorch|profiler|execution_trace|process]", 0, 0),
        (2, 1, "[pytorch|profiler|execution_trace|thread]", 1, 0),
        (10, 2, "train \"x\"", 1, 0),
        (12, 10, "aten::mm", 1, 0),
        (14, 12, "aten::unmatched", 1, 10),
        (20, 99, "record_param_comms", 1, 12),
    ];
    for (id, parent, name, tid, fw_parent) in nodes {
        let values = append(&mut host.text, br#"[[3, 4, 0, 6, 4, "cpu"], nan]"#);
        let list = ValueList {
            values,
            shapes: host.names.intern("[[2, 3], []]"),
            types: host.names.intern(r#"["Tensor(float)", "Double"]"#),
            strides: host.names.intern("[[3, 1], []]"),
        };
        let extra_attrs = append(
            &mut host.text,
            br#"{"name": "extra", "type": "string", "value": "y"}"#,
        );
        host.nodes.push(HostNode {
            id,
            parent,
            name: host.names.intern(name),
            rf_id: RfId(if id > 2 { id + 100 } else { 0 }),
            fw_parent,
            seq_id: -1,
            tid,
            op_schema: host.names.intern(if name.starts_with("aten") {
                "aten::mm(Tensor a) -> Tensor"
            } else {
                ""
            }),
            extra_attrs,
            inputs: list,
            outputs: ValueList::default(),
            collective: u32::MAX,
            ..HostNode::default()
        });
    }
    trace.op_host = vec![HostIdx(2), HostIdx(3), HostIdx(5)];
    trace.host = Some(host);
}

fn append(text: &mut Vec<u8>, more: &[u8]) -> TextSpan {
    let start = text.len() as u64;
    text.extend_from_slice(more);
    TextSpan {
        start,
        bytes: u32::try_from(more.len()).expect("short"),
    }
}

/// Interns a name of the device trace.
pub(crate) fn intern(trace: &mut LinkedTrace, text: &str) -> NameId {
    trace.device.names.intern(text)
}

/// Creates a network of `blocks` blocks of `block` ranks.
pub(crate) fn two_level_fit(block: u64, blocks: u64) -> NetworkFit {
    let level = |size: u64, latency_ns: f64, bandwidth: f64| NetworkLevel {
        size,
        latency_ns,
        bandwidth,
        bandwidth_is_fitted: true,
        used: 8,
    };
    NetworkFit {
        levels: vec![level(block, 500.0, 200.0), level(blocks, 4_000.0, 25.0)],
        is_rejected: false,
        algorithms: Default::default(),
        used: 16,
        unused: 0,
        mixed: 0,
        median_error: 0.1,
        judged: 16,
        fit_error: 0.1,
        kinds: vec![],
        groups: vec![],
    }
}
