//! Allocations and frees of memory.

use super::ranges::{HostRange, is_frame};
use crate::memory::FAILED;
use etlink_model::DeviceTrace;

/// Memory events by time, with running sums.
pub(super) struct MemoryEvents {
    /// Time in ns, and the row of [`DeviceTrace::memory`].
    events: Vec<(i64, u32)>,
    /// Sums before each event and after the last one, for host and device, bytes.
    sums: Vec<[i64; 2]>,
    /// Events of failed allocations.
    pub(super) failed: Vec<u32>,
}

impl MemoryEvents {
    pub(super) fn new(trace: &DeviceTrace) -> MemoryEvents {
        let rows = &trace.memory;
        let mut memory = MemoryEvents {
            events: vec![],
            sums: vec![[0, 0]],
            failed: vec![],
        };
        let mut sum = [0i64; 2];
        for row in 0..rows.len() {
            if trace.names.get(rows.name[row]) == FAILED {
                memory.failed.push(row as u32);
                continue;
            }
            if let Some(side) = memory_side(rows.device_type[row]) {
                sum[side] = sum[side].saturating_add(rows.bytes[row]);
            }
            memory.events.push((rows.time[row].0, row as u32));
            memory.sums.push(sum);
        }
        memory
    }

    /// Memory change of all threads from `start` to `end`, both included as in PyTorch, for host
    /// and device, bytes. O(log n).
    pub(super) fn bytes_between(&self, start: i64, end: i64) -> [i64; 2] {
        // Running sums make every range O(log n), however many events it contains.
        let from = self.events.partition_point(|event| event.0 < start);
        let to = self
            .events
            .partition_point(|event| event.0 <= end)
            .max(from);
        [0, 1].map(|side| self.sums[to][side].saturating_sub(self.sums[from][side]))
    }

    /// Returns events at times when nothing ran: they are rows of their own. O(n).
    pub(super) fn events_outside_ranges(&self, ranges: &[HostRange]) -> Vec<u32> {
        let events = ranges
            .iter()
            // PyTorch's list of events lacks these frames, so they cannot hold an event there.
            .filter(|range| !(is_frame(range) && range.asynchronous));
        let (mut ranges, mut end) = (events.peekable(), i64::MIN);
        let mut alone = vec![];
        for &(time, row) in &self.events {
            while let Some(range) = ranges.next_if(|range| range.start <= time) {
                end = end.max(range.end);
            }
            if end < time {
                alone.push(row);
            }
        }
        alone
    }
}

/// Returns the owner of memory by c10's device type: 0 for the host (CPU, MKLDNN, IDEEP), 1 for a
/// device (CUDA, HIP, XPU, PrivateUse1).
pub(super) fn memory_side(device_type: i32) -> Option<usize> {
    match device_type {
        0 | 2 | 5 => Some(0),
        1 | 6 | 12 | 20 => Some(1),
        _ => None,
    }
}
