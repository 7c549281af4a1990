//! Finds waits of device rows and host calls beyond launches and stream order.
//!
//! ```text
//! thread     record   wait                       synchronise ----------------|
//! stream 7   ==A==      .                                                .
//! stream 20             . . ==B==     event wait A -> B,  host wait B -> . end of the call
//! ```
//! `cuda_sync` rows state which stream waits for which record. Without them, the waits are
//! inferred: see [`crate::device::inferred`] for streams, [`WaitFinder::infer_host_wait`] for
//! calls. Waits that the measured times contradict are left out and counted. O(n log n).

use crate::device::calls::{self, Does};
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::launch_queue::FullQueue;
use crate::device::polls::{self, PollLoop};
use crate::device::stated::StatedWaits;
use crate::device::{
    CallWait, RowWait, call_end, graph_branches, inferred, launch_queue, row_end, row_name,
    waits_for_copy,
};
use crate::host::scope::is_scope;
use crate::limits::{
    CLOCK_TOLERANCE, LEAST_STAGED, MAX_QUEUES_OF_CALL, MAX_ROWS_OF_CALL, ROUNDING, WAIT_LATENCY,
    ends_before,
};
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, Correlation, DeviceTrace, DurationNs, OpIdx, QueueIdx, RowIdx,
    RowKind, SyncRow, ThreadIdx, TimeNs,
};
use rustc_hash::FxHashMap;

/// All waits of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Waits of rows for rows of other queues, by `to`.
    pub(crate) rows: Vec<RowWait>,
    /// Waits of calls for rows, by `to`.
    pub(crate) calls: Vec<CallWait>,
    /// Time at which calls could continue, for calls that waited longer than their rows took.
    pub(crate) released: FxHashMap<CallIdx, TimeNs>,
    /// Loops of queries, by their last call, which waits.
    pub(crate) polls: Vec<PollLoop>,
    /// Queues that calls have blocked on.
    pub(crate) full_queues: Vec<FullQueue>,
}

/// Finds all waits.
pub(crate) fn waits(
    device: &DeviceTrace,
    launches: &Launches,
    call_op: &[OpIdx],
    anomalies: &mut Anomalies,
) -> Waits {
    if device.rows.is_empty() || device.calls.is_empty() {
        return Waits::default();
    }
    let does = calls::all(device);
    let mut finder = WaitFinder::new(device, launches, (&does, call_op), anomalies);
    // Kineto writes `cuda_sync` rows only with `enable_cuda_sync_events` of its experimental
    // config. A wait that such a row states is not guessed; other waits are.
    let unstated = finder.add_stated();
    let mut known = std::mem::take(&mut finder.found.rows);
    known.extend(graph_branches::recorded_waits(device, finder.anomalies));
    known.extend(graph_branches::branch_waits(device, &finder.lanes));
    let (lanes, calls) = (&finder.lanes, (&unstated[..], call_op));
    finder.found.rows = inferred::event_waits(device, launches, lanes, calls, known);
    // Host waits come last: a waiting stream is done only when the other stream is.
    finder.add_host_waits();
    let mut found = std::mem::take(&mut finder.found);
    let (full_queues, full) = launch_queue::full_queue_waits(device, launches, &finder.lanes);
    found.full_queues = full_queues;
    for full in full {
        found.calls.push(full.wait);
        found.released.insert(full.wait.to, full.started);
    }
    found.polls = polls::poll_loops(device, launches, &finder.lanes, (&does, call_op));
    let polled = found.polls.iter().map(|poll| poll.wait());
    found.calls.extend(polled);
    found.rows.sort();
    found.rows.dedup_by_key(|wait| (wait.to, wait.from));
    found.calls.sort();
    found.calls.dedup_by_key(|wait| (wait.to, wait.from));
    found
}

/// Earlier activity of a blocking call's thread.
#[derive(Clone, Copy)]
struct LaunchedByThread {
    /// Row that the call itself launched.
    own: Option<RowIdx>,
    /// Last row that the thread launched, including `own`.
    last: Option<RowIdx>,
    /// Last call of the thread that recorded an event.
    record: Option<CallIdx>,
}

/// Evidence that a call waits for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// A sync row states it.
    Stated,
    /// The call can wait for nothing else.
    Meaning,
    /// The call stages the copy piece by piece, behind all earlier work of the stream, and returns
    /// while the last piece is copied.
    Staging,
    /// The row was the last one launched to the stream that the call most likely waits for.
    Order,
    /// The row ended at a fitting time, or its stream is one of many.
    Guess,
}

