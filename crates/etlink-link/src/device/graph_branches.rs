//! Waits of a graph launch's rows for rows on other streams.
//!
//! ```text
//! stream 7    ==a==        ==b=========          ==d==
//! stream 13         ==c==
//!                   fork a -> c       join c -> d
//! ```
//! A graph (`cudaGraphLaunch`) contains its dependencies, but the trace has only its rows. A branch
//! begins when the row it forks from has ended. It joins at the latest before the graph continues
//! on its own stream, and certainly before the next launch to that stream. All these waits are
//! inferred, unless the trace has the graph's own dependencies: see [`recorded_waits`].

use crate::device::lanes::Lanes;
use crate::device::{RowWait, row_end, row_name};
use crate::limits::{WAIT_LATENCY, ends_before};
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, DeviceTrace, DurationNs, GraphDependency, QueueIdx, RowIdx,
};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Extra time, beyond the usual gap between rows of a graph on one stream, that shows a wait for
/// another branch.
const LATE_MARGIN: DurationNs = DurationNs(2_000);

/// Returns waits for rows of other streams that the trace records as dependencies of a graph's
/// nodes. Waits that the measured times contradict are left out and counted. O(dependencies).
pub(crate) fn recorded_waits(device: &DeviceTrace, anomalies: &mut Anomalies) -> Vec<RowWait> {
    let (rows, recorded) = (&device.rows, &device.graph_dependencies);
    let mut waits = vec![];
    for at in 0..recorded.len() {
        let GraphDependency { effect, cause } = recorded.row(at);
        // The order of the stream implies this wait.
        if rows.queue[effect.index()] == rows.queue[cause.index()] {
            continue;
        }
        if ends_before(row_end(device, cause), rows.start[effect.index()]) {
            waits.push(RowWait {
                to: effect,
                from: cause,
                inferred: false,
            });
        } else {
            anomalies.note(AnomalyKind::WaitContradicted, || row_name(device, effect));
        }
    }
    waits
}

/// Rows of graphs whose dependencies the trace has.
struct RecordedNodes {
    /// Rows that another row depends on.
    causes: FxHashSet<RowIdx>,
    effects: FxHashSet<RowIdx>,
}

impl RecordedNodes {
    fn new(device: &DeviceTrace) -> RecordedNodes {
        let recorded = &device.graph_dependencies;
        RecordedNodes {
            causes: recorded.cause.iter().copied().collect(),
            effects: recorded.effect.iter().copied().collect(),
        }
    }

    fn has(&self, row: RowIdx) -> bool {
        self.causes.contains(&row) || self.effects.contains(&row)
    }
}

/// Finds unrecorded waits between the branches of graph launches. O(rows log rows).
pub(crate) fn branch_waits(device: &DeviceTrace, lanes: &Lanes) -> Vec<RowWait> {
    let mut waits = vec![];
    let recorded = RecordedNodes::new(device);
    for rows in lanes.by_call.chunk_by(|one, next| one.0 == next.0) {
        let queue = device.rows.queue[rows[0].1.index()];
        let is_branched = |(_, row): &(CallIdx, RowIdx)| device.rows.queue[row.index()] != queue;
        if rows.iter().any(is_branched) {
            let rows: Vec<RowIdx> = rows.iter().map(|(_, row)| *row).collect();
            let is_recorded = rows.iter().any(|row| recorded.has(*row));
            let launch = GraphLaunch::new(device, rows);
            if is_recorded {
                launch.add_recorded_joins(lanes, &recorded, &mut waits);
            } else {
                launch.add_waits(lanes, &mut waits);
            }
        }
    }
    waits
}

/// Rows of one launch, by start, on several streams of a device.
struct GraphLaunch<'t> {
    device: &'t DeviceTrace,
    rows: Vec<RowIdx>,
    by_end: Vec<RowIdx>,
    /// Stream with most of the rows.
    main: QueueIdx,
    main_rows: Vec<RowIdx>,
    /// Usual gap between consecutive rows of a stream.
    usual_gap: DurationNs,
}

