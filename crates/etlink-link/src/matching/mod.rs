//! Matches CPU ops of the device trace to nodes of the host trace.
//!
//! 1. By id: `rf_id` = `Record function id`, if the names agree too.
//! 2. By order, if the device trace has no ids (PyTorch 2.3 and before; or no observer was running;
//!    or the traces are of alternating steps): per thread, the two sequences of names are aligned.
//!
//! Host threads are numbered 1, 2, 3, … in order of first use; device threads have the OS's ids.
//! [`threads`] pairs them.

mod align;
pub(crate) mod compare;
mod threads;

use crate::graph::kinds::MatchRule;
use crate::host::tensors::HostTid;
use crate::search::seek;
use align::align;
use etlink_model::{
    Anomalies, AnomalyKind, DeviceTrace, HostIdx, HostTrace, NameId, Names, OpIdx, TableIdx,
    TrackLabel,
};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use threads::pair_threads;

/// Matches between CPU ops and host nodes. Each op matches at most one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matching {
    pub(crate) op_host: Vec<HostIdx>,
    pub(crate) op_rule: Vec<MatchRule>,
    /// Op of each host node.
    pub(crate) host_op: Vec<OpIdx>,
    /// Number of ids that both traces have under different names.
    pub(crate) same_id_other_name: u64,
}

impl Matching {
    pub(crate) fn none(nodes: usize, ops: usize) -> Self {
        Matching {
            op_host: vec![HostIdx::NONE; ops],
            op_rule: vec![MatchRule::None; ops],
            host_op: vec![OpIdx::NONE; nodes],
            same_id_other_name: 0,
        }
    }

    fn set(&mut self, host: HostIdx, op: OpIdx, rule: MatchRule) {
        self.op_host[op.index()] = host;
        self.op_rule[op.index()] = rule;
        self.host_op[host.index()] = op;
    }

    /// Number of matched ops.
    pub(crate) fn count(&self) -> u64 {
        self.op_rule
            .iter()
            .filter(|rule| **rule != MatchRule::None)
            .count() as u64
    }
}

/// Matches by id, or by order if no ids agree.
pub(crate) fn matching(
    host: &HostTrace,
    device: &DeviceTrace,
    anomalies: &mut Anomalies,
) -> Matching {
    let symbols = symbols(host, device);
    let mut by_id = by_id(host, device, &symbols, anomalies);
    // if fewer than half of the common ids agree in name, the ids are of two processes
    if by_id.count() > by_id.same_id_other_name {
        return by_id;
    }
    let mut by_order = by_order(host, device, &symbols, anomalies);
    by_order.same_id_other_name = by_id.same_id_other_name;
    if by_order.count() > by_id.count() {
        by_order
    } else {
        std::mem::take(&mut by_id)
    }
}

/// Matches traces of alternating steps by order. Neither ids nor autograd's sequence numbers can
/// agree: both continue to count from one step to the next.
pub(crate) fn interleaved(host: &HostTrace, device: &DeviceTrace) -> Matching {
    let mut symbols = symbols(host, device);
    let of_host = step_labels(&host.nodes.name, &host.names);
    let of_device = step_labels(&device.ops.name, &device.names);
    for (label, other) in of_host.iter().zip(of_device) {
        symbols[label.index()] = other.0;
    }
    let (nodes, ops) = symbols_of_ops(host, device, &symbols);
    by_sequence(host, device, &nodes, &ops)
}

/// Returns the `ProfilerStep#N` labels in `used`, sorted by N.
fn step_labels(used: &[NameId], names: &Names) -> Vec<NameId> {
    let mut seen = vec![false; names.count()];
    let mut labels = vec![];
    for &name in used {
        if std::mem::replace(&mut seen[name.index()], true) {
            continue;
        }
        let number = names.get(name).strip_prefix("ProfilerStep#");
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            labels.push((number, name));
        }
    }
    labels.sort_unstable();
    labels.into_iter().map(|(_, name)| name).collect()
}

/// Returns the symbol of each node and each op, for comparison.
fn symbols_of_ops(host: &HostTrace, device: &DeviceTrace, symbols: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let nodes = host.nodes.name.iter();
    let nodes = nodes.map(|name| symbols[name.index()]).collect();
    let ops = device.ops.name.iter().map(|name| name.0).collect();
    (nodes, ops)
}

/// Maps each host name to the same name of the device trace; names that it lacks get new numbers.
///
/// Kineto rewrites names that JSON would have to escape (`sanitizeStrForJSON` and
/// `sanitizeForNonReadableChars` in `output_json.cpp`): `"` becomes `'`, `\` becomes `/`, newlines
/// are dropped, and a name with any other control or non-ASCII character becomes `unknown`. The
/// host trace keeps them.
fn symbols(host: &HostTrace, device: &DeviceTrace) -> Vec<u32> {
    let known = device.names.count() as u32;
    let symbol = |id: u32| {
        let name = host.names.get(NameId(id));
        let found = device
            .names
            .find(name)
            .or_else(|| device.names.find(&sanitized(name)));
        // Numbers above all device names match nothing, but repeat if the host name does: the
        // alignment sees them as the same gap.
        found.map_or(known + id, |name| name.0)
    };
    // most strings are not names of nodes
    let mut symbols = vec![None; host.names.count()];
    for name in &host.nodes.name {
        symbols[name.index()].get_or_insert_with(|| symbol(name.0));
    }
    symbols
        .into_iter()
        .map(|symbol| symbol.unwrap_or(u32::MAX))
        .collect()
}

