//! `etlink replay DIR`: all ranks of a run as one graph.

mod read;

use super::all_ranks::{AllRanks, Collectives, Local, RankChange, RankReport};
use super::questions::RankAnswers;
use super::rules::{UnusedRules, refuse_unused, unused_rules};
use super::steps::{RankSteps, RunOfSteps};
use super::{ReplayConfig, Replayed, replay_graph, table};
use crate::commands::{print_report, print_run_files};
use crate::envelope::{RunReports, print_json_report};
use crate::rank_columns::RankColumns;
use crate::run_findings::SUMMARY_BYTES;
use crate::{Outcome, notes, unreadable_files};
use anyhow::{Context, Result, anyhow, bail};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::RecordingOverhead;
use etlink_link::ranks::RankClock;
use etlink_model::{Diagnostic, DurationNs, NodeIdx, RankIdx, UnixNs, diagnostic};
use etlink_replay::{
    CollectiveNodes, CrossStepFigures, GraphEdits, JoinOutcome, JoinedCollectives, JoinedGraph,
    LabelSource, RankFigures, RankLabels, RankNames, ReplayGraph, ReplayRun, StepBounds,
};
use etlink_run::membership::Excluded;
use etlink_run::run::{RankResult, RunResults, RunSet};
use etlink_run::{JoinedRun, Progress, RunError, RunOptions, RunSource};

/// Peak bytes per node: in its rank's graph and again in the graph of all ranks, with its share of
/// names, edges, and figures. Peaks of 64 ranks of 20,000 nodes and 32 of 66,000 grew by 139 and
/// 157 bytes per node; the test `many_ranks` checks the figure.
const NODE_BYTES: u64 = 160;

/// Data kept per rank.
#[derive(BorshSerialize, BorshDeserialize)]
struct ReplayRank {
    graph: ReplayGraph,
    names: RankNames,
    /// Origin of the rank's times, by its own clock.
    base_ns: UnixNs,
    /// True for a written graph, whose readers know only the order of nodes.
    is_written: bool,
    /// Details that are printed on request.
    details: Vec<String>,
    /// Changes from named questions.
    answers: RankAnswers,
    /// Errors of predicting one step from another.
    cross_step: Option<CrossStepFigures>,
    /// Start and end of each step.
    steps: Vec<StepBounds>,
    /// Overhead of recording.
    overhead: Option<RecordingOverhead>,
    /// Edits for each overhead that the recording may have.
    overhead_doubt: Vec<GraphEdits>,
}

impl ReplayRank {
    /// Returns the memory that the rank occupies until the report is done.
    fn memory_bytes(&self) -> u64 {
        let nodes = NODE_BYTES.saturating_mul(self.graph.len() as u64);
        nodes.saturating_add(SUMMARY_BYTES)
    }
}

/// Replays the runs of a folder, and prints the results.
pub(super) fn replay_folder(config: ReplayConfig, progress: &Progress) -> Result<Outcome> {
    let json = config.json;
    let replayed = replay_runs(config, progress)?;
    // the report lists what was left out; the exit code hints at it
    let bad = replayed
        .iter()
        .filter_map(|run| run.together.as_ref())
        .any(|all| all.is_deadlocked || !all.excluded.is_empty());
    if json {
        print_json_report(&RunReports { runs: replayed })?;
    } else {
        table::print_notes(&replayed);
        print_report(&replayed.iter().map(table::replay_text).collect::<String>())?;
    }
    Ok(Outcome::done_if(!bad))
}

/// Replays the runs of a folder, each as one graph of all its ranks.
pub(super) fn replay_runs(config: ReplayConfig, progress: &Progress) -> Result<Vec<Replayed>> {
    let runs = RunSet::open(config.source.clone(), config.options.clone())?;
    // the graphs of all ranks run as one: unlike in `merge`, none can be freed early
    progress.phase("linking");
    let read = read::read_ranks(&runs, &config.questions);
    progress.finish();
    print_run_files(&runs);
    replay_read(&config, &runs, read?)
}

