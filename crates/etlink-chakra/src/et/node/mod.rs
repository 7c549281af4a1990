//! Writes one node: fields, dependencies, and the attributes that simulators read.

mod details;

use super::communication::{SimulatedComm, comm_of};
use super::metadata::thread_pid;
use super::part::PartGraph;
use super::plan::{EtPlan, is_left_out};
use super::shared_texts::SharedTexts;
use crate::ordered_writer::OutputBlock;
use crate::proto::NodeType;
use crate::wire::schema::node as field;
use crate::wire::write::MessageWriter;
use crate::{AttributeSet, KernelTimes, RooflinePeaks, WriteOptions, WriteSummary};
use etlink_link::ranks::GroupResolver;
use etlink_link::roofline::{RooflineFormula, RooflineWork};
use etlink_link::{Edge, EdgeKind, LinkedTrace, Node, NodeDeps, NodeKind};
use etlink_model::{DurationNs, NodeIdx, TrackIdx};

/// Minimum `tensor_size` of a device node: ASTRA-sim aborts at a node that takes less than a
/// nanosecond, which this size does not below 16 TB/s.
const MIN_DEVICE_BYTES: u64 = 16_384;

/// Maximum ratio of roofline time to measured time; above it, the formula does not describe the
/// node's work. A cache is faster than memory, but not by that much. `reshape_and_cache_flash` has
/// the whole cache among its tensors and writes only a few lines.
const MOST_OF_MEASURED: u64 = 2;

/// Divisor of the measured time that gives the minimum roofline time of an op without its own
/// formula, whose tensors alone are known. Below it, the op did other work, such as Triton
/// kernels or replays of whole graphs. Copies between host and device are also slower, because they
/// run at the speed of their link, which is not in a roofline.
const LEAST_OF_MEASURED: u64 = 10;

/// `roofline_source` of a node without a formula, which keeps its time.
const DURATION: &str = "duration";

/// Encoder of a trace's nodes, each independently.
pub(crate) struct Encoder<'t> {
    trace: &'t LinkedTrace,
    graph: &'t PartGraph<'t>,
    groups: &'t GroupResolver<'t>,
    options: &'t WriteOptions<'t>,
    plan: &'t EtPlan,
    texts: &'t SharedTexts<'t>,
    /// Process that nodes need not name.
    pid: Option<i64>,
    message: MessageWriter,
    ctrl_deps: Vec<u64>,
    data_deps: Vec<u64>,
    /// Latency of each dep in the two lists above; empty if latencies are not written.
    ctrl_latencies: Vec<DurationNs>,
    data_latencies: Vec<DurationNs>,
    /// Omitted nodes whose deps still have to be taken.
    left_out: Vec<NodeIdx>,
    summary: WriteSummary,
}

impl<'t> Encoder<'t> {
    /// Creates an encoder that appends nodes to `bytes`.
    pub(crate) fn new(
        trace: &'t LinkedTrace,
        graph: &'t PartGraph<'t>,
        groups: &'t GroupResolver<'t>,
        options: &'t WriteOptions<'t>,
        plan: &'t EtPlan,
        texts: &'t SharedTexts<'t>,
        bytes: Vec<u8>,
    ) -> Self {
        let message = MessageWriter::after(bytes, field::ATTR);
        Encoder {
            trace,
            graph,
            groups,
            options,
            plan,
            texts,
            pid: thread_pid(trace).map(u64::cast_signed),
            message,
            ctrl_deps: vec![],
            data_deps: vec![],
            ctrl_latencies: vec![],
            data_latencies: vec![],
            left_out: vec![],
            summary: WriteSummary::default(),
        }
    }

    /// Returns the bytes with the appended nodes, and their summary.
    pub(crate) fn finish(self) -> OutputBlock {
        OutputBlock {
            bytes: self.message.bytes(),
            summary: self.summary,
        }
    }

