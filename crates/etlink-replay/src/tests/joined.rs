//! Ranks with a known truth.

use super::random::{NoNames, scales};
use crate::*;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, RankIdx, ResourceIdx, TimeNs};
use proptest::prelude::*;

/// Step of a rank: compute time, collective number, transfer time once all have come, and true if
/// the rank waits for the end of the collective.
type PathStep = (i64, u32, i64, bool);

/// Steps of all ranks. Collective numbers ascend on every rank.
#[derive(Clone, Debug)]
struct Program {
    ranks: Vec<Vec<PathStep>>,
}

/// One rank as it ran: thread 0, stream 1.
struct Drawn {
    nodes: Vec<(ReplayNode, Vec<ReplayDep>)>,
    /// Node of each collective.
    collectives: Vec<(u32, NodeIdx)>,
    thread: i64,
    stream: i64,
    last: Option<NodeIdx>,
    kernel: Option<NodeIdx>,
    waits: Option<NodeIdx>,
}

impl Drawn {
    fn push(
        &mut self,
        kind: ReplayKind,
        resource: u32,
        (start, end): (i64, i64),
        deps: &[(Option<NodeIdx>, EdgeKind)],
    ) -> NodeIdx {
        let deps = deps
            .iter()
            .filter_map(|(from, kind)| {
                Some(ReplayDep {
                    from: (*from)?,
                    kind: *kind,
                    inferred: false,
                    // a rank here continues at once, whatever it waited for
                    latency: Some(DurationNs::ZERO),
                })
            })
            .collect();
        let node = ReplayNode {
            kind,
            resource: ResourceIdx(resource),
            start: Some(TimeNs(start)),
            duration: DurationNs(end - start),
        };
        self.nodes.push((node, deps));
        NodeIdx(self.nodes.len() as u32 - 1)
    }

    fn compute(&mut self, duration: i64) {
        let deps = [
            (self.last, EdgeKind::ProgramOrder),
            (self.waits.take(), EdgeKind::HostWait),
        ];
        let node = self.push(
            ReplayKind::HostOp,
            0,
            (self.thread, self.thread + duration),
            &deps,
        );
        (self.last, self.thread) = (Some(node), self.thread + duration);
    }

    fn arrives(&self) -> i64 {
        self.thread.max(self.stream)
    }

    fn transfer(&mut self, collective: u32, met: i64, takes: i64, wait: bool) {
        let deps = [
            (self.last, EdgeKind::Launch),
            (self.kernel, EdgeKind::StreamOrder),
        ];
        let node = self.push(
            ReplayKind::Collective,
            1,
            (self.arrives(), met + takes),
            &deps,
        );
        self.collectives.push((collective, node));
        (self.kernel, self.stream) = (Some(node), met + takes);
        if wait {
            (self.thread, self.waits) = (self.thread.max(self.stream), Some(node));
        }
    }
}

impl Program {
    /// Runs the program. `slow` is a rank and the factor on its compute time, `network` the factor
    /// on transfers.
    fn draw(&self, slow: (usize, i64), network: i64) -> Vec<Drawn> {
        let new = |_| Drawn {
            nodes: vec![],
            collectives: vec![],
            thread: 0,
            stream: 0,
            last: None,
            kernel: None,
            waits: None,
        };
        let mut ranks: Vec<Drawn> = self.ranks.iter().map(new).collect();
        let mut next = vec![0; ranks.len()];
        let factor = |rank: usize| if rank == slow.0 { slow.1 } else { 1 };
        for collective in 0..=self
            .ranks
            .iter()
            .flatten()
            .map(|step| step.1)
            .max()
            .unwrap_or(0)
        {
            let members: Vec<usize> = (0..ranks.len())
                .filter(|rank| {
                    self.ranks[*rank]
                        .get(next[*rank])
                        .is_some_and(|step| step.1 == collective)
                })
                .collect();
            members.iter().for_each(|rank| {
                ranks[*rank].compute(self.ranks[*rank][next[*rank]].0 * factor(*rank))
            });
            let met = members
                .iter()
                .map(|rank| ranks[*rank].arrives())
                .max()
                .unwrap_or(0);
            for rank in members {
                let (_, _, takes, wait) = self.ranks[rank][next[rank]];
                ranks[rank].transfer(collective, met, takes * network, wait);
                next[rank] += 1;
            }
        }
        (0..ranks.len()).for_each(|rank| ranks[rank].compute(70 * factor(rank)));
        ranks
    }

