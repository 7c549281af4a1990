//! Runs: ranks whose traces or written graphs belong together.
//!
//! [`RunSet::open`] finds the ranks of a source, and estimates the memory of each.
//! [`RunSet::map_ranks`] processes them in parallel within the memory budget, and returns results
//! in the order of the ranks. [`Members`] selects the results of a run; [`JoinedRun`] joins them.

use crate::Progress;
use crate::cancel::Cancellation;
use crate::captures::CaptureFiles;
use crate::discover::{self, RankFiles, RunFiles, discover};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::{is_absence, is_folder};
use crate::flight;
use crate::graphs::{self, GraphSet, find_graph_sets};
use crate::input::database::database_processes;
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::job::{self, JobReport, JobSeconds, LinkJob, RankContext};
use crate::joined::JoinedRun;
use crate::listing::listed_runs;
use crate::measurements::sort_measurements;
use crate::membership::{self, Excluded, Members, MembershipRule, RunMember};
use crate::memory::gate::{MemoryGate, OverBudget, in_budget, keeping};
use crate::memory::limit::enough_size;
use crate::memory::watch::RankWatch;
use crate::memory::{MemoryBudget, RankMemory, RankOperation, unpacked_size, with_base};
use crate::merged;
use crate::overhead::Overhead;
use crate::read_cache::ReadCache;
use crate::shard::Shard;
use crate::slice::TraceSlice;
use crate::slice_begin::{TraceExtent, run_begins};
use crate::step_pattern::StepPattern;
use crate::storage::{self, is_url};
use crate::text;
use borsh::{BorshDeserialize, BorshSerialize};
use bytesize::ByteSize;
use etlink_chakra::convert::GroupRanks;
use etlink_chakra::messages::LossKind;
use etlink_chakra::read;
use etlink_link::ranks::RankSummary;
use etlink_link::{LinkReport, LinkedTrace, TensorEdges};
use etlink_model::{
    DeviceTrace, Diagnostic, Failure, GlobalRank, KeepEvents, Setting, Severity, UnixNs, diagnostic,
};
use etlink_torch::RankSelection;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of ranks to search for a note: one more than it names.
const MOST_NAMED: usize = 9;

/// Maximum number of threads. More never help, and a typing error must not start thousands.
const MAX_THREADS: usize = 64;

/// Source of the traces of one or more runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSource {
    /// A folder, in which each folder with traces is a run. Without traces, its runs are the graphs
    /// written by `merge`, one run per prefix.
    Folder(PathBuf),
    /// A single device trace or written graph; `-` is standard input.
    File(PathBuf),
    /// Traces of the ranks of one run, assigned to ranks like those in a folder.
    Files(Vec<PathBuf>),
    /// The traces of one rank.
    Rank(RankTraces),
}

/// Traces of one rank; one of the paths can be `-`, standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankTraces {
    /// Host trace.
    pub host: Option<PathBuf>,
    /// Device trace.
    pub device: PathBuf,
    /// Device traces recorded while the rank's graphs were captured.
    pub captures: CaptureFiles,
    /// Measurements next to the traces: metrics of kernels, latencies of requests, a workload card.
    pub measurements: Vec<PathBuf>,
}

impl RankTraces {
    /// Returns the paths of all given traces.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let host = self.host.iter();
        host.chain([&self.device]).chain(&self.captures.paths)
    }
}

impl RunSource {
    /// Returns a folder if `path` is a folder or a cycle in one (`job/cycle2`), the ranks of a
    /// report with several processes, or else a file.
    pub fn from_path(path: &Path) -> RunSource {
        if is_url(path)
            && let Err(error) = storage::file_data(path)
            && !is_absence(&error)
        {
            // opening it will report the reason
            return RunSource::File(path.to_owned());
        }
        if is_folder(path) || discover::cycle_folder(path).is_some() {
            RunSource::Folder(path.to_owned())
        } else if database_processes(path).is_ok_and(|processes| processes.len() > 1) {
            // each process is a rank
            RunSource::Files(vec![path.to_owned()])
        } else {
            RunSource::File(path.to_owned())
        }
    }

    /// Like `from_path`, but a trace that states its rank becomes a run with that rank.
    pub fn with_stated_rank(path: &Path) -> RunSource {
        match RunSource::from_path(path) {
            RunSource::File(path) if storage::is_file(&path) && discover::states_rank(&path) => {
                RunSource::Files(vec![path])
            }
            source => source,
        }
    }

    /// Returns the source for a path, with optional traces of the host and of the capture of
    /// graphs, and measurements.
    ///
    /// # Errors
    /// Fails if the path is a folder and further files are given.
    pub fn from_path_and_files(
        path: &Path,
        [host, capture]: [Option<&Path>; 2],
        measurements: &[PathBuf],
    ) -> Result<RunSource, RunError> {
        if host.is_none() && capture.is_none() && measurements.is_empty() {
            return Ok(RunSource::from_path(path));
        }
        if is_folder(path) {
            return Err(one_trace_option());
        }
        if host.is_none() && capture.is_none() && database_processes(path)?.len() > 1 {
            // as in a folder, the name of a file states the measured rank
            let mut files = measurements.to_vec();
            files.push(path.to_owned());
            return Ok(RunSource::Files(files));
        }
        Ok(RunSource::Rank(RankTraces {
            host: host.map(Path::to_owned),
            device: path.to_owned(),
            captures: CaptureFiles::of_trace(capture, path)?,
            measurements: measurements.to_vec(),
        }))
    }

    /// Refuses options that do not apply to this source.
    fn check_options(&self, options: &RunOptions) -> Result<(), RunError> {
        // an ignored option would process all ranks, or use a wrong rank number
        if self.is_one_rank() {
            if options.ranks.is_some() {
                let (ranks, name) = (Setting::Ranks, self.name());
                let problem = format!("{ranks} selects traces in a folder, but {name} is a file");
                return Err(Failure::new(problem).of(name).into());
            }
        } else if options.rank.is_some() {
            return Err(one_trace_option());
        }
        Ok(())
    }

    /// Returns the folder or the files, for messages.
    pub fn name(&self) -> String {
        match self {
            RunSource::Folder(path) | RunSource::File(path) => input::display_name(path),
            RunSource::Files(paths) => match &paths[..] {
                [only] => input::display_name(only),
                _ => format!("{} files", paths.len()),
            },
            RunSource::Rank(traces) => match &traces.host {
                Some(host) => {
                    let device = input::display_name(&traces.device);
                    format!("{} and {device}", input::display_name(host))
                }
                None => input::display_name(&traces.device),
            },
        }
    }

    /// Returns true if the source is a single rank by definition, unlike a folder with one rank.
    pub fn is_one_rank(&self) -> bool {
        matches!(self, RunSource::File(_) | RunSource::Rank(_))
    }
}

