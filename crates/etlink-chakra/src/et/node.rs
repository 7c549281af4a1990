//! One node: fields, dependencies and attributes.

use super::communication::{PgName, SimulatedComm, comm_of};
use super::part::PartGraph;
use super::plan::{EtPlan, is_left_out};
use crate::astra::LOCAL_MEM_GBPS;
use crate::captured::captured;
use crate::ordered_writer::OutputBlock;
use crate::proto::NodeType;
use crate::wire::schema::node as field;
use crate::wire::write::MessageWriter;
use crate::{LatencyMode, WriteOptions, WriteSummary, utf8};
use etlink_link::ranks::GroupResolver;
use etlink_link::roofline::RooflineWork;
use etlink_link::{CollectiveRef, Edge, EdgeKind, LinkedTrace, Node, NodeDeps, NodeKind};
use etlink_model::{
    CallIdx, CollectiveKind, CpuOps, DurationNs, NodeIdx, OpIdx, RowIdx, RowKind, TrackLabel,
};
use std::ops::Range;

/// `tensor_size` of a device node is no less: ASTRA-sim aborts at a node that takes less than a
/// nanosecond, which this does not below 16 TB/s.
const MIN_DEVICE_BYTES: u64 = 16_384;

/// `roofline_source` of a node that has no formula and keeps its time.
const DURATION: &str = "duration";

/// Encodes nodes of a trace, each by itself.
pub(crate) struct Encoder<'t> {
    trace: &'t LinkedTrace,
    graph: &'t PartGraph<'t>,
    groups: &'t GroupResolver<'t>,
    options: &'t WriteOptions<'t>,
    plan: &'t EtPlan,
    message: MessageWriter,
    ctrl_deps: Vec<u64>,
    data_deps: Vec<u64>,
    /// Per entry of these two, what the dep takes by itself. Empty where that is not written.
    ctrl_latencies: Vec<DurationNs>,
    data_latencies: Vec<DurationNs>,
    /// Nodes that are not written, whose deps are still to be taken.
    left_out: Vec<NodeIdx>,
    summary: WriteSummary,
}

impl<'t> Encoder<'t> {
    /// Appends nodes to `bytes`.
    pub(crate) fn new(
        trace: &'t LinkedTrace,
        graph: &'t PartGraph<'t>,
        groups: &'t GroupResolver<'t>,
        options: &'t WriteOptions<'t>,
        plan: &'t EtPlan,
        bytes: Vec<u8>,
    ) -> Self {
        let message = MessageWriter::after(bytes, field::ATTR);
        Encoder {
            trace,
            graph,
            groups,
            options,
            plan,
            message,
            ctrl_deps: vec![],
            data_deps: vec![],
            ctrl_latencies: vec![],
            data_latencies: vec![],
            left_out: vec![],
            summary: WriteSummary::default(),
        }
    }

    /// What was appended to, and what it is.
    pub(crate) fn finish(self) -> OutputBlock {
        OutputBlock {
            bytes: self.message.bytes(),
            summary: self.summary,
        }
    }

