//! When devices are occupied by what is of no step, or came before the recording, or when the recorder
//! lost so many rows that nobody knows: neither busy nor idle.

use crate::intervals::Intervals;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use etlink_link::{LinkedTrace, NoLaunch, NodeKind};
use etlink_model::{RowIdx, RowSanity, TableIdx, TimeNs};
use std::collections::BTreeMap;

/// The device rows that do not count, and when devices were occupied by them.
#[derive(Clone, Debug)]
pub(crate) struct OutsideRows {
    /// Per row.
    pub(crate) is_outside: Vec<bool>,
    /// Rows of steps that wait for work from before the recording, each with the time from which
    /// on it had been launched.
    pub(crate) waits: Vec<(usize, i64)>,
    /// Begin of the steps or the recording.
    pub(crate) window_start: i64,
    /// When too many rows are missing.
    pub(crate) unknown: Intervals,
}

/// When the recorder lost so many rows that nothing can be said of devices, inside the recording.
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

/// Whether nothing can be said of devices at any time of a trace.
pub(crate) fn is_all_unknown(trace: &LinkedTrace) -> bool {
    let sanity = trace.device.row_sanity.as_ref();
    sanity.is_some_and(RowSanity::is_all_unknown)
}

/// When a device or a stream carries out work of no step, or waits for it: neither busy nor idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutsideTime {
    /// From the begin of the steps or the recording on.
    pub(crate) intervals: Intervals,
    /// Where the counted time begins, where it does not with the first row that counts.
    pub(crate) begin: Option<i64>,
}

impl OutsideRows {
    /// Whether a row is of no step.
    pub(crate) fn contains_row(&self, row: usize) -> bool {
        self.is_outside[row]
    }

    /// The times of `places` devices or streams; `place_of_row` says to which a row belongs.
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
            // a wait of no step occupies nothing
            if is_outside && rows.class[row] == RowClass::Other {
                continue;
            }
            let place = place_of_row(row);
            begins_outside[place].get_or_insert(is_outside);
            if is_outside {
                let (start, end) = rows.span(row);
                // what ran before a row from before the recording is unknown, too
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
            // Where a row of no step came first, the device was there to be used from the begin of
            // the steps on, and a gap up to the first row of a step is a real one.
            let begin = begins_outside.filter(|first| *first);
            OutsideTime {
                intervals,
                begin: begin.map(|_| self.window_start),
            }
        });
        times.collect()
    }
}

/// Whether a row was launched before the recording began. One without an id (MTIA) was so if it ran
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

/// From when on a row has been launched and waits for what came before the recording, per row that
/// does: the first of its device, and the first of a queue while rows of the device run that were
/// launched before the recording. Of the first row of another queue nothing says what it waits for.
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
        // Before its call the row is late by the host, which the trace shows.
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

/// What a device shows of the time before the recording.
struct EarlierWork {
    /// Its first row of all.
    first_row: usize,
    /// When the last row that was launched before the recording ended.
    last_end: Option<TimeNs>,
}

/// Per device. O(rows).
fn earlier_work(trace: &LinkedTrace) -> BTreeMap<i64, EarlierWork> {
    let rows = &trace.device.rows;
    let mut devices: BTreeMap<i64, EarlierWork> = BTreeMap::new();
    // Rows are in order of their starts.
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
