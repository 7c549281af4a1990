//! Writes details of a node that simulators do not read, without those that follow from the rest of
//! the file.

use super::Encoder;
use crate::captured::captured;
use crate::et::attributes::{NS, PAIR_BYTES, default_kind, split_times};
use crate::et::communication::pair_bytes;
use crate::proto::NodeType;
use crate::utf8;
use crate::wire::schema::node as field;
use crate::{LatencyMode, TracePart};
use etlink_link::{CollectiveRef, Node, NodeKind};
use etlink_model::{
    CallIdx, CollectiveKind, CpuOps, DurationNs, NodeIdx, OpIdx, RowIdx, RowKind, TrackLabel,
};
use std::ops::Range;

impl Encoder<'_> {
    /// Writes everything except arguments and a communication's own attributes.
    pub(super) fn write_details(&mut self, index: NodeIdx, node: &Node, node_type: NodeType) {
        let is_communication = node_type != NodeType::CompNode;
        let is_cpu_op = !is_communication && self.graph.is_cpu_op(node);
        let kind = self.graph.standing_for(index);
        let kind = kind.unwrap_or(node.kind.name());
        let has_correlation = node.kind == NodeKind::Runtime
            && (self.trace.device.calls.correlation[node.source as usize].get()).is_some();
        if kind != default_kind(node_type, is_cpu_op, has_correlation) {
            self.message.attr_text("kind", kind);
        }
        self.write_times(
            self.aligned(node.start.0),
            self.plan.duration[index.index()],
        );
        if let Some(weights) = &self.plan.weights {
            self.message.attr_int("slack_ns", weights.slack(index).0);
            self.write_latencies();
        }
        let latency = self.plan.latency[index.index()];
        if self.options.latency == LatencyMode::Fold && latency != DurationNs(0) {
            self.message.attr_int("latency_ns", latency.0);
        }
        if let Some(communication) = self.plan.transfer_of(index) {
            self.message
                .attr_int("transfer_of", self.plan.id(communication).cast_signed());
        }
        match self.trace.row_of(node) {
            Some(row) => self.device_row(row),
            // A delay on a queue has no row, but still a stream.
            None if node.on_device => self.write_place(node),
            None => self.host_slice(index, node),
        }
    }

    /// Writes the exact start and duration.
    pub(super) fn write_times(&mut self, start_ns: i64, duration: DurationNs) {
        match split_times(start_ns, duration.0) {
            Some(times) => self.message.attr_ints(NS, &times),
            None => {
                self.message.attr_int("start_ns", start_ns);
                self.message.attr_int("duration_ns", duration.0);
            }
        }
    }

    /// Writes the thread or queue of a node.
    pub(super) fn write_place(&mut self, node: &Node) {
        if node.on_device {
            self.write_queue(node.track.index());
        } else {
            self.write_thread(node.track.index());
        }
    }

    /// Writes the latencies of deps. A list that contains only zeros is omitted: most deps are
    /// program order.
    fn write_latencies(&mut self) {
        for (name, latencies) in [
            ("ctrl_latency_ns", &self.ctrl_latencies),
            ("data_latency_ns", &self.data_latencies),
        ] {
            if latencies.iter().any(|latency| latency.0 != 0) {
                self.message.attr_durations(name, latencies);
            }
        }
    }

    fn write_thread(&mut self, thread: usize) {
        let device = &self.trace.device;
        let Some(thread) = device.threads.get(thread) else {
            return;
        };
        let is_own_process = match thread.pid {
            TrackLabel::Int(pid) => self.pid == Some(pid),
            TrackLabel::Text(_) => false,
        };
        let labels = [("pid", thread.pid), ("tid", thread.tid)];
        for (name, label) in labels.into_iter().skip(usize::from(is_own_process)) {
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
                if let Some(correlation) = calls.correlation[call].get() {
                    self.message.attr_int("correlation", correlation.0);
                }
                self.write_external_id(calls.external_id[call], None);
                self.write_metrics(self.trace.call_metrics(CallIdx::new(call)));
            }
            NodeKind::HostOp | NodeKind::Collective | NodeKind::HostGap => {
                self.op_slice(index, node)
            }
            NodeKind::DeviceOp | NodeKind::Boundary | NodeKind::UnexplainedWait => {}
        }
    }

    /// Writes the identity of an op with its first slice; other slices refer to the first.
    fn op_slice(&mut self, index: NodeIdx, node: &Node) {
        match self.plan.first_slice.get(node.source as usize) {
            Some(&first) if first == index => self.write_identity(OpIdx(node.source)),
            Some(&first) => self
                .message
                .attr_int("slice_of", self.plan.id(first).cast_signed()),
            // A gap outside of all annotations.
            None => {}
        }
    }

    /// Writes the ids of an op in the host trace and in the device trace.
    fn write_identity(&mut self, op: OpIdx) {
        let (ops, at) = (&self.trace.device.ops, op.index());
        self.op_ids(ops, at);
        let host = self.trace.host.as_ref();
        let Some((host, node)) = host.zip(self.trace.op_host[at].get()) else {
            return;
        };
        let (nodes, node) = (&host.nodes, node.index());
        self.texts
            .write_schema(nodes.op_schema[node], &host.names, &mut self.message);
        if nodes.scope[node] != 0 {
            self.message.attr_int("scope", i64::from(nodes.scope[node]));
        }
        self.message
            .attr_int("host_id", nodes.id[node].cast_signed());
    }

    /// Writes the arguments of an op with its first slice. They precede the attributes, in the
    /// order of field numbers in the schema, so reading and rewriting a file gives the same bytes.
    pub(super) fn write_arguments(&mut self, index: NodeIdx, node: &Node) {
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
            // The list of types belongs to the host trace if there is one.
            let types = match &self.trace.host {
                Some(_) => names.get(types),
                None => self.texts.types(types, names),
            };
            let texts = ["", names.get(shapes), types];
            self.message.texts(field::INPUTS, texts);
            return;
        };
        let (nodes, node) = (&host.nodes, node.index());
        for (tag, list) in [
            (field::INPUTS, &nodes.inputs[node]),
            (field::OUTPUTS, &nodes.outputs[node]),
        ] {
            let values = utf8(host.span(list.values));
            let types = self.texts.types(list.types, &host.names);
            self.message
                .texts(tag, [&values, host.names.get(list.shapes), types]);
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
        let rf_id = rf_id.filter(|id| *id != 0);
        if let Some(rf_id) = rf_id {
            self.message.attr_int("rf_id", rf_id);
        }
        if let Some(seq_id) = seq_id.filter(|seq| *seq >= 0) {
            self.message.attr_int("seq_id", seq_id);
        }
        // Since PyTorch 2.4, the two have the same number.
        self.write_external_id(ops.external_id[at], rf_id);
    }

    fn device_row(&mut self, row: RowIdx) {
        let (device, at) = (&self.trace.device, row.index());
        let rows = &device.rows;
        self.write_queue(rows.queue[at].index());
        if let Some(correlation) = rows.correlation[at].get() {
            self.message.attr_int("correlation", correlation.0);
        }
        // Other parts contain no calls.
        let call = self.trace.row_call[at].get();
        let call = if self.options.part == TracePart::Whole {
            call
        } else {
            None
        };
        let id_of_call = call.map(|call| device.calls.external_id[call.index()]);
        self.write_external_id(rows.external_id[at], id_of_call);
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

    /// Writes measurements of a kernel: `metric.dram__bytes.sum`, in the unit of the profile.
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

    /// Writes an external id. `implied` is the value that a reader assumes for an absent one. An
    /// explicit -1 is therefore written if there is no id but a reader would assume one.
    fn write_external_id(&mut self, external_id: i64, implied: Option<i64>) {
        let external_id = external_id.max(-1);
        if external_id != implied.unwrap_or(-1) {
            self.message.attr_int("external_id", external_id);
        }
    }

    /// Writes all that the traces state about a communication, under the host trace's names.
    pub(super) fn write_communication(&mut self, node: &Node) {
        if node.kind != NodeKind::Collective {
            return;
        }
        // Attributes of a collective are on a single slice, as `comm_size` is.
        let record = self.trace.collective(node);
        let record = if self.trace.is_communication(node) {
            record
        } else {
            None
        };
        let name = self.trace.name(node);
        let kind = match &record {
            Some(record) => record.kind(),
            None => CollectiveKind::from_name(name),
        };
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
        let of_pairs = pair_bytes(self.groups, &CollectiveRef { record, names });
        for (name, bytes) in PAIR_BYTES.into_iter().zip(of_pairs.into_iter().flatten()) {
            let bytes: Vec<i64> = bytes.into_iter().map(u64::cast_signed).collect();
            self.message.attr_ints(name, &bytes);
        }
    }
}
