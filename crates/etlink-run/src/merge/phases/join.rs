//! Second phase of a merge: joins the ranks of all shards, in one place.

use super::check_options;
use super::contents::{
    JoinedRank, REFUSED, RankOutcome, ShardAgreement, ShardSummaries, SummarizedRank,
    merge_identity,
};
use super::files::PhaseFile;
use crate::error::RunError;
use crate::merge::earlier::EarlierFiles;
use crate::merge::joined::JoinMember;
use crate::merge::names::{other_name, rank_file_name};
use crate::merge::{KnownRank, MergeOptions, MergedRun, output_name, rank_outputs, simulator};
use crate::output::{FileSet, OutputError, OutputFormat};
use crate::phases::{EarlierPhase, FailedRank, PhaseError};
use crate::run::RunSet;
use etlink_link::ranks::RankClock;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Bytes that a join holds per stored byte of a rank, whose numbers are packed. This includes the
/// rank itself and the results for all ranks. Measured: 3.2 for ranks of 200 MB with groups of all
/// ranks, up to 4.4 for pairs and messages of all ranks.
const JOINED_BYTES: u64 = 5;

/// Report of a join.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinReport {
    /// Number of shards.
    pub shards: u32,
    /// Number of requested ranks.
    pub ranks: usize,
    /// Join of the ranks of each run.
    pub runs: Vec<MergedRun>,
    /// Ranks that could not be linked, and why.
    pub failed: Vec<FailedRank>,
    /// True if no rank could be linked, and none was refused as damaged.
    #[serde(skip)]
    pub is_empty: bool,
}

impl JoinReport {
    /// Returns the number of linked ranks that are excluded from their runs.
    pub fn not_joined(&self) -> usize {
        let short = self.runs.iter().filter(|run| run.is_short());
        short.map(|run| run.excluded.len()).sum()
    }

    /// Returns true if all ranks were linked and none is excluded from its run. With `strict`,
    /// their communications must also be fully recorded.
    pub fn is_complete(&self, strict: bool) -> bool {
        let is_short = self.runs.iter().any(MergedRun::is_short);
        let is_unknown = strict && self.runs.iter().any(MergedRun::has_unrecorded);
        self.failed.is_empty() && !is_short && !is_unknown
    }
}

/// Joins the ranks of all shards: stores the decisions for each rank, and writes the files next to
/// the ranks' files.
///
/// # Errors
/// Fails if a shard is missing or ran on other traces or with other options, or if a file cannot be
/// written.
pub fn join_shards(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<JoinReport, RunError> {
    check_options(runs, options)?;
    let shards = PhaseFile::Summaries.all_shards(output)?;
    let identity = merge_identity(runs, options);
    let read = |at: usize| -> Result<Vec<SummarizedRank>, RunError> {
        let summaries: ShardSummaries = PhaseFile::Summaries.read(output, shards[at])?;
        let phase = EarlierPhase::Summaries;
        summaries.identity.check(shards[at], phase, &identity)?;
        Ok(summaries.ranks)
    };
    let mut outcomes: BTreeMap<usize, RankOutcome> = BTreeMap::new();
    let mut held = 0u64;
    for at in 0..shards.len() {
        let ranks = read(at)?;
        let joined = stored_bytes(&ranks).saturating_mul(JOINED_BYTES);
        held = held.saturating_add(joined);
        runs.check_joined(identity.ranks.len(), held)?;
        outcomes.extend(ranks.into_iter().map(|rank| (rank.place, rank.outcome)));
    }
    if outcomes.values().all(RankOutcome::is_unwanted) {
        return Err(RunError::NoRankAsked);
    }
    let is_unwanted = |outcome: &&RankOutcome| outcome.is_unwanted();
    let unwanted = outcomes.values().filter(is_unwanted).count();
    let is_refused = |outcome: &RankOutcome| matches!(outcome, RankOutcome::Refused);
    let are_refused = outcomes.values().any(is_refused);
    let joiner = ShardJoiner {
        runs,
        output,
        options,
        was_joined: !PhaseFile::Agreement.shards(output)?.is_empty(),
    };
    let joined = joiner.join(outcomes)?;
    // before any file is written: a foreign file of the same name prevents all writes
    let beside = joiner.places_beside(&joined)?;
    let ranks = joined.ranks.into_iter();
    let mut by_place: BTreeMap<usize, JoinedRank> = ranks.map(|rank| (rank.place, rank)).collect();
    let count = identity.ranks.len();
    for shard in &shards {
        let places = (0..count).filter(|place| shard.has(*place));
        let failed = joined.failed.iter();
        let failed = failed.filter(|(place, _)| shard.has(*place));
        let agreement = ShardAgreement {
            identity: identity.clone(),
            ranks: places.filter_map(|place| by_place.remove(&place)).collect(),
            failed: failed
                .map(|(place, rank)| (*place, rank.message.clone()))
                .collect(),
        };
        PhaseFile::Agreement.write(output, *shard, &agreement)?;
    }
    // from an earlier join with another number of shards: no shard may use it
    for shard in PhaseFile::Agreement.shards(output)? {
        if !shards.contains(&shard) {
            PhaseFile::Agreement.remove(output, shard)?;
        }
    }
    for place in beside {
        place.write(&joiner, &joined.runs)?;
    }
    Ok(JoinReport {
        shards: shards.len() as u32,
        ranks: count - unwanted,
        is_empty: joined.members.iter().all(Vec::is_empty) && !are_refused,
        runs: joined.runs,
        failed: joined.failed.into_iter().map(|(_, rank)| rank).collect(),
    })
}

/// Returns the stored size of a shard's ranks, uncompressed.
fn stored_bytes(ranks: &Vec<SummarizedRank>) -> u64 {
    postcard::experimental::serialized_size(ranks).map_or(u64::MAX, |bytes| bytes as u64)
}

/// A join in progress.
struct ShardJoiner<'r> {
    runs: &'r RunSet,
    output: &'r Path,
    options: &'r MergeOptions,
    /// True if an earlier join wrote into this folder.
    was_joined: bool,
}

