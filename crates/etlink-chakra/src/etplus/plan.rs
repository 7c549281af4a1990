//! Which nodes there are, whose children they are, and how they are numbered.
//!
//! ```text
//! 1 process root
//! 2 … roots of threads that have none        parents come before children, so that no
//! . … ET nodes in the order of their ids     parent chain comes back, whatever the input says
//! . … a root per device for rows that nobody on the host owns
//! ```
//! After each node come the device rows that it owns, in order of time.

use etlink_link::LinkedTrace;
use etlink_model::{HostTrace, OpIdx};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// No entry, op or node.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a node comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSource {
    /// The process root, which the trace does not have.
    Process,
    /// A thread root, which the trace does not have.
    Thread { tid: u32 },
    /// A node of the host trace.
    Host(u32),
    /// A CPU op of the device trace, where there is no host trace.
    Op(u32),
}

/// A node that is not a device row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeEntry {
    pub(crate) source: NodeSource,
    /// Position of the parent; the process root is its own.
    pub(crate) parent: u32,
}

/// See the module text.
pub(crate) struct EtPlusPlan {
    pub(crate) entries: Vec<TreeEntry>,
    /// Ids by entry.
    pub(crate) ids: Vec<u64>,
    /// Per host node: its CPU op.
    pub(crate) host_op: Vec<u32>,
    /// Per host node: its entry.
    pub(crate) host_entry: Vec<u32>,
    rows: Vec<u32>,
    first_row: Vec<u32>,
}

impl EtPlusPlan {
    pub(crate) fn new(trace: &LinkedTrace) -> Self {
        let mut plan = EtPlusPlan {
            entries: vec![],
            ids: vec![],
            host_op: vec![],
            host_entry: vec![],
            rows: vec![],
            first_row: vec![],
        };
        let owners = match &trace.host {
            Some(host) => plan.place_host_nodes(trace, host),
            None => plan.place_ops(trace),
        };
        plan.place_rows(trace, owners);
        plan.number();
        plan
    }

    /// Device rows that entry `entry` owns.
    pub(crate) fn rows_of(&self, entry: usize) -> &[u32] {
        &self.rows[self.first_row[entry] as usize..self.first_row[entry + 1] as usize]
    }

    /// How many entries and device rows there are.
    pub(crate) fn lines(&self) -> u64 {
        (self.entries.len() + self.rows.len()) as u64
    }

    /// The entry that line `line`, counted from 0, is of.
    pub(crate) fn entry_at(&self, line: u64) -> usize {
        self.ids
            .partition_point(|id| *id <= line + 1)
            .saturating_sub(1)
    }

    /// CPU ops that no host node stands for, if there is a host trace.
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

    /// Entries from the host trace; returns who owns rows.
    fn place_host_nodes(&mut self, trace: &LinkedTrace, host: &HostTrace) -> RowOwners {
        let roots = TraceRoots::of(host);
        self.host_entry = vec![NONE; host.nodes.len()];
        match roots.process {
            // The process comes first, wherever the file has it: et_replay looks for it at id 1.
            Some(node) => {
                self.host_entry[node] = self.push(NodeSource::Host(position(node)), 0);
            }
            None => {
                self.push(NodeSource::Process, 0);
            }
        }
        let mut thread_entry: FxHashMap<u32, u32> = FxHashMap::default();
        for tid in roots.missing_tids(host) {
            // A cut file may lack roots of its threads; they come before all nodes that hang on
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
        // Parents are set only now, as a file may name a parent that stands behind its child.
        for node in 0..host.nodes.len() {
            let entry = self.host_entry[node];
            self.entries[entry as usize].parent = match roots.parent(host, node) {
                Some(parent) => self.host_entry[parent],
                None if host.is_root(node) => 0,
                // a root that comes after the op is damage
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
                    // Of several ops of one node the first gives the times: later ones are its
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

    /// Entries from the device trace's CPU ops.
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

    /// Groups rows by owner; those without get a root per device.
    fn place_rows(&mut self, trace: &LinkedTrace, owners: RowOwners) {
        let rows = &trace.device.rows;
        let mut device_entry: FxHashMap<i64, u32> = FxHashMap::default();
        // A root for each device, with a tid that no thread has.
        let mut next_tid = self.last_tid(trace).saturating_add(1);
        let mut owner: Vec<u32> = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            // Row by row in order of time, so that the roots of devices are numbered the same each
            // time.
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

    /// Counting sort of rows by owner; keeps the order of time within one.
    fn group(&mut self, owner: &[u32]) {
        self.first_row = vec![0; self.entries.len() + 1];
        for &entry in owner {
            self.first_row[entry as usize + 1] += 1;
        }
        for entry in 0..self.entries.len() {
            self.first_row[entry + 1] += self.first_row[entry];
        }
        // Rows are in order of time, so that placing them one by one keeps that order per owner.
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
            // An entry's device rows come right behind it, so that their ids follow its own.
            self.ids.push(next);
            next += 1 + self.rows_of(entry).len() as u64;
        }
    }
}

/// Which entries own device rows.
struct RowOwners {
    /// Per CPU op: its entry, else that of the nearest op around it that has one.
    op: Vec<u32>,
    /// Per host thread: its root.
    thread: Vec<u32>,
}

impl RowOwners {
    /// The owner of a row: its op's entry, else the root of the thread that launched it.
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

/// The roots that a host trace has.
struct TraceRoots {
    process: Option<usize>,
    /// By tid.
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
                // Of two roots with one tid the first stays.
                .rev()
                .map(|node| (host.nodes.tid[node], node))
                .collect(),
        }
    }

    /// The parent of an op, if it is another op, or a thread's root, that comes before: anything
    /// else is damage.
    fn parent(&self, host: &HostTrace, node: usize) -> Option<usize> {
        // PyTorch's parents are stale after an exception or an asynchronous range: one that comes
        // later would close a circle.
        let parent = host.find(host.nodes.parent[node])?;
        (parent < node && self.process != Some(parent) && !host.is_root(node)).then_some(parent)
    }

    /// Threads without a root that have nodes without a parent, ascending.
    fn missing_tids(&self, host: &HostTrace) -> BTreeSet<u32> {
        (0..host.nodes.len())
            .filter(|&node| !host.is_root(node) && self.parent(host, node).is_none())
            .map(|node| host.nodes.tid[node])
            .filter(|tid| !self.threads.contains_key(tid))
            .collect()
    }
}

/// The op that encloses `op`; ops are in order of start, so it comes before.
fn enclosing(trace: &LinkedTrace, op: usize) -> Option<usize> {
    let parent = trace
        .op_parent
        .get(op)
        .copied()
        .and_then(OpIdx::get)?
        .index();
    (parent < op).then_some(parent)
}

fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
