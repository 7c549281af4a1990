//! Tests of single parts of the graph.

use super::*;
use crate::device::CallWait;
use crate::graph::testing::{slices, slot};
use etlink_model::{CallIdx, CpuOp, DeviceRow, HostThread, RuntimeCall, TrackLabel};

/// Inputs of a graph, except its draft.
#[derive(Default)]
struct Parts {
    device: DeviceTrace,
    launches: Launches,
    waits: Waits,
    anomalies: Anomalies,
}

impl Parts {
    fn graph(&mut self, draft: Draft, call_slot: Vec<SlotIdx>) -> Graph<'_> {
        Graph {
            device: &self.device,
            launches: &self.launches,
            earlier: EarlierWork::default(),
            waits: &self.waits,
            draft,
            call_slot,
            waiting: vec![],
            row_slot: vec![],
            latest_place: FxHashMap::default(),
            edges: vec![],
            anomalies: &mut self.anomalies,
        }
    }

    fn op(&mut self, thread: u32, start: i64, end: i64) -> OpIdx {
        self.device.ops.push(CpuOp {
            thread: ThreadIdx(thread),
            start: TimeNs(start),
            duration: DurationNs(end - start),
            ..CpuOp::default()
        });
        OpIdx::new(self.device.ops.len() - 1)
    }

    /// Adds a call, and a row launched by it.
    fn launch(&mut self, call: (i64, i64), row: (i64, i64)) {
        self.device.calls.push(RuntimeCall {
            start: TimeNs(call.0),
            duration: DurationNs(call.1 - call.0),
            ..RuntimeCall::default()
        });
        self.device.rows.push(DeviceRow {
            start: TimeNs(row.0),
            duration: DurationNs(row.1 - row.0),
            ..DeviceRow::default()
        });
        self.launches.row_call.push(CallIdx(0));
        self.launches.no_launch.push(NoLaunch::Launched);
    }
}

fn edges(graph: &Graph<'_>) -> Vec<(EdgeKind, SlotIdx, SlotIdx)> {
    let edges = graph.edges.iter();
    edges.map(|edge| (edge.kind, edge.from, edge.to)).collect()
}

/// Two threads with slices at 0, 100 and 200: slots 1 to 3 and 6 to 8. The boundaries are slots 0
/// and 5.
fn two_threads() -> Draft {
    let mut draft = slices(NodeKind::HostOp, &[&[0, 100, 200, 300][..]; 2], 0);
    draft.add_boundaries(TimeNs(0));
    draft
}

#[test]
fn of_causes_that_end_together_the_first_says_how_late_is_late() {
    let mut causes = Causes::default();
    causes.add(TimeNs(100), LAUNCH_LATENCY);
    causes.add(TimeNs(100), WAIT_LATENCY);
    let delay = |after: DurationNs| causes.delay(TimeNs(100) + after, TimeNs(0), false);
    assert_eq!(delay(LAUNCH_LATENCY), None);
    let late = (NodeKind::UnexplainedWait, TimeNs(100));
    assert_eq!(delay(LAUNCH_LATENCY + DurationNs(1)), Some(late));
}

/// A thread whose first slice begins at 100 continues after a wait; its boundary begins at 50.
#[test]
fn a_thread_lived_before_unless_its_first_wait_took_no_time() {
    for (start, end, to, boundary) in [
        (100, 100, 4, 100),
        (60, 100, 5, 50),
        // within another wait that ends at 100
        (80, 80, 5, 50),
    ] {
        let mut parts = Parts::default();
        let mut draft = slices(NodeKind::HostOp, &[&[100, 200, 300][..]; 2], 0);
        draft.add_boundaries(TimeNs(50));
        let mut graph = parts.graph(draft, vec![]);
        let wait = |thread, after, start, end| RecordedWait {
            thread: ThreadIdx(thread),
            start: TimeNs(start),
            end: TimeNs(end),
            after,
            is_release: after.is_none(),
        };
        graph.add_recorded_waits(BetweenThreads {
            handoffs: &[],
            recorded: &[wait(0, None, 90, 90), wait(1, Some(0), start, end)],
            release_slot: &[Some(slot(1)), None],
            tensors: &[],
        });
        assert_eq!(edges(&graph), [(EdgeKind::Handoff, slot(1), slot(to))]);
        assert_eq!(graph.draft.place(slot(4)), TimeNs(boundary), "{start}");
    }
}

#[test]
fn a_tensor_makes_one_edge_from_the_end_of_who_wrote_it() {
    let mut parts = Parts::default();
    let pair = (parts.op(1, 100, 200), parts.op(0, 0, 100));
    let mut graph = parts.graph(two_threads(), vec![]);
    graph.add_tensors(&[pair, pair]);
    assert_eq!(edges(&graph), [(EdgeKind::Tensor, slot(1), slot(7))]);
    assert_eq!(parts.anomalies.count(AnomalyKind::TensorContradicted), 0);
}

