//! `etlink replay --validate A B`: compares a prediction with the outcome.

use super::ranks::RunTogether;
use crate::args::ReplayArgs;
use crate::commands::print_text;
use crate::envelope::{JsonReport, json_text};
use crate::table::{FactRows, fold_lines, percent, signed_time, time};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, NodeNames};
use etlink_model::Diagnostic;
use etlink_replay::{
    RankNames, ReplayGraph, Validation, ValidationVerdict, graph_from_trace, validate,
};
use etlink_run::membership::Excluded;
use etlink_run::run::report_diagnostics;
use etlink_run::{RankContent, Run, RunOptions, RunSource};
use serde::Serialize;
use std::path::Path;

/// Results of a validation, as printed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Validated {
    before: String,
    after: String,
    /// Notes about the traces of both runs.
    diagnostics: Vec<Diagnostic>,
    /// Traces excluded from either run.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    validation: Validation,
}

impl JsonReport for Validated {
    const SCHEMA: &'static str = "etlink.validation";
}

/// A validated prediction, notes about both runs, and traces excluded from either.
type Predicted = (Validation, [Vec<Diagnostic>; 2], Vec<Excluded>);

pub(super) fn validate_traces(args: &ReplayArgs, before: &Path, after: &Path) -> Result<Outcome> {
    let options = RunOptions {
        no_align: args.no_align,
        ..args.reading.run_options(Some(&args.choice))?
    };
    let sources = [before, after].map(RunSource::from_path);
    let (validation, notes, excluded) = match sources.each_ref().map(RunSource::is_one_rank) {
        [true, true] => validate_files([before, after], &options)?,
        [false, false] => validate_folders(sources, &options)?,
        _ => bail!("--validate takes two traces, or two folders with the traces of all ranks"),
    };
    if validation.matched == 0 {
        // a figure would look like an answer
        bail!(
            "{} and {} have no node in common, so they come from different programs; pass two runs \
             of one program, before and after a change",
            before.display(),
            after.display()
        );
    }
    let validated = Validated {
        before: before.display().to_string(),
        after: after.display().to_string(),
        diagnostics: notes::name_sides(notes),
        excluded,
        validation,
    };
    if args.print.json {
        print_text(&json_text(&validated)?)?;
    } else {
        notes::print(&validated.diagnostics);
        print_text(&fold_lines(&validation_text(&validated)))?;
    }
    let is_confirmed = validated.validation.verdict == ValidationVerdict::Confirmed;
    Ok(Outcome::done_if(
        is_confirmed && validated.excluded.is_empty(),
    ))
}

/// Validates two runs, each as one graph of all ranks, in which a late rank delays the others.
fn validate_folders(sources: [RunSource; 2], options: &RunOptions) -> Result<Predicted> {
    let [before, after] = sources;
    let before = RunTogether::open(before, options.clone())?;
    let after = RunTogether::open(after, options.clone())?;
    let validation = validate(
        (&before.joined.graph, &before.labels()),
        (&after.joined.graph, &after.labels()),
    );
    let sides = [before, after];
    let notes = sides.each_ref().map(|run| run.diagnostics.clone());
    let excluded = sides.into_iter().flat_map(|run| run.excluded);
    Ok((validation, notes, excluded.collect()))
}

/// Validates two traces, two written graphs, or one of each.
fn validate_files([before, after]: [&Path; 2], options: &RunOptions) -> Result<Predicted> {
    let (first, first_names, first_notes) = read_graph(before, options)?;
    let (second, second_names, second_notes) = read_graph(after, options)?;
    let validation = validate((&first, &first_names), (&second, &second_names));
    Ok((validation, [first_notes, second_notes], vec![]))
}

/// Reads the graph of a file with the names of its nodes, and notes.
fn read_graph(
    path: &Path,
    options: &RunOptions,
) -> Result<(ReplayGraph, RankNames, Vec<Diagnostic>)> {
    let name = path.display().to_string();
    let run = Run::open(RunSource::from_path(path), options.clone())?;
    match run.only_rank()?.load()?.refuse_damage(options)? {
        RankContent::Linked(linked) => {
            notes::print_details(&name, &linked.details());
            let graph = graph_from_trace(&linked.trace).context(name)?;
            let names = RankNames::from_labels(&linked.trace, graph.len());
            Ok((graph, names, report_diagnostics(&linked.report.report)))
        }
        RankContent::Written(written) => {
            let (graph, notes) = convert::replay_graph(&written.graph).context(name)?;
            let names = RankNames::from_labels(&NodeNames(&written.graph), graph.len());
            Ok((graph, names, notes))
        }
    }
}

fn validation_text(validated: &Validated) -> String {
    let found = &validated.validation;
    let mut rows = FactRows::default();
    let before = found.before_ns.0;
    rows.add("before", time(before), &validated.before);
    rows.add("after", time(found.measured_ns.0), &validated.after);
    let changes = [found.predicted_ns.0 - before, found.measured_ns.0 - before].map(signed_time);
    rows.add(
        "predicted",
        time(found.predicted_ns.0),
        format!("{}, measured {}", changes[0], changes[1]),
    );
    rows.add(
        "error",
        percent(found.error, 2),
        format!(
            "of the time after; {} if nothing had changed",
            percent(found.unchanged_error, 2)
        ),
    );
    let (verdict, meaning) = match found.verdict {
        ValidationVerdict::Confirmed => ("confirmed", "the prediction holds"),
        ValidationVerdict::Refuted => (
            "refuted",
            "the prediction does not hold: more changed than the durations of common nodes",
        ),
        ValidationVerdict::DifferentPrograms => (
            "unknown",
            "the runs share less than half of their ops and device work, so they come from different programs",
        ),
    };
    rows.add("verdict", verdict, meaning);
    rows.add("nodes", found.matched, "in both runs");
    for (name, nodes) in [("before", found.only_before), ("after", found.only_after)] {
        rows.add(
            "",
            nodes.nodes,
            format!("only {name}, {}", time(nodes.total_ns.0)),
        );
    }
    rows.to_string()
}
