use super::*;
use crate::{DurationScale, PathReport};
use crate::{
    DurationScaleError, PathCause, Percentiles, StartReason, critical_path, explain_start,
    find_node, replay_figures,
};

/// ```text
/// thread 1  a=====  b==========
///                \ 5
/// stream 7        gemm==========  relu===
///                                       \ event
/// stream 8                               all_reduce======
/// ```
fn diamond() -> Drawing {
    let mut draw = Drawing::default();
    let a = draw.node("a", ReplayKind::HostOp, 0, Some(1_000), 50);
    let gemm = draw.node("gemm<float*>", ReplayKind::Kernel, 1, Some(1_055), 100);
    let b = draw.node("b", ReplayKind::Runtime, 0, Some(1_050), 80);
    let relu = draw.node("relu", ReplayKind::Kernel, 1, Some(1_157), 30);
    let reduce = draw.node("all_reduce", ReplayKind::Collective, 2, Some(1_190), 200);
    draw.edge(a, EdgeKind::ProgramOrder, b);
    draw.edge(a, EdgeKind::Launch, gemm);
    draw.edge(gemm, EdgeKind::StreamOrder, relu);
    draw.edge(a, EdgeKind::Launch, relu);
    draw.edge(relu, EdgeKind::EventWait, reduce);
    draw.edge(b, EdgeKind::Launch, reduce);
    draw
}

fn scaled(rules: &[&str]) -> ReplaySettings {
    ReplaySettings {
        scales: rules
            .iter()
            .map(|rule| rule.parse().expect("a rule"))
            .collect(),
        ..ReplaySettings::default()
    }
}

fn dropped(kinds: &[EdgeKind]) -> ReplaySettings {
    ReplaySettings {
        drop_edges: kinds.to_vec(),
        ..ReplaySettings::default()
    }
}

#[test]
fn measured_times_come_back() {
    let draw = diamond();
    let run = draw.run(&ReplaySettings::default());
    assert_eq!(starts(&run), [1_000, 1_055, 1_050, 1_157, 1_190]);
    let figures = replay_figures(&draw.graph(), &draw, &run);
    assert_eq!(
        (
            figures.measured_ns,
            figures.replayed_ns,
            figures.replay_error
        ),
        (Some(DurationNs(390)), DurationNs(390), Some(0.0))
    );
    let end_error = figures.end_error.expect("measured");
    assert_eq!(
        (end_error.mean_ns, end_error.spread, end_error.worst),
        (DurationNs(0), Percentiles::default(), vec![])
    );
    assert_eq!(
        (
            figures.device_ops,
            figures.streams,
            figures.contradictions.expect("measured").edges
        ),
        (3, 2, 0)
    );
    let launch = &figures.by_edge[&EdgeKind::Launch];
    assert_eq!(
        (launch.count, launch.decided, launch.latency.max_ns),
        (3, 1, DurationNs(5))
    );
    let event = &figures.by_edge[&EdgeKind::EventWait];
    assert_eq!(
        (event.count, event.decided, event.latency.p50_ns),
        (1, 1, DurationNs(3))
    );
}

#[test]
fn what_is_slower_delays_what_depends_on_it_and_nothing_else() {
    let draw = diamond();
    assert_eq!(
        starts(&draw.run(&scaled(&["gemm*=2"]))),
        [1_000, 1_055, 1_050, 1_257, 1_290]
    );
    assert_eq!(
        starts(&draw.run(&scaled(&["kind=device 0.5"]))),
        [1_000, 1_055, 1_050, 1_107, 1_135]
    );
    let run = draw.run(&scaled(&["kind=collective=0.5", "all_?educe=0.1"]));
    assert_eq!((starts(&run)[4], run.duration[4].0), (1_190, 10));
    assert_eq!(
        draw.run(&scaled(&["nothing=9", "kind=host 1.0"])),
        draw.run(&ReplaySettings::default())
    );
}

/// ```text
/// thread 1  copy==========  after=            async: copy=  after=====
/// stream 7    HtoD==========                            HtoD==========
/// ```
#[test]
fn a_call_that_copies_lasts_as_long_as_its_copy() {
    let finish = |call: i64, at: i64, rule: &str| {
        let mut draw = Drawing::default();
        let copy = draw.node("cudaMemcpyAsync", ReplayKind::Runtime, 0, Some(0), call);
        let row = draw.node("HtoD", ReplayKind::MemoryCopy, 1, Some(at), 1_000_000);
        let after = draw.node("after", ReplayKind::HostOp, 0, Some(call), 500_000);
        draw.edge(copy, EdgeKind::Launch, row);
        draw.edge(copy, EdgeKind::ProgramOrder, after);
        draw.run(&scaled(&[rule])).end(after).0
    };
    assert_eq!(finish(990_000, 20_000, "HtoD=0.5"), 995_000);
    assert_eq!(finish(990_000, 20_000, "kind=memory_copy 2"), 2_480_000);
    // a launch that ended long before the copy began, and one that is late for it
    assert_eq!(finish(5_000, 20_000, "HtoD=0.5"), 505_000);
    assert_eq!(finish(600_000, 590_000, "HtoD=0.5"), 1_100_000);
}

