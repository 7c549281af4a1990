//! Tests parts of drawn traces.

use super::*;
use crate::rank_agreement::HostTransfer;
use crate::tests::{TraceSketch, sample};
use crate::{CommDecision, RankAgreement};
use etlink_link::EdgeKind;
use etlink_model::{OpIdx, TrackIdx};

fn part_of<'t>(trace: &'t LinkedTrace, part: TracePart, serialize_comms: bool) -> PartGraph<'t> {
    PartGraph::of(
        trace,
        &GroupResolver::new(trace),
        &WriteOptions {
            part,
            serialize_comms,
            ..WriteOptions::default()
        },
    )
}

/// Returns, for each node, its name, start and duration in ns, and its deps.
fn told<'g>(
    trace: &'g LinkedTrace,
    graph: &'g PartGraph<'_>,
) -> Vec<(&'g str, i64, i64, Vec<u32>)> {
    let node = |at: NodeIdx| {
        let node = graph.nodes.get(at);
        let name = graph.standing_for(at).unwrap_or_else(|| trace.name(&node));
        (
            name,
            node.start.0,
            node.duration.0,
            graph
                .edges
                .deps(at)
                .iter()
                .map(|edge| edge.from.0)
                .collect(),
        )
    };
    graph.nodes.indices().map(node).collect()
}

#[test]
fn host_nodes_become_chains_between_what_launches() {
    let trace = sample(true);
    let graph = part_of(&trace, TracePart::Device, false);
    assert_eq!(
        told(&trace, &graph),
        [
            ("host", 0, 5_100, vec![]),
            // The launch call, the rest of the op, the gap, and the call of the collective: 2 000 +
            // 15 400 + 18 500 between + 9 400 + 1 600.
            ("host", 5_100, 46_900, vec![0]),
            ("gemm<float>", 9_000, 700, vec![0]),
            ("Memcpy DtoD", 9_800, 650, vec![2]),
            (
                "ncclDevKernel_AllReduce_Sum_f32",
                60_000,
                30_300,
                vec![1, 3, 3]
            ),
        ]
    );
    assert_eq!(graph.communications, [4].map(NodeIdx));
}

/// ```text
///            0    10   20   30   40   50   60   70   80
/// stream 7   gemm gemm gemm           gemm gemm
/// stream 20       all_reduce  =====|       all_reduce
/// thread     op ------------------------------------ op
/// ```
/// The gemm at 40 waits for the first all-reduce, whose last 10 are exposed.
fn overlapped() -> LinkedTrace {
    let mut b = TraceSketch::new();
    let op = b.op("train", 0, 90, None);
    let start = b.slice(NodeKind::HostOp, op.0, true, 0, 1);
    let mut rows = vec![];
    for (start, duration, comm) in [
        (1, 9, false),
        (10, 10, false),
        (10, 30, true),
        (20, 10, false),
        (40, 10, false),
        (50, 10, false),
        (50, 25, true),
    ] {
        let row = b.row(
            if comm {
                "ncclDevKernel_AllReduce"
            } else {
                "gemm"
            },
            start,
            duration,
            OpIdx::NONE,
            etlink_model::CallIdx::NONE,
        );
        if comm {
            b.trace.device.rows.collective[row.index()] = b.collective("allreduce", "Half", 64);
            rows.push(b.device_collective(row, start, duration));
        } else {
            rows.push(b.node(NodeKind::DeviceOp, row.0, start, duration));
        }
    }
    let end = b.slice(NodeKind::HostOp, op.0, false, 85, 5);
    b.edge(EdgeKind::ProgramOrder, start, end);
    b.edge(EdgeKind::Launch, start, rows[0]);
    for (from, to) in [(0, 1), (1, 3), (3, 4), (4, 5), (2, 6)] {
        b.edge(EdgeKind::StreamOrder, rows[from], rows[to]);
    }
    for (from, to) in [(0, 2), (2, 4), (4, 6)] {
        b.edge(EdgeKind::EventWait, rows[from], rows[to]);
    }
    b.done()
}

