//! Plants each kind with several seeds, and runs programs with nothing planted.

use crate::findings::draw::draw_rank;
use crate::findings::faults::{Planted, Recipe, build_programs, needs_ranks};
use crate::findings::program::{MS, QUEUE_DEPTH, RanRank, run_program};
use crate::findings::random::Random;
use etlink_analysis::findings::{
    CauseKind, KINDS, RankCauses, RankPart, RunFindings, rank_causes, run_findings,
};
use etlink_analysis::{KernelRules, Options, analyze};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::ranks::{RankSummary, RunSteps, infer_collectives, join_ranks};
use etlink_link::{LinkOptions, LinkedTrace, TensorEdges};
use etlink_model::{DurationNs, GlobalRank, KeepEvents, NodeIdx, RankIdx};
use etlink_replay::{RankGraph, collective_nodes, graph_from_trace, join_graphs};
use etlink_testing::TraceBuilder;

/// A program with a fault, and the findings.
struct Outcome {
    kinds: Vec<CauseKind>,
    found: RunFindings,
    /// For each planted kind: true gain of the program without it.
    truth: Vec<i64>,
}

fn execute(recipe: &Recipe) -> Vec<RanRank> {
    // With the fault "queue full" fixed, the queue is unlimited.
    let is_mended = recipe.planted.mended.contains(&Some(CauseKind::QueueFull));
    let depth = if is_mended { usize::MAX } else { QUEUE_DEPTH };
    run_program(&build_programs(recipe), depth)
}

fn makespan(ran: &[RanRank]) -> i64 {
    let spans = ran.iter().map(RanRank::makespan);
    let (first, last) = spans
        .reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        .expect("ranks");
    last - first
}

pub(crate) fn link_rank(ran: &RanRank, rank: usize, ranks: usize, sync_rows: bool) -> LinkedTrace {
    link_drawn(&draw_rank(ran, rank, ranks, sync_rows), rank)
}

pub(crate) fn link_drawn(draw: &TraceBuilder, rank: usize) -> LinkedTrace {
    link_text(&draw.kineto(), rank)
}

pub(crate) fn link_text(text: &[u8], rank: usize) -> LinkedTrace {
    let options = KinetoReadOptions {
        keep: KeepEvents::Auxiliary,
        ..KinetoReadOptions::default()
    };
    let device = etlink_formats::kineto::read(text, options).expect("a device trace");
    let options = LinkOptions {
        rank: Some(GlobalRank(rank as i64)),
        tensor_deps: TensorEdges::None,
        ..LinkOptions::default()
    };
    etlink_link::link(None, device, options).expect("links")
}

/// Returns the findings of a single rank's trace.
pub(crate) fn find_in_trace(draw: &TraceBuilder) -> RunFindings {
    let rules = KernelRules::built_in().expect("rules");
    let trace = link_drawn(draw, 0);
    let analysis = analyze(&trace, &rules, &Options::default());
    let part = RankPart {
        first: NodeIdx(0),
        causes: rank_causes(&trace, &rules, &analysis),
    };
    run_findings(
        &graph_from_trace(&trace).expect("a graph"),
        vec![part],
        &RunSteps::default(),
    )
}

pub(crate) fn find(ran: &[RanRank], sync_rows: bool) -> RunFindings {
    let traces = ran.iter().enumerate();
    find_in_ranks(traces.map(|(rank, one)| link_rank(one, rank, ran.len(), sync_rows)))
}

/// Returns the findings of the traces of all ranks, in order.
pub(crate) fn find_in_ranks(traces: impl Iterator<Item = LinkedTrace>) -> RunFindings {
    let rules = KernelRules::built_in().expect("rules");
    let (mut causes, mut graphs, mut summaries): (Vec<RankCauses>, _, _) = (vec![], vec![], vec![]);
    for (rank, trace) in traces.enumerate() {
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
            causes: causes.remove(0),
        };
        return run_findings(&one.graph, vec![part], &RunSteps::default());
    }
    infer_collectives(&mut summaries);
    let matches = join_ranks(&summaries);
    let nodes = collective_nodes(&summaries, &matches);
    let joined = join_graphs(&graphs, &nodes.collectives).expect("a graph of all");
    let mut parts = vec![];
    for (place, causes) in causes.into_iter().enumerate() {
        let first = joined.first_node(RankIdx::new(place)).expect("a rank");
        parts.push(RankPart { first, causes });
    }
    run_findings(&joined.graph, parts, &RunSteps::of_ranks(&summaries, &[]))
}

fn plant(kinds: &[CauseKind], seed: u64) -> Outcome {
    let mut faults = [None; 2];
    for (slot, kind) in faults.iter_mut().zip(kinds) {
        *slot = Some(*kind);
    }
    let ranks = if kinds.iter().any(|kind| needs_ranks(*kind)) {
        4
    } else {
        [1, 2, 4][(seed % 3) as usize]
    };
    let recipe = |mended| Recipe {
        seed,
        ranks,
        planted: Planted { faults, mended },
    };
    // The machine runs the truth too; it is never replayed.
    let ran = execute(&recipe([None; 2]));
    let mut truth = vec![];
    for kind in kinds {
        let without = execute(&recipe([Some(*kind), None]));
        truth.push(makespan(&ran) - makespan(&without));
    }
    Outcome {
        kinds: kinds.to_vec(),
        found: find(&ran, seed.is_multiple_of(2)),
        truth,
    }
}

