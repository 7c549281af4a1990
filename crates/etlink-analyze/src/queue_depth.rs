//! Queue depth: how much launched work waits in each stream.
//!
//! The depth is the number of rows whose launch call has begun and that have not started. It is
//! known from the first such call to the last such start. `mean` is over that time
//! (sum of depth · time / time), not over changes. Rows of a graph launch, which enter the stream as
//! one, count one by one.
//!
//! A stream takes a bounded number of launches, which no trace states. Calls that block show it
//! ([`FullQueue`]): `limit` is that number, `full` the time that these calls took. Without such calls
//! nothing is known of the limit, and nothing was in its way.

use crate::rows::ClassifiedRows;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{FullQueue, NoLaunch};
use etlink_model::{DeviceQueue, DurationNs, RowIdx, TableIdx};
use serde::Serialize;

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueDepth {
    /// Device number.
    pub device: i64,
    /// Stream.
    pub stream: i64,
    /// Rows whose launch is known.
    pub rows: u64,
    /// From the first launch to the last start, ns.
    pub window_ns: i64,
    /// Mean length over that time, rows.
    pub mean_length: f64,
    /// Largest length, rows.
    pub max_length: i64,
    /// How many launches it holds, where calls have blocked on that.
    pub limit: Option<u64>,
    /// Calls that blocked because it was full.
    pub blocked: u64,
    /// How long these took, ns.
    pub full_ns: i64,
}

/// Per stream whose launches are known. O(rows · log rows).
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
        // clocks of host and device may disagree: a row does not start before its call
        // Both changes of a row are put in at once; sorting brings those of all rows together.
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

/// When, ns, and by how much the depth changes.
type DepthChange = (i64, i64);

fn stream_depth(mut changes: Vec<DepthChange>, queue: &DeviceQueue) -> QueueDepth {
    // At one instant starts (-1) sort before launches
    // (1), but equal times are summed before they count.
    changes.sort_unstable();
    let mut stats = QueueDepth {
        device: queue.device,
        stream: queue.stream,
        // a launch and a start each
        rows: changes.len() as u64 / 2,
        ..QueueDepth::default()
    };
    let mut depth = 0i64;
    // depth times ns
    let mut area = 0i128;
    let mut rest = &changes[..];
    while let Some((now, _)) = rest.first() {
        // changes at one instant are one
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
