//! A page about all ranks of a folder.

use super::ran::Ran;
use super::{Content, ReportConfig, finding_links, steps, steps::DrawnSteps};
use crate::commands::print_run_files;
use crate::kernel_rules::ReadRules;
use crate::rank_error::rank_error;
use crate::run_findings::{FoundRank, findings_of_run, retained_bytes};
use anyhow::{Context, Result};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::{KernelRules, leave_out_start_skew};
use etlink_chakra::convert::{is_idle_rank, summarize_rank};
use etlink_model::{Diagnostic, DiagnosticCode, GlobalRank, diagnostic};
use etlink_report::page::{
    PackedTimeline, RANGES, RankStats, ReportRank, RunTimeline, TIMELINE_BYTES, TIMELINES,
};
use etlink_run::rank_results::RankJob;
use etlink_run::run::{RankContent, RankEntry, RankResult};
use etlink_run::{Run, RunError};

/// Maximum number of steps drawn for a run.
const STEPS: usize = 16;

/// Data kept per rank until all are read.
#[derive(BorshSerialize, BorshDeserialize)]
struct ReportedRank {
    rank: ReportRank,
    /// Index of the rank among all ranks; known when all are read.
    #[borsh(skip)]
    index: usize,
    /// Data that the rank's file lacks, if it is a written graph.
    missing: Option<Diagnostic>,
    /// Possible gains of the rank.
    found: Option<FoundRank>,
}

/// Reads all ranks, compares them, and draws some.
pub(super) fn folder_content(
    config: ReportConfig,
    ReadRules { rules, text }: &ReadRules,
) -> Result<Content> {
    let progress = config.options.progress.clone();
    let run = Run::open(config.source.clone(), config.options.clone())?;
    progress.phase("analyzing");
    let settings = vec![
        ("--rules", text.clone()),
        // curves of all ranks share the room of one page
        ("ranks", run.set().whole_len().to_string()),
    ];
    let work = RankJob {
        command: "report",
        settings: Some(settings),
    };
    let read = |rank: RankEntry<'_>| read_rank(rank, rules).map_err(rank_error);
    let mut results = run
        .set()
        .rank_results(&work, read, |entry, read| match read {
            Some(read) => retained_bytes(entry, 0, read.value.found.as_ref()),
            None => 0,
        })?;
    print_run_files(run.set());
    for (index, result) in results.iter_mut().enumerate() {
        if let Ok(Some(rank)) = result {
            rank.value.index = index;
        }
    }
    let results = results.into_iter().map(Result::transpose);
    content_of_ranks(config, rules, &run, results.collect())
}