impl<'t> GraphLaunch<'t> {
    fn new(device: &'t DeviceTrace, rows: Vec<RowIdx>) -> GraphLaunch<'t> {
        let mut by_end = rows.clone();
        by_end.sort_by_key(|row| (row_end(device, *row), *row));
        let mut last: BTreeMap<QueueIdx, (RowIdx, usize)> = BTreeMap::new();
        let mut gaps = vec![];
        for row in &rows {
            let entry = last
                .entry(device.rows.queue[row.index()])
                .and_modify(|(before, _)| {
                    gaps.push(device.rows.start[row.index()] - row_end(device, *before));
                })
                .or_insert((*row, 0));
            *entry = (*row, entry.1 + 1);
        }
        // Of equals, the stream that begins first: most graphs are launched to it.
        let first = rows.first().map(|row| device.rows.queue[row.index()]);
        let most = last
            .iter()
            .max_by_key(|(queue, (_, count))| (*count, Some(**queue) == first));
        let main = most.map_or(QueueIdx(0), |(queue, _)| *queue);
        let of_main = rows.iter().copied();
        let main_rows = of_main.filter(|row| device.rows.queue[row.index()] == main);
        let main_rows = main_rows.collect();
        gaps.sort_unstable();
        let usual_gap = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
        GraphLaunch {
            device,
            rows,
            by_end,
            main,
            main_rows,
            usual_gap,
        }
    }

    fn queue(&self, row: RowIdx) -> QueueIdx {
        self.device.rows.queue[row.index()]
    }

    fn add_waits(&self, lanes: &Lanes, waits: &mut Vec<RowWait>) {
        let rows = &self.device.rows;
        let mut before: BTreeMap<QueueIdx, RowIdx> = BTreeMap::new();
        let mut joined: FxHashSet<RowIdx> = FxHashSet::default();
        let mut ended = LastEnded::default();
        let mut by_end = self.by_end.iter().copied().peekable();
        for &row in &self.rows {
            let start = rows.start[row.index()];
            // Both times use the device's clock.
            while let Some(other) = by_end.next_if(|other| row_end(self.device, *other) <= start) {
                ended.add(self.queue(other), other);
            }
            let previous = before.insert(self.queue(row), row);
            let Some(from) = ended.elsewhere(self.queue(row)) else {
                continue;
            };
            let late = start - row_end(self.device, from);
            let waited = match previous {
                // The first row of a branch has no other cause to begin.
                None => late <= WAIT_LATENCY,
                Some(previous) => {
                    let end = row_end(self.device, previous);
                    end < row_end(self.device, from)
                        && start - end > self.usual_gap + LATE_MARGIN
                        && late <= self.usual_gap + LATE_MARGIN
                }
            };
            if waited {
                joined.insert(from);
                waits.push(inferred_wait(row, from));
            }
        }
        for (queue, last) in before {
            if queue != self.main && !joined.contains(&last) {
                self.add_last_join(lanes, last, waits);
            }
        }
    }

    /// Adds waits for branches that no node of the graph depends on. The launch is done when they
    /// are, so the stream it was launched to continues after them.
    fn add_recorded_joins(
        &self,
        lanes: &Lanes,
        recorded: &RecordedNodes,
        waits: &mut Vec<RowWait>,
    ) {
        let mut last: BTreeMap<QueueIdx, RowIdx> = BTreeMap::new();
        for row in &self.rows {
            last.insert(self.queue(*row), *row);
        }
        for (queue, row) in last {
            if queue != self.main && !recorded.causes.contains(&row) {
                waits.extend(self.join_after_launch(lanes, row));
            }
        }
    }

    /// Makes the next launch to the main stream wait for row `last`.
    fn join_after_launch(&self, lanes: &Lanes, last: RowIdx) -> Option<RowWait> {
        let next = lanes.first_after(self.main, lanes.launched(last))?;
        let is_behind = row_end(self.device, last) <= self.device.rows.start[next.index()];
        is_behind.then(|| inferred_wait(next, last))
    }

    /// Adds the join of a branch that no row is known to wait for: the main stream continues after
    /// it.
    fn add_last_join(&self, lanes: &Lanes, last: RowIdx, waits: &mut Vec<RowWait>) {
        let rows = &self.device.rows;
        let end = row_end(self.device, last);
        let follows = |row: &RowIdx| end <= rows.start[row.index()] && *row != last;
        let begun = self
            .main_rows
            .partition_point(|row| rows.start[row.index()] < end);
        let within = self.main_rows.get(begun).copied().filter(follows);
        let within = within.map(|row| inferred_wait(row, last));
        waits.extend(within.or_else(|| self.join_after_launch(lanes, last)));
    }
}

/// Last of the rows added so far, by end, and the last one on another stream than that.
#[derive(Default)]
struct LastEnded {
    last: Option<(QueueIdx, RowIdx)>,
    other: Option<(QueueIdx, RowIdx)>,
}

impl LastEnded {
    fn add(&mut self, queue: QueueIdx, row: RowIdx) {
        if self.last.is_some_and(|(last, _)| last != queue) {
            self.other = self.last;
        }
        self.last = Some((queue, row));
    }

    /// Returns the row that ended last on another stream than `own`.
    fn elsewhere(&self, own: QueueIdx) -> Option<RowIdx> {
        let mut ended = [self.last, self.other].into_iter().flatten();
        let found = ended.find(|(queue, _)| *queue != own);
        found.map(|(_, row)| row)
    }
}

fn inferred_wait(to: RowIdx, from: RowIdx) -> RowWait {
    RowWait {
        to,
        from,
        inferred: true,
    }
}