    /// Node `index`, and the latency before it where that is a node.
    pub(crate) fn node(&mut self, index: NodeIdx) {
        let (trace, graph) = (self.trace, self.graph);
        let node = graph.nodes.get(index);
        if !self.plan.is_written(index, node.kind, self.options) {
            return;
        }
        // Attributes of a collective are on one slice alone, as `comm_size` is.
        let record = trace
            .collective(&node)
            .filter(|_| trace.is_communication(&node));
        // Of the nodes that one of the trace has become only one communicates.
        let origin = graph
            .origin(index)
            .filter(|_| graph.is_communication(index));
        let comm =
            origin.and_then(|origin| comm_of(trace, self.groups, self.options, origin)?.ok());
        let node_type = node_type(comm.as_ref());
        self.write_deps(index);
        // The latency node takes the deps and leaves its own id as the node's only one.
        if self.plan.has_latency_node(index) {
            self.latency_node(index, &node);
        }
        let trace_name = graph
            .standing_for(index)
            .unwrap_or_else(|| trace.name(&node));
        let comm_name = comm.as_ref().filter(|_| self.options.serialize_comms);
        let comm_name = comm_name.map(SimulatedComm::name);
        self.message.begin();
        self.message.uint(field::ID, self.plan.id(index));
        self.message
            .text(field::NAME, comm_name.as_deref().unwrap_or(trace_name));
        self.message.uint(field::TYPE, node_type as u64);
        self.message.list(field::CTRL_DEPS, &self.ctrl_deps);
        self.message.list(field::DATA_DEPS, &self.data_deps);
        let start_us = self.aligned(node.start.0).div_euclid(1000);
        self.message.uint(
            field::START_TIME_MICROS,
            u64::try_from(start_us).unwrap_or(0),
        );
        self.message
            .uint(field::DURATION_MICROS, self.plan.duration_us[index.index()]);
        self.write_arguments(index, &node);
        self.write_attributes(index, &node, comm.as_ref());
        if comm_name.is_some() {
            self.message.attr_text("trace_name", trace_name);
        }
        if node.kind == NodeKind::Collective {
            self.write_communication(record.as_ref(), trace.name(&node));
        }
        self.summary.nodes += 1;
        self.summary.count(node_type);
        self.message.end();
    }

    /// A time by the clock that the file is to have.
    fn aligned(&self, ns: i64) -> i64 {
        self.options.aligned(self.trace, ns)
    }

    /// The latency of node `index`, which has its deps and is its only one.
    fn latency_node(&mut self, index: NodeIdx, node: &Node) {
        let (id, latency) = (self.plan.id(index) - 1, self.plan.latency[index.index()]);
        let start_ns = self.aligned(node.start.0).saturating_sub(latency.0);
        self.message.begin();
        self.message.uint(field::ID, id);
        self.message.text(field::NAME, "latency");
        self.message.uint(field::TYPE, NodeType::CompNode as u64);
        self.message.list(field::CTRL_DEPS, &self.ctrl_deps);
        self.message.list(field::DATA_DEPS, &self.data_deps);
        self.message.uint(
            field::START_TIME_MICROS,
            u64::try_from(start_ns.div_euclid(1000)).unwrap_or(0),
        );
        self.message
            .uint(field::DURATION_MICROS, self.plan.latency_us[index.index()]);
        let on_host = self.graph.is_cpu_op(node);
        self.message.attr_bool("is_cpu_op", on_host);
        self.message.attr_text("kind", "latency");
        if !on_host && self.plan.roofline.is_some() {
            self.keep_duration(self.plan.latency_us[index.index()]);
        }
        self.message.attr_int("start_ns", start_ns);
        self.message.attr_int("duration_ns", latency.0);
        if node.on_device {
            self.write_queue(node.track.index())
        } else {
            self.write_thread(node.track.index())
        }
        self.summary.nodes += 1;
        self.summary.deps += 1;
        self.summary.count(NodeType::CompNode);
        self.message.end();
        self.ctrl_deps.clear();
        self.data_deps.clear();
        // From here on the node waits for its latency, which waits for all else.
        self.ctrl_deps.push(id);
    }

    /// Sorts the deps of a node by meaning; a node that is waited for twice is named once. For a
    /// node that is not written stand those that it waits for.
    fn write_deps(&mut self, index: NodeIdx) {
        self.ctrl_deps.clear();
        self.data_deps.clear();
        let mut next = Some(index);
        while let Some(index) = next.take().or_else(|| self.left_out.pop()) {
            let edges = self.graph.edges.deps(index);
            for edge in edges.iter().filter(|edge| !implied(edges, *edge)) {
                if is_left_out(self.graph.nodes.kind[edge.from.index()], self.options) {
                    self.left_out.push(edge.from);
                    continue;
                }
                let id = self.plan.id(edge.from);
                // several nodes can be written as one
                if !self.ctrl_deps.contains(&id) && !self.data_deps.contains(&id) {
                    let deps = if edge.kind.is_control() {
                        &mut self.ctrl_deps
                    } else {
                        &mut self.data_deps
                    };
                    deps.push(id);
                }
            }
        }
        // Data and not control: that two communications go in turn is a matter of the network, not
        // of a thread.
        if let Some(before) = self
            .plan
            .serialized_after(index)
            .map(|before| self.plan.id(before))
            && !self.ctrl_deps.contains(&before)
            && !self.data_deps.contains(&before)
        {
            self.data_deps.push(before);
        }
        self.summary.deps += (self.ctrl_deps.len() + self.data_deps.len()) as u64;
        self.find_latencies(index);
    }

