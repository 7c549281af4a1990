//! The numbers that the nodes of a window have in the whole graph.

use super::error::WindowError;
use super::survey::{LinkWindow, Survey};
use crate::graph::kinds::NodeKind;
use crate::graph::nodes::{Node, Nodes};
use crate::trace::LinkedTrace;
use etlink_model::{DurationNs, NameId, NodeIdx, OpIdx, RfId, ThreadIdx, TimeNs};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Which nodes of a linked window are its own.
#[derive(Clone, Debug, Default)]
pub struct WindowNodes {
    /// Their places among the nodes of the window's graph.
    pub own: Range<usize>,
    /// Per node of the window's graph, its number in the whole one; [`NodeIdx::NONE`] of one that is
    /// in no edge to the window's own.
    pub numbers: Vec<NodeIdx>,
}

/// By what an op is known that runs in several windows.
type OpKey = (ThreadIdx, TimeNs, DurationNs, NameId, RfId);

/// The numbers of the windows so far.
pub(super) struct Numbers {
    count: u32,
    /// Per row, the numbers of its node and of the delay before it.
    rows: Vec<NodeIdx>,
    delays: Vec<NodeIdx>,
    /// Per thread, its last node, and the last before the next window's overlap.
    last: Vec<NodeIdx>,
    before_overlap: Vec<NodeIdx>,
    /// Threads that have their boundary.
    begun: Vec<bool>,
    /// The nodes that the next window has too.
    tail: Vec<Node>,
    /// The first slices of ops that go on; none of those that are not to be told apart.
    open: FxHashMap<OpKey, NodeIdx>,
}

impl Numbers {
    pub(super) fn new(survey: &Survey) -> Numbers {
        let (rows, threads) = (survey.launches.row_call.len(), survey.threads);
        Numbers {
            count: 0,
            rows: vec![NodeIdx::NONE; rows],
            delays: vec![NodeIdx::NONE; rows],
            last: vec![NodeIdx::NONE; threads],
            before_overlap: vec![NodeIdx::NONE; threads],
            begun: vec![false; threads],
            tail: vec![],
            open: FxHashMap::default(),
        }
    }

    /// Numbers the nodes of the next window. `before`: how many of them are placed before the
    /// overlap with the window before, before the window, before the next one's overlap and before
    /// that window.
    pub(super) fn number(
        &mut self,
        trace: &LinkedTrace,
        before: [usize; 4],
        window: &LinkWindow,
    ) -> Result<WindowNodes, WindowError> {
        let [overlap, begin, next_overlap, end] = before;
        let nodes = &trace.nodes;
        let mut numbers = vec![NodeIdx::NONE; nodes.len()];
        self.number_earlier(nodes, (overlap, begin), &mut numbers)?;
        for (node, place) in (begin..end).zip(0..) {
            let number = NodeIdx(self.count + place);
            numbers[node] = number;
            self.keep_once(nodes.get(NodeIdx::new(node)), number)?;
        }
        self.number_open_ops(trace, begin, window.from, &mut numbers)?;
        for node in (begin..end).map(NodeIdx::new) {
            let mut deps = trace.edges.deps(node).iter();
            if deps.any(|edge| numbers[edge.from.index()] == NodeIdx::NONE) {
                return Err(WindowError::EdgeOverSeam);
            }
        }
        self.keep_open_ops(trace, begin..end, window.until, &numbers);
        self.before_overlap.clone_from(&self.last);
        for (node, number) in numbers.iter().enumerate().take(end).skip(begin) {
            if nodes.on_device[node] {
                continue;
            }
            let track = nodes.track[node].index();
            self.last[track] = *number;
            if node < next_overlap {
                self.before_overlap[track] = *number;
            }
        }
        let tail = next_overlap.max(begin)..end;
        self.tail = tail.map(|node| nodes.get(NodeIdx::new(node))).collect();
        self.count += (end - begin) as u32;
        Ok(WindowNodes {
            own: begin..end,
            numbers,
        })
    }

