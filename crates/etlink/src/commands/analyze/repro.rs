//! `etlink repro`: writes a script that repeats recorded ops alone.

use super::ops::read_ops;
use super::print_report;
use super::results::AnalyzedRun;
use crate::Outcome;
use crate::args::ReproArgs;
use crate::kernel_rules::read_rules;
use crate::table::{count, percent};
use anyhow::{Result, bail};
use etlink_analyze::{OpTotals, PeakTable};
use etlink_run::output::{OutputFormat, Target};
use etlink_run::{RunOptions, RunSource};
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use std::cmp::Reverse;

/// The script, with a place for the ops.
const SCRIPT: &str = include_str!("repro/repeat.py");
/// Line that the ops replace.
const PLACE: &str = "    # CASES\n";
/// Op around each call of `torch.distributed`.
const COLLECTIVE: &str = "record_param_comms";

/// One op with one set of arguments, as the script reads it.
#[derive(Serialize)]
struct Case<'t> {
    op: &'t str,
    shapes: &'t str,
    types: &'t str,
    strides: &'t str,
    values: &'t str,
    kernel: &'t str,
    /// Median time of a call; the shortest of a collective, which waits least for other ranks.
    recorded_ns: i64,
    /// Operations of a call.
    operations: Option<u64>,
}

pub fn run(args: &ReproArgs) -> Result<Outcome> {
    args.reading.overhead.refuse()?;
    if args
        .output
        .extension()
        .is_none_or(|extension| extension != "py")
    {
        bail!("-o {}: the script is Python (.py)", args.output.display());
    }
    let overwrite = args.overwrite.overwrite;
    let target = Target::new(&args.output, Some(OutputFormat::EtPlus), overwrite)?;
    let rules = read_rules(args.trace.rules.as_deref())?.rules;
    let options = RunOptions {
        rank: args.trace.rank,
        steps_by: args.steps.steps_by.clone(),
        progress: crate::progress::progress_bar(),
        ..args.reading.run_options(Some(&args.choice))?
    };
    let (traces, metrics) = (args.trace.traces(), &args.trace.metrics);
    let source = RunSource::from_path_and_files(&args.path, traces, metrics)?;
    let runs = read_ops(source, options, &rules, &PeakTable::default())?;
    AnalyzedRun::print_notes(runs.iter());
    let ranks = runs.iter().flat_map(|run| &run.ranks);
    let all: Vec<&OpTotals> = ranks.flat_map(|rank| &rank.said.ops).collect();
    let whole: i64 = all.iter().map(|op| op.sum_ns).sum();
    let chosen = chosen_ops(&all, args);
    if chosen.is_empty() {
        bail!(
            "{}: no op to repeat; `etlink ops` lists those of the recording",
            args.path.display()
        );
    }
    target.write(|out| out.write_all(script(&chosen)?.as_bytes()))?;
    let sum: i64 = chosen.iter().map(|op| op.sum_ns).sum();
    print_report(&format!(
        "{}: {}, {} of the time of all ops; run it with python3\n",
        args.output.display(),
        count(chosen.len() as u64, "op"),
        percent(sum as f64 / whole.max(1) as f64, 1)
    ))?;
    Ok(Outcome::Done)
}

/// Selects ops by name, place and time; equal ones of several ranks count once.
fn chosen_ops<'t>(all: &[&'t OpTotals], args: &ReproArgs) -> Vec<&'t OpTotals> {
    let mut by_time = all.to_vec();
    by_time.sort_by_key(|op| Reverse(op.sum_ns));
    let mut seen = IndexSet::new();
    let mut places: IndexMap<&str, u32> = IndexMap::new();
    by_time.retain(|op| {
        let is_asked = args.op.is_empty() || args.op.contains(&op.op);
        let arguments = (&op.op, &op.shapes, &op.types, &op.strides, &op.values);
        if op.op.is_empty() || !is_asked || !seen.insert(arguments) {
            return false;
        }
        let place = places.entry(&op.op).or_default();
        *place += 1;
        args.shape.is_none_or(|shape| shape == *place)
    });
    if args.top > 0 {
        by_time.truncate(args.top);
    }
    by_time
}

/// Fills the script with the ops. They are text in quotes, so that nothing in a trace is run.
fn script(ops: &[&OpTotals]) -> std::io::Result<String> {
    let mut cases = String::new();
    for op in ops {
        let case = Case {
            op: &op.op,
            shapes: &op.shapes,
            types: &op.types,
            strides: &op.strides,
            values: &op.values,
            kernel: &op.kernel,
            recorded_ns: if op.op == COLLECTIVE {
                op.min_ns
            } else {
                op.median_ns
            },
            operations: op.operations.map(|operations| operations / op.count.max(1)),
        };
        // JSON's escapes are Python's
        let text = serde_json::to_string(&serde_json::to_string(&case)?)?;
        cases += &format!("    json.loads({text}),\n");
    }
    Ok(SCRIPT.replacen(PLACE, &cases, 1))
}