/// Replays the runs whose ranks were read.
fn replay_read(
    config: &ReplayConfig,
    runs: &RunSet,
    read: read::ReadRuns,
) -> Result<Vec<Replayed>> {
    if read.runs.iter().all(has_no_ranks) {
        return Err(nothing_to_replay(runs, read));
    }
    let (mut replayed, mut unused) = (vec![], vec![]);
    for (results, idle) in read.runs.into_iter().zip(read.idle_notes) {
        // `--ranks` selects none of this run's ranks
        if has_no_ranks(&results) && results.excluded().is_empty() && idle.is_empty() {
            continue;
        }
        let mut notes = runs.run_diagnostics(&results);
        notes.extend(idle);
        let name = runs.run_title(results.run);
        if has_no_ranks(&results) {
            replayed.push(run_without_ranks(config, name, notes, results));
            continue;
        }
        let (report, idle_rules) = replay_run(config, name, notes, results)?;
        replayed.push(report);
        unused.push(idle_rules);
    }
    // another run may have a name that this one lacks
    refuse_unused(&unused, &runs.source_name())?;
    Ok(replayed)
}

/// The ranks of a run as one graph, with the names of its nodes.
pub(super) struct RunTogether {
    pub(super) joined: JoinedGraph,
    /// Notes about the files.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Traces that could not be read, or do not belong to this run.
    pub(super) excluded: Vec<Excluded>,
    names: Vec<RankNames>,
    collectives: Vec<CollectiveNodes>,
}

impl RunTogether {
    /// Opens a folder with one run.
    pub(super) fn open(source: RunSource, options: RunOptions) -> Result<RunTogether> {
        let align = !options.no_align;
        let runs = RunSet::open(source, options)?;
        unreadable_files::record(&runs);
        let read = read::read_ranks(&runs, &[])?;
        if read.runs.iter().all(has_no_ranks) {
            return Err(nothing_to_replay(&runs, read));
        }
        let of_runs = read.runs.into_iter().zip(read.idle_notes);
        let mut of_runs = of_runs.filter(|(results, _)| !has_no_ranks(results));
        let (Some((results, idle)), None) = (of_runs.next(), of_runs.next()) else {
            bail!(
                "{} has several runs; pass the folder of one run",
                runs.source_name()
            );
        };
        let mut notes = runs.run_diagnostics(&results);
        notes.extend(idle);
        let excluded = results.excluded();
        let mut together = RunTogether::join(kept_ranks(results.members.ranks), align)?;
        notes.append(&mut together.diagnostics);
        Ok(RunTogether {
            diagnostics: notes,
            excluded,
            ..together
        })
    }

    fn join(kept: KeptRanks, align: bool) -> Result<RunTogether> {
        let KeptRanks {
            mut columns, names, ..
        } = kept;
        let measured = columns.ranks.iter().all(|rank| rank.graph.measured);
        let join = JoinedRun::new(std::mem::take(&mut columns.summaries), align && measured);
        columns.align_clocks(&join.clocks);
        let nodes = etlink_replay::collective_nodes(&join.summaries, &join.matches);
        Ok(RunTogether {
            joined: etlink_replay::join_graphs(&columns.ranks, &nodes.collectives)?,
            diagnostics: join.match_notes(),
            excluded: vec![],
            names,
            collectives: nodes.collectives,
        })
    }

    pub(super) fn labels(&self) -> RankLabels<'_> {
        RankLabels {
            joined: &self.joined,
            ranks: &self.names,
            collectives: &self.collectives,
        }
    }
}

fn has_no_ranks(results: &RunResults<ReplayRank>) -> bool {
    results.members.ranks.is_empty()
}

/// Explains why there is nothing to replay: errors of traces take precedence over other problems.
fn nothing_to_replay(runs: &RunSet, read: read::ReadRuns) -> anyhow::Error {
    let mut errors = vec![];
    let mut reasons = vec![];
    let mut said = vec![];
    for (results, idle) in read.runs.into_iter().zip(read.idle_notes) {
        // an error may refer to these notes
        said.extend(runs.run_diagnostics(&results));
        let excluded = results.members.excluded.into_iter();
        let run_reasons = excluded
            .map(|excluded| excluded.message)
            .chain(idle.into_iter().map(|idle| idle.to_string()));
        let name = runs.run_title(results.run);
        reasons.extend(run_reasons.map(|why| anyhow!("{name}: no rank could be read: {why}")));
        errors.extend(results.failed.into_iter().map(|(_, error)| error));
    }
    let error = match reasons.into_iter().next() {
        Some(reason) if errors.is_empty() => reason,
        _ => RunError::no_trace_taken(errors).into(),
    };
    notes::print_beside(&said, &error);
    error
}

