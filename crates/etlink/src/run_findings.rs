//! What a run would gain from what: of a rank what stays of it, of all ranks the replay as one.

use crate::rank_columns::RankColumns;
use anyhow::Result;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analyze::{KernelRules, RankAnalysis};
use etlink_findings::{RankCauses, RankPart, RunFindings, rank_causes, run_findings};
use etlink_link::LinkedTrace;
use etlink_link::ranks::step_definition;
use etlink_model::{Anomalies, NodeIdx, RankIdx, UnixNs};
use etlink_replay::ReplayGraph;
use etlink_run::JoinedRun;
use etlink_run::run::RankEntry;

/// What a node of a graph takes until all is told: in its rank's graph and again in that of all
/// ranks, with latencies of edges and the lists of causes.
const NODE_BYTES: u64 = 200;

/// What the join keeps of a small rank, with its names and notes: 5 to 7 kB of three collectives.
pub const SUMMARY_BYTES: u64 = 7_000;

/// What is kept of a rank.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct FoundRank {
    graph: ReplayGraph,
    causes: RankCauses,
    base_ns: UnixNs,
    /// Its device trace ends before its recording did.
    is_cut: bool,
    /// What was wrong in its traces.
    anomalies: Anomalies,
    /// What its steps are; none of `ProfilerStep`s and of ranks without steps.
    step_definition: Option<String>,
}

impl FoundRank {
    /// Looks at a trace; `graph` and `analysis` are of the same one.
    pub fn new(
        trace: &LinkedTrace,
        graph: ReplayGraph,
        rules: &KernelRules,
        analysis: &RankAnalysis,
    ) -> FoundRank {
        FoundRank {
            causes: rank_causes(trace, rules, analysis),
            base_ns: trace.device.header.base_ns,
            is_cut: trace.device.anomalies.is_cut(),
            anomalies: trace.report.anomalies.clone(),
            step_definition: analysis
                .steps
                .first()
                .and_then(|step| step_definition(&step.name)),
            graph,
        }
    }

    /// Whether its device trace ends before its recording did.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What was wrong in its traces.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// What its steps are; none of `ProfilerStep`s and of ranks without steps.
    pub fn step_definition(&self) -> Option<&str> {
        self.step_definition.as_deref()
    }

    /// What it takes until the run's findings are known, bytes.
    pub fn retained_bytes(&self) -> u64 {
        NODE_BYTES.saturating_mul(self.graph.len() as u64)
    }

    /// Of a rank that is compared with no other.
    pub fn alone(self) -> RunFindings {
        let part = RankPart {
            first: NodeIdx(0),
            causes: self.causes,
        };
        run_findings(&self.graph, vec![part])
    }
}

/// What a rank takes until its run is done, bytes, with figures of so many; the only rank of a set has
/// been let in.
pub fn retained_bytes(entry: RankEntry<'_>, figures: u64, found: Option<&FoundRank>) -> u64 {
    match entry.set.whole_len() {
        0 | 1 => 0,
        _ => {
            let found = found.map_or(0, FoundRank::retained_bytes);
            found.saturating_add(figures).saturating_add(SUMMARY_BYTES)
        }
    }
}

/// The findings of a run's ranks, in the order of the joined ones; none where one is not known, as of
/// a written graph.
///
/// # Errors
/// Their graphs cannot be joined.
pub fn findings_of_run(
    joined: &JoinedRun,
    ranks: Vec<Option<FoundRank>>,
) -> Result<Option<RunFindings>> {
    let all: Option<Vec<FoundRank>> = ranks.into_iter().collect();
    let Some(mut all) = all else {
        return Ok(None);
    };
    if all.len() == 1 {
        return Ok(all.pop().map(FoundRank::alone));
    }
    if all.len() == joined.summaries.len() && !all.is_empty() {
        joined_findings(joined, all).map(Some)
    } else {
        Ok(None)
    }
}

/// Which ranks, by place, findings are told without: those whose device traces are cut so that they lack
/// what others have with them, unless all are. What a rank did not record cannot become shorter, and
/// would keep all others as they were.
pub fn ranks_left_out(joined: &JoinedRun, is_cut: &[bool]) -> Vec<bool> {
    // few runs have such a rank, and all members of all matches are looked at
    if !is_cut.contains(&true) {
        return vec![false; is_cut.len()];
    }
    let lacks = joined.lacks_matches();
    let both = lacks.iter().zip(is_cut);
    let left_out: Vec<bool> = both.map(|(lacks, is_cut)| *lacks && *is_cut).collect();
    if left_out.iter().all(|is_out| *is_out) {
        vec![false; left_out.len()]
    } else {
        left_out
    }
}

/// The ranks as one graph, but for [`ranks_left_out`]. `ranks` are in the order of the summaries.
///
/// # Errors
/// Their graphs cannot be joined.
pub fn joined_findings(joined: &JoinedRun, mut ranks: Vec<FoundRank>) -> Result<RunFindings> {
    let is_cut: Vec<bool> = ranks.iter().map(FoundRank::is_cut).collect();
    let left_out = ranks_left_out(joined, &is_cut);
    if left_out.contains(&true) {
        let all = ranks.into_iter().zip(&joined.summaries).zip(left_out);
        let kept = all.filter(|(_, is_out)| !is_out);
        let kept = kept.map(|((rank, summary), _)| (rank, summary.clone()));
        let (ranks, summaries) = kept.unzip();
        let is_aligned = !joined.clocks.is_empty();
        return joined_findings(&JoinedRun::new(summaries, is_aligned), ranks);
    }
    if ranks.len() == 1
        && let Some(only) = ranks.pop()
    {
        return Ok(only.alone());
    }
    let (mut columns, mut causes) = (RankColumns::default(), vec![]);
    for (rank, summary) in ranks.into_iter().zip(&joined.summaries) {
        columns.push_graph(summary.rank, rank.graph, rank.base_ns);
        causes.push(rank.causes);
    }
    columns.align_clocks(&joined.clocks);
    let nodes = etlink_replay::collective_nodes(&joined.summaries, &joined.matches);
    let all = etlink_replay::join_graphs(&columns.ranks, &nodes.collectives)?;
    // Only the graph of all is replayed: those of the ranks need not stay beside it.
    drop(columns);
    let mut parts = vec![];
    for (place, causes) in causes.into_iter().enumerate() {
        if let Some(first) = all.first_node(RankIdx::new(place)) {
            parts.push(RankPart { first, causes });
        }
    }
    Ok(run_findings(&all.graph, parts))
}
