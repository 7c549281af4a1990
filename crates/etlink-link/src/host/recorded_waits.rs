//! Recorded waits of threads for each other: `etlink record` wraps `queue.Queue`, events, futures,
//! locks and the DataLoader.
//!
//! ```text
//! producer   ===put(item 7)|.....................    frees 7
//! consumer   ==work==[ get ______|==work=========    after 7
//! ```
//! Time in such a call is no work but a gap. The call that frees a number ends before the end of
//! the wait for that number, even if that wait did not block in the recording. A wait whose end
//! nothing recorded explains (a timeout, C code) stays a gap of its length. O(n log n).

use etlink_model::{DeviceTrace, ThreadIdx, TimeNs, TrackLabel};
use rustc_hash::FxHashMap;

/// A recorded wait within the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedWait {
    pub(crate) thread: ThreadIdx,
    pub(crate) start: TimeNs,
    pub(crate) end: TimeNs,
    /// Index of the wait whose end ended this one.
    pub(crate) after: Option<usize>,
    /// True if this wait's end ends another wait.
    pub(crate) is_release: bool,
}

/// Lists all recorded waits that end within the window, by start.
pub(crate) fn recorded_waits(device: &DeviceTrace) -> Vec<RecordedWait> {
    let rows = &device.waits;
    if rows.is_empty() {
        return vec![];
    }
    let Some((begin, end)) = device.window() else {
        return vec![];
    };
    let is_inside = |row: &usize| {
        let until = rows.start[*row] + rows.duration[*row];
        begin <= until && until <= end
    };
    let inside: Vec<usize> = (0..rows.len()).filter(is_inside).collect();
    // Each process has its own numbers, and a merged trace has several processes.
    let process = |row: usize| device.threads[rows.thread[row].index()].pid;
    let mut freed_by: FxHashMap<(TrackLabel, u64), usize> = FxHashMap::default();
    for (place, &row) in inside.iter().enumerate() {
        if rows.frees[row] != 0 {
            freed_by.insert((process(row), rows.frees[row]), place);
        }
    }
    let mut waits: Vec<RecordedWait> = vec![];
    for &row in &inside {
        let after = freed_by.get(&(process(row), rows.after[row])).copied();
        waits.push(RecordedWait {
            thread: rows.thread[row],
            start: rows.start[row].max(begin),
            end: rows.start[row] + rows.duration[row],
            after: if rows.after[row] != 0 { after } else { None },
            is_release: false,
        });
    }
    // A put that nobody takes in the window needs no node.
    for place in 0..waits.len() {
        if let Some(after) = waits[place].after {
            waits[after].is_release = true;
        }
    }
    waits
}

/// Returns the period in which recorded waits show each thread alive; `None` for threads without
/// releases.
pub(crate) fn lifetimes(threads: usize, waits: &[RecordedWait]) -> Vec<Option<(TimeNs, TimeNs)>> {
    let mut found: Vec<Option<(TimeNs, TimeNs)>> = vec![None; threads];
    for wait in waits.iter().filter(|wait| wait.is_release) {
        let (first, last) = found[wait.thread.index()].unwrap_or((wait.start, wait.end));
        found[wait.thread.index()] = Some((first.min(wait.start), last.max(wait.end)));
    }
    for wait in waits {
        if let Some((first, _)) = &mut found[wait.thread.index()] {
            *first = wait.start.min(*first);
        }
    }
    found
}
