//! `etlink ranks`: compares the ranks of a run.

pub(super) mod communicators;
mod document;
pub(super) mod hang;
mod show;
mod waits;

pub use document::RanksDocument;

use super::{ReportForm, print_report, print_run_files, print_text};
use crate::Outcome;
use crate::args::{RanksArgs, RanksTable};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::workbook::WorkbookTarget;
use crate::{notes, table};
use anyhow::Result;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::findings::{LongerWork, RankStepWork};
use etlink_analysis::{DeviceUse, KernelRules, device_use, link_gb_per_s};
use etlink_link::TensorEdges;
use etlink_link::ranks::{
    CollectiveMatch, CollectiveSkew, JoinProblem, JoinProblemKind, Mismatch, PairBytes, RankClock,
    RunJoin, StepStragglers, StragglerStats, TransferTotals, order_conflicts, pair_bytes,
    rank_list, transfer_totals, worst_rank,
};
use etlink_model::{Diagnostic, DiagnosticCode, GlobalRank, Setting, StepIdx};
use etlink_run::membership::{self, Excluded, Exclusion};
use etlink_run::rank_results::RankJob;
use etlink_run::run::{RankEntry, RankResult, RunOptions, RunResults, RunSet, RunSource};
use etlink_run::{JoinedRun, RunError};
use serde::Serialize;
use std::collections::BTreeMap;
use waits::RankUtilization;

/// Comparison of the ranks of one run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RanksReport {
    /// Folder of the run.
    run: String,
    /// Name of the run in text.
    #[serde(skip)]
    name: String,
    /// Notes about the files and their content.
    diagnostics: Vec<Diagnostic>,
    /// Number of ranks in the run, according to most traces.
    world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    absent: Vec<GlobalRank>,
    /// Traces that could not be linked, or do not belong to this run.
    excluded: Vec<Excluded>,
    /// Clocks of the ranks relative to the first rank's; empty with `--no-align`.
    clocks: Vec<RankClock>,
    /// Sums per rank.
    ranks: Vec<StragglerStats>,
    /// Utilization of each rank's devices.
    utilization: Vec<RankUtilization>,
    /// Sums per step.
    steps: Vec<StepStragglers>,
    /// Work that makes the rank late that others waited for most in a step.
    longer_work: Vec<StragglerWork>,
    /// Missing or inconsistent data.
    problems: Vec<JoinProblem>,
    /// Collectives and messages that cannot be compared, by ranks.
    not_compared: Vec<NotCompared>,
    /// Collectives and messages, in order of time.
    collectives: Vec<CollectiveSkew>,
    /// Transfers by kind, ranks, element type and size.
    bandwidth: Vec<TransferTotals>,
    /// Bytes of all-to-alls from each rank to each.
    pair_bytes: Vec<PairBytes>,
    /// Rate of the links by data sheet, GB/s.
    #[serde(skip)]
    link_gb_per_s: Option<f64>,
    /// Errors of the traces that could not be linked.
    #[serde(skip)]
    errors: Vec<RunError>,
}

/// Data kept per rank.
#[derive(BorshSerialize, BorshDeserialize)]
struct RankDetails {
    /// Details that `-v` prints.
    details: Vec<String>,
    /// Utilization of the rank's devices.
    devices: DeviceUse,
    /// Rate of the devices' links by data sheet, GB/s.
    link_gb_per_s: Option<f64>,
    /// Work of the rank by step.
    work: RankStepWork,
}

/// Work that takes longer on the rank that others waited for most in a step than usual on the
/// others.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct StragglerWork {
    /// Name of the step; `None` outside steps.
    step: Option<String>,
    /// Rank that the others waited for most.
    rank: GlobalRank,
    #[serde(flatten)]
    work: LongerWork,
}

/// Collectives and messages of one kind between the same ranks with missing sides.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NotCompared {
    /// Name of the kind: `all_reduce`, …
    kind: &'static str,
    /// The ranks: `ranks 0, 1`.
    ranks: String,
    /// Number of communications.
    count: u64,
    /// Reason, as text.
    message: String,
}

impl JsonReport for RunReports<RanksReport> {
    const SCHEMA: &'static str = "etlink.ranks";
}

