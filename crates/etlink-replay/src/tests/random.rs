use super::*;
use crate::{DurationScale, critical_path, replay_figures};
use proptest::prelude::*;

type Shape = Vec<(u32, i64, i64, Vec<(usize, usize)>)>;

/// Draws per node: resource, duration, latency, and dependencies as (distance back, kind).
fn shapes() -> impl Strategy<Value = Shape> {
    prop::collection::vec(
        (
            0u32..3,
            0i64..10_000,
            0i64..500,
            prop::collection::vec((1usize..20, 0usize..8), 0..4),
        ),
        0..80,
    )
}

/// Builds a graph whose measured times follow from its edges, durations and latencies.
fn graph_from_trace(shape: &Shape) -> ReplayGraph {
    let mut builder = GraphBuilder::new(vec![
        thread_resource("1"),
        stream_resource(7, None),
        stream_resource(8, None),
    ]);
    let mut ends: Vec<i64> = vec![];
    for (node, (resource, duration, latency, deps)) in shape.iter().enumerate() {
        let deps = deps
            .iter()
            .filter_map(|(back, kind)| Some((node.checked_sub(*back)?, EdgeKind::ALL[*kind])));
        let deps: Vec<ReplayDep> = deps
            .map(|(from, kind)| ReplayDep {
                from: NodeIdx::new(from),
                kind,
                inferred: false,
                latency: None,
            })
            .collect();
        let latest = deps.iter().map(|dep| ends[dep.from.index()]).max();
        let start = latest.unwrap_or(5_000 * i64::from(*resource)) + latency;
        ends.push(start + duration);
        let kind = if *resource == 0 {
            ReplayKind::HostOp
        } else {
            ReplayKind::Kernel
        };
        let (start, duration) = (Some(TimeNs(start)), DurationNs(*duration));
        builder.push(
            ReplayNode {
                kind,
                resource: ResourceIdx(*resource),
                start,
                duration,
            },
            deps,
        );
    }
    builder.finish().expect("forward edges only")
}

pub(super) struct NoNames;

impl LabelSource for NoNames {
    fn name(&self, _: NodeIdx) -> &str {
        "op"
    }

    fn correlation(&self, _: NodeIdx) -> Option<Correlation> {
        None
    }
}

pub(super) fn scales(rules: &[String]) -> Vec<DurationScale> {
    rules
        .iter()
        .map(|rule| rule.parse().expect("a rule"))
        .collect()
}

proptest! {
    #[test]
    fn a_replay_gives_measured_times_back(shape in shapes()) {
        let graph = graph_from_trace(&shape);
        let ran = run_graph(&graph, &NoNames, &ReplaySettings::default());
        prop_assert_eq!(&ran.start, &graph.start);
        let figures = replay_figures(&graph, &NoNames, &ran);
        prop_assert_eq!(figures.replay_error, Some(0.0));
        prop_assert_eq!(figures.contradictions.map(|found| found.edges), Some(0));
        let decided: u64 = figures.by_edge.values().map(|edge| edge.decided).sum();
        prop_assert_eq!(
            decided as usize,
            graph
                .indices()
                .filter(|node| graph.count_deps(*node) > 0)
                .count()
        );
    }

    #[test]
    fn a_factor_of_one_changes_nothing(shape in shapes(), resources: bool) {
        let graph = graph_from_trace(&shape);
        let settings = ReplaySettings {
            resources,
            ..ReplaySettings::default()
        };
        let scaled = ReplaySettings {
            scales: scales(&["op=1".into(), "kind=device 1.0".into()]),
            ..settings.clone()
        };
        prop_assert_eq!(
            run_graph(&graph, &NoNames, &settings),
            run_graph(&graph, &NoNames, &scaled)
        );
    }

    #[test]
    fn slower_is_never_done_sooner(shape in shapes(), factor in 1.0f64..4.0, device: bool) {
        let graph = graph_from_trace(&shape);
        let rule = if device {
            format!("kind=device {factor}")
        } else {
            format!("*={factor}")
        };
        let slow = run_graph(
            &graph,
            &NoNames,
            &ReplaySettings {
                scales: scales(&[rule]),
                ..ReplaySettings::default()
            },
        );
        let plain = run_graph(&graph, &NoNames, &ReplaySettings::default());
        prop_assert!(
            graph
                .indices()
                .all(|node| slow.end(node) >= plain.end(node))
        );
        prop_assert!(slow.makespan() >= plain.makespan());
    }

    #[test]
    fn fewer_reasons_to_wait_are_never_done_later(shape in shapes(), kind in 0usize..8) {
        let graph = graph_from_trace(&shape);
        let free = run_graph(
            &graph,
            &NoNames,
            &ReplaySettings {
                drop_edges: vec![EdgeKind::ALL[kind]],
                ..ReplaySettings::default()
            },
        );
        prop_assert!(
            graph
                .indices()
                .all(|node| free.end(node) <= graph.end(node))
        );
    }

    #[test]
    fn the_critical_path_adds_up_to_the_end_of_all_work(
        shape in shapes(),
        resources: bool,
        kind in 0usize..8,
        factor in 0.0f64..3.0,
    ) {
        let graph = graph_from_trace(&shape);
        let settings = ReplaySettings {
            scales: scales(&[format!("kind=device {factor}")]),
            drop_edges: vec![EdgeKind::ALL[kind]],
            resources,
            ..ReplaySettings::default()
        };
        let ran = run_graph(&graph, &NoNames, &settings);
        let path = critical_path(&graph, &ran);
        let total: DurationNs = path
            .iter()
            .map(|step| step.latency_ns + ran.duration[step.node.index()])
            .sum();
        let end = path.last().map(|step| ran.end(step.node));
        prop_assert_eq!(
            Some(ran.window().0 + total),
            end.or(Some(ran.window().0))
        );
        let resource = |node: NodeIdx| graph.resource[node.index()];
        let waits_elsewhere = |to, from| {
            graph
                .deps(to)
                .any(|dep| dep.from == from && resource(to) != resource(from))
        };
        let at_work =
            |node| graph.is_device_op(node) || graph.indices().any(|to| waits_elsewhere(to, node));
        prop_assert!(
            graph
                .indices()
                .all(|node| !at_work(node) || end.is_some_and(|end| ran.end(node) <= end)),
            "no work is left out"
        );
        prop_assert!(
            path.windows(2)
                .all(|pair| ran.end(pair[0].node) <= ran.start[pair[1].node.index()])
        );
    }

    #[test]
    fn with_resources_nothing_overlaps_and_every_node_waits_for_its_deps(shape in shapes()) {
        let graph = graph_from_trace(&shape);
        let ran = run_graph(
            &graph,
            &NoNames,
            &ReplaySettings {
                resources: true,
                ..ReplaySettings::default()
            },
        );
        for resource in (0..3).map(ResourceIdx) {
            let mut nodes: Vec<NodeIdx> = graph
                .indices()
                .filter(|node| graph.resource[node.index()] == resource)
                .collect();
            nodes.sort_by_key(|node| (ran.start[node.index()], ran.end(*node)));
            prop_assert!(
                nodes
                    .windows(2)
                    .all(|pair| ran.end(pair[0]) <= ran.start[pair[1].index()])
            );
        }
        for node in graph.indices() {
            let ready = graph
                .edges_to(node)
                .map(|edge| ran.end(graph.dep(edge).from) + graph.latency(edge))
                .max();
            prop_assert!(ready.is_none_or(|ready| ran.start[node.index()] >= ready));
        }
    }
}