    /// Joins the recorded ranks.
    fn joined(&self) -> (JoinedGraph, Vec<CollectiveNodes>) {
        let drawn = self.draw((0, 1), 1);
        let numbers: std::collections::BTreeSet<u32> = drawn
            .iter()
            .flat_map(|rank| &rank.collectives)
            .map(|(collective, _)| *collective)
            .collect();
        let member = |(rank, drawn): (u32, &Drawn), collective: u32| {
            let node = drawn
                .collectives
                .iter()
                .find(|(number, _)| *number == collective)?
                .1;
            Some(MemberNodes {
                rank: RankIdx(rank),
                arrives: node,
                transfer: node,
                needs_all: true,
            })
        };
        let collective = |collective: u32| CollectiveNodes {
            name: format!("all_reduce {collective}"),
            members: (0..)
                .zip(&drawn)
                .filter_map(|one| member(one, collective))
                .collect(),
        };
        let collectives: Vec<CollectiveNodes> = numbers.into_iter().map(collective).collect();
        let ranks: Vec<RankGraph> = (0..)
            .zip(&drawn)
            .map(|(rank, drawn)| recorded(rank, drawn))
            .collect();
        (
            join_graphs(&ranks, &collectives).expect("no circle"),
            collectives,
        )
    }
}

fn recorded(rank: i64, drawn: &Drawn) -> RankGraph {
    let mut builder = GraphBuilder::new(vec![thread_resource("1"), stream_resource(7, None)]);
    drawn
        .nodes
        .iter()
        .for_each(|(node, deps)| builder.push(*node, deps.iter().copied()));
    RankGraph {
        rank: GlobalRank(rank),
        graph: builder.finish().expect("forward"),
        uncertainty_ns: DurationNs(0),
    }
}

/// Returns the ends of all nodes of all ranks.
fn ends(drawn: &[Drawn]) -> Vec<i64> {
    let nodes = drawn.iter().flat_map(|rank| &rank.nodes);
    nodes
        .map(|(node, _)| node.start.unwrap_or_default().0 + node.duration.0)
        .collect()
}

fn replayed(joined: &JoinedGraph, nodes: usize, rules: &[String]) -> Vec<i64> {
    let run = run_graph(
        &joined.graph,
        &NoNames,
        &ReplaySettings {
            scales: scales(rules),
            ..ReplaySettings::default()
        },
    );
    let nodes = joined.graph.indices().take(nodes);
    nodes.map(|node| run.end(node).0).collect()
}

/// Draws programs in which some ranks take part in each collective.
fn programs() -> impl Strategy<Value = Program> {
    let step = |collective| {
        (
            1i64..10_000,
            Just(collective),
            1i64..500,
            any::<bool>(),
            prop::bool::weighted(0.7),
        )
    };
    let steps = (0u32..8).map(step).collect::<Vec<_>>();
    let rank = steps.prop_map(|steps| {
        let kept = steps
            .into_iter()
            .filter(|step| step.4)
            .map(|(compute, collective, takes, wait, _)| (compute, collective, takes, wait));
        kept.collect::<Vec<PathStep>>()
    });
    prop::collection::vec(rank, 2..5).prop_map(|ranks| Program { ranks })
}

proptest! {
    #[test]
    fn replay_gives_all_ranks_times_back(program in programs()) {
        let (joined, _) = program.joined();
        let truth = ends(&program.draw((0, 1), 1));
        prop_assert_eq!(replayed(&joined, truth.len(), &[]), truth);
        let ran = run_graph(&joined.graph, &NoNames, &ReplaySettings::default());
        let figures = replay_figures(&joined.graph, &NoNames, &ran);
        prop_assert_eq!(
            (
                figures.replay_error,
                figures.end_error.map(|error| error.mean_ns)
            ),
            (Some(0.0), Some(DurationNs(0)))
        );
        prop_assert_eq!(figures.contradictions.map(|found| found.edges), Some(0));
    }

    #[test]
    fn one_slow_rank_makes_the_others_wait_as_they_would(
        program in programs(),
        rank in 0usize..5,
        factor in 1i64..6,
    ) {
        let (joined, _) = program.joined();
        let truth = ends(&program.draw((rank, factor), 1));
        prop_assert_eq!(
            replayed(
                &joined,
                truth.len(),
                &[format!("rank={rank}/kind=host_op {factor}")]
            ),
            truth
        );
    }

    #[test]
    fn a_slower_network_is_slower_on_all_ranks(program in programs(), factor in 1i64..6) {
        let (joined, _) = program.joined();
        let truth = ends(&program.draw((0, 1), factor));
        prop_assert_eq!(
            replayed(&joined, truth.len(), &[format!("kind=collective {factor}")]),
            truth
        );
    }

    #[test]
    fn nobody_waits_for_others_when_collectives_hold_nothing_up(program in programs()) {
        let (joined, _) = program.joined();
        let alone = program.ranks.iter().enumerate().flat_map(|(at, steps)| {
            let steps = steps
                .iter()
                .map(|step| (step.0, step.1 + 100 * at as u32, step.2, step.3))
                .collect();
            ends(&Program { ranks: vec![steps] }.draw((0, 1), 1))
        });
        let truth: Vec<i64> = alone.collect();
        let ran = run_graph(
            &joined.graph,
            &NoNames,
            &ReplaySettings {
                drop_edges: vec![EdgeKind::Collective],
                ..ReplaySettings::default()
            },
        );
        let ends = joined
            .graph
            .indices()
            .take(truth.len())
            .map(|node| ran.end(node).0);
        prop_assert_eq!(ends.collect::<Vec<_>>(), truth);
    }
}

