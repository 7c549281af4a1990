//! Every rank of a run, in parallel, one output each or one of all, joined with the others.
//!
//! What a rank's file states of its communications and times depends on all ranks. So all are
//! linked first, and of each is kept what the join needs. Where all linked traces fit into the
//! memory budget they are kept too; else each is linked once more to be written.

mod earlier;
mod joined;
mod names;
mod one_rank;
pub mod phases;
mod simulator;
mod timeline;
mod timeline_context;
mod traced_device;

pub(crate) use earlier::EarlierFiles;
pub use joined::MergedRun;
pub(crate) use one_rank::{WrittenMember, write_member};
pub use timeline_context::TimelineReport;
pub(crate) use traced_device::traced_device;

use crate::Progress;
use crate::discover::RunFiles;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::job::{self, ChakraOptions, JobReport, LinkJob, RankContext};
use crate::output::{FileSet, OutputError, OutputFormat, Packing, Piece, Target};
use crate::run::{LinkedRank, RankEntry, RunSet, RunSource};
use crate::storage;
use crate::text;
use etlink_chakra::RooflineDevice;
use etlink_chakra::astra::NetworkBackend;
use etlink_link::LinkedTrace;
use etlink_link::ranks::RankSummary;
use etlink_model::GlobalRank;
use joined::JoinMember;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is written.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Format of the files: of each rank, or for Perfetto of all.
    pub format: OutputFormat,
    /// What a `.et` is like.
    pub chakra: ChakraOptions,
    /// How each `.et` is packed.
    pub packing: Packing,
    /// What the one file of all ranks is called; `None`: `timeline.pftrace.gz`, or as JSON
    /// `timeline.trace.json.gz`. It is packed where its name ends in `.gz`.
    pub timeline_name: Option<String>,
    /// Write what ASTRA-sim needs to run all ranks.
    pub simulator: Option<AstraSimOptions>,
    /// Replace files of an earlier run.
    pub overwrite: bool,
}

/// How ASTRA-sim runs the ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct AstraSimOptions {
    /// Device nodes take what a roofline says, not what was measured.
    pub roofline: bool,
    /// What simulates its network.
    pub backend: NetworkBackend,
}

impl Default for MergeOptions {
    fn default() -> Self {
        MergeOptions {
            format: OutputFormat::Chakra,
            chakra: ChakraOptions::default(),
            packing: Packing::Plain,
            timeline_name: None,
            simulator: None,
            overwrite: false,
        }
    }
}

impl MergeOptions {
    fn is_et(&self) -> bool {
        self.format == OutputFormat::Chakra
    }

    /// Whether all ranks of a run become one file.
    pub fn is_timeline(&self) -> bool {
        self.format.for_perfetto().is_some()
    }
}

/// What became of one rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRank {
    /// Folder of its run.
    pub run: String,
    /// Its number, or the name of its file.
    pub label: String,
    /// Why nothing was written of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it went.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub linked: Option<JobReport>,
    /// It was linked and is not joined with others: what is written of it has a name that nobody takes
    /// for a rank's.
    #[serde(skip)]
    pub not_joined: bool,
    #[serde(skip)]
    known: Option<KnownRank>,
    /// Its trace states a rank that was not asked for.
    #[serde(skip)]
    is_unwanted: bool,
    /// Its part of the timeline.
    #[serde(skip)]
    piece: Option<Piece>,
    /// Of a rank that has nobody to join with: how that went.
    #[serde(skip)]
    alone: Option<MergedRun>,
}

/// What is kept of a rank until all are linked.
struct KnownRank {
    facts: RankSummary,
    sizes: Vec<Option<i64>>,
    device: RooflineDevice,
    /// Boxed, as most runs keep none: its columns alone take kilobytes, empty.
    trace: Option<Box<LinkedTrace>>,
}

impl KnownRank {
    /// Links a rank for a file by `job`; keeps of it what the join needs where its rank is sure and
    /// it may be written.
    fn link(entry: RankEntry<'_>, job: &LinkJob) -> Result<LinkedParts, RunError> {
        let LinkedRank {
            trace,
            report,
            summary,
        } = entry.link_by(job)?;
        let summary = if !report.refused { summary } else { None };
        // a hundred bytes per communication; the trace itself would be gigabytes
        let known = summary.map(|facts| KnownRank {
            sizes: etlink_chakra::simulated_sizes(&trace, &facts),
            device: traced_device(&trace),
            facts,
            trace: None,
        });
        Ok((known, report, Box::new(trace)))
    }
}

