//! Collects what determines the start and end of a slice of a trace, in memory that grows only with
//! the trace's annotations.

use etlink_model::{
    Correlation, DeviceRow, DeviceTrace, DurationNs, KeptTime, LaterRow, NameId, TimeNs,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;

/// Time range that contains no event.
pub(crate) const NOTHING: KeptTime = KeptTime {
    from: TimeNs(i64::MAX),
    until: TimeNs(i64::MIN),
};

/// Maximum number of time intervals; their width doubles beyond it.
const MOST_STRETCHES: usize = 4096;

/// Events of a trace that are read for a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEvents {
    /// Time range of the slice.
    pub time: KeptTime,
    /// Ids of the calls that may have been launched in the slice.
    pub launches: RangeInclusive<i64>,
    /// Last start of a device row with such an id.
    pub last_row: TimeNs,
}

impl SliceEvents {
    /// Returns whether a row after the slice may be kept: because it was launched in the slice, or
    /// runs before such a row.
    pub(crate) fn may_await(&self, row: LaterRow) -> bool {
        self.launches.contains(&row.id.0) || row.start <= self.last_row
    }

    /// Returns the time range of the slice, extended to the last start of such rows.
    pub(crate) fn with_rows(&self) -> KeptTime {
        KeptTime {
            until: self.time.until.max(self.last_row.shifted(1)),
            ..self.time
        }
    }
}

/// Contents of a trace as far as slices are chosen by them.
#[derive(Clone, Debug, Default)]
pub struct TraceOutline {
    /// Annotations, and one device row per time interval, as long as all rows that began in the
    /// interval.
    pub trace: DeviceTrace,
    /// First start and last end of ops, runtime calls and device rows; `None` without any. Rows that
    /// start further from the host's events than these are apart, and more than `FAR_ROWS`, do not
    /// count: their times are wrong.
    pub window: Option<(TimeNs, TimeNs)>,
    launches: Stretches<Stretch>,
    /// Last start of device rows by ranges of their launch ids.
    row_starts: Stretches<TimeNs>,
}

impl TraceOutline {
    /// Returns the outline of a trace that was read completely.
    pub fn of_trace(trace: DeviceTrace) -> TraceOutline {
        TraceOutline {
            window: trace.window(),
            trace,
            ..TraceOutline::default()
        }
    }

    /// Returns the events to read for a slice.
    pub fn slice(&self, time: KeptTime) -> SliceEvents {
        let launches = self.launches.within(time.from.0..=time.until.0);
        let ids = launches.filter_map(|own| own.ids);
        let ids = ids.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)));
        let (first, last) = ids.unwrap_or((1, 0));
        let launches = first..=last;
        let starts = ids.map(|_| self.row_starts.within(launches.clone()));
        let last_row = starts.into_iter().flatten().max();
        SliceEvents {
            time,
            launches,
            last_row: last_row.copied().unwrap_or(NOTHING.until),
        }
    }
}

/// Rows start no further than this from calls and ops that last a shorter time.
///
/// As in the linker, which leaves such rows out of what is read (`RECORDING_MARGIN`).
const FAR_ROWS: DurationNs = DurationNs(100_000_000);

/// First start and last end of the device rows that began in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct RowSpan {
    start: TimeNs,
    end: TimeNs,
}

impl Merge for RowSpan {
    fn merge(&mut self, other: RowSpan) {
        self.start = other.start.min(self.start);
        self.end = other.end.max(self.end);
    }
}

/// Summaries of intervals of equal length, of times or of other numbers.
#[derive(Clone, Debug, Default)]
struct Stretches<T> {
    /// Length of an interval as a power of two.
    width: u32,
    /// Summaries by the first number of the interval, divided by its length.
    stretches: BTreeMap<i64, T>,
}

/// Summary of one time interval.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// Smallest and largest id of calls that began in the interval; `None` without calls.
    ids: Option<(i64, i64)>,
    /// Total length of the device rows that began in the interval.
    rows: DurationNs,
    /// Total length of the ops that began in the interval.
    ops: DurationNs,
}

/// Summary that takes in another interval.
trait Merge {
    fn merge(&mut self, other: Self);
}

impl Merge for Stretch {
    fn merge(&mut self, other: Stretch) {
        self.ids = match (self.ids, other.ids) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        self.rows += other.rows;
        self.ops += other.ops;
    }
}

impl Merge for TimeNs {
    fn merge(&mut self, other: TimeNs) {
        *self = other.max(*self);
    }
}

impl<T: Merge> Stretches<T> {
    fn add(&mut self, number: i64, own: T) {
        self.add_stretch(number >> self.width, own);
        while self.stretches.len() > MOST_STRETCHES {
            self.width += 1;
            for (place, own) in std::mem::take(&mut self.stretches) {
                self.add_stretch(place >> 1, own);
            }
        }
    }

    fn add_stretch(&mut self, place: i64, own: T) {
        match self.stretches.entry(place) {
            Entry::Vacant(free) => {
                free.insert(own);
            }
            Entry::Occupied(mut taken) => taken.get_mut().merge(own),
        }
    }

