//! Cuts a slice out of a trace, as if nothing else had been recorded.

use crate::{
    Correlation, DeviceTrace, DurationNs, EventDetails, QueueIdx, RecordedDetails, RfId, TextSpan,
    TimeNs,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Half-open interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptTime {
    /// First instant of the interval.
    pub from: TimeNs,
    /// First instant after the interval.
    pub until: TimeNs,
}

impl KeptTime {
    /// Returns true if an event overlaps the interval.
    pub fn has(self, start: TimeNs, duration: DurationNs) -> bool {
        start < self.until && (start >= self.from || start + duration > self.from)
    }

    /// Returns the rows of a table that overlap the interval.
    fn rows(self, starts: &[TimeNs], durations: &[DurationNs]) -> Vec<u32> {
        kept_rows(starts.len(), |row| self.has(starts[row], durations[row]))
    }
}

/// Device row or synchronisation row that begins in a slice or after it.
#[derive(Clone, Copy, Debug)]
pub struct LaterRow {
    /// Queue, such as a stream, that runs the row.
    pub queue: QueueIdx,
    /// First instant of the row.
    pub start: TimeNs,
    /// Id of the call that launched the row.
    pub id: Correlation,
}

/// Returns the rows in `0..rows` for which `is_kept` holds, in order.
fn kept_rows(rows: usize, is_kept: impl Fn(usize) -> bool) -> Vec<u32> {
    let kept = (0..rows).filter(|row| is_kept(*row));
    kept.map(|row| row as u32).collect()
}

impl DeviceTrace {
    /// Cuts a slice out of the trace. O(n log n).
    ///
    /// A host event that began before the slice keeps only the part inside, and such a call counts
    /// as launching nothing. Device work that runs or was launched in the slice is kept whole, and
    /// so is the work that its queue runs before it. A row that was launched earlier therefore has
    /// no launch, as at the start of a recording.
    pub fn cut(&mut self, time: KeptTime) {
        let calls = &self.calls;
        let begun = kept_rows(calls.len(), |call| {
            time.from <= calls.start[call] && calls.start[call] < time.until
        });
        let mut launched: FxHashSet<Correlation> = FxHashSet::default();
        // A waiting call must keep its duration: the rows it waited for end before it returns.
        let mut until = time.until;
        for call in begun {
            let call = call as usize;
            launched.extend(calls.correlation[call].get());
            until = until.max(calls.start[call] + calls.duration[call]);
        }
        // The last start on each queue. Recorders number calls in order: a row with a greater id
        // than all of these was launched after the slice.
        let mut last: FxHashMap<QueueIdx, TimeNs> = FxHashMap::default();
        let rows = &self.rows;
        for row in 0..rows.len() {
            if launched.contains(&rows.correlation[row]) {
                let last = last.entry(rows.queue[row]).or_insert(TimeNs(i64::MIN));
                *last = rows.start[row].max(*last);
            }
        }
        let newest = launched.iter().max().copied();
        self.keep(time, &|row| {
            let is_ahead = last.get(&row.queue).is_some_and(|last| row.start <= *last);
            launched.contains(&row.id) || is_ahead && Some(row.id) < newest
        });
        let calls = &mut self.calls;
        for call in 0..calls.len() {
            if clip(
                &mut calls.start[call],
                &mut calls.duration[call],
                time.from,
                until,
            ) {
                calls.correlation[call] = Correlation::NONE;
            }
        }
        let tables = [
            (&mut self.ops.start, &mut self.ops.duration),
            (&mut self.waits.start, &mut self.waits.duration),
            (&mut self.auxiliary.start, &mut self.auxiliary.duration),
            (&mut self.stream_ops.start, &mut self.stream_ops.duration),
        ];
        for (starts, durations) in tables {
            for (start, duration) in starts.iter_mut().zip(durations) {
                clip(start, duration, time.from, until);
            }
        }
        let first = self.first_start;
        self.first_start = first.filter(|start| time.has(*start, DurationNs(0)));
        self.recorded_from = self.recorded_from.map(|start| start.max(time.from));
        // Ranges that began one after the other now begin together. The tables did not grow.
        self.sort_by_time();
    }

    /// Keeps the events that overlap `time`, and the later device rows for which `is_awaited` holds.
    /// Names, threads and queues keep their numbers. O(n).
    pub fn keep(&mut self, time: KeptTime, is_awaited: &dyn Fn(LaterRow) -> bool) {
        let is_kept = |row: LaterRow, duration: DurationNs| {
            time.has(row.start, duration) || row.start >= time.from && is_awaited(row)
        };
        let mut details = self.details.take();
        let mut keep = |table: fn(&mut RecordedDetails) -> &mut EventDetails, order: &[u32]| {
            if let Some(details) = &mut details {
                table(details).reorder(order);
            }
        };
        let order = time.rows(&self.ops.start, &self.ops.duration);
        self.ops.reorder(&order);
        keep(|details| &mut details.ops, &order);
        let order = time.rows(&self.calls.start, &self.calls.duration);
        self.calls.reorder(&order);
        keep(|details| &mut details.calls, &order);
        let rows = &self.rows;
        let order = kept_rows(rows.len(), |row| {
            let later = LaterRow {
                queue: rows.queue[row],
                start: rows.start[row],
                id: rows.correlation[row],
            };
            is_kept(later, rows.duration[row])
        });
        self.keep_rows(&order);
        keep(|details| &mut details.rows, &order);
        let syncs = &self.syncs;
        let order = kept_rows(syncs.len(), |row| {
            let later = LaterRow {
                queue: syncs.queue[row],
                start: syncs.start[row],
                id: syncs.correlation[row],
            };
            is_kept(later, syncs.duration[row])
        });
        self.syncs.reorder(&order);
        keep(|details| &mut details.syncs, &order);
        let order = time.rows(&self.waits.start, &self.waits.duration);
        self.waits.reorder(&order);
        let order = time.rows(&self.auxiliary.start, &self.auxiliary.duration);
        self.auxiliary.reorder(&order);
        keep(|details| &mut details.auxiliary, &order);
        let order = time.rows(&self.stream_ops.start, &self.stream_ops.duration);
        self.stream_ops.reorder(&order);
        let ranges = &self.counter_ranges;
        let order = time.rows(&ranges.start, &ranges.duration);
        self.counter_ranges.reorder(&order);
        let times = &self.memory.time;
        let order = kept_rows(times.len(), |row| time.has(times[row], DurationNs(0)));
        self.memory.reorder(&order);
        keep(|details| &mut details.memory, &order);
        if let Some(details) = &mut details {
            let order = time.rows(&details.others.start, &details.others.duration);
            details.others.reorder(&order);
            details.other_details.reorder(&order);
            keep_text(details);
        }
        self.details = details;
        self.keep_collectives();
    }

    /// Keeps the communication records that ops and rows refer to.
    fn keep_collectives(&mut self) {
        let mut places = vec![u32::MAX; self.collectives.len()];
        let mut order = vec![];
        let named = self.ops.collective.iter_mut();
        for record in named.chain(&mut self.rows.collective) {
            let Some(place) = places.get_mut(*record as usize) else {
                continue;
            };
            if *place == u32::MAX {
                *place = order.len() as u32;
                order.push(*record);
            }
            *record = *place;
        }
        self.collectives.reorder(&order);
    }
}

/// Clips a range to an interval; returns true if the range began before it.
fn clip(start: &mut TimeNs, duration: &mut DurationNs, from: TimeNs, until: TimeNs) -> bool {
    let end = (*start + *duration).min(until);
    let is_earlier = *start < from;
    *start = from.max(*start);
    *duration = DurationNs((end - *start).0.max(0));
    is_earlier
}

/// Keeps the text that events refer to.
fn keep_text(details: &mut RecordedDetails) {
    let text = std::mem::take(&mut details.text);
    let tables = [
        &mut details.ops,
        &mut details.calls,
        &mut details.rows,
        &mut details.syncs,
        &mut details.auxiliary,
        &mut details.memory,
        &mut details.other_details,
    ];
    for span in tables.into_iter().flat_map(|table| &mut table.args) {
        let start = details.text.len() as u64;
        let from = usize::try_from(span.start).unwrap_or(usize::MAX);
        let own = text.get(from..from.saturating_add(span.bytes as usize));
        let own = own.unwrap_or_default();
        details.text.extend_from_slice(own);
        *span = TextSpan {
            start,
            bytes: own.len() as u32,
        };
    }
}

/// Nodes of a host trace to keep, by record function id. PyTorch assigns these ids in order of
/// time. Nodes without an id, such as thread and group nodes, are always kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptNodes {
    /// Ids of ops that begin in the slice.
    pub rf_ids: Range<u64>,
    /// Ids of ops that began before the slice, ascending.
    pub earlier: Vec<u64>,
}