/// Options for reading and linking the ranks of a run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Number of threads; results do not depend on it. 0: all cores.
    pub threads: usize,
    /// Memory limit, bytes; `None` for the memory that the system can provide.
    pub memory: Option<u64>,
    /// Rank of a single trace that does not state its rank.
    pub rank: Option<i64>,
    /// Ranks to use; `None` for all.
    pub ranks: Option<RankSelection>,
    /// Shard of these ranks whose results are only to be stored in the cache; `None` to go on with
    /// those of all ranks.
    pub prepare: Option<Shard>,
    /// Kinds of dependencies through tensors that become edges.
    pub tensor_deps: TensorEdges,
    /// Events to read beyond the needs of a graph.
    pub keep: KeepEvents,
    /// Work on each rank, which determines its memory.
    pub work: RankOperation,
    /// Pattern for the names of steps; `None` for the known names.
    pub steps_by: Option<StepPattern>,
    /// Part of each trace to read; `None` for all.
    pub slice: Option<TraceSlice>,
    /// Treatment of the overhead of recording in host times; `None` for the default of the work.
    pub overhead: Option<Overhead>,
    /// True to refuse damaged traces, and pairs of two runs.
    pub strict: bool,
    /// True to link traces that seem not to belong together, and to include them in the run.
    pub allow_mismatch: bool,
    /// True to keep each rank's times on its own clock instead of the first rank's.
    pub no_align: bool,
    /// True to refuse written graphs, because only traces have the required data.
    pub traces_only: bool,
    /// Cache of parsed traces; `None` to parse all.
    pub cache: Option<ReadCache>,
    /// Receiver of progress.
    pub progress: Progress,
    /// Flag that is checked before each rank, and while its files are read.
    pub cancellation: Cancellation,
}

impl RunOptions {
    /// Returns a note on ranks of a run that were not requested; `None` if all were.
    fn left_out_note(&self, run: &RunFiles) -> Option<Diagnostic> {
        let asked = self.ranks.as_ref()?;
        let is_asked = |rank: &i64| u32::try_from(*rank).is_ok_and(|rank| asked.has(rank));
        let known: BTreeSet<i64> = run.ranks.iter().filter_map(|files| files.rank).collect();
        let left_out: Vec<i64> = known.into_iter().filter(|rank| !is_asked(rank)).collect();
        let first = text::first_ranks(&left_out);
        (!left_out.is_empty()).then(|| {
            diagnostic!(
                RanksNotSelected,
                "{} leaves out rank {first}: results cover only the selected ranks, which may wait \
                 for ranks that are left out",
                Setting::Ranks
            )
        })
    }

    /// Returns a note on requested ranks that a run lacks, if all its files state their ranks.
    fn missing_note(&self, run: &RunFiles) -> Option<Diagnostic> {
        let asked = self.ranks.as_ref()?;
        let known: Option<BTreeSet<i64>> = run.ranks.iter().map(|files| files.rank).collect();
        let known = known?;
        let missing = asked.iter().map(i64::from);
        let missing = missing.filter(|rank| !known.contains(rank));
        // a range can be long, but a note names only the first few
        let missing: BTreeSet<i64> = missing.take(MOST_NAMED).collect();
        let missing: Vec<i64> = missing.into_iter().collect();
        let name = match &missing[..] {
            [] => return None,
            [one] => format!("rank {one}"),
            several => format!("ranks {}", text::first_ranks(several)),
        };
        Some(diagnostic!(
            RanksAbsent,
            "no trace of {name} (requested with {})",
            Setting::Ranks
        ))
    }

    /// Returns a note on ranks without a file. If all files state their ranks, missing requested
    /// ranks are already noted.
    pub(crate) fn absent_note(&self, run: &RunFiles, absent: &[GlobalRank]) -> Option<Diagnostic> {
        if self.ranks.is_some() && run.ranks.iter().all(|files| files.rank.is_some()) {
            return None;
        }
        let with_file = run.ranks.iter().filter_map(|files| files.rank);
        let with_file: BTreeSet<i64> = with_file.collect();
        let mut absent = absent.to_vec();
        absent.retain(|rank| !with_file.contains(&rank.0));
        let ranks = text::first_ranks(&absent);
        (!absent.is_empty()).then(|| diagnostic!(RanksAbsent, "no trace of rank {ranks}"))
    }

    /// Returns true if a rank is requested, or if all ranks are.
    pub(crate) fn is_asked(&self, rank: Option<i64>) -> bool {
        // without a selection, all ranks are requested
        let Some(ranks) = &self.ranks else {
            return true;
        };
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        rank.is_some_and(|rank| ranks.has(rank))
    }
}

/// The runs of a source, and the estimated memory of their ranks.
pub struct RunSet {
    /// Source of the runs.
    pub source: RunSource,
    /// Options for reading and linking.
    pub options: RunOptions,
    /// Runs, in the order of their folders.
    pub runs: Vec<RunFiles>,
    /// Run of each rank, and the rank's place in it.
    pub ranks: Vec<(usize, usize)>,
    /// Like `ranks`, for the ranks of all shards.
    listed: Vec<(usize, usize)>,
    /// Begin of the run by the clock of each of `listed`, if a slice of time is read of several ranks.
    begins: BTreeMap<(usize, usize), UnixNs>,
    needs: Vec<RankMemory>,
    gate: Arc<MemoryGate>,
    budget: MemoryBudget,
    threads: usize,
    /// Number of threads per rank.
    pub threads_each: usize,
}

impl RunSet {
    /// True if a single rank of a run is read, in all shards together.
    pub(crate) fn is_one_rank(&self, run: usize) -> bool {
        let mut ranks = self.listed.iter().filter(|(of, _)| *of == run);
        ranks.nth(1).is_none()
    }

    /// Finds the runs of a source, and refuses ranks that do not fit into memory.
    ///
    /// # Errors
    /// Fails if there are no traces, a folder cannot be read, or a rank alone takes more memory
    /// than available.
    pub fn open(source: RunSource, options: RunOptions) -> Result<RunSet, RunError> {
        source.check_options(&options)?;
        let find = || find_runs(&source, options.traces_only);
        let runs = match (&source, &options.cache) {
            (RunSource::Folder(folder), Some(cache)) if cache.has_results() => {
                listed_runs(cache, folder, find)?
            }
            _ => find()?,
        };
        RunSet::of_runs(source, runs, options)
    }