    /// Returns the summaries of intervals that overlap `numbers`.
    fn within(&self, numbers: RangeInclusive<i64>) -> impl Iterator<Item = &T> {
        let range = numbers.start() >> self.width..=numbers.end() >> self.width;
        self.stretches.range(range).map(|(_, own)| own)
    }
}

/// Builder of an outline, chunk by chunk.
pub(crate) struct OutlineBuilder<'k> {
    is_step: &'k (dyn Fn(&str) -> bool + Sync),
    /// First start and last end of ops and runtime calls.
    host_window: Option<(TimeNs, TimeNs)>,
    row_spans: Stretches<RowSpan>,
    launches: Stretches<Stretch>,
    row_starts: Stretches<TimeNs>,
}

impl<'k> OutlineBuilder<'k> {
    pub(crate) fn new(is_step: &'k (dyn Fn(&str) -> bool + Sync)) -> OutlineBuilder<'k> {
        OutlineBuilder {
            is_step,
            host_window: None,
            row_spans: Stretches::default(),
            launches: Stretches::default(),
            row_starts: Stretches::default(),
        }
    }

    /// Adds a chunk and reduces it to its annotations and steps.
    pub(crate) fn add(&mut self, part: &mut DeviceTrace) {
        let host = [
            (&part.ops.start, &part.ops.duration),
            (&part.calls.start, &part.calls.duration),
        ];
        for (starts, durations) in host {
            for (start, duration) in starts.iter().zip(durations) {
                let (first, last) = self.host_window.unwrap_or((*start, *start));
                self.host_window = Some((first.min(*start), last.max(*start + *duration)));
            }
        }
        for (start, id) in part.calls.start.iter().zip(&part.calls.correlation) {
            let ids = id.get().map(|Correlation(id)| (id, id));
            let stretch = Stretch {
                ids,
                ..Stretch::default()
            };
            self.launches.add(start.0, stretch);
        }
        for (start, id) in part.rows.start.iter().zip(&part.rows.correlation) {
            if let Some(Correlation(id)) = id.get() {
                self.row_starts.add(id, *start);
            }
        }
        for (start, rows) in part.rows.start.iter().zip(&part.rows.duration) {
            let span = RowSpan {
                start: *start,
                end: *start + *rows,
            };
            self.row_spans.add(start.0, span);
            let stretch = Stretch {
                rows: *rows,
                ..Stretch::default()
            };
            self.launches.add(start.0, stretch);
        }
        let ops = &part.ops;
        // There are few names, but many ops.
        let mut steps: Vec<Option<bool>> = vec![None; part.names.count()];
        let mut is_step = |name: NameId| {
            let known = &mut steps[name.index()];
            *known.get_or_insert_with(|| (self.is_step)(part.names.get(name)))
        };
        let mut kept = vec![];
        for op in 0..ops.len() {
            if ops.annotation[op] || is_step(ops.name[op]) {
                kept.push(op as u32);
            }
            if !ops.annotation[op] {
                let stretch = Stretch {
                    ops: ops.duration[op],
                    ..Stretch::default()
                };
                self.launches.add(ops.start[op].0, stretch);
            }
        }
        part.ops.reorder(&kept);
        let annotations = std::mem::take(&mut part.ops);
        part.keep(NOTHING, &|_| false);
        part.ops = annotations;
        part.ops.collective.fill(u32::MAX);
    }

    fn window(&self) -> Option<(TimeNs, TimeNs)> {
        let is_far = |start: TimeNs| {
            self.host_window.is_some_and(|(first, last)| {
                let margin = last.since(first).max(FAR_ROWS.0);
                first.since(start) > margin || start.since(last) > margin
            })
        };
        let rows = self.row_spans.stretches.values();
        let rows = rows.filter(|span| !is_far(span.start));
        let rows = rows.map(|span| (span.start, span.end));
        let all = self.host_window.into_iter().chain(rows);
        all.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))
    }

    pub(crate) fn finish(self, mut trace: DeviceTrace) -> TraceOutline {
        let Stretches { width, stretches } = &self.launches;
        let has_rows = stretches.values().any(|own| own.rows > DurationNs(0));
        for (place, own) in stretches {
            // Approximates the work launched at each time: rows begin soon after their launch.
            trace.rows.push(DeviceRow {
                start: TimeNs(place << width),
                duration: if has_rows { own.rows } else { own.ops },
                ..DeviceRow::default()
            });
        }
        TraceOutline {
            trace,
            window: self.window(),
            launches: self.launches,
            row_starts: self.row_starts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_slice_are_among_those_that_are_read() {
        let mut launches = Stretches::default();
        let time = |call: i64| TimeNs(call * 1_000 - 5_000_000);
        for call in 0..100_000 {
            let stretch = Stretch {
                ids: Some((call, call)),
                ..Stretch::default()
            };
            launches.add(time(call).0, stretch);
        }
        assert!(launches.stretches.len() <= MOST_STRETCHES);
        let outline = TraceOutline {
            launches,
            ..TraceOutline::default()
        };
        let slice = outline.slice(KeptTime {
            from: time(40_000),
            until: time(50_000),
        });
        let (first, last) = slice.launches.into_inner();
        assert!(first <= 40_000 && last >= 49_999);
        // At most one interval more on either side.
        assert!(first > 39_900 && last < 50_100, "{first} {last}");
    }
}
