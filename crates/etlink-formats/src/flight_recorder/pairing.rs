//! Matches the entries of a dump with the ops of a trace.
//!
//! ```text
//! thread     c10d::allreduce_ =======     the op of the program, by Kineto
//!                 ^ time_created_ns       the entry of the same call, by the flight recorder
//! worker                 gloo:all_reduce ========
//! ```
//! The backend makes the entry while the op runs, on the op's thread, by the same clock. So an
//! entry belongs to the op of its kind during which it was made. Both the ops of a trace and the
//! entries of a dump are in call order, and matching preserves that order.

use crate::flight_recorder::dump::{FlightDump, FlightEntry};
use etlink_model::{Collective, CollectiveKind, DeviceTrace, NameId, OpIdx, TimeNs, UnixNs};
use rustc_hash::FxHashMap;

/// Tolerance for an entry outside its op. Kineto converts ticks of the processor's counter to Unix
/// time with an error of some microseconds, which grows with the length of a recording.
const CLOCK_ERROR_NS: i64 = 200_000;

/// Number of a dump's entries that were found in a trace, by method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlightMatches {
    /// Entries made while the trace was recorded.
    pub entries: u64,
    /// Ops of collectives without group and size.
    pub ops: u64,
    /// Ops that are the only candidate of their kind at the time of an entry.
    pub by_time: u64,
    /// Ops matched with the entries of their kind in order, because times alone are ambiguous.
    pub by_order: u64,
    /// Pairs by time that were rejected because their sizes contradict each other.
    pub other_sizes: u64,
    /// True if the dump is from another run: no entry was made while the trace was recorded.
    pub is_other_run: bool,
}

/// An op of a collective without a record.
struct BareOp {
    op: OpIdx,
    kind: CollectiveKind,
    start: UnixNs,
    end: UnixNs,
    /// Elements of the first tensor; `None` if shapes were not recorded.
    elements: Option<u64>,
}

/// Adds records from a dump of the same rank to the collectives of a trace that have none. O((ops +
/// entries) log entries).
pub fn add_collectives(trace: &mut DeviceTrace, dump: &FlightDump) -> FlightMatches {
    let mut matches = FlightMatches::default();
    let Some((first, last)) = trace.window() else {
        return matches;
    };
    let bare = bare_ops(trace);
    matches.ops = bare.len() as u64;
    let (from, until) = (trace.header.unix_time(first), trace.header.unix_time(last));
    let in_window = dump.entries.iter().filter(|entry| {
        entry.created >= from.shifted(-CLOCK_ERROR_NS)
            && entry.created <= until.shifted(CLOCK_ERROR_NS)
    });
    let mut by_kind: FxHashMap<CollectiveKind, Vec<&FlightEntry>> = FxHashMap::default();
    for entry in in_window {
        matches.entries += 1;
        by_kind
            .entry(carried_out_as(entry.kind))
            .or_default()
            .push(entry);
    }
    matches.is_other_run = matches.entries == 0 && !dump.entries.is_empty();
    for entries in by_kind.values_mut() {
        // calls of several threads can be recorded out of order
        entries.sort_by_key(|entry| (entry.created, entry.record));
    }
    let mut taken: FxHashMap<CollectiveKind, usize> = FxHashMap::default();
    let mut records = DumpRecords::default();
    for one in &bare {
        let kind = carried_out_as(one.kind);
        let Some(entries) = by_kind.get(&kind) else {
            continue;
        };
        let next = taken.entry(kind).or_default();
        // earlier entries belong to calls that are not in the trace
        let early = one.start.shifted(-CLOCK_ERROR_NS);
        while entries
            .get(*next)
            .is_some_and(|entry| entry.created < early)
        {
            *next += 1;
        }
        let late = one.end.shifted(CLOCK_ERROR_NS);
        let rest = entries[*next..].iter();
        let during = rest.take_while(|entry| entry.created <= late);
        // Consecutive calls of one kind are closer than clocks are exact: sizes tell them apart.
        let candidates: Vec<&&FlightEntry> = during.take(MAX_CANDIDATES).collect();
        let fits = |entry: &&&&FlightEntry| one.has_size_of(entry);
        let Some(place) = candidates.iter().position(|entry| fits(&entry)) else {
            matches.other_sizes += u64::from(!candidates.is_empty());
            continue;
        };
        let entry = *candidates[place];
        match candidates.len() {
            1 => matches.by_time += 1,
            _ => matches.by_order += 1,
        }
        *next += place + 1;
        records.add(trace, dump, one, entry);
    }
    matches
}

/// Maximum number of entries compared with an op: entries of one kind within the clock error.
const MAX_CANDIDATES: usize = 64;

/// Maps a kind to the one that Gloo records: it implements a reduce-scatter as an all-reduce
/// (`ProcessGroupGloo::_reduce_scatter_base`).
fn carried_out_as(kind: CollectiveKind) -> CollectiveKind {
    match kind {
        CollectiveKind::ReduceScatter => CollectiveKind::AllReduce,
        kind => kind,
    }
}

