//! Bounds on a device's clock from calls and rows: see [`crate::device::clock_fit`].
//!
//! Observations and the bounds they give:
//!
//! - A row and the call that launched it: the row starts no earlier than the call.
//! - A call that synchronises with a device: it returns no earlier than the end of every row whose
//!   launch call had ended before.
//! - A call whose stream or event a `cuda_sync` row states: it returns no earlier than the end of
//!   the last row before.
//! - A copy that blocks, see [`waits_for_copy`]: it returns no earlier than the end of its own row.
//! - A call delayed by a full launch queue: it returns after the start of the launch that makes
//!   room, within a launch's maximum time.
//! - A call that synchronises with an unstated stream: it returns no earlier than the end of the
//!   last row of the device's only stream. With several streams, the one its thread last launched
//!   to is a guess.
//! - A call that waits for an unstated event: it returns no earlier than the end of the last row
//!   before the only event recorded by its thread since its last wait for one. This is a guess.
//!
//! The synchronised device is known from the call's `cuda_sync` row, or because the call's process
//! launches to only one device. O(rows log rows).

use crate::device::calls::{self, Does};
use crate::device::clock_fit::{ClockBound, ClockBounds};
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::launch_queue::queue_returns;
use crate::device::stated::StatedWaits;
use crate::device::{call_end, row_end, waits_for_copy};
use crate::limits::{LAUNCH_LATENCY, ROUNDING};
use etlink_model::{CallIdx, DeviceTrace, QueueIdx, RowIdx, TimeNs, TrackLabel};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Collects the bounds on each device's clock, by device.
pub(crate) fn clock_bounds(
    device: &DeviceTrace,
    launches: &Launches,
) -> BTreeMap<i64, ClockBounds> {
    let does = calls::all(device);
    let mut finder = BoundFinder {
        device,
        launches,
        lanes: Lanes::new(device, launches),
        stated: StatedWaits::new(device, &does),
        own_device: FxHashMap::default(),
        last_queue: vec![None; device.threads.len()],
        recorded: vec![RecordedEvents::default(); device.threads.len()],
        only_queue: only_queues(device),
        synchronised: FxHashMap::default(),
        found: BTreeMap::new(),
    };
    finder.find_own_devices();
    finder.add_queue_returns();
    let by_call = std::mem::take(&mut finder.lanes.by_call);
    let mut rows = by_call.into_iter().peekable();
    for (call, does) in (0..).map(CallIdx).zip(does) {
        while let Some((_, row)) = rows.next_if(|(by, _)| *by == call) {
            finder.add_launch(call, row, does);
        }
        finder.add_return(call, does);
    }
    finder.found
}

struct BoundFinder<'t> {
    device: &'t DeviceTrace,
    launches: &'t Launches,
    lanes: Lanes,
    stated: StatedWaits<'t>,
    /// Only device that each thread's process launches to.
    own_device: FxHashMap<usize, i64>,
    /// Queue of each thread's last launch.
    last_queue: Vec<Option<QueueIdx>>,
    /// Events recorded by each thread.
    recorded: Vec<RecordedEvents>,
    /// Only queue of each device whose rows are all on one queue.
    only_queue: BTreeMap<i64, QueueIdx>,
    /// Time of each device's last synchronisation.
    synchronised: FxHashMap<i64, TimeNs>,
    found: BTreeMap<i64, ClockBounds>,
}

/// Events that a thread has recorded since it last waited for one.
#[derive(Clone, Copy, Debug, Default)]
struct RecordedEvents {
    count: u32,
    /// Last row before the last of these events.
    row: Option<RowIdx>,
}

/// Returns the queues of devices whose rows are all on one queue. O(rows).
fn only_queues(device: &DeviceTrace) -> BTreeMap<i64, QueueIdx> {
    let mut has_rows = vec![false; device.queues.len()];
    for queue in &device.rows.queue {
        has_rows[queue.index()] = true;
    }
    let mut queues: BTreeMap<i64, Vec<QueueIdx>> = BTreeMap::new();
    for (queue, label) in device.queues.iter().enumerate() {
        if has_rows[queue] {
            let of_device = queues.entry(label.device).or_default();
            of_device.push(QueueIdx::new(queue));
        }
    }
    let only = queues.into_iter();
    only.filter_map(|(number, queues)| match queues[..] {
        [only] => Some((number, only)),
        _ => None,
    })
    .collect()
}

