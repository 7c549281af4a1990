//! Infers waits between streams that no `cuda_sync` row states.
//!
//! Known are the order of a thread's calls, the streams of its launches, and the times of their
//! kernels. The first two rules:
//!
//! ```text
//! pattern   launch A   record   wait   launch B
//! delay     A's kernel ====|
//!           launch A ..  wait  launch B   ====
//! ```
//! Pattern: B's kernel waits for A's, even if that did not delay it. Delay: B's kernel starts late
//! for its launch and its stream, the thread waited since its last launch to that stream, and A's
//! kernel, launched before the wait, ended just then. A wait belongs to the stream: if the thread
//! has made none, another thread's wait counts (DDP waits in the backward's thread, the optimizer
//! launches from the main one).
//!
//! Two weaker rules follow. A wait of the program's own code that delayed nothing is for the
//! streams that its stream waits for elsewhere, see [`add_user_waits`]. A row that nothing else
//! explains waits for the only row that ended shortly before it, see [`ended_alone_before`].
//!
//! The pattern applies if there are only launches to B between the record and the wait. It also
//! requires a record made by an op: such a record belongs to the stream the op launched to, while a
//! program's own record may belong to any. Calls captured in a graph count for neither.

use crate::device::calls::Does;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::{RowWait, row_end};
use crate::host::scope::is_scope;
use crate::limits::{
    ALONE_LATENCY, LAUNCH_LATENCY, MAX_QUEUES_OF_CALL, MAX_ROWS_OF_QUEUE, WAIT_LATENCY, ends_before,
};
use etlink_model::{CallIdx, DeviceTrace, OpIdx, QueueIdx, RowIdx, TimeNs};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the known `waits` and those that the rules find. O(n log n).
pub(crate) fn event_waits(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
    (does, call_op): (&[Does], &[OpIdx]),
    mut waits: Vec<RowWait>,
) -> Vec<RowWait> {
    let mut threads: Vec<ThreadProgram> = vec![ThreadProgram::default(); device.threads.len()];
    let mut rows = lanes.by_call.iter().copied().peekable();
    for (call, does) in (0..).map(CallIdx).zip(does) {
        let thread = &mut threads[device.calls.thread[call.index()].index()];
        match does {
            Does::BeginCapture => thread.captures = true,
            Does::EndCapture => thread.captures = false,
            _ if thread.captures => {}
            Does::Record => {
                let by_op = call_op[call.index()]
                    .get()
                    .is_some_and(|op| !is_scope(device, op));
                thread.record = match thread.last {
                    Some(row) if by_op => Some(EventRecord {
                        row,
                        then: Then::Nothing,
                    }),
                    _ => None,
                };
                let begun = device.calls.start[call.index()];
                thread.user_record = if !by_op { Some(begun) } else { None };
            }
            Does::StreamWait => thread.wait(device.calls.start[call.index()]),
            _ => {}
        }
        while let Some((_, row)) = rows.next_if(|(by, _)| *by == call) {
            thread.launch(device, row, &mut waits);
        }
    }
    waits.extend(delays(device, launches, lanes, &threads, &waits));
    add_user_waits(device, lanes, &threads, &mut waits);
    waits
}

/// Activity after a record on its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    #[default]
    Nothing,
    /// Launches to one other queue.
    Queue(QueueIdx),
    /// Anything else.
    Several,
}

#[derive(Clone, Copy, Debug)]
struct EventRecord {
    /// Last row that the thread had launched.
    row: RowIdx,
    then: Then,
}

/// State of a thread's program.
#[derive(Clone, Debug, Default)]
struct ThreadProgram {
    last: Option<RowIdx>,
    record: Option<EventRecord>,
    /// Record that the last wait was for, until a launch shows which stream waits.
    pending: Option<EventRecord>,
    /// Time at which the program's own code last recorded an event, on an unknown stream.
    user_record: Option<TimeNs>,
    /// Time of the user's record that the last wait was for.
    user_pending: Option<TimeNs>,
    /// Rows preceded by such a wait, with the time of its record.
    user_waits: Vec<(RowIdx, TimeNs)>,
    /// Times at which the thread made streams wait.
    waited: Vec<TimeNs>,
    /// True while the thread captures a graph: its records and waits then go into the graph.
    captures: bool,
}

impl ThreadProgram {
    fn wait(&mut self, at: TimeNs) {
        self.waited.push(at);
        // A record followed by launches to two streams could be for either, so the wait after it is
        // no evidence.
        self.pending = self.record.filter(|record| record.then != Then::Several);
        self.user_pending = self.user_record.take();
    }

