//! `etlink findings`: lists the largest possible gains of a run.

use super::{note_idle_measurements, print_report, print_run_files};
use crate::args::FindingsArgs;
use crate::cut_traces::{cut_line, row_damage_lines};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::kernel_rules::{ReadRules, read_rules};
use crate::rank_error::rank_error;
use crate::run_findings::{FoundRank, joined_findings};
use crate::run_query::RunQuery;
use crate::table::{count, time};
use crate::{Outcome, notes};
use anyhow::{Context, Result};
use etlink_analysis::findings::RunFindings;
use etlink_analysis::{KernelRules, Options, UtilizationWindow, analyze};
use etlink_link::limits::LOST_PART;
use etlink_model::{Anomalies, Diagnostic, GlobalRank, KeepEvents, Severity, UnixNs};
use etlink_run::membership::Excluded;
use etlink_run::memory::RankOperation;
use etlink_run::rank_results::RankJob;
use etlink_run::run::{
    RankEntry, RankResult, RunOptions, RunResults, RunSet, RunSource, nothing_taken_of,
    report_diagnostics,
};
use etlink_run::{JoinedRun, RunError};
use serde::Serialize;
use std::fmt::Write;

impl JsonReport for RunReports<FindingsReport> {
    const SCHEMA: &'static str = "etlink.findings";
}

/// Findings of one run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingsReport {
    /// Folder of the run; empty for a file.
    pub run: String,
    /// Notes about the files.
    pub diagnostics: Vec<Diagnostic>,
    /// Defects of the ranks' traces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<RankAnomalies>,
    /// Traces that could not be linked, or do not belong to the run.
    pub excluded: Vec<Excluded>,
    /// Ranks of the run without results here.
    pub absent: Vec<GlobalRank>,
    /// Definition of a step, if it is not a `ProfilerStep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_definition: Option<String>,
    /// Findings of the run.
    #[serde(flatten)]
    pub found: RunFindings,
    /// Origin of the times of each rank's trace.
    #[serde(skip)]
    origins: Vec<(Option<GlobalRank>, UnixNs)>,
    /// Name in text: the folder, or the source for traces directly in a folder with several runs.
    #[serde(skip)]
    name: String,
    /// Lines on defects of device rows; empty if there are none.
    #[serde(skip)]
    damage_lines: String,
    /// Line on truncated device traces; empty if there are none.
    #[serde(skip)]
    cut_line: String,
}

/// Defects of a rank's traces.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankAnomalies {
    /// Number of the rank, or name of its file.
    pub label: String,
    /// The defects.
    pub anomalies: Anomalies,
}

pub fn run(args: FindingsArgs) -> Result<Outcome> {
    let rules = read_rules(args.trace.rules.as_deref())?;
    let options = RunOptions {
        rank: args.trace.rank,
        no_align: args.no_align,
        steps_by: args.steps.steps_by.clone(),
        progress: crate::progress::progress_bar(),
        prepare: args.prepare.shard,
        ..args.reading.run_options(Some(&args.choice))?
    };
    let source =
        RunSource::from_path_and_files(&args.path, args.trace.traces(), &args.trace.metrics)?;
    let reports = find_in_runs(source, options, &rules)?;
    // no findings in an empty run would look like a run without faults
    let is_whole = |report: &FindingsReport| {
        let found = &report.found;
        report.excluded.is_empty() && (found.has_work || found.ranks == 0)
    };
    let outcome = if reports.iter().all(is_whole) {
        Outcome::Done
    } else {
        Outcome::Found
    };
    if args.print.json {
        print_json_report(&RunReports { runs: reports })?;
    } else {
        let notes = reports
            .iter()
            .map(|report| (report.name.as_str(), report.diagnostics.clone()));
        notes::print_of_runs(notes);
        print_report(&reports.iter().map(findings_text).collect::<String>())?;
    }
    Ok(outcome)
}