#[test]
fn a_tensor_makes_no_edge_where_an_earlier_slice_follows_what_came_later() {
    let mut parts = Parts::default();
    let pair = (parts.op(1, 200, 300), parts.op(0, 100, 200));
    let mut graph = parts.graph(two_threads(), vec![]);
    let known = [(slot(3), slot(6)), (slot(1), slot(7))];
    for (from, to) in known {
        graph.edge(EdgeKind::Handoff, from, to);
    }
    graph.add_tensors(&[pair]);
    assert_eq!(graph.edges.len(), 2);
}

/// A call from 0 to 100 waits for a row that begins at 50.
#[test]
fn a_call_goes_on_behind_the_start_of_its_row_and_when_it_is_released() {
    for (row_end, released, goes_on) in [(50, None, 51), (60, None, 60), (60, Some(80), 80)] {
        let mut parts = Parts::default();
        parts.launch((0, 100), (50, row_end));
        parts.waits.calls.push(CallWait {
            to: CallIdx(0),
            from: RowIdx(0),
            inferred: false,
        });
        let released = released.map(|at| (CallIdx(0), TimeNs(at)));
        parts.waits.released.extend(released);
        let draft = slices(NodeKind::Runtime, &[&[0, 100]], 1);
        let mut graph = parts.graph(draft, vec![slot(1)]);
        graph.place_host_waits();
        assert_eq!(graph.waiting, [Some(slot(1))]);
        assert_eq!(graph.draft.place(slot(1)), TimeNs(goes_on));
    }
}

/// An op up to 1 us, followed by a call of 200 us, or of 30 us whose row waits for others of its
/// stream.
#[test]
fn a_call_that_takes_long_has_launched_by_its_end_or_takes_its_time() {
    let (begun, ended, short) = (1_000, 201_000, 31_000);
    for (ended, row, slots, end, limit) in [
        (ended, ended, 2, ended, LAUNCH_LATENCY),
        (ended, ended - WAIT_LATENCY.0, 2, ended, LAUNCH_LATENCY),
        (
            ended,
            ended - WAIT_LATENCY.0 - 1,
            1,
            begun,
            DurationNs(200_000),
        ),
        (short, ended, 1, begun, LAUNCH_LATENCY),
    ] {
        let mut parts = Parts::default();
        parts.launch((begun, ended), (row, row + 10));
        let draft = slices(NodeKind::Runtime, &[&[0, begun, ended]], 1);
        let mut graph = parts.graph(draft, vec![slot(2)]);
        let launch = graph.launch_of(RowIdx(0)).expect("a launch");
        let told = (launch.slot, launch.end, launch.limit);
        assert_eq!(told, (slot(slots), TimeNs(end), limit));
    }
}

#[test]
fn a_node_does_not_wait_for_itself() {
    let mut parts = Parts::default();
    for tid in [1, 2].map(TrackLabel::Int) {
        let pid = TrackLabel::Int(1);
        parts.device.threads.push(HostThread { pid, tid });
    }
    let mut graph = parts.graph(two_threads(), vec![]);
    graph.edge(EdgeKind::Handoff, slot(2), slot(2));
    let (_, edges) = graph.finish(&[]);
    assert!(
        edges
            .kinds()
            .iter()
            .all(|kind| *kind == EdgeKind::ProgramOrder)
    );
    assert_eq!(parts.anomalies.count(AnomalyKind::WaitContradicted), 1);
}

/// Indexes of the predecessors of each row of a queue, given by start and end.
fn followed(rows: &[(i64, i64)]) -> Vec<Vec<usize>> {
    let mut order = QueueOrder::default();
    let mut all = vec![];
    for (number, &(start, end)) in rows.iter().enumerate() {
        let (start, end) = (TimeNs(start), TimeNs(end));
        let ended = order.ended_by(start);
        let mut slots: Vec<usize> = ended.iter().map(|row| row.slot.index()).collect();
        slots.sort_unstable();
        all.push(slots);
        let slot = slot(number);
        let row = RowIdx::new(number);
        let stretch = Stretch {
            end,
            start,
            slot,
            row,
        };
        order.push(stretch, ended);
    }
    all
}

#[test]
fn a_row_follows_those_that_ended_and_that_no_other_follows() {
    let us = ROUNDING.0;
    let none: Vec<usize> = vec![];
    // an overlap within rounding, and a longer one
    assert_eq!(
        followed(&[(0, 10 * us), (9 * us, 20 * us)]),
        [none.clone(), vec![0]]
    );
    assert_eq!(
        followed(&[(0, 10 * us + 1), (9 * us, 20 * us)]),
        [none.clone(), none.clone()]
    );
    // the second ended before the first, but did not precede it
    assert_eq!(
        followed(&[(0, 10 * us), (0, us / 2), (20 * us, 30 * us)])[2],
        [0, 1]
    );
    assert_eq!(
        followed(&[(0, 10 * us), (9 * us, 20 * us), (30 * us, 40 * us)])[2],
        [1]
    );
}
