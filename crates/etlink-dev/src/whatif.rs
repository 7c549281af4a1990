//! Measures the quality of what-if answers: programs that are run again with a change, and steps of
//! a trace that predict each other.

use crate::support::read_trace_text;
use anyhow::{Context, Result, ensure};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_replay::{
    AnswerRange, CrossStepFigures, ReplaySettings, ShareSpread, StepPrediction, answer_range,
    cross_step_figures, graph_from_trace, run_graph, work_makespan,
};
use etlink_testing::{
    Machine, MachineChange, MachineInstruction, MachineOptions, mechanisms, random_program,
};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct WhatIfOptions {
    /// Predict the steps of these Kineto traces from each other instead
    #[arg(long, value_name = "KINETO", num_args = 1..)]
    cross_step: Vec<PathBuf>,
    /// Number of random programs
    #[arg(long, value_name = "N", default_value_t = 200)]
    programs: u64,
    /// Seed of the first random program
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    seed: u64,
}

pub fn test_whatif(options: &WhatIfOptions) -> Result<()> {
    if !options.cross_step.is_empty() {
        return compare_steps(&options.cross_step);
    }
    let wrong = compare_mechanisms()?;
    let mut is_within = true;
    for sync_rows in [true, false] {
        is_within &= compare_programs(options, sync_rows)?;
    }
    ensure!(wrong == 0, "{wrong} mechanisms are beyond their bars");
    ensure!(is_within, "random programs are beyond their bars");
    Ok(())
}

/// Maximum error of a mechanism, relative to the true change; an error up to a latency also passes.
const MECHANISM_SHARE: f64 = 0.05;
const MECHANISM_NS: i64 = 3_000;
/// Maximum median error of random programs, relative to the true time.
const RANDOM_MEDIAN: f64 = 0.002;
const RANDOM_P95: f64 = 0.015;
/// Minimum share of random programs with the truth inside the predicted range.
const RANDOM_COVERED: f64 = 0.95;

/// Result of a change, ns.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    before: i64,
    truth: i64,
    predicted: i64,
    range: AnswerRange,
}

impl Outcome {
    fn change(&self) -> i64 {
        self.truth - self.before
    }

    fn is_covered(&self) -> bool {
        (self.range.least_change_ns..=self.range.most_change_ns).contains(&self.change())
    }

    /// Returns the width of the predicted range, relative to the true change.
    fn width(&self) -> f64 {
        let width = self.range.most_change_ns - self.range.least_change_ns;
        width as f64 / self.change().abs().max(1_000) as f64
    }
}

/// Runs a program unchanged and changed, and predicts the second from the trace of the first.
fn predict_change(
    program: &[MachineInstruction],
    options: MachineOptions,
    change: MachineChange,
) -> Result<Outcome> {
    let recorded = Machine::run(program, options, MachineChange::None);
    let trace = link_text(&recorded.trace.kineto())?;
    let graph = graph_from_trace(&trace)?;
    let mut scales = vec![];
    for rule in change.rules() {
        scales.push(rule.parse()?);
    }
    let settings = ReplaySettings {
        scales,
        ..ReplaySettings::default()
    };
    let plain = run_graph(&graph, &trace, &ReplaySettings::default());
    let run = run_graph(&graph, &trace, &settings);
    Ok(Outcome {
        before: recorded.makespan,
        truth: Machine::run(program, options, change).makespan,
        predicted: work_makespan(&graph, &run).0,
        range: answer_range(&graph, &trace, &settings, (&plain, &run), &|_| None),
    })
}

fn link_text(text: &[u8]) -> Result<LinkedTrace> {
    let options = etlink_kineto::KinetoReadOptions::default();
    let device = etlink_kineto::read(text, options)?;
    Ok(etlink_link::link(None, device, LinkOptions::default())?)
}

/// Prints a line per mechanism. Returns the number of mechanisms beyond the bars.
fn compare_mechanisms() -> Result<usize> {
    println!(
        "{:36} {:>9} {:>11} {:>11} {:>8}",
        "mechanism", "cuda_sync", "truth", "predicted", "error"
    );
    let (mut wrong, mut errors) = (0, vec![]);
    for mechanism in mechanisms() {
        let options = mechanism.options;
        let outcome = predict_change(&mechanism.program, options, mechanism.change)?;
        let (truth, predicted) = (
            outcome.truth - outcome.before,
            outcome.predicted - outcome.before,
        );
        let off = (predicted - truth).abs();
        let error = off as f64 / truth.abs().max(1) as f64;
        let is_wrong = off > MECHANISM_NS && error > MECHANISM_SHARE;
        wrong += usize::from(is_wrong);
        errors.push(error);
        println!(
            "{:36} {:>9} {:>8} us {:>8} us {:>8}{}",
            mechanism.name,
            if options.sync_rows { "rows" } else { "no rows" },
            micros_text(truth),
            micros_text(predicted),
            percent_text(error),
            if is_wrong { "  WRONG" } else { "" }
        );
    }
    print_spread(
        "mechanisms, of the true change",
        &ShareSpread::from_errors(errors),
    );
    Ok(wrong)
}

