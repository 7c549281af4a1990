//! Counters of a device: launched and waiting work, running work, bytes being copied.
//!
//! ```text
//! queue depth      rows launched by a call and not started, on all streams
//! running          rows that run
//! bytes in flight  sizes of the copies and memsets that run
//! Memcpy HtoD GB/s recorded bandwidth of copies, by direction
//! queue depth of … queue depth of one stream, if a device has several
//! memory …         memory that allocators report as allocated and reserved (`profile_memory`)
//! ```
//! Counters of the recording itself follow.
//! A value holds until the next one. O(rows · log rows).

use super::recorded::{ArgumentValue, each_argument};
use super::sink::{CounterTrack, CounterUnit, CounterValue, TimelineSink};
use super::tracks::TrackTable;
use etlink_link::{LinkedTrace, NoLaunch};
use etlink_model::{MemoryRow, TimeNs, TrackLabel};
use std::collections::BTreeMap;
use std::io;

/// Time and amount of a change of a value.
type ValueChange = (TimeNs, i64);

/// Counters of a device's rows, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowCounter {
    /// Rows that are launched and not started.
    QueueDepth,
    /// Rows that run.
    Running,
    /// Bytes of the copies that run.
    BytesInFlight,
}

impl RowCounter {
    const ALL: [RowCounter; 3] = [
        RowCounter::QueueDepth,
        RowCounter::Running,
        RowCounter::BytesInFlight,
    ];

    fn track(self, pid: u32) -> CounterTrack<'static> {
        let (name, unit) = match self {
            RowCounter::QueueDepth => ("queue depth", CounterUnit::Count),
            RowCounter::Running => ("running", CounterUnit::Count),
            RowCounter::BytesInFlight => ("bytes in flight", CounterUnit::Bytes),
        };
        CounterTrack {
            pid,
            number: self as u32,
            name,
            unit,
        }
    }
}

/// First number of memory counters, which follow the row counters.
const MEMORY_COUNTERS: u32 = 16;

/// First number of bandwidth counters, which follow the memory counters.
const BANDWIDTH_COUNTERS: u32 = 1 << 10;

/// First number of stream counters.
const STREAM_COUNTERS: u32 = 1 << 12;

/// First number of recorded counters.
const RECORDED_COUNTERS: u32 = 1 << 18;

/// `c10::DeviceType::CPU`.
const CPU: i32 = 0;

/// Writes the counters of each device, then the recorded ones.
pub(super) fn write_counters(
    trace: &LinkedTrace,
    tracks: &TrackTable,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    for counter in RowCounter::ALL {
        let mut changes: BTreeMap<i64, Vec<ValueChange>> = BTreeMap::new();
        for row in 0..device.rows.len() {
            let Some((from, to, value)) = row_span(trace, row, counter) else {
                continue;
            };
            let queue = device.queues[device.rows.queue[row].index()];
            let of_device = changes.entry(queue.device).or_default();
            of_device.extend([(from, value), (to, -value)]);
        }
        for (number, changes) in changes {
            let Some(pid) = tracks.device_pids.get(&number) else {
                debug_assert!(false, "each device with rows has a process");
                continue;
            };
            write_changes(changes, counter.track(*pid), CounterValue::Whole, out)?;
        }
    }
    write_memory(trace, tracks, out)?;
    write_bandwidths(trace, tracks, out)?;
    write_streams(trace, tracks, out)?;
    write_recorded(trace, tracks, out)
}

/// Returns the interval in which a row contributes to a counter, and its contribution.
fn row_span(trace: &LinkedTrace, row: usize, counter: RowCounter) -> Option<(TimeNs, TimeNs, i64)> {
    let device = &trace.device;
    let rows = &device.rows;
    let (start, end) = (rows.start[row], rows.start[row] + rows.duration[row]);
    match counter {
        RowCounter::QueueDepth => {
            let launched = trace.row_no_launch[row] == NoLaunch::Launched;
            if !launched {
                return None;
            }
            let call = trace.row_call[row].get()?;
            let called = device.calls.start[call.index()];
            // clocks of host and device may disagree: a row does not start before its call
            Some((called, start.max(called), 1))
        }
        RowCounter::Running => Some((start, end, 1)),
        RowCounter::BytesInFlight => {
            let bytes = i64::try_from(rows.bytes[row]).ok()?;
            (bytes > 0).then_some((start, end, bytes))
        }
    }
}