#[test]
fn computation_goes_on_beside_communications_that_nothing_waits_for() {
    let trace = overlapped();
    let graph = part_of(&trace, TracePart::Communication, false);
    assert_eq!(
        told(&trace, &graph),
        [
            ("compute", 0, 10, vec![]),
            ("ncclDevKernel_AllReduce", 10, 30, vec![0]),
            // Until the device had nothing else to do.
            ("compute", 10, 20, vec![0]),
            ("compute", 40, 10, vec![2, 1]),
            ("ncclDevKernel_AllReduce", 50, 25, vec![3, 1]),
            // Nothing waited for the second all-reduce.
            ("compute", 50, 40, vec![3]),
        ]
    );
    assert_eq!(graph.communications, [1, 4].map(NodeIdx));
    let serialize_comms = part_of(&trace, TracePart::Communication, true);
    assert_eq!(
        told(&trace, &serialize_comms)[4].3,
        [3],
        "whose turn it is says another"
    );
}

#[test]
fn a_trace_without_communications_is_its_time() {
    let trace = sample(true);
    let mut quiet = trace.clone();
    quiet
        .nodes
        .kind
        .iter_mut()
        .filter(|kind| **kind == NodeKind::Collective)
        .for_each(|kind| *kind = NodeKind::DeviceOp);
    assert_eq!(
        told(&quiet, &part_of(&quiet, TracePart::Communication, true)),
        [("compute", 0, 90_300, vec![])]
    );
    let empty = LinkedTrace::default();
    for part in [
        TracePart::Whole,
        TracePart::Device,
        TracePart::Communication,
    ] {
        assert_eq!(part_of(&empty, part, true).len(), 0);
    }
}

/// The second thread's gap overlaps the first thread's ops, and its op comes after them.
#[test]
fn a_gap_waits_instead_of_taking_the_time_of_others() {
    let mut b = TraceSketch::new();
    let ops = [0, 30, 95].map(|start| b.op("op", start, 10, None));
    let first = b.slice(NodeKind::HostOp, ops[0].0, true, 0, 30);
    let gap = b.slice(NodeKind::HostGap, u32::MAX, true, 5, 90);
    let second = b.slice(NodeKind::HostOp, ops[1].0, true, 30, 60);
    let last = b.slice(NodeKind::HostOp, ops[2].0, true, 95, 10);
    b.edge(EdgeKind::ProgramOrder, first, second);
    b.edge(EdgeKind::ProgramOrder, gap, last);
    let mut trace = b.done();
    trace.device.threads.push(trace.device.threads[0]);
    (
        trace.nodes.track[gap.index()],
        trace.nodes.track[last.index()],
    ) = (TrackIdx(1), TrackIdx(1));
    let graph = part_of(&trace, TracePart::Whole, true);
    assert_eq!(
        graph.takes.iter().map(|take| take.0).collect::<Vec<_>>(),
        [30, 5, 60, 10]
    );
    assert_eq!(
        told(&trace, &graph)[gap.index()],
        ("host gap", 90, 5, vec![second.0]),
        "what ended last before the gap does, and the rest"
    );
    assert!(
        part_of(&trace, TracePart::Whole, false).takes.is_empty(),
        "not unless one goes after the other"
    );
}

/// ```text
///           10    15      35         60   85      90
/// thread    call  op      wait . . . . . .  op
/// network   |waits for the last | network: 20   |
/// ```
/// The last rank arrives 30 after this one.
fn blocked() -> (LinkedTrace, [NodeIdx; 4]) {
    let mut b = TraceSketch::new();
    let ops =
        ["c10d::allreduce_", "aten::mul", "wait", "aten::add"].map(|name| b.op(name, 10, 5, None));
    b.trace.device.ops.collective[ops[0].index()] = b.collective("allreduce", "Half", 64);
    let nodes = [
        b.node(NodeKind::Collective, ops[0].0, 10, 5),
        b.node(NodeKind::HostOp, ops[1].0, 15, 20),
        b.node(NodeKind::HostOp, ops[2].0, 35, 50),
        b.node(NodeKind::HostOp, ops[3].0, 85, 5),
    ];
    for pair in nodes.windows(2) {
        b.edge(EdgeKind::ProgramOrder, pair[0], pair[1]);
    }
    (b.done(), nodes)
}