pub fn run(args: RanksArgs) -> Result<Outcome> {
    let workbook = WorkbookTarget::new(&args.workbook, &args.overwrite)?;
    let options = RunOptions {
        no_align: args.no_align,
        steps_by: args.steps.steps_by,
        prepare: args.prepare.shard,
        progress: crate::progress::progress_bar(),
        ..args.reading.run_options(Some(&args.choice))?
    };
    let (form, rows) = (args.print.report_form(), args.rows.rows);
    let compared = match compare_runs(RunSource::Folder(args.dir), options.clone()) {
        Ok(compared) => compared,
        // dumps and logs are small: nothing of them is prepared
        Err(error) if options.prepare.is_some() || workbook.is_some() => return Err(error),
        Err(error) => match error.downcast_ref() {
            Some(RunError::OnlyFlightDumps { folder }) => {
                return hang::run(folder, &options, form, rows);
            }
            Some(RunError::OnlyInspectorLogs { folder }) => {
                return communicators::run(folder, &options, form, rows);
            }
            _ => return Err(error),
        },
    };
    let is_refused = options.strict && compared.iter().any(RanksReport::is_unsure);
    let outcome = exit_outcome(&compared);
    // the document has the reasons
    if outcome == Outcome::Nothing && form != ReportForm::Json {
        let said = show::named_notes(&compared);
        let error = nothing_taken(compared);
        notes::print_beside(&said, &error);
        return Err(error);
    }
    let report = RunReports { runs: compared };
    if let Some(workbook) = workbook {
        workbook.write(&report)?;
    }
    let compared = &report.runs;
    match form {
        ReportForm::Json => print_json_report(&report)?,
        ReportForm::Csv => {
            // CSV has no place for notes
            notes::print(&show::named_notes(compared));
            print_text(&match args.table {
                Some(RanksTable::Bandwidth) => show::bandwidth_csv(compared)?,
                Some(RanksTable::Collectives) | None => show::skews_csv(compared)?,
            })?;
        }
        ReportForm::Text => {
            notes::print(&show::named_notes(compared));
            let tables = compared.iter().map(|one| match args.table {
                None => show::report_table(one, rows),
                Some(table) => show::one_table(one, table, rows),
            });
            print_report(&tables.collect::<String>())?;
        }
    }
    Ok(match outcome {
        Outcome::Done if is_refused => Outcome::Found,
        outcome => outcome,
    })
}

/// Explains why there is nothing to compare; notes have the details.
fn nothing_taken(compared: Vec<RanksReport>) -> anyhow::Error {
    let (mut errors, mut excluded) = (vec![], vec![]);
    for one in compared {
        errors.extend(one.errors);
        excluded.extend(one.excluded);
    }
    membership::nothing_taken(errors, &excluded).into()
}

/// Makes a report per run of a source.
fn compare_runs(source: RunSource, options: RunOptions) -> Result<Vec<RanksReport>> {
    let progress = options.progress.clone();
    let options = RunOptions {
        // lateness does not depend on edges between host threads
        tensor_deps: TensorEdges::None,
        traces_only: true,
        ..options
    };
    let runs = RunSet::open(source, options)?;
    progress.phase("linking");
    let rules = KernelRules::built_in()?;
    let work = RankJob {
        command: "ranks",
        settings: Some(vec![]),
    };
    // the memory budget ignores the small data that the join needs
    let ranks = runs.rank_results(&work, |rank| summarize_rank(rank, &rules), |_, _| 0);
    progress.finish();
    let ranks: Vec<_> = ranks?.into_iter().map(Result::transpose).collect();
    print_run_files(&runs);
    for rank in ranks.iter().flatten().flatten() {
        notes::print_details(&table::rank(&rank.label), &rank.value.details);
    }
    let mut compared = vec![];
    for results in runs.collect_runs(ranks, true)? {
        let name = runs.run_name(results.run);
        let others = if runs.options.ranks.is_some() {
            format!("{} excludes the other ranks", Setting::Ranks)
        } else {
            "the other ranks have no traces here".to_owned()
        };
        compared.push(compare_ranks(&runs, name, results, &others));
    }
    Ok(compared)
}

impl RanksReport {
    /// Returns true if there are communications without any data, or possibly of different
    /// iterations.
    fn is_unsure(&self) -> bool {
        let mut problems = self.problems.iter();
        DiagnosticCode::IterationsApart.is_in(&self.diagnostics)
            || problems.any(|problem| problem.kind == JoinProblemKind::GlooUnrecorded)
    }
}

/// Returns the outcome: damage rejected under `--strict` is a finding; a run without readable
/// traces has no result.
fn exit_outcome(compared: &[RanksReport]) -> Outcome {
    let mut excluded = compared.iter().flat_map(|one| &one.excluded).peekable();
    if excluded.peek().is_none() {
        return Outcome::Done;
    }
    let is_empty = compared.iter().all(|one| one.ranks.is_empty());
    let is_refused = excluded.any(|one| one.reason == Exclusion::Damaged);
    if is_empty && !is_refused {
        Outcome::Nothing
    } else {
        Outcome::Found
    }
}

/// Links a rank and keeps its communications; `None` if the rank was not requested.
fn summarize_rank(
    rank: RankEntry<'_>,
    rules: &KernelRules,
) -> Result<Option<RankResult<RankDetails>>, RunError> {
    let linked = rank.link()?.refuse_damage()?;
    if !rank.is_wanted(linked.report.report.rank) {
        return Ok(None);
    }
    Ok(Some(RankResult {
        label: rank.label().to_owned(),
        diagnostics: linked.diagnostics(),
        value: RankDetails {
            details: linked.details(),
            devices: device_use(&linked.trace, rules),
            link_gb_per_s: link_gb_per_s(&linked.trace),
            work: RankStepWork::of_trace(&linked.trace, rules),
        },
        summary: linked.summary,
    }))
}

