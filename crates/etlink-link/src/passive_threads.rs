//! Threads that only look on.

use crate::graph::kinds::EdgeKind;
use crate::ranks::RankSteps;
use crate::trace::LinkedTrace;

impl LinkedTrace {
    /// Per thread, whether it only looks on: nothing on another thread or on a queue waits for it,
    /// while there are threads of which that is not so. NCCL's watchdog is one. O(edges).
    ///
    /// A device trace that is cut may lack what shows who waits: of it, threads that have the steps
    /// are taken as awaited.
    pub fn passive_threads(&self) -> Vec<bool> {
        let mut awaited = self.awaited_threads();
        if self.device.anomalies.is_cut() {
            for thread in RankSteps::threads_of(&self.device) {
                awaited[thread.index()] = true;
            }
        }
        let any = awaited.contains(&true);
        awaited.iter().map(|awaited| !awaited && any).collect()
    }

    /// Per thread, whether another thread or a queue waits for it.
    fn awaited_threads(&self) -> Vec<bool> {
        let nodes = &self.nodes;
        let mut awaited = vec![false; self.device.threads.len()];
        for edge in self.edges.iter() {
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
