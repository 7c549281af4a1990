//! The table: each kind planted, several seeds, and programs with nothing planted.

use crate::draw::draw_rank;
use crate::faults::{Planted, Recipe, build_programs, needs_ranks};
use crate::program::{MS, QUEUE_DEPTH, RanRank, run_program};
use etlink_analyze::{KernelRules, Options, analyze};
use etlink_findings::{
    CauseKind, KINDS, RankCauses, RankPart, RunFindings, rank_causes, run_findings,
};
use etlink_kineto::{KeepEvents, KinetoReadOptions};
use etlink_link::ranks::{RankSummary, join_ranks};
use etlink_link::{LinkOptions, LinkedTrace, TensorEdges};
use etlink_model::{DurationNs, GlobalRank, NodeIdx, RankIdx};
use etlink_replay::{RankGraph, collective_nodes, graph_from_trace, join_graphs};

/// A program with a fault, and what was found.
struct Outcome {
    kinds: Vec<CauseKind>,
    found: RunFindings,
    /// Per planted kind, what the program without it gains.
    truth: Vec<i64>,
}

fn execute(recipe: &Recipe) -> Vec<RanRank> {
    // Without the fault "queue full" the queue is as deep as need be.
    let is_mended = recipe.planted.mended.contains(&Some(CauseKind::QueueFull));
    let depth = match is_mended {
        true => usize::MAX,
        false => QUEUE_DEPTH,
    };
    run_program(&build_programs(recipe), depth)
}

fn makespan(ran: &[RanRank]) -> i64 {
    let spans = ran.iter().map(RanRank::makespan);
    let (first, last) = spans
        .reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        .expect("ranks");
    last - first
}

fn link_rank(ran: &RanRank, rank: usize, ranks: usize, sync_rows: bool) -> LinkedTrace {
    let text = draw_rank(ran, rank, ranks, sync_rows).kineto();
    let options = KinetoReadOptions {
        keep: KeepEvents::Auxiliary,
        ..KinetoReadOptions::default()
    };
    let device = etlink_kineto::read(&text[..], options).expect("a device trace");
    let options = LinkOptions {
        rank: Some(GlobalRank(rank as i64)),
        tensor_deps: TensorEdges::None,
        ..LinkOptions::default()
    };
    etlink_link::link(None, device, options).expect("links")
}

fn find(ran: &[RanRank], sync_rows: bool) -> RunFindings {
    let rules = KernelRules::built_in().expect("rules");
    let (mut causes, mut graphs, mut summaries): (Vec<RankCauses>, _, _) = (vec![], vec![], vec![]);
    for (rank, one) in ran.iter().enumerate() {
        let trace = link_rank(one, rank, ran.len(), sync_rows);
        let analysis = analyze(&trace, &rules, &Options::default());
        causes.push(rank_causes(&trace, &rules, &analysis));
        summaries.push(RankSummary::from_trace(&trace, GlobalRank(rank as i64)));
        graphs.push(RankGraph {
            rank: GlobalRank(rank as i64),
            graph: graph_from_trace(&trace).expect("a graph"),
            uncertainty_ns: DurationNs::ZERO,
        });
    }
    if let [one] = &graphs[..] {
        let part = RankPart {
            first: NodeIdx(0),
            causes: &causes[0],
        };
        return run_findings(&one.graph, &[part]);
    }
    let matches = join_ranks(&summaries);
    let nodes = collective_nodes(&summaries, &matches);
    let joined = join_graphs(&graphs, &nodes.collectives).expect("a graph of all");
    let mut parts = vec![];
    for (place, causes) in causes.iter().enumerate() {
        let first = joined.first_node(RankIdx::new(place)).expect("a rank");
        parts.push(RankPart { first, causes });
    }
    run_findings(&joined.graph, &parts)
}

fn plant(kinds: &[CauseKind], seed: u64) -> Outcome {
    let mut faults = [None; 2];
    for (slot, kind) in faults.iter_mut().zip(kinds) {
        *slot = Some(*kind);
    }
    let ranks = match kinds.iter().any(|kind| needs_ranks(*kind)) {
        true => 4,
        false => 1 + (seed % 2) as usize,
    };
    let recipe = |mended| Recipe {
        seed,
        ranks,
        planted: Planted { faults, mended },
    };
    let ran = execute(&recipe([None; 2]));
    let mut truth = vec![];
    for kind in kinds {
        let without = execute(&recipe([Some(*kind), None]));
        truth.push(makespan(&ran) - makespan(&without));
    }
    Outcome {
        kinds: kinds.to_vec(),
        found: find(&ran, seed.is_multiple_of(3)),
        truth,
    }
}

/// By how much a gain is off, of the truth.
fn gain_error(found: &RunFindings, kind: CauseKind, truth: i64) -> Option<f64> {
    let finding = found.findings.iter().find(|one| one.kind == kind)?;
    Some((finding.gain_ns - truth) as f64 / truth as f64)
}

#[test]
fn first_finding_names_the_planted_fault() {
    let seeds = 1..=3;
    let (mut programs, mut named, mut true_gains) = (0, 0, 0);
    println!("planted, seed: truth ms, gain ms, error; first finding");
    for rule in &KINDS {
        for seed in seeds.clone() {
            let outcome = plant(&[rule.kind], seed);
            let (found, truth) = (&outcome.found, outcome.truth[0]);
            let first = found.findings.first();
            let error = gain_error(found, rule.kind, truth);
            programs += 1;
            named += usize::from(first.is_some_and(|first| first.kind == rule.kind));
            true_gains += usize::from(error.is_some_and(|error| error.abs() <= 0.1));
            println!(
                "{:?} {seed}: {:.2} of {:.2} ms, error {:.1} %; {:?} {}",
                rule.kind,
                truth as f64 / MS as f64,
                found.window_ns as f64 / MS as f64,
                error.map_or(f64::NAN, |error| 100.0 * error),
                found
                    .findings
                    .iter()
                    .map(|one| one.kind)
                    .collect::<Vec<_>>(),
                first.map_or("", |first| &first.sentence),
            );
        }
    }
    println!("{programs} programs: first finding {named}, gain within 10 % {true_gains}");
    assert!(named * 100 >= programs * 95, "{named} of {programs}");
    assert!(
        true_gains * 100 >= programs * 95,
        "{true_gains} of {programs}"
    );
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for seed in 101..=110 {
        let outcome = plant(&[], seed);
        assert!(outcome.kinds.is_empty());
        let told: Vec<_> = outcome
            .found
            .findings
            .iter()
            .map(|one| &one.sentence)
            .collect();
        assert!(told.is_empty(), "seed {seed}: {told:#?}");
    }
}
