//! `etlink merge`: every rank of a folder, one output each or one of all, joined with the others.

mod show;

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::{Compute, Format, Merge};
use anyhow::{Result, bail};
use etlink_chakra::TracePart;
use etlink_run::merge::{AstraSimOptions, MergeOptions, merge};
use etlink_run::output;
use etlink_run::run::{RunOptions, RunSet, RunSource};

pub fn run(args: Merge) -> Result<Outcome> {
    let how = &args.how;
    let format = how.output_format().unwrap_or(output::Format::Et);
    let chakra = how.form(Some(format))?.with(part(&args));
    if args.simulator.is_some() && !matches!(how.format, None | Some(Format::Et)) {
        bail!("--for astra-sim writes .et files: leave --format out");
    }
    let progress = crate::progress::bar();
    let run_options = RunOptions {
        threads: threads(how.threads)?,
        memory: how.memory.map(|memory| memory.as_u64()),
        tensor_deps: how.tensor_deps.into(),
        strict: how.strict,
        allow_mismatch: how.force,
        align: !args.no_align,
        traces_only: true,
        progress: progress.clone(),
        ..RunOptions::default()
    };
    let runs = RunSet::open(RunSource::Folder(args.dir.clone()), run_options)?;
    let simulator = args.simulator.map(|_| AstraSimOptions {
        roofline: args.compute == Compute::Roofline,
    });
    let options = MergeOptions {
        format,
        chakra,
        simulator,
        overwrite: how.force,
    };
    let report = merge(&runs, &args.output, &options);
    progress.finish();
    let report = report?;
    // what failed is printed before why nothing was replaced
    let printed = if how.json {
        print_json(&report)
    } else {
        print(&show::summary(&runs.runs, &report.ranks, &report.runs))
    };
    let is_complete = report.is_complete(&options);
    if let Some(incomplete) = report.incomplete {
        return Err(incomplete.into());
    }
    printed?;
    Ok(if is_complete {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// Which part of each rank is written.
fn part(args: &Merge) -> TracePart {
    match (args.device_only, args.comm_only) {
        (true, _) => TracePart::Device,
        (_, true) => TracePart::Communication,
        _ => TracePart::Whole,
    }
}
