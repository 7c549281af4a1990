//! Time in which devices are neither busy nor idle: they carry out work outside the steps or from
//! before the recording, or the recorder lost so many rows that their state is unknown.

use crate::intervals::Intervals;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use etlink_link::{LinkedTrace, NoLaunch, NodeKind};
use etlink_model::{RowIdx, RowSanity, TableIdx, TimeNs};
use std::collections::BTreeMap;

/// Device rows that do not count, and the times that they occupy.
#[derive(Clone, Debug)]
pub(crate) struct OutsideRows {
    /// True if the row does not count, per row.
    pub(crate) is_outside: Vec<bool>,
    /// Rows of steps that wait for work from before the recording, each with the time from which it
    /// was launched.
    pub(crate) waits: Vec<(usize, i64)>,
    /// Start of the steps or the recording.
    pub(crate) window_start: i64,
    /// Time with too many missing rows.
    pub(crate) unknown: Intervals,
}

/// Returns the time within the recording in which so many rows were lost that the devices' state is
/// unknown.
pub(crate) fn unknown_time(trace: &LinkedTrace) -> Intervals {
    let mut unknown = Intervals::default();
    let window = trace.report.window;
    let stretches = trace
        .device
        .row_sanity
        .iter()
        .flat_map(|sanity| &sanity.unknown);
    for (start, end) in stretches {
        unknown.push(start.0.max(window.start_ns), end.0.min(window.end_ns));
    }
    unknown
}

/// True if the state of devices is unknown throughout the trace.
pub(crate) fn is_all_unknown(trace: &LinkedTrace) -> bool {
    let sanity = trace.device.row_sanity.as_ref();
    sanity.is_some_and(RowSanity::is_all_unknown)
}

/// Time in which a device or a stream is occupied by, or waits for, work outside the steps: neither
/// busy nor idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutsideTime {
    /// Intervals from the start of the steps or the recording.
    pub(crate) intervals: Intervals,
    /// Start of the counted time; `None` if it is the start of the first row that counts.
    pub(crate) begin: Option<i64>,
}

impl OutsideRows {
    /// True if a row is outside the steps.
    pub(crate) fn contains_row(&self, row: usize) -> bool {
        self.is_outside[row]
    }

    /// Computes the times of `places` devices or streams; `place_of_row` maps a row to its place.
    /// O(rows + outside rows · log).
    pub(crate) fn outside_times(
        &self,
        rows: &ClassifiedRows<'_>,
        places: usize,
        place_of_row: impl Fn(usize) -> usize,
    ) -> Vec<OutsideTime> {
        let mut spans: Vec<Vec<(i64, i64)>> = vec![vec![]; places];
        let mut begins_outside: Vec<Option<bool>> = vec![None; places];
        for row in 0..rows.len() {
            let is_outside = self.is_outside[row];
            // a wait outside the steps occupies nothing
            if is_outside && rows.class[row] == RowClass::Other {
                continue;
            }
            let place = place_of_row(row);
            begins_outside[place].get_or_insert(is_outside);
            if is_outside {
                let (start, end) = rows.span(row);
                // the time before a row from before the recording is unknown, too
                let from = if is_from_before(rows.trace, row) {
                    self.window_start
                } else {
                    start.max(self.window_start)
                };
                spans[place].push((from, end));
            }
        }
        for (row, launched) in self.waits.iter().copied() {
            spans[place_of_row(row)].push((launched, rows.span(row).0));
        }
        for spans in &mut spans {
            spans.extend_from_slice(self.unknown.spans());
        }
        let places = spans.into_iter().zip(begins_outside);
        let times = places.map(|(mut spans, begins_outside)| {
            spans.sort_unstable();
            let mut intervals = Intervals::default();
            for (start, end) in spans {
                intervals.push(start, end);
            }
            // If a row outside the steps came first, the device was available from the start of the
            // steps, and a gap up to the first row of a step is a real one.
            let begin = begins_outside.filter(|first| *first);
            OutsideTime {
                intervals,
                begin: begin.map(|_| self.window_start),
            }
        });
        times.collect()
    }
}

/// True if a row was launched before the recording began. A row without an id (MTIA) was, if it ran
/// before any recorded call.
pub(crate) fn is_from_before(trace: &LinkedTrace, row: usize) -> bool {
    match trace.row_no_launch[row] {
        NoLaunch::BeforeWindow => true,
        NoLaunch::NoCorrelation => {
            let start = trace.device.rows.start[row];
            let start = trace.host_time(RowIdx::from_index(row), start);
            let first = trace.device.calls.start.first();
            first.is_some_and(|first| start < *first)
        }
        _ => false,
    }
}

/// Lists rows that wait for work from before the recording, with the time from which they were
/// launched: the first row of each device, and the first row of a queue while rows of the device
/// run that were launched before the recording. First rows of other queues may wait for anything.
pub(crate) fn waits_for_earlier_work(trace: &LinkedTrace) -> Vec<(usize, i64)> {
    let nodes = &trace.nodes;
    let earlier = earlier_work(trace);
    let mut waits = vec![];
    for node in nodes.indices() {
        let index = node.index();
        if !nodes.on_device[index] || nodes.kind[index] != NodeKind::Boundary {
            continue;
        }
        let row = nodes.source[index] as usize;
        // Before its call, the row is late because of the host, which the trace shows.
        let Some(call) = trace.row_call.get(row).and_then(|call| call.get()) else {
            continue;
        };
        if trace.row_no_launch[row] == NoLaunch::Launched {
            let calls = &trace.device.calls;
            let launched = calls.start[call.index()] + calls.duration[call.index()];
            let launched = trace.device_time(RowIdx::from_index(row), launched);
            let work = &earlier[&row_device(trace, row)];
            let runs_on = work.last_end.is_some_and(|end| end >= launched);
            if runs_on || work.first_row == row {
                waits.push((row, launched.0));
            }
        }
    }
    waits
}

/// Evidence of a device's work from before the recording.
struct EarlierWork {
    /// First row of the device.
    first_row: usize,
    /// End of the last row launched before the recording.
    last_end: Option<TimeNs>,
}

/// Collects the earlier work per device. O(rows).
fn earlier_work(trace: &LinkedTrace) -> BTreeMap<i64, EarlierWork> {
    let rows = &trace.device.rows;
    let mut devices: BTreeMap<i64, EarlierWork> = BTreeMap::new();
    // Rows are sorted by start.
    for row in 0..rows.len() {
        let work = devices
            .entry(row_device(trace, row))
            .or_insert(EarlierWork {
                first_row: row,
                last_end: None,
            });
        if is_from_before(trace, row) {
            work.last_end = work
                .last_end
                .max(Some(rows.start[row] + rows.duration[row]));
        }
    }
    devices
}

fn row_device(trace: &LinkedTrace, row: usize) -> i64 {
    let device = &trace.device;
    device.queues[device.rows.queue[row].index()].device
}