fn sanitized(name: &str) -> String {
    if name
        .chars()
        // A newline is only dropped; any other of these turns the whole name into `unknown`.
        .any(|c| !c.is_ascii() || c.is_ascii_control() && c != '\n')
    {
        return "unknown".to_owned();
    }
    name.chars()
        .filter(|c| *c != '\n')
        .map(|c| {
            if c == '"' {
                '\''
            } else if c == '\\' {
                '/'
            } else {
                c
            }
        })
        .collect()
}

fn by_id(
    host: &HostTrace,
    device: &DeviceTrace,
    symbols: &[u32],
    anomalies: &mut Anomalies,
) -> Matching {
    let mut found = Matching::none(host.nodes.len(), device.ops.len());
    let ids = &host.nodes.rf_id;
    let mut nodes: Vec<HostIdx> = (0..ids.len())
        .map(HostIdx::new)
        .filter(|node| ids[node.index()].get().is_some())
        .collect();
    // sorted already, except for forks and threads; so are the ops
    nodes.sort_by_key(|node| ids[node.index()]);
    // A merged device trace has the ids of several processes, which all count from 1.
    let own = own_process(host, device);
    let mut at = 0;
    for (op, id) in device
        .ops
        .rf_id
        .iter()
        .enumerate()
        .filter(|(op, id)| id.get().is_some() && own(*op))
    {
        at = seek(&nodes, at, |node| ids[node.index()] < *id);
        let found_node = nodes.get(at).filter(|node| ids[node.index()] == *id);
        let Some(&node) = found_node else {
            continue;
        };
        // Ids of another process or run are numbers in the same range: without the name they would
        // match anything.
        if symbols[host.nodes.name[node.index()].index()] != device.ops.name[op].0 {
            found.same_id_other_name += 1;
        // A fork inherits the counter, so parent and child give the same id to different ops.
        } else if found.host_op[node.index()] != OpIdx::NONE {
            anomalies.note(AnomalyKind::DuplicateRfId, || {
                format!("record function id {}", id.0)
            });
        } else {
            found.set(node, OpIdx::new(op), MatchRule::Id);
        }
    }
    found
}

/// Returns a test for ops of the host trace's process; all pass if the device trace lacks that
/// process.
fn own_process(host: &HostTrace, device: &DeviceTrace) -> impl Fn(usize) -> bool {
    let pid = host.header.pid.map(TrackLabel::Int);
    let mut own: Vec<bool> = device
        .threads
        .iter()
        .map(|thread| Some(thread.pid) == pid)
        .collect();
    // Two runs of one program have different pids. They are linked nevertheless, with a note.
    if !device.ops.thread.iter().any(|thread| own[thread.index()]) {
        own.fill(true);
    }
    move |op| own[device.ops.thread[op].index()]
}

/// Matches by the order of names. Loops repeat their names: if autograd's sequence numbers in the
/// two traces contradict each other, names alone have matched another iteration, and names with
/// numbers are tried.
fn by_order(
    host: &HostTrace,
    device: &DeviceTrace,
    symbols: &[u32],
    anomalies: &mut Anomalies,
) -> Matching {
    let (nodes, ops) = symbols_of_ops(host, device, symbols);
    let found = by_sequence(host, device, &nodes, &ops);
    let (_, contradicting) = numbers(host, device, &found);
    if contradicting == 0 {
        return found;
    }
    // the host trace writes no number for these (pytorch's observer; Kineto does)
    let unnumbered = |name: u32| {
        device
            .names
            .get(NameId(name))
            .starts_with("autograd::engine::evaluate_function")
    };
    let mut numbered: FxHashMap<(u32, i64), u32> = FxHashMap::default();
    // Two symbols differ if the name or the number differs.
    let mut with_number = |names: &[u32], numbers: &[i64]| -> Vec<u32> {
        let mut symbols = Vec::with_capacity(names.len());
        for (&name, &number) in names.iter().zip(numbers) {
            let number = if unnumbered(name) { -1 } else { number };
            let next = numbered.len() as u32;
            symbols.push(*numbered.entry((name, number)).or_insert(next));
        }
        symbols
    };
    let (nodes, ops) = (
        with_number(&nodes, &host.nodes.seq_id),
        with_number(&ops, &device.ops.seq_id),
    );
    let better = by_sequence(host, device, &nodes, &ops);
    let (agreeing, _) = numbers(host, device, &better);
    // With numbers in the symbols, a missing number is a missing match: a worse alignment must not
    // win because nothing in it can contradict.
    if agreeing > 0 && better.count() * 2 > found.count() {
        return better;
    }
    anomalies.add(AnomalyKind::SequenceDiffers, contradicting, None);
    found
}

