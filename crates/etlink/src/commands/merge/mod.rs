//! `etlink merge`: every rank of a folder, one output each or one of all, joined with the others.

mod show;

use super::{json_document, print_text, print_unused_files};
use crate::Outcome;
use crate::args::{Compute, FormatName, MergeArgs};
use anyhow::{Result, bail};
use etlink_chakra::TracePart;
use etlink_run::merge::{AstraSimOptions, MergeOptions, merge};
use etlink_run::output;
use etlink_run::run::{RunOptions, RunSet, RunSource};

pub fn run(args: MergeArgs) -> Result<Outcome> {
    let how = &args.how;
    let format = how.output_format().unwrap_or(output::OutputFormat::Chakra);
    let chakra = how.chakra_options(Some(format))?.with(trace_part(&args));
    if args.simulator.is_some() && !matches!(how.format, None | Some(FormatName::Chakra)) {
        // the library refuses it too, but not by the names of the options
        bail!("--for astra-sim writes .et files: leave --format out");
    }
    let progress = crate::progress::progress_bar();
    let run_options = RunOptions {
        tensor_deps: how.tensor_deps.into(),
        align: !args.no_align,
        // graphs that an earlier merge wrote have no events to be joined by
        traces_only: true,
        progress: progress.clone(),
        ..how.reading.run_options(Some(&args.choice))?
    };
    let runs = RunSet::open(RunSource::Folder(args.dir.clone()), run_options)?;
    let simulator = args.simulator.map(|_| AstraSimOptions {
        roofline: args.compute == Compute::Roofline,
    });
    let options = MergeOptions {
        format,
        chakra,
        simulator,
        overwrite: how.overwrite.overwrite,
    };
    let report = merge(&runs, &args.output, &options);
    progress.finish();
    let report = report?;
    print_unused_files(&runs);
    // what failed is printed before why nothing was replaced
    let printed = if how.print.json {
        json_document("etlink.merge", &report).and_then(|text| print_text(&text))
    } else {
        print_text(&show::merge_summary(
            &runs.runs,
            &report.ranks,
            &report.runs,
        ))
    };
    let is_complete = report.is_complete(&options);
    let is_empty = report.ranks.iter().all(|rank| rank.linked.is_none());
    if let Some(incomplete) = report.incomplete {
        return Err(incomplete.into());
    }
    printed?;
    Ok(match (is_complete, is_empty) {
        // of no rank there is anything: more than a finding
        (_, true) => Outcome::Nothing,
        (true, false) => Outcome::Done,
        (false, false) => Outcome::Found,
    })
}

/// Which part of each rank is written.
fn trace_part(args: &MergeArgs) -> TracePart {
    match (args.device_only, args.comm_only) {
        (true, _) => TracePart::Device,
        (_, true) => TracePart::Communication,
        _ => TracePart::Whole,
    }
}
