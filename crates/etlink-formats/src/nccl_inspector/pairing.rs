//! Matches the calls of a log with the kernels of a trace.
//!
//! ```text
//! stream    [= AllReduce =]    [= AllReduce ====]  [= AllReduce =]     kernels of one kind
//! log                AllReduce 41          AllReduce 42                numbers, durations
//!                       ^ written             ^ written
//! ```
//! A communicator runs its kernels in order on one stream, so the place of a kernel is the number of
//! its call plus a constant. The constant is that at which most durations agree, of kernels that ended
//! before the line was written. The plugin writes samples: kernels between them have the communicator,
//! but no size. Sends and receives state their peer in the communicator only, and are left out.

use crate::nccl_inspector::log::{InspectorCommunicator, InspectorLog, TimingSource};
use etlink_model::{
    Collective, CollectiveKind, DeviceTrace, DurationNs, QueueIdx, RowIdx, RowKind, UNIT_BYTES,
    UnixNs,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum time between the end of a kernel and the line of its call.
const MAX_LAG_NS: i64 = 10_000_000_000;

/// Tolerance for a kernel's end after its line: clocks of the trace and of the plugin.
const CLOCK_ERROR_NS: i64 = 1_000_000;

/// Maximum difference of two durations of one kernel, or a tenth: the plugin's clock starts in the
/// kernel.
const MAX_APART_NS: i64 = 10_000;

/// Maximum number of kernels before a line that are compared with it.
const MAX_CANDIDATES: usize = 64;

/// Minimum number of calls whose durations agree.
const LEAST_CALLS: usize = 3;

/// Number of kernels that a log describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectorMatches {
    /// Kernels of NCCL's collectives without a record.
    pub kernels: u64,
    /// Kernels of these with a communicator from the log.
    pub described: u64,
    /// Kernels of these with a size from the log.
    pub sized: u64,
}

/// Kernels of a kind on a stream, in order.
type Sequences = BTreeMap<(QueueIdx, CollectiveKind), Vec<RowIdx>>;

/// A call of a communicator.
#[derive(Clone, Copy)]
struct LoggedCall {
    number: u64,
    bytes: u64,
    duration: DurationNs,
    written: UnixNs,
}

/// A communicator's calls of one kind, placed on a stream.
struct Placed<'l> {
    agreeing: usize,
    communicator: &'l InspectorCommunicator,
    sequence: (QueueIdx, CollectiveKind),
    /// Place of a kernel in the sequence less the number of its call.
    shift: i64,
    calls: &'l [LoggedCall],
}

/// Adds records from the log of the same process to the kernels of a trace that have none. O(calls +
/// rows).
pub fn add_collectives(trace: &mut DeviceTrace, log: &InspectorLog) -> InspectorMatches {
    let sequences = bare_kernels(trace);
    let mut matches = InspectorMatches {
        kernels: sequences.values().map(|rows| rows.len() as u64).sum(),
        ..InspectorMatches::default()
    };
    let calls = calls_by_kind(log);
    let mut placed: Vec<Placed<'_>> = vec![];
    for ((place, kind), calls) in &calls {
        let alike = sequences.iter().filter(|((_, own), _)| own == kind);
        let fits = alike.filter_map(|(sequence, rows)| {
            let (agreeing, shift) = best_shift(trace, rows, calls)?;
            Some(Placed {
                agreeing,
                communicator: log.communicators.get(*place as usize)?,
                sequence: *sequence,
                shift,
                calls,
            })
        });
        placed.extend(fits.max_by_key(|one| one.agreeing));
    }
    placed.sort_by_key(|one| std::cmp::Reverse(one.agreeing));
    for (sequence, rows) in &sequences {
        let of_queue = placed.iter().filter(|one| one.sequence.0 == sequence.0);
        let mut fits: Vec<&Placed<'_>> = of_queue.collect();
        if fits.iter().any(|one| one.sequence == *sequence) {
            fits.retain(|one| one.sequence == *sequence);
        }
        // kernels without a call of their own are the only communicator's
        let only = fits.first().map(|one| one.communicator);
        let only = only.filter(|only| fits.iter().all(|one| one.communicator == *only));
        let mut called: FxHashMap<i64, (&InspectorCommunicator, u64)> = FxHashMap::default();
        // the best fit has precedence
        for one in fits.iter().rev().filter(|one| one.sequence == *sequence) {
            let place = |call: &LoggedCall| call.number as i64 + one.shift;
            let calls = one.calls.iter();
            called.extend(calls.map(|call| (place(call), (one.communicator, call.bytes))));
        }
        for (place, row) in (0i64..).zip(rows) {
            let (owner, bytes) = called.get(&place).copied().unzip();
            let Some(owner) = owner.or(only) else {
                continue;
            };
            describe(trace, *row, sequence.1, owner, bytes);
            matches.described += 1;
            matches.sized += u64::from(bytes.is_some());
        }
    }
    matches
}