/// Counts matched ops with sequence numbers in both traces: those with equal numbers, and those
/// with different ones.
fn numbers(host: &HostTrace, device: &DeviceTrace, found: &Matching) -> (u64, u64) {
    let (mut same, mut other) = (0, 0);
    for (op, node) in found
        .op_host
        .iter()
        .enumerate()
        .filter_map(|(op, node)| Some((op, node.get()?)))
    {
        match (host.nodes.seq_id[node.index()], device.ops.seq_id[op]) {
            // Only ops with a number in both traces can agree or contradict.
            (0.., of_device) if of_device < 0 => {}
            (of_host @ 0.., of_device) if of_host == of_device => same += 1,
            (0.., _) => other += 1,
            _ => {}
        }
    }
    (same, other)
}

/// Aligns the threads of both traces. Symbols are per node and per op.
fn by_sequence(
    host: &HostTrace,
    device: &DeviceTrace,
    host_symbols: &[u32],
    device_symbols: &[u32],
) -> Matching {
    let mut found = Matching::none(host.nodes.len(), device.ops.len());
    let nodes = (0..host.nodes.len()).filter(|&node| !host.is_root(node));
    let host_rows =
        by_thread(nodes.map(|node| (HostTid(host.nodes.tid[node]), HostIdx::new(node))));
    let own = own_process(host, device);
    let ops = (0..device.ops.len()).filter(|op| own(*op));
    let device_rows = by_thread(ops.map(|op| (device.ops.thread[op], OpIdx::new(op))));
    let host_names = symbols_of_rows(&host_rows, host_symbols);
    let device_names = symbols_of_rows(&device_rows, device_symbols);
    for (of_host, of_device) in pair_threads(&host_names, &device_names) {
        for (at_host, at_device) in align(&host_names[of_host], &device_names[of_device]) {
            let node = host_rows[of_host][at_host as usize];
            let op = device_rows[of_device][at_device as usize];
            found.set(node, op, MatchRule::Order);
        }
    }
    // Last, since the threads' own matches bound the window in which spare ranges are searched.
    across_threads(host, device, host_symbols, device_symbols, &mut found);
    found
}

/// Returns the symbols of each thread's rows.
fn symbols_of_rows<R: TableIdx>(threads: &[Vec<R>], symbols: &[u32]) -> Vec<Vec<u32>> {
    // Plain numbers: a slice of them is hashed at once, a slice of ids number by number.
    let mut all = Vec::with_capacity(threads.len());
    for rows in threads {
        let rows = rows.iter();
        all.push(rows.map(|row| symbols[row.index()]).collect());
    }
    all
}

/// `scope` value of user ranges.
const USER_SCOPE: u8 = 7;

/// Matches user ranges on different threads. An asynchronous one (`gloo:all_reduce`) is on its
/// launcher's thread in the host trace, and on the thread of the worker that ended it in the device
/// trace.
fn across_threads(
    host: &HostTrace,
    device: &DeviceTrace,
    host_symbols: &[u32],
    device_symbols: &[u32],
    found: &mut Matching,
) {
    let mut matched = found.host_op.iter().enumerate();
    let mut matched = matched.by_ref().filter(|(_, op)| **op != OpIdx::NONE);
    let Some((first, _)) = matched.next() else {
        return;
    };
    let after = matched.next_back().map_or(first, |(last, _)| last) + 1;
    // the window's last ranges may be among the wanted ones
    let trailing = host.nodes.scope[after..]
        .iter()
        .take_while(|scope| **scope == USER_SCOPE)
        .count();
    let (mut nodes, mut host_names) = (vec![], vec![]);
    let until = after + trailing;
    for (node, symbol) in host_symbols.iter().enumerate().take(until).skip(first) {
        if found.host_op[node] == OpIdx::NONE && host.nodes.scope[node] == USER_SCOPE {
            nodes.push(HostIdx::new(node));
            host_names.push(*symbol);
        }
    }
    let (mut spare, mut device_names) = (vec![], vec![]);
    for (op, symbol) in device_symbols.iter().enumerate() {
        if found.op_host[op] == HostIdx::NONE && device.ops.annotation[op] {
            spare.push(OpIdx::new(op));
            device_names.push(*symbol);
        }
    }
    for (at_host, at_device) in align(&host_names, &device_names) {
        let (node, op) = (nodes[at_host as usize], spare[at_device as usize]);
        found.set(node, op, MatchRule::Order);
    }
}

/// Groups rows by thread, with threads in order of first use: host nodes are sorted by start, ops
/// by time.
fn by_thread<T: Eq + Hash, R: TableIdx>(rows: impl Iterator<Item = (T, R)>) -> Vec<Vec<R>> {
    let mut slots: FxHashMap<T, usize> = FxHashMap::default();
    let mut threads: Vec<Vec<R>> = vec![];
    for (thread, row) in rows {
        let slot = *slots.entry(thread).or_insert(threads.len());
        threads.resize(threads.len().max(slot + 1), vec![]);
        threads[slot].push(row);
    }
    threads
}