impl Evidence {
    /// Maximum time by which a row may end after its call's return, by the clocks, and still be the
    /// awaited row.
    fn outweighs(self) -> DurationNs {
        match self {
            Evidence::Stated | Evidence::Meaning => DurationNs(i64::MAX),
            Evidence::Staging => LEAST_STAGED,
            Evidence::Order => WAIT_LATENCY,
            Evidence::Guess => CLOCK_TOLERANCE,
        }
    }
}

struct WaitFinder<'t> {
    device: &'t DeviceTrace,
    launches: &'t Launches,
    lanes: Lanes,
    does: &'t [Does],
    call_op: &'t [OpIdx],
    anomalies: &'t mut Anomalies,
    found: Waits,
    stated: StatedWaits<'t>,
    /// True if the trace has rows of only one device, launched by one process: a synchronised
    /// device is then that one.
    has_one_device: bool,
    /// Launch time of the latest awaited row, per thread and queue.
    waited: FxHashMap<(ThreadIdx, QueueIdx), TimeNs>,
    /// Latest call that waited for the whole device, per thread and device.
    device_syncs: FxHashMap<(ThreadIdx, i64), DeviceSync>,
}

/// A call that waited for all queues of a device.
#[derive(Default)]
struct DeviceSync {
    begun: Option<TimeNs>,
    /// Queues whose rows had not ended when the call returned.
    contradicted: Vec<QueueIdx>,
}

