//! Call tree of the host: ops, annotations, modules and Python frames, with their time on the host
//! and the time of the device rows they launched.
//!
//! ```text
//! node      all ranges of one name and kind below one node; a root is a host thread
//! host      sum of the ranges' times; if two overlap without nesting, one is truncated
//! device    sum of the durations of the device rows whose launch call began in the range
//! self      time without the children's
//! ```
//! Runtime calls are part of the node in which they began. Rows without a call on the host belong
//! to the root [`CallKind::Device`]. So the roots' device times add up to the durations of all
//! rows. All steps of a phase form one node. Modules of one class below one node form one node,
//! unless each is requested. Modules (`nn.Module: …`) stay even without Python frames. The trace
//! must be read with [auxiliary events](DeviceTrace::auxiliary). O(n log n).

use super::TopOrder;
use super::ranges::{HostRange, RangeSource, end_unfinished, host_ranges};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::RankSteps;
use etlink_model::{Correlation, DeviceTrace, NameId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;

/// Kind of a node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A host thread.
    #[default]
    Thread,
    /// Device work that no call of the trace launched.
    Device,
    /// A step.
    Step,
    /// Any other user annotation.
    Annotation,
    /// A module's call, as recorded in the profiler's stacks.
    Module,
    /// Any other frame of the Python stack.
    Python,
    /// An op.
    Op,
}

/// A node of the call tree; times in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallNode {
    /// Index of the parent node; `None` for roots.
    pub parent: Option<u32>,
    /// Number of nodes around this one.
    pub depth: u32,
    /// Kind of the node.
    pub kind: CallKind,
    /// Name of the node.
    pub name: String,
    /// Number of ranges.
    pub count: u64,
    /// Time on the host; for a thread, of its outermost ranges.
    pub host_ns: i64,
    /// Time on the host without the children's.
    pub self_host_ns: i64,
    /// Time of device rows launched in the node or its children.
    pub device_ns: i64,
    /// Time of device rows launched in the node itself.
    pub self_device_ns: i64,
}

/// Options of the call tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Includes frames that are no modules.
    pub python: bool,
    /// Makes a node for each module, not for each class of modules.
    pub each_module: bool,
    /// Order of the children of a node.
    pub order: TopOrder,
}

/// Nodes of a trace, each before its children, which are sorted by falling time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallTree {
    /// All nodes of the tree.
    pub nodes: Vec<CallNode>,
}

impl CallTree {
    /// Sums of the roots' times on the host and on devices, ns.
    pub fn totals(&self) -> (i64, i64) {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        roots.fold((0, 0), |(host, device), root| {
            (
                i64::saturating_add(host, root.host_ns),
                i64::saturating_add(device, root.device_ns),
            )
        })
    }
}

/// Key that separates nodes below one node: for a thread its number, else a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NodeKey {
    parent: u32,
    kind: CallKind,
    name: u32,
}

const ROOT: u32 = u32::MAX;

/// Tree under construction, each node after its parent.
struct TreeBuilder<'t> {
    trace: &'t DeviceTrace,
    keys: FxHashMap<NodeKey, u32>,
    nodes: Vec<CallNode>,
}

