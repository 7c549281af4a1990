//! Checks answers to named questions about several ranks against runs of the machine that are as
//! the question says: another network, more ranks, another device, no slower rank.

use crate::findings::draw::draw_rank;
use crate::findings::planted::link_text;
use crate::findings::program::{
    Act, COMPUTE, Meeting, NCCL, QUEUE_DEPTH, RanRank, US, Work, run_program,
};
use crate::findings::random::Random;
use etlink_analysis::DevicePeaks;
use etlink_analysis::findings::{WhatIfQuestion, answer_for_graph, straggler_edits};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RankSummary, join_ranks};
use etlink_model::{DurationNs, GlobalRank, RankIdx};
use etlink_replay::{
    GraphEdits, RankGraph, RankLabels, RankNames, ReplayRun, ReplaySettings, collective_nodes,
    graph_from_trace, join_graphs, run_graph,
};

const DEVICE: &str = "NVIDIA A100-SXM4-80GB";
const OTHER_DEVICE: &str = "NVIDIA H100 80GB HBM3";

/// Properties of a run that questions change.
#[derive(Clone, Copy)]
struct Setup {
    seed: u64,
    ranks: usize,
    /// Factor on the network's bandwidth.
    bandwidth: f64,
    /// Factor on the duration of kernels, and a further factor for those of rank 2.
    kernels: (f64, f64),
}

impl Setup {
    fn random(seed: u64) -> Setup {
        Setup {
            seed,
            ranks: 4,
            bandwidth: 1.0,
            kernels: (1.0, 1.0),
        }
    }

    /// Returns the duration of an all-reduce of this size, in ns: a tree for its latency, a ring
    /// for its bytes.
    fn transfer(&self, bytes: u64) -> i64 {
        let ranks = self.ranks as f64;
        let ring = 2.0 * (ranks - 1.0) / ranks;
        let latency = 9.0 * US as f64 * ranks.log2();
        // 30 GB/s are 30 bytes per ns.
        (latency + bytes as f64 * ring / (30.0 * self.bandwidth)) as i64
    }

    /// Makes the program of a rank: the same for the same seed, except for the setup's changes.
    fn program(&self, rank: usize) -> Vec<Act> {
        let mut shape = Random(self.seed);
        let layers = 3 + shape.below(4);
        let mut acts = vec![];
        for step in 0..4_u64 {
            // Two paces, whatever the number of ranks, so that a removed rank was never the only
            // last one.
            let mut pace = Random(self.seed * 1_000 + step * 10 + rank as u64 % 2);
            let mut layer_shape = shape.clone();
            acts.push(Act::Host(20 * US + pace.below(60_000) as i64));
            for layer in 0..layers {
                let us = (20 + layer_shape.below(200)) as i64;
                acts.push(self.kernel("gemm", pace.near(us * US), rank));
                // At least three sizes: fewer do not show the latency.
                let elements = 1 << (14 + 3 * (layer % 3) + layer_shape.below(3));
                acts.push(Act::Meet(Meeting {
                    name: "AllReduce",
                    ns: self.transfer(4 * elements),
                    elements,
                }));
            }
            acts.push(Act::Fence(NCCL, COMPUTE));
            acts.push(self.kernel("adam", 60 * US, rank));
        }
        let end = Act::Sync("cudaDeviceSynchronize", None);
        acts.push(Act::Op("aten::item".to_owned(), vec![end]));
        acts
    }

    fn kernel(&self, name: &str, ns: i64, rank: usize) -> Act {
        let (all, slow) = self.kernels;
        let factor = if rank == 2 { all * slow } else { all };
        let work = Work {
            name: name.to_owned(),
            stream: COMPUTE,
            ns: (ns as f64 * factor).round() as i64,
            blocks: 400,
        };
        Act::Op(
            format!("aten::{name}"),
            vec![Act::Host(4 * US), Act::Launch(work)],
        )
    }

    fn run(&self) -> Vec<RanRank> {
        let programs: Vec<Vec<Act>> = (0..self.ranks).map(|rank| self.program(rank)).collect();
        run_program(&programs, QUEUE_DEPTH)
    }
}

fn makespan(ran: &[RanRank]) -> i64 {
    let spans = ran.iter().map(RanRank::makespan);
    let whole = spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    whole.map_or(0, |(first, last)| last - first)
}

/// Way in which traces name their groups.
#[derive(Clone, Copy, PartialEq)]
enum GroupNames {
    Listed,
    /// By an address, which differs between ranks, without the group's size, as PyTorch before 2.2.
    Address,
}

fn address(rank: usize) -> String {
    (94_594_108_284_448 + 4_096 * rank).to_string()
}

fn link(ran: &[RanRank], names: GroupNames) -> Vec<LinkedTrace> {
    let draws = ran.iter().enumerate();
    draws
        .map(|(rank, one)| {
            let text = draw_rank(one, rank, ran.len(), true).kineto();
            let mut text = String::from_utf8_lossy(&text).replace("Drawn Device", DEVICE);
            if names == GroupNames::Address {
                let name = format!("\"Process Group Name\": \"{}\"", address(rank));
                text = text.replace("\"Process Group Name\": \"0\"", &name);
                for key in [
                    "Process Group Description",
                    "Process Group Ranks",
                    "Group size",
                ] {
                    text = text.replace(&format!("\"{key}\""), &format!("\"no {key}\""));
                }
                assert!(text.contains(&name));
            }
            link_text(text.as_bytes(), rank)
        })
        .collect()
}

