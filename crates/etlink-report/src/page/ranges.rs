//! The ranges of a window: ops, calls and device rows by thread or stream, each at a depth where it
//! covers no other; short ones together where there are more than can be drawn.

use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{OpIdx, TimeNs};
use std::cmp::Reverse;

/// No range.
pub(super) const NONE: u32 = u32::MAX;
/// Ranges that are drawn together end up at most this many times as long as what counts as short.
const TOGETHER: i64 = 8;

/// Numbers of a trace's ranges: ops, then calls, then device rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeIds {
    calls: usize,
    rows: usize,
    /// How many.
    pub(super) count: usize,
}

/// What a number stands for.
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

    /// The range that a node is a piece of, if it is one: what a delay on a queue waits for, its
    /// row waits for.
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

/// One or several ranges as they are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawnRange {
    /// Thread, or after all threads queue.
    pub(super) track: u32,
    pub(super) depth: u32,
    pub(super) start: TimeNs,
    pub(super) end: TimeNs,
    /// The range, of several the first.
    pub(super) id: usize,
    /// How many.
    pub(super) count: u32,
}

/// When the range begins and ends, and its thread or queue.
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

/// All that run in the window, as [`nest_ranges`] has them.
pub(super) fn ranges_in_window(
    trace: &LinkedTrace,
    ids: RangeIds,
    (from, to): (TimeNs, TimeNs),
) -> Vec<DrawnRange> {
    let drawn = |id: usize| {
        let (start, end, track) = range_span(trace, ids.range_at(id));
        // What takes no time ends where it starts: at the beginning of the window it is inside all
        // the same.
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

/// By track and start, the longer first, each at its depth. O(n log n).
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
    // An op and its first child often begin at one instant: the longer comes first, so that it is
    // the outer one.
    (range.track, range.start, Reverse(range.end), range.id)
}

/// So many at most: neighbours that are shorter than a limit are drawn together, but for `kept`
/// ones. Returns the limit, ns; 0 where all are drawn. The limit is the least power of two that
/// does; where even that does not help, the first ones stay.
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
        // At the last limit only `kept` ranges stand alone. They do not outrank the budget, which
        // is that of the page.
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
        // Only neighbours at the same depth are joined, so that what covers them stays above them.
        let before = if is_short {
            open[depth].and_then(|at| joined.get_mut(at))
        } else {
            None
        };
        // A bound on the length too: a thousand neighbours in one bar would hide their gaps.
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
