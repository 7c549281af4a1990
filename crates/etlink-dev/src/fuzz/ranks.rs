//! Checks the joint results of several ranks, and laws about them.

use anyhow::{Result, ensure};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{
    RankClock, RankSummary, RunJoin, align_clocks, collective_skews, join_ranks, select_run,
    step_stragglers, straggler_stats, wait_causes,
};
use etlink_model::{DurationNs, GlobalRank};
use etlink_replay::{RankGraph, RankLabels, RankNames, ReplaySettings};
use etlink_report::page::RankStats;
use std::fmt::Write;

/// Computes all joint results, checks them and returns them as bytes.
pub(super) fn check_joined(traces: &[LinkedTrace]) -> Result<Vec<u8>> {
    let facts: Vec<RankSummary> = traces
        .iter()
        // By position rather than by the traces' own ranks, which damage may have made equal.
        .zip((0..).map(GlobalRank))
        .map(|(trace, rank)| RankSummary::from_trace(trace, rank))
        .collect();
    let mut out = format!("{:?}", select_run(&facts, false));
    let join = join_ranks(&facts);
    let clocks = align_clocks(&facts, &join);
    ensure!(
        clocks.len() == facts.len(),
        "{} clocks of {} ranks",
        clocks.len(),
        facts.len()
    );
    check_join(&facts, &join, &clocks)?;
    out += &serde_json::to_string(&join.problems)?;
    out += &serde_json::to_string(&step_stragglers(&facts, &join, &clocks))?;
    write!(out, "{:?}", wait_causes(&facts, &join, &clocks))?;
    out += &check_joined_replay(traces, &facts, &join, &clocks)?;
    out += &serde_json::to_string(&RankStats::new(&facts, &join, clocks))?;
    Ok(out.into_bytes())
}

/// Checks that the waits of the ranks and of the collectives have equal sums.
fn check_join(facts: &[RankSummary], join: &RunJoin, clocks: &[RankClock]) -> Result<()> {
    let skews = collective_skews(facts, join, clocks);
    for skew in &skews {
        ensure!(
            0 <= skew.alone_ns && skew.alone_ns <= skew.skew_ns.min(skew.waited_ns),
            "{skew:?}"
        );
        ensure!(
            skew.algorithm_bandwidth
                .is_none_or(|bandwidth| bandwidth.is_finite() && bandwidth > 0.0),
            "{skew:?}"
        );
    }
    let waited = saturating_sum(skews.iter().map(|skew| skew.waited_ns));
    let ranks = straggler_stats(facts, join, clocks);
    let (caused, suffered) = (
        saturating_sum(
            ranks
                .iter()
                .flat_map(|rank| [rank.caused_ns, rank.began_late_ns]),
        ),
        saturating_sum(ranks.iter().map(|rank| rank.waited_ns)),
    );
    let of_steps = saturating_sum(
        step_stragglers(facts, join, clocks)
            .iter()
            .map(|step| step.waited_ns),
    );
    ensure!(
        // Each wait has one rank that caused it, one that suffered it, and one step.
        [caused, suffered, of_steps] == [waited; 3],
        "waits are {waited}, by ranks {caused} and {suffered}, by steps {of_steps}"
    );
    ensure!(
        ranks.iter().map(|rank| rank.last).sum::<u64>() == skews.len() as u64,
        "not one rank is last in each"
    );
    Ok(())
}

fn saturating_sum(all: impl Iterator<Item = i64>) -> i64 {
    // Damaged times may add up to more than 64 bits. Then all sums saturate at the same maximum.
    all.fold(0, i64::saturating_add)
}

/// Replays the graphs of all ranks as one, on the first rank's clock.
fn check_joined_replay(
    traces: &[LinkedTrace],
    facts: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Result<String> {
    let ranks = traces
        .iter()
        .zip(clocks)
        .map(|(trace, clock)| of_rank(trace, clock))
        .collect::<Result<Vec<RankGraph>>>()?;
    let names: Vec<RankNames> = traces
        .iter()
        .zip(&ranks)
        .map(|(trace, rank)| RankNames::from_labels(trace, rank.graph.len()))
        .collect();
    let joints = etlink_replay::collective_nodes(facts, join).collectives;
    let together = etlink_replay::join_graphs(&ranks, &joints)?;
    ensure!(
        together.outcomes.len() == joints.len(),
        "{} fates of {} joints",
        together.outcomes.len(),
        joints.len()
    );
    let labels = RankLabels {
        joined: &together,
        ranks: &names,
        collectives: &joints,
    };
    let run = etlink_replay::run_graph(&together.graph, &labels, &ReplaySettings::default());
    let ends = together.by_rank(&run);
    ensure!(
        ends.iter()
            .all(|rank| rank.collectives.waiting_ns >= DurationNs::ZERO
                && rank.end_ns <= run.makespan()),
        "{ends:?}"
    );
    Ok(serde_json::to_string(&ends)?)
}

fn of_rank(trace: &LinkedTrace, clock: &RankClock) -> Result<RankGraph> {
    let (mut graph, base) = (
        etlink_replay::graph_from_trace(trace)?,
        trace.device.header.base_ns,
    );
    // Each rank has its own origin; joined, all use the first rank's clock.
    for start in &mut graph.start {
        *start = clock.aligned_trace_time(base, *start);
    }
    Ok(RankGraph {
        rank: clock.rank,
        graph,
        uncertainty_ns: DurationNs(clock.uncertainty_ns.unwrap_or(0)),
    })
}