/// ```text
/// rank 0   100===== all_reduce 0 (30) 40==== all_reduce 1 (30)
/// rank 1   300=====================  10=    all_reduce 1
/// ```
fn two() -> Program {
    Program {
        ranks: vec![
            vec![(100, 0, 30, true), (40, 1, 30, true)],
            vec![(300, 0, 30, true), (10, 1, 30, true)],
        ],
    }
}

#[test]
fn waiting_and_transfer_are_told_apart() {
    let (joined, _) = two().joined();
    let ran = run_graph(&joined.graph, &NoNames, &ReplaySettings::default());
    let ranks = joined.by_rank(&ran);
    let told: Vec<_> = ranks
        .iter()
        .map(|rank| {
            (
                rank.rank,
                rank.nodes,
                rank.collectives,
                rank.measured_ns,
                rank.end_error_ns,
            )
        })
        .collect();
    let spent = |waiting| CollectiveTimes {
        count: 2,
        waiting_ns: DurationNs(waiting),
        transfer_ns: DurationNs(60),
    };
    let (all, exact) = (Some(DurationNs(470)), Some(DurationNs(0)));
    assert_eq!(
        told,
        [
            (GlobalRank(0), 5, spent(200), all, exact),
            (GlobalRank(1), 5, spent(30), all, exact)
        ]
    );
}

#[test]
fn the_critical_path_goes_from_rank_to_rank() {
    let (joined, collectives) = two().joined();
    let ran = run_graph(&joined.graph, &NoNames, &ReplaySettings::default());
    let names: Vec<RankNames> = [5, 5]
        .map(|nodes| RankNames::from_labels(&NoNames, nodes))
        .into();
    let labels = RankLabels {
        joined: &joined,
        ranks: &names,
        collectives: &collectives,
    };
    let path = PathReport::new(
        &joined.graph,
        &labels,
        &ran,
        &critical_path(&joined.graph, &ran),
    );
    assert_eq!(path.makespan_ns, DurationNs(470));
    let crossings: Vec<_> = path
        .crossings
        .iter()
        .map(|crossing| {
            (
                crossing.from,
                crossing.to,
                crossing.by.as_str(),
                crossing.at_ns,
            )
        })
        .collect();
    assert_eq!(
        crossings,
        [(GlobalRank(1), GlobalRank(0), "all_reduce 0", TimeNs(300))]
    );
    assert_eq!(
        path.ranks
            .iter()
            .map(|(rank, time)| (rank.0, time.ns.0))
            .collect::<Vec<_>>(),
        [(0, 170), (1, 300)]
    );
    let wanted = find_node(&joined.graph, &labels, "rank=1/3").expect("there");
    let told = explain_start(&joined.graph, &labels, &ran, &[], wanted);
    assert_eq!(
        (
            told.label.rank,
            told.label.node,
            told.deps[0].edge,
            told.deps[0].decided
        ),
        (Some(GlobalRank(1)), 3, EdgeKind::Collective, true)
    );
}

/// Draws one kernel per rank, from `start` for `duration`; a part may be done early.
fn kernels(times: &[(i64, i64, bool)], uncertainty_ns: i64) -> JoinedGraph {
    let rank = |(rank, (start, duration, _)): (i64, &(i64, i64, bool))| {
        let mut drawn = Drawn {
            nodes: vec![],
            collectives: vec![],
            thread: *start,
            stream: 0,
            last: None,
            kernel: None,
            waits: None,
        };
        drawn.compute(0);
        drawn.transfer(0, *start, *duration, false);
        RankGraph {
            uncertainty_ns: DurationNs(uncertainty_ns),
            ..recorded(rank, &drawn)
        }
    };
    let ranks: Vec<RankGraph> = (0..).zip(times).map(rank).collect();
    let members = (0..).zip(times).map(|(rank, (.., needs_all))| MemberNodes {
        rank: RankIdx(rank),
        arrives: NodeIdx(1),
        transfer: NodeIdx(1),
        needs_all: *needs_all,
    });
    join_graphs(
        &ranks,
        &[CollectiveNodes {
            name: "it".into(),
            members: members.collect(),
        }],
    )
    .expect("no circle")
}

