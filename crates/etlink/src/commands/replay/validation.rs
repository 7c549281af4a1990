//! `etlink replay --validate A B`: compares a prediction with the outcome.

use super::ranks::RunTogether;
use super::trace_notes;
use crate::args::ReplayArgs;
use crate::commands::print_text;
use crate::envelope::{JsonReport, json_text};
use crate::table::{FactRows, fold_lines, percent, signed_time, time};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, NodeNames};
use etlink_link::LinkedTrace;
use etlink_replay::{
    LabelSource, ReplayGraph, Validation, ValidationVerdict, graph_from_trace, validate,
};
use etlink_run::membership::Excluded;
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
    notes: Vec<String>,
    /// Traces excluded from either run.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    validation: Validation,
}

impl JsonReport for Validated {
    const SCHEMA: &'static str = "etlink.validation";
}

/// A validated prediction, with notes about both runs.
struct Predicted {
    validation: Validation,
    notes: [Vec<String>; 2],
    excluded: Vec<Excluded>,
}

pub(super) fn validate_traces(args: &ReplayArgs, before: &Path, after: &Path) -> Result<Outcome> {
    let options = RunOptions {
        no_align: args.no_align,
        ..args.reading.run_options(Some(&args.choice))?
    };
    let sources = [before, after].map(RunSource::from_path);
    let predicted = match sources.each_ref().map(RunSource::is_one_rank) {
        [true, true] => validate_files([before, after], &options)?,
        [false, false] => validate_folders(sources, &options)?,
        _ => bail!("--validate takes two traces, or two folders with the traces of all ranks"),
    };
    if predicted.validation.matched == 0 {
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
        notes: notes::name_sides(predicted.notes),
        excluded: predicted.excluded,
        validation: predicted.validation,
    };
    if args.print.json {
        print_text(&json_text(&validated)?)?;
    } else {
        notes::print_all(&validated.notes);
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
    let notes = sides.each_ref().map(|run| run.notes.clone());
    Ok(Predicted {
        validation,
        notes,
        excluded: sides.into_iter().flat_map(|run| run.excluded).collect(),
    })
}

/// Validates two traces, two written graphs, or one of each.
fn validate_files([before, after]: [&Path; 2], options: &RunOptions) -> Result<Predicted> {
    let (before_content, after_content) = (
        load_content(before, options)?,
        load_content(after, options)?,
    );
    let of_file =
        |content, path: &Path| FileGraph::new(content).with_context(|| path.display().to_string());
    let before = of_file(&before_content, before)?;
    let after = of_file(&after_content, after)?;
    Ok(Predicted {
        validation: validate(
            (&before.graph, before.labels.source()),
            (&after.graph, after.labels.source()),
        ),
        notes: [before.notes, after.notes],
        excluded: vec![],
    })
}

fn load_content(path: &Path, options: &RunOptions) -> Result<RankContent> {
    let run = Run::open(RunSource::from_path(path), options.clone())?;
    let content = run.only_rank()?.load()?.refuse_damage(options)?;
    if let RankContent::Linked(linked) = &content {
        notes::print_details(&path.display().to_string(), &linked.details());
    }
    Ok(content)
}

/// The graph of one file.
struct FileGraph<'c> {
    graph: ReplayGraph,
    labels: FileLabels<'c>,
    notes: Vec<String>,
}

/// Names of the nodes.
enum FileLabels<'c> {
    Trace(&'c LinkedTrace),
    Written(NodeNames<'c>),
}

impl<'c> FileGraph<'c> {
    fn new(content: &'c RankContent) -> Result<FileGraph<'c>> {
        Ok(match content {
            RankContent::Linked(linked) => FileGraph {
                graph: graph_from_trace(&linked.trace)?,
                labels: FileLabels::Trace(&linked.trace),
                notes: trace_notes(&linked.report.report),
            },
            RankContent::Written(written) => {
                let (graph, notes) = convert::replay_graph(&written.graph)?;
                FileGraph {
                    graph,
                    labels: FileLabels::Written(NodeNames(&written.graph)),
                    notes,
                }
            }
        })
    }
}

impl FileLabels<'_> {
    fn source(&self) -> &dyn LabelSource {
        match self {
            FileLabels::Trace(trace) => *trace,
            FileLabels::Written(names) => names,
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