    /// Sets what the deps of a node take by themselves, for one that is there twice the longer.
    fn find_latencies(&mut self, index: NodeIdx) {
        self.ctrl_latencies.clear();
        self.data_latencies.clear();
        if self.plan.weights.is_none() {
            return;
        }
        let unset = DurationNs(i64::MIN);
        self.ctrl_latencies.resize(self.ctrl_deps.len(), unset);
        self.data_latencies.resize(self.data_deps.len(), unset);
        let first = self.graph.edges.first_place(index);
        for (place, edge) in (first..).zip(self.graph.edges.deps(index).iter()) {
            let id = self.plan.id(edge.from);
            let Some(latency) = self.plan.edge_latency(self.graph, edge.from, place) else {
                continue;
            };
            for (deps, latencies) in [
                (&self.ctrl_deps, &mut self.ctrl_latencies),
                (&self.data_deps, &mut self.data_latencies),
            ] {
                if let Some(at) = deps.iter().position(|dep| *dep == id) {
                    latencies[at] = latency.max(latencies[at]);
                }
            }
        }
    }

    /// A list of nothing but zeros is not written: most are of program order.
    fn write_latencies(&mut self) {
        for (name, latencies) in [
            ("ctrl_latency_ns", &self.ctrl_latencies),
            ("data_latency_ns", &self.data_latencies),
        ] {
            if latencies.iter().any(|latency| latency.0 != 0) {
                self.message.attr_int_list(name, latencies);
            }
        }
    }

    fn write_attributes(&mut self, index: NodeIdx, node: &Node, comm: Option<&SimulatedComm<'_>>) {
        // ASTRA-sim throws at a communication node with `is_cpu_op` true, so Gloo's have false as
        // well.
        let is_cpu_op = comm.is_none() && self.graph.is_cpu_op(node);
        self.message.attr_bool("is_cpu_op", is_cpu_op);
        if is_cpu_op {
            let take_ns = self.plan.duration_us[index.index()].saturating_mul(1000);
            self.summary.host_ns = self.summary.host_ns.saturating_add(take_ns);
        }
        self.message.attr_text(
            "kind",
            self.graph.standing_for(index).unwrap_or(node.kind.name()),
        );
        self.message
            .attr_int("start_ns", self.aligned(node.start.0));
        self.message
            .attr_int("duration_ns", self.plan.duration[index.index()].0);
        if let Some(weights) = &self.plan.weights {
            self.message.attr_int("slack_ns", weights.slack(index).0);
            self.write_latencies();
        }
        if self.options.latency == LatencyMode::Fold
            && self.plan.latency[index.index()] > DurationNs(0)
        {
            self.message
                .attr_int("latency_ns", self.plan.latency[index.index()].0);
        }
        if let Some(comm) = comm {
            self.simulator_attributes(comm);
        }
        if let (None, Some(roofline)) = (comm, &self.plan.roofline) {
            self.roofline_attributes(index, node, roofline.node_work(self.trace, node));
        }
        if let Some(communication) = self.plan.transfer_of(index) {
            self.message
                .attr_int("transfer_of", self.plan.id(communication).cast_signed());
        }
        match self.trace.row_of(node) {
            Some(row) => self.device_row(row),
            // A delay on a queue has no row, but still a stream.
            None if node.on_device => self.write_queue(node.track.index()),
            None => self.host_slice(index, node),
        }
    }