impl FindingsReport {
    /// Returns a table with a row per finding.
    ///
    /// # Errors
    /// Never fails because of the content.
    #[cfg(feature = "parquet")]
    pub fn table(&self) -> Result<arrow_array::RecordBatch> {
        use crate::record_tables::{count_from_epoch, records_table};

        let blank = etlink_analysis::findings::RunFinding {
            // any kind: the blank record only provides the names and types of columns
            kind: etlink_analysis::findings::KINDS[0].kind,
            subject: String::new(),
            ranks: vec![],
            inferred: false,
            gain_ns: 0,
            gain_share: 0.0,
            cause: String::new(),
            figures: etlink_analysis::findings::CauseEvidence::default(),
            title: String::new(),
            evidence: String::new(),
            remedy: "".into(),
        };
        let mut records = vec![];
        for finding in &self.found.findings {
            let mut record = serde_json::to_value(finding)?;
            let rank = finding.figures.rank;
            let mut origins = self.origins.iter();
            if let Some((_, origin)) = origins.find(|(of, _)| *of == rank)
                && let Some(figures) = record.get_mut("figures")
            {
                count_from_epoch(figures, &["start_ns", "end_ns"], *origin);
            }
            records.push(record);
        }
        records_table(Some(&serde_json::to_value(blank)?), &records)
    }

    /// Returns the texts that the command prints: three lines per finding, one per remark.
    pub fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.damage_lines.lines().map(str::to_owned).collect();
        texts.extend(self.found.texts());
        texts.extend(self.cut_line.lines().map(str::to_owned));
        texts
    }
}

/// Finds the possible gains of the query's run.
///
/// # Errors
/// No rank of the run could be read.
pub fn findings_of_run(run: &RunQuery) -> Result<FindingsReport> {
    let mut reports = find_in_runs(run.source.clone(), run.options.clone(), &read_rules(None)?)?;
    Ok(reports.pop().ok_or(RunError::NoRankAsked)?)
}

/// Makes a report per run of a source.
fn find_in_runs(
    source: RunSource,
    options: RunOptions,
    ReadRules { rules, text }: &ReadRules,
) -> Result<Vec<FindingsReport>> {
    let progress = options.progress.clone();
    let options = RunOptions {
        // stacks name the line of Python; the profiler's own rows are a cause
        keep: KeepEvents::Auxiliary,
        work: RankOperation::Findings,
        traces_only: true,
        ..options
    };
    let runs = RunSet::open(source, options)?;
    progress.phase("linking");
    let work = RankJob {
        command: "findings",
        settings: Some(vec![("--rules", text.clone())]),
    };
    let find = |rank: RankEntry<'_>| find_in_rank(rank, rules).map_err(rank_error);
    let ranks = runs.rank_results(&work, find, |_, found| {
        let found = found.as_ref();
        found.map_or(0, |rank| rank.value.retained_bytes())
    });
    progress.finish();
    let ranks = ranks?.into_iter().map(Result::transpose).collect();
    print_run_files(&runs);
    note_idle_measurements(&runs);
    let results = runs.collect_runs(ranks, !runs.source.is_one_rank())?;
    // no findings in an empty run would look like a run without faults
    if results.iter().all(|run| run.members.ranks.is_empty()) {
        let said = results.iter().flat_map(|run| runs.run_diagnostics(run));
        let said: Vec<Diagnostic> = said.collect();
        let error = nothing_taken_of(results).into();
        notes::print_beside(&said, &error);
        return Err(error);
    }
    let mut reports = vec![];
    for run in results {
        reports.push(run_report(&runs, run)?);
    }
    Ok(reports)
}

/// Analyzes a rank; `None` if it was not requested.
fn find_in_rank(rank: RankEntry<'_>, rules: &KernelRules) -> Result<Option<RankResult<FoundRank>>> {
    if rank.has_no_times() && !rank.is_wanted(None) {
        return Ok(None);
    }
    let linked = rank.link()?.refuse_damage()?;
    if !rank.is_wanted(linked.report.report.rank) {
        return Ok(None);
    }
    let trace = &linked.trace;
    let analysis = analyze(trace, rules, &Options::default());
    let graph =
        etlink_replay::graph_from_trace(trace).with_context(|| linked.report.device.clone())?;
    Ok(Some(RankResult {
        label: rank.label().to_owned(),
        diagnostics: report_diagnostics(&linked.report.report),
        value: FoundRank::new(trace, graph, rules, &analysis),
        summary: linked.summary,
    }))
}

