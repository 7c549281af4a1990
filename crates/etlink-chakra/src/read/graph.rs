//! A trace file in memory, as columns.

use crate::AttributeSet;
use crate::et::attributes::ATTRIBUTE_SET;
use crate::finding::Findings;
use crate::proto::NodeType;
use etlink_model::{NameId, Names, TrackLabel};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use serde::Serialize;

/// What a file is, by its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Varint-delimited Chakra messages.
    ChakraEt,
    /// The same as `chakra_jsonizer` prints it: JSON objects one after the other.
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
    /// Whether `ctrl_deps` are parents in the op tree rather than dependencies.
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
    /// The list of node `index`.
    pub fn list(&self, index: usize) -> &[u64] {
        // Ends alone are kept: a list begins where the one before it ends.
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[index]]
    }

    /// All ids of all lists.
    pub fn all(&self) -> &[u64] {
        &self.all
    }

    pub(crate) fn push(&mut self, list: &[u64]) {
        self.all.extend_from_slice(list);
        self.ends.push(self.all.len());
    }
}

/// What the deps of a node take by themselves, ns. Empty: the node does not say, and in a file
/// where others do it is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepLatencies {
    /// Per entry of `ctrl_deps`.
    pub ctrl: Vec<i64>,
    /// Per entry of `data_deps`.
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

/// What a communication node says; absent is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommAttrs {
    /// `comm_type`, a `CollectiveCommType`.
    pub comm_type: Option<i64>,
    /// `comm_size`, bytes.
    pub size: Option<i64>,
    /// `comm_src`.
    pub src: Option<i64>,
    /// `comm_dst`.
    pub dst: Option<i64>,
    /// `comm_tag`.
    pub tag: Option<i64>,
    /// `pg_name`.
    pub group: Option<NameId>,
    /// `seq`, which no simulator reads: the number that the recording gave it in its group.
    pub seq: Option<i64>,
}

/// Where a node runs, as far as the file says. Texts are names of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodePlacement {
    /// `pid`.
    pub pid: Option<TrackLabel>,
    /// `tid`.
    pub tid: Option<TrackLabel>,
    /// `device`.
    pub device: Option<i64>,
    /// `stream`.
    pub stream: Option<i64>,
}

/// A node that is being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode<'a> {
    /// Id, unique in a sound file.
    pub id: u64,
    /// Type by the schema; `InvalidNode` where it has no such number.
    pub node_type: NodeType,
    /// Name of the op, kernel or call.
    pub name: &'a str,
    /// Attribute `kind`; of ET+ nodes `host_op` or `device_op`.
    pub kind: &'a str,
    /// When it began, ns; `None` where the file does not say.
    pub start_ns: Option<i64>,
    /// How long it took, ns.
    pub duration_ns: i64,
    /// `duration_micros`, ns, where the file has both that and `duration_ns`: what other readers
    /// take.
    pub stock_duration_ns: Option<i64>,
    /// In a tree: the same with all below it, ns.
    pub inclusive_ns: Option<i64>,
    /// `latency_ns`.
    pub latency_ns: Option<i64>,
    /// `correlation`.
    pub correlation: Option<i64>,
    /// Where it ran.
    pub place: NodePlacement,
    /// `is_cpu_op`.
    pub is_cpu_op: Option<bool>,
    /// Communication attributes.
    pub comm: CommAttrs,
    /// `transfer_of`.
    pub transfer_of: Option<i64>,
}

