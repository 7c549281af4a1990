//! Merges runs: links all ranks in parallel, joins them, and writes one file per rank or per run.
//!
//! The communications and times in a rank's file depend on all ranks. So all ranks are linked
//! first, and only the summaries that the join needs are kept. The linked traces are kept too if
//! all of them fit into the memory budget. Otherwise each rank is linked again when it is written.
//!
//! A cache keeps the summaries. So several machines that share it can each write a shard of the ranks:
//! all of them join all ranks, with the same result, and no rank is linked only for the join. The first
//! shard also writes the files of the whole run.

mod earlier;
mod joined;
mod names;
mod simulator;
mod timeline;
mod timeline_context;
mod traced_device;

pub(crate) use earlier::EarlierFiles;
pub use joined::MergedRun;
pub(crate) use simulator::put_file;
pub use timeline_context::TimelineReport;
pub(crate) use traced_device::traced_device;

use crate::Progress;
use crate::discover::RunFiles;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::job::{self, JobReport, LinkJob, RankContext};
use crate::output::{
    FileSet, OutputFormat, Packing, Piece, Target, no_target, refuse_input_folder,
};
use crate::rank_results::{RankJob, cache_settings, cached_result};
use crate::run::{LinkedRank, RankEntry, RunSet, RunSource, only_graphs};
use crate::shard::Shard;
use crate::storage::{self, packed_name};
use crate::text;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::astra::NetworkBackend;
use etlink_chakra::{RooflineDevice, WriteOptions};
use etlink_link::LinkedTrace;
use etlink_link::ranks::RankSummary;
use etlink_model::{Diagnostic, Failure, GlobalRank};
use joined::JoinMember;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Form of the merged output.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Format of the files: one per rank, or one per run for Perfetto.
    pub format: OutputFormat,
    /// Settings of each `.et`.
    pub chakra: WriteOptions<'static>,
    /// Compression of each `.et`.
    pub packing: Packing,
    /// File name of a run's timeline; `None` for `timeline.pftrace.gz`, or `timeline.trace.json.gz`
    /// as JSON. A name that ends in `.gz` is compressed.
    pub timeline_name: Option<String>,
    /// Settings of the files with which ASTRA-sim runs all ranks; `None` writes none of them.
    pub simulator: Option<AstraSimOptions>,
    /// True to replace the files of an earlier run.
    pub overwrite: bool,
    /// Shard of the ranks to write. All ranks are joined, and the first shard also writes the files of
    /// the whole run.
    pub shard: Shard,
}

/// Settings of a simulation in ASTRA-sim.
#[derive(Clone, Copy, Debug, Default)]
pub struct AstraSimOptions {
    /// True if device nodes take the time of a roofline model instead of the measured time.
    pub roofline: bool,
    /// Simulator of the network.
    pub backend: NetworkBackend,
}

impl MergeOptions {
    fn is_et(&self) -> bool {
        self.format == OutputFormat::Chakra
    }

    /// Returns true if the files of the whole run are written too.
    fn is_first(&self) -> bool {
        self.shard.index() == 0
    }

    /// Returns true if each run becomes one file of all its ranks.
    pub fn is_timeline(&self) -> bool {
        self.format.for_perfetto().is_some()
    }
}

/// Result of one rank.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRank {
    /// Folder of the rank's run.
    pub run: String,
    /// Rank number, or the file name if the rank is unknown.
    pub label: String,
    /// Error that kept the rank from being written; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Report of the linking; `None` if the rank failed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub linked: Option<JobReport>,
    /// True if the rank was linked but not joined with the others. Its file then has a name that no
    /// reader takes for a rank's.
    #[serde(skip)]
    pub not_joined: bool,
    #[serde(skip)]
    known: Option<KnownRank>,
    /// True if the trace states a rank that was not requested.
    #[serde(skip)]
    is_unwanted: bool,
    /// The rank's part of the timeline.
    #[serde(skip)]
    piece: Option<Piece>,
    /// Join of a run that consists of this rank alone.
    #[serde(skip)]
    alone: Option<MergedRun>,
}