/// Builds the call tree of a trace.
pub fn call_tree(trace: &DeviceTrace, options: TreeOptions) -> CallTree {
    let mut ranges = host_ranges(trace);
    end_unfinished(&mut ranges);
    // PyTorch attributes calls outside all ops to the main thread; here they stay where they were
    // made.
    for range in &mut ranges {
        if let RangeSource::Call(call) = range.what {
            range.thread = trace.calls.thread[call as usize];
        }
    }
    let mut titles = SharedNames::new(trace);
    let mut builder = TreeBuilder {
        trace,
        keys: FxHashMap::default(),
        nodes: vec![],
    };
    let launched = launched_by_call(trace);
    let mut open: Vec<Vec<OpenRange>> = vec![vec![]; trace.threads.len()];
    for range in &ranges {
        let open = &mut open[range.thread.index()];
        let end = builder.make_room(open, range);
        let parent = match open.last() {
            Some(around) => around.node,
            None => builder.thread_node(range.thread.index()),
        };
        let node = match range.what {
            RangeSource::Call(call) => {
                builder.add_device_time(parent, launched.of_call[call as usize]);
                continue;
            }
            RangeSource::Overhead(_) => continue,
            RangeSource::Python(_) => match titles.frame(trace, range.name, options) {
                Some((kind, name)) => builder.add_range(parent, kind, name, range, end),
                None => parent,
            },
            RangeSource::Op(op) => {
                let (kind, name) = titles.kind_and_name(trace, op, range.name);
                builder.add_range(parent, kind, name, range, end)
            }
        };
        let is_counted = node != parent;
        open.push(OpenRange {
            end,
            node,
            is_counted,
        });
    }
    builder.add_unlaunched(launched.without_call);
    builder.finish(&titles, options.order)
}

/// A range that has begun, on the stack of its thread.
#[derive(Clone, Copy, Debug)]
struct OpenRange {
    end: i64,
    /// Node of the range, or of the range around it.
    node: u32,
    /// True if the node counts the range's time.
    is_counted: bool,
}

/// Time of device rows by launch, ns.
struct LaunchedTime {
    of_call: Vec<i64>,
    /// Time of rows that no call launched.
    without_call: i64,
}

fn launched_by_call(trace: &DeviceTrace) -> LaunchedTime {
    let mut calls: FxHashMap<Correlation, usize> = FxHashMap::default();
    for (call, correlation) in trace.calls.correlation.iter().enumerate() {
        if correlation.get().is_some() {
            // of several calls with one number, the first, as in the linker
            calls.entry(*correlation).or_insert(call);
        }
    }
    let mut time = LaunchedTime {
        of_call: vec![0; trace.calls.len()],
        without_call: 0,
    };
    for row in 0..trace.rows.len() {
        let call = calls.get(&trace.rows.correlation[row]);
        let sum = match call {
            Some(call) => &mut time.of_call[*call],
            None => &mut time.without_call,
        };
        *sum = sum.saturating_add(trace.rows.duration[row].0);
    }
    time
}

/// Prefix of the profiler's frames for module calls (`torch/csrc/autograd/profiler_python.cpp`).
const MODULE: &str = "nn.Module: ";

/// Names shared by several nodes: steps of a phase, and modules of a class.
struct SharedNames {
    /// First name of the phase or class, by name of a step's range or of a module.
    shared: FxHashMap<NameId, NameId>,
    /// Title of the node, by that first name.
    titles: FxHashMap<NameId, String>,
    /// First module of each class.
    classes: FxHashMap<String, NameId>,
}

impl SharedNames {
    fn new(trace: &DeviceTrace) -> SharedNames {
        let mut names = SharedNames {
            shared: FxHashMap::default(),
            titles: FxHashMap::default(),
            classes: FxHashMap::default(),
        };
        let mut firsts: FxHashMap<Option<String>, NameId> = FxHashMap::default();
        for step in RankSteps::all_of(trace) {
            // steps with equal names are numbered, but their ranges are not
            let unnumbered = step.name.rsplit_once(" (");
            let own = unnumbered.map_or(&step.name[..], |(name, _)| name);
            let found = [&step.name[..], own];
            let Some(id) = found.into_iter().find_map(|name| trace.names.find(name)) else {
                // steps that an optimizer ends are no ranges
                continue;
            };
            let first = *firsts.entry(step.work.phase.clone()).or_insert(id);
            names.shared.insert(id, first);
            let title = match step.work.phase {
                Some(phase) => format!("step ({phase})"),
                None => "step".to_owned(),
            };
            names.titles.entry(first).or_insert(title);
        }
        names
    }

