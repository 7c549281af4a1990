//! The critical path in a window, as columns.

use super::strings::StringTable;
use super::window::TimelineWindow;
use etlink_model::{NodeIdx, TimeNs};
use etlink_replay::{LabelSource, PathCause, PathStep, ReplayGraph, ReplayRun};
use serde::Serialize;

/// Length of merged steps, at most this multiple of the limit for a short step.
const TOGETHER: i64 = 8;

/// Steps of the path as columns; if there are too many, short neighbours are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PathColumns {
    /// Place of the step's range among the drawn ranges; -1 = none.
    range: Vec<i64>,
    name: Vec<u32>,
    start: Vec<i64>,
    /// Duration in ns; for merged steps, from the first start to the last end.
    duration: Vec<i64>,
    /// Delay before the start, in ns.
    delay: Vec<i64>,
    /// Cause of the duration; for merged steps, of the longest step.
    cause: Vec<u32>,
    delay_cause: Vec<u32>,
    via: Vec<u32>,
    /// Number of merged steps.
    count: Vec<u32>,
}

/// A replay run, and the labels of its nodes.
#[derive(Clone, Copy)]
pub(super) struct ReplayedRank<'t> {
    pub(super) graph: &'t ReplayGraph,
    pub(super) run: &'t ReplayRun,
    pub(super) labels: &'t dyn LabelSource,
}

/// One step or several merged ones.
#[derive(Clone, Copy)]
struct PathPiece {
    step: PathStep,
    /// Node of the longest step.
    longest: NodeIdx,
    start: TimeNs,
    end: TimeNs,
    count: u32,
}

/// Returns the steps of the critical path that overlap a window.
pub(super) fn path_in_window(
    run: &ReplayRun,
    path: &[PathStep],
    window: &TimelineWindow,
) -> Vec<PathStep> {
    let inside = |step: &&PathStep| {
        run.start[step.node.index()] < window.end && run.end(step.node) > window.start
    };
    path.iter().filter(inside).copied().collect()
}

impl PathColumns {
    /// Creates columns of at most `most` entries. `range` returns a step's place among the drawn
    /// ranges.
    pub(super) fn new(
        ran: ReplayedRank<'_>,
        steps: &[PathStep],
        (origin, most): (TimeNs, usize),
        range: impl Fn(&PathStep) -> Option<u32>,
        strings: &mut StringTable,
    ) -> PathColumns {
        let mut path = PathColumns::default();
        for piece in path_pieces(ran.run, steps, most) {
            let [cause, delay_cause] = piece.step.causes(ran.graph).map(PathCause::name);
            let one = piece.count == 1;
            // The longest of the merged steps names the cause; a mixture would have no name.
            let [longest, _] = PathStep {
                node: piece.longest,
                ..piece.step
            }
            .causes(ran.graph)
            .map(PathCause::name);
            path.range.push(match range(&piece.step) {
                Some(range) if one => i64::from(range),
                _ => -1,
            });
            path.name.push(if one {
                strings.number_of(ran.labels.name(piece.step.node))
            } else {
                0
            });
            path.start.push(piece.start.since(origin));
            path.duration.push((piece.end - piece.start).0);
            path.delay.push(piece.step.latency_ns.0);
            path.cause
                .push(strings.number_of(if one { cause } else { longest }));
            path.delay_cause.push(strings.number_of(delay_cause));
            path.via.push(strings.number_of(piece.step.via.name()));
            path.count.push(piece.count);
        }
        path
    }
}

/// Merges short neighbours until there are at most `most` pieces. The limit for a short piece is
/// the least sufficient power of two.
fn path_pieces(run: &ReplayRun, steps: &[PathStep], most: usize) -> Vec<PathPiece> {
    let piece = |step: &PathStep| PathPiece {
        step: *step,
        longest: step.node,
        start: run.start[step.node.index()],
        end: run.end(step.node),
        count: 1,
    };
    let all: Vec<PathPiece> = steps.iter().map(piece).collect();
    // Few steps are shorter than 256 ns: smaller limits would only cost passes.
    let limits = (8..62).map(|power| 1i64 << power);
    let joined = limits.map(|limit| join_short_pieces(run, &all, limit));
    if all.len() <= most {
        all
    } else {
        joined
            .into_iter()
            .find(|joined| joined.len() <= most.max(1))
            .unwrap_or_default()
    }
}

fn join_short_pieces(run: &ReplayRun, all: &[PathPiece], limit: i64) -> Vec<PathPiece> {
    let mut joined: Vec<PathPiece> = vec![];
    for piece in all {
        let is_short = |piece: &PathPiece| {
            // A merged piece stays open for the next one; the bound on its length below ends it.
            piece.count > 1
                || (piece.end - piece.start)
                    .0
                    .saturating_add(piece.step.latency_ns.0.max(0))
                    < limit
        };
        let fits = |before: &PathPiece| {
            is_short(before)
                && is_short(piece)
                && (piece.end - before.start).0 < limit.saturating_mul(TOGETHER)
        };
        match joined.last_mut().filter(|before| fits(before)) {
            Some(before) => {
                let longer =
                    run.duration[piece.longest.index()] > run.duration[before.longest.index()];
                before.longest = if longer {
                    piece.longest
                } else {
                    before.longest
                };
                (before.end, before.count) = (before.end.max(piece.end), before.count + 1);
            }
            None => joined.push(*piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::DurationNs;
    use etlink_replay::StartReason;

    #[test]
    fn a_long_path_is_joined_where_it_is_short() {
        // 100 steps of 10 ns, one after the other, then one of 1 ms
        let mut run = ReplayRun {
            start: (0..100).map(|at| TimeNs(at * 10)).collect(),
            duration: vec![DurationNs(10); 100],
            ..ReplayRun::default()
        };
        run.start.push(TimeNs(1_000));
        run.duration.push(DurationNs(1_000_000));
        let steps: Vec<PathStep> = (0..101)
            .map(|node| PathStep {
                node: NodeIdx(node),
                via: StartReason::Start,
                latency_ns: DurationNs(0),
            })
            .collect();
        assert_eq!(path_pieces(&run, &steps, 101).len(), 101);
        let joined = path_pieces(&run, &steps, 3);
        assert_eq!(
            joined
                .iter()
                .map(|piece| (piece.start.0, piece.end.0, piece.count))
                .collect::<Vec<_>>(),
            [(0, 1_000, 100), (1_000, 1_001_000, 1)]
        );
        assert_eq!(path_pieces(&run, &steps, 1).len(), 1, "as few as asked for");
    }
}