/// Returns the kernels of collectives that no record describes. If PyTorch records communications,
/// only the kernels of graphs lack records.
fn bare_kernels(trace: &DeviceTrace) -> Sequences {
    let has_records = !trace.collectives.is_empty();
    let mut kinds: Vec<Option<CollectiveKind>> = vec![];
    for name in trace.names.iter() {
        let is_nccl = name.contains("nccl") || name.contains("rccl");
        kinds.push(is_nccl.then(|| CollectiveKind::from_name(name)));
    }
    let rows = &trace.rows;
    let mut all = Sequences::new();
    for row in 0..rows.len() {
        let is_bare = rows.kind[row] == RowKind::Kernel
            && rows.collective[row] == u32::MAX
            && (!has_records || rows.graph_node[row] != 0);
        if is_bare
            && let Some(Some(kind)) = kinds.get(rows.name[row].index())
            && *kind != CollectiveKind::Other
        {
            let sequence = all.entry((rows.queue[row], *kind)).or_default();
            sequence.push(RowIdx::new(row));
        }
    }
    all
}

/// Returns the timed calls of collectives by the index of their communicator and by kind.
fn calls_by_kind(log: &InspectorLog) -> BTreeMap<(u32, CollectiveKind), Vec<LoggedCall>> {
    let kinds: Vec<CollectiveKind> = log.names.iter().map(CollectiveKind::from_name).collect();
    let calls = &log.calls;
    let mut all: BTreeMap<(u32, CollectiveKind), Vec<LoggedCall>> = BTreeMap::new();
    for call in 0..calls.len() {
        let is_of_kernel = matches!(
            calls.timing[call],
            TimingSource::KernelGpu | TimingSource::KernelCpu
        );
        let kind = kinds.get(calls.name[call].index()).copied();
        if let Some(kind) = kind
            && is_of_kernel
            && calls.peer[call] < 0
        {
            let of_kind = all.entry((calls.communicator[call], kind)).or_default();
            of_kind.push(LoggedCall {
                number: calls.number[call],
                bytes: calls.bytes[call],
                duration: calls.duration[call],
                written: calls.written[call],
            });
        }
    }
    all
}

/// Returns the number of calls whose durations agree with the kernels at the best shift, and the
/// shift; `None` if fewer than nine of ten agree.
fn best_shift(trace: &DeviceTrace, rows: &[RowIdx], calls: &[LoggedCall]) -> Option<(usize, i64)> {
    let durations = &trace.rows.duration;
    let end_of = |row: &RowIdx| {
        let start = trace.header.unix_time(trace.rows.start[row.index()]);
        start + durations[row.index()]
    };
    let mut agreeing: BTreeMap<i64, usize> = BTreeMap::new();
    for call in calls {
        let latest = call.written.shifted(CLOCK_ERROR_NS);
        let earliest = call.written.shifted(-MAX_LAG_NS);
        let before = rows.partition_point(|row| end_of(row) <= latest);
        let near = rows[..before].iter().enumerate().rev();
        let near = near.take_while(|(_, row)| end_of(row) >= earliest);
        for (place, row) in near.take(MAX_CANDIDATES) {
            let own = durations[row.index()].0;
            if (own - call.duration.0).abs() <= MAX_APART_NS.max(own / 10) {
                let shift = place as i64 - call.number as i64;
                *agreeing.entry(shift).or_default() += 1;
            }
        }
    }
    // of equal ones the last: the line was written soon after the kernel's end
    let (shift, count) = agreeing.into_iter().max_by_key(|(_, count)| *count)?;
    let places = 0..rows.len() as i64;
    let numbers = calls.iter().map(|call| call.number as i64 + shift);
    let here = numbers.filter(|place| places.contains(place)).count();
    (count >= LEAST_CALLS && 10 * count >= 9 * here).then_some((count, shift))
}

/// Records a kernel's collective.
fn describe(
    trace: &mut DeviceTrace,
    row: RowIdx,
    kind: CollectiveKind,
    owner: &InspectorCommunicator,
    bytes: Option<u64>,
) {
    let whole = bytes.map_or(0, |bytes| bytes.saturating_mul(owner.ranks));
    let own = bytes.unwrap_or(0);
    let (in_elements, out_elements) = match kind {
        CollectiveKind::AllGather => (own, whole),
        CollectiveKind::ReduceScatter => (whole, own),
        _ => (own, own),
    };
    let record = Collective {
        name: trace.names.intern(kind.name()),
        dtype: trace.names.intern(bytes.map_or("", |_| UNIT_BYTES)),
        in_elements,
        out_elements,
        group_size: owner.ranks,
        group_desc: trace.names.intern(&owner.name),
        comms_id: trace.names.intern(&owner.id),
        ..Collective::absent()
    };
    trace.rows.collective[row.index()] = u32::try_from(trace.collectives.len()).unwrap_or(u32::MAX);
    trace.collectives.push(record);
}
