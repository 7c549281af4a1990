//! A trace file in memory, as columns.

use crate::AttributeSet;
use crate::et::attributes::ATTRIBUTE_SET;
use crate::finding::Findings;
use crate::proto::NodeType;
use etlink_model::{NameId, Names, TrackLabel};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use serde::Serialize;

/// Kind of a file, by its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Varint-delimited Chakra messages.
    ChakraEt,
    /// Chakra messages as `chakra_jsonizer` prints them: JSON objects one after another.
    ChakraJson,
    /// A PyTorch execution trace with times and device rows.
    EtPlus,
    /// A PyTorch execution trace.
    HostTrace,
    /// A Kineto trace.
    KinetoTrace,
    /// Anything else.
    #[default]
    Unknown,
}

impl FileKind {
    /// Returns true if `ctrl_deps` are parents in the op tree rather than dependencies.
    pub fn is_tree(self) -> bool {
        matches!(self, FileKind::EtPlus | FileKind::HostTrace)
    }
}

/// Lists of ids, one per node, as compressed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdLists {
    all: Vec<u64>,
    ends: Vec<usize>,
}

impl IdLists {
    /// Returns the list of node `index`.
    pub fn list(&self, index: usize) -> &[u64] {
        // Only ends are stored: a list begins at the end of the previous one.
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[index]]
    }

    /// Returns the ids of all lists.
    pub fn all(&self) -> &[u64] {
        &self.all
    }

    pub(crate) fn push(&mut self, list: &[u64]) {
        self.all.extend_from_slice(list);
        self.ends.push(self.all.len());
    }
}

/// Latencies of a node's deps, in nanoseconds. An empty list means that the node states none; if
/// other nodes of the file do, all its latencies are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepLatencies {
    /// Latency per entry of `ctrl_deps`.
    pub ctrl: Vec<i64>,
    /// Latency per entry of `data_deps`.
    pub data: Vec<i64>,
}

impl DepLatencies {
    pub(crate) fn clear(&mut self) {
        self.ctrl.clear();
        self.data.clear();
    }

    fn is_empty(&self) -> bool {
        self.ctrl.is_empty() && self.data.is_empty()
    }
}

/// Attributes of a communication node; absent ones are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommAttrs {
    /// `comm_type`, a `CollectiveCommType`.
    pub comm_type: Option<i64>,
    /// `comm_size` in bytes.
    pub size: Option<i64>,
    /// `comm_src`, the sending rank.
    pub src: Option<i64>,
    /// `comm_dst`, the receiving rank.
    pub dst: Option<i64>,
    /// `comm_tag` of a message.
    pub tag: Option<i64>,
    /// `pg_name` of the process group.
    pub group: Option<NameId>,
    /// `seq`, which no simulator reads: the number in its group that the recording stated.
    pub seq: Option<i64>,
}

/// Place in which a node runs, as far as the file states it. Texts are names of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodePlacement {
    /// `pid`, the process.
    pub pid: Option<TrackLabel>,
    /// `tid`, the thread.
    pub tid: Option<TrackLabel>,
    /// `device`, the number of the device.
    pub device: Option<i64>,
    /// `stream`, the number of the stream.
    pub stream: Option<i64>,
}

/// A node that is being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode<'a> {
    /// Id, unique in a valid file.
    pub id: u64,
    /// Type by the schema; `InvalidNode` for a number unknown to the schema.
    pub node_type: NodeType,
    /// Name of the op, kernel or call.
    pub name: &'a str,
    /// Attribute `kind`; `host_op` or `device_op` for ET+ nodes.
    pub kind: &'a str,
    /// Start in nanoseconds; `None` if the file does not state it.
    pub start_ns: Option<i64>,
    /// Duration in nanoseconds.
    pub duration_ns: i64,
    /// `duration_micros` in nanoseconds, which other readers use; `None` if the file does not have
    /// it in addition to `duration_ns`.
    pub stock_duration_ns: Option<i64>,
    /// Duration including all descendants in a tree, in nanoseconds; `None` if it is the same.
    pub inclusive_ns: Option<i64>,
    /// `latency_ns`, before the start.
    pub latency_ns: Option<i64>,
    /// `correlation` id of a launch.
    pub correlation: Option<i64>,
    /// Place in which the node ran.
    pub place: NodePlacement,
    /// `is_cpu_op`; `None` if absent.
    pub is_cpu_op: Option<bool>,
    /// Communication attributes.
    pub comm: CommAttrs,
    /// `transfer_of`: id of the communication that the node carries out.
    pub transfer_of: Option<i64>,
}