impl<'t> WaitFinder<'t> {
    fn new(
        device: &'t DeviceTrace,
        launches: &'t Launches,
        (does, call_op): (&'t [Does], &'t [OpIdx]),
        anomalies: &'t mut Anomalies,
    ) -> WaitFinder<'t> {
        let (lanes, found) = (Lanes::new(device, launches), Waits::default());
        let launching = launches.processes(device);
        let has_one_device = lanes.devices().count() == 1 && launching.len() == 1;
        WaitFinder {
            device,
            launches,
            lanes,
            does,
            call_op,
            anomalies,
            found,
            stated: StatedWaits::new(device, does),
            has_one_device,
            waited: FxHashMap::default(),
            device_syncs: FxHashMap::default(),
        }
    }

    fn row_end(&self, row: RowIdx) -> TimeNs {
        row_end(self.device, row)
    }

    /// Adds the waits of streams that sync rows state. Returns the effect of each call, except
    /// calls with a stated wait.
    fn add_stated(&mut self) -> Vec<Does> {
        let mut unstated = self.does.to_vec();
        let calls = self.calls_by_correlation();
        for at in 0..self.device.syncs.len() {
            let sync = self.device.syncs.row(at);
            if !self
                .device
                .names
                .get(sync.name)
                .to_ascii_lowercase()
                .contains("stream wait")
            {
                continue;
            }
            // A record of -1 was not seen by CUPTI. The stream is known nevertheless: at the
            // latest, the record follows the last launch to it before the wait.
            let recorded = self.stated.recorded(&self.lanes, &sync);
            let inferred = recorded.is_none();
            let Some(recorded) = recorded.or_else(|| self.last_of_stream(&sync)) else {
                continue;
            };
            if let Some(call) = self.call_of_sync(&calls, &sync) {
                unstated[call.index()] = Does::Other;
            }
            // An event without a preceding row is complete at once.
            let Some(from) = recorded else {
                continue;
            };
            // The first row launched after the wait is the waiting one: rows launched earlier are
            // not delayed.
            let target = self.lanes.queue(
                self.device,
                sync.queue,
                self.device.queues[sync.queue.index()].stream,
            );
            let Some(to) = target.and_then(|queue| self.lanes.first_after(queue, sync.start))
            else {
                continue;
            };
            if ends_before(self.row_end(from), self.device.rows.start[to.index()]) {
                self.found.rows.push(RowWait { to, from, inferred });
            } else if !inferred {
                self.anomalies
                    .note(AnomalyKind::WaitContradicted, || row_name(self.device, to));
            }
        }
        unstated
    }

    /// Returns the calls that make a stream wait, by correlation and in order of time.
    fn calls_by_correlation(&self) -> Vec<(Correlation, CallIdx)> {
        let mut by_id = vec![];
        if self.device.syncs.is_empty() {
            return by_id;
        }
        for (call, does) in (0..).map(CallIdx).zip(self.does) {
            let id = self.device.calls.correlation[call.index()].get();
            if *does == Does::StreamWait {
                by_id.extend(id.map(|id| (id, call)));
            }
        }
        by_id.sort();
        by_id
    }

    /// Returns the call of a sync row.
    fn call_of_sync(&self, calls: &[(Correlation, CallIdx)], sync: &SyncRow) -> Option<CallIdx> {
        let id = sync.correlation.get()?;
        // An id may recur in another process: the latest call that had begun is meant.
        let starts = &self.device.calls.start;
        let begun = CallIdx::new(starts.partition_point(|start| *start <= sync.start));
        let at = calls.partition_point(|entry| *entry < (id, begun));
        let (own, call) = calls[at.checked_sub(1)?];
        (own == id).then_some(call)
    }

    /// Returns the last row, if any, launched before a wait to the stream that it names. `None` if
    /// it names no stream with rows.
    fn last_of_stream(&self, sync: &SyncRow) -> Option<Option<RowIdx>> {
        let stream = Some(sync.wait_stream).filter(|stream| *stream >= 0)?;
        let queue = self.lanes.queue(self.device, sync.queue, stream)?;
        Some(self.lanes.last_before(queue, sync.start))
    }

    /// Adds the waits of blocking calls, in the order of the calls.
    fn add_host_waits(&mut self) {
        let mut last = vec![None; self.device.threads.len()];
        let mut record = vec![None; self.device.threads.len()];
        let by_call = std::mem::take(&mut self.lanes.by_call);
        let mut rows = by_call.into_iter().peekable();
        for call in (0..self.does.len()).map(CallIdx::new) {
            let thread = self.device.calls.thread[call.index()].index();
            let mut own = None;
            // The last of the rows launched by a call is kept: a blocking call returns after all of
            // them.
            while let Some((_, row)) = rows.next_if(|(by, _)| *by == call) {
                own = Some(row);
            }
            // `cudaMemcpyAsync` from pageable memory is staged and synchronous, despite its name
            // (CUDA's API synchronization behavior).
            let does = match own {
                Some(row)
                    if self.does[call.index()] == Does::Other && self.is_pageable_copy(row) =>
                {
                    Does::BlockingCopy
                }
                _ => self.does[call.index()],
            };
            last[thread] = own.or(last[thread]);
            if does == Does::Record {
                record[thread] = Some(call);
            }
            if does.blocks() && !self.add_stated_host_wait(call, does) {
                let launched = LaunchedByThread {
                    own,
                    last: last[thread],
                    record: record[thread],
                };
                self.infer_host_wait(call, does, launched);
            }
        }
    }

    /// True for copies from or to unpinned memory: they are staged, and the call returns when that
    /// is done.
    fn is_pageable_copy(&self, row: RowIdx) -> bool {
        let rows = &self.device.rows;
        rows.kind[row.index()] == RowKind::Memcpy
            && self
                .device
                .names
                .get(rows.name[row.index()])
                .contains("Pageable")
    }

    /// Adds the wait that a sync row states. Returns false if there is no such row, or it names no
    /// target.
    fn add_stated_host_wait(&mut self, call: CallIdx, does: Does) -> bool {
        let Some(sync) = self.stated.sync_of(call) else {
            return false;
        };
        if does == Does::DeviceSync {
            // The stream of such a row is -1: a context waits for all of its streams.
            let number = self.device.queues[sync.queue.index()].device;
            self.wait_for_device(call, number, Evidence::Stated);
            return true;
        }
        let waited = self.stated.waited_row(&self.lanes, call, does, &sync);
        if let Some(row) = waited.flatten() {
            self.wait_for(call, row, Evidence::Stated);
        }
        waited.is_some()
    }

    /// Infers what a call with this name must have waited for. A stream is the one of the thread's
    /// last launch, unless the call continued long after that had ended. For an event, and for a
    /// stream otherwise, it is the row that ended last before the call did, by at most
    /// [`WAIT_LATENCY`].
    ///
    /// A call that was not delayed shows neither stream nor event. In a program's own code it may
    /// be any of them, so it waits for all.
    fn infer_host_wait(&mut self, call: CallIdx, does: Does, launched: LaunchedByThread) {
        let LaunchedByThread { own, last, record } = launched;
        let calls = &self.device.calls;
        let (begun, ended) = (
            calls.start[call.index()],
            calls.start[call.index()] + calls.duration[call.index()],
        );
        let row = match does {
            Does::DeviceSync => {
                // the device of the thread's last launch, else of the first row
                let queue = self.device.rows.queue[last.unwrap_or_default().index()];
                let number = self.device.queues[queue.index()].device;
                let evidence = if self.has_one_device {
                    Evidence::Meaning
                } else {
                    Evidence::Guess
                };
                return self.wait_for_device(call, number, evidence);
            }
            Does::BlockingCopy => {
                let Some(row) = own else { return };
                let evidence = if waits_for_copy(self.device, call, does, row) {
                    Evidence::Meaning
                } else if self.device.rows.duration[row.index()] >= LEAST_STAGED {
                    Evidence::Staging
                } else if self.next_call_does(call) == Some(Does::StreamSync) {
                    // A short copy is staged at once: the next call waits for it.
                    return;
                } else {
                    Evidence::Guess
                };
                return self.wait_if_possible(call, row, evidence);
            }
            Does::StreamSync => {
                let last = last.and_then(|last| {
                    self.lanes
                        .last_before(self.device.rows.queue[last.index()], begun)
                });
                // PyTorch also synchronises side streams, which need not be those of the thread's
                // last launch.
                let ended_last = last.filter(|row| self.ends_call(*row, begun, ended));
                let row = ended_last.or_else(|| self.ended_in(begun, ended));
                // A row that had ended before the call is no evidence.
                let held_up = row.filter(|row| !ends_before(self.row_end(*row), begun));
                // PyTorch's own ops synchronise the stream that they launched to.
                if held_up.is_none() && !self.is_in_op(call) {
                    return self.wait_for_all(call, last, begun);
                }
                row.or(last)
            }
            Does::EventSync => match (self.ended_in(begun, ended), record) {
                (None, Some(record)) if !self.is_in_op(call) => {
                    let recorded = calls.start[record.index()];
                    return self.wait_for_all(call, last, recorded);
                }
                (row, _) => row,
            },
            _ => self.ended_in(begun, ended),
        };
        // The row's end alone does not identify it: see `Evidence::Order`.
        if let Some(row) = row {
            self.wait_if_possible(call, row, Evidence::Order);
        }
    }

    /// Returns the effect of the next call of a call's thread, if it is near.
    fn next_call_does(&self, call: CallIdx) -> Option<Does> {
        let threads = &self.device.calls.thread;
        let mut after = (call.index() + 1..threads.len()).take(MAX_ROWS_OF_CALL);
        let next = after.find(|other| threads[*other] == threads[call.index()]);
        next.map(|next| self.does[next])
    }

    /// True if a call is made by an op, not by the program's own code.
    fn is_in_op(&self, call: CallIdx) -> bool {
        // Without any op, nothing shows whose code it is.
        if self.device.ops.is_empty() {
            return true;
        }
        let op = self.call_op.get(call.index()).copied();
        let op = op.and_then(OpIdx::get);
        op.is_some_and(|op| !is_scope(self.device, op))
    }

    /// Adds waits for the rows launched before `launched` to each stream of the device of the
    /// thread's last launch, if the times allow it.
    fn wait_for_all(&mut self, call: CallIdx, last: Option<RowIdx>, launched: TimeNs) {
        // A thread that launches nothing reveals no device.
        let Some(last) = last else { return };
        let own = self.device.rows.queue[last.index()];
        let device = self.device.queues[own.index()].device;
        let mut queues = self.lanes.queues_of(device).to_vec();
        // Otherwise, a program that does so after each kernel would search thousands of streams
        // each time. Its own stream comes first.
        queues.sort_by_key(|queue| *queue != own);
        queues.truncate(MAX_QUEUES_OF_CALL);
        // If a device has only one stream, a wait must be for that one.
        let evidence = match queues.len() {
            1 => Evidence::Order,
            _ => Evidence::Guess,
        };
        for queue in queues {
            if let Some(row) = self.lanes.last_before(queue, launched) {
                self.wait_if_possible(call, row, evidence);
            }
        }
    }

    /// True if the end of a row explains the return of a blocking call: shortly after it.
    fn ends_call(&self, row: RowIdx, begun: TimeNs, ended: TimeNs) -> bool {
        self.can_end(row, ended, Evidence::Guess)
            && ended - self.row_end(row).max(begun) <= WAIT_LATENCY
    }

    /// True if the end of a row can be what a call that returned at `at` waited for: it had begun,
    /// and ended by then, or later by no more than the evidence outweighs.
    fn can_end(&self, row: RowIdx, at: TimeNs, evidence: Evidence) -> bool {
        // A row that begins after the call's return, by more than the clocks may be off, was never
        // awaited, however short it is, unless nothing else can have been.
        let begun_by = match evidence {
            Evidence::Stated | Evidence::Meaning => at + WAIT_LATENCY,
            Evidence::Staging | Evidence::Order | Evidence::Guess => at,
        };
        let end = self.row_end(row);
        let has_begun = self.device.rows.start[row.index()] < begun_by || ends_before(end, at);
        has_begun && end.since(at) <= evidence.outweighs().0
    }

    /// Returns the row that ended last while a call blocked, shortly before its return.
    fn ended_in(&self, begun: TimeNs, ended: TimeNs) -> Option<RowIdx> {
        let latest = ended + CLOCK_TOLERANCE;
        let earliest = begun.max(TimeNs(ended.0.saturating_sub(WAIT_LATENCY.0)));
        let end = self
            .lanes
            .by_end
            .partition_point(|row| self.row_end(*row) <= latest);
        let near = self.lanes.by_end[..end]
            .iter()
            .rev()
            // The awaited row ended last, so it is among the nearest ones.
            .take(MAX_ROWS_OF_CALL)
            .take_while(|row| self.row_end(**row) >= earliest);
        near.copied().find(|row| self.lanes.launched(*row) < begun)
    }

    /// Adds waits for all queues of a device. Rows launched before the thread's last such call have
    /// been awaited already, unless that was contradicted.
    fn wait_for_device(&mut self, call: CallIdx, device: i64, evidence: Evidence) {
        let begun = self.device.calls.start[call.index()];
        let thread = self.device.calls.thread[call.index()];
        let last = self.device_syncs.entry((thread, device)).or_default();
        // Programs that synchronise after each kernel would otherwise search every queue each time.
        let since = last.begun.replace(begun).unwrap_or(TimeNs(i64::MIN));
        let mut queues = std::mem::take(&mut last.contradicted);
        queues.extend(self.lanes.launched_to(device, since, begun));
        queues.sort_unstable();
        queues.dedup();
        let mut contradicted = vec![];
        for queue in queues {
            let Some(row) = self.lanes.last_before(queue, begun) else {
                continue;
            };
            // Rows that another thread is still launching need not be awaited.
            let evidence = if self.launches.ended(self.device, row) <= begun + ROUNDING {
                evidence
            } else {
                Evidence::Guess
            };
            if !self.wait_for(call, row, evidence) {
                contradicted.push(queue);
            }
        }
        let last = self.device_syncs.entry((thread, device)).or_default();
        last.contradicted = contradicted;
    }

    /// Like [`WaitFinder::wait_for`], but does not count a wait that the times exclude: it is one
    /// of several possible ones.
    fn wait_if_possible(&mut self, call: CallIdx, row: RowIdx, evidence: Evidence) {
        if self.can_end(row, call_end(self.device, call), evidence) {
            self.wait_for(call, row, evidence);
        }
    }

    /// Records that `call` returns after the end of `row`. A row that the thread has waited for
    /// before gets no second edge. Returns true if the times allow the wait. Excluded waits are
    /// counted, and so are contradicted ones that are kept because of their evidence.
    fn wait_for(&mut self, call: CallIdx, row: RowIdx, evidence: Evidence) -> bool {
        let calls = &self.device.calls;
        let ended = call_end(self.device, call);
        let name = || self.device.names.get(calls.name[call.index()]).to_owned();
        if !self.can_end(row, ended, evidence) {
            self.anomalies.note(AnomalyKind::WaitContradicted, name);
            return false;
        }
        let launched = self.lanes.launched(row);
        let key = (
            calls.thread[call.index()],
            self.device.rows.queue[row.index()],
        );
        if self
            .waited
            .get(&key)
            // One edge per queue: earlier rows of the same queue ended before the awaited one.
            .is_none_or(|before| *before < launched)
        {
            if !ends_before(self.row_end(row), ended) {
                self.anomalies.note(AnomalyKind::WaitCorrected, name);
            }
            self.waited.insert(key, launched);
            self.found.calls.push(CallWait {
                to: call,
                from: row,
                inferred: evidence != Evidence::Stated,
            });
        }
        true
    }
}
