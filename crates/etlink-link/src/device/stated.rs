//! Waits of blocking calls that `cuda_sync` rows state.
//!
//! With `enable_cuda_sync_events` in its experimental config, Kineto writes such a row for each
//! synchronising call. The row and the call share a correlation id.

use crate::device::calls::Does;
use crate::device::lanes::Lanes;
use etlink_model::{CallIdx, Correlation, DeviceTrace, RowIdx, SyncRow};
use rustc_hash::FxHashMap;

/// Sync rows by call, with the records that they name.
pub(crate) struct StatedWaits<'t> {
    device: &'t DeviceTrace,
    /// Sync rows by the correlation of their call.
    by_call: FxHashMap<Correlation, u32>,
    /// Calls that record events, by correlation; empty without sync rows.
    records: Vec<(Correlation, CallIdx)>,
}

/// A row that a call waits for; `None` if nothing was launched there.
pub(crate) type StatedRow = Option<RowIdx>;

impl<'t> StatedWaits<'t> {
    /// Indexes the sync rows of a trace. O(n log n).
    pub(crate) fn new(device: &'t DeviceTrace, does: &[Does]) -> StatedWaits<'t> {
        let ids = device.syncs.correlation.iter().zip(0..);
        let by_call = ids.filter_map(|(id, sync)| Some((id.get()?, sync)));
        let by_call = by_call.collect();
        let mut records = vec![];
        if !device.syncs.is_empty() {
            let calls = device.calls.correlation.iter().zip((0..).map(CallIdx));
            for ((id, call), does) in calls.zip(does) {
                if *does == Does::Record {
                    records.push((*id, call));
                }
            }
            records.sort();
        }
        StatedWaits {
            device,
            by_call,
            records,
        }
    }

    /// Returns the sync row of a call; `None` if there is none.
    pub(crate) fn sync_of(&self, call: CallIdx) -> Option<SyncRow> {
        let id = self.device.calls.correlation[call.index()].get()?;
        let sync = self.by_call.get(&id)?;
        Some(self.device.syncs.row(*sync as usize))
    }

    /// Returns the row awaited by a call that synchronises with an event or a stream. `None` if the
    /// sync row names an event recorded outside the trace.
    pub(crate) fn waited_row(
        &self,
        lanes: &Lanes,
        call: CallIdx,
        does: Does,
        sync: &SyncRow,
    ) -> Option<StatedRow> {
        if does == Does::EventSync {
            return self.recorded(lanes, sync);
        }
        let stream = self.device.queues[sync.queue.index()].stream;
        // a stream without rows has no work
        let queue = lanes.queue(self.device, sync.queue, stream);
        let begun = self.device.calls.start[call.index()];
        Some(queue.and_then(|queue| lanes.last_before(queue, begun)))
    }

    /// Returns the last row before the record that a sync row names. `None` if it names no known
    /// record.
    pub(crate) fn recorded(&self, lanes: &Lanes, sync: &SyncRow) -> Option<StatedRow> {
        let stream = Some(sync.wait_stream).filter(|stream| *stream >= 0)?;
        let record = sync.wait_record.get().filter(|id| id.0 >= 0)?;
        let starts = &self.device.calls.start;
        // An id may recur in another process: the latest record that began before the sync row is
        // meant.
        let begun = CallIdx::new(starts.partition_point(|start| *start <= sync.start));
        let before = self
            .records
            .partition_point(|entry| *entry < (record, begun));
        let (id, call) = self.records[before.checked_sub(1)?];
        let queue = lanes.queue(self.device, sync.queue, stream);
        (id == record).then(|| lanes.last_before(queue?, starts[call.index()]))
    }
}
