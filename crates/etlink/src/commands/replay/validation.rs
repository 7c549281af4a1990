//! `etlink replay --validate A B`: what was predicted, and what came true.

use super::ranks::RunTogether;
use crate::args::ReplayArgs;
use crate::commands::{json_document, print_text};
use crate::table::{FactRows, fold_lines, percent, signed_time, time};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, NodeNames};
use etlink_replay::{Validation, graph_from_trace, validate};
use etlink_run::{RankContent, Run, RunOptions, RunSource};
use serde::Serialize;
use std::path::Path;

/// What is printed.
#[derive(Serialize)]
struct Validated {
    before: String,
    after: String,
    #[serde(flatten)]
    validation: Validation,
}

pub(super) fn validate_traces(args: &ReplayArgs, before: &Path, after: &Path) -> Result<Outcome> {
    let options = args.reading.run_options(Some(&args.choice))?;
    let sources = [before, after].map(RunSource::from_path);
    let validation = match sources.each_ref().map(RunSource::is_one_rank) {
        [true, true] => {
            let one = load_content(before, &options)?;
            let other = load_content(after, &options)?;
            validate_contents(&one, &other).context("no graph of a trace")?
        }
        [false, false] => validate_folders(sources, &options)?,
        _ => bail!("--validate takes two traces, or two folders with the traces of all ranks"),
    };
    let validated = Validated {
        before: before.display().to_string(),
        after: after.display().to_string(),
        validation,
    };
    if args.print.json {
        print_text(&json_document("etlink.validation", &validated)?)?;
    } else {
        print_text(&fold_lines(&validation_text(&validated)))?;
    }
    Ok(Outcome::Done)
}

/// All ranks of each run as one graph, in which a rank that is late holds the others up.
fn validate_folders(sources: [RunSource; 2], options: &RunOptions) -> Result<Validation> {
    let [before, after] = sources;
    let before = RunTogether::open(before, options.clone())?;
    let after = RunTogether::open(after, options.clone())?;
    Ok(validate(
        (&before.joined.graph, &before.labels()),
        (&after.joined.graph, &after.labels()),
    ))
}

fn load_content(path: &Path, options: &RunOptions) -> Result<RankContent> {
    let run = Run::open(RunSource::from_path(path), options.clone())?;
    let content = run.only_rank()?.load()?;
    if let RankContent::Linked(linked) = &content {
        notes::print_details(&path.display().to_string(), &linked.details());
    }
    Ok(content)
}

fn validate_contents(one: &RankContent, other: &RankContent) -> Result<Validation> {
    Ok(match (one, other) {
        (RankContent::Linked(one), RankContent::Linked(other)) => {
            let graphs = (
                graph_from_trace(&one.trace)?,
                graph_from_trace(&other.trace)?,
            );
            validate((&graphs.0, &one.trace), (&graphs.1, &other.trace))
        }
        (RankContent::Linked(one), RankContent::Written(other)) => {
            let file = &other.graph;
            let graphs = (
                graph_from_trace(&one.trace)?,
                convert::replay_graph(file)?.0,
            );
            validate((&graphs.0, &one.trace), (&graphs.1, &NodeNames(file)))
        }
        (RankContent::Written(one), RankContent::Linked(other)) => {
            let file = &one.graph;
            let graphs = (
                convert::replay_graph(file)?.0,
                graph_from_trace(&other.trace)?,
            );
            validate((&graphs.0, &NodeNames(file)), (&graphs.1, &other.trace))
        }
        (RankContent::Written(one), RankContent::Written(other)) => {
            let files = (&one.graph, &other.graph);
            let graphs = (
                convert::replay_graph(files.0)?.0,
                convert::replay_graph(files.1)?.0,
            );
            let labels = (NodeNames(files.0), NodeNames(files.1));
            validate((&graphs.0, &labels.0), (&graphs.1, &labels.1))
        }
    })
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
        format!("{} where {} came true", changes[0], changes[1]),
    );
    rows.add(
        "error",
        percent(found.error, 2),
        format!(
            "of the time after; had nothing changed {}",
            percent(found.unchanged_error, 2)
        ),
    );
    rows.add("nodes", found.matched, "that both have");
    for (name, nodes) in [("before", found.only_before), ("after", found.only_after)] {
        rows.add(
            "",
            nodes.nodes,
            format!("only {name}, of {}", time(nodes.total_ns.0)),
        );
    }
    rows.to_string()
}
