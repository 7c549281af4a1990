//! What-if questions about real programs: each is recorded as it is and changed, and the second is
//! predicted from the traces of the first.
//!
//! Steps of the later half count: queues that were full when the recording began hide for some
//! steps what a change does.

use crate::support::{etlink_path, read_trace_text, repository_root, run_command};
use anyhow::{Context, Result, ensure};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{NodeIdx, OpIdx, TimeNs};
use etlink_replay::{ReplayRun, ReplaySettings, graph_from_trace, run_graph};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo dev whatif-programs`.
#[derive(Debug, clap::Args)]
pub struct WhatIfProgramOptions {
    /// Python with PyTorch
    #[arg(long, default_value = "target/testdata-venvs/2.15.0/bin/python")]
    python: PathBuf,
    /// So often each program is recorded; the median counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Only experiments whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// Lengths of a program's parts, ms.
type Parts = &'static [(&'static str, f64)];

/// A program, and what is changed of it.
struct Experiment {
    name: &'static str,
    /// Which function of `recipes/whatif/program.py`.
    way: &'static str,
    before: Parts,
    after: Parts,
    /// The op that is changed, and by what factor.
    change: (&'static str, f64),
}

const fn experiment(
    name: &'static str,
    way: &'static str,
    (before, after): (Parts, Parts),
    change: (&'static str, f64),
) -> Experiment {
    Experiment {
        name,
        way,
        before,
        after,
        change,
    }
}

const FETCH: &str = "etlink::DataLoader.fetch";

#[rustfmt::skip]
const EXPERIMENTS: [Experiment; 15] = [
    experiment("forward op x3", "ops",
        (&[("FORWARD", 80.0), ("SECOND", 80.0)], &[("FORWARD", 240.0), ("SECOND", 80.0)]),
        ("First", 3.0)),
    experiment("backward op x4", "ops",
        (&[("BACKWARD", 50.0), ("SECOND", 80.0)], &[("BACKWARD", 200.0), ("SECOND", 80.0)]),
        ("FirstBackward", 4.0)),
    experiment("hook that sleeps x3", "hooked",
        (&[("HOOK", 60.0), ("WORK", 80.0)], &[("HOOK", 180.0), ("WORK", 80.0)]),
        ("hook", 3.0)),
    experiment("hidden producer x4 becomes bound", "producer",
        (&[("MAKE", 80.0), ("USE", 160.0)], &[("MAKE", 320.0), ("USE", 160.0)]),
        ("Make", 4.0)),
    experiment("bound producer x1/3", "producer",
        (&[("MAKE", 240.0), ("USE", 80.0)], &[("MAKE", 80.0), ("USE", 80.0)]),
        ("Make", 1.0 / 3.0)),
    experiment("consumer x2.5 behind a bound producer", "producer",
        (&[("MAKE", 240.0), ("USE", 80.0)], &[("MAKE", 240.0), ("USE", 200.0)]),
        ("Use", 2.5)),
    experiment("hidden future x4", "future",
        (&[("ASIDE", 80.0), ("OWN", 160.0)], &[("ASIDE", 320.0), ("OWN", 160.0)]),
        ("Aside", 4.0)),
    experiment("exposed future x1/4", "future",
        (&[("ASIDE", 320.0), ("OWN", 160.0)], &[("ASIDE", 80.0), ("OWN", 160.0)]),
        ("Aside", 0.25)),
    experiment("lock of two threads, held x2", "lock",
        (&[("LOCKED", 80.0), ("FREE", 80.0)], &[("LOCKED", 160.0), ("FREE", 80.0)]),
        ("Locked", 2.0)),
    experiment("use x2.5 behind a bound loader", "loader",
        (&[("FETCH", 400.0), ("USE", 60.0)], &[("FETCH", 400.0), ("USE", 150.0)]),
        ("Use", 2.5)),
    experiment("hidden loader x4 becomes bound", "loader",
        (&[("FETCH", 160.0), ("USE", 160.0)], &[("FETCH", 640.0), ("USE", 160.0)]),
        (FETCH, 4.0)),
    experiment("bound loader x1/4", "loader",
        (&[("FETCH", 640.0), ("USE", 160.0)], &[("FETCH", 160.0), ("USE", 160.0)]),
        (FETCH, 0.25)),
    experiment("middle stage of a pipeline x3", "stages",
        (&[("FIRST", 120.0), ("SECOND", 80.0), ("LAST", 120.0)],
         &[("FIRST", 120.0), ("SECOND", 240.0), ("LAST", 120.0)]),
        ("Second", 3.0)),
    experiment("bound stage of a pipeline x1/3", "stages",
        (&[("FIRST", 300.0), ("SECOND", 80.0), ("LAST", 120.0)],
         &[("FIRST", 100.0), ("SECOND", 80.0), ("LAST", 120.0)]),
        ("First", 1.0 / 3.0)),
    experiment("last stage x2 behind a bound one", "stages",
        (&[("FIRST", 240.0), ("SECOND", 80.0), ("LAST", 80.0)],
         &[("FIRST", 240.0), ("SECOND", 80.0), ("LAST", 160.0)]),
        ("Last", 2.0)),
];

/// Steps that are recorded.
const ACTIVE: usize = 12;
/// Bars: mean and worst error of a step's length.
const MEAN: f64 = 0.033;
const WORST: f64 = 0.10;

/// Records and predicts all experiments, and prints the table of errors.
pub fn test_programs(options: &WhatIfProgramOptions) -> Result<()> {
    println!(
        "{:<40} {:>8} {:>8} {:>9} {:>8} {:>8}",
        "step, ms", "before", "after", "predicted", "error", "sum"
    );
    let mut errors = vec![];
    for experiment in &EXPERIMENTS {
        if !experiment.name.contains(&options.only) {
            continue;
        }
        let mut runs = vec![];
        for _ in 0..options.repeat.max(1) {
            runs.push(predict_experiment(options, experiment)?);
        }
        let before = median(&runs, |run| run.before);
        let after = median(&runs, |run| run.after);
        let predicted = median(&runs, |run| run.predicted);
        let sum = median(&runs, |run| run.sum);
        let error = predicted / after - 1.0;
        println!(
            "{:<40} {before:>8.1} {after:>8.1} {predicted:>9.1} {:>+7.1}% {:>+7.1}%",
            experiment.name,
            error * 100.0,
            (sum / after - 1.0) * 100.0
        );
        errors.push(error.abs());
    }
    ensure!(!errors.is_empty(), "no experiment has such a name");
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("mean {:.1} %, worst {:.1} %", mean * 100.0, worst * 100.0);
    ensure!(
        mean <= MEAN && worst <= WORST,
        "predictions are beyond their bars"
    );
    Ok(())
}

/// Lengths of a step, ms.
struct StepLengths {
    before: f64,
    after: f64,
    predicted: f64,
    /// The naive prediction: the step gets longer by what the changed op does.
    sum: f64,
}

fn median(runs: &[StepLengths], value: impl Fn(&StepLengths) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn predict_experiment(
    options: &WhatIfProgramOptions,
    experiment: &Experiment,
) -> Result<StepLengths> {
    let before = record_program(options, experiment.way, experiment.before)?;
    let after = record_program(options, experiment.way, experiment.after)?;
    let graph = graph_from_trace(&before)?;
    let (op, factor) = experiment.change;
    let settings = ReplaySettings {
        scales: vec![format!("{op}={factor}").parse()?],
        ..ReplaySettings::default()
    };
    let run = run_graph(&graph, &before, &settings);
    let ops = &before.device.ops;
    let changed = (0..ops.len()).filter(|at| before.device_name(ops.name[*at]) == op);
    let total: i64 = changed.map(|at| ops.duration[at].0).sum();
    let measured = step_length(&before, None)?;
    Ok(StepLengths {
        before: measured,
        after: step_length(&after, None)?,
        predicted: step_length(&before, Some(&run))?,
        sum: measured + total as f64 * (factor - 1.0) / 1e6 / ACTIVE as f64,
    })
}

/// Records a program, and links what it leaves.
fn record_program(options: &WhatIfProgramOptions, way: &str, parts: Parts) -> Result<LinkedTrace> {
    let root = repository_root()?;
    let folder = root.join("target/whatif-programs");
    let steps = (ACTIVE + 4).to_string();
    let active = ACTIVE.to_string();
    let mut record = Command::new(etlink_path()?);
    record.args([
        "-q",
        "record",
        "--wait",
        "1",
        "--warmup",
        "1",
        "--overwrite",
    ]);
    record.args(["--active", &active, "-o"]).arg(&folder);
    record.arg("--").arg(root.join(&options.python));
    record.arg(root.join("crates/etlink-dev/recipes/whatif/program.py"));
    record.args([way, &steps]);
    for (part, length) in parts {
        record.env(part, length.to_string());
    }
    run_command(record.stderr(std::process::Stdio::null()))?;
    link_traces(&folder)
}

fn link_traces(folder: &Path) -> Result<LinkedTrace> {
    let text = read_trace_text(&folder.join("kineto_trace_0.json"))?;
    let device = etlink_kineto::read(&text[..], etlink_kineto::KinetoReadOptions::default())?;
    Ok(etlink_link::link(None, device, LinkOptions::default())?)
}

/// The mean length of the later half of the steps: as measured, or in a run.
fn step_length(trace: &LinkedTrace, run: Option<&ReplayRun>) -> Result<f64> {
    let ops = &trace.device.ops;
    let is_step = |op: &OpIdx| {
        let name = trace.device_name(ops.name[op.index()]);
        name.starts_with("ProfilerStep#")
    };
    let steps: Vec<OpIdx> = (0..ops.len()).map(OpIdx::new).filter(is_step).collect();
    let ends: Vec<TimeNs> = steps
        .iter()
        .map(|step| end_of_step(trace, *step, run))
        .collect();
    let middle = ends.len() / 2;
    let (first, last) = (ends.get(middle).context("no steps")?, ends[ends.len() - 1]);
    let count = ends.len() - 1 - middle;
    ensure!(count > 0, "only {} steps", ends.len());
    Ok((last - *first).0 as f64 / 1e6 / count as f64)
}

/// When the last node of a step's thread ends that is within the step.
fn end_of_step(trace: &LinkedTrace, step: OpIdx, run: Option<&ReplayRun>) -> TimeNs {
    let (ops, nodes) = (&trace.device.ops, &trace.nodes);
    let (begin, thread) = (ops.start[step.index()], ops.thread[step.index()]);
    let end = begin + ops.duration[step.index()];
    let is_inside = |node: &NodeIdx| {
        let own = nodes.get(*node);
        own.thread() == Some(thread) && begin <= own.start && nodes.end(*node) <= end
    };
    let inside = nodes.indices().filter(is_inside);
    let ends = inside.map(|node| match run {
        Some(run) => run.end(node),
        None => nodes.end(node),
    });
    ends.max().unwrap_or(end)
}
