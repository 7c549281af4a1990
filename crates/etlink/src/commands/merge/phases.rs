//! `etlink merge --phase`: one phase of a merge that is distributed over many machines.

use super::show;
use crate::Outcome;
use crate::args::PhaseName;
use crate::commands::{print_report, print_run_files};
use crate::envelope::{JsonReport, print_json_report};
use crate::notes::print_note;
use anyhow::Result;
use etlink_run::discover::is_of_no_run;
use etlink_run::merge::phases::{
    JoinReport, ShardReport, join_shards, summarize_shard, write_shard,
};
use etlink_run::merge::{MergeOptions, MergedRank};
use etlink_run::run::RunSet;
use std::path::Path;

impl JsonReport for ShardReport {
    const SCHEMA: &'static str = "etlink.merge_shard";
}

impl JsonReport for JoinReport {
    const SCHEMA: &'static str = "etlink.merge_join";
}

/// Runs a phase, and prints its results.
pub(super) fn run(
    phase: PhaseName,
    runs: &RunSet,
    output: &Path,
    options: &MergeOptions,
    json: bool,
) -> Result<Outcome> {
    match phase {
        PhaseName::Summaries => {
            let report = summarize_shard(runs, output, options)?;
            print_shard(runs, &report, json)
        }
        PhaseName::Join => {
            let report = join_shards(runs, output, options)?;
            print_join(runs, &report, json)
        }
        PhaseName::Write => {
            let report = write_shard(runs, output, options)?;
            print_shard(runs, &report, json)
        }
    }
}

fn print_shard(runs: &RunSet, report: &ShardReport, json: bool) -> Result<Outcome> {
    if json {
        print_json_report(report)?;
    } else {
        print_report(&show::merge_summary(&runs.runs, &report.ranks, &[]))?;
    }
    let is_bad = report.ranks.iter().any(MergedRank::is_bad);
    Ok(if is_bad {
        Outcome::Found
    } else {
        Outcome::Done
    })
}

fn print_join(runs: &RunSet, report: &JoinReport, json: bool) -> Result<Outcome> {
    print_run_files(runs);
    // the shards print the notes on the runs; only this kind makes the join end with 1
    let notes = runs.runs.iter().flat_map(|run| &run.notes);
    for note in notes.filter(|note| is_of_no_run(note)) {
        print_note(note);
    }
    if json {
        print_json_report(report)?;
    } else {
        print_report(&show::join_summary(report))?;
    }
    let is_complete = report.is_complete(runs.options.strict);
    Ok(match (is_complete, report.is_empty) {
        (_, true) => Outcome::Nothing,
        (true, false) => Outcome::Done,
        (false, false) => Outcome::Found,
    })
}