fn compare_ranks(
    runs: &RunSet,
    name: String,
    mut results: RunResults<RankDetails>,
    others: &str,
) -> RanksReport {
    let run = &runs.runs[results.run];
    let mut notes = runs.run_diagnostics(&results);
    let mut joined = results.join(!runs.options.no_align);
    // The join has the ranks with a summary, in this order.
    let ranks = results.members.ranks.iter();
    let ranks = ranks.filter(|member| member.summary.is_some());
    let details: Vec<&RankDetails> = ranks.map(|member| &member.value).collect();
    let devices: Vec<&DeviceUse> = details.iter().map(|details| &details.devices).collect();
    let utilization = waits::rank_utilizations(&joined, &devices);
    let not_compared = not_compared(&joined.matches, others);
    let conflicts = order_conflicts(&joined.summaries, &joined.matches);
    // report an order that would deadlock, although nothing is simulated
    joined.matches.problems.extend(conflicts);
    notes.extend(joined.match_notes());
    notes.extend(joined.start_skew_note());
    let link_gb_per_s = common_rate(details.iter().map(|details| details.link_gb_per_s));
    let collectives = joined.collective_skews();
    let steps = joined.step_stragglers();
    let works = details.iter().map(|details| &details.work);
    let works: Vec<&RankStepWork> = works.collect();
    RanksReport {
        longer_work: longer_work(&joined, &works, &steps),
        bandwidth: transfer_totals(&collectives, true, link_gb_per_s),
        pair_bytes: pair_bytes(&joined.summaries, &joined.matches),
        link_gb_per_s,
        run: run.folder.display().to_string(),
        name,
        diagnostics: notes,
        excluded: results.excluded(),
        errors: results.failed.into_iter().map(|(_, error)| error).collect(),
        world_size: results.members.world_size,
        absent: results.members.absent,
        utilization,
        ranks: joined.straggler_stats(),
        steps,
        collectives,
        clocks: joined.clocks,
        problems: joined.matches.problems,
        not_compared,
    }
}

/// Returns the work that makes the worst straggler of each step late. `works`: of each rank.
fn longer_work(
    joined: &JoinedRun,
    works: &[&RankStepWork],
    steps: &[StepStragglers],
) -> Vec<StragglerWork> {
    let found = steps.iter().filter_map(|step| {
        let late = worst_rank(&step.stragglers, StragglerStats::waits_for_work_ns)?;
        let of_ranks = joined.summaries.iter().zip(works);
        let of_ranks = of_ranks.filter_map(|(summary, work)| {
            let mut names = summary.steps.all.iter().map(|own| &own.name);
            let index = match &step.step {
                None => StepIdx::NONE,
                Some(name) => StepIdx::new(names.position(|own| own == name)?),
            };
            Some((summary.rank, (*work, index)))
        });
        let (ranks, all): (Vec<GlobalRank>, Vec<_>) = of_ranks.unzip();
        let place = ranks.iter().position(|rank| *rank == late.rank)?;
        // each of the others waits, and less than a tenth of that explains little
        let least_ns = late.caused_ns / (10 * all.len()) as i64;
        Some(StragglerWork {
            step: step.step.clone(),
            rank: late.rank,
            work: RankStepWork::longest_excess(&all, place, least_ns)?,
        })
    });
    found.collect()
}

/// Returns the rate that all ranks have.
fn common_rate(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let rates: Vec<f64> = rates.collect::<Option<_>>()?;
    let first = *rates.first()?;
    rates.iter().all(|rate| *rate == first).then_some(first)
}

/// Counts communications that no two ranks here share, that they report differently, or whose rows
/// are lost, by kind and ranks. `others`: text on ranks that are not here.
fn not_compared(join: &RunJoin, others: &str) -> Vec<NotCompared> {
    let mut all: BTreeMap<(String, &'static str, String), u64> = BTreeMap::new();
    for matched in &join.matches {
        if let Some(message) = why_not_compared(matched, others) {
            let ranks = rank_list("rank", &join.group_ranks(matched.channel));
            *all.entry((ranks, matched.kind.name(), message))
                .or_default() += 1;
        }
    }
    let rows = all.into_iter();
    rows.map(|((ranks, kind, message), count)| NotCompared {
        kind,
        ranks,
        count,
        message,
    })
    .collect()
}

fn why_not_compared(matched: &CollectiveMatch, others: &str) -> Option<String> {
    if !matched.outside.is_empty() {
        let outside = rank_list("rank", &matched.outside);
        return Some(format!("before or after the recordings of {outside}"));
    }
    if !matched.is_shared() {
        return Some(others.to_owned());
    }
    if !matched.missing.is_empty() {
        let missing = rank_list("rank", &matched.missing);
        return Some(format!("not in the trace of {missing}"));
    }
    if !matched.lost.is_empty() {
        let lost = rank_list("rank", &matched.lost);
        return Some(format!("the recorder lost its device row on {lost}"));
    }
    let message = match matched.differs? {
        Mismatch::Kind => "kinds differ between ranks",
        Mismatch::Recorded => "a device row on one rank, only the call on another",
        Mismatch::Order => "cannot be matched: device rows were lost",
        Mismatch::Dtype | Mismatch::Size => return None,
    };
    Some(message.to_owned())
}
