//! `merge` in three phases, for many machines that share a folder.
//!
//! ```text
//! summaries, shard 0 ──┐                     ┌── write, shard 0
//! summaries, shard 1 ──┼── join (one place) ─┼── write, shard 1
//! summaries, shard 2 ──┘                     └── write, shard 2
//! ```
//! Each shard links its ranks and keeps of them what the join needs. The join decides what every
//! rank is written with. Then each shard links its ranks again and writes them. The files are those
//! that [`merge`](super::merge) writes, byte for byte. A phase can be run again at any time.

mod contents;
mod files;
mod shard;

pub use files::{PHASE_FOLDER, PhaseError};
pub use shard::{Shard, ShardError};

use super::earlier::EarlierFiles;
use super::joined::JoinMember;
use super::{
    KnownRank, MergeOptions, MergedRank, MergedRun, output_name, rank_file_name, rank_outputs,
    simulator,
};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::job::{self, JobReport, LinkJob, RankContext};
use crate::output::{FileSet, OutputError, Target};
use crate::run::{LinkedRank, RankEntry, RunSet};
use crate::text;
use contents::{
    JoinedRank, LinkedSummary, MergeIdentity, RankOutcome, ShardAgreement, ShardSummaries,
    SummarizedRank,
};
use etlink_link::ranks::RankClock;
use etlink_model::GlobalRank;
use files::PhaseFile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a shard did.
#[derive(Serialize)]
pub struct ShardReport {
    /// Its number, from 0.
    pub shard: u32,
    /// How many there are.
    pub shards: u32,
    /// What became of its ranks.
    pub ranks: Vec<MergedRank>,
    /// Its summaries; of the last phase none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summaries: Option<PathBuf>,
}

/// What was joined.
#[derive(Serialize)]
pub struct JoinReport {
    /// How many shards there are.
    pub shards: u32,
    /// How many ranks they have.
    pub ranks: usize,
    /// How the ranks of each run go together.
    pub runs: Vec<MergedRun>,
    /// Ranks that could not be linked, and why.
    pub failed: Vec<FailedRank>,
}

/// A rank that could not be linked.
#[derive(Serialize)]
pub struct FailedRank {
    /// Its folder and label.
    pub name: String,
    /// Why.
    pub message: String,
}

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
    let identity = MergeIdentity::new(runs, options);
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
            Box::new(LinkedSummary { facts, sizes })
        }))
    };
    rank.linked = Some(report);
    (outcome, rank)
}

