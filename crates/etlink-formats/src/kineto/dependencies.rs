//! Resolves recorded dependencies between the nodes of a CUDA graph.
//!
//! PyTorch's own CUPTI collector (2.15) draws each dependency as an arrow from the end of the cause
//! to the start of the effect: `_graph_dependency_flow_events` in `torch/profiler/_cuspy/trace.py`.
//! An arrow names a device, a lane and a time, but no row. The lane is the stream, unless
//! `original_stream` of the row shows that the row was moved to another lane for display.

use crate::kineto::event::{FIRST_DEPENDENCY, KinetoEvent, int};
use etlink_json::JsonValue;
use etlink_model::{
    AnomalyKind, DeviceQueue, DeviceTrace, DurationNs, GraphDependency, KeptTime, RowIdx, TimeNs,
};
use rustc_hash::FxHashMap;

/// Tolerance in nanoseconds: start and length of a row, and the arrow's time, are floating-point
/// microseconds that are rounded independently.
const ROUNDING: i64 = 2;

/// Rows searched at one time and place; more than that is damage.
const MOST_ROWS: usize = 64;

/// Start or end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrowEnd {
    device: i64,
    lane: i64,
    time: TimeNs,
}

/// Row displayed on a lane that is not its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MovedRow {
    device: i64,
    stream: i64,
    start: TimeNs,
    duration: DurationNs,
}

/// Arrows of a file, kept until the rows are known.
#[derive(Debug, Default)]
pub(crate) struct DependencyArrows {
    /// Starts of arrows, with the arrow's id.
    causes: Vec<(i64, ArrowEnd)>,
    effects: Vec<(i64, ArrowEnd)>,
    /// Lane of each moved row.
    lanes: FxHashMap<MovedRow, i64>,
}

impl DependencyArrows {
    /// Keeps one end of an arrow. An end without a place or time is ignored.
    pub(crate) fn push_arrow(&mut self, event: &KinetoEvent<'_>) {
        let time = event.start.and_then(JsonValue::time_ns);
        let place = (int(event.id), int(event.pid), int(event.tid), time);
        let (Some(id), Some(device), Some(lane), Some(time)) = place else {
            return;
        };
        // The reader skips other arrows early, with only part of their fields read.
        if id < FIRST_DEPENDENCY {
            return;
        }
        let end = ArrowEnd {
            device,
            lane,
            time: TimeNs(time),
        };
        match event.phase {
            b"s" => self.causes.push((id, end)),
            _ => self.effects.push((id, end)),
        }
    }

    /// Keeps the lane of a moved row.
    pub(crate) fn push_moved(
        &mut self,
        queue: DeviceQueue,
        lane: i64,
        (start, duration): (TimeNs, DurationNs),
    ) {
        let row = MovedRow {
            device: queue.device,
            stream: queue.stream,
            start,
            duration,
        };
        self.lanes.insert(row, lane);
    }

    /// Appends the arrows of the next part of the file, and empties that part.
    pub(crate) fn append(&mut self, part: &mut DependencyArrows) {
        self.causes.append(&mut part.causes);
        self.effects.append(&mut part.effects);
        self.lanes.extend(part.lanes.drain());
    }

    /// Keeps only the arrows that end in a time range.
    pub(crate) fn keep(&mut self, time: KeptTime) {
        let is_kept = |end: &ArrowEnd| time.has(end.time, DurationNs(0));
        self.causes.retain(|(_, end)| is_kept(end));
        self.effects.retain(|(_, end)| is_kept(end));
        self.lanes
            .retain(|row, _| time.has(row.start, row.duration));
    }

    /// Finds the rows of all arrows. O((rows + arrows) log rows).
    pub(crate) fn resolve(mut self, trace: &mut DeviceTrace) {
        if self.causes.is_empty() && self.effects.is_empty() {
            return;
        }
        self.causes.sort_unstable();
        self.effects.sort_unstable();
        // PyTorch gives each arrow its own id. A file that repeats an id would otherwise pair
        // everything with everything.
        self.causes.dedup_by_key(|(id, _)| *id);
        self.effects.dedup_by_key(|(id, _)| *id);
        let (starts, ends) = self.row_ends(trace);
        let mut found = vec![];
        let mut lost = 0;
        for (id, cause) in &self.causes {
            let effect = self.effects.binary_search_by_key(id, |(other, _)| *other);
            let effect = effect.ok().map(|at| self.effects[at].1);
            let pair = effect
                .and_then(|effect| joined_rows(trace, near(&ends, *cause), near(&starts, effect)));
            lost += u64::from(pair.is_none());
            found.extend(pair);
        }
        found.sort_unstable_by_key(|pair| (pair.effect, pair.cause));
        found.dedup();
        found
            .into_iter()
            .for_each(|pair| trace.graph_dependencies.push(pair));
        let anomalies = &mut trace.anomalies;
        anomalies.add(AnomalyKind::GraphDependencyLost, lost, None);
    }

    /// Returns starts and ends of graph rows, each sorted by place and time.
    fn row_ends(&self, trace: &DeviceTrace) -> (RowEnds, RowEnds) {
        let rows = &trace.rows;
        let (mut starts, mut ends) = (vec![], vec![]);
        let of_graphs = (0..rows.len()).filter(|row| rows.graph_node[*row] != 0);
        for row in of_graphs {
            let queue = trace.queues[rows.queue[row].index()];
            let (start, duration) = (rows.start[row], rows.duration[row]);
            let moved = MovedRow {
                device: queue.device,
                stream: queue.stream,
                start,
                duration,
            };
            let lane = self.lanes.get(&moved).copied();
            let place = |time: TimeNs| ArrowEnd {
                device: queue.device,
                lane: lane.unwrap_or(queue.stream),
                time,
            };
            starts.push((place(start), RowIdx::new(row)));
            ends.push((place(start + duration), RowIdx::new(row)));
        }
        starts.sort_unstable();
        ends.sort_unstable();
        (starts, ends)
    }
}

type RowEnds = Vec<(ArrowEnd, RowIdx)>;

/// Returns the rows that start, or end, at the place of an arrow.
fn near(rows: &RowEnds, place: ArrowEnd) -> &[(ArrowEnd, RowIdx)] {
    let at = |shift: i64| ArrowEnd {
        time: TimeNs(place.time.0.saturating_add(shift)),
        ..place
    };
    let first = rows.partition_point(|(end, _)| *end < at(-ROUNDING));
    let behind = rows.partition_point(|(end, _)| *end <= at(ROUNDING));
    &rows[first..behind.min(first + MOST_ROWS)]
}

/// Returns the first cause and effect of one launch; arrows never connect different launches.
fn joined_rows(
    trace: &DeviceTrace,
    causes: &[(ArrowEnd, RowIdx)],
    effects: &[(ArrowEnd, RowIdx)],
) -> Option<GraphDependency> {
    let launch = |row: RowIdx| trace.rows.correlation[row.index()];
    for (_, effect) in effects {
        let mut others = causes.iter().filter(|(_, cause)| cause != effect);
        if let Some((_, cause)) = others.find(|(_, cause)| launch(*cause) == launch(*effect)) {
            return Some(GraphDependency {
                effect: *effect,
                cause: *cause,
            });
        }
    }
    None
}