/// Writes each change of the sum; changes at the same instant are combined.
fn write_changes(
    mut changes: Vec<ValueChange>,
    track: CounterTrack<'_>,
    counted: impl Fn(i64) -> CounterValue,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    changes.sort_unstable();
    let mut sum = 0i64;
    let at_once = changes.chunk_by(|one, next| one.0 == next.0);
    let sums = at_once.map(|at_once| {
        let changes = at_once.iter().map(|(_, change)| *change);
        sum = changes.fold(sum, i64::saturating_add);
        (at_once[0].0, sum)
    });
    write_values(sums, track, counted, out)
}

/// Writes each value that differs from the one before.
fn write_values<V: Copy + PartialEq>(
    values: impl Iterator<Item = (TimeNs, V)>,
    track: CounterTrack<'_>,
    counted: impl Fn(V) -> CounterValue,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    out.name_counter(track)?;
    let mut last = None;
    for (at, value) in values {
        if last.replace(value) != Some(value) {
            out.put_counter(track, at, counted(value))?;
        }
    }
    Ok(())
}

/// Bytes per second in a GB/s: sums of whole numbers return to exactly 0 when all copies have
/// ended.
const GIGA: f64 = 1e9;

/// Writes the recorded bandwidth of copies per device and direction.
fn write_bandwidths(
    trace: &LinkedTrace,
    tracks: &TrackTable,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    let rows = &device.rows;
    let mut series: BTreeMap<(u32, &str), Vec<ValueChange>> = BTreeMap::new();
    for row in 0..rows.len() {
        let gb_per_s = rows.gb_per_s[row];
        let queue = device.queues[rows.queue[row].index()];
        let pid = tracks.device_pids.get(&queue.device);
        // negative if the row does not state it
        if gb_per_s <= 0.0 {
            continue;
        }
        let Some(pid) = pid else {
            continue;
        };
        let kind = copy_kind(device.names.get(rows.name[row]));
        let bytes_per_s = (gb_per_s * GIGA).round() as i64;
        let (start, end) = (rows.start[row], rows.start[row] + rows.duration[row]);
        let changes = series.entry((*pid, kind)).or_default();
        changes.extend([(start, bytes_per_s), (end, -bytes_per_s)]);
    }
    for (number, ((pid, kind), changes)) in (BANDWIDTH_COUNTERS..).zip(series) {
        let track = CounterTrack {
            pid,
            number,
            name: &format!("{kind} GB/s"),
            unit: CounterUnit::Other,
        };
        let gb_per_s = |sum| CounterValue::Measured(sum as f64 / GIGA);
        write_changes(changes, track, gb_per_s, out)?;
    }
    Ok(())
}

/// Returns `Memcpy HtoD` for `Memcpy HtoD (Pinned -> Device)`, as HTA does.
fn copy_kind(name: &str) -> &str {
    let kind = name.split(" (").next().unwrap_or(name);
    if kind.starts_with("Mem") {
        kind
    } else {
        "copies"
    }
}

/// Writes the queue depth of each stream, for devices with several.
fn write_streams(
    trace: &LinkedTrace,
    tracks: &TrackTable,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    let mut series: BTreeMap<(i64, usize), Vec<ValueChange>> = BTreeMap::new();
    for row in 0..device.rows.len() {
        if let Some((from, to, value)) = row_span(trace, row, RowCounter::QueueDepth) {
            let queue = device.rows.queue[row].index();
            let of_queue = series.entry((device.queues[queue].device, queue));
            let changes = of_queue.or_default();
            changes.extend([(from, value), (to, -value)]);
        }
    }
    let mut streams: BTreeMap<i64, usize> = BTreeMap::new();
    for (number, _) in series.keys() {
        *streams.entry(*number).or_default() += 1;
    }
    for ((number, queue), changes) in series {
        let Some(pid) = tracks.device_pids.get(&number) else {
            continue;
        };
        // the queue depth of a single stream equals the device's
        if streams[&number] < 2 {
            continue;
        }
        let track = CounterTrack {
            pid: *pid,
            number: STREAM_COUNTERS + queue as u32,
            name: &format!("queue depth of {}", tracks.queue_label(queue)),
            unit: CounterUnit::Count,
        };
        write_changes(changes, track, CounterValue::Whole, out)?;
    }
    Ok(())
}