    /// What a simulator with a roofline reads.
    fn roofline_attributes(&mut self, index: NodeIdx, node: &Node, work: Option<RooflineWork>) {
        let on_host = self.graph.is_cpu_op(node);
        let cover = &mut self.summary.roofline;
        let take_ns = self.plan.duration_us[index.index()].saturating_mul(1000);
        if !on_host {
            cover.nodes += 1;
            cover.time_ns = cover.time_ns.saturating_add(take_ns);
        }
        let Some(work) = work else {
            if !on_host {
                cover.kept += 1;
                cover.kept_ns = cover.kept_ns.saturating_add(take_ns);
                self.keep_duration(take_ns / 1000);
            }
            return;
        };
        let least = if on_host { 1 } else { MIN_DEVICE_BYTES };
        // ASTRA-sim's roofline throws where one is missing, and aborts at a `num_ops` of 0.
        self.message.attr_uint("num_ops", work.operations.max(1));
        self.message.attr_uint("tensor_size", work.bytes.max(least));
        self.message
            .attr_text("roofline_source", work.formula.name());
        *self.summary.work.entry(work.formula).or_default() += 1;
    }

    /// Gives a node without a formula the bytes that the memory of the reference device moves in
    /// its time, so that the roofline takes that time.
    fn keep_duration(&mut self, duration_us: u64) {
        let ns = duration_us.saturating_mul(1000);
        // Half a nanosecond more: ASTRA-sim cuts its quotient to whole ones.
        let bytes = ns.saturating_mul(LOCAL_MEM_GBPS) + LOCAL_MEM_GBPS / 2;
        self.message.attr_uint("num_ops", 1);
        self.message
            .attr_uint("tensor_size", bytes.max(MIN_DEVICE_BYTES));
        self.message.attr_text("roofline_source", DURATION);
    }

    fn write_thread(&mut self, thread: usize) {
        let device = &self.trace.device;
        let Some(thread) = device.threads.get(thread) else {
            return;
        };
        for (name, label) in [("pid", thread.pid), ("tid", thread.tid)] {
            match label {
                TrackLabel::Int(number) => self.message.attr_int(name, number),
                TrackLabel::Text(text) => self.message.attr_text(name, device.names.get(text)),
            }
        }
    }

    fn host_slice(&mut self, index: NodeIdx, node: &Node) {
        let device = &self.trace.device;
        self.write_thread(node.track.index());
        match node.kind {
            NodeKind::Runtime => {
                let (call, calls) = (node.source as usize, &device.calls);
                self.write_correlation(
                    calls.correlation[call].get().map(|c| c.0),
                    calls.external_id[call],
                );
                self.write_metrics(self.trace.call_metrics(CallIdx::new(call)));
            }
            NodeKind::HostOp | NodeKind::Collective | NodeKind::HostGap => {
                self.op_slice(index, node)
            }
            NodeKind::DeviceOp | NodeKind::Boundary | NodeKind::UnexplainedWait => {}
        }
    }

    /// The first slice of an op bears its identity, the others name the first.
    fn op_slice(&mut self, index: NodeIdx, node: &Node) {
        match self.plan.first_slice.get(node.source as usize) {
            Some(&first) if first == index => self.write_identity(OpIdx(node.source)),
            Some(&first) => self
                .message
                .attr_int("slice_of", self.plan.id(first).cast_signed()),
            // a gap that no annotation encloses
            None => {}
        }
    }

    /// What names an op: in the host trace and in the device trace.
    fn write_identity(&mut self, op: OpIdx) {
        let (ops, at) = (&self.trace.device.ops, op.index());
        self.op_ids(ops, at);
        let host = self.trace.host.as_ref();
        let Some((host, node)) = host.zip(self.trace.op_host[at].get()) else {
            return;
        };
        let (nodes, node) = (&host.nodes, node.index());
        let schema = host.names.get(nodes.op_schema[node]);
        if !schema.is_empty() {
            self.message.attr_text("op_schema", schema);
        }
        self.message.attr_int("scope", i64::from(nodes.scope[node]));
        self.message
            .attr_int("host_id", nodes.id[node].cast_signed());
    }

