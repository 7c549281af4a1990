//! Links the traces of a file, a pair, or a folder, and passes each to a function.

use super::card::CardFacts;
use super::chakra::{self, RankForm};
use super::parquet::TableFiles;
use super::results::{AnalyzedRun, AnalyzedTrace, Ranked};
use crate::args::{AnalyzeArgs, Compat};
use crate::commands::print_run_files;
use crate::rank_error::rank_error;
use crate::run_findings::{FoundRank, retained_bytes};
use anyhow::{Result, bail};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::RankSummary;
use etlink_link::{LinkedTrace, RecordingContent, TensorEdges};
use etlink_model::KeepEvents;
use etlink_model::{GlobalRank, diagnostic};
use etlink_run::graphs::groups_of;
use etlink_run::job;
use etlink_run::measurements::RunMeasurements;
use etlink_run::memory::RankOperation;
use etlink_run::rank_results::RankJob;
use etlink_run::run::{
    self, LinkedRank, RankContent, RankEntry, RankResult, RunOptions, RunResults, RunSet,
    RunSource, WrittenRank, nothing_taken_of,
};
use etlink_run::text;
use etlink_run::{Overhead, RunError};

/// Traces to analyze, and options for reading them.
pub(super) struct AnalyzeConfig {
    source: RunSource,
    options: RunOptions,
    /// True to print the largest possible gains above the tables, as `findings` does.
    pub(super) wants_findings: bool,
    /// True to compute these, because they are printed or cached.
    pub(super) computes_findings: bool,
}

impl AnalyzeConfig {
    /// Makes the configuration of a source whose ranks are read with `options`.
    pub(super) fn from_source(source: RunSource, options: RunOptions) -> AnalyzeConfig {
        AnalyzeConfig {
            source,
            wants_findings: false,
            computes_findings: false,
            options: RunOptions {
                // no table uses tensor edges, and finding them takes time
                tensor_deps: TensorEdges::None,
                keep: KeepEvents::Memory,
                work: RankOperation::Analyze,
                ..options
            },
        }
    }

    /// Keeps these events of the traces.
    pub(super) fn keeping(mut self, keep: KeepEvents) -> AnalyzeConfig {
        self.options.keep = keep;
        self
    }

    pub(super) fn from_args(args: &AnalyzeArgs) -> Result<AnalyzeConfig> {
        let mut config = AnalyzeConfig {
            options: RunOptions {
                rank: args.trace.rank,
                keep: KeepEvents::Auxiliary,
                work: RankOperation::Analyze,
                steps_by: args.steps.steps_by.clone(),
                progress: crate::progress::progress_bar(),
                prepare: args.prepare.shard,
                ..args.reading.run_options(Some(&args.choice))?
            },
            wants_findings: false,
            computes_findings: false,
            source: RunSource::from_path_and_files(
                &args.path,
                args.trace.traces(),
                &args.trace.metrics,
            )?,
        };
        // Files for other tools, and their definitions, have the times of the recording.
        if args.parquet.is_some() || !args.compat.is_empty() {
            config.options.overhead = config.options.overhead.or(Some(Overhead::Keep));
        }
        // A table requested by name is printed alone.
        let is_head = args.table.is_none() && !args.print.csv;
        config.wants_findings = is_head && args.compat.is_empty();
        // Cached results serve every form of the report.
        let is_cached = config.options.cache.is_some() && args.compat.is_empty();
        config.computes_findings = config.wants_findings || is_cached && args.parquet.is_none();
        if !config.computes_findings {
            // no table uses tensor edges, and finding them takes time
            config.options.tensor_deps = TensorEdges::None;
            if !args.compat.contains(&Compat::Hta) {
                config.options.keep = KeepEvents::Memory;
            }
        }
        Ok(config)
    }
}