/// Makes the content of the page from the results of each rank.
fn content_of_ranks(
    config: ReportConfig,
    rules: &KernelRules,
    run: &Run,
    results: Vec<Option<Result<RankResult<ReportedRank>, RunError>>>,
) -> Result<Content> {
    let progress = config.options.progress.clone();
    let runs = run.set();
    let mut notes: Vec<Diagnostic> = vec![];
    for (index, result) in results.iter().enumerate() {
        match result {
            // with selected ranks, the user needs no notes on the others
            None if runs.options.ranks.is_some() => {}
            None => {
                let idle = diagnostic!(RankIdle, "its file is a placeholder without work");
                notes.push(runs.entry(index).files().subject_of(idle));
            }
            Some(Ok(rank)) => {
                // all written graphs of a run lack the same data: print it once
                let missing = rank.value.missing.iter();
                let new: Vec<Diagnostic> = missing
                    .filter(|note| !notes.contains(note))
                    .cloned()
                    .collect();
                notes.extend(new);
            }
            Some(Err(_)) => {}
        }
    }
    let mut joined = None;
    let (mut ranks, mut places, mut members) = (vec![], vec![], vec![]);
    let mut findings = vec![];
    let mut all_excluded = vec![];
    let mut errors = vec![];
    for mut results in runs.collect_runs(results, false)? {
        notes.extend(runs.run_diagnostics(&results));
        let joined_run = results.join(true);
        let taken = results.members.ranks.iter_mut();
        let taken = taken.filter(|rank| rank.summary.is_some());
        let analyses = taken.map(|rank| &mut rank.value.rank.analysis);
        let skews = joined_run.start_skew_waits();
        leave_out_start_skew(analyses, &joined_run.summaries, &skews);
        all_excluded.extend(results.excluded());
        errors.extend(results.failed.into_iter().map(|(_, error)| error));
        notes.extend(joined_run.match_notes());
        notes.extend(joined_run.start_skew_note());
        notes.extend(joined_run.clock_notes());
        // the loop runs once: `Run::open` rejects a folder with several runs
        let mut found = vec![];
        let mut labels: Vec<String> = vec![];
        for mut rank in results.members.ranks {
            labels.push(rank.label);
            found.push(rank.value.found.take());
            // indices of the joined ranks, in the order of their summaries
            members.extend(rank.summary.is_some().then_some(rank.value.index));
            ranks.push(rank.value.rank);
            places.push(rank.value.index);
        }
        let of_run = findings_of_run(&joined_run, &labels, found, &mut notes);
        findings.extend(of_run.iter().flat_map(|of_run| finding_links(of_run, None)));
        joined = Some(joined_run);
    }
    // placeholder files are no errors, and get a page that says so
    if ranks.is_empty() && !errors.is_empty() {
        return Err(RunError::no_trace_taken(errors).into());
    }
    let joined = joined.context("a set has a run")?;
    let is_unsure = joined.matches.has_unrecorded()
        || DiagnosticCode::IterationsApart.is_in(&run.files().diagnostics);
    let is_refused = runs.options.strict && is_unsure;
    let met = (joined.summaries.len() > 1)
        .then(|| RankStats::new(&joined.summaries, &joined.matches, joined.clocks.clone()));
    let late = |rank: &ReportRank| {
        met.as_ref()
            .and_then(|met| {
                met.ranks
                    .iter()
                    .find(|of| Some(of.rank.0) == rank.analysis.rank)
            })
            .map_or(0, |of| of.caused_ns)
    };
    let shown = steps::drawn_places(&config.timelines, &ranks, TIMELINES, late)?;
    let steps = DrawnSteps::choose_step(
        config.step.as_deref(),
        &shown.iter().map(|at| &ranks[*at]).collect::<Vec<_>>(),
    )?;
    if shown.len() < ranks.len() {
        let labels: Vec<&str> = shown.iter().map(|at| ranks[*at].label.as_str()).collect();
        let why = if config.timelines.is_empty() && met.is_some() {
            " (including the ranks that others waited for longest)"
        } else {
            ""
        };
        let limited = diagnostic!(
            TimelinesLimited,
            "timelines with threads and streams: ranks {}{why}",
            labels.join(", ")
        );
        notes.push(limited.advise("--timelines selects others"));
    }
    progress.phase("drawing");
    // all ranks show the same steps: a rank that lacks one is drawn by time
    let name = steps.name();
    let is_joined = met.is_some();
    let step_of_all = |at: usize| {
        RunTimeline::new(
            &joined.summaries,
            &joined.matches,
            &joined.clocks,
            steps.name_at(at),
        )
    };
    // the timeline of all ranks gets as much room as two ranks, at least a quarter
    let of_all = if is_joined {
        (2.0 / (shown.len() as f64 + 2.0)).max(0.25)
    } else {
        0.0
    };
    let each = (1.0 - of_all) / shown.len().max(1) as f64;
    let all = if is_joined {
        PackedTimeline::steps(
            share(RANGES, of_all),
            share(TIMELINE_BYTES, of_all),
            // Each step compares all communications of the run again.
            steps.count().min(STEPS),
            |at, most| step_of_all(at).timeline(most),
        )?
    } else {
        vec![]
    };
    // Ranks are drawn only in steps in which all of them can be drawn.
    let together: Vec<RunTimeline<'_>> = (0..all.len()).map(step_of_all).collect();
    let drawn_steps = if is_joined { all.len() } else { steps.count() };
    let wanted = |at: usize| {
        shown
            .iter()
            .find(|shown| places[**shown] == at)
            .map(|shown| &ranks[*shown])
    };
    let draw = |at: usize, rank: &ReportRank| -> Result<Vec<PackedTimeline>> {
        let ran = Ran::from_content(runs.entry(at).load()?)?;
        let member = |step: usize| {
            let place = members.iter().position(|place| *place == at)?;
            together.get(step)?.member(place)
        };
        let room = (share(RANGES, each), share(TIMELINE_BYTES, each));
        Ok(ran.draw_steps(rank, &steps, drawn_steps, room, rules, member)?)
    };
    // read again, because keeping all ranks until a step is chosen would need all their memory at
    // once
    let drawn = runs.map_ranks(|entry| wanted(entry.index).map(|rank| draw(entry.index, rank)));
    let drawn = drawn
        .into_iter()
        .flatten()
        .collect::<Result<Vec<Vec<PackedTimeline>>>>()?;
    let steps = drawn.iter().map(Vec::len).max().unwrap_or(0).max(all.len());
    let timelines = all.into_iter().chain(drawn.into_iter().flatten()).collect();
    Ok(Content {
        title: config.title,
        ranks,
        met,
        timelines,
        drawn: shown.len(),
        step: name,
        steps,
        diagnostics: notes,
        findings,
        excluded: all_excluded,
        is_refused,
    })
}

/// Returns a share of the limit for all timelines of a page.
fn share(all: usize, part: f64) -> usize {
    (all as f64 * part) as usize
}

/// Reads the figures of a rank; `None` if the rank was not requested or its file is a placeholder
/// without work.
fn read_rank(
    entry: RankEntry<'_>,
    rules: &KernelRules,
) -> Result<Option<RankResult<ReportedRank>>> {
    let content = entry.load()?.refuse_damage(&entry.set.options)?;
    let number = entry.files().rank;
    let linked_summary = match &content {
        RankContent::Linked(linked) if !entry.is_wanted(linked.report.report.rank) => {
            return Ok(None);
        }
        RankContent::Linked(linked) => linked.summary.clone(),
        RankContent::Written(written) if is_idle_rank(&written.graph) => return Ok(None),
        RankContent::Written(_) => None,
    };
    let ran = Ran::from_content(content)?;
    let summary = match (ran.measured_graph(), number) {
        (Some((file, graph)), Some(number)) => Some(summarize_rank(
            GlobalRank(number),
            file,
            graph,
            &entry.groups()?,
        )),
        _ => linked_summary,
    };
    let rank = ran.report_rank(entry.label(), number, rules, entry.set.whole_len());
    Ok(Some(RankResult {
        label: entry.label().to_owned(),
        summary,
        diagnostics: ran.damage(),
        value: ReportedRank {
            index: 0,
            missing: ran.leaves_out(),
            found: ran.found_rank(&rank.analysis, rules),
            rank,
        },
    }))
}