    /// Writes node `index`, preceded by its latency if that is a node.
    pub(crate) fn node(&mut self, index: NodeIdx) {
        let (trace, graph) = (self.trace, self.graph);
        let node = graph.nodes.get(index);
        if !self.plan.is_written(index, node.kind, self.options) {
            return;
        }
        // Of the nodes that one node of the trace has become, only one communicates.
        let origin = if graph.is_communication(index) {
            graph.origin(index)
        } else {
            None
        };
        let comm =
            origin.and_then(|origin| comm_of(trace, self.groups, self.options, origin)?.ok());
        let node_type = node_type(comm.as_ref());
        self.write_deps(index);
        // The latency node takes the deps and leaves its own id as the node's only dep.
        if self.plan.has_latency_node(index) {
            self.latency_node(index, &node);
        }
        let trace_name = graph
            .standing_for(index)
            .unwrap_or_else(|| trace.name(&node));
        let comm_name = if self.options.serialize_comms {
            comm.as_ref()
        } else {
            None
        };
        let comm_name = comm_name.map(SimulatedComm::name);
        self.message.begin();
        self.message.uint(field::ID, self.plan.id(index));
        self.message
            .text(field::NAME, comm_name.as_deref().unwrap_or(trace_name));
        self.message.uint(field::TYPE, node_type as u64);
        self.message.list(field::CTRL_DEPS, &self.ctrl_deps);
        self.message.list(field::DATA_DEPS, &self.data_deps);
        self.write_start(self.aligned(node.start.0));
        self.message
            .uint(field::DURATION_MICROS, self.plan.duration_us[index.index()]);
        if self.is_full() {
            self.write_arguments(index, &node);
        }
        self.simulator_attributes(index, &node, comm.as_ref());
        if self.is_full() {
            self.write_details(index, &node, node_type);
            if comm_name.is_some() {
                self.message.attr_text("trace_name", trace_name);
            }
            self.write_communication(&node);
        }
        self.summary.nodes += 1;
        self.summary.count(node_type);
        self.message.end();
    }

    /// Returns true if nodes have more attributes than simulators read.
    fn is_full(&self) -> bool {
        self.options.attributes == AttributeSet::Full
    }

    /// Writes the start, which no simulator reads. Without starts, a reader computes from
    /// durations, including latencies, what a simulator does.
    fn write_start(&mut self, start_ns: i64) {
        let start_us = u64::try_from(start_ns.div_euclid(1000));
        if self.is_full() {
            self.message
                .uint(field::START_TIME_MICROS, start_us.unwrap_or(0));
        }
    }

    /// Converts a time to the clock of the file.
    fn aligned(&self, ns: i64) -> i64 {
        self.options.aligned(self.trace, ns)
    }

    /// Writes the latency node of node `index`, which takes its deps and becomes its only dep.
    fn latency_node(&mut self, index: NodeIdx, node: &Node) {
        let (id, latency) = (self.plan.id(index) - 1, self.plan.latency[index.index()]);
        let start_ns = self.aligned(node.start.0).saturating_sub(latency.0);
        self.message.begin();
        self.message.uint(field::ID, id);
        self.message.text(field::NAME, "latency");
        self.message.uint(field::TYPE, NodeType::CompNode as u64);
        self.message.list(field::CTRL_DEPS, &self.ctrl_deps);
        self.message.list(field::DATA_DEPS, &self.data_deps);
        self.write_start(start_ns);
        self.message
            .uint(field::DURATION_MICROS, self.plan.latency_us[index.index()]);
        let on_host = self.graph.is_cpu_op(node);
        if on_host {
            self.message.attr_bool("is_cpu_op", true);
        } else if self.plan.roofline.is_some() {
            self.keep_duration(self.plan.latency_us[index.index()]);
        }
        if self.is_full() {
            self.message.attr_text("kind", "latency");
            self.write_times(start_ns, latency);
            self.write_place(node);
        }
        self.summary.nodes += 1;
        self.summary.deps += 1;
        self.summary.count(NodeType::CompNode);
        self.message.end();
        self.ctrl_deps.clear();
        self.data_deps.clear();
        // From here on, the node waits for its latency, which waits for everything else.
        self.ctrl_deps.push(id);
    }