    /// The arguments of an op, on its first slice. They stand before the attributes, as their
    /// numbers in the schema do: who reads a file and writes it again gets the same bytes.
    fn write_arguments(&mut self, index: NodeIdx, node: &Node) {
        let is_of_op = matches!(
            node.kind,
            NodeKind::HostOp | NodeKind::Collective | NodeKind::HostGap
        );
        let is_slice = is_of_op && self.trace.row_of(node).is_none() && !node.on_device;
        let first = self.plan.first_slice.get(node.source as usize);
        if !is_slice || first != Some(&index) {
            return;
        }
        let (ops, op) = (&self.trace.device.ops, OpIdx(node.source));
        let host = self.trace.host.as_ref();
        let Some((host, node)) = host.zip(self.trace.op_host[op.index()].get()) else {
            let names = &self.trace.device.names;
            let (shapes, types) = (ops.shapes[op.index()], ops.types[op.index()]);
            let texts = ["", names.get(shapes), names.get(types)];
            self.message.texts(field::INPUTS, texts);
            return;
        };
        let (nodes, node) = (&host.nodes, node.index());
        for (tag, list) in [
            (field::INPUTS, &nodes.inputs[node]),
            (field::OUTPUTS, &nodes.outputs[node]),
        ] {
            let values = utf8(host.span(list.values));
            self.message.texts(
                tag,
                [
                    &values,
                    host.names.get(list.shapes),
                    host.names.get(list.types),
                ],
            );
        }
    }

    fn op_ids(&mut self, ops: &CpuOps, at: usize) {
        let host = self.trace.host.as_ref().zip(self.trace.op_host[at].get());
        let on_host = |column: fn(&etlink_model::HostNodes, usize) -> i64| {
            host.map(|(host, node)| column(&host.nodes, node.index()))
        };
        let rf_id = ops.rf_id[at].get().map(|id| id.0.cast_signed());
        let rf_id = rf_id.or(on_host(|nodes, node| nodes.rf_id[node].0.cast_signed()));
        let seq_id = Some(ops.seq_id[at]).filter(|seq| *seq >= 0);
        let seq_id = seq_id.or(on_host(|nodes, node| nodes.seq_id[node]));
        if let Some(rf_id) = rf_id.filter(|id| *id != 0) {
            self.message.attr_int("rf_id", rf_id);
        }
        if let Some(seq_id) = seq_id.filter(|seq| *seq >= 0) {
            self.message.attr_int("seq_id", seq_id);
        }
        if ops.external_id[at] >= 0 {
            self.message.attr_int("external_id", ops.external_id[at]);
        }
    }

    fn device_row(&mut self, row: RowIdx) {
        let (device, at) = (&self.trace.device, row.index());
        let rows = &device.rows;
        self.write_queue(rows.queue[at].index());
        self.write_correlation(
            rows.correlation[at].get().map(|c| c.0),
            rows.external_id[at],
        );
        if rows.kind[at] == RowKind::Kernel {
            // ROCm rows and graph-replayed kernels can lack the grid.
            if rows.grid[at] != [0; 3] {
                self.message.attr_list("grid", &rows.grid[at]);
                self.message.attr_list("block", &rows.block[at]);
            }
        } else if rows.kind[at] != RowKind::GraphNode {
            self.message.attr_uint("bytes", rows.bytes[at]);
        }
        if rows.graph_node[at] != 0 {
            self.message.attr_uint("graph_node", rows.graph_node[at]);
            let note = device.row_annotation(row);
            if !note.is_empty() {
                self.message.attr_text("annotation", note);
            }
        }
        for (name, text) in captured(self.trace, row) {
            self.message.attr_text(name, text);
        }
        self.write_metrics(self.trace.row_metrics(row));
    }

    /// What was measured of a kernel: `metric.dram__bytes.sum`, in the unit of the profile.
    fn write_metrics(&mut self, places: Range<usize>) {
        for place in places {
            let metric = self.trace.kernel_metrics.row(place);
            let names = &self.trace.device.names;
            let name = format!("metric.{}", names.get(metric.metric));
            self.message.attr_double(&name, metric.value);
            let unit = names.get(metric.unit);
            if !unit.is_empty() {
                self.message.attr_text(&format!("{name}.unit"), unit);
            }
        }
    }

