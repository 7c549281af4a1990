//! Counters of a device: how much is launched and waits, whether it runs anything, how many bytes
//! its copies are moving.
//!
//! ```text
//! queue depth      rows launched by a call and not started, on all streams
//! running          rows that run
//! bytes in flight  sizes of the copies and memsets that run
//! ```
//! A value holds until the next one. O(rows · log rows).

use super::sink::{CounterKind, TimelineSink};
use etlink_link::{LinkedTrace, NoLaunch};
use etlink_model::TimeNs;
use std::collections::BTreeMap;
use std::io;

/// When a value changes, and by how much.
type ValueChange = (TimeNs, i64);

/// Writes the counters of each device; `pids`: the process of a device in the file.
pub(super) fn write_counters(
    trace: &LinkedTrace,
    pids: &BTreeMap<i64, u32>,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    for kind in CounterKind::ALL {
        let mut changes: BTreeMap<i64, Vec<ValueChange>> = BTreeMap::new();
        for row in 0..device.rows.len() {
            let Some((from, to, value)) = row_span(trace, row, kind) else {
                continue;
            };
            let queue = device.queues[device.rows.queue[row].index()];
            let of_device = changes.entry(queue.device).or_default();
            of_device.extend([(from, value), (to, -value)]);
        }
        for (number, mut changes) in changes {
            let Some(pid) = pids.get(&number) else {
                debug_assert!(false, "each device with rows has a process");
                continue;
            };
            changes.sort_unstable();
            out.name_counter(*pid, kind)?;
            write_values(&changes, *pid, kind, out)?;
        }
    }
    Ok(())
}

/// From when to when a row adds how much.
fn row_span(trace: &LinkedTrace, row: usize, kind: CounterKind) -> Option<(TimeNs, TimeNs, i64)> {
    let device = &trace.device;
    let rows = &device.rows;
    let (start, end) = (rows.start[row], rows.start[row] + rows.duration[row]);
    match kind {
        CounterKind::QueueDepth => {
            let launched = trace.row_no_launch[row] == NoLaunch::Launched;
            let call = trace.row_call[row].get().filter(|_| launched)?;
            let called = device.calls.start[call.index()];
            // clocks of host and device may disagree: a row does not start before its call
            Some((called, start.max(called), 1))
        }
        CounterKind::Running => Some((start, end, 1)),
        CounterKind::BytesInFlight => {
            let bytes = i64::try_from(rows.bytes[row]).ok()?;
            (bytes > 0).then_some((start, end, bytes))
        }
    }
}

/// Changes at one instant are one, and a value that does not change is not written again.
fn write_values(
    changes: &[ValueChange],
    pid: u32,
    kind: CounterKind,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let (mut value, mut last) = (0i64, None);
    for at_once in changes.chunk_by(|one, next| one.0 == next.0) {
        let changes = at_once.iter().map(|(_, change)| *change);
        value = changes.fold(value, i64::saturating_add);
        if last.replace(value) != Some(value)
            && let Some((at, _)) = at_once.first()
        {
            out.put_counter(pid, kind, *at, value)?;
        }
    }
    Ok(())
}
