//! How much launched work waits in each stream.
//!
//! The length is the number of rows that have been launched (their call has begun) and have not started. It is known from the
//! first such call to the last such start; `mean` is over that time (length · time / time), not over changes. A stream takes
//! 1024 launches (CUDA's limit); when so many wait, launch calls block: `full` is that time. Rows of a graph launch, which enter
//! the stream as one, count one by one.

use crate::rows::Rows;
use etlink_link::NoLaunch;
use serde::Serialize;

/// From this length on launch calls block (CUDA; HTA has the same figure).
const FULL: i64 = 1024;

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueLength {
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
    /// Time in which 1024 rows or more waited, ns.
    pub full_ns: i64,
}

/// Per stream whose launches are known. O(rows · log rows).
pub(crate) fn queues(rows: &Rows<'_>) -> Vec<QueueLength> {
    let device = &rows.trace.device;
    let mut changes: Vec<Vec<(i64, i64)>> = vec![vec![]; device.queues.len()];
    for row in 0..rows.len() {
        let Some(call) = rows.trace.row_call[row]
            .get()
            .filter(|_| rows.trace.row_no_launch[row] == NoLaunch::Launched)
        else {
            continue;
        };
        let Some(changes) = changes.get_mut(device.rows.queue[row].index()) else {
            continue;
        };
        let (called, start) = (device.calls.start[call.index()].0, device.rows.start[row].0);
        changes.extend([(called, 1), (start.max(called), -1)]);
    }
    let mut all: Vec<QueueLength> = changes
        .into_iter()
        .zip(&device.queues)
        .filter(|(changes, _)| !changes.is_empty())
        .map(of)
        .collect();
    all.sort_by_key(|queue| (queue.device, queue.stream));
    all
}

fn of((mut changes, queue): (Vec<(i64, i64)>, &etlink_model::DeviceQueue)) -> QueueLength {
    changes.sort_unstable();
    let (mut length, mut area, mut found) = (
        0i64,
        0i128,
        QueueLength {
            device: queue.device,
            stream: queue.stream,
            ..QueueLength::default()
        },
    );
    found.rows = changes.len() as u64 / 2;
    for at in changes
        .chunk_by(|one, next| one.0 == next.0)
        .scan(0usize, |from, group| {
            let start = *from;
            *from += group.len();
            Some(start..*from)
        })
    {
        let now = changes[at.start].0;
        length += changes[at.clone()]
            .iter()
            .map(|(_, change)| change)
            .sum::<i64>();
        let held = changes
            .get(at.end)
            .map_or(0, |next| next.0.saturating_sub(now));
        found.max_length = found.max_length.max(length);
        found.window_ns = found.window_ns.saturating_add(held);
        area = area.saturating_add(i128::from(length) * i128::from(held));
        found.full_ns = found
            .full_ns
            .saturating_add(if length >= FULL { held } else { 0 });
    }
    found.mean_length = if found.window_ns > 0 {
        area as f64 / found.window_ns as f64
    } else {
        0.0
    };
    found
}
