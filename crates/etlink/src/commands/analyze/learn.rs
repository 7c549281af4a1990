//! `etlink learn`: collects times of ops on devices from recordings.

use super::ops::read_ops;
use super::print_report;
use crate::Outcome;
use crate::args::LearnArgs;
use crate::kernel_rules::read_rules;
use crate::learned_times::read_learned;
use crate::table::{self, count};
use anyhow::{Context, Result, bail};
use etlink_analysis::predict::{LearnedOp, LearnedTimes};
use etlink_analysis::{DevicePeaks, OpTotals, PeakTable, RankOps};
use etlink_run::output::{OutputFormat, Target};
use etlink_run::{RunOptions, RunSource};
use std::path::Path;

pub fn run(args: &LearnArgs) -> Result<Outcome> {
    args.reading.refuse_overhead()?;
    if !is_learned(&args.output) {
        bail!("-o {}: times of ops are a .etk", args.output.display());
    }
    let overwrite = args.overwrite.overwrite;
    let target = Target::new(&args.output, Some(OutputFormat::EtPlus), overwrite)?;
    let rules = read_rules(None)?.rules;
    let options = RunOptions {
        steps_by: args.steps.steps_by.clone(),
        progress: crate::progress::progress_bar(),
        ..args.reading.run_options(None)?
    };
    let mut times = LearnedTimes::default();
    for path in &args.paths {
        if is_learned(path) {
            times.merge(read_learned(path)?);
            continue;
        }
        let source = RunSource::from_path(path);
        let runs = read_ops(source, options.clone(), &rules, &PeakTable::default())?;
        let ranks = runs.iter().flat_map(|run| &run.ranks);
        for rank in ranks {
            add_rank(&mut times, &rank.said)
                .with_context(|| format!("{}: {}", path.display(), table::rank(&rank.label)))?;
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        times.add_sources([name.to_string_lossy().into_owned()]);
    }
    if times.is_empty() {
        bail!("no op with shapes and device time; record with record_shapes=True");
    }
    target.write(|out| out.write_all(times.to_text().as_bytes()))?;
    let ops = count(times.len() as u64, "op");
    print_report(&format!("{}: {ops}\n", args.output.display()))?;
    Ok(Outcome::Done)
}

fn is_learned(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "etk")
}

/// Adds the ops of a rank whose shapes are recorded.
fn add_rank(times: &mut LearnedTimes, ops: &RankOps) -> Result<()> {
    if ops.on_host {
        bail!("no work on a device");
    }
    let Some(peaks) = DevicePeaks::find(&ops.device, None) else {
        bail!(
            "the peaks of device {:?} are not known, by which times of other shapes are estimated",
            ops.device
        );
    };
    let device = peaks.name();
    let has_bus = |op: &OpTotals| op.kernel.contains("HtoD") || op.kernel.contains("DtoH");
    let known = ops.ops.iter();
    // copies from and to the host depend on the bus, not on the device; without shapes nothing tells
    // how much an op does
    let known = known.filter(|op| !op.op.is_empty() && op.bytes.is_some_and(|bytes| bytes > 0));
    let known = known.filter(|op| op.median_ns > 0 && !has_bus(op));
    known.for_each(|op| times.add(learned_op(op, &device)));
    Ok(())
}

fn learned_op(op: &OpTotals, device: &str) -> LearnedOp {
    let each = |all: Option<u64>| all.unwrap_or(0) / op.count.max(1);
    LearnedOp {
        device: device.to_owned(),
        formula: op
            .formula
            .map_or("none", |formula| formula.name())
            .to_owned(),
        dtype: LearnedOp::first_dtype(&op.types).to_owned(),
        op: op.op.clone(),
        shapes: LearnedOp::plain_lists(&op.shapes),
        strides: LearnedOp::plain_lists(&op.strides),
        operations: each(op.operations),
        bytes: each(op.bytes),
        count: op.count,
        ns: op.median_ns,
    }
}
