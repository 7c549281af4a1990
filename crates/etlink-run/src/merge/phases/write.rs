//! Last phase of a merge: links the ranks of a shard again, and writes them as the join decided.

use super::contents::{JoinedRank, REFUSED, ShardAgreement, ShardSummaries, merge_identity};
use super::files::{PHASE_FOLDER, PhaseFile};
use super::{ShardReport, check_options};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::job::{JobReport, LinkJob, RankContext};
use crate::merge::earlier::is_ours;
use crate::merge::names::{other_name, rank_file_name};
use crate::merge::{MergeOptions, MergedRank, output_name};
use crate::output::{OutputError, Target};
use crate::phases::{EarlierPhase, PhaseError};
use crate::run::{RankEntry, RunSet};
use crate::storage;
use crate::text;
use etlink_link::ranks::RankClock;
use etlink_model::GlobalRank;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Writes the ranks of a shard as the join decided.
///
/// # Errors
/// Fails if the shard was not joined, or ran on other traces or with other options. Failures of a
/// single rank are in the report.
pub fn write_shard(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<ShardReport, RunError> {
    check_options(runs, options)?;
    let shard = runs.options.shard;
    let is_there = PhaseFile::Agreement.shards(output)?.contains(&shard);
    if !is_there {
        let folder = output.join(PHASE_FOLDER);
        return Err(PhaseError::NotJoined { folder, shard }.into());
    }
    let agreement: ShardAgreement = PhaseFile::Agreement.read(output, shard)?;
    let identity = merge_identity(runs, options);
    let check = |phase| agreement.identity.check(shard, phase, &identity);
    if check(EarlierPhase::Join).is_err() {
        let summaries = PhaseFile::Summaries.read::<ShardSummaries>(output, shard);
        let is_newer = summaries.is_ok_and(|summaries| summaries.identity == identity);
        check(if is_newer {
            EarlierPhase::OldJoin
        } else {
            EarlierPhase::Join
        })?;
    }
    let failed: BTreeMap<usize, String> = agreement.failed.into_iter().collect();
    let joined: BTreeMap<usize, JoinedRank> = agreement
        .ranks
        .into_iter()
        .map(|rank| (rank.place, rank))
        .collect();
    runs.options.progress.phase("linking");
    let writer = ShardWriter {
        runs,
        output,
        options,
    };
    let ranks = runs.map_ranks(|entry| match failed.get(&entry.place()) {
        // even if the rank can be linked now, the join excluded it
        Some(message) => failed_before(entry, message),
        None => writer.write(entry, joined.get(&entry.place())),
    });
    Ok(ShardReport {
        shard: shard.index(),
        shards: shard.count(),
        ranks: ranks.into_iter().filter(|rank| !rank.is_unwanted).collect(),
        summaries: None,
    })
}

fn failed_before(entry: RankEntry<'_>, message: &str) -> MergedRank {
    let error = match message {
        REFUSED => PhaseError::RefusedBefore,
        message => PhaseError::FailedBefore {
            message: message.to_owned(),
        },
    };
    MergedRank {
        error: Some(error.to_string()),
        ..MergedRank::of_entry(entry)
    }
}

/// The last phase of a shard in progress.
struct ShardWriter<'r> {
    runs: &'r RunSet,
    output: &'r Path,
    options: &'r MergeOptions,
}

impl ShardWriter<'_> {
    fn write(&self, entry: RankEntry<'_>, joined: Option<&JoinedRank>) -> MergedRank {
        let mut rank = MergedRank::of_entry(entry);
        match self.try_write(entry, joined) {
            Ok(linked) => {
                rank.is_unwanted = !entry.is_wanted(linked.report.rank);
                rank.not_joined = joined.is_some_and(|rank| rank.agreement.is_none());
                rank.linked = Some(linked);
            }
            Err(error) => rank.error = Some(text::error_chain(&error)),
        }
        rank
    }

    fn try_write(
        &self,
        entry: RankEntry<'_>,
        joined: Option<&JoinedRank>,
    ) -> Result<JobReport, RunError> {
        let mut job = LinkJob {
            form: self.options.chakra,
            ..entry.job()?
        };
        let is_joined = joined.is_some_and(|rank| rank.agreement.is_some());
        let mut earlier = None;
        // an unjoined rank has no place in a simulation of all ranks; one that was not requested or
        // is refused is never written
        if joined.is_some() && (is_joined || self.options.simulator.is_none()) {
            let (target, stale) = self.target(entry, is_joined)?;
            (job.target, earlier) = (Some(target), stale);
        }
        let context = RankContext {
            agreement: joined.and_then(|rank| rank.agreement.as_ref()),
            serialize_comms: is_joined && self.options.simulator.is_some(),
            clock: joined.map_or_else(RankClock::default, |rank| rank.clock.to_clock()),
        };
        let mut linked = entry.run_job(&job, context)?;
        let named = entry.files().rank.map(GlobalRank);
        linked.report.rank = linked.report.rank.or(named);
        if linked.output.is_some()
            && let Some(earlier) = earlier
        {
            storage::remove(&earlier).with_path(FileAction::RemoveEarlier, &earlier)?;
        }
        Ok(linked)
    }

    /// Returns the rank's output file, which is independent of files that other shards write to the
    /// same folder. Also returns the rank's earlier file under its other name, joined or not, to be
    /// removed after writing.
    fn target(
        &self,
        entry: RankEntry<'_>,
        is_joined: bool,
    ) -> Result<(Target, Option<PathBuf>), RunError> {
        let folder = self.output.join(&entry.run().folder);
        let name = output_name(self.runs, entry.run());
        let name = rank_file_name(&name, entry.label(), self.options, is_joined);
        let folder = storage::trimmed(&folder);
        let path = folder.join(&name);
        // a file may have appeared since the join checked
        if storage::exists(&path) && !is_ours(&path) {
            return Err(OutputError::NotOurs { path }.into());
        }
        // for a whole run, the join has already removed stale files
        let other = if self.runs.options.ranks.is_some() {
            other_name(&name)
        } else {
            None
        };
        let other = other.map(|other| folder.join(other));
        let earlier = other.filter(|other| storage::exists(other));
        if let Some(earlier) = &earlier {
            if !self.options.overwrite {
                let path = earlier.clone();
                return Err(OutputError::Exists { path }.into());
            }
            if !is_ours(earlier) {
                let path = earlier.clone();
                return Err(OutputError::NotOurs { path }.into());
            }
        }
        storage::make_folders(&folder).with_path(FileAction::MakeFolder, &folder)?;
        let target = Target::new(&path, Some(self.options.format), self.options.overwrite)?;
        Ok((target, earlier))
    }
}