#[test]
fn rules_say_what_is_wrong_with_them() {
    let error = |rule: &str| rule.parse::<DurationScale>().expect_err("no rule");
    for rule in ["", "gemm", "=2", "kind=2", "kind=device"] {
        assert!(
            matches!(
                error(rule),
                DurationScaleError::NoFactor | DurationScaleError::BadFactor(_)
            ),
            "{rule}"
        );
    }
    for rule in ["a=b", "a=-1", "a=inf", "a=nan", "a="] {
        assert!(
            matches!(error(rule), DurationScaleError::BadFactor(_)),
            "{rule}"
        );
    }
    assert!(
        error("kind=gpu 2")
            .to_string()
            .contains("kinds: host, host_op")
    );
    assert_eq!(
        error("op=aten::mm 2"),
        DurationScaleError::UnknownKey("op".to_owned())
    );
    let spaced: DurationScale = "Memcpy HtoD (a=b) = 2e0".parse().expect("a rule");
    assert!(spaced.fits(ReplayKind::MemoryCopy, "Memcpy HtoD (a=b)"));
}

#[test]
fn edges_that_are_left_out_hold_nothing_up() {
    let draw = diamond();
    assert_eq!(
        starts(&draw.run(&dropped(&[EdgeKind::EventWait]))),
        [1_000, 1_055, 1_050, 1_157, 1_135]
    );
    // nothing is left to wait for: start at once
    assert_eq!(
        starts(&draw.run(&dropped(&[EdgeKind::Launch, EdgeKind::StreamOrder]))),
        [1_000, 1_000, 1_050, 1_000, 1_033]
    );
}

#[test]
fn a_stream_runs_one_kernel_at_a_time_only_with_resources() {
    let mut draw = Drawing::default();
    let a = draw.node("a", ReplayKind::HostOp, 0, Some(0), 10);
    // ready at the same time; the later number was measured first
    for (name, start, duration) in [("slow", 30, 40), ("quick", 10, 20)] {
        let kernel = draw.node(name, ReplayKind::Kernel, 1, Some(start), duration);
        draw.edge(a, EdgeKind::Launch, kernel);
    }
    draw.nodes
        .iter_mut()
        .flat_map(|(_, deps)| deps)
        .for_each(|dep| dep.latency = Some(DurationNs(0)));
    assert_eq!(starts(&draw.run(&ReplaySettings::default())), [0, 10, 10]);
    let run = draw.run(&ReplaySettings {
        resources: true,
        ..ReplaySettings::default()
    });
    assert_eq!(
        (
            starts(&run),
            run.held_by(NodeIdx(1)),
            run.held_by(NodeIdx(2))
        ),
        (vec![0, 30, 10], Some(NodeIdx(2)), None)
    );
    let graph = draw.graph();
    let path = critical_path(&graph, &run);
    assert_eq!(
        path.iter()
            .map(|step| (step.node.0, step.via))
            .collect::<Vec<_>>(),
        [
            (0, StartReason::Start),
            (2, StartReason::Edge(EdgeKind::Launch)),
            (1, StartReason::Busy)
        ]
    );
    assert_eq!(
        explain_start(&graph, &draw, &run, &[], NodeIdx(1))
            .held_by
            .map(|held| held.name),
        Some("quick".to_owned())
    );
}

#[test]
fn a_delay_keeps_no_stream_busy() {
    let mut draw = Drawing::default();
    draw.node("boundary", ReplayKind::Boundary, 1, Some(0), 100);
    draw.node("kernel", ReplayKind::Kernel, 1, Some(10), 20);
    let run = draw.run(&ReplaySettings {
        resources: true,
        ..ReplaySettings::default()
    });
    assert_eq!(starts(&run), [0, 10]);
}