    fn kind_and_name(&self, trace: &DeviceTrace, op: u32, name: NameId) -> (CallKind, NameId) {
        match self.shared.get(&name) {
            Some(shared) => (CallKind::Step, *shared),
            None if trace.ops.annotation[op as usize] => (CallKind::Annotation, name),
            None => (CallKind::Op, name),
        }
    }

    /// Returns the kind and name of a frame's node; `None` if the frame has no node.
    fn frame(
        &mut self,
        trace: &DeviceTrace,
        name: NameId,
        options: TreeOptions,
    ) -> Option<(CallKind, NameId)> {
        let text = trace.names.get(name);
        let Some(module) = text.strip_prefix(MODULE) else {
            return options.python.then_some((CallKind::Python, name));
        };
        if options.each_module {
            return Some((CallKind::Module, name));
        }
        if let Some(first) = self.shared.get(&name) {
            return Some((CallKind::Module, *first));
        }
        // modules of a class are numbered: `Linear_0`, `Linear_1`
        let digits = |char: char| char.is_ascii_digit();
        let class = module.trim_end_matches(digits).trim_end_matches('_');
        let first = *self.classes.entry(class.to_owned()).or_insert(name);
        self.shared.insert(name, first);
        self.titles
            .entry(first)
            .or_insert_with(|| format!("{MODULE}{class}"));
        Some((CallKind::Module, first))
    }
}

impl TreeBuilder<'_> {
    fn thread_node(&mut self, thread: usize) -> u32 {
        let key = NodeKey {
            parent: ROOT,
            kind: CallKind::Thread,
            name: thread as u32,
        };
        self.node(key)
    }

    fn node(&mut self, key: NodeKey) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.keys.entry(key).or_insert(next);
        if number == next {
            let parent = (key.parent != ROOT).then_some(key.parent);
            self.nodes.push(CallNode {
                parent,
                depth: parent.map_or(0, |parent| self.nodes[parent as usize].depth + 1),
                kind: key.kind,
                ..CallNode::default()
            });
        }
        number
    }

    /// Pops ranges that end before `range` starts, and returns the end of the range's counted time.
    ///
    /// If two ranges overlap, one is truncated. A range that has most of its time inside another
    /// ends with that one, as does a range that ends on another thread. Otherwise the other one
    /// ends at the range's start: a step, or anything else a context manager opens, begins in the
    /// frame of `__enter__` and outlasts it.
    fn make_room(&mut self, open: &mut Vec<OpenRange>, range: &HostRange) -> i64 {
        while open.pop_if(|around| around.end <= range.start).is_some() {}
        let is_frame = matches!(range.what, RangeSource::Python(_));
        let is_call = matches!(range.what, RangeSource::Call(_) | RangeSource::Overhead(_));
        let ends_elsewhere = is_call || range.asynchronous && !is_frame;
        let mut end = range.end;
        while let Some(around) = open.last().copied() {
            let inside = around.end.saturating_sub(range.start);
            let outside = end.saturating_sub(around.end);
            if outside <= inside || ends_elsewhere {
                end = end.min(around.end);
                break;
            }
            if around.is_counted {
                let node = &mut self.nodes[around.node as usize];
                node.host_ns = node.host_ns.saturating_sub(inside);
            }
            open.pop();
        }
        end
    }

    fn add_range(
        &mut self,
        parent: u32,
        kind: CallKind,
        name: NameId,
        range: &HostRange,
        end: i64,
    ) -> u32 {
        let number = self.node(NodeKey {
            parent,
            kind,
            name: name.index() as u32,
        });
        let node = &mut self.nodes[number as usize];
        node.count += 1;
        node.host_ns = node
            .host_ns
            .saturating_add(end.saturating_sub(range.start).max(0));
        number
    }

    fn add_device_time(&mut self, node: u32, ns: i64) {
        let node = &mut self.nodes[node as usize];
        node.self_device_ns = node.self_device_ns.saturating_add(ns);
    }

    fn add_unlaunched(&mut self, ns: i64) {
        if ns > 0 {
            let node = self.node(NodeKey {
                parent: ROOT,
                kind: CallKind::Device,
                name: 0,
            });
            self.add_device_time(node, ns);
        }
    }

    fn finish(mut self, names: &SharedNames, by: TopOrder) -> CallTree {
        for (key, node) in &self.keys {
            self.nodes[*node as usize].name = match key.kind {
                CallKind::Thread => thread_name(self.trace, key.name as usize),
                CallKind::Device => "launched by no recorded call".to_owned(),
                kind => {
                    let id = NameId::new(key.name as usize);
                    let is_shared = matches!(kind, CallKind::Step | CallKind::Module);
                    let title = if is_shared {
                        names.titles.get(&id)
                    } else {
                        None
                    };
                    title.map_or_else(|| self.trace.names.get(id).to_owned(), Clone::clone)
                }
            };
        }
        sum_up(&mut self.nodes);
        in_order(self.nodes, by)
    }
}