    fn of_runs(
        source: RunSource,
        mut runs: Vec<RunFiles>,
        mut options: RunOptions,
    ) -> Result<RunSet, RunError> {
        for run in &mut runs {
            let missing = options.missing_note(run);
            run.diagnostics.extend(missing);
            run.diagnostics.extend(options.left_out_note(run));
        }
        if options.prepare.is_some() && source.is_one_rank() {
            let problem = "--prepare is for the ranks of a folder: leave it out for one trace";
            return Err(Failure::new(problem).into());
        }
        let progress = std::mem::take(&mut options.progress);
        options.progress = progress.with_cancellation(options.cancellation.clone());
        let mut listed = vec![];
        for (at, run) in runs.iter().enumerate() {
            for (place, files) in run.ranks.iter().enumerate() {
                // the rank of other files is only known after reading
                if files.rank.is_none() || options.is_asked(files.rank) {
                    listed.push((at, place));
                }
            }
        }
        let of_shard = listed.iter().enumerate();
        let shard = options.prepare.unwrap_or(Shard::WHOLE);
        let of_shard = of_shard.filter(|(place, _)| shard.has(*place));
        let ranks: Vec<(usize, usize)> = of_shard.map(|(_, rank)| *rank).collect();
        let threads = thread_count(options.threads);
        let needs: Vec<RankMemory> = ranks
            .iter()
            .map(|&(run, place)| rank_memory(&runs[run], place, ranks.len(), &options))
            .collect();
        // before anything is read, so that a rank that does not fit fails immediately
        let budget = MemoryBudget::new(options.memory.map(ByteSize), threads);
        budget.check(&needs)?;
        let gate = Arc::new(budget.gate(&needs));
        // threads without a rank of their own help with another rank
        let in_parallel = gate.at_once(threads);
        let threads_each = budget.threads_each(ranks.len(), in_parallel);
        let mut set = RunSet {
            source,
            options,
            runs,
            ranks,
            listed,
            begins: BTreeMap::new(),
            needs,
            gate,
            budget,
            threads,
            threads_each,
        };
        if let Some(TraceSlice::Time { .. }) = set.options.slice {
            // also of other shards' ranks, so that all shards count from the same moment
            let of_shard = std::mem::replace(&mut set.ranks, set.listed.clone());
            set.begins = set.run_begins()?;
            set.ranks = of_shard;
        }
        Ok(set)
    }

    /// Determines the beginning of each run of several ranks, by the clock of each rank. Reads one
    /// rank at a time.
    fn run_begins(&self) -> Result<BTreeMap<(usize, usize), UnixNs>, RunError> {
        let mut by_run: BTreeMap<usize, Vec<(usize, TraceExtent)>> = BTreeMap::new();
        for entry in self.entries().filter(|entry| !entry.is_alone()) {
            self.options.cancellation.check()?;
            self.options.progress.phase("reading");
            let Ok(mut job) = entry.job() else { continue };
            job.threads = self.threads;
            // a rank that cannot be read fails with its error when it is linked
            let extent = job::read_extent(&job, &self.options.progress);
            if let Ok(Some(extent)) = extent
                && entry.is_wanted(extent.rank)
            {
                let (run, place) = self.ranks[entry.index];
                by_run.entry(run).or_default().push((place, extent));
            }
        }
        let mut begins = BTreeMap::new();
        for (run, ranks) in by_run {
            let (places, extents): (Vec<usize>, Vec<TraceExtent>) = ranks.into_iter().unzip();
            let of_ranks = run_begins(&extents).into_iter();
            let places = places.into_iter().map(|place| (run, place));
            begins.extend(places.zip(of_ranks));
        }
        Ok(begins)
    }

    /// Returns the number of ranks, of all runs.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns true if there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Returns the number of ranks in all shards.
    pub fn whole_len(&self) -> usize {
        self.listed.len()
    }