#[test]
fn a_file_need_not_be_in_order_nor_have_starts() {
    let mut draw = Drawing::default();
    let last = draw.node("last", ReplayKind::Kernel, 1, None, 5);
    let first = draw.node("first", ReplayKind::HostOp, 0, None, 10);
    let middle = draw.node("middle", ReplayKind::HostOp, 0, Some(7), 20);
    draw.edge(middle, EdgeKind::Launch, last);
    draw.edge(first, EdgeKind::ProgramOrder, middle);
    draw.nodes[0].1[0].latency = Some(DurationNs(3));
    for resources in [false, true] {
        let run = draw.run(&ReplaySettings {
            resources,
            ..ReplaySettings::default()
        });
        assert_eq!(starts(&run), [33, 0, 10]);
        let figures = replay_figures(&draw.graph(), &draw, &run);
        assert_eq!(
            (figures.measured_ns, figures.replayed_ns, figures.end_error),
            (None, DurationNs(38), None)
        );
    }
    assert_eq!(draw.graph().without_start, 2);
}

#[test]
fn a_cycle_is_an_error_that_names_its_nodes() {
    let mut draw = diamond();
    // after the cycle, not on it
    let behind = draw.node("behind", ReplayKind::HostOp, 0, Some(0), 1);
    draw.edge(NodeIdx(4), EdgeKind::HostWait, NodeIdx(2));
    draw.edge(NodeIdx(2), EdgeKind::ProgramOrder, behind);
    let Err(Error::Cycle(mut nodes)) = draw.try_graph() else {
        panic!("no cycle")
    };
    nodes.sort_unstable();
    assert_eq!(nodes, [NodeIdx(2), NodeIdx(4)]);
    let mut draw = Drawing::default();
    let own = draw.node("own", ReplayKind::HostOp, 0, None, 1);
    draw.edge(own, EdgeKind::Tensor, own);
    assert_eq!(draw.try_graph(), Err(Error::Cycle(vec![own])));
    let (node, from) = (NodeIdx(0), NodeIdx(9));
    draw.nodes[0].1[0].from = from;
    assert_eq!(draw.try_graph(), Err(Error::NoSuchNode { node, from }));
}

#[test]
fn a_long_chain_in_the_wrong_order_is_no_problem() {
    let mut builder = GraphBuilder::new(vec![thread_resource("1")]);
    let nodes = 300_000u32;
    for node in 0..nodes {
        let dep = ReplayDep {
            from: NodeIdx(node + 1),
            ..ReplayDep::default()
        };
        builder.push(
            ReplayNode {
                duration: DurationNs(2),
                ..ReplayNode::default()
            },
            Some(dep).filter(|dep| dep.from.0 < nodes),
        );
    }
    let graph = builder.finish().expect("no cycle");
    let run = run_graph(
        &graph,
        &Drawing::default(),
        &ReplaySettings {
            resources: true,
            ..ReplaySettings::default()
        },
    );
    assert_eq!(run.makespan().0, 600_000);
    assert_eq!(critical_path(&graph, &run).len(), 300_000);
}

#[test]
fn nothing_to_run_takes_no_time() {
    let draw = Drawing::default();
    let graph = draw.graph();
    for resources in [false, true] {
        let run = draw.run(&ReplaySettings {
            resources,
            ..ReplaySettings::default()
        });
        assert_eq!(run.makespan().0, 0);
        assert_eq!(critical_path(&graph, &run), []);
        let figures = replay_figures(&graph, &draw, &run);
        assert_eq!(
            (
                figures.nodes,
                figures.replay_error,
                figures.unexplained.share_of_time
            ),
            (0, Some(0.0), 0.0)
        );
    }
    assert_eq!(find_node(&graph, &draw, "0"), None);
}

#[test]
fn the_critical_path_tells_where_the_time_went() {
    let draw = diamond();
    let (graph, run) = (draw.graph(), draw.run(&ReplaySettings::default()));
    let report = PathReport::new(&graph, &draw, &run, &critical_path(&graph, &run));
    let names: Vec<&str> = report
        .steps
        .iter()
        .map(|step| step.label.name.as_str())
        .collect();
    assert_eq!(names, ["a", "gemm<float*>", "relu", "all_reduce"]);
    let causes: Vec<(PathCause, i64)> = report
        .causes
        .iter()
        .map(|(cause, time)| (*cause, time.ns.0))
        .collect();
    assert_eq!(
        causes,
        [
            (PathCause::Host, 50),
            (PathCause::Launch, 5),
            (PathCause::Kernel, 130),
            (PathCause::Communication, 200),
            (PathCause::Wait, 5)
        ]
    );
    assert_eq!(report.edges[&EdgeKind::StreamOrder], 1);
}