/// What is kept of a rank that was linked, how that went, and its graph.
type LinkedParts = (Option<KnownRank>, JobReport, Box<LinkedTrace>);

/// What was written, and what was not.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergeReport {
    /// What became of each rank, in the order of the set.
    pub ranks: Vec<MergedRank>,
    /// How the ranks of each run go together.
    pub runs: Vec<MergedRun>,
    /// Not all ranks were written, and the files of an earlier run are of more: those stay.
    #[serde(skip)]
    pub incomplete: Option<IncompleteReplacement>,
}

impl MergeReport {
    /// Whether all ranks were written, and none was left out of its run.
    pub fn is_complete(&self) -> bool {
        let is_short = self.runs.iter().any(MergedRun::is_short);
        let bad = self.ranks.iter().any(MergedRank::is_bad);
        !bad && !is_short && self.incomplete.is_none()
    }
}

/// Links all ranks of the set, joins those of each run, and writes a file for each rank, or one
/// for all, into a folder for each run below `output`.
///
/// # Errors
/// Nothing could be written: files are there already, a folder cannot be made, the set has written
/// graphs instead of traces. What fails for one rank alone is in the report.
pub fn merge(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<MergeReport, RunError> {
    check_source(runs, options)?;
    // before a folder is made for nothing
    if runs.is_empty() {
        return Err(RunError::NoRankAsked);
    }
    let places = output_places(runs, output, options)?;
    runs.options.progress.phase("linking");
    let merger = Merger {
        hold: runs.all_fit(),
        runs,
        options,
        places,
    };
    let report = merger.merge_ranks();
    let made = merger.made_folders();
    // its work folders lie in them
    drop(merger);
    for folder in made {
        // fails of a folder that has results: only those that nothing was written into go
        drop(std::fs::remove_dir(folder));
    }
    report
}

/// Refuses what cannot be merged, or not in this form.
fn check_source(runs: &RunSet, options: &MergeOptions) -> Result<(), RunError> {
    if runs.runs.iter().any(RunFiles::is_written) {
        return Err(RunError::OnlyWrittenGraphs {
            source_name: runs.source_name(),
        });
    }
    if options.simulator.is_some() && (!options.is_et() || options.packing != Packing::Plain) {
        return Err(RunError::SimulatorFormat);
    }
    Ok(())
}

/// Where a run is written.
struct RunPlace {
    /// The files that are written.
    set: FileSet,
    /// Those of an earlier run; nothing where files are not replaced.
    earlier: EarlierFiles,
}

/// Where each run is written; `None` where it has no rank that was asked for. Makes the folders and
/// refuses what is there already, before any work is done.
fn output_places(
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
) -> Result<Vec<Option<RunPlace>>, RunError> {
    let mut places = vec![];
    for (index, run) in runs.runs.iter().enumerate() {
        // a folder that nothing goes into would look like a run of which nothing could be written
        places.push(if runs.ranks.iter().any(|(of, _)| *of == index) {
            Some(output_place(runs, run, &output.join(&run.folder), options)?)
        } else {
            None
        });
    }
    Ok(places)
}

fn output_place(
    runs: &RunSet,
    run: &RunFiles,
    folder: &Path,
    options: &MergeOptions,
) -> Result<RunPlace, RunError> {
    let set = FileSet::new(folder, options.overwrite)?;
    // all that will be written is looked for now: nobody waits an hour to be refused
    for name in simulator::file_names(options) {
        set.target(name, OutputFormat::EtPlus)?;
    }
    timeline::target(options, &set).transpose()?;
    let outputs = rank_outputs(runs, run, options);
    if !options.overwrite {
        if runs.options.ranks.is_some() {
            check_not_joined(set.folder(), &outputs)?;
        }
        return Ok(RunPlace {
            set,
            earlier: EarlierFiles::default(),
        });
    }
    let name = output_name(runs, run);
    let earlier = EarlierFiles::find(options, set.folder(), &name, &outputs, false)?;
    if options.simulator.is_some() {
        earlier.check_other_run(set.folder())?;
    }
    if options.simulator.is_some() && runs.options.ranks.is_some() {
        earlier.check_simulation(set.folder(), &outputs)?;
    }
    Ok(RunPlace { set, earlier })
}

/// Refuses ranks that have a file already from when they were not joined with others: two files
/// would be of one rank.
fn check_not_joined(folder: &Path, outputs: &BTreeSet<String>) -> Result<(), OutputError> {
    for entry in storage::list(folder).with_path(FileAction::ReadFolder, folder)? {
        let joined = entry.name().to_str().and_then(names::joined_name);
        if joined.is_some_and(|joined| outputs.contains(&joined)) {
            return Err(OutputError::Exists { path: entry.path });
        }
    }
    Ok(())
}

/// Names of the files that a run's ranks are written to where all are joined.
fn rank_outputs(runs: &RunSet, run: &RunFiles, options: &MergeOptions) -> BTreeSet<String> {
    if let Some(timeline) = timeline::file_name(options) {
        return BTreeSet::from([timeline.to_owned()]);
    }
    let asked = run
        .ranks
        .iter()
        // as in `RunSet::open`: who does not name its rank may be of one that was asked for
        .filter(|files| files.rank.is_none() || runs.options.is_asked(files.rank));
    let name = output_name(runs, run);
    asked
        .map(|files| names::rank_file_name(&name, &files.label, options, true))
        .collect()
}

/// Not all ranks of a run were written, and an earlier run's files are of more: those stay.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: nothing was replaced: {failed} of its ranks failed, and {file} of an earlier run would \
     be lost: do what is said of each, write to another folder, or remove the file",
    folder.display()
)]
pub struct IncompleteReplacement {
    /// Folder of the run.
    pub folder: PathBuf,
    /// How many of its ranks failed.
    pub failed: usize,
    /// A file of the earlier run that would be lost.
    pub file: String,
}