/// Contents of a trace file.
#[derive(Clone, Debug, Default)]
pub struct ChakraGraph {
    /// Kind of the file.
    pub format: FileKind,
    /// Decompressed size of the file, in bytes.
    pub bytes: u64,
    /// Fields around the nodes, as texts.
    pub metadata: Vec<(String, String)>,
    /// Strings that `name`, `kind` and places refer to.
    pub names: Names,
    /// Ids; like all columns, in file order.
    pub id: Vec<u64>,
    /// Types by the schema.
    pub node_type: Vec<NodeType>,
    /// Names, as entries of `names`.
    pub name: Vec<NameId>,
    /// Attribute `kind`.
    pub kind: Vec<NameId>,
    /// Starts in nanoseconds; `None` if the file does not state one.
    pub start_ns: Vec<Option<i64>>,
    /// Durations in nanoseconds; exclusive ones in a tree.
    pub duration_ns: Vec<i64>,
    /// `duration_micros` in nanoseconds, which other readers use; else the duration.
    pub stock_duration_ns: Vec<i64>,
    /// Durations including all descendants in a tree, in nanoseconds; else the duration.
    pub inclusive_ns: Vec<i64>,
    /// `latency_ns`: time from the end of the last dep to the start.
    pub latency_ns: Vec<Option<i64>>,
    /// `correlation` ids of launches.
    pub correlation: Vec<Option<i64>>,
    /// Places of nodes, as entries of `places`.
    pub place: Vec<u32>,
    /// Places in which nodes run.
    pub places: IndexSet<NodePlacement, FxBuildHasher>,
    /// `is_cpu_op`; `None` if absent.
    pub is_cpu_op: Vec<Option<bool>>,
    /// Communication attributes of nodes that have any, by node.
    pub comm: FxHashMap<u32, CommAttrs>,
    /// `transfer_of`: nodes that carry out a communication, and the id of the communication's node.
    pub transfers: Vec<(u32, u64)>,
    /// Nodes of a tree that are ranges named by the program.
    pub annotations: FxHashSet<u32>,
    /// `ctrl_deps`; the parent in ET+ and host traces.
    pub ctrl_deps: IdLists,
    /// `data_deps`; `inter_thread_dep` and `sync_dep` in ET+.
    pub data_deps: IdLists,
    /// `ctrl_latency_ns` and `data_latency_ns` of nodes that have them, by node.
    pub dep_latencies: FxHashMap<u32, DepLatencies>,
    /// `sent_bytes` and `received_bytes` of uneven all-to-alls, per rank of the group, by node.
    pub pair_bytes: FxHashMap<u32, [Vec<u64>; 2]>,
    /// Faults found while reading.
    pub findings: Findings,
}

/// Summary of a file in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphSummary {
    /// Kind of the file.
    pub format: FileKind,
    /// Decompressed size of the file, in bytes.
    pub bytes: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of nodes by type, under the schema's names.
    pub types: IndexMap<&'static str, u64>,
    /// Number of nodes by attribute `kind`.
    pub kinds: IndexMap<String, u64>,
    /// Number of nodes with `is_cpu_op` true.
    pub cpu_nodes: u64,
    /// Number of `ctrl_deps`; parents in ET+ and host traces.
    pub ctrl_deps: u64,
    /// Number of `data_deps`.
    pub data_deps: u64,
    /// Sum of durations, in nanoseconds.
    pub duration_ns: i64,
    /// First start and last end in nanoseconds; `None` if no node has a start.
    pub window_ns: Option<(i64, i64)>,
}

impl ChakraGraph {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Returns true if the file has no nodes.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Returns the name of node `index`.
    pub fn name_of(&self, index: usize) -> &str {
        self.names.get(self.name[index])
    }

    /// Returns the attribute `kind` of node `index`; empty if the file has none.
    pub fn kind_of(&self, index: usize) -> &str {
        self.names.get(self.kind[index])
    }

    /// Returns the set of attributes that the nodes have; `None` if the file does not state it.
    pub fn attribute_set(&self) -> Option<AttributeSet> {
        let (_, name) = self.metadata.iter().find(|(key, _)| key == ATTRIBUTE_SET)?;
        AttributeSet::from_name(name)
    }