#[test]
fn waits_without_a_cause_boundaries_and_contradictions_are_counted() {
    let mut draw = diamond();
    let wait = draw.node(
        "unexplained wait",
        ReplayKind::UnexplainedWait,
        1,
        Some(1_390),
        78,
    );
    let late = draw.node("late", ReplayKind::Kernel, 1, Some(1_468), 32);
    draw.node("boundary", ReplayKind::Boundary, 2, Some(1_000), 40);
    draw.edge(NodeIdx(4), EdgeKind::StreamOrder, wait);
    draw.edge(wait, EdgeKind::StreamOrder, late);
    let (graph, run) = (draw.graph(), draw.run(&ReplaySettings::default()));
    let told = replay_figures(&graph, &draw, &run);
    let unexplained = told.unexplained;
    assert_eq!(
        (
            unexplained.device_ops,
            unexplained.waiting_ns,
            unexplained.share_of_ops
        ),
        (1, DurationNs(78), 0.25)
    );
    assert_eq!(
        (
            unexplained.share_of_time,
            unexplained.worst[0].label.name.as_str()
        ),
        (78.0 / 1_000.0, "late")
    );
    assert_eq!(
        (told.boundary.count, told.boundary.total_ns),
        (1, DurationNs(40))
    );
    let mut draw = diamond();
    draw.nodes[0].0.duration = DurationNs(50_000);
    let (graph, run) = (draw.graph(), draw.run(&ReplaySettings::default()));
    let contradictions = replay_figures(&graph, &draw, &run)
        .contradictions
        .expect("measured");
    assert_eq!(
        (
            contradictions.edges,
            contradictions.worst[0].label.name.as_str(),
            contradictions.worst[0].ns
        ),
        (3, "b", 49_950)
    );
}

#[test]
fn a_node_is_explained_by_number_or_name() {
    let draw = diamond();
    let (graph, run) = (draw.graph(), draw.run(&ReplaySettings::default()));
    let node = find_node(&graph, &draw, "all_reduce").expect("there");
    assert_eq!(
        (
            Some(node),
            find_node(&graph, &draw, "re*"),
            find_node(&graph, &draw, "gemm<float*>")
        ),
        (
            find_node(&graph, &draw, "4"),
            Some(NodeIdx(3)),
            Some(NodeIdx(1))
        )
    );
    let told = explain_start(&graph, &draw, &run, &[], node);
    let deps: Vec<_> = told
        .deps
        .iter()
        .map(|dep| {
            let name = dep.from.name.as_str();
            (dep.edge, name, dep.slack_ns.0, dep.decided)
        })
        .collect();
    assert_eq!(
        deps,
        [
            (EdgeKind::EventWait, "relu", 0, true),
            (EdgeKind::Launch, "b", 55, false)
        ]
    );
    assert_eq!(
        (told.latency_ns, told.start_ns, told.measured_start_ns),
        (DurationNs(3), TimeNs(1_190), Some(TimeNs(1_190)))
    );
    assert_eq!(
        told.deps[1].evidence,
        "ran on thread 1 until the call that launched it, correlation 104"
    );
    assert!(
        told.deps[0]
            .evidence
            .contains("stream 8 of device 0 waited for an event of stream 7")
    );
    let settings = dropped(&[EdgeKind::EventWait]);
    let told = explain_start(
        &graph,
        &draw,
        &draw.run(&settings),
        &settings.drop_edges,
        node,
    );
    assert_eq!(
        (told.deps.len(), told.deps[0].decided, told.deps[0].slack_ns),
        (1, true, DurationNs(0))
    );
}

#[test]
fn a_device_op_far_behind_its_causes_is_unexplained() {
    for (latency, unexplained) in [(100_000, 0), (100_001, 1)] {
        let mut draw = Drawing::default();
        let op = draw.node("a", ReplayKind::HostOp, 0, Some(0), 50);
        let gemm = draw.node("gemm", ReplayKind::Kernel, 1, Some(50 + latency), 100);
        let relu = draw.node(
            "relu",
            ReplayKind::Kernel,
            1,
            Some(50 + latency + 100 + 30_000),
            100,
        );
        draw.edge(op, EdgeKind::Launch, gemm);
        draw.edge(gemm, EdgeKind::StreamOrder, relu);
        let figures = replay_figures(&draw.graph(), &draw, &draw.run(&ReplaySettings::default()));
        assert_eq!(
            (
                figures.unexplained.device_ops,
                figures.unexplained.waiting_ns
            ),
            (unexplained, DurationNs(latency * unexplained as i64)),
            "{latency}"
        );
    }
}
