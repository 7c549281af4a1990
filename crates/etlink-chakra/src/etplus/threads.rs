//! Finds what `chakra_converter` needs of threads: the node of another thread that a node waits for,
//! and the time that a node itself runs.
//!
//! The converter puts the nodes below a thread's root in a row, each before its children. So a node
//! waits for the last node that had ended when its thread was given the work or the result.

use super::plan::{EtPlusPlan, NONE, RowOwners, TreeEntry, position};
use etlink_link::{EdgeKind, LinkedTrace, NodeKind};
use etlink_model::{DurationNs, NodeIdx, OpIdx, ThreadIdx, TimeNs};

/// What `chakra_converter` needs of threads, by entry.
pub(super) struct ThreadTimes {
    /// Time in which each entry itself ran.
    pub(super) exclusive_ns: Vec<i64>,
    /// Entry of another thread that each entry waits for, or [`NONE`].
    deps: Vec<u32>,
}

impl ThreadTimes {
    pub(super) fn new(trace: &LinkedTrace, plan: &EtPlusPlan) -> ThreadTimes {
        let entries = plan.entries.len();
        let entry_op: Vec<u32> = (0..entries).map(|entry| plan.op_at(entry).0).collect();
        ThreadTimes {
            exclusive_ns: exclusive_ns(trace, &plan.owners, entries),
            deps: thread_deps(trace, &plan.entries, &entry_op),
        }
    }

    /// Returns the id of the node on another thread that an entry waits for.
    pub(super) fn dep(&self, plan: &EtPlusPlan, entry: usize) -> Option<u64> {
        plan.ids.get(self.deps[entry] as usize).copied()
    }
}

/// An entry with times.
#[derive(Clone, Copy)]
struct TimedEntry {
    start: TimeNs,
    end: TimeNs,
    entry: u32,
}

/// Returns per entry the entry of another thread that it waits for, or [`NONE`]. `entry_op` has the
/// op whose times an entry has. O(edges log ops).
fn thread_deps(trace: &LinkedTrace, entries: &[TreeEntry], entry_op: &[u32]) -> Vec<u32> {
    let threads = timed_entries(trace, entry_op);
    let rows = ThreadRows::new(trace, entries, entry_op);
    let mut deps = vec![NONE; entry_op.len()];
    let mut ends = vec![TimeNs(i64::MIN); entry_op.len()];
    for edge in trace.edges.iter() {
        let is_between = matches!(edge.kind, EdgeKind::Handoff | EdgeKind::Tensor);
        let [Some(from), Some(to)] = [edge.from, edge.to].map(|node| thread_of(trace, node)) else {
            continue;
        };
        if !is_between || from == to {
            continue;
        }
        let begin = trace.nodes.start[edge.to.index()];
        let waiting = &threads[to.index()];
        let waiting = waiting.get(waiting.partition_point(|entry| entry.start < begin));
        let given = trace.nodes.end(edge.from);
        let awaited = &threads[from.index()];
        let begun = &awaited[..awaited.partition_point(|entry| entry.start <= given)];
        // Only the enclosing entries have not ended.
        let awaited = begun.iter().rev().find(|entry| entry.end <= given);
        if let (Some(waiting), Some(awaited)) = (waiting, awaited)
            && rows.may_wait(waiting.entry, awaited.entry)
            && awaited.end > ends[waiting.entry as usize]
        {
            deps[waiting.entry as usize] = awaited.entry;
            ends[waiting.entry as usize] = awaited.end;
        }
    }
    deps
}

/// The rows in which the converter puts the entries of each thread.
struct ThreadRows {
    /// Child of the process root that each entry is below.
    root: Vec<u32>,
    /// Latest start of an entry and all before it in its row.
    latest_start: Vec<TimeNs>,
}

impl ThreadRows {
    fn new(trace: &LinkedTrace, entries: &[TreeEntry], entry_op: &[u32]) -> ThreadRows {
        let mut first_child = vec![NONE; entries.len()];
        let mut next_sibling = vec![NONE; entries.len()];
        for (entry, of) in entries.iter().enumerate().skip(1).rev() {
            let first = &mut first_child[of.parent as usize];
            next_sibling[entry] = std::mem::replace(first, position(entry));
        }
        let mut rows = ThreadRows {
            root: vec![NONE; entries.len()],
            latest_start: vec![TimeNs(i64::MIN); entries.len()],
        };
        let (mut at, mut root, mut latest) = (0, NONE, TimeNs(i64::MIN));
        while at != entries.len() {
            if entries[at].parent == 0 {
                (root, latest) = (position(at), TimeNs(i64::MIN));
            }
            if let Some(op) = OpIdx(entry_op[at]).get() {
                latest = latest.max(trace.device.ops.start[op.index()]);
            }
            (rows.root[at], rows.latest_start[at]) = (root, latest);
            at = next_in_row(at, entries, &first_child, &next_sibling);
        }
        rows
    }

