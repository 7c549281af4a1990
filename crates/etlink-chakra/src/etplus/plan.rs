//! Plans the nodes of a file, their parents and their numbers.
//!
//! ```text
//! 1 process root
//! 2 … roots of threads that lack one         parents come before children, so that
//! . … ET nodes in the order of their ids     parent chains never close a cycle, whatever the input
//! . … a root per device for rows without an owner on the host
//! ```
//! After each node come the device rows that it owns, in order of time.

use etlink_link::LinkedTrace;
use etlink_model::{HostTrace, OpIdx};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// No entry, op or node.
pub(crate) const NONE: u32 = u32::MAX;

/// Origin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSource {
    /// Process root that is missing in the trace.
    Process,
    /// Thread root that is missing in the trace.
    Thread { tid: u32 },
    /// Node of the host trace.
    Host(u32),
    /// CPU op of the device trace, if there is no host trace.
    Op(u32),
}

/// A node that is not a device row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeEntry {
    pub(crate) source: NodeSource,
    /// Position of the parent; the process root is its own parent.
    pub(crate) parent: u32,
}

/// Nodes of a file with their order and numbers; the module documentation shows the layout.
#[derive(Default)]
pub(crate) struct EtPlusPlan {
    pub(crate) entries: Vec<TreeEntry>,
    /// Id per entry.
    pub(crate) ids: Vec<u64>,
    /// CPU op per host node.
    pub(crate) host_op: Vec<u32>,
    /// Entry per host node.
    pub(crate) host_entry: Vec<u32>,
    /// Entries that own device rows.
    pub(super) owners: RowOwners,
    rows: Vec<u32>,
    first_row: Vec<u32>,
}

impl EtPlusPlan {
    pub(crate) fn new(trace: &LinkedTrace) -> Self {
        let mut plan = EtPlusPlan::default();
        let owners = match &trace.host {
            Some(host) => plan.place_host_nodes(trace, host),
            None => plan.place_ops(trace),
        };
        plan.place_rows(trace, &owners);
        plan.number();
        plan.owners = owners;
        plan
    }

    /// Returns the device rows that an entry owns.
    pub(crate) fn rows_of(&self, entry: usize) -> &[u32] {
        &self.rows[self.first_row[entry] as usize..self.first_row[entry + 1] as usize]
    }

    /// Returns the op whose times an entry has, or [`OpIdx::NONE`].
    pub(crate) fn op_at(&self, entry: usize) -> OpIdx {
        match self.entries[entry].source {
            NodeSource::Op(op) => OpIdx(op),
            NodeSource::Host(node) => OpIdx(self.host_op[node as usize]),
            NodeSource::Process | NodeSource::Thread { .. } => OpIdx::NONE,
        }
    }

    /// Returns the number of entries and device rows.
    pub(crate) fn lines(&self) -> u64 {
        (self.entries.len() + self.rows.len()) as u64
    }

    /// Returns the entry of line `line`, counted from 0.
    pub(crate) fn entry_at(&self, line: u64) -> usize {
        self.ids
            .partition_point(|id| *id <= line + 1)
            .saturating_sub(1)
    }

    /// Returns the number of CPU ops without a host node, if there is a host trace.
    pub(crate) fn ops_left_out(&self, trace: &LinkedTrace) -> u64 {
        let matched = self.host_op.iter().filter(|op| **op != NONE).count();
        trace
            .host
            .as_ref()
            .map_or(0, |_| (trace.device.ops.len() - matched) as u64)
    }

    fn push(&mut self, source: NodeSource, parent: u32) -> u32 {
        self.entries.push(TreeEntry { source, parent });
        position(self.entries.len() - 1)
    }