#[test]
fn a_rank_that_was_done_before_the_last_came_contradicts_a_collective() {
    let times = [(0, 10_000, true), (12_001, 500, true)];
    assert_eq!(kernels(&times, 0).outcomes, [JoinOutcome::Contradicted]);
    assert_eq!(
        replayed(&kernels(&times, 0), 4, &["rank=1/kind=collective 9".into()])[1],
        10_000
    );
    let joined = kernels(&times, 1);
    assert_eq!(
        (&joined.outcomes, replayed(&joined, 4, &[])),
        (&vec![JoinOutcome::Joined], vec![0, 12_001, 12_001, 12_501]),
        "as uncertain as clocks are"
    );
}

#[test]
fn a_send_can_be_done_before_its_receive_but_not_the_other_way() {
    let early = kernels(&[(0, 3_000, false), (9_000, 500, true)], 0);
    assert_eq!(
        replayed(&early, 4, &["rank=0/kind=collective 2".into()]),
        [0, 6_000, 9_000, 9_500]
    );
    assert_eq!(early.outcomes, [JoinOutcome::Joined]);
    assert_eq!(
        kernels(&[(9_000, 3_000, false), (0, 500, true)], 0).outcomes,
        [JoinOutcome::Contradicted]
    );
    let waits = kernels(&[(4_000, 3_000, false), (0, 7_500, true)], 0);
    let waited = waits.by_rank(&run_graph(
        &waits.graph,
        &NoNames,
        &ReplaySettings::default(),
    ));
    assert_eq!(
        waited
            .iter()
            .map(|rank| rank.collectives.waiting_ns.0)
            .collect::<Vec<_>>(),
        [0, 4_000]
    );
}

#[test]
fn without_times_ranks_wait_for_each_other_and_opposite_orders_are_taken_out() {
    let kernel = |duration| ReplayNode {
        kind: ReplayKind::Collective,
        resource: ResourceIdx(1),
        duration: DurationNs(duration),
        ..ReplayNode::default()
    };
    let rank = |rank: i64, durations: [i64; 3]| {
        let mut builder = GraphBuilder::new(vec![thread_resource("1"), stream_resource(7, None)]);
        for (at, duration) in (0u32..).zip(durations) {
            let dep = at.checked_sub(1).map(|from| ReplayDep {
                from: NodeIdx(from),
                kind: EdgeKind::StreamOrder,
                inferred: false,
                latency: None,
            });
            builder.push(kernel(duration), dep);
        }
        RankGraph {
            rank: GlobalRank(rank),
            graph: builder.finish().expect("a chain"),
            ..RankGraph::default()
        }
    };
    let member = |rank, node| MemberNodes {
        rank: RankIdx(rank),
        arrives: NodeIdx(node),
        transfer: NodeIdx(node),
        needs_all: true,
    };
    let collective = |nodes: [u32; 2]| CollectiveNodes {
        name: String::new(),
        members: vec![member(0, nodes[0]), member(1, nodes[1])],
    };
    let ranks = [rank(0, [10, 20, 30]), rank(1, [100, 200, 300])];
    let joined = join_graphs(
        &ranks,
        &[collective([0, 1]), collective([1, 0]), collective([2, 2])],
    )
    .expect("no circle is left");
    assert_eq!(
        joined.outcomes,
        [
            JoinOutcome::Joined,
            JoinOutcome::OutOfOrder,
            JoinOutcome::Joined
        ]
    );
    assert_eq!(replayed(&joined, 6, &[]), [110, 130, 330, 100, 300, 600]);
    let all = join_graphs(
        &ranks,
        &[collective([0, 0]), collective([1, 1]), collective([2, 2])],
    )
    .expect("in order");
    assert_eq!(replayed(&all, 6, &[]), [10, 120, 330, 100, 300, 600]);
    let wrong = join_graphs(&ranks, &[collective([0, 3])]);
    let (rank, node) = (GlobalRank(1), NodeIdx(3));
    assert_eq!(wrong.err(), Some(Error::NoSuchPart { rank, node }));
    let missing = join_graphs(&ranks[..1], &[collective([0, 0])]);
    let rank = RankIdx(1);
    assert_eq!(missing.err(), Some(Error::NoSuchRank { rank }));
}