impl KeptNodes {
    /// Returns the nodes of a slice's ops; `None` if no op has an id. O(n log n).
    pub fn of_slice(device: &DeviceTrace) -> Option<KeptNodes> {
        let ops = &device.ops;
        let begin = ops.start.first().copied()?;
        let mut kept = KeptNodes::default();
        let mut last = 0;
        let mut first = u64::MAX;
        for (id, start) in ops.rf_id.iter().zip(&ops.start) {
            let Some(RfId(id)) = id.get() else { continue };
            // Ops are in order of time; those that were clipped begin with the slice.
            if *start == begin {
                kept.earlier.push(id);
            } else {
                first = first.min(id);
                last = last.max(id + 1);
            }
        }
        kept.earlier.sort_unstable();
        if first < last {
            kept.rf_ids = first..last;
        }
        (first < last || !kept.earlier.is_empty()).then_some(kept)
    }

    /// Returns true if a node is kept. O(log n).
    pub fn has(&self, rf_id: RfId) -> bool {
        rf_id.get().is_none_or(|RfId(id)| {
            self.rf_ids.contains(&id) || self.earlier.binary_search(&id).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuOp, DeviceRow, RuntimeCall};

    fn op(start: i64, end: i64) -> CpuOp {
        CpuOp {
            start: TimeNs(start),
            duration: DurationNs(end - start),
            ..CpuOp::default()
        }
    }

    fn call(start: i64, end: i64, id: i64) -> RuntimeCall {
        RuntimeCall {
            start: TimeNs(start),
            duration: DurationNs(end - start),
            correlation: Correlation(id),
            ..RuntimeCall::default()
        }
    }

    fn row(start: i64, end: i64, id: i64) -> DeviceRow {
        DeviceRow {
            start: TimeNs(start),
            duration: DurationNs(end - start),
            correlation: Correlation(id),
            collective: u32::MAX,
            ..DeviceRow::default()
        }
    }

    #[test]
    fn a_slice_has_what_runs_in_it_and_what_it_launches() {
        let mut trace = DeviceTrace::default();
        for (start, end) in [
            (0, 100),
            (10, 90),
            (95, 100),
            (100, 150),
            (190, 260),
            (200, 300),
        ] {
            trace.ops.push(op(start, end));
        }
        for (start, end, id) in [
            (80, 90, 1),
            (98, 103, 2),
            (110, 120, 3),
            (195, 215, 4),
            (210, 220, 5),
        ] {
            trace.calls.push(call(start, end, id));
        }
        for (start, end, id) in [
            (85, 95, 1),
            (96, 110, 1),
            (120, 130, 2),
            (300, 310, 3),
            (310, 320, 4),
            (320, 330, 5),
        ] {
            trace.rows.push(row(start, end, id));
        }
        trace.cut(KeptTime {
            from: TimeNs(100),
            until: TimeNs(200),
        });
        let spans = |starts: &[TimeNs], durations: &[DurationNs]| -> Vec<(i64, i64)> {
            let both = starts.iter().zip(durations);
            both.map(|(start, length)| (start.0, (*start + *length).0))
                .collect()
        };
        // the last call ends at 215, so the op around it may last until then
        let ops = spans(&trace.ops.start, &trace.ops.duration);
        assert_eq!(ops, [(100, 150), (190, 215)]);
        let calls = spans(&trace.calls.start, &trace.calls.duration);
        assert_eq!(calls, [(100, 103), (110, 120), (195, 215)]);
        assert_eq!(
            trace.calls.correlation,
            [Correlation::NONE, Correlation(3), Correlation(4)]
        );
        let rows = spans(&trace.rows.start, &trace.rows.duration);
        assert_eq!(rows, [(96, 110), (120, 130), (300, 310), (310, 320)]);
    }

    #[test]
    fn nodes_are_kept_by_their_ids() {
        let mut device = DeviceTrace::default();
        for (start, id) in [(100, 3), (100, 9), (120, 10), (130, 12)] {
            device.ops.push(CpuOp {
                rf_id: RfId(id),
                ..op(start, start + 5)
            });
        }
        let kept = KeptNodes::of_slice(&device).expect("ids");
        let has: Vec<u64> = (0..15).filter(|id| kept.has(RfId(*id))).collect();
        // 0 is not an id
        assert_eq!(has, [0, 3, 9, 10, 11, 12]);
        assert_eq!(KeptNodes::of_slice(&DeviceTrace::default()), None);
    }
}