/// What became of a rank that waited for the others, and its part of a timeline.
type WrittenParts = Result<(JobReport, Option<Piece>), RunError>;

/// A merge in progress.
struct Merger<'r> {
    runs: &'r RunSet,
    options: &'r MergeOptions,
    /// By run; `None` where no rank of it was asked for.
    places: Vec<Option<RunPlace>>,
    /// Linked traces are kept until all ranks are linked.
    hold: bool,
}

impl Merger<'_> {
    /// Links all ranks, joins them and writes what there is to write.
    fn merge_ranks(&self) -> Result<MergeReport, RunError> {
        let mut ranks = self.runs.map_ranks(|rank| self.link(rank));
        // ranks of unknown number were linked to learn it, and none was asked for
        if ranks.iter().all(|rank| rank.is_unwanted) {
            return Err(RunError::NoRankAsked);
        }
        // what a rank's file states of its communications depends on all others
        let mut joined = self.join(&mut ranks);
        self.set_apart(&mut ranks, &joined);
        self.check_parts(&ranks)?;
        for (place, run) in self.places.iter().zip(&joined) {
            // needs the join, which knows the number of ranks; still before a file is written
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
        // after the ranks: a folder of which none could be written gets no configuration
        self.write_beside(&ranks, &joined)?;
        self.write_timelines(&mut ranks, &mut joined)?;
        self.check_groups(&joined)?;
        let incomplete = self.replace(&mut ranks, &mut joined)?;
        // the places of ranks count up to here
        ranks.retain(|rank| !rank.is_unwanted);
        Ok(MergeReport {
            ranks,
            runs: joined,
            incomplete,
        })
    }

    /// Folders that were made, those that lie in others first.
    fn made_folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![];
        for place in self.places.iter().flatten() {
            folders.extend_from_slice(place.set.made_folders());
        }
        folders.sort_by(|a, b| b.cmp(a));
        folders
    }

    /// Links a rank; writes it where that does not depend on others.
    fn link(&self, entry: RankEntry<'_>) -> MergedRank {
        let mut rank = MergedRank::of_entry(entry);
        if let Err(error) = self.try_link(entry, &mut rank) {
            // a rank that failed late is not joined either: its file would be missing in the run
            (rank.linked, rank.error, rank.known) = (None, Some(text::error_chain(&error)), None);
        }
        rank
    }

    fn try_link(&self, entry: RankEntry<'_>, rank: &mut MergedRank) -> Result<(), RunError> {
        // whether it is joined is not known yet
        let job = self.job(entry, true)?;
        let (facts, mut linked, trace) = KnownRank::link(entry, &job)?;
        if !entry.is_wanted(linked.report.rank) {
            rank.is_unwanted = true;
            return Ok(());
        }
        rank.known = facts;
        let alone = entry.is_alone();
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

    /// Whether what is written of a rank depends on no other.
    fn is_by_itself(&self, rank: &MergedRank, alone: bool) -> bool {
        let silent = rank
            .known
            .as_ref()
            .is_some_and(|known| known.facts.communications.is_empty());
        match self.options.format {
            // the op tree as it was recorded: it states nothing that other ranks decide
            OutputFormat::EtPlus => true,
            OutputFormat::Chrome | OutputFormat::Perfetto => false,
            // its times may be by another clock than those of the first rank
            OutputFormat::Chakra => {
                let is_aligned = self.runs.options.align;
                silent && !alone && !is_aligned && self.options.simulator.is_none()
            }
        }
    }

    /// Writes what depends on the other ranks.
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

    /// Where a rank is written, or its part of a timeline.
    fn target(&self, entry: RankEntry<'_>, is_joined: bool) -> Result<Target, OutputError> {
        let place = self.places[self.runs.ranks[entry.index].0].as_ref();
        // the run of a rank that is worked on has a rank that was asked for
        let set = &place.ok_or(OutputError::NoTarget)?.set;
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

    /// Marks the ranks that were not joined. What one of them wrote before that was known has the
    /// name of a rank of the run: it is written once more.
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

    /// Refuses a part of the ranks that would take one into an earlier run which had left it out.
    fn check_parts(&self, ranks: &[MergedRank]) -> Result<(), OutputError> {
        let how = &self.runs.options;
        if how.ranks.is_none() || how.allow_mismatch {
            return Ok(());
        }
        for (run, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let name = output_name(self.runs, &self.runs.runs[run]);
            let joined = self
                .ranks_of(run, ranks)
                .filter(|rank| !rank.is_bad() && !rank.is_unwanted && !rank.not_joined);
            let files = joined
                .map(|rank| names::rank_file_name(&name, &rank.label, self.options, true))
                .collect();
            place.earlier.check_part(place.set.folder(), &files)?;
        }
        Ok(())
    }

    /// Writes a rank that waited for the others; gives what is new of it.
    fn write_joined(
        &self,
        runs: &[MergedRun],
        entry: RankEntry<'_>,
        rank: &MergedRank,
    ) -> Option<WrittenParts> {
        let linked = rank
            .linked
            .as_ref()
            .filter(|linked| linked.output.is_none() && !linked.refused && rank.piece.is_none())?;
        // a rank of another run has no place in a file or a simulation of all ranks
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
        // what was said the first time goes
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

    /// Writes what stands beside the ranks' files.
    fn write_beside(&self, ranks: &[MergedRank], runs: &[MergedRun]) -> Result<(), RunError> {
        if !self.options.is_et() {
            return Ok(());
        }
        for (at, (place, joined)) in self.places.iter().zip(runs).enumerate() {
            let Some(place) = place else { continue };
            if self.ranks_of(at, ranks).any(|rank| rank.output().is_some()) {
                let name = output_name(self.runs, &self.runs.runs[at]);
                simulator::write_files(self.options, &place.set, &name, joined)?;
            }
        }
        Ok(())
    }

    /// Refuses a list of groups that files which stay were not written with.
    fn check_groups(&self, runs: &[MergedRun]) -> Result<(), OutputError> {
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
    ) -> impl Iterator<Item = &'r MergedRank> {
        let all = self.runs.ranks.iter().zip(ranks);
        all.filter(move |((of, _), _)| *of == run)
            .map(|(_, rank)| rank)
    }

    /// Puts the files of each run in place, and those of an earlier run away. Where ranks failed
    /// whose files would be lost by that, the earlier run stays as it is.
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
                .filter(|rank| rank.is_bad())
                .count();
            let lost = if failed > 0 {
                self.first_lost(run, place, ranks)
            } else {
                None
            };
            let Some(file) = lost else {
                // a run of which nothing was written keeps what it has
                if !set.is_empty() {
                    set.replace(self.stale_files(set, earlier))?;
                }
                continue;
            };
            for (rank, (of, _)) in ranks.iter_mut().zip(&self.runs.ranks) {
                if *of == run
                    && let Some(linked) = &mut rank.linked
                {
                    // the report must not name files that did not get their places
                    (linked.output, linked.bytes.output) = (None, 0);
                }
            }
            runs[run].timeline = None;
            // the first run that is short: the others are reported rank by rank
            unfit.get_or_insert(IncompleteReplacement {
                folder: set.folder().to_owned(),
                failed,
                file: file.clone(),
            });
        }
        Ok(unfit)
    }

    /// What goes when a run replaces an earlier one as a whole.
    fn stale_files(&self, set: &FileSet, earlier: &EarlierFiles) -> Vec<String> {
        // a part of the ranks is no whole run: the files of the others are still theirs
        if self.runs.options.ranks.is_some() {
            let of_written = earlier.ranks.iter().chain(&earlier.not_joined);
            let of_written = of_written.filter(|name| is_other_file(set, name));
            return of_written.cloned().collect();
        }
        let all = earlier
            .ranks
            .iter()
            .chain(&earlier.not_joined)
            .chain(earlier.beside());
        all.filter(|name| !set.has(name)).cloned().collect()
    }

    /// A file of an earlier run for which this one has no other. Of the file of all ranks it is not
    /// known whether it has one of those that are not in the new one.
    fn first_lost<'p>(
        &self,
        run: usize,
        place: &'p RunPlace,
        ranks: &[MergedRank],
    ) -> Option<&'p String> {
        let written: BTreeSet<PathBuf> = self
            .ranks_of(run, ranks)
            .filter_map(|rank| rank.output().map(PathBuf::from))
            .collect();
        let folder = place.set.folder();
        // a rank that is joined now and was not before, or not any more, has its file all the same
        let is_written = |name: &str| {
            let other = names::other_name(name).map(|other| folder.join(other));
            written.contains(&folder.join(name)) || other.is_some_and(|it| written.contains(&it))
        };
        let is_lost = |name: &&String| self.options.is_timeline() || !is_written(name);
        let EarlierFiles {
            ranks, not_joined, ..
        } = &place.earlier;
        ranks.iter().chain(not_joined).find(is_lost)
    }
}

