//! Options of the caller for a file, and the writer's summary.

use crate::demotion::Demotion;
use crate::proto::NodeType;
use crate::rank_agreement::RankAgreement;
use crate::roofline_device::KernelTimes;
use etlink_link::LinkedTrace;
use etlink_link::ranks::RankClock;
use etlink_link::roofline::RooflineFormula;
use etlink_model::TimeNs;
use indexmap::IndexMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Treatment of latencies: the time between the end of a node's last dep and the node's start,
/// which launches and waits take. Chakra's edges have no weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyMode {
    /// Added to the node's `duration_micros`; `duration_ns` excludes the latency, `latency_ns`
    /// states it.
    #[default]
    Fold,
    /// Written as a separate node of kind `latency` before the node.
    Node,
    /// Dropped.
    Drop,
}

/// Part of a rank that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracePart {
    /// Everything.
    #[default]
    Whole,
    /// Device work and communications. Consecutive host nodes without other dependencies or
    /// dependents become one node of kind `host` with their time.
    Device,
    /// Communications, and nodes of kind `compute` with the time that communications did not delay.
    Communication,
}

/// Sets of attributes that nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AttributeSet {
    /// Everything in the traces. Data that many nodes would repeat is in the first message.
    #[default]
    Full,
    /// Only attributes that simulators read.
    Minimal,
}

impl AttributeSet {
    /// Returns the name of the set in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the set with this name in files.
    pub fn from_name(name: &str) -> Option<AttributeSet> {
        let all = [AttributeSet::Full, AttributeSet::Minimal];
        all.into_iter().find(|set| set.name() == name)
    }
}

/// Options of the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// Attributes of nodes.
    pub attributes: AttributeSet,
    /// Part of the trace that is written.
    pub part: TracePart,
    /// Treatment of latencies.
    pub latency: LatencyMode,
    /// Omits host gaps: nodes that wait for a gap wait for the gap's deps instead.
    pub no_gaps: bool,
    /// Decisions about this rank's communications among all ranks. Without them, groups use the
    /// names in the trace, which differ between ranks for groups of some ranks.
    pub agreement: Option<&'a RankAgreement>,
    /// Serializes for simulators that run one host node, one device node and one communication at a
    /// time. Each communication waits for the previous one, so that they cannot be swapped, and
    /// time in which several threads or streams run counts once.
    pub serialize_comms: bool,
    /// Writes the latency of each dependency, and the slack of each node (`ctrl_latency_ns`,
    /// `data_latency_ns`, `slack_ns`). Applies only to a whole rank with gaps and with latencies in
    /// durations.
    pub dep_latencies: bool,
    /// Writes the work of nodes (`num_ops`, `tensor_size`, `roofline_source`), as simulators with a
    /// roofline require.
    pub roofline: bool,
    /// Aligns all times to another rank's clock.
    pub clock: RankClock,
}

impl WriteOptions<'_> {
    /// Returns true if the latencies of dependencies are written, which requires the nodes and
    /// edges of the trace.
    pub(crate) fn has_dep_latencies(&self) -> bool {
        let is_as_linked = self.part == TracePart::Whole && !self.no_gaps && !self.serialize_comms;
        let is_full = self.attributes == AttributeSet::Full;
        self.dep_latencies && is_full && is_as_linked && self.latency == LatencyMode::Fold
    }

    /// Converts a time of `trace` to the clock of the file.
    pub(crate) fn aligned(&self, trace: &LinkedTrace, ns: i64) -> i64 {
        let base_ns = trace.device.header.base_ns;
        self.clock.aligned_trace_time(base_ns, TimeNs(ns)).0
    }
}