/// Links the traces; `say` analyzes each one. Fails if `files` cannot be written. `keep` is passed on to [`RunSet::rank_results`].
pub(super) fn load_runs<T: Send + BorshSerialize + BorshDeserialize>(
    config: AnalyzeConfig,
    work: &RankJob,
    files: Option<&TableFiles>,
    say: impl Fn(LinkedTrace, AnalyzedTrace<'_>) -> Result<(T, Option<FoundRank>)> + Sync,
    keep: impl Fn(RankEntry<'_>, &Ranked<T>) -> u64 + Sync,
) -> Result<Vec<AnalyzedRun<T>>> {
    let progress = config.options.progress.clone();
    let runs = RunSet::open(config.source, config.options)?;
    // the tables of a single file are named by its rank, which is unknown until the file is read
    if !runs.source.is_one_rank()
        && let Some(files) = files
    {
        check_files(&runs, files)?;
    }
    progress.phase("analyzing");
    let analyze = |rank: RankEntry<'_>| analyze_rank(rank, &say).map_err(rank_error);
    let results = runs.rank_results(work, analyze, |entry, analyzed| {
        let analyzed = analyzed.as_ref();
        analyzed.map_or(0, |rank| keep(entry, &rank.value))
    });
    progress.finish();
    print_run_files(&runs);
    let results = results?.into_iter().map(Result::transpose);
    analyzed_runs(&runs, results.collect())
}

/// Like [`load_runs`], at once and without stored results. `said_bytes` returns the memory that an
/// analysis occupies.
pub(super) fn load_at_once<T: Send>(
    config: AnalyzeConfig,
    say: impl Fn(LinkedTrace, AnalyzedTrace<'_>) -> Result<(T, Option<FoundRank>)> + Sync,
    said_bytes: impl Fn(&T) -> u64 + Sync,
) -> Result<Vec<AnalyzedRun<T>>> {
    let progress = config.options.progress.clone();
    let runs = RunSet::open(config.source, config.options)?;
    progress.phase("analyzing");
    let results = runs.map_ranks_retaining(|rank| {
        let analyzed = analyze_rank(rank, &say).transpose();
        let bytes = match &analyzed {
            Some(Ok(analyzed)) => retained_bytes(rank, said_bytes(&analyzed.value.said), None),
            _ => 0,
        };
        (analyzed.map(|analyzed| analyzed.map_err(rank_error)), bytes)
    });
    progress.finish();
    print_run_files(&runs);
    analyzed_runs(&runs, results?)
}

fn analyzed_runs<T>(
    runs: &RunSet,
    results: Vec<Option<Result<RankResult<Ranked<T>>, RunError>>>,
) -> Result<Vec<AnalyzedRun<T>>> {
    // a trace of an unknown rank is still analyzed
    let results = runs.collect_runs(results, false)?;
    // an empty report would look like that of an idle run
    if results.iter().all(|run| run.members.ranks.is_empty()) {
        return Err(nothing_taken_of(results).into());
    }
    let told = results
        .into_iter()
        .map(|results| analyzed_run(runs, results));
    Ok(told.collect())
}

/// Rejects tables that cannot be written, before any work is done.
fn check_files(runs: &RunSet, files: &TableFiles) -> Result<()> {
    for run in &runs.runs {
        if run.is_written() {
            bail!(
                "{}: --parquet needs recorded traces: a written graph has no events",
                runs.source_name()
            );
        }
        let labels = run.ranks.iter().map(|files| files.label.as_str());
        files.refuse_existing(&run.folder, labels)?;
    }
    Ok(())
}

/// Analyzes a rank; `None` if it was not requested.
fn analyze_rank<T>(
    entry: RankEntry<'_>,
    say: impl Fn(LinkedTrace, AnalyzedTrace<'_>) -> Result<(T, Option<FoundRank>)>,
) -> Result<Option<RankResult<Ranked<T>>>> {
    // otherwise an unrequested rank would report an error
    if entry.has_no_times() && !entry.is_wanted(None) {
        return Ok(None);
    }
    let (trace, summary, form) = match entry.load()? {
        RankContent::Linked(linked) => {
            let LinkedRank { trace, summary, .. } = linked.refuse_damage()?;
            (trace, summary, RankForm::Traces)
        }
        RankContent::Written(written) => {
            let trace = trace_of_graph(entry, &written)?;
            let summary = entry
                .files()
                .rank
                .map(|rank| RankSummary::from_trace(&trace, GlobalRank(rank)));
            (trace, summary, RankForm::of_written(&written.graph))
        }
    };
    if !entry.is_wanted(trace.report.rank) {
        return Ok(None);
    }
    let is_one_rank = entry.set.source.is_one_rank();
    let label = match trace.report.rank {
        Some(rank) if is_one_rank => rank.to_string(),
        _ => entry.label().to_owned(),
    };
    let of = AnalyzedTrace {
        run: &entry.run().folder,
        label: &label,
        rank: entry.files().rank,
        written: form != RankForm::Traces,
    };
    let mut diagnostics = run::report_diagnostics(&trace.report);
    // a single trace needs no name
    if !is_one_rank {
        let told = diagnostics.into_iter();
        diagnostics = told.map(|one| entry.files().subject_of(one)).collect();
    }
    let anomalies = trace.report.anomalies.clone();
    let card = CardFacts::from_trace(&trace, entry.files());
    // for a written graph, its notes explain what is missing
    let is_cut = form == RankForm::Traces && trace.device.anomalies.is_cut();
    let recording = (form == RankForm::Traces).then(|| RecordingContent::of_trace(&trace));
    let base_ns = trace.device.header.base_ns;
    let (said, found) = say(trace, of)?;
    let files = entry.files();
    // a written graph represents the traces that it was made from
    let device = files.graph.as_ref().or(files.device.as_ref());
    let ranked = Ranked {
        label: label.clone(),
        device_trace: device.map_or(String::new(), |path| path.display().to_string()),
        host_trace: files.host.as_ref().map(|host| host.display().to_string()),
        diagnostics,
        anomalies,
        recording,
        base_ns,
        said,
        // stored in the result until it has been used to select the run's members
        summary: None,
        card,
        found,
        form,
        is_cut,
    };
    Ok(Some(RankResult {
        label,
        // a single rank is not compared with others
        summary: if !is_one_rank { summary } else { None },
        diagnostics: vec![],
        value: ranked,
    }))
}

fn trace_of_graph(entry: RankEntry<'_>, written: &WrittenRank) -> Result<LinkedTrace> {
    let groups = groups_of(&written.path)?;
    let trace = chakra::linked_graph(&written.graph, &written.name, written.rank, &groups)?;
    if entry.set.options.strict && job::is_damaged(&trace.report) {
        return Err(RunError::refused_trace(&written.path, &trace.report.anomalies).into());
    }
    Ok(trace)
}

fn analyzed_run<T>(runs: &RunSet, results: RunResults<Ranked<T>>) -> AnalyzedRun<T> {
    let run = &runs.runs[results.run];
    let members = &results.members;
    let mut notes = runs.run_diagnostics(&results);
    let forms = members.ranks.iter();
    let forms: Vec<_> = forms
        .map(|rank| (rank.label.as_str(), rank.value.form))
        .collect();
    notes.extend(chakra::notes(&forms));
    let excluded = results.excluded();
    let absent = results.members.absent;
    let mut ranks = vec![];
    for rank in results.members.ranks {
        ranks.push(Ranked {
            summary: rank.summary,
            ..rank.value
        });
    }
    let measured = RunMeasurements::read(&run.measurements).unwrap_or_else(|error| {
        let why = text::error_chain(&error);
        notes.push(diagnostic!(MeasurementNotUsed, "{why}: left out"));
        RunMeasurements::default()
    });
    notes.extend(measured.card_note());
    AnalyzedRun {
        measured,
        run: run.folder.display().to_string(),
        name: runs.run_name(results.run),
        diagnostics: notes,
        ranks,
        excluded,
        absent,
    }
}
