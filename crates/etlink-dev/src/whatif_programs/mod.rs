//! Asks what-if questions about real programs: each is recorded unchanged and changed, and the
//! second recording is predicted from the traces of the first.
//!
//! Only the later half of the steps counts: queues that were full when the recording began hide the
//! effect of a change for some steps.

mod experiments;
mod recorded;

use anyhow::{Result, ensure};
use experiments::{EXPERIMENTS, Experiment};
use recorded::RecordedProgram;
use std::path::PathBuf;

/// `cargo dev whatif-programs`.
#[derive(Debug, clap::Args)]
pub struct WhatIfProgramOptions {
    /// Python with PyTorch
    #[arg(long, default_value = "target/testdata-venvs/2.15.0/bin/python")]
    python: PathBuf,
    /// Recordings of each program; the median counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Only experiments whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// Limits of the mean and worst error of a step's duration.
const MEAN: f64 = 0.033;
const WORST: f64 = 0.10;

/// Records and predicts all experiments, and prints the table of errors.
pub fn test_programs(options: &WhatIfProgramOptions) -> Result<()> {
    println!(
        "{:<40} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8}",
        "step, ms", "before", "after", "predicted", "error", "sum", "path"
    );
    let mut errors = vec![];
    for experiment in &EXPERIMENTS {
        if experiment.name.contains(&options.only) {
            errors.push(run_experiment(options, experiment)?.abs());
        }
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

/// Prints a line of the table, and returns the error relative to the truth.
fn run_experiment(options: &WhatIfProgramOptions, experiment: &Experiment) -> Result<f64> {
    let mut runs = vec![];
    for _ in 0..options.repeat.max(1) {
        runs.push(predict_experiment(options, experiment)?);
    }
    let before = median(&runs, |run| run.before);
    let after = median(&runs, |run| run.after);
    let predicted = median(&runs, |run| run.predicted);
    let share_off = |length: f64| length / after - 1.0;
    let error = share_off(predicted);
    let sum = share_off(median(&runs, |run| run.sum));
    let path = share_off(median(&runs, |run| run.path));
    println!(
        "{:<40} {before:>8.1} {after:>8.1} {predicted:>9.1} {:>+7.1}% {:>+7.1}% {:>+7.1}%",
        experiment.name,
        error * 100.0,
        sum * 100.0,
        path * 100.0
    );
    Ok(error)
}

/// Durations of a step, ms.
struct StepPrediction {
    before: f64,
    after: f64,
    predicted: f64,
    /// Naive prediction: the step grows by the change of the op's total time.
    sum: f64,
    /// Naive prediction: the step grows by the change of the op's time on the critical path.
    path: f64,
}

fn median(runs: &[StepPrediction], value: impl Fn(&StepPrediction) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn predict_experiment(
    options: &WhatIfProgramOptions,
    experiment: &Experiment,
) -> Result<StepPrediction> {
    let record = |parts| RecordedProgram::record(&options.python, experiment, parts);
    let program = record(experiment.before)?;
    let plain = program.replay(&["--critical-path".to_owned()])?;
    let before = plain.mean_step()?;
    let predicted = program.replay(&experiment.question.arguments())?;
    let (op, factor, rank) = experiment.question.changed_op();
    let change_per_ms = (factor - 1.0) / recorded::ACTIVE as f64;
    // The second recording reuses the folder of the first.
    let sum = before + program.op_ms(op, rank.unwrap_or(0))? * change_per_ms;
    let path = before + plain.path_ms(op, rank) * change_per_ms;
    Ok(StepPrediction {
        before,
        after: record(experiment.after)?.replay(&[])?.mean_step()?,
        predicted: predicted.mean_step()?,
        sum,
        path,
    })
}
