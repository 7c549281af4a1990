//! Writes one rank of a run exactly as `merge` with default options would. All ranks are linked,
//! because groups, peers and times depend on them, but only one file is written.

use super::joined::JoinMember;
use super::{KnownRank, LinkedSummary, MergeOptions, MergedRun};
use crate::error::RunError;
use crate::job;
use crate::membership::Excluded;
use crate::run::{RankEntry, RunSet};
use crate::text;
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::{WriteOptions, et};
use etlink_model::{Diagnostic, diagnostic};

/// Result of writing one rank of a run.
pub(crate) struct WrittenMember {
    /// Content of the `.et`.
    pub(crate) bytes: Vec<u8>,
    /// Report of the linking.
    pub(crate) losses: Losses,
    /// Ranks that were not joined with this one, with the reasons.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Links all ranks of the set's only run, joins them, and writes one.
///
/// # Errors
/// Fails if that rank has no traces or cannot be linked. Failures of other ranks become notes.
pub(crate) fn write_member(runs: &RunSet, rank: i64) -> Result<WrittenMember, RunError> {
    let options = MergeOptions::default();
    let mut linked = runs.map_ranks(|entry| Ok((entry.label().to_owned(), known_rank(entry)?)));
    let place = (0..runs.len()).find(|index| runs.entry(*index).files().rank == Some(rank));
    let place = place.ok_or(RunError::NoRankAsked)?;
    if linked[place].is_err() {
        // the results of the other ranks are not needed
        linked.swap(0, place);
        return Err(linked.swap_remove(0).err().unwrap_or(RunError::NoRankAsked));
    }
    let (mut members, mut diagnostics) = (vec![], vec![]);
    for (index, result) in linked.iter_mut().enumerate() {
        match result {
            Ok((label, known)) => members.push(JoinMember {
                label,
                known: known.as_mut(),
            }),
            Err(error) => diagnostics.push(left_out(runs.entry(index), error)),
        }
    }
    let joined = MergedRun::new(&options, &runs.options, runs.entry(place).run(), members);
    diagnostics.extend(joined.excluded.iter().map(Excluded::diagnostic));
    let entry = runs.entry(place);
    let (trace, report) = entry.link_job(&entry.job()?)?;
    let context = joined.rank_context(&options, entry.label());
    let options = job::write_options(WriteOptions::default(), context);
    let mut bytes = vec![];
    let written = et::write_et(&trace, &options, &mut bytes);
    let demoted = written
        .map_err(|error| RunError::Job(error.into()))?
        .demoted;
    let mut losses = report.lost;
    losses.add(LossKind::CommunicationAsCompute, demoted.values().sum());
    Ok(WrittenMember {
        bytes,
        losses,
        diagnostics,
    })
}

/// Links a rank and returns its state for the join, without the trace.
fn known_rank(entry: RankEntry<'_>) -> Result<Option<KnownRank>, RunError> {
    let (summary, _) = LinkedSummary::link(entry, &entry.job()?)?;
    Ok(summary.known)
}

fn left_out(entry: RankEntry<'_>, error: &RunError) -> Diagnostic {
    let rank = text::rank(entry.label());
    diagnostic!(
        RankLeftOut,
        "{rank} is left out of the join: {}",
        text::error_chain(error)
    )
    .of_label(entry.label())
}