/// Owner of a memory figure: process in the file, and name of the counter.
type MemoryOwner = (u32, String);

/// Writes the memory that allocators report as allocated and reserved.
fn write_memory(
    trace: &LinkedTrace,
    tracks: &TrackTable,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    let Some(details) = &device.details else {
        return Ok(());
    };
    let mut series: BTreeMap<MemoryOwner, Vec<(TimeNs, i64)>> = BTreeMap::new();
    for row in 0..device.memory.len() {
        let memory = device.memory.row(row);
        let track = details.memory.track[row] as usize;
        let process = details.tracks.get(track).map(|track| track.pid);
        let Some((pid, of)) = memory_owner(&memory, process, tracks) else {
            continue;
        };
        for (what, bytes) in [
            ("memory allocated", memory.allocated),
            ("memory reserved", memory.reserved),
        ] {
            let values = series.entry((pid, format!("{what}{of}"))).or_default();
            values.push((memory.time, i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
    }
    // The host allocator reports no totals, so such a series would be empty.
    series.retain(|_, values| values.iter().any(|(_, bytes)| *bytes > 0));
    for (number, ((pid, name), values)) in (MEMORY_COUNTERS..).zip(&series) {
        let track = CounterTrack {
            pid: *pid,
            number,
            name,
            unit: CounterUnit::Bytes,
        };
        write_values(values.iter().copied(), track, CounterValue::Whole, out)?;
    }
    Ok(())
}

/// Returns the device that has the memory, else the process that reports it, with a name suffix.
fn memory_owner(
    memory: &MemoryRow,
    process: Option<TrackLabel>,
    tracks: &TrackTable,
) -> Option<(u32, String)> {
    let number = i64::from(memory.device);
    let device = tracks.device_pids.get(&number);
    if memory.device_type != CPU
        && let Some(device) = device
    {
        return Some((*device, String::new()));
    }
    let pid = tracks.known_process(process?)?;
    let of = match memory.device_type {
        CPU => String::new(),
        // A device that ran nothing has no process in the file.
        _ => format!(" of device {number}"),
    };
    Some((pid, of))
}

/// Writes the recorded counters (`"ph": "C"`): one track per value.
fn write_recorded(
    trace: &LinkedTrace,
    tracks: &TrackTable,
    out: &mut dyn TimelineSink,
) -> io::Result<()> {
    let device = &trace.device;
    let Some(details) = &device.details else {
        return Ok(());
    };
    let others = &details.others;
    let mut series: BTreeMap<(u32, String), Vec<(TimeNs, CounterValue)>> = BTreeMap::new();
    for row in 0..others.len() {
        if device.names.get(others.phase[row]) != "C" {
            continue;
        }
        let detail = details.other_details.row(row);
        let process = details.tracks.get(detail.track as usize);
        let Some(pid) = process.and_then(|track| tracks.known_process(track.pid)) else {
            continue;
        };
        let name = device.names.get(others.name[row]);
        each_argument(details.args(detail.args), |key, value| {
            let value = match value {
                ArgumentValue::Int(value) => CounterValue::Whole(value),
                ArgumentValue::Float(value) => CounterValue::Measured(value),
                _ => return Ok::<(), io::Error>(()),
            };
            let values = series.entry((pid, format!("{name} {key}"))).or_default();
            values.push((others.start[row], value));
            Ok(())
        })?;
    }
    for (number, ((pid, name), values)) in (RECORDED_COUNTERS..).zip(&series) {
        let track = CounterTrack {
            pid: *pid,
            number,
            name,
            unit: CounterUnit::Other,
        };
        out.name_counter(track)?;
        for (at, value) in values {
            out.put_counter(track, *at, *value)?;
        }
    }
    Ok(())
}