    /// Returns all ranks.
    pub fn entries(&self) -> impl Iterator<Item = RankEntry<'_>> {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// Returns one rank.
    pub fn entry(&self, index: usize) -> RankEntry<'_> {
        RankEntry { set: self, index }
    }

    /// Returns true if all ranks that are joined with others fit into memory together.
    pub fn all_fit(&self) -> bool {
        let mut joined: u64 = 0;
        for (index, need) in self.needs.iter().enumerate() {
            if !self.entry(index).is_alone() {
                // a rank without others is written as soon as it is linked, and not kept
                joined = joined.saturating_add(need.bytes);
            }
        }
        joined <= self.budget.for_ranks()
    }

    /// Calls `job` for every rank, as many at a time as fit into memory. Results are in the order
    /// of the ranks.
    pub fn map_ranks<T: Send>(&self, job: impl Fn(RankEntry<'_>) -> T + Sync) -> Vec<T> {
        in_budget(&self.gate, self.threads, |index| job(self.entry(index)))
    }

    /// Like `map_ranks`, for jobs that also return the bytes kept until all ranks are done.
    ///
    /// # Errors
    /// Fails if the kept results do not fit into memory.
    pub fn map_ranks_retaining<T: Send>(
        &self,
        job: impl Fn(RankEntry<'_>) -> (T, u64) + Sync,
    ) -> Result<Vec<T>, RunError> {
        let job = |index| job(self.entry(index));
        let results = keeping(&self.gate, self.threads, job);
        results.map_err(|needed| self.too_large(self.len(), needed))
    }

    /// Creates the error for results of `ranks` ranks that take more memory than available.
    fn too_large(&self, ranks: usize, kept: u64) -> RunError {
        let needed = enough_size(self.budget.more_than_there_is(with_base(kept)));
        let limit = self.budget.limit();
        let what = format!(": the results of all {ranks} ranks need about {needed}, but {limit}");
        let (memory, ranks) = (Setting::Memory, Setting::Ranks);
        Failure::about(self.source_name(), what)
            .advise(format!(
                "allow more with {memory}, or select fewer ranks with {ranks}"
            ))
            .into()
    }

    /// Sorts the results of the ranks, given in their order, into their runs, and selects the
    /// members of each run. `None` is the result of a rank that was not requested.
    ///
    /// # Errors
    /// Fails if none of the requested ranks exists, or if no trace of the only run has a certain
    /// rank, because several traces claim one.
    pub fn collect_runs<T>(
        &self,
        results: Vec<Option<Result<RankResult<T>, RunError>>>,
        needs_rank: bool,
    ) -> Result<Vec<RunResults<T>>, RunError> {
        // without a selection, an empty result is valid: ranks without a trace do nothing
        if self.options.ranks.is_some() && results.iter().all(Option::is_none) {
            return Err(RunError::NoRankAsked);
        }
        let rule = MembershipRule {
            allow_mismatch: self.options.allow_mismatch,
            needs_rank,
        };
        let mut by_run: Vec<Vec<RankResult<T>>> = vec![];
        // by index: a run without any readable trace also has results
        by_run.resize_with(self.runs.len(), Vec::new);
        let mut failed: Vec<Vec<(String, RunError)>> = vec![];
        failed.resize_with(self.runs.len(), Vec::new);
        for (index, result) in results.into_iter().enumerate() {
            let run = self.ranks[index].0;
            match result {
                None => {}
                Some(Ok(mut rank)) => {
                    let told = std::mem::take(&mut rank.diagnostics).into_iter();
                    let files = self.entry(index).files();
                    let told = told.map(|one| files.subject_of(one));
                    rank.diagnostics = told.collect();
                    by_run[run].push(rank);
                }
                Some(Err(error)) => {
                    let label = self.entry(index).label().to_owned();
                    failed[run].push((label, error));
                }
            }
        }
        let mut all = vec![];
        for (index, (ranks, failed)) in by_run.into_iter().zip(failed).enumerate() {
            // traces of several runs would be combined; named files are meant to be one run
            let is_folder = matches!(self.source, RunSource::Folder(_));
            let is_unsure = !ranks.is_empty() && ranks.iter().all(|rank| rank.summary.is_none());
            let unsure = if is_folder && is_unsure {
                self.unsure_ranks(index)
            } else {
                None
            };
            let rule = MembershipRule {
                needs_rank: rule.needs_rank || unsure.is_some(),
                ..rule
            };
            if self.runs.len() == 1
                && let Some(error) = unsure
            {
                return Err(error);
            }
            let told = ranks.iter().flat_map(|rank| &rank.diagnostics);
            let mut results = RunResults {
                run: index,
                rank_diagnostics: told.cloned().collect(),
                members: Members::select(ranks, rule),
                failed,
            };
            // a rank that was not requested is not missing
            let absent = &mut results.members.absent;
            absent.retain(|rank| self.options.is_asked(Some(rank.0)));
            all.push(results);
        }
        Ok(all)
    }

    /// Creates the error for a run in which no trace has a certain rank, because several claim one.
    fn unsure_ranks(&self, run: usize) -> Option<RunError> {
        let (rank, files) = self.runs[run].rivals()?;
        let [one, other, ..] = &files[..] else {
            return None;
        };
        let what = format!(
            ": no trace can be used because no rank is certain: {} device traces claim rank {rank} \
             ({}, {}{})",
            files.len(),
            text::file_name(one),
            text::file_name(other),
            if files.len() > 2 { ", …" } else { "" }
        );
        let remedy = "move the files of one recording into a separate folder outside this one, or, if \
                      they are ranks of one run, put the global rank in each name (`rank0`, `rank1`)";
        let unsure = Failure::about(self.run_title(run), what);
        Some(unsure.advise(remedy).into())
    }

    /// Links all ranks and joins each run. Returns one result for each of [`RunSet::runs`].
    ///
    /// # Errors
    /// Returns the first error of a run if none of its ranks could be linked.
    pub fn join(&self) -> Vec<Result<JoinedMembers, RunError>> {
        let ranks = self.map_ranks(|rank| Some(summarize_rank(rank)));
        let runs = match self.collect_runs(ranks, true) {
            Ok(runs) => runs,
            // applies to all runs
            Err(RunError::NoRankAsked) => {
                let runs = self.runs.iter();
                return runs.map(|_| Err(RunError::NoRankAsked)).collect();
            }
            Err(error) => return vec![Err(error)],
        };
        let mut joined = vec![];
        for mut run in runs {
            let failed = run.failed.len();
            // the error of unreadable traces is more useful than an empty join
            if run.members.ranks.is_empty() && failed > 0 {
                let errors = run.failed.into_iter().map(|(_, error)| error);
                joined.push(Err(RunError::no_trace_taken(errors.collect())));
            } else {
                joined.push(Ok(JoinedMembers {
                    diagnostics: self.run_diagnostics(&run),
                    joined: run.join(!self.options.no_align),
                    excluded: run.excluded(),
                }));
            }
        }
        joined
    }

    /// Returns the diagnostics of a run: of its files and traces, of each excluded or mismatching
    /// trace, and of ranks without a trace.
    pub fn run_diagnostics<T>(&self, results: &RunResults<T>) -> Vec<Diagnostic> {
        let (run, members) = (&self.runs[results.run], &results.members);
        let mut told = run.diagnostics.clone();
        told.extend(results.rank_diagnostics.iter().cloned());
        told.extend(results.excluded().iter().map(Excluded::diagnostic));
        told.extend(members.mismatches.iter().map(Excluded::mismatch));
        told.extend(self.options.absent_note(run, &members.absent));
        Diagnostic::merge(told)
    }

    /// Returns the files of the only run.
    ///
    /// # Errors
    /// Fails if there are several runs; the error names two of them.
    pub fn only_run(&self) -> Result<&RunFiles, RunError> {
        match &self.runs[..] {
            [files] => Ok(files),
            _ => Err(self.several_runs()),
        }
    }

    /// Returns the name of a run in messages: its folder, or the pattern of its written graphs.
    pub fn run_title(&self, run: usize) -> String {
        let run = &self.runs[run];
        if let Some(prefix) = &run.prefix {
            let ending = if run.is_written() { "et" } else { "json" };
            return format!("{}.*.{ending}", prefix.display());
        }
        match &self.source {
            // joining an empty name would add a slash at the end
            RunSource::Folder(folder) if !run.folder.as_os_str().is_empty() => {
                folder.join(&run.folder).display().to_string()
            }
            _ => self.source_name(),
        }
    }

    /// Returns the name of a run among others; empty if it is the only run of a folder.
    pub fn run_name(&self, run: usize) -> String {
        let folder = &self.runs[run].folder;
        match folder.as_os_str().is_empty() {
            // a folder with traces of its own, and other runs below it
            true if self.runs.len() > 1 => self.source_name(),
            _ => folder.display().to_string(),
        }
    }

    /// Creates the error for several runs instead of one, which names two of them.
    fn several_runs(&self) -> RunError {
        let [first, second, ..] = &self.runs[..] else {
            debug_assert!(false, "one run is no reason to complain");
            return RunError::NoRankAsked;
        };
        let (source_name, count) = (self.source_name(), self.runs.len());
        if let Some(prefix) = &first.prefix {
            let folder = prefix.parent().unwrap_or(Path::new(".")).display();
            let what = format!(" has written graphs of {count} runs");
            let remedy = format!("give the folder of one of them, such as {folder}");
            return Failure::about(source_name, what).advise(remedy).into();
        }
        let folder = Path::new(&source_name);
        // a folder includes the runs below it, so only runs without others can be given alone
        let has_others = |run: &RunFiles| {
            let mut others = self.runs.iter().filter(|other| other.folder != run.folder);
            others.any(|other| other.folder.starts_with(&run.folder))
        };
        let mut single = self.runs.iter().filter(|run| !has_others(run));
        let (one, other, is_nested) = match (single.next(), single.next()) {
            (Some(one), Some(other)) => (one, other, false),
            (Some(inner), None) => (first, inner, true),
            (None, _) => (first, second, false),
        };
        let [one, other] = [one, other].map(|run| {
            if run.folder.as_os_str().is_empty() {
                folder.to_owned()
            } else {
                folder.join(&run.folder)
            }
        });
        let (one, other) = (one.display(), other.display());
        let remedy = if is_nested {
            format!(
                "give {other}. For the traces in {one} itself, move the folders of other runs \
                 elsewhere"
            )
        } else {
            format!("give one of them, such as {one} or {other}")
        };
        let what = format!(" has {count} runs, each in its own folder");
        Failure::about(source_name, what).advise(remedy).into()
    }

    /// Returns the folder or the files, for messages.
    pub fn source_name(&self) -> String {
        self.source.name()
    }
}

/// One rank of a [`RunSet`].
#[derive(Clone, Copy)]
pub struct RankEntry<'s> {
    /// Set that contains the rank.
    pub set: &'s RunSet,
    /// Place of the rank in the set.
    pub index: usize,
}