    /// Returns true if an entry can wait for another one without a cycle: in a row, latest starts
    /// never decrease. Ranges of workers that are below the caller's root are in its row anyway.
    fn may_wait(&self, waiting: u32, awaited: u32) -> bool {
        let (waits, ends) = (waiting as usize, awaited as usize);
        awaited < waiting
            && self.root[waits] != self.root[ends]
            && self.latest_start[ends] < self.latest_start[waits]
    }
}

/// Returns the entry after `at` in an order with parents before their children; the number of
/// entries after the last one.
fn next_in_row(
    mut at: usize,
    entries: &[TreeEntry],
    first_child: &[u32],
    next_sibling: &[u32],
) -> usize {
    if first_child[at] != NONE {
        return first_child[at] as usize;
    }
    while next_sibling[at] == NONE {
        if at == 0 {
            return entries.len();
        }
        at = entries[at].parent as usize;
    }
    next_sibling[at] as usize
}

/// Returns the thread of a host node.
fn thread_of(trace: &LinkedTrace, node: NodeIdx) -> Option<ThreadIdx> {
    trace.nodes.get(node).thread()
}

/// Returns the entries with times of each thread, by start.
fn timed_entries(trace: &LinkedTrace, entry_op: &[u32]) -> Vec<Vec<TimedEntry>> {
    let ops = &trace.device.ops;
    let mut threads = vec![vec![]; trace.device.threads.len()];
    for (entry, &op) in (0..).zip(entry_op) {
        if op == NONE {
            continue;
        }
        let op = op as usize;
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        if let Some(thread) = threads.get_mut(ops.thread[op].index()) {
            thread.push(TimedEntry { start, end, entry });
        }
    }
    for thread in &mut threads {
        thread.sort_by_key(|entry| (entry.start, entry.entry));
    }
    threads
}

/// Returns the time in which each entry itself ran: without its children and its waits for other
/// threads, but with its calls and with ops that have no node. The root of a thread has the time
/// outside all ops, unless the thread only observes.
fn exclusive_ns(trace: &LinkedTrace, owners: &RowOwners, entries: usize) -> Vec<i64> {
    let mut exclusive = vec![0; entries];
    let mut add = |entry: u32, ns: DurationNs| {
        if let Some(of_entry) = exclusive.get_mut(entry as usize) {
            *of_entry += ns.0;
        }
    };
    for (entry, own) in owners.op.iter().zip(&trace.op_exclusive) {
        add(*entry, *own);
    }
    let passive = trace.passive_threads();
    for (call, own) in own_call_ns(trace).into_iter().enumerate() {
        let thread = trace.device.calls.thread[call].index();
        match trace.call_op[call].get() {
            Some(op) => add(owners.op[op.index()], own),
            None if passive.get(thread) == Some(&false) => add(owners.thread[thread], own),
            None => {}
        }
    }
    for node in trace.nodes.indices().map(|node| trace.nodes.get(node)) {
        if let (NodeKind::HostGap, Some(thread)) = (node.kind, node.thread())
            && trace.op_of(&node).is_none()
            && passive.get(thread.index()) == Some(&false)
        {
            add(owners.thread[thread.index()], node.duration);
        }
    }
    exclusive
}

/// Returns the time of each call without the calls inside it, such as `cuLaunchKernel` in
/// `cudaLaunchKernel`. O(n log n).
fn own_call_ns(trace: &LinkedTrace) -> Vec<DurationNs> {
    let calls = &trace.device.calls;
    let mut own = calls.duration.clone();
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by_key(|&call| {
        let longest_first = std::cmp::Reverse(calls.duration[call]);
        (calls.thread[call], calls.start[call], longest_first)
    });
    let end = |call: usize| calls.start[call] + calls.duration[call];
    // Calls around the current one, the innermost last.
    let mut around: Vec<usize> = vec![];
    for call in order {
        let encloses =
            |outer: usize| calls.thread[outer] == calls.thread[call] && end(outer) >= end(call);
        while around.pop_if(|outer| !encloses(*outer)).is_some() {}
        if let Some(outer) = around.last() {
            own[*outer] = DurationNs(own[*outer].0 - calls.duration[call].0);
        }
        around.push(call);
    }
    own
}