fn run_report(runs: &RunSet, results: RunResults<FoundRank>) -> Result<FindingsReport> {
    let run = &runs.runs[results.run];
    let ranks = &results.members.ranks;
    let is_only_trace = ranks.len() + results.excluded().len() == 1;
    let is_cut =
        |rank: &&RankResult<FoundRank>| rank.summary.as_ref().is_some_and(|own| own.is_cut);
    let cut = ranks.iter().filter(is_cut);
    let cut: Vec<&str> = cut.map(|rank| rank.label.as_str()).collect();
    let cut_line = cut_line(&cut, is_only_trace);
    let told = ranks.iter().flat_map(|rank| &rank.diagnostics);
    let damage_lines = row_damage_lines(told, is_only_trace);
    let mut anomalies = vec![];
    for rank in ranks {
        if rank.value.anomalies().any(Severity::Damage) {
            anomalies.push(RankAnomalies {
                label: rank.label.clone(),
                anomalies: rank.value.anomalies().clone(),
            });
        }
    }
    let definitions = ranks.iter().filter_map(|rank| rank.value.step_definition());
    let step_definition = definitions.map(str::to_owned).next();
    let align = !runs.options.no_align;
    let excluded = results.excluded();
    let mut notes = runs.run_diagnostics(&results);
    let absent = results.members.absent;
    let mut ranks = results.members.ranks;
    let origins = ranks.iter().map(|rank| rank.value.origin()).collect();
    let found = match ranks.len() {
        0 => RunFindings::default(),
        // a single rank waits for nobody, and needs no other clock
        1 => ranks.remove(0).value.alone(),
        _ => findings_of_ranks(ranks, align, &mut notes)?,
    };
    Ok(FindingsReport {
        run: run.folder.display().to_string(),
        diagnostics: notes,
        anomalies,
        excluded,
        absent,
        step_definition,
        found,
        origins,
        name: runs.run_name(results.run),
        damage_lines,
        cut_line,
    })
}

/// Returns the findings of several ranks as one graph. Adds notes on ranks that do not match, and
/// on their clocks.
fn findings_of_ranks(
    ranks: Vec<RankResult<FoundRank>>,
    align: bool,
    notes: &mut Vec<Diagnostic>,
) -> Result<RunFindings> {
    let (mut summaries, mut found) = (vec![], vec![]);
    for rank in ranks {
        let Some(summary) = rank.summary else {
            debug_assert!(false, "{} has no rank", rank.label);
            continue;
        };
        summaries.push(summary);
        found.push(rank.value);
    }
    let joined = JoinedRun::new(summaries, align);
    notes.extend(joined.match_notes());
    notes.extend(joined.start_skew_note());
    notes.extend(joined.clock_notes());
    joined_findings(&joined, found)
}

/// Formats a line about the run, then three per finding.
fn findings_text(report: &FindingsReport) -> String {
    let found = &report.found;
    let mut out = String::new();
    if !report.name.is_empty() {
        let _ = writeln!(out, "{}: {}", report.name, count(found.ranks, "rank"));
    }
    out += &report.damage_lines;
    if let Some(definition) = &report.step_definition {
        let _ = writeln!(out, "a step is {definition}");
    }
    out += &window_line(found);
    if found.ranks == 0 {
        out += "no findings: all traces are left out\n";
    }
    for (number, finding) in (1..).zip(&found.findings) {
        let _ = writeln!(out, "{number}. {}", finding.text());
    }
    for remark in found.remarks() {
        let _ = writeln!(out, "{remark}");
    }
    out + &unknown_line(found) + &report.cut_line
}

/// Formats a line on the time that the gains are a part of; empty if there are no findings.
fn window_line(found: &RunFindings) -> String {
    if found.findings.is_empty() {
        return String::new();
    }
    let length = time(found.window_ns);
    match (found.window, found.steps) {
        (UtilizationWindow::Process, _) => format!("gains refer to the recording, {length}\n"),
        (UtilizationWindow::Steps, steps) => {
            let between = if found.ranks > 1 {
                " from the last rank's begin to the last rank's end"
            } else {
                ""
            };
            let steps = match steps {
                1 => "the step".to_owned(),
                steps => format!("the {steps} steps"),
            };
            format!("gains refer to {steps}, {length}{between}\n")
        }
    }
}

/// Formats a line on the time without a verdict; empty if there is none.
fn unknown_line(found: &RunFindings) -> String {
    match found.unknown_ns {
        _ if found.is_unknown && found.findings.is_empty() => String::new(),
        0 => String::new(),
        ns => format!(
            "no findings for {}: more than {} % of the device rows in that time are missing\n",
            time(ns),
            100 / LOST_PART
        ),
    }
}
