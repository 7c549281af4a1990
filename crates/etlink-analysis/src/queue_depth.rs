//! Queue depth: the amount of launched work waiting in each stream.
//!
//! The depth is the number of rows whose launch call has begun but that have not started. It is
//! known from the first such call to the last such start. `mean` is taken over that time (sum of
//! depth · time / time), not over changes. Rows of a graph launch enter the stream together, but
//! count one by one.
//!
//! A stream takes a bounded number of launches, which no trace states. Calls that block reveal it
//! ([`FullQueue`]): `limit` is that number, `full` the time these calls took. Without such calls
//! the limit is unknown and was never reached.

use crate::rows::ClassifiedRows;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{FullQueue, NoLaunch};
use etlink_model::{DeviceQueue, DurationNs, RowIdx, TableIdx};
use serde::Serialize;

/// Queue depth of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueDepth {
    /// Device number.
    pub device: i64,
    /// Stream.
    pub stream: i64,
    /// Number of rows with a known launch.
    pub rows: u64,
    /// Time from the first launch to the last start, ns.
    pub window_ns: i64,
    /// Mean depth over that time, rows.
    pub mean_length: f64,
    /// Largest depth, rows.
    pub max_length: i64,
    /// Number of launches that the stream holds; `None` unless calls blocked on it.
    pub limit: Option<u64>,
    /// Number of calls that blocked because the stream was full.
    pub blocked: u64,
    /// Time these calls took, ns.
    pub full_ns: i64,
}

/// Computes the depth per stream with known launches. O(rows · log rows).
pub(crate) fn queue_depths(rows: &ClassifiedRows<'_>) -> Vec<QueueDepth> {
    let device = &rows.trace.device;
    let mut changes: Vec<Vec<DepthChange>> = vec![vec![]; device.queues.len()];
    for row in 0..rows.len() {
        let launched = rows.trace.row_no_launch[row] == NoLaunch::Launched;
        let call = if launched {
            rows.trace.row_call[row].get()
        } else {
            None
        };
        let Some(call) = call else { continue };
        let queue = device.rows.queue[row].index();
        let called = device.calls.start[call.index()];
        let called = rows.trace.device_time(RowIdx::from_index(row), called).0;
        let start = device.rows.start[row].0;
        // Clocks of host and device may disagree: a row does not start before its call. Both
        // changes of a row are added at once; sorting orders those of all rows.
        changes[queue].extend([(called, 1), (start.max(called), -1)]);
    }
    let full_queues = &rows.trace.full_queues;
    let mut all: Vec<QueueDepth> = vec![];
    for (place, (changes, queue)) in changes.into_iter().zip(&device.queues).enumerate() {
        if changes.is_empty() {
            continue;
        }
        let mut depth = stream_depth(changes, queue);
        let full = full_queues.iter().find(|full| full.queue.index() == place);
        if let Some(full) = full {
            depth.add_blocked_calls(&device.calls.duration, full);
        }
        all.push(depth);
    }
    all.sort_by_key(|queue| (queue.device, queue.stream));
    all
}

impl QueueDepth {
    fn add_blocked_calls(&mut self, durations: &[DurationNs], full: &FullQueue) {
        self.limit = Some(full.depth as u64);
        self.blocked = full.blocked.len() as u64;
        for call in &full.blocked {
            self.full_ns = self.full_ns.saturating_add(durations[call.index()].0);
        }
    }
}

/// Time in ns, and change of the depth.
type DepthChange = (i64, i64);

fn stream_depth(mut changes: Vec<DepthChange>, queue: &DeviceQueue) -> QueueDepth {
    // Starts (-1) sort before launches (1) at the same instant, but changes at one instant are
    // summed before they count.
    changes.sort_unstable();
    let mut stats = QueueDepth {
        device: queue.device,
        stream: queue.stream,
        // one launch and one start per row
        rows: changes.len() as u64 / 2,
        ..QueueDepth::default()
    };
    let mut depth = 0i64;
    // sum of depth times ns
    let mut area = 0i128;
    let mut rest = &changes[..];
    while let Some((now, _)) = rest.first() {
        // changes at one instant are merged
        let (at_once, later) = rest.split_at(rest.partition_point(|(time, _)| time == now));
        depth += at_once.iter().map(|(_, change)| change).sum::<i64>();
        let held = later
            .first()
            .map_or(0, |(next, _)| next.saturating_sub(*now));
        stats.max_length = stats.max_length.max(depth);
        stats.window_ns = stats.window_ns.saturating_add(held);
        area = area.saturating_add(i128::from(depth) * i128::from(held));
        rest = later;
    }
    if stats.window_ns > 0 {
        stats.mean_length = area as f64 / stats.window_ns as f64;
    }
    stats
}
