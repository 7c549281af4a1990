//! Moves the events of a trace to other times.

use super::AuxiliaryKind;
use super::row_sanity::ALL_TIME;
use crate::{Correlation, DeviceTrace, DurationNs, ThreadIdx, TimeNs};
use rustc_hash::FxHashMap;

/// Map from recorded times to new times that keeps their order. It is linear between known points,
/// and shifts the times before the first and after the last point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMap {
    /// Recorded and new times, both ascending.
    points: Vec<(TimeNs, TimeNs)>,
}

impl TimeMap {
    /// Creates a map through these points. A point whose new time precedes that of an earlier point
    /// is moved to it. O(points log points).
    pub fn new(mut points: Vec<(TimeNs, TimeNs)>) -> TimeMap {
        points.sort_unstable();
        let mut latest = TimeNs(i64::MIN);
        for (_, new) in &mut points {
            latest = latest.max(*new);
            *new = latest;
        }
        points.dedup_by_key(|(recorded, _)| *recorded);
        TimeMap { points }
    }

    /// Returns the number of known points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns true if no point is known.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns the new time of a recorded time. O(log points).
    pub fn at(&self, time: TimeNs) -> TimeNs {
        let next = self
            .points
            .partition_point(|(recorded, _)| *recorded <= time);
        let before = next.checked_sub(1).map(|last| self.points[last]);
        match (before, self.points.get(next)) {
            (Some((from, to)), Some((until, end))) => {
                // 128 bits: the product of two times does not fit into 64
                let part = i128::from(time.since(from)) * i128::from(end.since(to));
                let part = part / i128::from(until.since(from));
                to.shifted(i64::try_from(part).unwrap_or_default())
            }
            (Some((from, to)), None) => to.shifted(time.since(from)),
            (None, Some((from, to))) => to.shifted(time.since(*from)),
            (None, None) => time,
        }
    }

    fn move_span(&self, start: &mut TimeNs, duration: &mut DurationNs) {
        let (from, until) = (self.at(*start), self.at(*start + *duration));
        (*start, *duration) = (from, until - from);
    }
}

impl DeviceTrace {
    /// Moves all events: those of a thread by its map in `threads`, device rows to the starts in
    /// `rows` with their durations kept, and events of no thread by `others`. All tables are then
    /// sorted by their new times. O(n log n).
    pub fn retime(&mut self, threads: &[TimeMap], others: &TimeMap, rows: &[TimeNs]) {
        let of_thread = |thread: ThreadIdx| threads.get(thread.index()).unwrap_or(others);
        let thread_of_call: FxHashMap<Correlation, ThreadIdx> = {
            let calls = self.calls.correlation.iter().zip(&self.calls.thread);
            calls.map(|(id, thread)| (*id, *thread)).collect()
        };
        let of_memory = self.threads_of_memory();
        let recorded_rows = self.rows.start.iter().zip(&self.rows.duration);
        // Annotations of devices last from the start of a row to the end of a row.
        let mut new_start: FxHashMap<TimeNs, TimeNs> = FxHashMap::default();
        let mut new_end: FxHashMap<TimeNs, TimeNs> = FxHashMap::default();
        for ((start, duration), new) in recorded_rows.zip(rows) {
            new_start.insert(*start, *new);
            new_end.insert(*start + *duration, *new + *duration);
        }
        let on_threads = [
            (
                &self.ops.thread,
                &mut self.ops.start,
                &mut self.ops.duration,
            ),
            (
                &self.calls.thread,
                &mut self.calls.start,
                &mut self.calls.duration,
            ),
            (
                &self.waits.thread,
                &mut self.waits.start,
                &mut self.waits.duration,
            ),
        ];
        for (threads, starts, durations) in on_threads {
            for ((thread, start), duration) in threads.iter().zip(starts).zip(durations) {
                of_thread(*thread).move_span(start, duration);
            }
        }
        let syncs = &mut self.syncs;
        for index in 0..syncs.len() {
            let thread = thread_of_call.get(&syncs.correlation[index]);
            let map = thread.map_or(others, |thread| of_thread(*thread));
            map.move_span(&mut syncs.start[index], &mut syncs.duration[index]);
        }
        let auxiliary = &mut self.auxiliary;
        for index in 0..auxiliary.len() {
            let (start, duration) = (&mut auxiliary.start[index], &mut auxiliary.duration[index]);
            let moved = new_start.get(start).zip(new_end.get(&(*start + *duration)));
            match (auxiliary.kind[index], moved) {
                (AuxiliaryKind::DeviceAnnotation, Some((from, until))) if from <= until => {
                    (*start, *duration) = (*from, *until - *from);
                }
                _ => of_thread(auxiliary.thread[index]).move_span(start, duration),
            }
        }
        let spans = [
            (&mut self.stream_ops.start, &mut self.stream_ops.duration),
            (
                &mut self.counter_ranges.start,
                &mut self.counter_ranges.duration,
            ),
        ];
        for (starts, durations) in spans {
            for (start, duration) in starts.iter_mut().zip(durations) {
                others.move_span(start, duration);
            }
        }
        if let Some(details) = &mut self.details {
            let events = &mut details.others;
            for (start, duration) in events.start.iter_mut().zip(&mut events.duration) {
                others.move_span(start, duration);
            }
        }
        if let Some(sanity) = &mut self.row_sanity {
            for time in sanity
                .unknown
                .iter_mut()
                .flat_map(|(from, until)| [from, until])
            {
                if *time != ALL_TIME.0 && *time != ALL_TIME.1 {
                    *time = others.at(*time);
                }
            }
        }
        for (thread, time) in of_memory.into_iter().zip(&mut self.memory.time) {
            *time = of_thread(thread).at(*time);
        }
        for step in self.sliced_steps.iter_mut().flatten() {
            let map = of_thread(step.thread);
            (step.start, step.end) = (map.at(step.start), map.at(step.end));
        }
        self.first_start = self.first_start.map(|time| others.at(time));
        self.recorded_from = self.recorded_from.map(|time| others.at(time));
        for (start, new) in self.rows.start.iter_mut().zip(rows) {
            *start = *new;
        }
        // The tables did not grow, so their row numbers still fit.
        self.sort_by_time();
    }

    /// Returns the thread of each allocation and free, whose rows do not name it: that of the op that
    /// began last before it and still runs. O(n), for few ops that run at once.
    fn threads_of_memory(&self) -> Vec<ThreadIdx> {
        let ops = &self.ops;
        let (mut open, mut next) = (vec![], 0);
        let threads = self.memory.time.iter().map(|time| {
            while next < ops.len() && ops.start[next] <= *time {
                open.push(next);
                next += 1;
            }
            open.retain(|op| ops.start[*op] + ops.duration[*op] >= *time);
            open.last().map_or(ThreadIdx::NONE, |op| ops.thread[*op])
        });
        threads.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_points_are_interpolated_and_others_shifted() {
        let at = |from, to| (TimeNs(from), TimeNs(to));
        let map = TimeMap::new(vec![at(100, 50), at(200, 60), at(150, 55), at(300, 58)]);
        let new = [0, 100, 125, 175, 200, 250, 300, 310].map(|time| map.at(TimeNs(time)).0);
        assert_eq!(new, [-50, 50, 52, 57, 60, 60, 60, 70]);
    }
}
