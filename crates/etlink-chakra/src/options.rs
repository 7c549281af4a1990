//! What the caller decides about a file, and what the writer tells about it.

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

/// Where the time goes that lies between the end of the last node that a node waits for and its
/// start: what launches and waits take. Chakra's edges have no weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyMode {
    /// Into the node's `duration_micros`; `duration_ns` is without it, `latency_ns` is the rest.
    #[default]
    Fold,
    /// Into a node of its own before it, of kind `latency`.
    Node,
    /// Nowhere.
    Drop,
}

/// Which part of a rank is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracePart {
    /// All of it.
    #[default]
    Whole,
    /// What runs on devices, and communications. Host nodes between two that anything else waits
    /// for, or that wait for anything else, are one node of kind `host` with their time.
    Device,
    /// Communications, and nodes of kind `compute` with the time that they did not hold up.
    Communication,
}

/// Which attributes the nodes of a file have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeSet {
    /// All that the traces say. What would repeat in many nodes stands in the first message.
    #[default]
    Full,
    /// What simulators read, and no more.
    Minimal,
}

impl AttributeSet {
    /// As files name it.
    pub const fn name(self) -> &'static str {
        match self {
            AttributeSet::Full => "full",
            AttributeSet::Minimal => "minimal",
        }
    }

    /// The set that a file names so.
    pub fn from_name(name: &str) -> Option<AttributeSet> {
        let all = [AttributeSet::Full, AttributeSet::Minimal];
        all.into_iter().find(|set| set.name() == name)
    }
}

/// What the caller decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// Which attributes nodes have.
    pub attributes: AttributeSet,
    /// Which part is written.
    pub part: TracePart,
    /// Where latency goes.
    pub latency: LatencyMode,
    /// Leave out host gaps: what waits for one waits for what that waits for.
    pub no_gaps: bool,
    /// What this rank's communications are among all ranks. Without it groups go by the names
    /// that the trace has, which differ between ranks for groups of a part of them.
    pub agreement: Option<&'a RankAgreement>,
    /// For simulators that run one host node, one device node and one communication at a time: each
    /// communication waits for the one before it, so that they cannot be swapped, and time in which
    /// several threads or streams run counts once.
    pub serialize_comms: bool,
    /// Say of each dependency what it takes by itself, and of each node how much later it could end
    /// (`ctrl_latency_ns`, `data_latency_ns`, `slack_ns`). Of a whole rank with its gaps and with
    /// latency in durations; else it changes nothing.
    pub dep_latencies: bool,
    /// Say what nodes compute and move (`num_ops`, `tensor_size`, `roofline_source`), as simulators
    /// with a roofline want it.
    pub roofline: bool,
    /// Brings all times to another rank's clock.
    pub clock: RankClock,
}

impl WriteOptions<'_> {
    /// Whether what single dependencies take is written: only where the file has the nodes and
    /// edges of the trace.
    pub(crate) fn has_dep_latencies(&self) -> bool {
        let is_as_linked = self.part == TracePart::Whole && !self.no_gaps && !self.serialize_comms;
        let is_full = self.attributes == AttributeSet::Full;
        self.dep_latencies && is_full && is_as_linked && self.latency == LatencyMode::Fold
    }

    /// A time of `trace` by the clock that the file is to have.
    pub(crate) fn aligned(&self, trace: &LinkedTrace, ns: i64) -> i64 {
        let base_ns = trace.device.header.base_ns;
        self.clock.aligned_trace_time(base_ns, TimeNs(ns)).0
    }
}

/// How much of what devices do has a formula, so that a roofline can say how long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RooflineCover {
    /// Nodes of devices that compute, copy or wait.
    pub nodes: u64,
    /// What they took, ns.
    pub time_ns: u64,
    /// Those without a formula, which keep their time.
    pub kept: u64,
    /// What these took, ns.
    pub kept_ns: u64,
    /// Those whose formula says something else than they can have done, which keep their time.
    pub implausible: u64,
    /// What these took, ns.
    pub implausible_ns: u64,
    /// What all nodes take by the roofline, with those that keep their time, ns.
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

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteSummary {
    /// Nodes that were written.
    pub nodes: u64,
    /// Deps that were written.
    pub deps: u64,
    /// Size of the output, bytes.
    pub bytes: u64,
    /// Nodes by type; ET+ nodes have no type.
    #[serde(serialize_with = "by_type")]
    #[cfg_attr(feature = "schema", schemars(with = "IndexMap<String, u64>"))]
    pub types: IndexMap<NodeType, u64>,
    /// Communication nodes written as computation, by reason.
    pub demoted: IndexMap<Demotion, u64>,
    /// Nodes that say what they compute and move, by how it was found.
    pub work: IndexMap<RooflineFormula, u64>,
    /// What nodes of the host (`is_cpu_op`) take one after the other, by `duration_micros`, ns; without
    /// the time until a rank begins after the others.
    pub host_ns: u64,
    /// How much of what a simulator's roofline times has a formula.
    pub roofline: RooflineCover,
    /// Kernels that take what the roofline says, by name.
    #[serde(skip)]
    pub roofline_kernels: BTreeMap<String, KernelTimes>,
    /// ET+: host nodes that have times.
    pub timed: u64,
    /// ET+: device rows.
    pub device_rows: u64,
    /// ET+: CPU ops that the host trace does not have, left out.
    pub ops_left_out: u64,
    /// ET+: values, shapes or types that could not be made JSON, written as empty lists.
    pub unreadable_values: u64,
}

impl WriteSummary {
    pub(crate) fn count(&mut self, node_type: NodeType) {
        // there are two or three: cheaper than a hash
        match self
            .types
            .iter_mut()
            .find(|(known, _)| **known == node_type)
        {
            Some((_, count)) => *count += 1,
            None => drop(self.types.insert(node_type, 1)),
        }
    }

    /// Adds the counts of another part of the same file, or run.
    pub fn add(&mut self, part: &WriteSummary) {
        // Demotions are left out: they are counted once, for the graph and not for its blocks.
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
            match self.roofline_kernels.get_mut(name) {
                Some(known) => known.add(times),
                None => drop(self.roofline_kernels.insert(name.clone(), *times)),
            }
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