    fn write_queue(&mut self, queue: usize) {
        if let Some(queue) = self.trace.device.queues.get(queue) {
            self.message.attr_int("stream", queue.stream);
            self.message.attr_int("device", queue.device);
        }
    }

    fn write_correlation(&mut self, correlation: Option<i64>, external_id: i64) {
        if let Some(correlation) = correlation {
            self.message.attr_int("correlation", correlation);
        }
        if external_id >= 0 {
            self.message.attr_int("external_id", external_id);
        }
    }

    /// What the simulator reads of a communication node. Ranks and tag are `int32`, the type
    /// that Chakra's first feeder asks for. The tag is always 0: `Seq` is a rank's own count
    /// and differs between the two sides, while messages with one tag match in order.
    fn simulator_attributes(&mut self, comm: &SimulatedComm<'_>) {
        match *comm {
            SimulatedComm::Collective { kind, bytes, group } => {
                self.message.attr_int("comm_type", i64::from(kind as i32));
                self.message.attr_int("comm_size", bytes);
                match group {
                    PgName::All => {}
                    PgName::Named(name) => self.message.attr_text("pg_name", name),
                    PgName::Numbered(number) => {
                        self.message.attr_text("pg_name", &number.to_string())
                    }
                }
            }
            SimulatedComm::PointToPoint {
                send,
                peer,
                own,
                bytes,
            } => {
                let (src, dst) = if send {
                    (own, Some(peer))
                } else {
                    (Some(peer), own)
                };
                for (name, rank) in [("comm_src", src), ("comm_dst", dst)] {
                    if let Some(rank) = rank.and_then(|rank| i32::try_from(rank).ok()) {
                        self.message.attr_int32(name, rank);
                    }
                }
                self.message.attr_int32("comm_tag", 0);
                self.message.attr_int("comm_size", bytes);
            }
        }
    }

    /// All that the traces say of a communication, under the host trace's names.
    fn write_communication(&mut self, record: Option<&CollectiveRef<'_>>, name: &str) {
        let kind = record.map_or_else(|| CollectiveKind::from_name(name), CollectiveRef::kind);
        self.message.attr_text("comm_kind", kind.name());
        let Some(CollectiveRef { record, names }) = record else {
            return;
        };
        for (name, text) in [
            ("collective_name", record.name),
            ("dtype", record.dtype),
            ("in_split_size", record.in_split),
            ("out_split_size", record.out_split),
            ("process_group_name", record.group_name),
            ("pg_desc", record.group_desc),
            ("process_group_ranks", record.group_ranks),
            ("comms_id", record.comms_id),
        ] {
            if !names.get(text).is_empty() {
                self.message.attr_text(name, names.get(text));
            }
        }
        self.message.attr_uint("in_msg_nelems", record.in_elements);
        self.message
            .attr_uint("out_msg_nelems", record.out_elements);
        self.message.attr_uint("pg_size", record.group_size);
        for (name, number) in [
            ("global_rank_start", record.rank_start),
            ("global_rank_stride", record.rank_stride),
            ("comm_rank", record.rank),
            ("src_rank", record.src),
            ("dst_rank", record.dst),
            ("seq", record.seq),
        ] {
            if number >= 0 {
                self.message.attr_int(name, number);
            }
        }
        self.message
            .attr_bool("is_asynchronized_op", record.asynchronous);
    }
}

/// Whether an edge of another kind already names the same node.
fn implied(edges: NodeDeps<'_>, edge: Edge) -> bool {
    let mut earlier = EdgeKind::ALL
        .into_iter()
        .take_while(|kind| *kind < edge.kind);
    earlier.any(|kind| edges.contains(kind, edge.from))
}

fn node_type(comm: Option<&SimulatedComm<'_>>) -> NodeType {
    match comm {
        None => NodeType::CompNode,
        Some(SimulatedComm::Collective { .. }) => NodeType::CommCollNode,
        Some(SimulatedComm::PointToPoint { send: true, .. }) => NodeType::CommSendNode,
        Some(SimulatedComm::PointToPoint { send: false, .. }) => NodeType::CommRecvNode,
    }
}
