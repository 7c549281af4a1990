//! Work on the critical path shortens the run, other work does not.

use super::read_trace;
use etlink_link::LinkedTrace;
use etlink_model::NodeIdx;
use etlink_replay::{EditableGraph, GraphEdits, critical_path, graph_from_trace, work_makespan};
use etlink_testing::{Machine, MachineChange, random_program};
use std::collections::BTreeSet;

/// Number of programs, and number of kernels on and off the path per program.
const PROGRAMS: u64 = 12;
const KERNELS: usize = 12;

/// Returns the device's nodes in launch order.
fn by_launch(trace: &LinkedTrace) -> Vec<NodeIdx> {
    let nodes = trace.nodes.indices();
    let launched = nodes.filter_map(|node| {
        let row = trace.row_of(&trace.nodes.get(node))?;
        Some((trace.row_call[row.index()].get()?, node))
    });
    let mut launched: Vec<_> = launched.collect();
    launched.sort_unstable();
    launched.into_iter().map(|(_, node)| node).collect()
}

#[test]
fn a_kernel_on_the_path_shortens_the_run_by_its_share() {
    let (mut asked, mut on_path, mut off, mut idle) = (0, 0, vec![], vec![]);
    for seed in 0..PROGRAMS {
        let (program, options, _) = random_program(seed);
        let recorded = Machine::run(&program, options, MachineChange::None);
        let trace = read_trace(&recorded.trace);
        let graph = graph_from_trace(&trace).expect("no circle");
        let editable = EditableGraph::new(&graph);
        let path = critical_path(&graph, editable.plain_run());
        let path: BTreeSet<NodeIdx> = path.iter().map(|step| step.node).collect();
        let nodes = by_launch(&trace);
        let step = (nodes.len() / (2 * KERNELS)).max(1);
        for (number, node) in nodes.iter().enumerate().step_by(step) {
            let scaled = vec![(*node, 0.9)];
            let run = editable.run_edited(&GraphEdits {
                scaled,
                ..GraphEdits::default()
            });
            let predicted = recorded.makespan - work_makespan(&graph, &run).0;
            let changed = Machine::run(&program, options, MachineChange::OneKernel(number, 0.9));
            let truth = recorded.makespan - changed.makespan;
            let tenth = graph.duration[node.index()].0 / 10;
            asked += 1;
            if (predicted - truth).abs() > tenth / 20 + 500 {
                off.push((seed, number, truth, predicted));
            }
            if path.contains(node) {
                on_path += 1;
                if truth < tenth / 2 {
                    idle.push((seed, number, tenth, truth));
                }
            } else if predicted > 0 {
                panic!("seed {seed}, kernel {number} is on no path and saves {predicted} ns");
            }
        }
    }
    println!("{asked} kernels, {on_path} on the path; off {off:?}; idle {idle:?}");
    assert!(on_path > 20, "{on_path}");
    assert!(off.len() * 50 <= asked, "{} of {asked}: {off:?}", off.len());
    assert!(
        idle.len() * 20 <= on_path,
        "{} of {on_path}: {idle:?}",
        idle.len()
    );
}