/// Results of a join.
struct JoinedRuns {
    runs: Vec<MergedRun>,
    /// Linked ranks per run.
    members: Vec<Vec<LinkedMember>>,
    /// Failed ranks, with their places among all ranks of the source.
    failed: Vec<(usize, FailedRank)>,
    ranks: Vec<JoinedRank>,
}

impl ShardJoiner<'_> {
    /// Joins each run.
    fn join(&self, outcomes: BTreeMap<usize, RankOutcome>) -> Result<JoinedRuns, RunError> {
        let mut all: Vec<Vec<LinkedMember>> = vec![];
        all.resize_with(self.runs.runs.len(), Vec::new);
        let mut failed = vec![];
        for (place, outcome) in outcomes {
            let Some(&(run, files)) = self.runs.listed.get(place) else {
                continue;
            };
            let label = self.runs.runs[run].ranks[files].label.clone();
            let message = match outcome {
                RankOutcome::Linked(summary) => {
                    let known = summary.map(|summary| summary.into_known());
                    all[run].push(LinkedMember {
                        place,
                        label,
                        known,
                    });
                    continue;
                }
                RankOutcome::Unwanted => continue,
                RankOutcome::Refused => REFUSED.to_owned(),
                RankOutcome::Failed(message) => message,
            };
            let folder = &self.runs.runs[run].folder;
            let name = folder.join(&label).display().to_string();
            failed.push((place, FailedRank { name, message }));
        }
        let (mut joined_runs, mut ranks) = (vec![], vec![]);
        for (run, members) in all.iter_mut().enumerate() {
            let mut joined = self.join_run(run, members);
            for member in members {
                // not needed after the join
                member.known = None;
                ranks.push(member.joined_rank(&mut joined));
            }
            joined_runs.push(joined);
        }
        Ok(JoinedRuns {
            runs: joined_runs,
            members: all,
            failed,
            ranks,
        })
    }

    fn join_run(&self, run: usize, members: &mut [LinkedMember]) -> MergedRun {
        let files = &self.runs.runs[run];
        let members = members.iter_mut().map(|member| JoinMember {
            label: &member.label,
            known: member.known.as_mut(),
        });
        MergedRun::new(self.options, &self.runs.options, files, members.collect())
    }

    /// Returns a place for the files next to the ranks' files, for each run with linked ranks.
    fn places_beside(&self, joined: &JoinedRuns) -> Result<Vec<PlaceBeside>, RunError> {
        let mut places = vec![];
        for (run, members) in joined.members.iter().enumerate() {
            if members.is_empty() {
                continue;
            }
            let place = self.place_beside(run, members, joined)?;
            simulator::check_absent(self.options, place.set.folder(), &joined.runs[run])?;
            places.push(place);
        }
        Ok(places)
    }

    fn place_beside(
        &self,
        run: usize,
        members: &[LinkedMember],
        joined: &JoinedRuns,
    ) -> Result<PlaceBeside, RunError> {
        let files = &self.runs.runs[run];
        let name = output_name(self.runs, files);
        let set = FileSet::new(&self.output.join(&files.folder), self.options.overwrite)?;
        for name in simulator::file_names(self.options) {
            set.target(name, OutputFormat::EtPlus)?;
        }
        let outputs = rank_outputs(self.runs, files, self.options);
        let earlier =
            EarlierFiles::find(self.options, set.folder(), &name, &outputs, self.was_joined)?;
        // files that this run writes are replaced one by one; the rest belongs to an earlier run
        let file_of = |member: &LinkedMember| {
            let is_joined = joined.runs[run].has(&member.label);
            // in a simulation, an idle rank takes the name of an excluded one
            let has_rank = is_joined || self.options.simulator.is_some();
            rank_file_name(&name, &member.label, self.options, has_rank)
        };
        let written: BTreeSet<String> = members.iter().map(file_of).collect();
        // the file of a rank replaces its earlier file even if only one of the two is joined
        let has_file = |file: &String| {
            let other = other_name(file);
            written.contains(file) || other.is_some_and(|other| written.contains(&other))
        };
        let before = earlier.ranks.iter().chain(&earlier.not_joined);
        let mut lost = before.clone().filter(|file| !has_file(file));
        let failed = joined
            .failed
            .iter()
            .filter(|(place, _)| self.runs.listed[*place].0 == run)
            .count();
        if failed > 0
            && let Some(file) = lost.next()
        {
            return Err(PhaseError::EarlierRankStays {
                folder: set.folder().to_owned(),
                failed,
                file: file.clone(),
            }
            .into());
        }
        let how = &self.runs.options;
        if how.ranks.is_some() && !how.allow_mismatch {
            let of_run = members
                .iter()
                .filter(|member| joined.runs[run].has(&member.label));
            earlier.check_part(set.folder(), &of_run.map(file_of).collect())?;
        }
        if self.options.simulator.is_some() {
            earlier.check_other_run(set.folder())?;
        }
        if self.options.simulator.is_some() && self.runs.options.ranks.is_some() {
            earlier.check_simulation(set.folder(), &outputs)?;
        }
        let stale = before.filter(|file| !written.contains(*file));
        let stale: Vec<String> = stale.chain(earlier.beside()).cloned().collect();
        // a subset of ranks removes nothing
        let is_whole = self.runs.options.ranks.is_none();
        if let Some(first) = stale.first()
            && is_whole
            && !self.options.overwrite
        {
            let path = set.folder().join(first);
            return Err(OutputError::Exists { path }.into());
        }
        Ok(PlaceBeside {
            run,
            name,
            stale,
            earlier,
            set,
        })
    }
}