impl<'s> RankEntry<'s> {
    /// Returns the run of the rank.
    pub fn run(self) -> &'s RunFiles {
        &self.set.runs[self.set.ranks[self.index].0]
    }

    /// Returns the files of the rank.
    pub fn files(self) -> &'s RankFiles {
        let (run, place) = self.set.ranks[self.index];
        &self.set.runs[run].ranks[place]
    }

    /// Returns the rank number, or the file name if ranks do not distinguish the files.
    pub fn label(self) -> &'s str {
        &self.files().label
    }

    /// Returns true if this is the only rank of its run.
    pub fn is_alone(self) -> bool {
        self.run().ranks.len() == 1
    }

    /// Returns the estimated memory while reading, in bytes; 0 if file sizes are unknown.
    pub fn memory_bytes(self) -> u64 {
        self.set.needs[self.index].bytes
    }

    /// Returns the rank's folder and label, for messages.
    pub fn name(self) -> String {
        self.run().folder.join(self.label()).display().to_string()
    }

    /// Returns true if the rank is requested; `rank` is the one that its trace states.
    pub fn is_wanted(self, rank: Option<GlobalRank>) -> bool {
        let stated = rank.map(|rank| rank.0);
        self.set.options.is_asked(self.files().rank.or(stated))
    }

    /// Returns true if the rank has neither a device trace nor a written graph.
    pub fn has_no_times(self) -> bool {
        self.files().device.is_none() && self.files().graph.is_none()
    }

    /// Returns the part of the rank's traces to read; `None` for all.
    pub fn slice(self) -> Option<TraceSlice> {
        let begin = self.set.begins.get(&self.set.ranks[self.index]);
        let asked = self.set.options.slice?;
        Some(asked.since(begin.copied()))
    }

    /// Returns the settings for reading and linking the rank.
    ///
    /// # Errors
    /// Fails if the rank has no device trace.
    pub fn job(self) -> Result<LinkJob, RunError> {
        let files = self.files();
        let options = &self.set.options;
        let device = files.device.clone().ok_or_else(|| no_device(files))?;
        Ok(LinkJob {
            process: files.process,
            captures: files.captures.clone(),
            flight: files.flight.clone(),
            inspector: files.inspector.clone(),
            metrics: files.metrics.clone(),
            rank: options.rank,
            tensor_deps: options.tensor_deps,
            keep: options.keep,
            steps_by: options.steps_by.clone(),
            slice: self.slice(),
            overhead: options.overhead.unwrap_or(options.work.default_overhead()),
            is_alone: self.set.is_one_rank(self.set.ranks[self.index].0),
            strict: options.strict,
            allow_mismatch: options.allow_mismatch,
            manifest: files.manifest.clone(),
            cache: options.cache.clone(),
            work: options.work,
            ..LinkJob::reading(files.host.clone(), device, self.set.threads_each)
        })
    }

    /// Reads and links the rank's traces.
    ///
    /// # Errors
    /// Fails if the traces cannot be read, do not belong together, or if work was cancelled.
    pub fn link(self) -> Result<LinkedRank, RunError> {
        self.link_by(&self.job()?)
    }

    /// Like [`RankEntry::link`], with changed settings.
    ///
    /// # Errors
    /// Fails like [`RankEntry::link`].
    pub(crate) fn link_by(self, job: &LinkJob) -> Result<LinkedRank, RunError> {
        self.set.options.cancellation.check()?;
        let (trace, report) = self.link_job(job)?;
        Ok(self.linked(trace, report))
    }

    /// Reads and links the rank with these settings. Waits or fails if memory is short.
    pub(crate) fn link_job(self, job: &LinkJob) -> Result<(LinkedTrace, JobReport), RunError> {
        loop {
            let (watch, progress) = self.watched();
            let error = match job::link_opened(job, None, &progress) {
                Ok(linked) => return Ok(linked),
                Err(error) => error,
            };
            let Some(refused) = self.refused_by(&watch) else {
                return Err(error);
            };
            // there was no room next to other ranks; alone there may be
            if !self.set.gate.wait_alone(self.index) {
                return Err(refused);
            }
        }
    }

    /// Links the rank's device trace, which has been read, with the host trace of the job. Returns
    /// `Err(None)` if there was no room next to other ranks; the rank must be read again, alone.
    ///
    /// # Errors
    /// Fails if the host trace cannot be read, the traces do not match, or memory is short.
    pub fn link_read(
        self,
        job: &LinkJob,
        device: DeviceTrace,
    ) -> Result<LinkedTrace, Option<RunError>> {
        let (watch, progress) = self.watched();
        let error = match job::link_read(job, device, &progress) {
            Ok(linked) => return Ok(linked),
            Err(error) => error,
        };
        let Some(refused) = self.refused_by(&watch) else {
            return Err(Some(error));
        };
        let is_alone_now = self.set.gate.wait_alone(self.index);
        Err((!is_alone_now).then_some(refused))
    }

    /// Reads, links and writes the rank with these settings.
    ///
    /// # Errors
    /// Fails like [`RankEntry::link`], or if the result cannot be written.
    pub fn run_job(self, job: &LinkJob, among: RankContext<'_>) -> Result<JobReport, RunError> {
        let (trace, mut linked) = self.link_job(job)?;
        let progress = &self.set.options.progress;
        job::write_out(&trace, job, among, progress, &mut linked)?;
        Ok(linked)
    }

    /// Returns the progress of this rank alone. Reads through it wait if memory is short.
    pub fn watched_progress(self) -> Progress {
        self.watched().1
    }

    /// Returns a watch of the rank's memory, and progress that the watch stops.
    fn watched(self) -> (RankWatch, Progress) {
        let watch = RankWatch::new(&self.set.gate, self.index);
        let progress = self.set.options.progress.clone();
        (watch.clone(), progress.with_memory(watch))
    }

    /// Marks the rank's result as cached, so that its memory is no measure for other ranks.
    pub(crate) fn mark_idle(self) {
        self.set.gate.mark_idle(self.index);
    }

    /// Returns the error for a read that failed because memory was short; `None` for other errors.
    pub fn memory_refusal(self, error: &(dyn std::error::Error + 'static)) -> Option<RunError> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        let over = causes.find_map(|cause| {
            let inner = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
            inner.downcast_ref::<OverBudget>()
        })?;
        let need = &self.set.needs[self.index];
        Some(self.set.budget.oversized(need, *over, 0))
    }

    /// Returns the error of a rank that the memory budget refused.
    fn refused_by(self, watch: &RankWatch) -> Option<RunError> {
        let (over, read) = watch.refusal()?;
        let need = &self.set.needs[self.index];
        let budget = &self.set.budget;
        if self.set.options.cache.is_some() && !need.is_unknown {
            // fewer bytes are read of a cached trace than its file contains
            let needed = over.needed.max(need.bytes);
            return Some(budget.oversized(need, OverBudget { needed, ..over }, need.unpacked));
        }
        // extrapolates from the bytes that were read to the whole trace
        let whole = u128::from(over.needed) * u128::from(need.unpacked.max(read));
        let needed = if over.is_read {
            over.needed
        } else {
            u64::try_from(whole / u128::from(read.max(1))).unwrap_or(u64::MAX)
        };
        Some(budget.oversized(need, OverBudget { needed, ..over }, read))
    }

    /// Returns true if the rank may be kept in memory until all are done, next to the running ones.
    pub fn may_stay(self) -> bool {
        self.set.gate.may_keep()
    }

    /// Opens the written graph or the device trace of the rank, and selects its process in a report
    /// of several.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is a folder or is empty.
    pub fn open_file(self) -> Result<InputFile, RunError> {
        let files = self.files();
        let path = files.graph.as_ref().or(files.device.as_ref());
        let path = path.ok_or_else(|| no_device(files))?;
        let mut input = input::open(path, &self.watched_progress())?;
        input.process = files.process;
        Ok(input)
    }

    /// Reads the rank's traces and links them, or reads its written graph.
    ///
    /// # Errors
    /// Fails like [`RankEntry::link`], or if the file is a host trace, which has no times.
    pub fn load(self) -> Result<RankContent, RunError> {
        self.set.options.cancellation.check()?;
        let (watch, progress) = self.watched();
        let loaded = self.load_watched(&progress);
        loaded.map_err(|error| self.refused_by(&watch).unwrap_or(error))
    }

    fn load_watched(self, progress: &Progress) -> Result<RankContent, RunError> {
        let (files, options) = (self.files(), &self.set.options);
        // not for pairs: the kind of a single file determines its content
        let is_file = matches!(self.set.source, RunSource::File(_)) || self.run().prefix.is_some();
        let path = match (&files.graph, &files.device) {
            (Some(graph), _) => graph,
            (None, Some(device)) if is_file => device,
            _ => return Ok(RankContent::Linked(Box::new(self.link()?))),
        };
        options.progress.phase("reading");
        let mut input = input::open(path, progress)?;
        input.process = files.process;
        if input.kind.is_device_trace() && is_file {
            return self.link_opened(input, progress);
        }
        if !input.kind.is_written_graph() && (is_file || input.kind == InputKind::HostTrace) {
            return Err(input.refuse_kind(WantedTrace::Times));
        }
        let name = input.name.clone();
        let graph = read::read(input.content);
        let graph = graph.map_err(|cause| RunError::unreadable(&name, cause))?;
        if graph.is_empty() {
            let damage = graph.damage();
            let damage = damage.map_or(String::new(), |damage| format!(", {damage}"));
            let empty = Failure::about(name, format!(": the graph has no nodes{damage}"));
            return Err(empty.advise("see `etlink check`").into());
        }
        if let Some(slice) = options.slice {
            let problem =
                format!("{name}: {slice} applies to recordings, but this is a written graph");
            let failure = Failure::new(problem).advise("give the traces it was made from");
            return Err(failure.into());
        }
        // graphs of other programs do not state their rank; simulators rely on names
        let own = graphs::prefix_and_rank(path).map(|(_, rank)| rank);
        Ok(RankContent::Written(Box::new(WrittenRank {
            name,
            path: path.clone(),
            rank: options.rank.or(own),
            graph,
        })))
    }

    /// Links a trace that is open and cannot be read again, so it keeps its memory watch.
    fn link_opened(self, opened: InputFile, progress: &Progress) -> Result<RankContent, RunError> {
        let (trace, report) = job::link_opened(&self.job()?, Some(opened), progress)?;
        Ok(RankContent::Linked(Box::new(self.linked(trace, report))))
    }

    /// Returns the groups listed next to the rank's written graph, and the ranks with files.
    ///
    /// # Errors
    /// Fails if `comm_group.json` cannot be read.
    pub fn groups(self) -> Result<GroupRanks, RunError> {
        let run = self.run();
        let listed = match &run.prefix {
            Some(prefix) => graphs::groups_beside(prefix)?,
            None => None,
        };
        let all = run.ranks.iter().filter_map(|files| files.rank);
        // without the list, only the group of all ranks is known
        Ok(GroupRanks::new(listed.unwrap_or_default(), all))
    }

    /// Returns the summary of the rank's trace; `None` if its rank is uncertain.
    pub fn summary(self, trace: &LinkedTrace) -> Option<RankSummary> {
        rank_summary(trace, self.files(), self.is_alone())
    }

    /// Like `summary`, for a device trace alone, without its communications.
    pub fn summary_of_device(
        self,
        device: &DeviceTrace,
        report: &LinkReport,
    ) -> Option<RankSummary> {
        let rank = sure_rank(device.header.rank, self.files(), self.is_alone())?;
        let mut summary = RankSummary::without_communications(device, report);
        summary.rank = rank;
        Some(with_manifest(summary, self.files()))
    }

    fn linked(self, trace: LinkedTrace, mut report: JobReport) -> LinkedRank {
        let files = self.files();
        // the trace has precedence: names may contain local ranks of several hosts
        report.report.rank = report.report.rank.or(files.rank.map(GlobalRank));
        let summary = self.summary(&trace);
        LinkedRank {
            trace,
            report,
            summary,
        }
    }
}

