//! First phase of a merge: links the ranks of a shard, and stores the summaries that the join
//! needs.

use super::contents::{RankOutcome, ShardSummaries, SummarizedRank, merge_identity};
use super::files::PhaseFile;
use super::{ShardReport, check_options};
use crate::error::RunError;
use crate::job::LinkJob;
use crate::merge::{KnownRank, MergeOptions, MergedRank};
use crate::run::{RankEntry, RunSet};
use crate::text;
use std::path::Path;

/// Links the ranks of the shard in the set's options, and stores the summaries that the join needs.
///
/// # Errors
/// Fails if the file cannot be written, or if no shard can write the requested format. Failures of
/// a single rank are in the report.
pub fn summarize_shard(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<ShardReport, RunError> {
    check_options(runs, options)?;
    runs.options.progress.phase("linking");
    let linked = runs.map_ranks(|entry| summarize_rank(entry, options));
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

fn summarize_rank(entry: RankEntry<'_>, options: &MergeOptions) -> (RankOutcome, MergedRank) {
    let mut rank = MergedRank::of_entry(entry);
    let linked = summary_job(entry, options).and_then(|job| KnownRank::link(entry, &job));
    let (known, report) = match linked {
        Ok((known, report, _)) => (known, report),
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
        RankOutcome::Linked(known.map(|known| Box::new(known.into())))
    };
    rank.linked = Some(report);
    (outcome, rank)
}

/// Returns the settings for linking a rank whose file another phase writes in this form.
fn summary_job(entry: RankEntry<'_>, options: &MergeOptions) -> Result<LinkJob, RunError> {
    Ok(LinkJob {
        form: options.chakra,
        ..entry.job()?
    })
}