/// Joins the ranks of all shards: decides what each is written with, and writes what stands beside
/// the ranks' files.
///
/// # Errors
/// A shard is missing or was run on other traces or with other options, or a file cannot be
/// written.
pub fn join_shards(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<JoinReport, RunError> {
    check_options(runs, options)?;
    let shards = find_shards(output)?;
    let identity = MergeIdentity::new(runs, options);
    let mut outcomes: BTreeMap<usize, RankOutcome> = BTreeMap::new();
    for shard in &shards {
        let summaries: ShardSummaries = PhaseFile::Summaries.read(output, *shard)?;
        check_identity(*shard, &summaries.identity, &identity)?;
        let ranks = summaries.ranks.into_iter();
        outcomes.extend(ranks.map(|rank| (rank.place, rank.outcome)));
    }
    let joiner = ShardJoiner {
        runs,
        output,
        options,
    };
    let joined = joiner.join(outcomes)?;
    let ranks = joined.ranks.into_iter();
    let mut by_place: BTreeMap<usize, JoinedRank> = ranks.map(|rank| (rank.place, rank)).collect();
    let count = identity.ranks.len();
    for shard in &shards {
        let places = (0..count).filter(|place| shard.has(*place));
        let agreement = ShardAgreement {
            identity: identity.clone(),
            ranks: places.filter_map(|place| by_place.remove(&place)).collect(),
        };
        PhaseFile::Agreement.write(output, *shard, &agreement)?;
    }
    Ok(JoinReport {
        shards: shards.len() as u32,
        ranks: count,
        runs: joined.runs,
        failed: joined.failed,
    })
}

/// The shards that were summarized: all of one number of them.
fn find_shards(output: &Path) -> Result<Vec<Shard>, PhaseError> {
    let folder = output.join(PHASE_FOLDER);
    let found = PhaseFile::Summaries.shards(output)?;
    let Some(first) = found.first() else {
        return Err(PhaseError::NoSummaries { folder });
    };
    let other = found.iter().find(|shard| shard.count() != first.count());
    if let Some(other) = other {
        return Err(PhaseError::SeveralCounts {
            folder,
            one: first.count(),
            other: other.count(),
        });
    }
    let all: Vec<Shard> = first.siblings().collect();
    let missing = all.iter().filter(|shard| !found.contains(shard));
    let missing: Vec<u32> = missing.map(|shard| shard.index()).collect();
    if !missing.is_empty() {
        let count = first.count();
        return Err(PhaseError::MissingShards { missing, count });
    }
    Ok(all)
}

/// Refuses what was done on other traces, or with other options.
fn check_identity(
    shard: Shard,
    then: &MergeIdentity,
    now: &MergeIdentity,
) -> Result<(), PhaseError> {
    if then.ranks != now.ranks {
        return Err(PhaseError::OtherRanks {
            shard,
            then: then.ranks.len(),
            now: now.ranks.len(),
        });
    }
    for (before, after) in then.settings.iter().zip(&now.settings) {
        if before != after {
            return Err(PhaseError::OtherOption {
                shard,
                option: after.0.clone(),
                then: before.1.clone(),
                now: after.1.clone(),
            });
        }
    }
    Ok(())
}

/// A join in progress.
struct ShardJoiner<'r> {
    runs: &'r RunSet,
    output: &'r Path,
    options: &'r MergeOptions,
}

impl ShardJoiner<'_> {
    /// Joins each run, and writes what stands beside its ranks.
    fn join(&self, outcomes: BTreeMap<usize, RankOutcome>) -> Result<JoinedRuns, RunError> {
        let mut of_runs: Vec<Vec<LinkedMember>> = vec![];
        of_runs.resize_with(self.runs.runs.len(), Vec::new);
        let mut failed = vec![];
        for (place, outcome) in outcomes {
            let Some(&(run, files)) = self.runs.listed.get(place) else {
                continue;
            };
            let label = self.runs.runs[run].ranks[files].label.clone();
            let message = match outcome {
                RankOutcome::Linked(summary) => {
                    let known = summary.map(|summary| summary.into_known());
                    of_runs[run].push(LinkedMember {
                        place,
                        label,
                        known,
                    });
                    continue;
                }
                RankOutcome::Unwanted => continue,
                RankOutcome::Refused => "refused under --strict".to_owned(),
                RankOutcome::Failed(message) => message,
            };
            let folder = &self.runs.runs[run].folder;
            let name = folder.join(&label).display().to_string();
            failed.push(FailedRank { name, message });
        }
        let (mut joined_runs, mut ranks) = (vec![], vec![]);
        for (run, members) in of_runs.iter().enumerate() {
            let joined = self.join_run(run, members);
            self.write_beside(run, members, &joined)?;
            ranks.extend(members.iter().map(|member| member.joined_rank(&joined)));
            joined_runs.push(joined);
        }
        Ok(JoinedRuns {
            runs: joined_runs,
            failed,
            ranks,
        })
    }

    fn join_run(&self, run: usize, members: &[LinkedMember]) -> MergedRun {
        let folder = self.runs.runs[run].folder.display().to_string();
        let members = members.iter().map(|member| JoinMember {
            label: &member.label,
            known: member.known.as_ref(),
        });
        MergedRun::new(self.options, &self.runs.options, &folder, members.collect())
    }

    /// Writes process groups and configurations of a run. Its ranks' files are still to come.
    fn write_beside(
        &self,
        run: usize,
        members: &[LinkedMember],
        joined: &MergedRun,
    ) -> Result<(), RunError> {
        if members.is_empty() || !self.options.is_et() {
            return Ok(());
        }
        let files = &self.runs.runs[run];
        let folder = self.output.join(&files.folder);
        let set = FileSet::new(&folder, self.options.overwrite)?;
        let name = output_name(self.runs, files);
        let outputs = rank_outputs(self.runs, files, self.options);
        let earlier = EarlierFiles::find(self.options, &folder, &name, &outputs)?;
        simulator::check_absent(self.options, &folder, joined)?;
        simulator::write_files(self.options, &set, &name, joined)?;
        // ranks of an earlier run beside those of this one would be taken for its own
        let is_other = |file: &&String| !outputs.contains(*file) && !set.has(file);
        if let Some(file) = earlier.ranks.iter().find(is_other) {
            let path = folder.join(file);
            return Err(OutputError::OfEarlierRun { path }.into());
        }
        // a list of groups that this run does not have would be read with its ranks
        let stale = earlier.groups.into_iter().filter(|name| !set.has(name));
        set.replace(stale.collect())?;
        Ok(())
    }
}