impl BoundFinder<'_> {
    fn find_own_devices(&mut self) {
        let launching = self.launches.processes(self.device);
        let (mut devices, mut processes) = (FxHashMap::default(), FxHashMap::default());
        for (process, number) in &launching {
            *devices.entry(*process).or_insert(0) += 1;
            *processes.entry(*number).or_insert(0) += 1;
        }
        let mut own: FxHashMap<TrackLabel, i64> = FxHashMap::default();
        for (process, number) in launching {
            // Rows of other processes on the device are not awaited.
            if devices[&process] == 1 && processes[&number] == 1 {
                own.insert(process, number);
            }
        }
        for (thread, label) in self.device.threads.iter().enumerate() {
            let number = own.get(&label.pid).copied();
            self.own_device
                .extend(number.map(|number| (thread, number)));
        }
    }

    fn of_device(&mut self, number: i64) -> &mut ClockBounds {
        self.found.entry(number).or_default()
    }

    fn device_of(&self, row: RowIdx) -> i64 {
        let queue = self.device.rows.queue[row.index()];
        self.device.queues[queue.index()].device
    }

    /// Adds bounds from calls delayed by a full queue: they return just after the start of the
    /// launch that makes room.
    fn add_queue_returns(&mut self) {
        for room in queue_returns(self.device, self.launches, &self.lanes) {
            let number = self.device.queues[room.queue.index()].device;
            let (at, ahead_ns) = (room.started, room.started.since(room.returned));
            let bounds = self.of_device(number);
            bounds.least.push(ClockBound { at, ahead_ns });
            let ahead_ns = ahead_ns + room.within.0;
            bounds.most.push(ClockBound { at, ahead_ns });
        }
    }

    /// Adds a bound from a launch: a row starts no earlier than its launch call, and a blocking
    /// copy ends before its call returns.
    fn add_launch(&mut self, call: CallIdx, row: RowIdx, does: Does) {
        let start = self.device.rows.start[row.index()];
        let called = self.device.calls.start[call.index()];
        let number = self.device_of(row);
        self.of_device(number).most.push(ClockBound {
            at: start,
            ahead_ns: start.since(called),
        });
        let thread = self.device.calls.thread[call.index()];
        self.last_queue[thread.index()] = Some(self.device.rows.queue[row.index()]);
        if waits_for_copy(self.device, call, does, row) {
            let bound = self.bound(call, row);
            self.of_device(number).least.push(bound);
        }
    }

    /// Adds a bound from a synchronising call: it returns no earlier than the end of what it waited
    /// for.
    fn add_return(&mut self, call: CallIdx, does: Does) {
        let sync = if does.blocks() {
            self.stated.sync_of(call)
        } else {
            None
        };
        match (does, sync) {
            (Does::DeviceSync, sync) => {
                let stated = sync.map(|sync| self.device.queues[sync.queue.index()].device);
                let thread = self.device.calls.thread[call.index()].index();
                let number = stated.or_else(|| self.own_device.get(&thread).copied());
                if let Some(number) = number {
                    self.add_device_sync(call, number);
                }
            }
            (Does::StreamSync | Does::EventSync, Some(sync)) => {
                let waited = self.stated.waited_row(&self.lanes, call, does, &sync);
                if let Some(row) = waited.flatten() {
                    let number = self.device_of(row);
                    let bound = self.bound(call, row);
                    self.of_device(number).least.push(bound);
                }
            }
            (Does::StreamSync, None) => self.add_stream_sync(call),
            (Does::Record, None) => self.record_event(call),
            (Does::EventSync, None) => self.guess_event_sync(call),
            _ => {}
        }
    }

    /// Returns the bound from the return of a call that waited for a row.
    fn bound(&self, call: CallIdx, row: RowIdx) -> ClockBound {
        let end = row_end(self.device, row);
        ClockBound {
            at: end,
            ahead_ns: end.since(call_end(self.device, call)),
        }
    }

    fn add_device_sync(&mut self, call: CallIdx, number: i64) {
        let begun = self.device.calls.start[call.index()];
        let since = self.synchronised.insert(number, begun);
        let queues = self
            .lanes
            .launched_to(number, since.unwrap_or(TimeNs(i64::MIN)), begun);
        // Rows that another thread is still launching need not be awaited.
        let is_launched = |row: &RowIdx| self.launches.ended(self.device, *row) <= begun + ROUNDING;
        let last = queues.into_iter().filter_map(|queue| {
            let row = self.lanes.last_before(queue, begun)?;
            Some(row).filter(is_launched)
        });
        let last = last.max_by_key(|row| (row_end(self.device, *row), *row));
        if let Some(row) = last {
            let bound = self.bound(call, row);
            self.of_device(number).least.push(bound);
        }
    }

    /// Returns the queue of a thread's device if it has only one.
    fn only_queue(&self, thread: usize) -> Option<QueueIdx> {
        let number = self.own_device.get(&thread)?;
        self.only_queue.get(number).copied()
    }

    /// Adds the bound of a call that waits for a stream. If it waits for another stream than its
    /// thread last launched to, it may return long before that one's last row, which is no
    /// evidence.
    fn add_stream_sync(&mut self, call: CallIdx) {
        let thread = self.device.calls.thread[call.index()].index();
        let begun = self.device.calls.start[call.index()];
        let only = self.only_queue(thread);
        let queue = only.or(self.last_queue[thread]);
        let Some(row) = queue.and_then(|queue| self.lanes.last_before(queue, begun)) else {
            return;
        };
        let is_launched = self.launches.ended(self.device, row) <= begun + ROUNDING;
        if only.is_some() && is_launched {
            let bound = self.bound(call, row);
            let number = self.device_of(row);
            self.of_device(number).least.push(bound);
        } else {
            self.guess(call, row);
        }
    }

    fn record_event(&mut self, call: CallIdx) {
        let thread = self.device.calls.thread[call.index()].index();
        let at = self.device.calls.start[call.index()];
        let queue = self.only_queue(thread).or(self.last_queue[thread]);
        let recorded = &mut self.recorded[thread];
        recorded.count += 1;
        recorded.row = queue.and_then(|queue| self.lanes.last_before(queue, at));
    }

    fn guess_event_sync(&mut self, call: CallIdx) {
        let thread = self.device.calls.thread[call.index()].index();
        let recorded = std::mem::take(&mut self.recorded[thread]);
        if let (1, Some(row)) = (recorded.count, recorded.row) {
            self.guess(call, row);
        }
    }

    fn guess(&mut self, call: CallIdx, row: RowIdx) {
        let bound = self.bound(call, row);
        if bound.ahead_ns <= LAUNCH_LATENCY.0 {
            let number = self.device_of(row);
            self.of_device(number).guessed.push(bound);
        }
    }
}