/// State of a linked rank that is kept until all ranks are linked.
#[derive(BorshSerialize, BorshDeserialize)]
struct KnownRank {
    facts: RankSummary,
    sizes: Vec<Option<i64>>,
    device: RooflineDevice,
    /// Linked trace, if traces are kept. Boxed: even its empty columns take kilobytes.
    #[borsh(skip)]
    trace: Option<Box<LinkedTrace>>,
}

/// What a cache keeps of a linked rank.
#[derive(BorshSerialize, BorshDeserialize)]
struct LinkedSummary {
    known: Option<KnownRank>,
    report: JobReport,
}

impl LinkedSummary {
    /// Links a rank for `job`. Has the state for the join if the rank is certain and may be written.
    fn link(
        entry: RankEntry<'_>,
        job: &LinkJob,
    ) -> Result<(LinkedSummary, Box<LinkedTrace>), RunError> {
        let LinkedRank {
            trace,
            report,
            summary,
        } = entry.link_by(job)?;
        let summary = if !report.refused { summary } else { None };
        // a hundred bytes per communication; the trace itself would take gigabytes
        let known = summary.map(|facts| KnownRank {
            sizes: etlink_chakra::simulated_sizes(&trace, &facts),
            device: traced_device(&trace),
            facts,
            trace: None,
        });
        Ok((LinkedSummary { known, report }, Box::new(trace)))
    }
}

/// Returns the settings on which a linked rank depends.
fn rank_work(options: &MergeOptions) -> RankJob {
    let settings = vec![
        ("format", format!("{:?}", options.format)),
        ("form", format!("{:?}", options.chakra)),
    ];
    RankJob {
        command: "merge",
        settings: Some(settings),
    }
}

/// Returns the settings for linking a rank whose file is not written here.
fn summary_job(entry: RankEntry<'_>, options: &MergeOptions) -> Result<LinkJob, RunError> {
    Ok(LinkJob {
        form: options.chakra,
        ..entry.job()?
    })
}

/// Links a rank of a shard that is only prepared.
fn summarize(entry: RankEntry<'_>, options: &MergeOptions) -> Result<LinkedSummary, RunError> {
    let (summary, _) = LinkedSummary::link(entry, &summary_job(entry, options)?)?;
    refuse_damage(&summary.report)?;
    Ok(summary)
}

fn refuse_damage(report: &JobReport) -> Result<(), RunError> {
    if report.refused {
        let device = Path::new(&report.device);
        return Err(RunError::refused_trace(device, &report.report.anomalies));
    }
    Ok(())
}

/// Result of a merge.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergeReport {
    /// Result of each rank, in the order of the set.
    pub ranks: Vec<MergedRank>,
    /// Join of the ranks of each run.
    pub runs: Vec<MergedRun>,
    /// True if no rank could be linked, in any shard.
    #[serde(skip)]
    pub is_empty: bool,
    /// Run whose earlier files stay because too few ranks were written to replace them.
    #[serde(skip)]
    pub incomplete: Option<IncompleteReplacement>,
}

impl MergeReport {
    /// Returns true if all ranks were written and joined with their runs.
    pub fn is_complete(&self) -> bool {
        let is_short = self.runs.iter().any(MergedRun::is_short);
        let bad = self.ranks.iter().any(MergedRank::is_bad);
        !bad && !is_short && self.incomplete.is_none()
    }
}