/// Makes the result of a run without usable ranks, next to other runs that have some.
fn run_without_ranks(
    config: &ReplayConfig,
    name: String,
    diagnostics: Vec<Diagnostic>,
    results: RunResults<ReplayRank>,
) -> Replayed {
    let excluded = results.excluded();
    Replayed {
        input: name,
        diagnostics,
        resources: config.settings.resources,
        together: Some(AllRanks {
            world_size: results.members.world_size,
            absent: results.members.absent,
            excluded,
            collectives: Collectives::default(),
            ranks: vec![],
            is_deadlocked: false,
            problems: vec![],
        }),
        ..Replayed::default()
    }
}

fn replay_run(
    config: &ReplayConfig,
    name: String,
    mut diagnostics: Vec<Diagnostic>,
    results: RunResults<ReplayRank>,
) -> Result<(Replayed, UnusedRules)> {
    let excluded = results.excluded();
    let (world_size, absent) = (results.members.world_size, results.members.absent.clone());
    let KeptRanks {
        columns: mut kept,
        names,
        answers,
        cross_steps,
        mut steps,
        is_written,
        overheads,
        overhead_doubts,
    } = kept_ranks(results.members.ranks);
    // clocks are compared by the times of collectives, which unmeasured graphs do not have
    let measured = kept.ranks.iter().all(|rank| rank.graph.measured);
    let join = JoinedRun::new(
        std::mem::take(&mut kept.summaries),
        !config.options.no_align && measured,
    );
    kept.align_clocks(&join.clocks);
    for (steps, summary) in steps.iter_mut().zip(&join.summaries) {
        // ranks may count steps from other numbers
        for (step, named) in steps.iter_mut().zip(&summary.steps.all) {
            step.span.name.clone_from(&named.name);
        }
    }
    let mut joined = etlink_replay::collective_nodes(&join.summaries, &join.matches);
    let joints = std::mem::take(&mut joined.collectives);
    let together =
        etlink_replay::join_graphs(&kept.ranks, &joints).with_context(|| name.clone())?;
    let is_left_out = |outcome: &&JoinOutcome| **outcome != JoinOutcome::Joined;
    let left_out = together.outcomes.iter().filter(is_left_out).count();
    // measured times hide a deadlock: one of the collectives contradicts them
    let is_deadlocked = is_written
        && left_out > 0
        && etlink_replay::is_deadlocked(&kept.ranks, &joints).with_context(|| name.clone())?;
    // the joined graph contains all of them: keeping both would double the memory
    kept.ranks.clear();
    let labels = RankLabels {
        joined: &together,
        ranks: &names,
        collectives: &joints,
    };
    diagnostics.extend(join.match_notes());
    if !is_written {
        diagnostics.extend(join.clock_notes());
    }
    if !measured && !joints.is_empty() {
        diagnostics.push(diagnostic!(
            TimesUncertain,
            "no start times: a collective takes its node's duration on each rank"
        ));
    }
    let config = config.resolve_names(&together.graph, &labels, &name)?;
    let first_nodes = (0..answers.len()).filter_map(|rank| together.first_node(RankIdx::new(rank)));
    let answers: Vec<_> = first_nodes.zip(answers).collect();
    let (mut config, unanswered) = config.ask_ranks(&together.graph, &labels, &answers, &name)?;
    let first_nodes = (0..steps.len()).map(|rank| together.first_node(RankIdx::new(rank)));
    let first_nodes: Vec<NodeIdx> = first_nodes.map(Option::unwrap_or_default).collect();
    for (doubts, first) in overhead_doubts.iter().zip(&first_nodes) {
        let all = &mut config.settings.overhead_doubt;
        all.resize(all.len().max(doubts.len()), GraphEdits::default());
        let of_ranks = all.iter_mut().zip(doubts);
        of_ranks.for_each(|(all, doubt)| all.extend_shifted(doubt, *first));
    }
    let config = &config;
    diagnostics.extend(unanswered);
    let unused = unused_rules(config, &together.graph, &labels);
    diagnostics.extend(
        unused
            .iter()
            .map(|(option, message)| diagnostic!(WhatIfCaveat, "{option}: {message}")),
    );
    let mut of_steps = RunOfSteps {
        ranks: vec![],
        clocks: &join.clocks,
    };
    for ((summary, bounds), first_node) in join.summaries.iter().zip(&steps).zip(first_nodes) {
        of_steps.ranks.push(RankSteps {
            rank: Some(summary.rank),
            bounds,
            first_node,
        });
    }
    let labelled: (&dyn LabelSource, _) = (&labels, &of_steps);
    let (mut replayed, runs) = replay_graph(config, name, diagnostics, &together.graph, labelled);
    replayed.base_ns = kept.origin();
    let overheads = overheads.iter().flatten();
    replayed.figures = replayed.figures.map(|of| of.name_recorded(overheads));
    let ranks = together.by_rank(runs.unchanged());
    if let Some(what_if) = &mut replayed.what_if {
        what_if.ranks = rank_changes(&ranks, &together, &runs.last);
    }
    let collectives = count_collectives(&together, &ranks, joined);
    if is_deadlocked {
        let deadlock = diagnostic!(
            Deadlock,
            "the ranks deadlock: their graphs wait for each other forever. Collectives and messages \
            replayed as measured: {left_out}"
        );
        replayed
            .diagnostics
            .push(deadlock.advise("`etlink check` names the nodes"));
    }
    replayed.together = Some(AllRanks {
        world_size,
        absent,
        excluded,
        collectives,
        ranks: with_clocks(ranks, &join.clocks, cross_steps),
        is_deadlocked,
        problems: join.matches.problems,
    });
    Ok((replayed, unused))
}

