//! Threads that only look on.

use crate::graph::edges::Edge;
use crate::graph::kinds::EdgeKind;
use crate::ranks::RankSteps;
use crate::trace::LinkedTrace;
use etlink_model::{DeviceTrace, ThreadIdx};
use std::collections::BTreeSet;

impl LinkedTrace {
    /// Per thread, whether it only looks on: nothing on another thread or on a queue waits for it,
    /// while there are threads of which that is not so. NCCL's watchdog is one. O(edges).
    ///
    /// A device trace that is cut may lack what shows who waits: of it, threads that have the steps
    /// are taken as awaited.
    pub fn passive_threads(&self) -> Vec<bool> {
        let mut awaited = self.awaited_threads(self.edges.iter());
        for thread in awaited_despite_cut(&self.device) {
            awaited[thread.index()] = true;
        }
        let any = awaited.contains(&true);
        awaited.iter().map(|awaited| !awaited && any).collect()
    }

    /// Per thread, whether another thread or a queue waits for it by one of these edges.
    pub(crate) fn awaited_threads(&self, edges: impl Iterator<Item = Edge>) -> Vec<bool> {
        let nodes = &self.nodes;
        let mut awaited = vec![false; self.device.threads.len()];
        for edge in edges {
            let (from, to) = (edge.from.index(), edge.to.index());
            if edge.kind != EdgeKind::ProgramOrder
                && !nodes.on_device[from]
                && (nodes.on_device[to] || nodes.track[to] != nodes.track[from])
            {
                awaited[nodes.track[from].index()] = true;
            }
        }
        awaited
    }
}

/// Threads for which the program waits, though what shows it may be in the part of the trace that is
/// missing: those with the steps. None of a whole trace, which shows all that it has recorded. O(ops).
pub(crate) fn awaited_despite_cut(device: &DeviceTrace) -> BTreeSet<ThreadIdx> {
    match device.anomalies.is_cut() {
        true => RankSteps::threads_of(device),
        false => BTreeSet::new(),
    }
}