/// Returns the error of a gain, relative to the truth.
fn gain_error(found: &RunFindings, kind: CauseKind, truth: i64) -> Option<f64> {
    let finding = found.findings.iter().find(|one| one.kind == kind)?;
    Some((finding.gain_ns - truth) as f64 / truth as f64)
}

/// Numbers of programs and of correct assertions.
#[derive(Default)]
struct Score {
    programs: u32,
    /// Programs whose first finding is a planted fault.
    named: u32,
    /// Planted faults that matter, and those found.
    faults: u32,
    found: u32,
    /// Found faults whose gain is within a tenth of the truth.
    exact: u32,
    worst: f64,
    /// Findings of kinds that were not planted.
    others: u32,
}

/// Smallest share of the run that matters: see `LEAST_GAIN`.
const MATTERS: f64 = 0.03;

impl Score {
    fn add(&mut self, outcome: &Outcome) {
        // A kernel with a fifth of the time is named in every program, without being a fault.
        let is_fault =
            |kind: &CauseKind| *kind != CauseKind::DominantKernel || outcome.kinds.contains(kind);
        let findings = outcome.found.findings.iter().map(|one| one.kind);
        let findings: Vec<CauseKind> = findings.filter(is_fault).collect();
        let first = findings.first().copied();
        self.programs += 1;
        self.named += u32::from(first.is_some_and(|first| outcome.kinds.contains(&first)));
        for (kind, truth) in outcome.kinds.iter().zip(&outcome.truth) {
            let error = gain_error(&outcome.found, *kind, *truth);
            let share = *truth as f64 / outcome.found.window_ns as f64;
            // A fault too small to report is neither a miss nor a success.
            if error.is_none() && share < MATTERS {
                continue;
            }
            self.faults += 1;
            self.found += u32::from(error.is_some());
            self.exact += u32::from(error.is_some_and(|error| error.abs() <= 0.1));
            self.worst = error.map_or(self.worst, |error| self.worst.max(error.abs()));
        }
        let is_other = |kind: &CauseKind| !outcome.kinds.contains(kind);
        self.others += findings.into_iter().filter(is_other).count() as u32;
    }

    fn line(&self, title: &str) -> String {
        format!(
            "{title}: {} programs, first finding planted {}, faults found {} of {}, gain within \
             10 % {}, worst {:.1} %, other findings {}",
            self.programs,
            self.named,
            self.found,
            self.faults,
            self.exact,
            100.0 * self.worst,
            self.others
        )
    }

    /// Asserts that 95 % of the programs and gains are right.
    fn assert_good(&self, title: &str) {
        let line = self.line(title);
        assert!(self.named * 100 >= self.programs * 95, "{line}");
        assert!(self.exact * 100 >= self.faults * 95, "{line}");
    }
}

fn print_outcome(seed: u64, outcome: &Outcome) {
    let findings = &outcome.found.findings;
    let kinds: Vec<CauseKind> = findings.iter().map(|one| one.kind).collect();
    let errors = outcome.kinds.iter().zip(&outcome.truth);
    let errors: Vec<String> = errors
        .map(|(kind, truth)| {
            let error = gain_error(&outcome.found, *kind, *truth);
            let error = error.map_or("none".to_owned(), |error| {
                format!("{:+.1} %", 100.0 * error)
            });
            format!("truth {:.2} ms {error}", *truth as f64 / MS as f64)
        })
        .collect();
    let window = outcome.found.window_ns as f64 / MS as f64;
    let planted = &outcome.kinds;
    println!(
        "{planted:?} {seed}: {window:.2} ms; {}; {kinds:?}",
        errors.join(", ")
    );
}

/// Returns the number of seeds; the variable `SEEDS` sets another.
fn seeds() -> u64 {
    let asked = std::env::var("SEEDS")
        .ok()
        .and_then(|asked| asked.parse().ok());
    asked.unwrap_or(2)
}

#[test]
fn first_finding_names_the_planted_fault() {
    let mut all = Score::default();
    for rule in &KINDS {
        let mut score = Score::default();
        for seed in 1..=seeds() {
            let outcome = plant(&[rule.kind], seed);
            score.add(&outcome);
            all.add(&outcome);
            print_outcome(seed, &outcome);
            if let Some(first) = outcome.found.findings.first().filter(|_| seed == 1) {
                println!("    {}", first.text());
            }
        }
        println!("  {}", score.line(&format!("{:?}", rule.kind)));
    }
    println!("{}", all.line("alone"));
    all.assert_good("alone");
}

#[test]
fn of_two_faults_the_first_finding_names_one() {
    let mut score = Score::default();
    let mut dice = Random(7);
    for seed in 1..=10 * seeds() {
        let mut pick = || KINDS[dice.below(KINDS.len() as u64) as usize].kind;
        let (one, other) = (pick(), pick());
        let pair = [one, other];
        // A burst of launches makes programs of one step.
        let no_steps = pair.contains(&CauseKind::QueueFull) && pair.contains(&CauseKind::FirstStep);
        if one == other || no_steps {
            continue;
        }
        let outcome = plant(&pair, seed);
        score.add(&outcome);
        print_outcome(seed, &outcome);
    }
    println!("{}", score.line("two at once"));
    score.assert_good("two at once");
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for seed in 101..=110 {
        let outcome = plant(&[], seed);
        let findings = outcome.found.findings.iter();
        let told: Vec<_> = findings.map(|one| one.text()).collect();
        assert!(told.is_empty(), "seed {seed}: {told:#?}");
    }
}