    /// Creates entries from the host trace; returns the owners of rows.
    fn place_host_nodes(&mut self, trace: &LinkedTrace, host: &HostTrace) -> RowOwners {
        let roots = TraceRoots::of(host);
        self.host_entry = vec![NONE; host.nodes.len()];
        match roots.process {
            // The process comes first, wherever the file has it: et_replay expects it at id 1.
            Some(node) => {
                self.host_entry[node] = self.push(NodeSource::Host(position(node)), 0);
            }
            None => {
                self.push(NodeSource::Process, 0);
            }
        }
        let mut thread_entry: FxHashMap<u32, u32> = FxHashMap::default();
        for tid in roots.missing_tids(host) {
            // A truncated file may lack roots of its threads; they precede all nodes that depend on
            // them.
            thread_entry.insert(tid, self.push(NodeSource::Thread { tid }, 0));
        }
        for node in 0..host.nodes.len() {
            if roots.process != Some(node) {
                self.host_entry[node] = self.push(NodeSource::Host(position(node)), 0);
            }
        }
        thread_entry.extend(
            roots
                .threads
                .iter()
                .map(|(&tid, &node)| (tid, self.host_entry[node])),
        );
        // Parents are set only now, because a file may name a parent that comes after its child.
        for node in 0..host.nodes.len() {
            let entry = self.host_entry[node];
            self.entries[entry as usize].parent = match roots.parent(host, node) {
                Some(parent) => self.host_entry[parent],
                None if host.is_root(node) => 0,
                // A root that comes after the op is damage.
                None => thread_entry
                    .get(&host.nodes.tid[node])
                    .copied()
                    .filter(|root| *root < entry)
                    .unwrap_or(0),
            };
        }
        self.match_ops(trace, host, &thread_entry)
    }

    fn match_ops(
        &mut self,
        trace: &LinkedTrace,
        host: &HostTrace,
        thread_entry: &FxHashMap<u32, u32>,
    ) -> RowOwners {
        let ops = trace.device.ops.len();
        self.host_op = vec![NONE; host.nodes.len()];
        let mut owners = RowOwners {
            op: vec![NONE; ops],
            thread: vec![NONE; trace.device.threads.len()],
        };
        for op in 0..ops {
            let thread = trace.device.ops.thread[op].index();
            match trace.op_host[op].get() {
                Some(node) => {
                    let node = node.index();
                    owners.op[op] = self.host_entry[node];
                    // If a node has several ops, the first provides the times: later ones are
                    // repetitions.
                    if self.host_op[node] == NONE {
                        self.host_op[node] = position(op);
                    }
                    if let Some(entry) = owners
                        .thread
                        .get_mut(thread)
                        .filter(|entry| **entry == NONE)
                    {
                        *entry = thread_entry
                            .get(&host.nodes.tid[node])
                            .copied()
                            .unwrap_or(NONE);
                    }
                }
                None => {
                    owners.op[op] = enclosing(trace, op).map_or(NONE, |parent| owners.op[parent])
                }
            }
        }
        owners
    }

    /// Creates entries from the device trace's CPU ops.
    fn place_ops(&mut self, trace: &LinkedTrace) -> RowOwners {
        self.push(NodeSource::Process, 0);
        let threads = 1..=position(trace.device.threads.len());
        let thread: Vec<u32> = threads
            .map(|tid| self.push(NodeSource::Thread { tid }, 0))
            .collect();
        let mut op_entry: Vec<u32> = vec![];
        for op in 0..trace.device.ops.len() {
            let on_thread = trace.device.ops.thread[op].index();
            let parent = match enclosing(trace, op) {
                Some(parent) => op_entry[parent],
                None => thread.get(on_thread).copied().unwrap_or(0),
            };
            op_entry.push(self.push(NodeSource::Op(position(op)), parent));
        }
        RowOwners {
            op: op_entry,
            thread,
        }
    }