    /// Describes in one line the data that the file omits by choice; `None` if it omits nothing.
    pub fn unsaid(&self) -> Option<&'static str> {
        match self.attribute_set()? {
            AttributeSet::Full => None,
            AttributeSet::Minimal => Some(
                "the file was written with --attrs minimal, without start times, threads, streams, \
                launches and node kinds",
            ),
        }
    }

    /// Returns a metadata value that is an integer.
    pub fn metadata_int(&self, key: &str) -> Option<i64> {
        let (_, value) = self.metadata.iter().find(|(known, _)| known == key)?;
        value.parse().ok()
    }

    /// Returns the origin of the file's times, in nanoseconds since the Unix epoch.
    pub fn base_time_ns(&self) -> Option<i64> {
        self.metadata_int("base_time_ns")
    }

    /// Describes in one line the lost parts of the file; `None` if nothing is lost.
    pub fn damage(&self) -> Option<String> {
        let mut parts = vec![];
        for finding in self.findings.damage() {
            let first = finding.examples.first();
            let detail = first.map_or("", |example| example.detail.as_str());
            let offset = first.and_then(|example| example.offset);
            let place = offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
            let detail = match (detail, &place[..]) {
                ("", "") => String::new(),
                ("", place) => format!(", first{place}"),
                (detail, place) => format!(", first{place}: {detail}"),
            };
            parts.push(format!(
                "{} ({}{detail})",
                finding.kind.describe(),
                finding.count
            ));
        }
        (!parts.is_empty()).then(|| format!("damage: {}", parts.join("; ")))
    }

    /// Formats a process or thread as text.
    pub fn label(&self, label: TrackLabel) -> String {
        match label {
            TrackLabel::Int(number) => number.to_string(),
            TrackLabel::Text(text) => self.names.get(text).to_owned(),
        }
    }

    /// Returns the dependencies of a node by id, the control dependencies first, each with true if it
    /// is one of these.
    pub fn deps(&self, index: usize) -> impl Iterator<Item = (bool, u64)> {
        let control = self.ctrl_deps.list(index).iter().map(|id| (true, *id));
        control.chain(self.data_deps.list(index).iter().map(|id| (false, *id)))
    }

    /// Returns the place in which node `index` runs.
    pub fn place_of(&self, index: usize) -> NodePlacement {
        self.places
            .get_index(self.place[index] as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the communication attributes of node `index`.
    pub fn comm_of(&self, index: usize) -> CommAttrs {
        u32::try_from(index)
            .ok()
            .and_then(|index| self.comm.get(&index).copied())
            .unwrap_or_default()
    }

    /// Counts nodes, deps and time. O(nodes).
    pub fn summary(&self) -> GraphSummary {
        let mut summary = GraphSummary {
            format: self.format,
            bytes: self.bytes,
            nodes: self.len() as u64,
            cpu_nodes: self
                .is_cpu_op
                .iter()
                .filter(|cpu| **cpu == Some(true))
                .count() as u64,
            ctrl_deps: self.ctrl_deps.all().len() as u64,
            data_deps: self.data_deps.all().len() as u64,
            ..GraphSummary::default()
        };
        for index in 0..self.len() {
            *summary
                .types
                .entry(self.node_type[index].as_str_name())
                .or_default() += 1;
            let kind = self.names.get(self.kind[index]);
            // `entry` would need an owned string per node.
            match summary.kinds.get_mut(kind) {
                Some(count) => *count += 1,
                None => drop(summary.kinds.insert(kind.to_owned(), 1)),
            }
            summary.duration_ns = summary.duration_ns.saturating_add(self.duration_ns[index]);
            if let Some(start) = self.start_ns[index] {
                let end = start.saturating_add(self.duration_ns[index]);
                let (first, last) = summary.window_ns.unwrap_or((start, end));
                summary.window_ns = Some((first.min(start), last.max(end)));
            }
        }
        summary
    }

    /// Adds the latencies of deps for the node that is pushed next.
    pub(crate) fn push_latencies(&mut self, latencies: &DepLatencies) {
        if !latencies.is_empty()
            && let Ok(index) = u32::try_from(self.len())
        {
            self.dep_latencies.insert(index, latencies.clone());
        }
    }

    /// Adds the bytes per pair of ranks for the node that is pushed next.
    pub(crate) fn push_pair_bytes(&mut self, pair_bytes: &[Vec<u64>; 2]) {
        if !pair_bytes.iter().all(Vec::is_empty)
            && let Ok(index) = u32::try_from(self.len())
        {
            self.pair_bytes.insert(index, pair_bytes.clone());
        }
    }

    /// Appends a node.
    pub(crate) fn push(&mut self, node: &GraphNode<'_>, ctrl_deps: &[u64], data_deps: &[u64]) {
        // Few nodes communicate, so a column of these attributes would be nearly empty.
        if node.comm != CommAttrs::default()
            && let Ok(index) = u32::try_from(self.len())
        {
            self.comm.insert(index, node.comm);
        }
        if let (Some(of), Ok(index)) = (node.transfer_of, u32::try_from(self.len())) {
            self.transfers.push((index, of.cast_unsigned()));
        }
        self.id.push(node.id);
        self.node_type.push(node.node_type);
        self.name.push(self.names.intern(node.name));
        self.kind.push(self.names.intern(node.kind));
        self.start_ns.push(node.start_ns);
        self.duration_ns.push(node.duration_ns);
        let stock_duration_ns = node.stock_duration_ns.unwrap_or(node.duration_ns);
        self.stock_duration_ns.push(stock_duration_ns);
        self.inclusive_ns
            .push(node.inclusive_ns.unwrap_or(node.duration_ns));
        self.latency_ns.push(node.latency_ns);
        self.correlation.push(node.correlation);
        // Millions of nodes share a few dozen places.
        let place = self
            .places
            .get_index_of(&node.place)
            .unwrap_or_else(|| self.places.insert_full(node.place).0);
        self.place.push(u32::try_from(place).unwrap_or(u32::MAX));
        self.is_cpu_op.push(node.is_cpu_op);
        self.ctrl_deps.push(ctrl_deps);
        self.data_deps.push(data_deps);
    }
}