/// Returns the ops `c10d::…` (`Ops.cpp` of c10d) without a record of their call, by start.
fn bare_ops(trace: &DeviceTrace) -> Vec<BareOp> {
    let kinds: Vec<CollectiveKind> = trace.names.iter().map(kind_of_op).collect();
    // If PyTorch records a communication itself, the record is below the op, and has more details.
    let records = trace.collectives.name.iter();
    let mut recorded = records.map(|name| CollectiveKind::from_name(trace.names.get(*name)));
    if recorded.any(|kind| kind != CollectiveKind::Other) {
        return vec![];
    }
    let ops = &trace.ops;
    let mut bare = vec![];
    for op in 0..ops.len() {
        let kind = kinds.get(ops.name[op].index()).copied();
        let Some(kind) = kind.filter(|kind| *kind != CollectiveKind::Other) else {
            continue;
        };
        let end: TimeNs = ops.start[op] + ops.duration[op];
        bare.push(BareOp {
            op: OpIdx::new(op),
            kind,
            start: trace.header.unix_time(ops.start[op]),
            end: trace.header.unix_time(end),
            elements: elements_of(trace.names.get(ops.shapes[op])),
        });
    }
    bare
}

fn kind_of_op(name: &str) -> CollectiveKind {
    let op = name.strip_prefix("c10d::");
    op.map_or(CollectiveKind::Other, CollectiveKind::from_name)
}

/// Returns the number of elements of the first tensor in list text: `[[[4, 8]], []]` -> 32. `None`
/// if shapes were not recorded.
fn elements_of(shapes: &str) -> Option<u64> {
    let (dims, _) = shapes.trim_start_matches('[').split_once(']')?;
    let mut elements = 1u64;
    for dim in dims.split(',') {
        let dim: u64 = dim.trim().parse().ok()?;
        elements = elements.checked_mul(dim)?;
    }
    Some(elements)
}

impl BareOp {
    /// Returns true if one of the entry's sizes matches the op's first tensor.
    fn has_size_of(&self, entry: &FlightEntry) -> bool {
        let Some(elements) = self.elements else {
            return true;
        };
        // `c10d::_allgather_base_` has its output first; barriers have an internal tensor.
        entry.kind == CollectiveKind::Barrier
            || entry.in_elements == elements
            || entry.out_elements == elements
            || self.kind == CollectiveKind::ReduceScatter
            || is_part(entry.out_elements, elements)
            || is_part(entry.in_elements, elements)
    }
}

/// Returns true if a list of tensors could have this total: shapes of ops contain only the first
/// one.
fn is_part(all: u64, part: u64) -> bool {
    part > 0 && all > part && all.is_multiple_of(part)
}

/// Records made so far; strings of the dump by their number there.
#[derive(Default)]
struct DumpRecords {
    names: FxHashMap<NameId, NameId>,
    /// List text and number of the ranks of a group.
    groups: FxHashMap<(NameId, NameId), (NameId, u64)>,
}

impl DumpRecords {
    /// Adds an entry as the record of an op.
    fn add(
        &mut self,
        trace: &mut DeviceTrace,
        dump: &FlightDump,
        one: &BareOp,
        entry: &FlightEntry,
    ) {
        let key = (entry.group_name, entry.group_desc);
        let (group_ranks, size) = match self.groups.get(&key) {
            Some(known) => *known,
            None => {
                let known = described_group(trace, dump, entry);
                self.groups.insert(key, known);
                known
            }
        };
        let (in_elements, mut out_elements) = (entry.in_elements, entry.out_elements);
        if one.kind == CollectiveKind::ReduceScatter && entry.kind != one.kind && size > 0 {
            out_elements = in_elements / size;
        }
        let record = Collective {
            name: trace.names.intern(record_name(one.kind)),
            dtype: self.name(trace, dump, entry.dtype),
            in_elements,
            out_elements,
            group_size: size,
            group_name: self.name(trace, dump, entry.group_name),
            group_desc: self.name(trace, dump, entry.group_desc),
            group_ranks,
            seq: if entry.is_message {
                entry.message_number
            } else {
                entry.number
            },
            p2p: entry.is_message,
            rank: entry.peer,
            ..Collective::absent()
        };
        let row = u32::try_from(trace.collectives.len()).unwrap_or(u32::MAX);
        trace.collectives.push(record);
        trace.ops.collective[one.op.index()] = row;
    }

    fn name(&mut self, trace: &mut DeviceTrace, dump: &FlightDump, of_dump: NameId) -> NameId {
        let known = self.names.entry(of_dump);
        *known.or_insert_with(|| trace.names.intern(dump.names.get(of_dump)))
    }
}

/// Returns list text and number of the ranks of an entry's group; empty if neither the dump nor the
/// trace lists them.
fn described_group(
    trace: &mut DeviceTrace,
    dump: &FlightDump,
    entry: &FlightEntry,
) -> (NameId, u64) {
    let name = dump.names.get(entry.group_name);
    // the trace lists the groups that it knows (`distributedInfo`), unlike some dumps
    let known = trace.header.groups.iter().find(|group| group.name == name);
    let ranks = match (known, dump.group_of(entry)) {
        (Some(known), _) if !known.ranks.is_empty() => known.ranks.clone(),
        (Some(known), _) if known.size > 0 => (0..known.size.min(MAX_RANKS)).collect(),
        (_, Some(group)) => group.ranks.clone(),
        _ => vec![],
    };
    let text = if ranks.is_empty() {
        String::new()
    } else {
        format!("{ranks:?}")
    };
    (trace.names.intern(&text), ranks.len() as u64)
}

/// Limit of ranks for a group that states only its size, as in `etlink-link`.
const MAX_RANKS: u64 = 1 << 20;

/// Returns the name of this kind of collective in `record_param_comms` (`ProcessGroupNCCL.cpp`).
fn record_name(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce => "allreduce",
        CollectiveKind::AllGather => "allgather",
        kind => kind.name(),
    }
}
