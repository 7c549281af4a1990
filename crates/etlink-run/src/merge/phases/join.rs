//! The second phase: joins the ranks of all shards, in one place.

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

/// Bytes that a join holds for each stored byte of a rank, whose numbers are packed: of the rank itself,
/// and of what is made of all. Ranks of 200 MB with groups of all took 3.2, pairs and messages of all
/// ranks up to 4.4.
const JOINED_BYTES: u64 = 5;

/// What was joined.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinReport {
    /// How many shards there are.
    pub shards: u32,
    /// How many ranks they have, of those that were asked for.
    pub ranks: usize,
    /// How the ranks of each run go together.
    pub runs: Vec<MergedRun>,
    /// Ranks that could not be linked, and why.
    pub failed: Vec<FailedRank>,
    /// No rank could be linked, and none was refused as damaged.
    #[serde(skip)]
    pub is_empty: bool,
}

impl JoinReport {
    /// How many ranks were linked and are left out of their runs.
    pub fn not_joined(&self) -> usize {
        let short = self.runs.iter().filter(|run| run.is_short());
        short.map(|run| run.excluded.len()).sum()
    }

    /// Whether all ranks could be linked, and none is left out of its run; with `strict` also whether
    /// all is known of their communications.
    pub fn is_complete(&self, strict: bool) -> bool {
        let is_short = self.runs.iter().any(MergedRun::is_short);
        let is_unknown = strict && self.runs.iter().any(MergedRun::has_unrecorded);
        self.failed.is_empty() && !is_short && !is_unknown
    }
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
    // before any file is written: nothing is, where something else has its name
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
    // of an earlier join with another number of shards: nobody shall write by it
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

/// Bytes of the ranks of a shard as they are stored, unpacked.
fn stored_bytes(ranks: &Vec<SummarizedRank>) -> u64 {
    postcard::experimental::serialized_size(ranks).map_or(u64::MAX, |bytes| bytes as u64)
}

/// A join in progress.
struct ShardJoiner<'r> {
    runs: &'r RunSet,
    output: &'r Path,
    options: &'r MergeOptions,
    /// An earlier join wrote into this folder.
    was_joined: bool,
}

/// What came of a join.
struct JoinedRuns {
    runs: Vec<MergedRun>,
    /// By run, the ranks that were linked.
    members: Vec<Vec<LinkedMember>>,
    /// By their place among all ranks of the source.
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
                // of no use after the join
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

    /// Where files are written beside those of ranks, a place for each run that has ranks.
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
        // what this run writes is replaced one by one; the rest is of an earlier one
        let file_of = |member: &LinkedMember| {
            let is_joined = joined.runs[run].has(&member.label);
            // a simulation has an idle rank by the name of one that is left out
            let has_rank = is_joined || self.options.simulator.is_some();
            rank_file_name(&name, &member.label, self.options, has_rank)
        };
        let written: BTreeSet<String> = members.iter().map(file_of).collect();
        // a rank that is joined now and was not before, or not any more, has its file all the same
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
        // a part of the ranks removes nothing
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

/// Where the files beside those of a run's ranks are written.
struct PlaceBeside {
    run: usize,
    /// What the run's files begin with.
    name: String,
    /// Files of an earlier run that go, unless new ones have their names.
    stale: Vec<String>,
    earlier: EarlierFiles,
    set: FileSet,
}

impl PlaceBeside {
    /// Writes process groups and configurations of a run. Its ranks' files are still to come.
    fn write(self, joiner: &ShardJoiner<'_>, runs: &[MergedRun]) -> Result<(), RunError> {
        if joiner.options.is_et() {
            let joined = &runs[self.run];
            simulator::write_files(joiner.options, &self.set, &self.name, joined)?;
        }
        let is_part = joiner.runs.options.ranks.is_some();
        let groups = &runs[self.run].agreed.groups;
        self.earlier.check_groups(&self.set, groups, is_part)?;
        // a part of the ranks is no whole run: the files of the others are still theirs
        if is_part {
            self.set.replace(vec![])?;
            return Ok(());
        }
        let stale = self.stale.into_iter().filter(|name| !self.set.has(name));
        self.set.replace(stale.collect())?;
        Ok(())
    }
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
    /// What it is written with, which is taken out of the join.
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