    fn launch(&mut self, device: &DeviceTrace, row: RowIdx, waits: &mut Vec<RowWait>) {
        let queues = &device.rows.queue;
        let queue = queues[row.index()];
        if let Some(pending) = self
            .pending
            .filter(|pending| queues[pending.row.index()] != queue)
        {
            self.pending = None;
            let fits = pending.then == Then::Nothing || pending.then == Then::Queue(queue);
            // A launch to a third stream between record and wait makes the pattern ambiguous: then
            // no wait is guessed.
            if fits && ends_before(row_end(device, pending.row), device.rows.start[row.index()]) {
                waits.push(RowWait {
                    to: row,
                    from: pending.row,
                    inferred: true,
                });
            }
        }
        if let Some(recorded) = self.user_pending.take() {
            self.user_waits.push((row, recorded));
        }
        if let Some(record) = &mut self.record {
            record.then = match record.then {
                Then::Nothing if queue != queues[record.row.index()] => Then::Queue(queue),
                Then::Queue(same) if same == queue => Then::Queue(queue),
                _ => Then::Several,
            };
        }
        self.last = Some(row);
    }
}

/// Adds waits of the program's own code that delayed nothing. The row waits for the streams that
/// its stream has waited for elsewhere; if there are none, for all others of its device.
fn add_user_waits(
    device: &DeviceTrace,
    lanes: &Lanes,
    threads: &[ThreadProgram],
    waits: &mut Vec<RowWait>,
) {
    let queue_of = |row: RowIdx| device.rows.queue[row.index()];
    let mut pairs: Vec<(QueueIdx, QueueIdx)> = vec![];
    let mut known: FxHashSet<RowIdx> = FxHashSet::default();
    for wait in waits.iter() {
        pairs.push((queue_of(wait.to), queue_of(wait.from)));
        known.insert(wait.to);
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut user_waits: Vec<(RowIdx, TimeNs)> = vec![];
    for thread in threads {
        user_waits.extend(&thread.user_waits);
    }
    user_waits.sort_by_key(|(row, _)| (lanes.launched(*row), *row));
    // For each pair of queues, the launch time of the latest awaited row: all later rows of the
    // waiting queue follow it.
    let mut latest: FxHashMap<(QueueIdx, QueueIdx), TimeNs> = FxHashMap::default();
    user_waits.retain(|(row, _)| !known.contains(row));
    for (row, recorded) in user_waits {
        let own = queue_of(row);
        let start = device.rows.start[row.index()];
        for source in possible_sources(device, lanes, &pairs, own) {
            let from = lanes.last_before(source, recorded);
            // both use the device's clock, so there is no error between them
            let Some(from) = from.filter(|from| row_end(device, *from) <= start) else {
                continue;
            };
            let launched = lanes.launched(from);
            let before = latest.insert((own, source), launched);
            if before.is_none_or(|before| before < launched) {
                waits.push(RowWait {
                    to: row,
                    from,
                    inferred: true,
                });
            }
        }
    }
}

/// Returns the queues that a queue is known to wait for, by `pairs`; else all others of its device.
fn possible_sources(
    device: &DeviceTrace,
    lanes: &Lanes,
    pairs: &[(QueueIdx, QueueIdx)],
    own: QueueIdx,
) -> Vec<QueueIdx> {
    let before = pairs.partition_point(|(to, _)| *to < own);
    let of_own = pairs[before..].iter().take_while(|(to, _)| *to == own);
    let mut sources: Vec<QueueIdx> = of_own.map(|(_, from)| *from).collect();
    if sources.is_empty() {
        let all = lanes.queues_of(device.queues[own.index()].device);
        sources.extend(all.iter().copied().filter(|other| *other != own));
    }
    sources.truncate(MAX_QUEUES_OF_CALL);
    sources
}

/// Finds waits that explain the late start of rows.
fn delays(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
    threads: &[ThreadProgram],
    known: &[RowWait],
) -> Vec<RowWait> {
    let rows = &device.rows;
    let mut causes: FxHashMap<RowIdx, TimeNs> = FxHashMap::default();
    for wait in known {
        let latest = causes.entry(wait.to).or_insert(TimeNs(i64::MIN));
        *latest = row_end(device, wait.from).max(*latest);
    }
    let mut queues = vec![
        QueueProgress {
            ended: TimeNs(i64::MIN),
            launched: TimeNs(i64::MIN)
        };
        device.queues.len()
    ];
    let mut found = vec![];
    let mut all_waited: Vec<TimeNs> = vec![];
    for thread in threads {
        all_waited.extend(&thread.waited);
    }
    all_waited.sort_unstable();
    for row in (0..rows.len()).map(RowIdx::new) {
        let at = row.index();
        let queue = &mut queues[rows.queue[at].index()];
        // The row's own end and launch must not count as its causes.
        let before = *queue;
        queue.ended = queue.ended.max(row_end(device, row));
        let call = launches.row_call[at].get();
        queue.launched = queue.launched.max(lanes.launched(row));
        let other = before
            .ended
            .max(causes.get(&row).copied().unwrap_or(before.ended));
        let ready = (queue.launched.0.saturating_add(LAUNCH_LATENCY.0))
            .max(other.0.saturating_add(WAIT_LATENCY.0));
        // A row that its launch and its stream explain needs no other cause, and a guess would be
        // an edge without evidence.
        if rows.start[at].0 > ready {
            // Launched before the recording, or by a call that the profiler dropped: a thread's
            // wait cannot be seen.
            let Some(call) = call else {
                found.extend(ended_alone_before(device, lanes, row));
                continue;
            };
            let thread = device.calls.thread[call.index()];
            let own = &threads[thread.index()].waited;
            let from = [own, &all_waited].into_iter().find_map(|waited| {
                let waited = last_wait(device, waited, call, before.launched)?;
                ended_just_before(device, lanes, row, waited)
            });
            let wait = from.map(|from| RowWait {
                to: row,
                from,
                inferred: true,
            });
            found.extend(wait.or_else(|| ended_alone_before(device, lanes, row)));
        }
    }
    found
}

/// Returns the row of another queue that alone ended shortly before an otherwise unexplained row
/// began.
///
/// No call states such a wait: the legacy default stream and all streams that block on it wait for
/// each other without one (CUDA Runtime API, "Stream synchronization behavior"), and calls before
/// the recording are not seen. If several rows ended then, none is shown to be the cause.
fn ended_alone_before(device: &DeviceTrace, lanes: &Lanes, row: RowIdx) -> Option<RowWait> {
    let start = device.rows.start[row.index()];
    let from = ended_just_before(device, lanes, row, start)?;
    if start - row_end(device, from) > ALONE_LATENCY {
        return None;
    }
    let since = TimeNs(start.0.saturating_sub(ALONE_LATENCY.0));
    let begin = lanes
        .by_end
        .partition_point(|other| row_end(device, *other) < since);
    let end = lanes
        .by_end
        .partition_point(|other| ends_before(row_end(device, *other), start));
    // If hundreds of rows end at one time, a single one is no evidence.
    if end - begin > MAX_ROWS_OF_QUEUE {
        return None;
    }
    let own = device.rows.queue[row.index()];
    let number = device.queues[own.index()].device;
    let mut others = lanes.by_end[begin..end].iter().filter(|other| {
        let queue = device.rows.queue[other.index()];
        queue != own && device.queues[queue.index()].device == number && **other != from
    });
    let is_alone = others.next().is_none();
    is_alone.then_some(RowWait {
        to: row,
        from,
        inferred: true,
    })
}

/// State of a queue.
#[derive(Clone, Copy)]
struct QueueProgress {
    ended: TimeNs,
    launched: TimeNs,
}

/// Returns the last time before `call` at which streams were made to wait, if it is after `since`.
fn last_wait(
    device: &DeviceTrace,
    waited: &[TimeNs],
    call: CallIdx,
    since: TimeNs,
) -> Option<TimeNs> {
    let at = waited.partition_point(|wait| *wait < device.calls.start[call.index()]);
    at.checked_sub(1)
        .map(|last| waited[last])
        .filter(|last| *last > since)
}

/// Returns the row of another queue of the device that ended last before `row` began, among those
/// launched before `waited`.
fn ended_just_before(
    device: &DeviceTrace,
    lanes: &Lanes,
    row: RowIdx,
    waited: TimeNs,
) -> Option<RowIdx> {
    let (start, own) = (
        device.rows.start[row.index()],
        device.rows.queue[row.index()],
    );
    let queues = &device.queues;
    let end = lanes
        .by_end
        .partition_point(|other| ends_before(row_end(device, *other), start));
    let near = lanes.by_end[..end]
        .iter()
        .rev()
        // Hundreds of streams can end rows at one instant; without a limit the search would be
        // quadratic.
        .take(MAX_ROWS_OF_QUEUE)
        .take_while(|other| start - row_end(device, **other) <= WAIT_LATENCY);
    near.copied().find(|other| {
        let queue = device.rows.queue[other.index()];
        queue != own
            && queues[queue.index()].device == queues[own.index()].device
            && lanes.launched(*other) < waited
    })
}