/// Answers the question from the traces of all ranks: the makespan before and after.
fn predict(question: &str, ran: &[RanRank], names: GroupNames) -> (i64, i64) {
    let asked: WhatIfQuestion = question.parse().expect("a question");
    let traces = link(ran, names);
    let (mut graphs, mut summaries, mut names) = (vec![], vec![], vec![]);
    for (rank, trace) in (0..).map(GlobalRank).zip(&traces) {
        summaries.push(RankSummary::from_trace(trace, rank));
        names.push(RankNames::from_labels(trace, trace.nodes.len()));
        graphs.push(RankGraph {
            rank,
            graph: graph_from_trace(trace).expect("a graph"),
            uncertainty_ns: DurationNs::ZERO,
        });
    }
    let nodes = collective_nodes(&summaries, &join_ranks(&summaries));
    let joined = join_graphs(&graphs, &nodes.collectives).expect("a graph of all");
    let edits = match asked {
        WhatIfQuestion::Straggler(rank) => {
            let labels = RankLabels {
                joined: &joined,
                ranks: &names,
                collectives: &nodes.collectives,
            };
            straggler_edits(&joined.graph, &labels, rank).expect("an answer")
        }
        _ => {
            let answers = traces.iter().map(|trace| asked.rank_answer(trace));
            let answers: Vec<_> = answers.map(|answer| answer.expect("an answer")).collect();
            let first = (0..traces.len()).filter_map(|rank| joined.first_node(RankIdx::new(rank)));
            let answers: Vec<_> = first.zip(&answers).collect();
            answer_for_graph(&joined.graph, &answers).edits
        }
    };
    let run = |edits: GraphEdits| -> ReplayRun {
        let settings = ReplaySettings {
            edits,
            ..ReplaySettings::default()
        };
        run_graph(&joined.graph, &RankNames::default(), &settings)
    };
    let plain = run(GraphEdits::default()).makespan().0;
    (plain, run(edits).makespan().0)
}

/// Runs programs as they are, asks, and runs them as the question says: 95 of 100 answers must be
/// within 1 % of the new time.
fn hold_question(
    question: &str,
    recorded: impl Fn(u64) -> Setup,
    changed: impl Fn(Setup) -> Setup,
) {
    let mut errors = vec![];
    for seed in 0..20 {
        let setup = recorded(seed);
        let ran = setup.run();
        let (before, truth) = (makespan(&ran), makespan(&changed(setup).run()));
        let (plain, predicted) = predict(question, &ran, GroupNames::Listed);
        assert_eq!(plain, before, "{question}, seed {seed}");
        let error = (predicted - truth).abs() as f64 / truth as f64;
        let unchanged = (before - truth).abs() as f64 / truth as f64;
        errors.push((error, unchanged, seed));
    }
    errors.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (median, p95) = (errors[errors.len() / 2].0, errors[errors.len() * 95 / 100]);
    let unchanged = errors.iter().map(|error| error.1).sum::<f64>() / errors.len() as f64;
    println!(
        "{question}: median {:.3} %, p95 {:.3} % (seed {}); had nothing changed {:.1} %",
        100.0 * median,
        100.0 * p95.0,
        p95.2,
        100.0 * unchanged
    );
    assert!(unchanged > 0.03, "{question} changes something");
    assert!(p95.0 <= 0.01, "{question}: {errors:?}");
}

#[test]
fn a_network_of_another_bandwidth() {
    for (question, bandwidth) in [("bandwidth=default_pg:4", 4.0), ("bandwidth=0:0.5", 0.5)] {
        hold_question(question, Setup::random, |setup| Setup {
            bandwidth,
            ..setup
        });
    }
}

/// Groups are the same by their members, however traces name them.
#[test]
fn groups_without_names_are_found_by_their_members() {
    let ran = Setup::random(3).run();
    for (question, listed) in [
        ("bandwidth=default_pg:4".to_owned(), "bandwidth=0:4"),
        (format!("bandwidth={}:4", address(0)), "bandwidth=0:4"),
        ("ranks=16".to_owned(), "ranks=16"),
    ] {
        let by_address = predict(&question, &ran, GroupNames::Address);
        assert_eq!(by_address, predict(listed, &ran, GroupNames::Listed));
        assert_ne!(by_address.0, by_address.1);
    }
}

#[test]
fn more_ranks_and_fewer() {
    for (question, ranks) in [("ranks=16", 16), ("ranks=2", 2)] {
        hold_question(question, Setup::random, |setup| Setup { ranks, ..setup });
    }
}

#[test]
fn another_device() {
    let memory = |name| DevicePeaks::find(name, None).and_then(|peaks| peaks.gb_per_s);
    let [own, other] = [DEVICE, OTHER_DEVICE].map(|name| memory(name).expect("a known device"));
    let question = format!("device={OTHER_DEVICE}");
    hold_question(&question, Setup::random, |setup| Setup {
        kernels: (own / other, 1.0),
        ..setup
    });
}

#[test]
fn a_rank_that_is_no_slower_than_the_others() {
    let slower = |seed| Setup {
        kernels: (1.0, 1.6),
        ..Setup::random(seed)
    };
    hold_question("straggler=2", slower, |setup| Setup {
        kernels: (1.0, 1.0),
        ..setup
    });
}