fn agreed(node: NodeIdx, carrier: NodeIdx, network: Option<i64>) -> RankAgreement {
    let runs = CommDecision::Communication {
        group: Some(1),
        bytes: 128,
    };
    RankAgreement {
        decisions: vec![(node, runs)],
        host_transfers: vec![HostTransfer {
            node,
            carrier,
            until_last: DurationNs(30),
            network: network.map(DurationNs),
        }],
        ..RankAgreement::default()
    }
}

fn simulated<'t>(
    trace: &'t LinkedTrace,
    agreement: &RankAgreement,
    part: TracePart,
) -> PartGraph<'t> {
    let options = WriteOptions {
        part,
        agreement: Some(agreement),
        serialize_comms: true,
        ..WriteOptions::default()
    };
    PartGraph::of(trace, &GroupResolver::new(trace), &options)
}

#[test]
fn a_blocked_thread_waits_for_the_network_and_keeps_what_it_does_not_take() {
    let (trace, [call, _, wait, _]) = blocked();
    for (network, rest) in [(None, 0), (Some(20), 25), (Some(500), 0), (Some(0), 45)] {
        let graph = simulated(&trace, &agreed(call, wait, network), TracePart::Whole);
        assert_eq!(
            told(&trace, &graph),
            [
                ("c10d::allreduce_", 10, 5, vec![]),
                ("c10d::allreduce_", 10, 75 - rest, vec![]),
                ("aten::mul", 15, 20, vec![0]),
                ("wait", 85 - rest, rest, vec![2, 1]),
                ("aten::add", 85, 5, vec![3]),
            ],
            "network {network:?}"
        );
        assert_eq!(graph.communications, [NodeIdx(1)], "the call is the host's");
        // A simulator's host works for 5 + 20 + 5 and the rest, and stands still meanwhile.
        let takes: Vec<i64> = graph.takes.iter().map(|take| take.0).collect();
        assert_eq!(takes, [5, 75 - rest, 20, rest, 5]);
    }
}

#[test]
fn of_a_worker_s_range_the_rest_is_a_node_after_it() {
    let (mut trace, [call, _, _, _]) = blocked();
    trace.nodes.duration[call.index()] = DurationNs(60);
    let graph = simulated(&trace, &agreed(call, call, Some(20)), TracePart::Whole);
    assert_eq!(
        told(&trace, &graph)[..3],
        [
            ("c10d::allreduce_", 10, 50, vec![]),
            ("c10d::allreduce_", 60, 10, vec![0]),
            ("aten::mul", 15, 20, vec![1]),
        ]
    );
    assert_eq!(graph.communications, [NodeIdx(0)]);
}

#[test]
fn who_begins_later_has_a_node_for_it() {
    let (trace, [call, _, wait, _]) = blocked();
    let agreement = RankAgreement {
        begins_later: DurationNs(7),
        ..agreed(call, wait, Some(20))
    };
    let graph = simulated(&trace, &agreement, TracePart::Whole);
    assert_eq!(
        told(&trace, &graph)[..3],
        [
            ("begins later", 3, 7, vec![]),
            ("c10d::allreduce_", 10, 5, vec![0]),
            ("c10d::allreduce_", 10, 50, vec![0]),
        ]
    );
    let graph = simulated(&trace, &agreement, TracePart::Communication);
    assert_eq!(
        told(&trace, &graph),
        [
            ("compute", 3, 7, vec![]),
            ("c10d::allreduce_", 10, 50, vec![0]),
            // In parallel to the communication, until the thread was blocked.
            ("compute", 10, 25, vec![0]),
            ("compute", 60, 30, vec![2, 1]),
        ]
    );
    assert!(!graph.is_cpu_op(&graph.nodes.get(NodeIdx(0))));
}
