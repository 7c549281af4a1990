//! Programs with unusual launches: many rows from one op, rows without an op, graphs.

use crate::findings::faults::{ELEMENTWISE, Planted, Recipe, build_programs, op, work};
use crate::findings::planted::{find, link_rank};
use crate::findings::program::{Act, COMPUTE, QUEUE_DEPTH, RanRank, US, run_program};
use etlink_analysis::findings::{CauseCandidate, CauseKind, rank_causes};
use etlink_analysis::{KernelRules, Options, analyze};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::NodeIdx;

/// Number of rows of one op.
const MANY: usize = 2_000;

const COPY: &str = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>";

fn run_one(acts: Vec<Act>) -> RanRank {
    let mut ran = run_program(&[acts], QUEUE_DEPTH);
    ran.pop().expect("a rank")
}

/// Returns the candidate of a kind in a program, and the program's trace.
fn candidate_of(kind: CauseKind, acts: Vec<Act>) -> (LinkedTrace, CauseCandidate) {
    let trace = link_rank(&run_one(acts), 0, 1, false);
    let rules = KernelRules::built_in().expect("rules");
    let analysis = analyze(&trace, &rules, &Options::default());
    let causes = rank_causes(&trace, &rules, &analysis);
    let mut candidates = causes.candidates.into_iter();
    let one = candidates.find(|one| one.kind == kind);
    (trace, one.unwrap_or_else(|| panic!("no {kind:?}")))
}

fn step(number: u32, acts: Vec<Act>) -> Act {
    Act::Annotation(format!("ProfilerStep#{number}"), acts)
}

/// Makes launches with host work before each.
fn launches(kernel: &str, count: usize) -> Vec<Act> {
    let one = |_| {
        [
            Act::Host(10 * US),
            Act::Launch(work(kernel, COMPUTE, 30 * US)),
        ]
    };
    (0..count).flat_map(one).collect()
}

/// Returns the kinds of the thread slices that a candidate removes.
fn removed_on_host(trace: &LinkedTrace, candidate: &CauseCandidate) -> Vec<NodeKind> {
    let mut removed: Vec<NodeIdx> = candidate.edits.removed.clone();
    removed.sort_unstable();
    removed.dedup();
    let nodes = removed.iter().map(|node| trace.nodes.get(*node));
    nodes
        .filter(|node| !node.on_device)
        .map(|node| node.kind)
        .collect()
}

#[test]
fn what_many_rows_have_in_common_is_taken_out_once() {
    let mut reads = vec![];
    for _ in 0..MANY {
        reads.push(Act::Launch(work("reduce_rows", COMPUTE, 20 * US)));
        reads.push(Act::Sync("cudaStreamSynchronize", Some(COMPUTE)));
    }
    let programs = [
        (
            CauseKind::FusibleChain,
            op("aten::_foreach_add_", launches(ELEMENTWISE, MANY)),
        ),
        (
            CauseKind::TensorCopies,
            op("aten::cat", launches(COPY, MANY)),
        ),
        (CauseKind::ScalarRead, op("aten::equal", reads)),
    ];
    for (kind, act) in programs {
        let (trace, candidate) = candidate_of(kind, vec![step(1, vec![act])]);
        let edits = candidate.edits.removed.len() + candidate.edits.freed.len();
        let nodes = trace.nodes.indices().count();
        assert!(
            edits <= 2 * nodes,
            "{kind:?}: {edits} edits of {nodes} nodes"
        );
    }
}

#[test]
fn rows_of_the_profiler_that_overlap_count_once() {
    let overhead = vec![
        Act::Overhead(80 * US),
        Act::Host(10 * US),
        Act::Launch(work("gemm", COMPUTE, 30 * US)),
    ];
    let mut ran = run_one(vec![step(1, overhead)]);
    let whole = ran.overhead[0];
    let (_, once) = overhead_of(&ran);
    ran.overhead.push((whole.0 + 10 * US, whole.1));
    let (_, twice) = overhead_of(&ran);
    assert_eq!(twice, once);
}

fn overhead_of(ran: &RanRank) -> (LinkedTrace, Vec<(NodeIdx, f64)>) {
    let trace = link_rank(ran, 0, 1, false);
    let rules = KernelRules::built_in().expect("rules");
    let analysis = analyze(&trace, &rules, &Options::default());
    let causes = rank_causes(&trace, &rules, &analysis);
    let mut candidates = causes.candidates.into_iter();
    let one = candidates.find(|one| one.kind == CauseKind::ProfilerOverhead);
    (trace, one.expect("overhead").edits.scaled)
}

