//! Reads each rank's traces or written graph, and keeps the data that the replay needs.

use super::super::CROSS_STEP_PARTNERS;
use super::super::questions::{RankAnswers, rank_answers};
use super::ReplayRank;
use crate::rank_error::rank_error;
use crate::{notes, table};
use anyhow::{Context, Result, bail};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::findings::{QuestionError, RankAnswer, WhatIfQuestion};
use etlink_chakra::convert::{self, NodeNames};
use etlink_chakra::read::FileKind;
use etlink_model::{Diagnostic, Failure, GlobalRank, UnixNs, diagnostic};
use etlink_replay::{RankNames, cross_step_figures};
use etlink_run::RunError;
use etlink_run::rank_results::RankJob;
use etlink_run::run::{
    LinkedRank, RankContent, RankEntry, RankResult, RunResults, RunSet, WrittenRank,
    report_diagnostics,
};

/// Result of reading a rank.
#[allow(clippy::large_enum_variant, reason = "nearly all ranks have a graph")]
#[derive(BorshSerialize, BorshDeserialize)]
enum ReplayOutcome {
    /// Graph of the rank.
    Graph(RankResult<ReplayRank>),
    /// The rank was not requested.
    Unwanted,
    /// The file is a placeholder without work, written for a rank without a trace.
    Idle,
}

/// The runs as read. `idle_notes` has each run's notes about placeholder files.
pub(super) struct ReadRuns {
    pub(super) runs: Vec<RunResults<ReplayRank>>,
    pub(super) idle_notes: Vec<Vec<Diagnostic>>,
}

/// Reads every rank.
pub(super) fn read_ranks(runs: &RunSet, questions: &[WhatIfQuestion]) -> Result<ReadRuns> {
    let asked: Vec<String> = questions.iter().map(ToString::to_string).collect();
    let work = RankJob {
        command: "replay",
        settings: Some(vec![("--what-if", format!("{asked:?}"))]),
    };
    let read = |rank: RankEntry<'_>| read_rank(rank, questions).map_err(rank_error);
    let ranks = runs.rank_results(&work, read, |_, read| match read {
        ReplayOutcome::Graph(rank) => rank.value.memory_bytes(),
        ReplayOutcome::Unwanted | ReplayOutcome::Idle => 0,
    })?;
    sort_ranks(runs, ranks)
}

/// Sorts the ranks into their runs.
fn sort_ranks(runs: &RunSet, ranks: Vec<Result<ReplayOutcome, RunError>>) -> Result<ReadRuns> {
    let mut idle_notes: Vec<Vec<Diagnostic>> = vec![vec![]; runs.runs.len()];
    let mut results = vec![];
    for (index, read) in ranks.into_iter().enumerate() {
        let label = runs.entry(index).label();
        let run = runs.ranks[index].0;
        results.push(match read {
            Ok(ReplayOutcome::Graph(rank)) => {
                notes::print_details(&table::rank(label), &rank.value.details);
                Some(Ok(rank))
            }
            Ok(ReplayOutcome::Unwanted) => None,
            Ok(ReplayOutcome::Idle) => {
                let idle = diagnostic!(RankIdle, "its file is a placeholder without work");
                idle_notes[run].push(runs.entry(index).files().subject_of(idle));
                None
            }
            Err(error) => Some(Err(error)),
        });
    }
    Ok(ReadRuns {
        runs: runs.collect_runs(results, true)?,
        idle_notes,
    })
}

fn read_rank(rank: RankEntry<'_>, questions: &[WhatIfQuestion]) -> Result<ReplayOutcome> {
    match rank.load()? {
        RankContent::Linked(linked) => from_traces(rank, *linked, questions),
        RankContent::Written(written) => from_written(rank, *written, questions),
    }
}

fn from_traces(
    rank: RankEntry<'_>,
    linked: LinkedRank,
    questions: &[WhatIfQuestion],
) -> Result<ReplayOutcome> {
    if !rank.is_wanted(linked.report.report.rank) {
        return Ok(ReplayOutcome::Unwanted);
    }
    let linked = linked.refuse_damage()?;
    // the trace is freed when this function returns: only graphs of all ranks fit into memory
    let graph = etlink_replay::graph_from_trace(&linked.trace)?;
    if graph.is_empty() {
        bail!("{}: nothing to replay", linked.report.device);
    }
    let names = RankNames::from_labels(&linked.trace, graph.len());
    let details = linked.details();
    Ok(ReplayOutcome::Graph(RankResult {
        label: rank.label().to_owned(),
        diagnostics: report_diagnostics(&linked.report.report),
        summary: linked.summary,
        value: ReplayRank {
            answers: rank_answers(questions, &linked.trace),
            cross_step: cross_step_figures(&linked.trace, &graph, CROSS_STEP_PARTNERS),
            steps: etlink_replay::step_bounds(&linked.trace, &graph),
            overhead: linked.trace.report.overhead,
            overhead_doubt: etlink_replay::overhead_doubt(&linked.trace, &graph),
            graph,
            names,
            details,
            base_ns: linked.trace.device.header.base_ns,
            is_written: false,
        },
    }))
}

fn from_written(
    rank: RankEntry<'_>,
    written: WrittenRank,
    questions: &[WhatIfQuestion],
) -> Result<ReplayOutcome> {
    let damage = written.graph.damage();
    let (written, lacks) = written.into_replayable()?;
    let (name, file) = (&written.name, &written.graph);
    if !matches!(file.format, FileKind::ChakraEt | FileKind::ChakraJson) || file.is_empty() {
        let problem = format!("{name}: no Chakra nodes to run");
        bail!(Failure::new(problem).advise("see `etlink check`"));
    }
    if rank.set.options.strict
        && let Some(damage) = damage
    {
        return Err(RunError::Refused {
            file: name.clone(),
            what: damage,
        }
        .into());
    }
    if convert::is_idle_rank(file) {
        return Ok(ReplayOutcome::Idle);
    }
    let (graph, mut notes) = convert::replay_graph(file).with_context(|| name.clone())?;
    notes.extend(lacks);
    let names = RankNames::from_labels(&NodeNames(file), graph.len());
    let number = rank
        .files()
        .rank
        .context("written graphs are named by their ranks")?;
    let summary = convert::summarize_rank(GlobalRank(number), file, &graph, &rank.groups()?);
    Ok(ReplayOutcome::Graph(RankResult {
        label: rank.label().to_owned(),
        diagnostics: notes,
        summary: Some(summary),
        value: ReplayRank {
            details: vec![format!("{name}: {} nodes", graph.len())],
            graph,
            names,
            answers: unanswered(questions),
            cross_step: None,
            steps: vec![],
            overhead: None,
            overhead_doubt: vec![],
            is_written: true,
            // a file without a base time counts from the epoch
            base_ns: UnixNs(file.base_time_ns().unwrap_or(0)),
        },
    }))
}

/// Returns answers for a written graph, which has no calls, groups, or devices to ask about.
fn unanswered(questions: &[WhatIfQuestion]) -> RankAnswers {
    let why = QuestionError::OtherInput {
        why: "a written graph lacks the necessary data".into(),
        remedy: "replay the traces".into(),
    };
    let answers = questions.iter().map(|question| {
        if question.needs_ranks() {
            Ok(RankAnswer::default())
        } else {
            Err(why.clone())
        }
    });
    answers.collect()
}