/// A rank with linked traces.
pub struct LinkedRank {
    /// Linked trace.
    pub trace: LinkedTrace,
    /// Report of the linking.
    pub report: JobReport,
    /// Summary for the join; `None` if the rank is uncertain.
    pub summary: Option<RankSummary>,
}

impl LinkedRank {
    /// Refuses damaged traces under `--strict`.
    ///
    /// # Errors
    /// Fails if the traces are damaged, or of two runs of a program.
    pub fn refuse_damage(self) -> Result<LinkedRank, RunError> {
        if self.report.refused {
            let device = Path::new(&self.report.device);
            let anomalies = &self.report.report.anomalies;
            return Err(RunError::refused_trace(device, anomalies));
        }
        Ok(self)
    }

    /// Returns the files and times of the rank, and harmless irregularities of its traces.
    pub fn details(&self) -> Vec<String> {
        let report = &self.report;
        let files = match &report.host {
            Some(host) => format!("{host} and {}", report.device),
            None => report.device.clone(),
        };
        let JobSeconds { read, link, .. } = report.seconds;
        let taken = format!("{files}: read in {read:.3} s, linked in {link:.3} s");
        let mut details = vec![taken];
        let infos = report.report.anomalies.diagnostics(Severity::Info);
        details.extend(infos.map(|info| info.to_string()));
        details
    }

    /// Returns the damage of the traces, and the linker's diagnostics.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        report_diagnostics(&self.report.report)
    }
}

/// Returns the damage of linked traces, and the linker's diagnostics.
pub fn report_diagnostics(report: &LinkReport) -> Vec<Diagnostic> {
    let damage = report.anomalies.diagnostics(Severity::Damage);
    damage.chain(report.diagnostics.iter().cloned()).collect()
}

/// A rank's written graph.
pub struct WrittenRank {
    /// Name of the file, for messages.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Given rank, or the one in the file's name.
    pub rank: Option<i64>,
    /// Graph in the file.
    pub graph: read::ChakraGraph,
}

