//! The ranks of a run with their graphs, by one clock: input for the graph of all ranks.

use etlink_link::ranks::{RankClock, RankSummary};
use etlink_model::{DurationNs, GlobalRank, TimeNs, UnixNs};
use etlink_replay::{RankGraph, ReplayGraph};

/// The ranks that belong to one run, as columns.
#[derive(Default)]
pub struct RankColumns {
    /// Data for joining the ranks.
    pub summaries: Vec<RankSummary>,
    /// Graphs of the ranks.
    pub ranks: Vec<RankGraph>,
    /// Origin of each rank's times, by its own clock.
    bases_ns: Vec<UnixNs>,
}

impl RankColumns {
    /// Adds a rank whose times are relative to `base_ns`.
    pub fn push(&mut self, summary: RankSummary, graph: ReplayGraph, base_ns: UnixNs) {
        self.push_graph(summary.rank, graph, base_ns);
        self.summaries.push(summary);
    }

    /// Adds a rank whose summary is stored elsewhere.
    pub fn push_graph(&mut self, rank: GlobalRank, graph: ReplayGraph, base_ns: UnixNs) {
        self.ranks.push(RankGraph {
            rank,
            graph,
            uncertainty_ns: DurationNs::ZERO,
        });
        self.bases_ns.push(base_ns);
    }

    /// Returns the origin of the first rank's times, from which all aligned times count.
    pub fn origin(&self) -> UnixNs {
        self.bases_ns.first().copied().unwrap_or_default()
    }

    /// Converts all times from each rank's own origin to the first rank's clock.
    pub fn align_clocks(&mut self, clocks: &[RankClock]) {
        let origin = self.origin();
        for (at, (rank, base)) in self.ranks.iter_mut().zip(&self.bases_ns).enumerate() {
            let clock = clocks.get(at).copied().unwrap_or_default();
            for start in &mut rank.graph.start {
                let common = clock.aligned(base.shifted(start.0));
                *start = TimeNs(common.0.saturating_sub(origin.0));
            }
            rank.uncertainty_ns = DurationNs(clock.uncertainty_ns.unwrap_or(0));
        }
    }
}