/// Links all ranks of the set, joins the ranks of each run, and writes one file per rank, or one
/// for all, into a folder per run below `output`.
///
/// # Errors
/// Fails if files already exist, a folder cannot be created, or the set has written graphs instead
/// of traces. Fails with [`RunError::Prepared`] if the ranks were only to be prepared. Failures of a
/// single rank are in the report.
pub fn merge(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<MergeReport, RunError> {
    check_source(runs, output, options)?;
    if options.shard != Shard::WHOLE && options.is_timeline() {
        let problem =
            "a shard writes files of its ranks: leave --shard out for one file of all ranks";
        return Err(Failure::new(problem).into());
    }
    let work = rank_work(options);
    if let Some(shard) = runs.options.prepare {
        runs.options.progress.phase("linking");
        let prepared = runs.prepare_ranks(shard, &work, |entry| summarize(entry, options))?;
        return Err(prepared.into());
    }
    // before any folder is created
    if runs.is_empty() {
        return Err(RunError::NoRankAsked);
    }
    let places = output_places(runs, output, options)?;
    runs.options.progress.phase("linking");
    let merger = Merger {
        settings: cache_settings(runs, &work),
        hold: runs.all_fit(),
        runs,
        options,
        places,
    };
    let report = merger.merge_ranks();
    let made = merger.made_folders();
    // its work folders are inside them
    drop(merger);
    for folder in made {
        // fails for folders with results: removes only the empty ones
        drop(std::fs::remove_dir(folder));
    }
    report
}

/// Refuses sources that cannot be merged, or not in this form.
fn check_source(runs: &RunSet, output: &Path, options: &MergeOptions) -> Result<(), RunError> {
    if runs.runs.iter().any(RunFiles::is_written) {
        return Err(only_graphs(runs.source_name()));
    }
    if options.simulator.is_some() && (!options.is_et() || options.packing != Packing::Plain) {
        let problem = Failure::new("simulators read only plain .et files");
        return Err(problem
            .advise("leave out the format and the compression")
            .into());
    }
    let ranks = runs.runs.iter().flat_map(|run| &run.ranks);
    let inputs = ranks.flat_map(|rank| rank.host.iter().chain(&rank.device));
    refuse_input_folder(output, inputs)
}

/// Output of a run.
struct RunPlace {
    /// Files to write.
    set: FileSet,
    /// Files of an earlier run; empty if files are not replaced.
    earlier: EarlierFiles,
}

/// Returns the output of each run; `None` for runs without a requested rank. Creates the folders,
/// and refuses existing files before any work is done.
fn output_places(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<Vec<Option<RunPlace>>, RunError> {
    let mut places = vec![];
    for (index, run) in runs.runs.iter().enumerate() {
        // an empty folder would look like a run that could not be written
        places.push(if runs.ranks.iter().any(|(of, _)| *of == index) {
            Some(output_place(
                runs,
                index,
                &output.join(&run.folder),
                options,
            )?)
        } else {
            None
        });
    }
    Ok(places)
}

fn output_place(
    runs: &RunSet,
    run: usize,
    folder: &Path,
    options: &MergeOptions,
) -> Result<RunPlace, RunError> {
    let set = FileSet::of_shard(folder, options.overwrite, options.shard)?;
    // checks every file name now, so that a merge does not fail after an hour of work
    if options.is_first() {
        for name in simulator::file_names(options) {
            set.target(name, OutputFormat::EtPlus)?;
        }
    }
    timeline::target(options, &set).transpose()?;
    if !options.overwrite {
        let outputs = rank_outputs(runs, run, options, options.shard);
        // A rank whose file exists would be left out of the join, and change the other files.
        if !options.is_timeline() {
            for name in &outputs {
                set.target(name, options.format)?;
            }
        }
        if runs.options.ranks.is_some() {
            check_not_joined(set.folder(), &outputs)?;
        }
        return Ok(RunPlace {
            set,
            earlier: EarlierFiles::default(),
        });
    }
    let outputs = rank_outputs(runs, run, options, Shard::WHOLE);
    let name = output_name(runs, &runs.runs[run]);
    // the groups may be those of the first shard, and its graphs not there yet
    let knows_groups = !options.is_first();
    let earlier = EarlierFiles::find(options, set.folder(), &name, &outputs, knows_groups)?;
    if options.simulator.is_some() {
        earlier.check_other_run(set.folder())?;
    }
    if options.simulator.is_some() && runs.options.ranks.is_some() {
        earlier.check_simulation(set.folder(), &outputs)?;
    }
    Ok(RunPlace { set, earlier })
}

/// Refuses ranks that already have a file from a merge in which they were not joined: the rank
/// would have two files.
fn check_not_joined(folder: &Path, outputs: &BTreeSet<String>) -> Result<(), RunError> {
    for entry in storage::list(folder).with_path(FileAction::ReadFolder, folder)? {
        let joined = entry.name().to_str().and_then(names::joined_name);
        if joined.is_some_and(|joined| outputs.contains(&joined)) {
            return Err(RunError::Exists { path: entry.path });
        }
    }
    Ok(())
}

/// Returns the names of the output files of a shard's ranks in a run, as if all were joined.
fn rank_outputs(
    runs: &RunSet,
    run: usize,
    options: &MergeOptions,
    shard: Shard,
) -> BTreeSet<String> {
    if let Some(timeline) = timeline::file_name(options) {
        return BTreeSet::from([timeline.to_owned()]);
    }
    let files = &runs.runs[run];
    let name = output_name(runs, files);
    let ranks = runs.ranks.iter().enumerate();
    ranks
        .filter(|(index, (of, _))| *of == run && shard.has(*index))
        .map(|(_, (_, place))| &files.ranks[*place].label)
        .map(|label| names::rank_file_name(&name, label, options, true))
        .collect()
}

/// Reports a run that was not replaced: some ranks failed, and the earlier run has files of ranks
/// that would be lost.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: nothing was replaced, because {file} of an earlier run would be lost (failed ranks: \
     {failed}); fix the errors above, write to another folder, or remove the file",
    folder.display()
)]
pub struct IncompleteReplacement {
    /// Folder of the run.
    pub folder: PathBuf,
    /// Number of failed ranks.
    pub failed: usize,
    /// A file of the earlier run that would be lost.
    pub file: String,
}

