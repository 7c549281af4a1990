//! Recorded dependencies between the nodes of a CUDA graph.
//!
//! PyTorch's own CUPTI collector (2.15) draws each as an arrow from the end of the cause to the start
//! of the effect: `_graph_dependency_flow_events` in `torch/profiler/_cuspy/trace.py`. An arrow says
//! device, lane and time, and no row. The lane is the stream, unless `original_stream` of the row
//! says that the row was moved to a lane for display.

use crate::event::{FIRST_DEPENDENCY, KinetoEvent, int};
use etlink_json::JsonValue;
use etlink_model::{
    AnomalyKind, DeviceQueue, DeviceTrace, DurationNs, GraphDependency, KeptTime, RowIdx, TimeNs,
};
use rustc_hash::FxHashMap;

/// Start and length of a row are written as floating-point microseconds, each rounded by itself, and
/// so is the arrow's time.
const ROUNDING: i64 = 2;

/// More rows than this at one time and place are damage, and not looked through.
const MOST_ROWS: usize = 64;

/// Where an arrow begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrowEnd {
    device: i64,
    lane: i64,
    time: TimeNs,
}

/// A row that is shown on a lane that is not its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MovedRow {
    device: i64,
    stream: i64,
    start: TimeNs,
    duration: DurationNs,
}

/// The arrows of a file, until its rows are known.
#[derive(Debug, Default)]
pub(crate) struct DependencyArrows {
    /// Beginnings, with the arrow's id.
    causes: Vec<(i64, ArrowEnd)>,
    effects: Vec<(i64, ArrowEnd)>,
    /// The lane of each row that was moved.
    lanes: FxHashMap<MovedRow, i64>,
}

impl DependencyArrows {
    /// Keeps an end of an arrow. One without a place or time says nothing.
    pub(crate) fn push_arrow(&mut self, event: &KinetoEvent<'_>) {
        let time = event.start.and_then(JsonValue::time_ns);
        let place = (int(event.id), int(event.pid), int(event.tid), time);
        let (Some(id), Some(device), Some(lane), Some(time)) = place else {
            return;
        };
        // The reader leaves other arrows early, with what it has of them.
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

    /// Keeps the lane of a row that was moved.
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

    /// Appends those of the next part of the file, and empties it.
    pub(crate) fn append(&mut self, part: &mut DependencyArrows) {
        self.causes.append(&mut part.causes);
        self.effects.append(&mut part.effects);
        self.lanes.extend(part.lanes.drain());
    }

    /// Keeps the arrows that end in a stretch of time.
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
        // PyTorch gives each arrow an id of its own. A file that repeats one would make pairs of
        // all with all.
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

    /// Where rows of graphs start and where they end, in order of place and time.
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

/// The rows that start, or end, where an arrow does.
fn near(rows: &RowEnds, place: ArrowEnd) -> &[(ArrowEnd, RowIdx)] {
    let at = |shift: i64| ArrowEnd {
        time: TimeNs(place.time.0.saturating_add(shift)),
        ..place
    };
    let first = rows.partition_point(|(end, _)| *end < at(-ROUNDING));
    let behind = rows.partition_point(|(end, _)| *end <= at(ROUNDING));
    &rows[first..behind.min(first + MOST_ROWS)]
}

/// The first cause and effect of one launch: arrows never lead from one to another.
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
