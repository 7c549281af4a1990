//! What the host called, as a tree: ops, annotations, modules and Python frames, with the time that
//! they take on the host and that of the device rows that they launched.
//!
//! ```text
//! node      all ranges of one name and kind below one node; a root is a host thread
//! host      sum of the ranges' times; of two that overlap without nesting one is cut
//! device    sum of the durations of the device rows whose launch call began in the range
//! self      that without the children's
//! ```
//! Runtime calls are part of the node that they began in. Rows without a call on the host are of
//! the root [`CallKind::Device`]. So the roots' device times add up to the durations of all rows.
//! All steps are one node per phase. Modules of one class below one node are one node, unless each
//! is asked for. Without Python frames, modules (`nn.Module: …`) stay. The trace has to be read with
//! [auxiliary events](DeviceTrace::auxiliary). O(n log n).

use super::TopOrder;
use super::ranges::{HostRange, RangeSource, end_unfinished, host_ranges};
use crate::steps::trace_steps;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Correlation, DeviceTrace, NameId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;

/// What a node is.
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
    /// A module's call, as the profiler's stacks have it.
    Module,
    /// Any other frame of the Python stack.
    Python,
    /// An op.
    Op,
}

/// A node; times are ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallNode {
    /// Place of the node around it; none of a root.
    pub parent: Option<u32>,
    /// How many nodes are around it.
    pub depth: u32,
    /// What it is.
    pub kind: CallKind,
    /// Its name.
    pub name: String,
    /// Number of ranges.
    pub count: u64,
    /// Time on the host; of a thread that of its outermost ranges.
    pub host_ns: i64,
    /// That without its children.
    pub self_host_ns: i64,
    /// Time of device rows that it and its children launched.
    pub device_ns: i64,
    /// Time of those that it launched itself.
    pub self_device_ns: i64,
}

/// How the tree is made.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// With frames that are no modules.
    pub python: bool,
    /// A node for each module, not one for those of a class.
    pub each_module: bool,
    /// How the children of a node are sorted.
    pub order: TopOrder,
}

/// The nodes, each before its children; these by falling time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallTree {
    /// All of them.
    pub nodes: Vec<CallNode>,
}

impl CallTree {
    /// Sum over the roots: host, device, ns.
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

/// What tells nodes below one node apart: for a thread its number, else a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NodeKey {
    parent: u32,
    kind: CallKind,
    name: u32,
}

const ROOT: u32 = u32::MAX;

/// Nodes in the making, each after its parent.
struct TreeBuilder<'t> {
    trace: &'t DeviceTrace,
    keys: FxHashMap<NodeKey, u32>,
    nodes: Vec<CallNode>,
}

/// The tree of a trace.
pub fn call_tree(trace: &DeviceTrace, options: TreeOptions) -> CallTree {
    let mut ranges = host_ranges(trace);
    end_unfinished(&mut ranges);
    // PyTorch counts calls that no op made to the main thread; here they stay where they were made.
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
    /// Its node, or that around it.
    node: u32,
    /// Whether the node has its time.
    is_counted: bool,
}

/// Time of device rows, ns.
struct LaunchedTime {
    of_call: Vec<i64>,
    /// Of rows that no call launched.
    without_call: i64,
}

fn launched_by_call(trace: &DeviceTrace) -> LaunchedTime {
    let mut calls: FxHashMap<Correlation, usize> = FxHashMap::default();
    for (call, correlation) in trace.calls.correlation.iter().enumerate() {
        if correlation.get().is_some() {
            // of several with one number the first, as the linker does
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

/// What the profiler calls the frame of a module's call (`torch/csrc/autograd/profiler_python.cpp`).
const MODULE: &str = "nn.Module: ";

/// Names that several nodes share: those of steps of a phase, and of modules of a class.
struct SharedNames {
    /// By name of a step's range or a module, the first one's of its phase or class.
    shared: FxHashMap<NameId, NameId>,
    /// By that, what the node is called.
    titles: FxHashMap<NameId, String>,
    /// By class, its first module.
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
        for step in trace_steps(trace) {
            // steps with one name are numbered, but their ranges are not
            let unnumbered = step.name.rsplit_once(" (");
            let own = unnumbered.map_or(&step.name[..], |(name, _)| name);
            let found = [&step.name[..], own];
            let Some(id) = found.into_iter().find_map(|name| trace.names.find(name)) else {
                // what an optimizer ends is no range
                continue;
            };
            let first = *firsts.entry(step.phase.clone()).or_insert(id);
            names.shared.insert(id, first);
            let title = match step.phase {
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

    /// Of a frame that has a node.
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

    /// Takes from the stack what ends before a range, and returns where the range's time ends.
    ///
    /// Of two that overlap one is cut: a range that has most of its time inside of another ends with
    /// it, as does one that ends on another thread. Else the other ends where it begins: a step, or
    /// what else a context manager opens, begins in the frame of `__enter__` and outlasts that.
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
                CallKind::Device => "launched by no call of the trace".to_owned(),
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

/// Totals and self times. Children come after their parents.
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

/// Each node before its children, these by falling time.
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