/// New report of a rank that waited for the others, and its part of a timeline.
type WrittenParts = Result<(JobReport, Option<Piece>), RunError>;

/// A merge in progress.
struct Merger<'r> {
    runs: &'r RunSet,
    options: &'r MergeOptions,
    /// Output per run; `None` if none of its ranks was requested.
    places: Vec<Option<RunPlace>>,
    /// True if linked traces are kept until all ranks are linked.
    hold: bool,
    /// Settings of the cached summaries; `None` without a cache.
    settings: Option<Vec<(String, String)>>,
}

impl Merger<'_> {
    /// Links all ranks, joins them, and writes the output.
    fn merge_ranks(&self) -> Result<MergeReport, RunError> {
        let mut ranks = self.runs.map_ranks(|rank| self.link(rank));
        // ranks of unknown number were linked to learn it, and none was requested
        if ranks.iter().all(|rank| rank.is_unwanted) {
            return Err(RunError::NoRankAsked);
        }
        // the communications in a rank's file depend on all other ranks
        let mut joined = self.join(&mut ranks);
        self.set_apart(&mut ranks, &joined);
        self.check_parts(&ranks)?;
        for (place, run) in self.places.iter().zip(&joined) {
            // needs the number of ranks from the join, but comes before any file is written
            if let Some(place) = place {
                simulator::check_absent(self.options, place.set.folder(), run)?;
            }
        }
        let written = self
            .runs
            .map_ranks(|rank| self.write_joined(&joined, rank, &ranks[rank.index]));
        for (rank, written) in ranks.iter_mut().zip(written) {
            rank.take_written(written);
        }
        // after the ranks: a folder without written ranks gets no configuration
        self.write_beside(&ranks, &joined)?;
        self.write_timelines(&mut ranks, &mut joined)?;
        self.check_groups(&joined)?;
        let incomplete = self.replace(&mut ranks, &mut joined)?;
        let is_empty = ranks.iter().all(|rank| rank.linked.is_none());
        // places of ranks are valid up to here
        let mut index = 0..;
        ranks.retain(|rank| index.next().is_some_and(|at| self.is_ours(at)) && !rank.is_unwanted);
        Ok(MergeReport {
            ranks,
            runs: joined,
            is_empty,
            incomplete,
        })
    }

    /// Returns the created folders, inner ones first.
    fn made_folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![];
        for place in self.places.iter().flatten() {
            folders.extend_from_slice(place.set.made_folders());
        }
        folders.sort_by(|a, b| b.cmp(a));
        folders
    }

    /// Links a rank, and writes it if its file does not depend on others.
    fn link(&self, entry: RankEntry<'_>) -> MergedRank {
        let mut rank = MergedRank::of_entry(entry);
        if let Err(error) = self.try_link(entry, &mut rank) {
            // a rank that failed late is not joined either: its file would be missing from the run
            (rank.linked, rank.error, rank.known) = (None, Some(text::error_chain(&error)), None);
        }
        rank
    }

    /// Returns true if the file of the rank at this place in the set is written here.
    fn is_ours(&self, index: usize) -> bool {
        self.options.shard.has(index)
    }

    /// Links a rank, unless its summary is cached; then there is no trace.
    fn link_or_find(
        &self,
        entry: RankEntry<'_>,
        job: &LinkJob,
    ) -> Result<(LinkedSummary, Option<Box<LinkedTrace>>), RunError> {
        let (mut trace, mut refused) = (None, None);
        let found = cached_result(entry, self.settings.as_deref(), || {
            let (summary, linked) = LinkedSummary::link(entry, job)?;
            if let Err(error) = refuse_damage(&summary.report) {
                refused = Some(summary);
                return Err(error);
            }
            trace = Some(linked);
            Ok(summary)
        });
        match refused {
            Some(summary) => Ok((summary, None)),
            None => Ok((found?, trace)),
        }
    }

    fn try_link(&self, entry: RankEntry<'_>, rank: &mut MergedRank) -> Result<(), RunError> {
        let is_ours = self.is_ours(entry.index);
        let job = if is_ours {
            // assumes that the rank will be joined
            self.job(entry, true)?
        } else {
            summary_job(entry, self.options)?
        };
        let (summary, trace) = self.link_or_find(entry, &job)?;
        let mut linked = summary.report;
        if !entry.is_wanted(linked.report.rank) {
            rank.is_unwanted = true;
            return Ok(());
        }
        rank.known = summary.known;
        let alone = entry.is_alone();
        let (Some(trace), true) = (trace, is_ours) else {
            rank.linked = Some(linked);
            return Ok(());
        };
        if self.is_by_itself(rank, alone) {
            let context = RankContext::default();
            job::write_out(&trace, &job, context, self.progress(), &mut linked)?;
        } else if alone {
            let members = rank.join_member().into_iter().collect();
            let joined = MergedRun::new(self.options, &self.runs.options, entry.run(), members);
            rank.piece = self.write_rank(&trace, &job, &joined, &rank.label, &mut linked)?;
            rank.alone = Some(joined);
        } else if self.hold
            && entry.may_stay()
            && let Some(known) = rank.known.as_mut()
        {
            known.trace = Some(trace);
        }
        rank.linked = Some(linked);
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.runs.options.progress
    }

    /// Returns true if a rank's file does not depend on other ranks.
    fn is_by_itself(&self, rank: &MergedRank, alone: bool) -> bool {
        let silent = rank
            .known
            .as_ref()
            .is_some_and(|known| known.facts.communications.is_empty());
        match self.options.format {
            // the recorded op tree contains nothing that other ranks decide
            OutputFormat::EtPlus => true,
            OutputFormat::Chrome | OutputFormat::Perfetto => false,
            // its times may be aligned to the clock of the first rank
            OutputFormat::Chakra => {
                let is_aligned = !self.runs.options.no_align;
                silent && !alone && !is_aligned && self.options.simulator.is_none()
            }
        }
    }

    /// Writes a file that depends on the other ranks.
    fn write_rank(
        &self,
        trace: &LinkedTrace,
        job: &LinkJob,
        joined: &MergedRun,
        label: &str,
        linked: &mut JobReport,
    ) -> Result<Option<Piece>, RunError> {
        if self.options.is_timeline() {
            return self.write_part(trace, job, joined, label, linked);
        }
        job::write_out(
            trace,
            job,
            joined.rank_context(self.options, label),
            self.progress(),
            linked,
        )?;
        Ok(None)
    }

    fn job(&self, entry: RankEntry<'_>, is_joined: bool) -> Result<LinkJob, RunError> {
        Ok(LinkJob {
            target: Some(self.target(entry, is_joined)?),
            form: self.options.chakra,
            ..entry.job()?
        })
    }

    /// Returns the output file of a rank, or of its part of a timeline.
    fn target(&self, entry: RankEntry<'_>, is_joined: bool) -> Result<Target, RunError> {
        let place = self.places[self.runs.ranks[entry.index].0].as_ref();
        // a rank that is linked was requested, so its run has an output
        let set = &place.ok_or_else(no_target)?.set;
        if let Some(timeline) = timeline::target(self.options, set) {
            return timeline;
        }
        let name = output_name(self.runs, entry.run());
        let name = names::rank_file_name(&name, entry.label(), self.options, is_joined);
        set.target(&name, self.options.format)
    }

    /// Joins the ranks of each run.
    fn join(&self, ranks: &mut [MergedRank]) -> Vec<MergedRun> {
        let mut runs = vec![];
        for (run, files) in self.runs.runs.iter().enumerate() {
            let places: Vec<usize> = (0..ranks.len())
                .filter(|at| self.runs.ranks[*at].0 == run)
                .collect();
            if let [only] = places[..]
                && let Some(joined) = ranks[only].alone.take()
            {
                runs.push(joined);
                continue;
            }
            let of_run = ranks.iter_mut().zip(&self.runs.ranks);
            let of_run = of_run.filter(|(_, (of, _))| *of == run);
            let members = of_run.filter_map(|(rank, _)| rank.join_member());
            runs.push(MergedRun::new(
                self.options,
                &self.runs.options,
                files,
                members.collect(),
            ));
        }
        runs
    }

    /// Marks ranks that were not joined. Discards their files written under the name of a joined
    /// rank, so that they are written again.
    fn set_apart(&self, ranks: &mut [MergedRank], runs: &[MergedRun]) {
        for (rank, (run, _)) in ranks.iter_mut().zip(&self.runs.ranks) {
            let Some(linked) = rank.linked.as_mut().filter(|linked| !linked.refused) else {
                continue;
            };
            rank.not_joined = !rank.is_unwanted && !runs[*run].has(&rank.label);
            if !rank.not_joined {
                continue;
            }
            let name = output_name(self.runs, &self.runs.runs[*run]);
            let name_of = |is_joined: bool| {
                names::rank_file_name(&name, &rank.label, self.options, is_joined)
            };
            let name = name_of(true);
            if let Some(place) = &self.places[*run]
                && linked.output.is_some()
                && name != name_of(false)
            {
                place.set.discard(&name);
                (linked.output, linked.bytes.output) = (None, 0);
            }
        }
    }

    /// Refuses a subset of ranks that would add a rank to an earlier run that had excluded it.
    fn check_parts(&self, ranks: &[MergedRank]) -> Result<(), RunError> {
        let how = &self.runs.options;
        if how.ranks.is_none() || how.allow_mismatch {
            return Ok(());
        }
        for (run, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let name = output_name(self.runs, &self.runs.runs[run]);
            let joined = self
                .ranks_of(run, ranks)
                .map(|(_, rank)| rank)
                .filter(|rank| !rank.is_bad() && !rank.is_unwanted && !rank.not_joined);
            let files = joined
                .map(|rank| names::rank_file_name(&name, &rank.label, self.options, true))
                .collect();
            place.earlier.check_part(place.set.folder(), &files)?;
        }
        Ok(())
    }

    /// Writes a rank that waited for the others. Returns its new report; `None` if nothing is to be
    /// written.
    fn write_joined(
        &self,
        runs: &[MergedRun],
        entry: RankEntry<'_>,
        rank: &MergedRank,
    ) -> Option<WrittenParts> {
        if !self.is_ours(entry.index) {
            return None;
        }
        let linked = rank
            .linked
            .as_ref()
            .filter(|linked| linked.output.is_none() && !linked.refused && rank.piece.is_none())?;
        // a rank outside the run has no place in a timeline or simulation of all ranks
        let joined = &runs[self.runs.ranks[entry.index].0];
        if (self.options.is_timeline() || self.options.simulator.is_some()) && rank.not_joined {
            return None;
        }
        Some(self.try_write(entry, rank, joined, linked.seconds))
    }

    fn try_write(
        &self,
        entry: RankEntry<'_>,
        rank: &MergedRank,
        joined: &MergedRun,
        before: job::JobSeconds,
    ) -> WrittenParts {
        let mut job = self.job(entry, !rank.not_joined)?;
        if let (Some(trace), Some(linked)) = (
            rank.known.as_ref().and_then(|known| known.trace.as_deref()),
            &rank.linked,
        ) {
            let mut linked = linked.clone();
            let piece = self.write_rank(trace, &job, joined, &rank.label, &mut linked)?;
            return Ok((linked, piece));
        }
        // the first linking already applied `strict`
        job.strict = false;
        let (mut linked, piece) = if self.options.is_timeline() {
            let (trace, mut linked) = entry.link_job(&job)?;
            let piece = self.write_rank(&trace, &job, joined, &rank.label, &mut linked)?;
            (linked, piece)
        } else {
            let context = joined.rank_context(self.options, &rank.label);
            (entry.run_job(&job, context)?, None)
        };
        let named = entry.files().rank.map(GlobalRank);
        linked.report.rank = linked.report.rank.or(named);
        linked.seconds.read += before.read;
        linked.seconds.link += before.link;
        Ok((linked, piece))
    }

    /// Writes the files next to the ranks' files.
    fn write_beside(&self, ranks: &[MergedRank], runs: &[MergedRun]) -> Result<(), RunError> {
        if !self.options.is_et() || !self.options.is_first() {
            return Ok(());
        }
        for (at, (place, joined)) in self.places.iter().zip(runs).enumerate() {
            let Some(place) = place else { continue };
            if !self.files_of(at, ranks).is_empty() {
                let name = output_name(self.runs, &self.runs.runs[at]);
                simulator::write_files(self.options, &place.set, &name, joined)?;
            }
        }
        Ok(())
    }

    /// Refuses a list of groups that differs from the one with which the remaining files were
    /// written.
    fn check_groups(&self, runs: &[MergedRun]) -> Result<(), RunError> {
        let is_part = self.runs.options.ranks.is_some();
        for (place, joined) in self.places.iter().zip(runs) {
            if let Some(RunPlace { set, earlier }) = place {
                earlier.check_groups(set, &joined.agreed.groups, is_part)?;
            }
        }
        Ok(())
    }

    fn ranks_of<'r>(
        &self,
        run: usize,
        ranks: &'r [MergedRank],
    ) -> impl Iterator<Item = (usize, &'r MergedRank)> {
        let all = self.runs.ranks.iter().zip(ranks).enumerate();
        all.filter(move |(_, ((of, _), _))| *of == run)
            .map(|(index, (_, rank))| (index, rank))
    }

    /// Returns the names of the files of a run's ranks: those that were written, and those that the
    /// other shards write.
    fn files_of(&self, run: usize, ranks: &[MergedRank]) -> BTreeSet<String> {
        let name = output_name(self.runs, &self.runs.runs[run]);
        let has_file = |index: usize, rank: &MergedRank| {
            if self.is_ours(index) {
                return rank.output().is_some();
            }
            let has_place = !rank.not_joined || self.options.simulator.is_none();
            !rank.is_bad() && !rank.is_unwanted && has_place
        };
        self.ranks_of(run, ranks)
            .filter(|(index, rank)| has_file(*index, rank))
            .map(|(_, rank)| {
                names::rank_file_name(&name, &rank.label, self.options, !rank.not_joined)
            })
            .collect()
    }

    /// Moves the files of each run into place, and removes an earlier run's files. The earlier run
    /// stays if failed ranks would lose their files.
    fn replace(
        &self,
        ranks: &mut [MergedRank],
        runs: &mut [MergedRun],
    ) -> Result<Option<IncompleteReplacement>, RunError> {
        let mut unfit = None;
        for (run, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let RunPlace { set, earlier } = place;
            let failed = self
                .ranks_of(run, ranks)
                .filter(|(_, rank)| rank.is_bad())
                .count();
            let lost = if failed > 0 {
                self.first_lost(run, place, ranks)
            } else {
                None
            };
            let Some(file) = lost else {
                // a run without any written file keeps its earlier files
                if !set.is_empty() {
                    let files = self.files_of(run, ranks);
                    set.replace(self.stale_files(set, earlier, &files))?;
                }
                continue;
            };
            for (rank, (of, _)) in ranks.iter_mut().zip(&self.runs.ranks) {
                if *of == run
                    && let Some(linked) = &mut rank.linked
                {
                    // the report must not name files that were not moved into place
                    (linked.output, linked.bytes.output) = (None, 0);
                }
            }
            runs[run].timeline = None;
            // keeps the first such run: the others are reported rank by rank
            unfit.get_or_insert(IncompleteReplacement {
                folder: set.folder().to_owned(),
                failed,
                file: file.clone(),
            });
        }
        Ok(unfit)
    }

    /// Returns the files that are removed when a run replaces an earlier one. `files` are those of its
    /// ranks in all shards.
    fn stale_files(
        &self,
        set: &FileSet,
        earlier: &EarlierFiles,
        files: &BTreeSet<String>,
    ) -> Vec<String> {
        // a subset of ranks is not the whole run: the files of other ranks stay
        if self.runs.options.ranks.is_some() {
            let of_written = earlier.ranks.iter().chain(&earlier.not_joined);
            let of_written = of_written.filter(|name| is_other_file(set, name));
            return of_written.cloned().collect();
        }
        if !self.options.is_first() {
            return vec![];
        }
        let all = earlier
            .ranks
            .iter()
            .chain(&earlier.not_joined)
            .chain(earlier.beside());
        all.filter(|name| !set.has(name) && !files.contains(*name))
            .cloned()
            .collect()
    }

    /// Returns a file of the earlier run without a replacement. An earlier timeline may contain
    /// ranks that the new one lacks, so it counts as lost.
    fn first_lost<'p>(
        &self,
        run: usize,
        place: &'p RunPlace,
        ranks: &[MergedRank],
    ) -> Option<&'p String> {
        let written = self.files_of(run, ranks);
        // the file of a rank replaces its earlier file even if only one of the two is joined
        let is_written = |name: &str| {
            let other = names::other_name(name);
            written.contains(name) || other.is_some_and(|it| written.contains(&it))
        };
        let is_lost = |name: &&String| self.options.is_timeline() || !is_written(name);
        let EarlierFiles {
            ranks, not_joined, ..
        } = &place.earlier;
        ranks.iter().chain(not_joined).find(is_lost)
    }
}