/// Prints how well random programs are predicted, with or without `cuda_sync` rows. Returns true if
/// they are within their bars.
fn compare_programs(options: &WhatIfOptions, sync_rows: bool) -> Result<bool> {
    let (mut errors, mut unchanged, mut widths) = (vec![], vec![], vec![]);
    let mut covered = 0;
    for seed in options.seed..options.seed + options.programs {
        let (program, machine, change) = random_program(seed);
        let machine = MachineOptions {
            sync_rows,
            ..machine
        };
        let outcome = predict_change(&program, machine, change)?;
        let share =
            |predicted: i64| (predicted - outcome.truth).abs() as f64 / outcome.truth.max(1) as f64;
        errors.push(share(outcome.predicted));
        unchanged.push(share(outcome.before));
        widths.push(outcome.width());
        covered += u64::from(outcome.is_covered());
        if share(outcome.predicted) > RANDOM_P95 || !outcome.is_covered() {
            println!("seed {seed}: {change:?}, {machine:?}: {outcome:?}");
        }
    }
    let rows = if sync_rows { "with" } else { "without" };
    let name = format!("{} random programs {rows} sync rows", options.programs);
    let spread = ShareSpread::from_errors(errors);
    print_spread(&format!("{name}, of the true time"), &spread);
    print_spread(
        "  had nothing changed",
        &ShareSpread::from_errors(unchanged),
    );
    let share = covered as f64 / options.programs.max(1) as f64;
    let width = ShareSpread::from_errors(widths);
    print_spread("  width of the range, of the true change", &width);
    println!("  range holds the truth: {}", percent_text(share));
    let is_predicted = spread.median <= RANDOM_MEDIAN && spread.p95 <= RANDOM_P95;
    Ok(is_predicted && share >= RANDOM_COVERED)
}

fn print_spread(name: &str, spread: &ShareSpread) {
    println!(
        "{name}: median {}, p95 {}, largest {}",
        percent_text(spread.median),
        percent_text(spread.p95),
        percent_text(spread.max)
    );
}

fn micros_text(time_ns: i64) -> String {
    format!("{:.1}", time_ns as f64 / 1e3)
}

fn percent_text(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Prints how well the steps of each trace predict each other.
fn compare_steps(files: &[PathBuf]) -> Result<()> {
    println!(
        "{:40} {:>5} {:>9} {:>27} {:>27}",
        "", "", "", "error: median, p95, largest", "as long as the other step"
    );
    println!("{:40} {:>5} {:>9}", "trace", "steps", "aligned");
    for file in files {
        let name = trace_name(file);
        match steps_of(file) {
            Ok(Some(figures)) => print_steps(&name, &figures),
            Ok(None) => println!("{name:40} no three steps that do the same"),
            Err(error) => println!("{name:40} {error:#}"),
        }
    }
    Ok(())
}

fn steps_of(file: &Path) -> Result<Option<CrossStepFigures>> {
    let trace = link_text(&read_trace_text(file)?)?;
    let graph = graph_from_trace(&trace).context("no graph")?;
    Ok(cross_step_figures(&trace, &graph, usize::MAX))
}

/// Returns the end of the path: many traces share a name in different folders.
fn trace_name(file: &Path) -> String {
    let parent = file.parent().and_then(Path::file_name).unwrap_or_default();
    let name = file.file_name().unwrap_or_default();
    Path::new(parent).join(name).display().to_string()
}

fn print_steps(name: &str, figures: &CrossStepFigures) {
    println!(
        "{name:40} {:>5} {:>9} {:>27} {:>27}",
        figures.steps,
        format!("{}/{}", figures.aligned, figures.pairs),
        spread_text(&figures.error),
        spread_text(&figures.unchanged_error)
    );
    if let Some(worst) = figures
        .worst
        .as_ref()
        .filter(|worst| worst.error() > RANDOM_MEDIAN)
    {
        print_worst(worst);
    }
}

fn spread_text(spread: &ShareSpread) -> String {
    let percents = [spread.median, spread.p95, spread.max].map(percent_text);
    percents.join(" ")
}

fn print_worst(worst: &StepPrediction) {
    println!(
        "    {} by the graph of {}: {} us, measured {} us",
        worst.step,
        worst.graph_of,
        micros_text(worst.predicted_ns.0),
        micros_text(worst.measured_ns.0)
    );
    for deviation in &worst.deviations {
        let edge = deviation.edge.map_or("no edge", |edge| edge.name());
        let from = deviation.from.as_ref();
        println!(
            "      {:>9} us  {edge} to {:?} on {}, from {:?}",
            micros_text(deviation.ns),
            deviation.label.name.chars().take(60).collect::<String>(),
            deviation.label.place,
            from.map_or("", |from| &from.name)
                .chars()
                .take(60)
                .collect::<String>(),
        );
    }
}
