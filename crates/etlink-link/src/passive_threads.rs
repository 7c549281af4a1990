//! Threads that only observe the program.

use crate::graph::kinds::EdgeKind;
use crate::ranks::RankSteps;
use crate::trace::LinkedTrace;

impl LinkedTrace {
    /// Returns, per thread, true if it only observes: nothing on another thread or on a queue waits
    /// for it, although something waits for other threads. NCCL's watchdog is one example.
    /// O(edges).
    ///
    /// A truncated device trace may lack evidence of waits. In that case, threads that have the
    /// steps count as awaited.
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
