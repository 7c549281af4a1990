//! Checks that ids follow the order in which nodes began.
//!
//! Among the ready nodes, ASTRA-sim starts the one with the lowest id first
//! (`Workload::issue_dep_free_nodes` puts them into an ordered set), and runs one host node, one
//! device node and one communication at a time (`HardwareResource.cc`). A node that began later
//! than another must therefore not have a lower id, unless its dependencies kept it from starting
//! earlier. Files for simulators rely on this exception: a host gap waits for the work that ended
//! last before the gap ends. It thus begins later than nodes with higher ids, and no reader can
//! start it before them.

use super::example;
use crate::finding::{FindingKind, Findings};
use crate::proto::NodeType;
use crate::read::ChakraGraph;

/// Processors that a node can wait for; the simulator has one of each.
#[derive(Clone, Copy)]
enum Processor {
    Host,
    Device,
    Network,
}

/// Reports nodes whose ids contradict their starts. Nodes without a start are ignored. `deps` are
/// pairs of positions, the awaited node first. O(n log n + deps).
pub(super) fn check(graph: &ChakraGraph, deps: &[(u32, u32)], findings: &mut Findings) {
    let mut order: Vec<usize> = (0..graph.len())
        .filter(|&index| graph.start_ns[index].is_some())
        .collect();
    order.sort_by_key(|&index| graph.id[index]);
    let ready = ready_times(graph, deps);
    let mut last: [Option<usize>; 3] = [None; 3];
    for index in order {
        // If starts are out of order, two neighbours are too, so looking one step back is enough.
        let before = last[processor(graph, index) as usize].replace(index);
        let Some(before) = before else { continue };
        let began_later = graph.start_ns[before] > graph.start_ns[index];
        // A node whose deps ended later could not begin earlier, whatever its id.
        let was_ready = Some(ready[before]) <= graph.start_ns[index];
        if began_later && was_ready {
            findings.note(FindingKind::IdsNotInTimeOrder, || {
                let detail = format!("starts before node {}", graph.id[before]);
                example(graph, index, detail)
            });
        }
    }
}

/// Returns, for each node, the latest end of its dependencies; `i64::MIN` without timed
/// dependencies.
fn ready_times(graph: &ChakraGraph, deps: &[(u32, u32)]) -> Vec<i64> {
    let mut ready = vec![i64::MIN; graph.len()];
    for &(from, to) in deps {
        let from = from as usize;
        if let Some(start) = graph.start_ns[from] {
            let end = start.saturating_add(graph.duration_ns[from]);
            let ready = &mut ready[to as usize];
            *ready = end.max(*ready);
        }
    }
    ready
}

fn processor(graph: &ChakraGraph, index: usize) -> Processor {
    match graph.node_type[index] {
        NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode => {
            Processor::Network
        }
        _ if graph.is_cpu_op[index] == Some(true) => Processor::Host,
        // ASTRA-sim takes a node without `is_cpu_op` for a device node.
        _ => Processor::Device,
    }
}