    /// Groups rows by owner; rows without one get a root per device.
    fn place_rows(&mut self, trace: &LinkedTrace, owners: &RowOwners) {
        let rows = &trace.device.rows;
        let mut device_entry: FxHashMap<i64, u32> = FxHashMap::default();
        // Each device gets a root with a tid that no thread has.
        let mut next_tid = self.last_tid(trace).saturating_add(1);
        let mut owner: Vec<u32> = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            // Row by row in order of time, so that the roots of devices are always numbered the
            // same.
            let known = owners.of(trace, row);
            let device = trace
                .device
                .queues
                .get(rows.queue[row].index())
                .map_or(0, |queue| queue.device);
            owner.push(if known != NONE {
                known
            } else {
                *device_entry.entry(device).or_insert_with(|| {
                    let tid = next_tid;
                    next_tid = next_tid.saturating_add(1);
                    self.push(NodeSource::Thread { tid }, 0)
                })
            });
        }
        self.group(&owner);
    }

    /// Sorts rows by owner with a counting sort, keeping the order of time per owner.
    fn group(&mut self, owner: &[u32]) {
        self.first_row = vec![0; self.entries.len() + 1];
        for &entry in owner {
            self.first_row[entry as usize + 1] += 1;
        }
        for entry in 0..self.entries.len() {
            self.first_row[entry + 1] += self.first_row[entry];
        }
        // Rows are in order of time, so placing them one by one keeps that order per owner.
        let mut next = self.first_row.clone();
        self.rows = vec![0; owner.len()];
        for (row, &entry) in owner.iter().enumerate() {
            self.rows[next[entry as usize] as usize] = position(row);
            next[entry as usize] += 1;
        }
    }

    fn last_tid(&self, trace: &LinkedTrace) -> u32 {
        let host = trace
            .host
            .iter()
            .flat_map(|host| host.nodes.tid.iter().copied());
        let made = self.entries.iter().filter_map(|entry| match entry.source {
            NodeSource::Thread { tid } => Some(tid),
            _ => None,
        });
        host.chain(made).max().unwrap_or(0)
    }

    fn number(&mut self) {
        let mut next = 1u64;
        for entry in 0..self.entries.len() {
            // An entry's device rows directly follow it, so their ids follow its own.
            self.ids.push(next);
            next += 1 + self.rows_of(entry).len() as u64;
        }
    }
}

/// Entries that own device rows.
#[derive(Default)]
pub(super) struct RowOwners {
    /// Entry of each CPU op, or of the nearest enclosing op that has one.
    pub(super) op: Vec<u32>,
    /// Root of each host thread.
    pub(super) thread: Vec<u32>,
}

impl RowOwners {
    /// Returns the owner of a row: its op's entry, else the root of the thread that launched the
    /// row.
    fn of(&self, trace: &LinkedTrace, row: usize) -> u32 {
        let op = trace.row_op[row]
            .get()
            .map_or(NONE, |op| self.op[op.index()]);
        if op != NONE {
            return op;
        }
        // A launch outside of all ops still has a thread.
        let call = trace.row_call[row].get();
        let thread = call.map(|call| trace.device.calls.thread[call.index()].index());
        thread
            .and_then(|thread| self.thread.get(thread).copied())
            .unwrap_or(NONE)
    }
}

/// Roots in a host trace.
struct TraceRoots {
    process: Option<usize>,
    /// Root nodes by tid.
    threads: FxHashMap<u32, usize>,
}

impl TraceRoots {
    fn of(host: &HostTrace) -> Self {
        let roots = (0..host.nodes.len()).filter(|&node| host.is_root(node));
        let (process, threads): (Vec<usize>, Vec<usize>) =
            roots.partition(|&node| host.names.get(host.nodes.name[node]).ends_with("process]"));
        TraceRoots {
            process: process.first().copied(),
            threads: threads
                .into_iter()
                // If two roots have the same tid, the first counts.
                .rev()
                .map(|node| (host.nodes.tid[node], node))
                .collect(),
        }
    }

    /// Returns the parent of an op if it is another op or a thread's root that comes before;
    /// anything else is damage.
    fn parent(&self, host: &HostTrace, node: usize) -> Option<usize> {
        // PyTorch's parents are stale after an exception or an asynchronous range: a later parent
        // would close a cycle.
        let parent = host.find(host.nodes.parent[node])?;
        (parent < node && self.process != Some(parent) && !host.is_root(node)).then_some(parent)
    }

    /// Returns threads that have nodes without a parent, but no root, in ascending order.
    fn missing_tids(&self, host: &HostTrace) -> BTreeSet<u32> {
        (0..host.nodes.len())
            .filter(|&node| !host.is_root(node) && self.parent(host, node).is_none())
            .map(|node| host.nodes.tid[node])
            .filter(|tid| !self.threads.contains_key(tid))
            .collect()
    }
}

/// Returns the op that encloses `op`, which comes before because ops are ordered by start.
fn enclosing(trace: &LinkedTrace, op: usize) -> Option<usize> {
    let parent = trace
        .op_parent
        .get(op)
        .copied()
        .and_then(OpIdx::get)?
        .index();
    (parent < op).then_some(parent)
}

pub(super) fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