impl WrittenRank {
    /// Replaces the tree of ops of merged JSON, which cannot be replayed, by a graph made of it.
    /// Also returns a note on what this graph lacks.
    ///
    /// # Errors
    /// Fails if the file cannot be read again, or if no node has a time.
    pub fn into_replayable(mut self) -> Result<(WrittenRank, Option<Diagnostic>), RunError> {
        if !self.graph.format.is_tree() {
            return Ok((self, None));
        }
        let relinked = merged::relink(&self.path, input::open_any(&self.path)?)?;
        let graph = read::read(&relinked.graph[..]);
        self.graph = graph.map_err(|cause| RunError::unreadable(&self.name, cause))?;
        let lacks = LossKind::Recording.describe();
        let count = relinked.losses.count(LossKind::Recording);
        let note = diagnostic!(GraphLacks, "not replayed: {lacks}: {count}");
        Ok((self, Some(note)))
    }
}

/// Content of a rank.
pub enum RankContent {
    /// Linked traces.
    Linked(Box<LinkedRank>),
    /// Written graph.
    Written(Box<WrittenRank>),
}

impl RankContent {
    /// Refuses damaged traces and graphs under `--strict`.
    ///
    /// # Errors
    /// Fails if the traces or the written graph are damaged, or the traces are of two runs.
    pub fn refuse_damage(self, options: &RunOptions) -> Result<RankContent, RunError> {
        match self {
            RankContent::Linked(linked) => {
                let linked = linked.refuse_damage()?;
                Ok(RankContent::Linked(Box::new(linked)))
            }
            RankContent::Written(written) => {
                if options.strict
                    && let Some(damage) = written.graph.damage()
                {
                    return Err(RunError::Refused {
                        file: written.name,
                        what: damage,
                    });
                }
                Ok(RankContent::Written(written))
            }
        }
    }
}

/// Result of a job on one rank.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub struct RankResult<T> {
    /// Rank number, or the file name if the rank is unknown.
    pub label: String,
    /// Summary for the join; `None` if the rank is uncertain.
    pub summary: Option<RankSummary>,
    /// Facts about the rank's traces.
    pub diagnostics: Vec<Diagnostic>,
    /// Value returned by the job.
    pub value: T,
}

impl<T> RunMember for RankResult<T> {
    fn label(&self) -> &str {
        &self.label
    }

    fn summary(&self) -> Option<&RankSummary> {
        self.summary.as_ref()
    }
}

/// Joined ranks of a run, with diagnostics of its traces.
#[derive(Clone, Debug)]
pub struct JoinedMembers {
    /// Joined ranks that belong to the run.
    pub joined: JoinedRun,
    /// Diagnostics returned by [`RunSet::run_diagnostics`].
    pub diagnostics: Vec<Diagnostic>,
    /// Traces that could not be read, or are not of this run.
    pub excluded: Vec<Excluded>,
}

/// Results of the ranks of a run.
#[derive(Debug)]
pub struct RunResults<T> {
    /// Place of the run in [`RunSet::runs`].
    pub run: usize,
    /// Facts about ranks, including excluded ones.
    pub rank_diagnostics: Vec<Diagnostic>,
    /// The ranks that belong to it.
    pub members: Members<RankResult<T>>,
    /// Labels and errors of ranks without a result.
    pub failed: Vec<(String, RunError)>,
}

impl<T> RunResults<T> {
    /// Returns the traces that are not members: traces without a result, then traces of other runs.
    pub fn excluded(&self) -> Vec<Excluded> {
        let failed = self.failed.iter();
        failed
            .map(|(label, error)| Excluded::from_error(label, error))
            .chain(self.members.excluded.iter().cloned())
            .collect()
    }

    /// Joins the ranks whose numbers are known. Takes the content out of their summaries, which
    /// would otherwise be in memory twice.
    pub fn join(&mut self, align: bool) -> JoinedRun {
        let ranks = self.members.ranks.iter_mut();
        let summaries = ranks.filter_map(|rank| rank.summary.as_mut().map(std::mem::take));
        JoinedRun::new(summaries.collect(), align)
    }
}

/// Links a rank and keeps its summary for the join.
///
/// # Errors
/// Fails if the rank cannot be linked, or is refused as damaged.
pub fn summarize_rank(rank: RankEntry<'_>) -> Result<RankResult<()>, RunError> {
    let linked = rank.link()?.refuse_damage()?;
    Ok(RankResult {
        label: rank.label().to_owned(),
        diagnostics: linked.diagnostics(),
        summary: linked.summary,
        value: (),
    })
}

