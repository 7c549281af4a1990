//! Steps that predict each other.

use MachineInstruction::{Host, Launch, Op, Record, Step, StreamSync, StreamWait};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_replay::{CrossStepFigures, cross_step_figures, graph_from_trace};
use etlink_testing::{Machine, MachineChange, MachineInstruction, MachineOptions};

/// Steps whose kernels on a side stream are long in every other step: then the main stream waits.
pub(super) fn program() -> Vec<MachineInstruction> {
    let launch = |stream, kernel, us| Launch { stream, kernel, us };
    let mut steps = vec![];
    for step in 0..6 {
        let us = if step % 2 == 0 { 10 } else { 300 };
        let mut body = vec![
            Op("aten::copy_", vec![Host(3), launch(24, "side", us)]),
            Op("aten::mm", vec![Host(5 + step), launch(7, "gemm", 40)]),
        ];
        let join = [
            Record {
                event: 1,
                stream: 24,
            },
            StreamWait {
                stream: 7,
                event: 1,
            },
        ];
        body.push(Op("c10d::wait", join.to_vec()));
        body.push(Op("aten::relu", vec![Host(4), launch(7, "relu", 60)]));
        body.push(Op("aten::item", vec![Host(1), StreamSync(7)]));
        steps.push(Step(step as u32, body));
    }
    steps
}

pub(super) fn link(program: &[MachineInstruction], sync_rows: bool) -> LinkedTrace {
    let options = MachineOptions {
        sync_rows,
        ..MachineOptions::default()
    };
    let run = Machine::run(program, options, MachineChange::None);
    let read = etlink_formats::kineto::read(
        &run.trace.kineto()[..],
        etlink_formats::kineto::KinetoReadOptions::default(),
    );
    etlink_link::link(None, read.expect("a trace"), LinkOptions::default()).expect("links")
}

fn figures(trace: &LinkedTrace) -> CrossStepFigures {
    let graph = graph_from_trace(trace).expect("no circle");
    cross_step_figures(trace, &graph, 5).expect("steps that do the same")
}

#[test]
fn a_true_graph_predicts_the_other_steps() {
    let figures = figures(&link(&program(), true));
    assert_eq!((figures.steps, figures.pairs, figures.aligned), (6, 30, 30));
    assert!(figures.error.max <= 0.02, "{figures:#?}");
    assert!(figures.unchanged_error.median > 0.5, "{figures:#?}");
}

/// Without the waiting calls, the graph cannot know why the main stream is late in some steps.
#[test]
fn a_graph_that_lacks_edges_fails() {
    let mut trace = link(&program(), true);
    let calls = &mut trace.device.calls.name;
    let other = trace.device.names.find("cudaLaunchKernel");
    let is_wait = |name: &str| name.contains("Event");
    for name in calls.iter_mut() {
        if is_wait(trace.device.names.get(*name)) {
            *name = other.expect("launches");
        }
    }
    let mut device = trace.device;
    device.syncs = etlink_model::SyncRows::default();
    let again = etlink_link::link(None, device, LinkOptions::default()).expect("links");
    let figures = figures(&again);
    assert!(figures.error.p95 > 0.1, "{figures:#?}");
    let worst = figures.worst.expect("a worst one");
    assert!(!worst.deviations.is_empty(), "{worst:#?}");
}

#[test]
fn two_steps_are_too_few() {
    let trace = link(&program()[..2], true);
    let graph = graph_from_trace(&trace).expect("no circle");
    assert_eq!(cross_step_figures(&trace, &graph, 5), None);
}
