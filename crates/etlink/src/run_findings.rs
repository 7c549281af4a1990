//! Possible gains of a run: keeps the necessary data per rank, and replays all ranks as one graph.

use crate::cut_traces::findings_note;
use crate::rank_columns::RankColumns;
use anyhow::Result;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::findings::{RankCauses, RankPart, RunFindings, rank_causes, run_findings};
use etlink_analysis::{KernelRules, RankAnalysis};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RunSteps, step_definition, straggler_stats};
use etlink_model::{Anomalies, Diagnostic, GlobalRank, NodeIdx, RankIdx, UnixNs, diagnostic};
use etlink_replay::ReplayGraph;
use etlink_run::JoinedRun;
use etlink_run::run::RankEntry;

/// Peak bytes per node until the report is done: in its rank's graph and again in the graph of all
/// ranks, with latencies of edges and the lists of causes.
const NODE_BYTES: u64 = 200;

/// Bytes that the join keeps of a small rank, with its names and notes: 5 to 7 kB for three
/// collectives.
pub const SUMMARY_BYTES: u64 = 7_000;

/// Data kept per rank.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct FoundRank {
    graph: ReplayGraph,
    causes: RankCauses,
    base_ns: UnixNs,
    /// Defects of the rank's traces.
    anomalies: Anomalies,
    /// Definition of the steps; `None` for `ProfilerStep`s and for ranks without steps.
    step_definition: Option<String>,
}

impl FoundRank {
    /// Examines a trace; `graph` and `analysis` must be of the same trace.
    pub fn new(
        trace: &LinkedTrace,
        graph: ReplayGraph,
        rules: &KernelRules,
        analysis: &RankAnalysis,
    ) -> FoundRank {
        FoundRank {
            causes: rank_causes(trace, rules, analysis),
            base_ns: trace.device.header.base_ns,
            anomalies: trace.report.anomalies.clone(),
            step_definition: analysis
                .steps
                .first()
                .and_then(|step| step_definition(&step.name)),
            graph,
        }
    }

    /// Returns the rank, if its trace states it, with the origin of the trace's times.
    pub fn origin(&self) -> (Option<GlobalRank>, UnixNs) {
        (self.causes.rank, self.base_ns)
    }

    /// Returns the defects of the rank's traces.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// Returns the definition of the steps; `None` for `ProfilerStep`s and for ranks without steps.
    pub fn step_definition(&self) -> Option<&str> {
        self.step_definition.as_deref()
    }

    /// Returns the bytes that the rank occupies until the run's findings are known.
    pub fn retained_bytes(&self) -> u64 {
        NODE_BYTES.saturating_mul(self.graph.len() as u64)
    }

    /// Returns the findings of a rank that is not compared with others.
    pub fn alone(self) -> RunFindings {
        let part = RankPart {
            first: NodeIdx(0),
            causes: self.causes,
        };
        run_findings(&self.graph, vec![part], &RunSteps::default())
    }
}

/// Returns the bytes that a rank occupies until its run is done, with `figures` bytes of figures; 0
/// for the only rank of a set, whose memory is already granted.
pub fn retained_bytes(entry: RankEntry<'_>, figures: u64, found: Option<&FoundRank>) -> u64 {
    match entry.set.whole_len() {
        0 | 1 => 0,
        _ => {
            let found = found.map_or(0, FoundRank::retained_bytes);
            found.saturating_add(figures).saturating_add(SUMMARY_BYTES)
        }
    }
}

/// Returns the findings of a run's ranks, given with their labels in the order of the joined ones;
/// `None` if a rank has no data, as for a written graph, or the graphs cannot be joined. Adds notes
/// on ranks that the findings ignore, and on graphs that cannot be joined.
pub fn findings_of_run(
    joined: &JoinedRun,
    labels: &[String],
    ranks: Vec<Option<FoundRank>>,
    notes: &mut Vec<Diagnostic>,
) -> Option<RunFindings> {
    let mut all = ranks.into_iter().collect::<Option<Vec<FoundRank>>>()?;
    if all.len() == 1 {
        return all.pop().map(FoundRank::alone);
    }
    if all.len() != joined.summaries.len() || all.is_empty() {
        return None;
    }
    let is_cut = joined.cut_ranks();
    let left_out = labels.iter().zip(&is_cut).filter(|(_, is_cut)| **is_cut);
    let left_out: Vec<&str> = left_out.map(|(label, _)| label.as_str()).collect();
    notes.extend(findings_note(&left_out));
    let kept = if left_out.is_empty() {
        joined_findings(joined, all)
    } else {
        let all = all.into_iter().zip(&joined.summaries).zip(is_cut);
        let kept = all.filter(|(_, is_cut)| !is_cut);
        let kept = kept.map(|((rank, summary), _)| (rank, summary.clone()));
        let (ranks, summaries) = kept.unzip();
        joined_findings(&JoinedRun::new(summaries, !joined.clocks.is_empty()), ranks)
    };
    match kept {
        Ok(found) => Some(found),
        Err(error) => {
            notes.push(diagnostic!(FindingsIncomplete, "no findings: {error:#}"));
            None
        }
    }
}

/// Returns the findings of the ranks as one graph. `ranks` are in the order of the summaries.
///
/// # Errors
/// The graphs cannot be joined.
pub fn joined_findings(joined: &JoinedRun, mut ranks: Vec<FoundRank>) -> Result<RunFindings> {
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
    // Only the graph of all ranks is replayed, so the ranks' graphs can be freed.
    drop(columns);
    let mut parts = vec![];
    for (place, causes) in causes.into_iter().enumerate() {
        if let Some(first) = all.first_node(RankIdx::new(place)) {
            parts.push(RankPart { first, causes });
        }
    }
    let steps = RunSteps::of_ranks(&joined.summaries, &joined.clocks);
    let mut found = run_findings(&all.graph, parts, &steps);
    let (ranks, clocks) = (&joined.summaries, &joined.clocks);
    found.name_straggler(&straggler_stats(ranks, &joined.matches, clocks));
    Ok(found)
}