/// Returns true if a file is another form of a written file: with another compression, or joined
/// instead of not joined, or the reverse.
fn is_other_file(set: &FileSet, name: &str) -> bool {
    !set.has(name) && names::all_names(name).iter().any(|other| set.has(other))
}

/// Returns the prefix of a run's output files: the name of its folder.
fn output_name(runs: &RunSet, run: &RunFiles) -> String {
    let whole = match &runs.source {
        RunSource::Folder(folder) => folder.join(&run.folder),
        _ => run.folder.clone(),
    };
    // `.` and `..` have no file name
    let whole = whole.canonicalize().unwrap_or(whole);
    match whole.file_name() {
        Some(name) => {
            let name = name.to_string_lossy();
            packed_name(&name).unwrap_or(&name).to_owned()
        }
        None => "trace".to_owned(),
    }
}

impl MergedRank {
    /// Returns a rank without results yet.
    fn of_entry(entry: RankEntry<'_>) -> MergedRank {
        MergedRank {
            run: entry.run().folder.display().to_string(),
            label: entry.label().to_owned(),
            ..MergedRank::default()
        }
    }

    /// Returns the rank as a member of the join; `None` if it was not linked or may not be written.
    fn join_member(&mut self) -> Option<JoinMember<'_>> {
        let is_linked = self.linked.as_ref().is_some_and(|linked| !linked.refused);
        let known = self.known.as_mut();
        (known.is_some() || is_linked).then_some(JoinMember {
            label: &self.label,
            known,
        })
    }

    /// Returns true if the rank was requested and has no result.
    pub fn is_bad(&self) -> bool {
        !self.is_unwanted && self.linked.as_ref().is_none_or(|linked| linked.refused)
    }

    /// Returns the path of the rank's output file.
    fn output(&self) -> Option<&str> {
        self.linked.as_ref()?.output.as_deref()
    }

    /// Returns the rank's name, unique among all runs.
    pub fn name(&self) -> String {
        Path::new(&self.run).join(&self.label).display().to_string()
    }

    /// Adds the run, and the rank or its file, to a diagnostic as its subject.
    pub fn subject_of(&self, told: Diagnostic) -> Diagnostic {
        told.of_run(&self.run).of_label(&self.label)
    }

    fn take_written(&mut self, written: Option<WrittenParts>) {
        match written {
            Some(Ok((linked, piece))) => (self.linked, self.piece) = (Some(linked), piece),
            Some(Err(error)) => (self.linked, self.error) = (None, Some(text::error_chain(&error))),
            None => {}
        }
    }
}