/// A trace file.
#[derive(Clone, Debug, Default)]
pub struct ChakraGraph {
    /// What kind of file it is.
    pub format: FileKind,
    /// Its size, unpacked, bytes.
    pub bytes: u64,
    /// What stands around the nodes, as texts.
    pub metadata: Vec<(String, String)>,
    /// The strings that `name`, `kind` and places number.
    pub names: Names,
    /// Ids, in file order as all columns are.
    pub id: Vec<u64>,
    /// Types by the schema.
    pub node_type: Vec<NodeType>,
    /// Names, as entries of `names`.
    pub name: Vec<NameId>,
    /// Attribute `kind`.
    pub kind: Vec<NameId>,
    /// Starts, ns; `None` where the file does not say.
    pub start_ns: Vec<Option<i64>>,
    /// Durations, ns; of a tree exclusive ones.
    pub duration_ns: Vec<i64>,
    /// `duration_micros`, ns, which other readers take; else the same.
    pub stock_duration_ns: Vec<i64>,
    /// In a tree with all that is below the node; else the same.
    pub inclusive_ns: Vec<i64>,
    /// `latency_ns`: from the end of what a node waits for to its start.
    pub latency_ns: Vec<Option<i64>>,
    /// `correlation`.
    pub correlation: Vec<Option<i64>>,
    /// Entry of `places`.
    pub place: Vec<u32>,
    /// Where nodes run.
    pub places: IndexSet<NodePlacement, FxBuildHasher>,
    /// `is_cpu_op`.
    pub is_cpu_op: Vec<Option<bool>>,
    /// Communication attributes of nodes that have any, by node.
    pub comm: FxHashMap<u32, CommAttrs>,
    /// `transfer_of`: nodes that carry out a communication, and the id of the node that
    /// communicates.
    pub transfers: Vec<(u32, u64)>,
    /// In a tree: nodes that are ranges which the program named.
    pub annotations: FxHashSet<u32>,
    /// `ctrl_deps`; in ET+ and host traces the parent.
    pub ctrl_deps: IdLists,
    /// `data_deps`; in ET+ `inter_thread_dep` and `sync_dep`.
    pub data_deps: IdLists,
    /// `ctrl_latency_ns` and `data_latency_ns` of nodes that have one, by node.
    pub dep_latencies: FxHashMap<u32, DepLatencies>,
    /// What went wrong while reading.
    pub findings: Findings,
}

/// What is in a file, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphSummary {
    /// What kind of file it is.
    pub format: FileKind,
    /// Its size, unpacked, bytes.
    pub bytes: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Nodes by type, by the schema's names.
    pub types: IndexMap<&'static str, u64>,
    /// Nodes by attribute `kind`.
    pub kinds: IndexMap<String, u64>,
    /// Nodes with `is_cpu_op` true.
    pub cpu_nodes: u64,
    /// `ctrl_deps`; parents in ET+ and host traces.
    pub ctrl_deps: u64,
    /// `data_deps`.
    pub data_deps: u64,
    /// Sum of durations, ns.
    pub duration_ns: i64,
    /// First start and last end, where nodes have starts.
    pub window_ns: Option<(i64, i64)>,
}

impl ChakraGraph {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Whether the file has no nodes.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Name of node `index`.
    pub fn name_of(&self, index: usize) -> &str {
        self.names.get(self.name[index])
    }

    /// Attribute `kind` of node `index`, empty where the file has none.
    pub fn kind_of(&self, index: usize) -> &str {
        self.names.get(self.kind[index])
    }

    /// Which attributes the nodes have, where the file says so.
    pub fn attribute_set(&self) -> Option<AttributeSet> {
        let (_, name) = self.metadata.iter().find(|(key, _)| key == ATTRIBUTE_SET)?;
        AttributeSet::from_name(name)
    }

    /// What the file does not say because it was written so, in a line; `None` if it says all.
    pub fn unsaid(&self) -> Option<&'static str> {
        match self.attribute_set()? {
            AttributeSet::Full => None,
            AttributeSet::Minimal => Some(
                "written with --attrs minimal: starts, threads, streams, launches and kinds of \
                nodes are not in it",
            ),
        }
    }

    /// A value of the metadata that is a whole number.
    pub fn metadata_int(&self, key: &str) -> Option<i64> {
        let (_, value) = self.metadata.iter().find(|(known, _)| known == key)?;
        value.parse().ok()
    }

    /// What the times of the file count from, ns since the Unix epoch.
    pub fn base_time_ns(&self) -> Option<i64> {
        self.metadata_int("base_time_ns")
    }

    /// What of the file is lost, in a line; `None` if nothing is.
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

    /// A process or thread as a text.
    pub fn label(&self, label: TrackLabel) -> String {
        match label {
            TrackLabel::Int(number) => number.to_string(),
            TrackLabel::Text(text) => self.names.get(text).to_owned(),
        }
    }

    /// Where node `index` runs.
    pub fn place_of(&self, index: usize) -> NodePlacement {
        self.places
            .get_index(self.place[index] as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Communication attributes of node `index`.
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

    /// What the deps of the node that is pushed next take by themselves.
    pub(crate) fn push_latencies(&mut self, latencies: &DepLatencies) {
        if !latencies.is_empty()
            && let Ok(index) = u32::try_from(self.len())
        {
            self.dep_latencies.insert(index, latencies.clone());
        }
    }

    /// Appends a node.
    pub(crate) fn push(&mut self, node: &GraphNode<'_>, ctrl_deps: &[u64], data_deps: &[u64]) {
        // Few nodes communicate, so that a column of these attributes would be nearly empty.
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
        // Millions of nodes run in a few dozen places.
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