/// Place of the files next to the ranks' files of a run.
struct PlaceBeside {
    run: usize,
    /// Prefix of the run's files.
    name: String,
    /// Files of an earlier run to remove, unless new ones have their names.
    stale: Vec<String>,
    earlier: EarlierFiles,
    set: FileSet,
}

impl PlaceBeside {
    /// Writes process groups and configurations of a run, before its ranks' files.
    fn write(self, joiner: &ShardJoiner<'_>, runs: &[MergedRun]) -> Result<(), RunError> {
        if joiner.options.is_et() {
            let joined = &runs[self.run];
            simulator::write_files(joiner.options, &self.set, &self.name, joined)?;
        }
        let is_part = joiner.runs.options.ranks.is_some();
        let groups = &runs[self.run].agreed.groups;
        self.earlier.check_groups(&self.set, groups, is_part)?;
        // a subset of ranks is not the whole run: the files of other ranks stay
        if is_part {
            self.set.replace(vec![])?;
            return Ok(());
        }
        let stale = self.stale.into_iter().filter(|name| !self.set.has(name));
        self.set.replace(stale.collect())?;
        Ok(())
    }
}

/// A linked rank, of any shard.
struct LinkedMember {
    /// Place among all ranks of the source.
    place: usize,
    label: String,
    /// State for the join; `None` if the rank is not certain.
    known: Option<KnownRank>,
}

impl LinkedMember {
    /// Returns the decisions for this rank, and takes them out of the join.
    fn joined_rank(&self, joined: &mut MergedRun) -> JoinedRank {
        let place = joined.rank_place(&self.label);
        let clock = place.map_or_else(RankClock::default, |place| joined.clock(place));
        let agreement = place.and_then(|place| joined.agreed.ranks.get_mut(place));
        JoinedRank {
            place: self.place,
            agreement: agreement.map(std::mem::take),
            clock: clock.into(),
        }
    }
}
