//! Ranges of a window: ops, calls and device rows by thread or stream, each at a depth without
//! overlap. If there are too many to draw, short ranges are merged.

use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{OpIdx, TimeNs};
use std::cmp::Reverse;

/// Number that stands for no range.
pub(super) const NONE: u32 = u32::MAX;

/// Returns the place of a range among the drawn ones; `None` if it is not drawn.
pub(super) fn drawn_place(places: &[u32], id: usize) -> Option<u32> {
    places.get(id).copied().filter(|place| *place != NONE)
}

/// Length of merged ranges, at most this multiple of the limit for a short range.
const TOGETHER: i64 = 8;

/// Numbers of a trace's ranges: ops, then calls, then device rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeIds {
    calls: usize,
    rows: usize,
    /// Total number of ranges.
    pub(super) count: usize,
}

/// Range behind a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceRange {
    Op(usize),
    Call(usize),
    Row(usize),
}

impl RangeIds {
    pub(super) fn new(trace: &LinkedTrace) -> RangeIds {
        let device = &trace.device;
        let (calls, rows) = (device.ops.len(), device.ops.len() + device.calls.len());
        RangeIds {
            calls,
            rows,
            count: rows + device.rows.len(),
        }
    }

    pub(super) fn range_at(self, id: usize) -> TraceRange {
        match id {
            id if id < self.calls => TraceRange::Op(id),
            id if id < self.rows => TraceRange::Call(id - self.calls),
            id => TraceRange::Row(id - self.rows),
        }
    }

    pub(super) fn call_id(self, call: usize) -> usize {
        self.calls + call
    }

    /// Returns the range that a node is part of, if any. A delay on a queue belongs to the row that
    /// it delays.
    pub(super) fn of_node(self, node: &Node) -> Option<usize> {
        let source = node.source as usize;
        match node.kind {
            NodeKind::Runtime => Some(self.call_id(source)),
            NodeKind::HostGap => OpIdx(node.source).get().map(OpIdx::index),
            NodeKind::Boundary | NodeKind::UnexplainedWait if !node.on_device => None,
            _ if node.on_device => Some(self.rows + source),
            _ => Some(source),
        }
    }
}

/// One range or several merged ones, as drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawnRange {
    /// Thread; queues are numbered after all threads.
    pub(super) track: u32,
    pub(super) depth: u32,
    pub(super) start: TimeNs,
    pub(super) end: TimeNs,
    /// Number of the range, or of the first merged one.
    pub(super) id: usize,
    /// Number of merged ranges.
    pub(super) count: u32,
}

/// Returns begin and end of a range, and its thread or queue.
fn range_span(trace: &LinkedTrace, of: TraceRange) -> (TimeNs, TimeNs, u32) {
    let device = &trace.device;
    let (start, duration, track) = match of {
        TraceRange::Op(at) => (
            device.ops.start[at],
            device.ops.duration[at],
            device.ops.thread[at].0,
        ),
        TraceRange::Call(at) => (
            device.calls.start[at],
            device.calls.duration[at],
            device.calls.thread[at].0,
        ),
        TraceRange::Row(at) => (
            device.rows.start[at],
            device.rows.duration[at],
            device.threads.len() as u32 + device.rows.queue[at].0,
        ),
    };
    (start, start + duration, track)
}

/// Returns all ranges in the window, before nesting; [`nest_ranges`] sets their depths.
pub(super) fn ranges_in_window(
    trace: &LinkedTrace,
    ids: RangeIds,
    (from, to): (TimeNs, TimeNs),
) -> Vec<DrawnRange> {
    let drawn = |id: usize| {
        let (start, end, track) = range_span(trace, ids.range_at(id));
        // An instant ends where it starts: at the beginning of the window it is inside anyway.
        let inside = start < to && (end > from || start >= from);
        inside.then_some(DrawnRange {
            track,
            depth: 0,
            start,
            end,
            id,
            count: 1,
        })
    };
    nest_ranges((0..ids.count).filter_map(drawn).collect())
}