/// The ranks that belong to one run.
#[derive(Default)]
struct KeptRanks {
    columns: RankColumns,
    /// Names of the nodes.
    names: Vec<RankNames>,
    answers: Vec<RankAnswers>,
    cross_steps: Vec<Option<CrossStepFigures>>,
    steps: Vec<Vec<StepBounds>>,
    /// True if all ranks are written graphs.
    is_written: bool,
    overheads: Vec<Option<RecordingOverhead>>,
    overhead_doubts: Vec<Vec<GraphEdits>>,
}

fn kept_ranks(members: Vec<RankResult<ReplayRank>>) -> KeptRanks {
    let mut kept = KeptRanks {
        is_written: members.iter().all(|member| member.value.is_written),
        ..KeptRanks::default()
    };
    for member in members {
        // the selection excludes ranks of unknown numbers
        let Some(summary) = member.summary else {
            debug_assert!(false, "{} has no rank", member.label);
            continue;
        };
        let rank = member.value;
        kept.columns.push(summary, rank.graph, rank.base_ns);
        kept.names.push(rank.names);
        kept.answers.push(rank.answers);
        kept.cross_steps.push(rank.cross_step);
        kept.steps.push(rank.steps);
        kept.overheads.push(rank.overhead);
        kept.overhead_doubts.push(rank.overhead_doubt);
    }
    kept
}

fn with_clocks(
    ranks: Vec<RankFigures>,
    clocks: &[RankClock],
    cross_steps: Vec<Option<CrossStepFigures>>,
) -> Vec<RankReport> {
    let mut reports = vec![];
    for (at, (figures, cross_step)) in ranks.into_iter().zip(cross_steps).enumerate() {
        let clock = clocks.get(at).copied().unwrap_or_default();
        reports.push(RankReport {
            figures,
            cross_step,
            clock_offset_ns: clock.offset_ns,
            clock_uncertainty_ns: clock.uncertainty_ns,
            clock_contradicted: clock.contradicted,
        });
    }
    reports
}

fn count_collectives(
    together: &JoinedGraph,
    ranks: &[RankFigures],
    joined: JoinedCollectives,
) -> Collectives {
    let count = |fate: JoinOutcome| {
        together
            .outcomes
            .iter()
            .filter(|found| **found == fate)
            .count() as u64
    };
    let sum = |of: fn(&RankFigures) -> DurationNs| ranks.iter().map(of).sum();
    Collectives {
        joined: count(JoinOutcome::Joined),
        waiting_ns: sum(|rank| rank.collectives.waiting_ns),
        transfer_ns: sum(|rank| rank.collectives.transfer_ns),
        local: Local {
            joined,
            contradicted: count(JoinOutcome::Contradicted),
            out_of_order: count(JoinOutcome::OutOfOrder),
        },
    }
}

fn rank_changes(
    before: &[RankFigures],
    together: &JoinedGraph,
    run: &ReplayRun,
) -> Vec<RankChange> {
    let mut changes = vec![];
    for (now, before) in together.by_rank(run).iter().zip(before) {
        let (spent, spent_before) = (&now.collectives, &before.collectives);
        changes.push(RankChange {
            rank: now.rank,
            end_change_ns: now.end_ns.0 - before.end_ns.0,
            waiting_change_ns: spent.waiting_ns.0 - spent_before.waiting_ns.0,
            transfer_change_ns: spent.transfer_ns.0 - spent_before.transfer_ns.0,
        });
    }
    changes
}