/// Computes totals and self times. Children come after their parents.
fn sum_up(nodes: &mut [CallNode]) {
    for node in nodes.iter_mut() {
        node.self_host_ns = node.host_ns;
        node.device_ns = node.self_device_ns;
    }
    for at in (0..nodes.len()).rev() {
        let Some(parent) = nodes[at].parent else {
            continue;
        };
        let (host_ns, device_ns) = (nodes[at].host_ns, nodes[at].device_ns);
        let around = &mut nodes[parent as usize];
        around.device_ns = around.device_ns.saturating_add(device_ns);
        if around.kind == CallKind::Thread {
            // a thread has no time of its own
            around.host_ns = around.host_ns.saturating_add(host_ns);
        } else {
            around.self_host_ns = around.self_host_ns.saturating_sub(host_ns);
        }
    }
}

/// Sorts the nodes: each before its children, which are sorted by falling time.
fn in_order(nodes: Vec<CallNode>, by: TopOrder) -> CallTree {
    let mut children: Vec<Vec<u32>> = vec![vec![]; nodes.len()];
    let mut roots = vec![];
    for (at, node) in nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent as usize].push(at as u32),
            None => roots.push(at as u32),
        }
    }
    let weight = |at: &u32| {
        let node = &nodes[*at as usize];
        let first = match by {
            TopOrder::SelfDevice => node.self_device_ns,
            TopOrder::Device => node.device_ns,
            TopOrder::SelfHost => node.self_host_ns,
            TopOrder::Host => node.host_ns,
            TopOrder::Count => i64::try_from(node.count).unwrap_or(i64::MAX),
        };
        (Reverse(first), Reverse(node.host_ns), *at)
    };
    roots.sort_by_key(weight);
    for list in &mut children {
        list.sort_by_key(weight);
    }
    let mut places = vec![0; nodes.len()];
    let mut tree = CallTree::default();
    let mut open: Vec<u32> = roots.into_iter().rev().collect();
    while let Some(at) = open.pop() {
        let node = &nodes[at as usize];
        places[at as usize] = tree.nodes.len() as u32;
        tree.nodes.push(CallNode {
            parent: node.parent.map(|parent| places[parent as usize]),
            ..node.clone()
        });
        open.extend(children[at as usize].iter().rev());
    }
    tree
}

fn thread_name(trace: &DeviceTrace, thread: usize) -> String {
    let Some(thread) = trace.threads.get(thread) else {
        return "thread".to_owned();
    };
    let number = trace.label(thread.tid);
    match trace.thread_names.get(thread) {
        Some(name) if trace.names.get(*name).contains(&number) => trace.names.get(*name).to_owned(),
        Some(name) => format!("{} ({number})", trace.names.get(*name)),
        None => format!("thread {number}"),
    }
}

#[cfg(test)]
mod tests;