/// Whether a file that was not written is of a rank that was, packed otherwise, which readers would
/// take too, or from when it was not joined with the others, or was.
fn is_other_file(set: &FileSet, name: &str) -> bool {
    !set.has(name) && names::all_names(name).iter().any(|other| set.has(other))
}

/// What outputs of a run begin with: the name of its folder.
fn output_name(runs: &RunSet, run: &RunFiles) -> String {
    let whole = match &runs.source {
        RunSource::Folder(folder) => folder.join(&run.folder),
        _ => run.folder.clone(),
    };
    // `.` and `..` have no name
    let whole = whole.canonicalize().unwrap_or(whole);
    match whole.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "trace".to_owned(),
    }
}

impl MergedRank {
    /// A rank of which nothing is known yet.
    fn of_entry(entry: RankEntry<'_>) -> MergedRank {
        MergedRank {
            run: entry.run().folder.display().to_string(),
            label: entry.label().to_owned(),
            error: None,
            linked: None,
            not_joined: false,
            known: None,
            is_unwanted: false,
            piece: None,
            alone: None,
        }
    }

    /// What the join takes of it; `None` if it was not linked, or may not be written.
    fn join_member(&mut self) -> Option<JoinMember<'_>> {
        let is_linked = self.linked.as_ref().is_some_and(|linked| !linked.refused);
        let known = self.known.as_mut();
        (known.is_some() || is_linked).then_some(JoinMember {
            label: &self.label,
            known,
        })
    }

    /// Whether there is no result of it.
    pub fn is_bad(&self) -> bool {
        !self.is_unwanted && self.linked.as_ref().is_none_or(|linked| linked.refused)
    }

    /// The file that it is written to.
    fn output(&self) -> Option<&str> {
        self.linked.as_ref()?.output.as_deref()
    }

    /// Its name among all runs.
    pub fn name(&self) -> String {
        Path::new(&self.run).join(&self.label).display().to_string()
    }

    fn take_written(&mut self, written: Option<WrittenParts>) {
        match written {
            Some(Ok((linked, piece))) => (self.linked, self.piece) = (Some(linked), piece),
            Some(Err(error)) => (self.linked, self.error) = (None, Some(text::error_chain(&error))),
            None => {}
        }
    }
}