/// Sorts ranges by track and start, the longer first, and sets their depths. O(n log n).
pub(super) fn nest_ranges(mut all: Vec<DrawnRange>) -> Vec<DrawnRange> {
    all.sort_unstable_by_key(drawing_order);
    let mut ends: Vec<TimeNs> = vec![];
    let mut track = NONE;
    for range in &mut all {
        if range.track != track {
            (track, _) = (range.track, ends.clear());
        }
        // Ranges that overlap without nesting still get a depth of their own, as none has ended.
        while ends.last().is_some_and(|end| *end <= range.start) {
            ends.pop();
        }
        range.depth = ends.len() as u32;
        ends.push(range.end);
    }
    all
}

fn drawing_order(range: &DrawnRange) -> (u32, TimeNs, Reverse<TimeNs>, usize) {
    // An op and its first child often begin together: the longer comes first, as the outer one.
    (range.track, range.start, Reverse(range.end), range.id)
}

/// Reduces ranges to at most `most` by merging short neighbours, except `kept` ones. Returns the
/// limit for a short range in ns, the least sufficient power of two; 0 if nothing was merged. If no
/// limit suffices, the first ranges stay.
pub(super) fn fit_ranges(
    all: &mut Vec<DrawnRange>,
    most: usize,
    kept: &dyn Fn(usize) -> bool,
) -> i64 {
    if all.len() <= most {
        return 0;
    }
    // Powers of two: a dozen passes at most, whatever the lengths are.
    for limit in (8..62).map(|power| 1i64 << power) {
        let together = join_short_ranges(all, limit, kept);
        // At the last limit only `kept` ranges stand alone. The page's budget outranks them.
        if together.len() <= most || limit == 1 << 61 {
            *all = together;
            all.truncate(most);
            return limit;
        }
    }
    0
}

fn join_short_ranges(
    all: &[DrawnRange],
    limit: i64,
    kept: &dyn Fn(usize) -> bool,
) -> Vec<DrawnRange> {
    let mut joined: Vec<DrawnRange> = vec![];
    let mut open: Vec<Option<usize>> = vec![];
    let mut track = NONE;
    for range in all {
        if range.track != track {
            (track, _) = (range.track, open.clear());
        }
        let depth = range.depth as usize;
        if open.len() <= depth {
            open.resize(depth + 1, None);
        }
        let is_short = (range.end - range.start).0 < limit && !kept(range.id);
        // Only neighbours at the same depth are merged, so ranges that cover them stay above them.
        let before = if is_short {
            open[depth].and_then(|at| joined.get_mut(at))
        } else {
            None
        };
        // The total length is bounded too: a thousand neighbours in one bar would hide their gaps.
        match before.filter(|before| {
            (range.start - before.end).0 < limit
                && (range.end - before.start).0 < limit.saturating_mul(TOGETHER)
        }) {
            Some(before) => {
                (before.end, before.count) =
                    (before.end.max(range.end), before.count.saturating_add(1))
            }
            None => {
                open[depth] = is_short.then_some(joined.len());
                joined.push(*range);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: usize, depth: u32, start: i64, end: i64) -> DrawnRange {
        DrawnRange {
            track: 0,
            depth,
            start: TimeNs(start),
            end: TimeNs(end),
            id,
            count: 1,
        }
    }

    #[test]
    fn short_neighbours_are_drawn_together() {
        // 0      1000                5000
        // ==================================  0, long
        // =  =  =       === 4           =     depth 1
        let all = [
            range(0, 0, 0, 6_000),
            range(1, 1, 0, 100),
            range(2, 1, 200, 300),
            range(3, 1, 400, 450),
            range(4, 1, 1_000, 2_000),
            range(5, 1, 5_000, 5_100),
        ];
        let mut some = all.to_vec();
        assert_eq!(fit_ranges(&mut some, 6, &|_| false), 0);
        assert_eq!(some, all);
        assert_eq!(fit_ranges(&mut some, 4, &|_| false), 256);
        let [long, three, four, five] = some[..] else {
            panic!("{some:?}")
        };
        assert_eq!((long, four, five), (all[0], all[4], all[5]));
        assert_eq!(
            (three.count, three.start.0, three.end.0, three.id),
            (3, 0, 450, 1)
        );
        let mut some = all.to_vec();
        fit_ranges(&mut some, 5, &|id| id == 2);
        assert!(
            some.contains(&all[2]),
            "what is kept stays as it is: {some:?}"
        );
        let mut some = all.to_vec();
        assert_eq!(fit_ranges(&mut some, 1, &|_| true), 1 << 61);
        assert_eq!(
            some,
            [all[0]],
            "the budget holds whatever is asked to be kept"
        );
    }
}
