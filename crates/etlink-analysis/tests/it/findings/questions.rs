//! Checks answers to named questions against programs that are built and run as the question says.

use MachineInstruction::{DeviceSync, Graph, Host, Launch, Op, Record, StreamSync, StreamWait};
use etlink_analysis::findings::{
    CauseKind, QuestionError, RankPart, WhatIfQuestion, answer_for_graph, rank_causes, run_findings,
};
use etlink_analysis::{KernelRules, Options, analyze};
use etlink_link::ranks::RunSteps;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplaySettings, graph_from_trace, run_graph, work_makespan};
use etlink_testing::{Machine, MachineChange, MachineInstruction, MachineOptions};

fn launch(kernel: &'static str, us: i64) -> MachineInstruction {
    let stream = 7;
    let launch = Launch { stream, kernel, us };
    Op("aten::op", vec![Host(4), launch, Host(1)])
}

fn run(program: &[MachineInstruction]) -> Machine {
    let options = MachineOptions {
        sync_rows: true,
        ..MachineOptions::default()
    };
    Machine::run(program, options, MachineChange::None)
}

fn link(machine: &Machine) -> LinkedTrace {
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let device =
        etlink_formats::kineto::read(&machine.trace.kineto()[..], options).expect("a trace");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

/// Asks about a program, and compares with a run of the changed program.
fn check(question: &str, program: &[MachineInstruction], changed: &[MachineInstruction]) {
    let (recorded, truth) = (run(program), run(changed));
    let trace = link(&recorded);
    let graph = graph_from_trace(&trace).expect("no circle");
    let asked: WhatIfQuestion = question.parse().expect("a question");
    let answer = asked.rank_answer(&trace).expect("an answer");
    let settings = ReplaySettings {
        edits: answer_for_graph(&graph, &[(NodeIdx(0), &answer)]).edits,
        ..ReplaySettings::default()
    };
    let predicted = work_makespan(&graph, &run_graph(&graph, &trace, &settings)).0;
    let change = (truth.makespan - recorded.makespan).abs();
    assert!(change > 100_000, "{question} changes something: {change}");
    let off = (predicted - truth.makespan).abs();
    // A graph's own launch takes as long as five others.
    assert!(
        off * 20 <= change || off <= 20_000,
        "{question}: {} -> {predicted}, in truth {}",
        recorded.makespan,
        truth.makespan
    );
}

#[test]
fn launches_become_a_graph() {
    let mut program = vec![];
    let mut rows = vec![];
    for at in 0..60_usize {
        program.push(launch("gemm", 3));
        rows.push((7, "gemm", 3, at.checked_sub(1).into_iter().collect()));
    }
    program.push(DeviceSync);
    let graph = Op("replay", vec![Host(4), Graph(rows)]);
    check("graphs", &program, &[graph, DeviceSync]);
}

/// A host of any speed is launch-bound by the question's answer. A slow host needs launches enough to
/// show that long times between them are usual: otherwise they are work.
#[test]
fn launch_bound_programs_gain_what_graphs_gain() {
    let input = Op(
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        vec![Host(90)],
    );
    let quick = [10, 60, 150].map(|host_us| [3, 8, 80].map(|ops| (host_us, ops)));
    let slow = [260, 320].map(|host_us| (host_us, 80));
    for (host_us, ops) in quick.into_iter().flatten().chain(slow) {
        let mut program = vec![];
        for at in 0..ops {
            let work = [Host(host_us), launch("add", 3), launch("gemm", 4 + at % 3)];
            program.push(Op("aten::linear", work.to_vec()));
            match at % 20 {
                5 => program.push(input.clone()),
                11 => program.push(Op("aten::item", vec![StreamSync(7)])),
                _ => {}
            }
        }
        program.push(DeviceSync);
        let trace = link(&run(&program));
        let graph = graph_from_trace(&trace).expect("no circle");
        let makespan = |edits: GraphEdits| {
            let settings = ReplaySettings {
                edits,
                ..ReplaySettings::default()
            };
            work_makespan(&graph, &run_graph(&graph, &trace, &settings)).0
        };
        let asked: WhatIfQuestion = "graphs".parse().expect("a question");
        let answer = asked.rank_answer(&trace).expect("an answer");
        let answer = answer_for_graph(&graph, &[(NodeIdx(0), &answer)]).edits;
        let answer_ns = makespan(GraphEdits::default()) - makespan(answer);
        let rules = KernelRules::built_in().expect("rules");
        let analysis = analyze(&trace, &rules, &Options::default());
        let causes = rank_causes(&trace, &rules, &analysis);
        let part = RankPart {
            first: NodeIdx(0),
            causes,
        };
        let found = run_findings(&graph, vec![part], &RunSteps::default());
        let mut findings = found.findings.iter();
        let finding = findings.find(|one| one.kind == CauseKind::SmallKernels);
        let finding = finding.unwrap_or_else(|| panic!("{host_us} us, {ops} ops: {found:#?}"));
        let off = (finding.gain_ns - answer_ns).abs();
        assert!(
            off <= 1_000,
            "{host_us} us: {} and {answer_ns}",
            finding.gain_ns
        );
        // Only the host's time for fetching input and waiting remains.
        assert!(
            answer_ns > (ops - 2 - ops / 10) * host_us * 1_000,
            "{host_us} us, {ops} ops: {answer_ns}"
        );
    }
}

#[test]
fn kernels_become_one() {
    let (mut program, mut changed) = (vec![], vec![]);
    for _ in 0..40 {
        program.extend([launch("gemm", 2), launch("add", 3), launch("mul", 3)]);
        changed.extend([launch("gemm", 2), launch("add_mul", 6)]);
    }
    check("fuse=^(add|mul)$", &program, &changed);
}

#[test]
fn nothing_waits_for_the_device() {
    let (mut program, mut changed) = (vec![], vec![]);
    for _ in 0..10 {
        let step = [launch("gemm", 100), Host(60), launch("relu", 10)];
        program.extend_from_slice(&step);
        program.push(Op("aten::item", vec![StreamSync(7)]));
        changed.extend_from_slice(&step);
        changed.push(Op("aten::item", vec![]));
    }
    check("no-sync", &program, &changed);
}

#[test]
fn input_is_always_there() {
    let (mut program, mut changed) = (vec![], vec![]);
    let name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    for _ in 0..5 {
        program.push(Op(name, vec![Host(400)]));
        program.extend([launch("gemm", 100), launch("relu", 10)]);
        changed.extend([launch("gemm", 100), launch("relu", 10)]);
    }
    check("no-input-wait", &program, &changed);
}

#[test]
fn communication_is_hidden() {
    let step = |us, waits: bool| {
        let reduce = Launch {
            stream: 20,
            kernel: "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            us,
        };
        let begin = [
            Record {
                event: 1,
                stream: 7,
            },
            StreamWait {
                stream: 20,
                event: 1,
            },
            reduce,
        ];
        let mut join = vec![Record {
            event: 2,
            stream: 20,
        }];
        if waits {
            join.push(StreamWait {
                stream: 7,
                event: 2,
            });
        }
        vec![
            launch("gemm", 100),
            Op("c10d::allreduce_", begin.to_vec()),
            Op("c10d::wait", join),
            launch("optimizer", 30),
        ]
    };
    // Longer than the work of a step, communication takes turns on the network, whatever waits.
    for us in [40, 200] {
        let program: Vec<_> = (0..6).flat_map(|_| step(us, true)).collect();
        let changed: Vec<_> = (0..6).flat_map(|_| step(us, false)).collect();
        check("overlap-comm", &program, &changed);
    }
}

#[test]
fn what_cannot_be_answered_says_why() {
    let trace = link(&run(&[launch("gemm", 10), DeviceSync]));
    for (question, why) in [
        ("graphs", "no thread launches several kernels"),
        ("fuse=softmax", "matches no kernel"),
        ("no-input-wait", "no range of a data loader"),
        ("overlap-comm", "no communication"),
        ("ranks=64", "how many ranks"),
        ("bandwidth=mesh_tp:2", "no process groups"),
        ("device=H100 80GB HBM3", "\"Drawn Device\" are not known"),
        ("straggler=1", "the traces of several ranks"),
    ] {
        let asked: WhatIfQuestion = question.parse().expect("a question");
        assert_eq!(asked.to_string(), question);
        let answer = asked.rank_answer(&trace).expect_err("no answer");
        assert!(answer.to_string().contains(why), "{question}: {answer}");
    }
}

#[test]
fn what_is_no_question_lists_those_that_are() {
    let parse = |text: &str| text.parse::<WhatIfQuestion>().expect_err("no question");
    let unknown = parse("grafs");
    assert!(
        unknown
            .to_string()
            .contains("graphs, fuse=REGEX, no-input-wait")
    );
    for text in [
        "fuse=(",
        "fuse",
        "ranks=0",
        "bandwidth=tp",
        "device",
        "straggler=x",
        "graphs=2",
    ] {
        let error = parse(text);
        assert!(
            matches!(error, QuestionError::BadValue { .. }),
            "{text}: {error}"
        );
    }
}