/// Returns `threads` within the limit, or the number of cores for 0.
pub fn thread_count(threads: usize) -> usize {
    if threads > 0 {
        return threads.min(MAX_THREADS);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    cores.min(MAX_THREADS)
}

fn find_runs(source: &RunSource, traces_only: bool) -> Result<Vec<RunFiles>, RunError> {
    match source {
        RunSource::Folder(folder) => find_in_folder(folder, traces_only),
        RunSource::File(path) => {
            let captures = CaptureFiles::of_trace(None, path)?;
            Ok(vec![RunFiles::one_rank(None, path, captures)])
        }
        RunSource::Rank(traces) => find_traces(traces),
        RunSource::Files(paths) => {
            let runs = discover::sort_out_files(paths.clone())?;
            if runs.is_empty() {
                let files = paths.len();
                let problem = format!("none of the {files} files is a host or device trace");
                return Err(Failure::new(problem).into());
            }
            Ok(runs)
        }
    }
}

fn find_traces(traces: &RankTraces) -> Result<Vec<RunFiles>, RunError> {
    // standard input can only be read once
    let from_stdin = traces
        .paths()
        .filter(|path| path.as_path() == Path::new("-"));
    if from_stdin.count() > 1 {
        let problem = "only one of --host, the device trace and --capture can be standard input";
        return Err(Failure::new(problem).into());
    }
    let RankTraces {
        host,
        device,
        captures,
        measurements,
    } = traces;
    let mut run = RunFiles::one_rank(host.as_deref(), device, captures.clone());
    let (metrics, others) = sort_measurements(measurements)?;
    for rank in &mut run.ranks {
        rank.metrics.clone_from(&metrics);
    }
    run.measurements = others;
    Ok(vec![run])
}

/// Finds a run that is one of several cycles in a folder.
fn find_cycle(path: &Path) -> Result<Vec<RunFiles>, RunError> {
    let no_folder = || {
        let failure = Failure::about(path.display(), " is not a folder");
        let remedy = if path.is_file() {
            "give the folder with the traces of all ranks; `etlink link` links the traces of one \
             rank"
        } else {
            "give the folder with the traces of all ranks"
        };
        RunError::from(failure.advise(remedy))
    };
    let Some(parent) = discover::cycle_folder(path) else {
        return match storage::file_data(path) {
            Err(error) if !is_absence(&error) => {
                Err(error).with_path(FileAction::ReadFolder, path)?
            }
            _ => Err(no_folder()),
        };
    };
    let name = path.file_name().map(Path::new).unwrap_or(path);
    let mut runs = discover(parent)?;
    runs.retain(|run| run.folder == name);
    for run in &mut runs {
        run.folder = PathBuf::new();
    }
    if runs.is_empty() {
        Err(no_folder())
    } else {
        Ok(runs)
    }
}

fn find_in_folder(folder: &Path, traces_only: bool) -> Result<Vec<RunFiles>, RunError> {
    if is_url(folder) && discover::cycle_folder(folder).is_none() {
        // reports the system's reason if the folder cannot be read
        storage::file_data(folder).with_path(FileAction::ReadFolder, folder)?;
    }
    if !is_folder(folder) {
        return find_cycle(folder);
    }
    let discover::FoundFiles {
        mut runs,
        unreadable,
        unexported,
        logs,
        ..
    } = discover::search_folders(folder)?;
    discover::note_unreadable(&mut runs, &unreadable);
    if !runs.is_empty() {
        return Ok(runs);
    }
    // recorded traces have precedence over graphs made of them, because they contain more
    let sets = find_graph_sets(folder)?;
    if sets.is_empty() || traces_only {
        // the missing traces may be in an unreadable folder
        if let Some(error) = unreadable.into_iter().next() {
            return Err(error.into());
        }
        if sets.is_empty() {
            if !flight::find_dumps(folder)?.is_empty() {
                return Err(RunError::OnlyFlightDumps {
                    folder: folder.to_owned(),
                });
            }
            if !logs.is_empty() {
                return Err(RunError::OnlyInspectorLogs {
                    folder: folder.to_owned(),
                });
            }
            if let Some(error) = unexported.into_error() {
                return Err(error);
            }
            let what = ": the folder has no host or device traces (names such as \
                        torch_et_0.json.gz and kineto_trace_0.json.gz)";
            return Err(Failure::about(folder.display(), what).into());
        }
        return Err(only_graphs(input::display_name(folder)));
    }
    let mut runs = vec![];
    for (at, set) in sets.iter().enumerate() {
        let in_folder = |other: &GraphSet| other.prefix.parent() == set.prefix.parent();
        // two runs in one folder cannot both have its name
        let has_sibling = sets
            .iter()
            .enumerate()
            .any(|(other, set)| other != at && in_folder(set));
        let mut run = RunFiles::written(folder, set, has_sibling);
        run.diagnostics.extend(set.passed_by_note());
        runs.push(run);
    }
    discover::note_unreadable(&mut runs, &unreadable);
    Ok(runs)
}

/// Estimates the memory of one of `ranks` ranks; a host trace alone is not read.
fn rank_memory(run: &RunFiles, place: usize, ranks: usize, options: &RunOptions) -> RankMemory {
    let files = &run.ranks[place];
    if let Some(graph) = &files.graph {
        return RankMemory::of(None, Some(graph)).in_turn();
    }
    let device = files.device.as_deref();
    // without a device trace, the rank fails before its host trace is opened
    let host = if device.is_some() {
        files.host.as_deref()
    } else {
        None
    };
    let in_file = run
        .ranks
        .iter()
        .filter(|other| other.device == files.device);
    // captures are read one after the other
    let captures = files.captures.paths.iter();
    let largest = captures.max_by_key(|path| unpacked_size(path).unwrap_or(0));
    let mut memory = RankMemory::of(host, device).and(largest.map(PathBuf::as_path));
    memory = memory.for_work(options.work);
    memory.is_recording = true;
    if files.process.is_some() {
        memory = memory.of_one_process(in_file.count());
    }
    if device.is_some() {
        memory = memory.and_dump(files.flight.as_deref());
        memory = memory.and_log(files.inspector.as_deref());
    }
    if options.keep == KeepEvents::Everything {
        memory = memory.with_details(device);
    }
    if options.slice.is_some() {
        memory = memory.of_slice();
    }
    if ranks > 1 { memory.in_turn() } else { memory }
}

/// Creates the error for a rank without a device trace.
pub fn no_device(files: &RankFiles) -> RunError {
    let why = match files.rank {
        _ if files.is_device_unsure => {
            "which device trace belongs to it is unclear, see the diagnostics"
        }
        Some(_) => "no device trace of the same rank is next to it",
        None => "its rank is unknown: name it such as `torch_et_0`",
    };
    let host = files.host.as_deref().unwrap_or(Path::new("?"));
    let what = format!(": a host trace has no times, so it cannot be linked alone; {why}");
    Failure::about(host.display(), what).into()
}

/// Creates the error for a source with written graphs if traces are needed.
pub(crate) fn only_graphs(source_name: String) -> RunError {
    let what = " has no host or device traces, only graphs that etlink wrote";
    let remedy = "give the folder of the traces; for graphs to share, merge traces that `etlink convert \
                  --anonymise` copied. `etlink replay`, `analyze`, `report` and `check` take graphs";
    Failure::about(source_name, what).advise(remedy).into()
}

/// Creates the error for a folder with options of a single trace.
fn one_trace_option() -> RunError {
    let problem = "--host, --capture, --metrics and --rank apply to a single trace; in a folder, file names \
                   tell which files belong together";
    Failure::new(problem).into()
}

/// Returns the summary of a rank; `None` if the rank is uncertain, in which case its files are not
/// named by it.
fn rank_summary(trace: &LinkedTrace, files: &RankFiles, alone: bool) -> Option<RankSummary> {
    let rank = sure_rank(trace.report.rank, files, alone)?;
    let summary = RankSummary::from_trace(trace, rank);
    Some(with_manifest(summary, files))
}

fn sure_rank(stated: Option<GlobalRank>, files: &RankFiles, alone: bool) -> Option<GlobalRank> {
    let named = files
        .rank
        .filter(|rank| alone || files.label == rank.to_string());
    // a single rank without a number is the first
    let own = if alone {
        stated.or(Some(GlobalRank(0)))
    } else {
        None
    };
    // a name only counts if it distinguishes ranks: two files of one rank belong to neither
    named.map(GlobalRank).or(own)
}

/// Adds data from the recording's manifest to a summary.
fn with_manifest(mut summary: RankSummary, files: &RankFiles) -> RankSummary {
    summary.world_size = summary.world_size.or(files.manifest.world_size);
    if files.device.is_none() {
        // written graphs do not keep all of a header
        summary.device_schema = None;
    }
    // The manifest knows the start times of machines, which distinguish machines of one name.
    if let Some(machine) = &files.manifest.machine {
        summary.machine = Some(machine.clone());
        summary.is_listed = true;
    }
    summary
}
/// Creates the error of [`membership::nothing_taken`] from the results of all runs, if no run has a
/// member.
pub fn nothing_taken_of<T>(runs: Vec<RunResults<T>>) -> RunError {
    let (mut errors, mut excluded) = (vec![], vec![]);
    for run in runs {
        errors.extend(run.failed.into_iter().map(|(_, error)| error));
        excluded.extend(run.members.excluded);
    }
    membership::nothing_taken(errors, &excluded)
}