    /// Sorts the deps of a node by meaning, and names repeated ones once. An omitted node is
    /// replaced with its own deps.
    fn write_deps(&mut self, index: NodeIdx) {
        self.ctrl_deps.clear();
        self.data_deps.clear();
        let mut next = Some(index);
        while let Some(index) = next.take().or_else(|| self.left_out.pop()) {
            let edges = self.graph.edges.deps(index);
            // Most nodes have a single dep.
            let is_only = edges.iter().nth(1).is_none();
            for edge in edges
                .iter()
                .filter(|edge| is_only || !implied(edges, *edge))
            {
                if is_left_out(self.graph.nodes.kind[edge.from.index()], self.options) {
                    self.left_out.push(edge.from);
                    continue;
                }
                let id = self.plan.id(edge.from);
                // Several nodes can be written as one.
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
        // Data and not control: the order of two communications is a matter of the network, not of
        // a thread.
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

    /// Collects the latencies of a node's deps; for a repeated dep, the longer one counts.
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

    /// Writes the attributes that simulators read. They search the attributes from the start, so
    /// these come first.
    fn simulator_attributes(
        &mut self,
        index: NodeIdx,
        node: &Node,
        comm: Option<&SimulatedComm<'_>>,
    ) {
        // ASTRA-sim throws at a communication node with `is_cpu_op` true, so Gloo's have it false
        // as well. Feeders assume false if it is absent.
        if comm.is_none() && self.graph.is_cpu_op(node) {
            self.message.attr_bool("is_cpu_op", true);
            // The time before a rank begins later than others is nobody's work.
            let is_before_all = node.kind == NodeKind::Boundary && node.track == TrackIdx::NONE;
            if !is_before_all {
                let take_ns = self.plan.duration_us[index.index()].saturating_mul(1000);
                self.summary.host_ns = self.summary.host_ns.saturating_add(take_ns);
            }
        }
        if let Some(comm) = comm {
            self.communication_attributes(comm);
        } else if let Some(roofline) = &self.plan.roofline {
            self.roofline_attributes(index, node, roofline.node_work(self.trace, node));
        }
    }

    /// Writes the attributes that a simulator with a roofline reads.
    fn roofline_attributes(&mut self, index: NodeIdx, node: &Node, work: Option<RooflineWork>) {
        let on_host = self.graph.is_cpu_op(node);
        if !on_host {
            return self.device_roofline(index, node, work);
        }
        if let Some(work) = work {
            self.write_work(&work, 1);
        }
    }

    /// Writes the roofline attributes of a device node, whose time simulators compute from them.
    fn device_roofline(&mut self, index: NodeIdx, node: &Node, work: Option<RooflineWork>) {
        let take_us = self.plan.duration_us[index.index()];
        let take_ns = take_us.saturating_mul(1000);
        let peaks = self.peaks();
        let cover = &mut self.summary.roofline;
        cover.nodes += 1;
        cover.time_ns = cover.time_ns.saturating_add(take_ns);
        let Some(work) = work else {
            cover.kept += 1;
            cover.kept_ns = cover.kept_ns.saturating_add(take_ns);
            cover.roofline_ns = cover.roofline_ns.saturating_add(take_ns);
            return self.keep_duration(take_us);
        };
        let bytes = work.bytes.max(MIN_DEVICE_BYTES);
        let roofline_ns = peaks.time_ns(work.operations, bytes);
        let measured_ns = self.plan.duration[index.index()].0.unsigned_abs();
        if !is_plausible(work.formula, roofline_ns, measured_ns) {
            cover.implausible += 1;
            cover.implausible_ns = cover.implausible_ns.saturating_add(take_ns);
            cover.roofline_ns = cover.roofline_ns.saturating_add(take_ns);
            return self.keep_duration(take_us);
        }
        cover.roofline_ns = cover.roofline_ns.saturating_add(roofline_ns);
        let times = KernelTimes {
            nodes: 1,
            measured_ns: take_ns,
            roofline_ns,
        };
        self.summary.add_kernel(self.trace.name(node), &times);
        self.write_work(&work, MIN_DEVICE_BYTES);
    }

    /// Returns the peaks of the device that roofline times are computed for.
    fn peaks(&self) -> RooflinePeaks {
        let agreement = self.options.agreement;
        agreement.map_or_else(RooflinePeaks::default, |agreement| agreement.peaks)
    }

    fn write_work(&mut self, work: &RooflineWork, least_bytes: u64) {
        // ASTRA-sim's roofline throws if either is missing, and aborts at a `num_ops` of 0.
        self.message.attr_uint("num_ops", work.operations.max(1));
        self.message
            .attr_uint("tensor_size", work.bytes.max(least_bytes));
        if self.is_full() {
            self.message
                .attr_text("roofline_source", work.formula.name());
        }
        *self.summary.work.entry(work.formula).or_default() += 1;
    }

    /// Gives a node that keeps its time the number of bytes that the device's memory moves in this
    /// time, so that the roofline results in the same time.
    fn keep_duration(&mut self, duration_us: u64) {
        let ns = duration_us.saturating_mul(1000);
        // Half a nanosecond is added because ASTRA-sim truncates its quotient to whole nanoseconds.
        let rate = self.peaks().gb_per_s;
        let bytes = ns.saturating_mul(rate).saturating_add(rate / 2);
        self.message.attr_uint("num_ops", 1);
        self.message
            .attr_uint("tensor_size", bytes.max(MIN_DEVICE_BYTES));
        if self.is_full() {
            self.message.attr_text("roofline_source", DURATION);
        }
    }

    /// Writes the attributes of a communication node. Ranks and tag are `int32`, the type that
    /// Chakra's first feeder requests. The tag is always 0: `Seq` is a rank's own count and differs
    /// between the two sides, while messages with the same tag match in order.
    fn communication_attributes(&mut self, comm: &SimulatedComm<'_>) {
        match comm {
            SimulatedComm::Collective { kind, bytes, group } => {
                self.message.attr_int("comm_type", i64::from(*kind as i32));
                self.message.attr_int("comm_size", *bytes);
                if let Some(group) = group {
                    self.message.attr_text("pg_name", group);
                }
            }
            SimulatedComm::PointToPoint {
                send,
                peer,
                own,
                bytes,
            } => {
                let (own, peer) = (*own, Some(*peer));
                let (src, dst) = if *send { (own, peer) } else { (peer, own) };
                for (name, rank) in [("comm_src", src), ("comm_dst", dst)] {
                    if let Some(rank) = rank.and_then(|rank| i32::try_from(rank).ok()) {
                        self.message.attr_int32(name, rank);
                    }
                }
                self.message.attr_int32("comm_tag", 0);
                self.message.attr_int("comm_size", *bytes);
            }
        }
    }
}

/// Returns true if an edge of another kind already names the same node.
fn implied(edges: NodeDeps<'_>, edge: Edge) -> bool {
    let mut earlier = EdgeKind::ALL
        .into_iter()
        .take_while(|kind| *kind < edge.kind);
    earlier.any(|kind| edges.contains(kind, edge.from))
}

/// Returns true if a node can have done the work of its formula in its measured time.
fn is_plausible(formula: RooflineFormula, roofline_ns: u64, measured_ns: u64) -> bool {
    let most = measured_ns.saturating_mul(MOST_OF_MEASURED);
    let least = match formula {
        RooflineFormula::Bytes | RooflineFormula::Unknown | RooflineFormula::Copy => {
            measured_ns / LEAST_OF_MEASURED
        }
        // A small product waits longer for its launch than it computes, so there is no lower limit.
        _ => 0,
    };
    (least..=most).contains(&roofline_ns)
}

fn node_type(comm: Option<&SimulatedComm<'_>>) -> NodeType {
    match comm {
        None => NodeType::CompNode,
        Some(SimulatedComm::Collective { .. }) => NodeType::CommCollNode,
        Some(SimulatedComm::PointToPoint { send: true, .. }) => NodeType::CommSendNode,
        Some(SimulatedComm::PointToPoint { send: false, .. }) => NodeType::CommRecvNode,
    }
}