#[test]
fn a_fused_chain_leaves_what_the_host_does_besides() {
    let block = Act::Annotation("block".to_owned(), launches(ELEMENTWISE, 10));
    let (trace, chain) = candidate_of(CauseKind::FusibleChain, vec![step(1, vec![block])]);
    // Nine launches go; the longest kernel's launch and the work in between stay.
    assert_eq!(removed_on_host(&trace, &chain), [NodeKind::Runtime; 9]);

    // One op launches all kernels: the remaining kernel is its work too.
    let all = op("aten::_foreach_add_", launches(ELEMENTWISE, 10));
    let (trace, chain) = candidate_of(CauseKind::FusibleChain, vec![step(1, vec![all])]);
    assert_eq!(removed_on_host(&trace, &chain), [NodeKind::Runtime; 9]);

    // One op per kernel: the other ops go with their launches.
    let ops = (0..10).map(|_| op("aten::mul", launches(ELEMENTWISE, 1)));
    let (trace, chain) = candidate_of(CauseKind::FusibleChain, vec![step(1, ops.collect())]);
    assert!(removed_on_host(&trace, &chain).len() > 9);

    // The graph is launched all the same.
    let graph = Act::Graph(vec![work(ELEMENTWISE, COMPUTE, 30 * US); 10]);
    let (trace, chain) = candidate_of(CauseKind::FusibleChain, vec![step(1, vec![graph])]);
    assert_eq!(removed_on_host(&trace, &chain), []);
}

#[test]
fn chains_end_where_a_program_cannot_be_fused() {
    let chain = || launches(ELEMENTWISE, 4);
    let chains = |acts| {
        candidate_of(CauseKind::FusibleChain, acts)
            .1
            .evidence
            .compared
    };
    let joined = |between: Act| {
        let parts = [chain(), vec![between], chain()];
        vec![step(1, parts.concat())]
    };
    assert_eq!(chains(joined(Act::Host(US))), Some(1.0));
    assert_eq!(chains(joined(Act::Host(400 * US))), Some(2.0));
    let wait = Act::Sync("cudaStreamSynchronize", Some(COMPUTE));
    assert_eq!(chains(joined(wait)), Some(2.0));
    assert_eq!(chains(vec![step(1, chain()), step(2, chain())]), Some(2.0));
}

#[test]
fn a_checkpoint_inside_of_another_counts_once() {
    let name = "CheckpointFunctionBackward";
    let again = || launches("layer_norm_kernel", 4);
    let inner = || op(name, again());
    let counts = |between: Act| {
        let outer = op(name, [again(), vec![between]].concat());
        let (_, found) = candidate_of(CauseKind::Recomputation, vec![step(1, vec![outer])]);
        (found.evidence.count, found.evidence.time_ns)
    };
    // Eight kernels are recomputed, however the checkpoints nest.
    assert_eq!(counts(inner()), (1, 8 * 30 * US));
    let engine = format!("autograd::engine::evaluate_function: {name}");
    assert_eq!(counts(op(&engine, vec![inner()])), (2, 8 * 30 * US));
}

/// Builds programs with a fault, and steps with this name prefix.
fn named_steps(kind: CauseKind, begin: &str) -> Vec<Vec<Act>> {
    let planted = Planted {
        faults: [Some(kind), None],
        mended: [None; 2],
    };
    let mut programs = build_programs(&Recipe {
        seed: 3,
        ranks: 1,
        planted,
    });
    for act in programs.iter_mut().flatten() {
        let Act::Annotation(name, acts) = act else {
            continue;
        };
        *name = name.replace("ProfilerStep#", begin);
        for inner in acts {
            // Steps of optimizers would be mistaken for the program's steps.
            if let Act::Annotation(name, _) = inner {
                *name = name.replace("Optimizer.step#AdamW.step", "update weights");
            }
        }
    }
    programs
}

#[test]
fn what_steps_are_called_changes_nothing() {
    for kind in [
        CauseKind::HostWork,
        CauseKind::FirstStep,
        CauseKind::ScalarRead,
        CauseKind::ExplicitSync,
        CauseKind::InputPipeline,
    ] {
        let found = |begin| {
            let ran = run_program(&named_steps(kind, begin), QUEUE_DEPTH);
            let findings = find(&ran, false).findings.into_iter();
            findings.map(|one| one.text()).collect::<Vec<_>>()
        };
        let profiler = found("ProfilerStep#");
        assert!(!profiler.is_empty(), "{kind:?}");
        assert_eq!(found("step "), profiler, "{kind:?}");
    }
}

#[test]
fn a_full_queue_is_full_at_what_it_holds() {
    // Differs from CUDA's 1,024: the calls must show it.
    const DEPTH: usize = 300;
    let short = launches("short_kernel", 900);
    let acts = vec![Act::Annotation("ProfilerStep#1".to_owned(), short)];
    let ran = run_program(&[acts], DEPTH).pop().expect("a rank");
    let trace = link_rank(&ran, 0, 1, false);
    let rules = KernelRules::built_in().expect("rules");
    let analysis = analyze(&trace, &rules, &Options::default());
    let causes = rank_causes(&trace, &rules, &analysis);
    let mut candidates = causes.candidates.iter();
    let full = candidates.find(|one| one.kind == CauseKind::QueueFull);
    let evidence = &full.expect("a full queue").evidence;
    let [queue] = &analysis.queues[..] else {
        panic!("one stream")
    };
    // All commands use the linker's value.
    let depth = evidence.depth.expect("a depth");
    assert_eq!(queue.limit, evidence.depth);
    assert!(depth.abs_diff(DEPTH as u64) <= 2, "{depth}");
    assert_eq!(
        (queue.blocked, queue.full_ns),
        (evidence.count, evidence.time_ns)
    );
    assert!(queue.blocked > 100, "{queue:?}");
}