/// What came of a join.
struct JoinedRuns {
    runs: Vec<MergedRun>,
    failed: Vec<FailedRank>,
    ranks: Vec<JoinedRank>,
}

/// A rank that was linked, of any shard.
struct LinkedMember {
    /// Its place among all ranks of the source.
    place: usize,
    label: String,
    /// `None` where its rank is not sure.
    known: Option<KnownRank>,
}

impl LinkedMember {
    fn joined_rank(&self, joined: &MergedRun) -> JoinedRank {
        let place = joined.rank_place(&self.label);
        let agreement = place.and_then(|place| joined.agreed.ranks.get(place));
        let clock = place.map_or_else(RankClock::default, |place| joined.clock(place));
        JoinedRank {
            place: self.place,
            agreement: agreement.cloned(),
            clock: clock.into(),
        }
    }
}

/// Writes the ranks of a shard, each by what the join has decided.
///
/// # Errors
/// The shard was not joined, or was on other traces or with other options. What fails for one rank
/// alone is in the report.
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
    let identity = MergeIdentity::new(runs, options);
    check_identity(shard, &agreement.identity, &identity)?;
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
    let ranks = runs.map_ranks(|entry| writer.write(entry, joined.get(&entry.place())));
    Ok(ShardReport {
        shard: shard.index(),
        shards: shard.count(),
        ranks: ranks.into_iter().filter(|rank| !rank.is_unwanted).collect(),
        summaries: None,
    })
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
        // a rank of another run has no place in a simulation of all ranks, and one that was not
        // asked for, or is refused, has none at all
        if joined.is_some() && (is_joined || self.options.simulator.is_none()) {
            job.target = Some(self.target(entry)?);
        }
        let (trace, mut linked) = job::link(&job, &self.runs.options.progress)?;
        let named = entry.files().rank.map(GlobalRank);
        linked.report.rank = linked.report.rank.or(named);
        let context = RankContext {
            agreement: joined.and_then(|rank| rank.agreement.as_ref()),
            serialize_comms: is_joined && self.options.simulator.is_some(),
            clock: joined.map_or_else(RankClock::default, |rank| rank.clock.to_clock()),
        };
        let progress = &self.runs.options.progress;
        job::write_out(&trace, &job, context, progress, &mut linked)?;
        Ok(linked)
    }

    /// A file by itself: other shards write theirs into the same folder at the same time.
    fn target(&self, entry: RankEntry<'_>) -> Result<Target, RunError> {
        let folder = self.output.join(&entry.run().folder);
        let name = rank_file_name(self.runs, entry.run(), entry.files(), self.options);
        std::fs::create_dir_all(&folder).with_path(FileAction::MakeFolder, &folder)?;
        let target = Target::new(
            &folder.join(name),
            Some(self.options.format),
            self.options.overwrite,
        )?;
        Ok(target)
    }
}

fn check_options(runs: &RunSet, options: &MergeOptions) -> Result<(), RunError> {
    if options.is_timeline() {
        return Err(PhaseError::OneFile.into());
    }
    super::check_source(runs, options)
}
