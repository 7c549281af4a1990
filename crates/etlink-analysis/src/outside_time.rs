//! Time in which devices are neither busy nor idle: they carry out work outside the steps or from
//! before the recording, or the recorder lost so many rows that their state is unknown.

use crate::intervals::Intervals;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use etlink_link::{EarlierWait, LinkedTrace, is_from_before};
use etlink_model::RowSanity;

/// Device rows that do not count, and the times that they occupy.
#[derive(Clone, Debug)]
pub(crate) struct OutsideRows {
    /// True if the row does not count, per row.
    pub(crate) is_outside: Vec<bool>,
    /// Waits of steps' rows for work from before the recording.
    pub(crate) waits: Vec<EarlierWait>,
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
        for wait in &self.waits {
            spans[place_of_row(wait.row)].push((wait.launched.0, rows.span(wait.row).0));
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
