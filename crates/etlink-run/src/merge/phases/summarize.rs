//! The first phase: links the ranks of a shard, and keeps what the join needs.

use super::contents::{LinkedSummary, RankOutcome, ShardSummaries, SummarizedRank, merge_identity};
use super::files::PhaseFile;
use super::{ShardReport, check_options};
use crate::error::RunError;
use crate::merge::traced_device::traced_device;
use crate::merge::{MergeOptions, MergedRank};
use crate::run::{LinkedRank, RankEntry, RunSet};
use crate::text;
use std::path::Path;

/// Links the ranks of a shard, which is that of the set's options, and stores what the join needs.
///
/// # Errors
/// The file cannot be written, or a format is wanted that no shard can write. What fails for one
/// rank alone is in the report.
pub fn summarize_shard(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<ShardReport, RunError> {
    check_options(runs, options)?;
    runs.options.progress.phase("linking");
    let linked = runs.map_ranks(summarize_rank);
    let (mut ranks, mut merged) = (vec![], vec![]);
    for (index, (outcome, rank)) in linked.into_iter().enumerate() {
        let place = runs.entry(index).place();
        ranks.push(SummarizedRank { place, outcome });
        merged.push(rank);
    }
    merged.retain(|rank| !rank.is_unwanted);
    let shard = runs.options.shard;
    let identity = merge_identity(runs, options);
    let summaries = ShardSummaries { identity, ranks };
    let path = PhaseFile::Summaries.write(output, shard, &summaries)?;
    Ok(ShardReport {
        shard: shard.index(),
        shards: shard.count(),
        ranks: merged,
        summaries: Some(path),
    })
}

fn summarize_rank(entry: RankEntry<'_>) -> (RankOutcome, MergedRank) {
    let mut rank = MergedRank::of_entry(entry);
    let LinkedRank {
        trace,
        report,
        summary,
    } = match entry.link() {
        Ok(linked) => linked,
        Err(error) => {
            let message = text::error_chain(&error);
            rank.error = Some(message.clone());
            return (RankOutcome::Failed(message), rank);
        }
    };
    let outcome = if !entry.is_wanted(report.report.rank) {
        rank.is_unwanted = true;
        RankOutcome::Unwanted
    } else if report.refused {
        RankOutcome::Refused
    } else {
        RankOutcome::Linked(summary.map(|facts| {
            let sizes = etlink_chakra::simulated_sizes(&trace, &facts);
            let device = traced_device(&trace);
            Box::new(LinkedSummary {
                facts,
                sizes,
                device,
            })
        }))
    };
    rank.linked = Some(report);
    (outcome, rank)
}
