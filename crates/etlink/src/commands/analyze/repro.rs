//! `etlink repro`: writes a script that repeats recorded ops alone.

use super::ops::{ops_options, read_ops};
use super::print_report;
use super::results::AnalyzedRun;
use crate::Outcome;
use crate::args::ReproArgs;
use crate::kernel_rules::read_rules;
use crate::table::{count, percent};
use anyhow::{Result, bail};
use etlink_analysis::{OpTotals, PeakTable};
use etlink_run::RunSource;
use etlink_run::output::{OutputFormat, Target};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
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
    values: String,
    kernel: &'t str,
    /// Median time of a call; the shortest of a collective, which waits least for other ranks.
    recorded_ns: i64,
    /// Operations of a call.
    operations: Option<u64>,
    /// Device time of all calls of all ranks, which the script does not need.
    #[serde(skip)]
    sum_ns: i64,
}

pub fn run(args: &ReproArgs) -> Result<Outcome> {
    args.reading.refuse_overhead()?;
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
    let options = ops_options(&args.trace, &args.steps, &args.reading, &args.choice)?;
    let (traces, metrics) = (args.trace.traces(), &args.trace.metrics);
    let source = RunSource::from_path_and_files(&args.path, traces, metrics)?;
    let runs = read_ops(source, options, &rules, &PeakTable::default())?;
    AnalyzedRun::print_notes(runs.iter());
    let ranks = runs.iter().flat_map(|run| &run.ranks);
    let all: Vec<&OpTotals> = ranks.flat_map(|rank| &rank.said.ops).collect();
    let whole: i64 = all.iter().map(|op| op.sum_ns).sum();
    let chosen = chosen_ops(&all, args);
    if chosen.is_empty() {
        let asked = match &args.op[..] {
            [] => "no op with inputs".to_owned(),
            names => format!("no call of {}", names.join(", ")),
        };
        bail!(
            "{}: {asked}; `etlink ops` lists those of the recording",
            args.path.display()
        );
    }
    target.write(|out| out.write_all(script(&chosen)?.as_bytes()))?;
    let sum: i64 = chosen.iter().map(|case| case.sum_ns).sum();
    let runs_with = if chosen.iter().any(|case| case.op == COLLECTIVE) {
        "torchrun --nproc-per-node N"
    } else {
        "python3"
    };
    print_report(&format!(
        "{}: {}, {} of the time of all ops; run it with {runs_with}\n",
        args.output.display(),
        count(chosen.len() as u64, "op"),
        percent(sum as f64 / whole.max(1) as f64, 1)
    ))?;
    Ok(Outcome::Done)
}

/// Selects ops by name, place and time; equal ones of several ranks are one.
fn chosen_ops<'t>(all: &[&'t OpTotals], args: &ReproArgs) -> Vec<Case<'t>> {
    let mut cases: IndexMap<[String; 5], Case<'t>> = IndexMap::new();
    for op in all {
        let is_asked = args.op.is_empty() || args.op.contains(&op.op);
        let values = call_values(op);
        if op.op.is_empty() || !is_asked || is_wait(op, &values) {
            continue;
        }
        let texts = [&op.op, &op.shapes, &op.types, &op.strides, &values];
        let recorded_ns = if op.op == COLLECTIVE {
            op.min_ns
        } else {
            op.median_ns
        };
        let new = || Case {
            op: &op.op,
            shapes: &op.shapes,
            types: &op.types,
            strides: &op.strides,
            values: values.clone(),
            kernel: &op.kernel,
            recorded_ns,
            operations: op.operations.map(|all| all / op.count.max(1)),
            sum_ns: 0,
        };
        let case = cases.entry(texts.map(String::clone)).or_insert_with(new);
        case.sum_ns = case.sum_ns.saturating_add(op.sum_ns);
        if op.op == COLLECTIVE {
            case.recorded_ns = case.recorded_ns.min(recorded_ns);
        }
    }
    let mut by_time: Vec<Case<'t>> = cases.into_values().collect();
    by_time.sort_by_key(|case| Reverse(case.sum_ns));
    let mut places: IndexMap<&str, u32> = IndexMap::new();
    by_time.retain(|case| {
        let place = places.entry(case.op).or_default();
        *place += 1;
        args.shape.is_none_or(|shape| shape == *place)
    });
    if args.top > 0 {
        by_time.truncate(args.top);
    }
    by_time
}

/// Returns the values of an op's inputs: of a collective only its name and the lists after it, as the
/// numbers of a call, of a group and of a rank are no others' arguments.
fn call_values(op: &OpTotals) -> String {
    if op.op != COLLECTIVE {
        return op.values.clone();
    }
    let Ok(values) = serde_json::from_str::<Vec<Value>>(&op.values) else {
        return op.values.clone();
    };
    let is_name = |value: &Value| match value.as_str() {
        Some(text) => text.starts_with(|first: char| first == '_' || first.is_ascii_lowercase()),
        None => false,
    };
    let from_name = values.into_iter().skip_while(|value| !is_name(value));
    let kept: Vec<Value> = from_name
        .enumerate()
        .filter(|(at, value)| *at == 0 || value.is_array())
        .map(|(_, value)| value)
        .collect();
    Value::Array(kept).to_string()
}

/// True for the record of a wait, which moves nothing.
fn is_wait(op: &OpTotals, values: &str) -> bool {
    op.op == COLLECTIVE && values.starts_with("[\"wait\"")
}

/// Fills the script with the ops. They are text in quotes, so that nothing in a trace is run.
fn script(chosen: &[Case<'_>]) -> std::io::Result<String> {
    let mut cases = String::new();
    for case in chosen {
        // JSON's escapes are Python's
        let text = serde_json::to_string(&serde_json::to_string(case)?)?;
        cases += &format!("    json.loads({text}),\n");
    }
    Ok(SCRIPT.replacen(PLACE, &cases, 1))
}