/// Coverage of device work by formulas, from which a roofline computes its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RooflineCover {
    /// Device nodes that compute, copy or wait.
    pub nodes: u64,
    /// Measured time of these nodes, in nanoseconds.
    pub time_ns: u64,
    /// Nodes without a formula, which keep their time.
    pub kept: u64,
    /// Measured time of nodes without a formula, in nanoseconds.
    pub kept_ns: u64,
    /// Nodes whose formula contradicts their measured time, which keep their time.
    pub implausible: u64,
    /// Measured time of nodes with a contradictory formula, in nanoseconds.
    pub implausible_ns: u64,
    /// Roofline time of all nodes, including those that keep their time, in nanoseconds.
    pub roofline_ns: u64,
}

impl RooflineCover {
    /// Adds another part of the same run.
    pub fn add(&mut self, other: &RooflineCover) {
        self.nodes += other.nodes;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.kept += other.kept;
        self.kept_ns = self.kept_ns.saturating_add(other.kept_ns);
        self.implausible += other.implausible;
        self.implausible_ns = self.implausible_ns.saturating_add(other.implausible_ns);
        self.roofline_ns = self.roofline_ns.saturating_add(other.roofline_ns);
    }
}

/// Summary of the written output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteSummary {
    /// Number of written nodes.
    pub nodes: u64,
    /// Number of written deps.
    pub deps: u64,
    /// Size of the output, in bytes.
    pub bytes: u64,
    /// Number of nodes by type; ET+ nodes have no type.
    #[serde(serialize_with = "by_type")]
    #[cfg_attr(feature = "schema", schemars(with = "IndexMap<String, u64>"))]
    pub types: IndexMap<NodeType, u64>,
    /// Communication nodes written as computation, by reason.
    pub demoted: IndexMap<Demotion, u64>,
    /// Nodes that state their work, by the formula it was found with.
    pub work: IndexMap<RooflineFormula, u64>,
    /// Total time of host nodes (`is_cpu_op`) by `duration_micros`, in nanoseconds, excluding the
    /// time before a rank begins later than others.
    pub host_ns: u64,
    /// Coverage of device work that a simulator's roofline times.
    pub roofline: RooflineCover,
    /// Times of kernels that take the roofline's time, by name.
    #[serde(skip)]
    pub roofline_kernels: BTreeMap<String, KernelTimes>,
    /// ET+: host nodes that have times.
    pub timed: u64,
    /// ET+: device rows.
    pub device_rows: u64,
    /// ET+: CPU ops missing in the host trace, which are omitted.
    pub ops_left_out: u64,
    /// ET+: values, shapes or types that could not be repaired, written as empty lists.
    pub unreadable_values: u64,
}

impl WriteSummary {
    pub(crate) fn count(&mut self, node_type: NodeType) {
        // There are two or three types: a search is cheaper than a hash.
        match self
            .types
            .iter_mut()
            .find(|(known, _)| **known == node_type)
        {
            Some((_, count)) => *count += 1,
            None => drop(self.types.insert(node_type, 1)),
        }
    }

    /// Adds the times of nodes with this name.
    pub(crate) fn add_kernel(&mut self, name: &str, times: &KernelTimes) {
        match self.roofline_kernels.get_mut(name) {
            Some(known) => known.add(times),
            None => drop(self.roofline_kernels.insert(name.to_owned(), *times)),
        }
    }

    /// Adds the counts of another part of the same file, or run.
    pub fn add(&mut self, part: &WriteSummary) {
        // Demotions are excluded: they are counted once per graph, not per block.
        self.nodes += part.nodes;
        self.deps += part.deps;
        part.types
            .iter()
            .for_each(|(kind, count)| *self.types.entry(*kind).or_default() += count);
        part.work
            .iter()
            .for_each(|(formula, count)| *self.work.entry(*formula).or_default() += count);
        self.host_ns = self.host_ns.saturating_add(part.host_ns);
        self.roofline.add(&part.roofline);
        for (name, times) in &part.roofline_kernels {
            self.add_kernel(name, times);
        }
        self.timed += part.timed;
        self.device_rows += part.device_rows;
        self.unreadable_values += part.unreadable_values;
    }
}

fn by_type<S: Serializer>(
    types: &IndexMap<NodeType, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(types.iter().map(|(kind, n)| (kind.as_str_name(), n)))
}
