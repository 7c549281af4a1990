//! The ranks of a run with their graphs, by one clock: what the graph of all ranks is made of.

use etlink_link::ranks::{RankClock, RankSummary};
use etlink_model::{DurationNs, GlobalRank, TimeNs, UnixNs};
use etlink_replay::{RankGraph, ReplayGraph};

/// The ranks that are of one run, as columns.
#[derive(Default)]
pub struct RankColumns {
    /// What each has in common with others.
    pub summaries: Vec<RankSummary>,
    /// Its graph.
    pub ranks: Vec<RankGraph>,
    /// What its times count from, by its own clock.
    bases_ns: Vec<UnixNs>,
}

impl RankColumns {
    /// Adds a rank whose times count from `base_ns`.
    pub fn push(&mut self, summary: RankSummary, graph: ReplayGraph, base_ns: UnixNs) {
        self.push_graph(summary.rank, graph, base_ns);
        self.summaries.push(summary);
    }

    /// Adds a rank whose summary is elsewhere.
    pub fn push_graph(&mut self, rank: GlobalRank, graph: ReplayGraph, base_ns: UnixNs) {
        self.ranks.push(RankGraph {
            rank,
            graph,
            uncertainty_ns: DurationNs::ZERO,
        });
        self.bases_ns.push(base_ns);
    }

    /// Takes all times by the first rank's clock, from what its own count from.
    pub fn align_clocks(&mut self, clocks: &[RankClock]) {
        // times count from the first rank's base, as they do in its own trace
        let origin = self.bases_ns.first().copied().unwrap_or_default();
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