    /// Numbers the nodes before a window, as far as they are known.
    fn number_earlier(
        &self,
        nodes: &Nodes,
        (overlap, begin): (usize, usize),
        numbers: &mut [NodeIdx],
    ) -> Result<(), WindowError> {
        if begin - overlap != self.tail.len() {
            return Err(WindowError::OtherNodes);
        }
        let first = self.count as usize - self.tail.len();
        for (place, known) in self.tail.iter().enumerate() {
            let node = overlap + place;
            if !is_same(nodes.get(NodeIdx::new(node)), *known) {
                return Err(WindowError::OtherNodes);
            }
            numbers[node] = NodeIdx::new(first + place);
        }
        let mut last = vec![None; self.last.len()];
        for node in 0..begin {
            if nodes.on_device[node] {
                let table = match nodes.kind[node].is_delay() {
                    true => &self.delays,
                    false => &self.rows,
                };
                let known = table[nodes.source[node] as usize];
                if node >= overlap && known != numbers[node] {
                    return Err(WindowError::OtherNodes);
                }
                numbers[node] = known;
            } else if node < overlap {
                last[nodes.track[node].index()] = Some(node);
            }
        }
        for (last, number) in last.into_iter().zip(&self.before_overlap) {
            if let Some(last) = last {
                numbers[last] = *number;
            }
        }
        Ok(())
    }

    /// A window has what no window before has had.
    fn keep_once(&mut self, node: Node, number: NodeIdx) -> Result<(), WindowError> {
        if node.on_device {
            let table = match node.kind.is_delay() {
                true => &mut self.delays,
                false => &mut self.rows,
            };
            let known = std::mem::replace(&mut table[node.source as usize], number);
            if known != NodeIdx::NONE {
                return Err(WindowError::OtherNodes);
            }
        } else if node.kind == NodeKind::Boundary {
            let begun = &mut self.begun[node.track.index()];
            if std::mem::replace(begun, true) {
                return Err(WindowError::OtherNodes);
            }
        }
        Ok(())
    }

    /// Numbers the first slices of ops that began before the window and run on in it.
    fn number_open_ops(
        &self,
        trace: &LinkedTrace,
        begin: usize,
        from: TimeNs,
        numbers: &mut [NodeIdx],
    ) -> Result<(), WindowError> {
        for (node, number) in numbers.iter_mut().enumerate().take(begin) {
            if let Some(key) = open_op(trace, node, from) {
                let known = self.open.get(&key).copied().unwrap_or(NodeIdx::NONE);
                if known == NodeIdx::NONE {
                    return Err(WindowError::OtherNodes);
                }
                *number = known;
            }
        }
        Ok(())
    }

    fn keep_open_ops(
        &mut self,
        trace: &LinkedTrace,
        own: Range<usize>,
        until: TimeNs,
        numbers: &[NodeIdx],
    ) {
        self.open.retain(|key, _| key.1 + key.2 >= until);
        for node in own {
            if let Some(key) = open_op(trace, node, until) {
                let known = self.open.entry(key).or_insert(numbers[node]);
                if *known != numbers[node] {
                    *known = NodeIdx::NONE;
                }
            }
        }
    }

    /// Whether each row has been in a window.
    pub(super) fn check_all(&self) -> Result<(), WindowError> {
        match self.rows.contains(&NodeIdx::NONE) {
            true => Err(WindowError::OtherNodes),
            false => Ok(()),
        }
    }
}

/// The op whose first slice a node is, if that has begun before `time` and runs on.
fn open_op(trace: &LinkedTrace, node: usize, time: TimeNs) -> Option<OpKey> {
    let nodes = &trace.nodes;
    if nodes.on_device[node] || !nodes.first[node] || !is_of_op(nodes.kind[node]) {
        return None;
    }
    let (ops, op) = (&trace.device.ops, OpIdx(nodes.source[node]).get()?.index());
    let (start, duration) = (ops.start[op], ops.duration[op]);
    let key = (ops.thread[op], start, duration, ops.name[op], ops.rf_id[op]);
    (start < time && start + duration >= time).then_some(key)
}

/// Whether a node of two windows is one. Ops have other numbers in each.
fn is_same(node: Node, known: Node) -> bool {
    let is_of_op = !node.on_device && is_of_op(node.kind);
    let source = if is_of_op { node.source } else { known.source };
    node == Node { source, ..known }
}

/// Whether a node can be the first slice of an op.
fn is_of_op(kind: NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::HostOp | NodeKind::HostGap | NodeKind::Collective
    )
}
