//! `etlink merge`: joins the ranks of a folder, and writes one output per rank or one for all.

mod show;

use super::{print_report, print_run_files, print_text};
use crate::args::{Compute, MergeArgs, Simulator};
use crate::envelope::{JsonReport, json_text};
use crate::{Outcome, allocator};
use anyhow::{Result, bail};
use etlink_chakra::astra::NetworkBackend;
use etlink_chakra::{TracePart, WriteOptions};
use etlink_model::{DiagnosticCode, KeepEvents};
use etlink_run::memory::RankOperation;
use etlink_run::merge::{AstraSimOptions, MergeOptions, MergeReport, MergedRun, merge};
use etlink_run::output::OutputFormat;
use etlink_run::run::{RunOptions, RunSet, RunSource};
use etlink_run::shard::Shard;

impl JsonReport for MergeReport {
    const SCHEMA: &'static str = "etlink.merge";
}

fn merge_options(args: &MergeArgs) -> Result<MergeOptions> {
    let how = &args.how;
    let format = how.format.unwrap_or(OutputFormat::Chakra);
    if args.simulator.is_some() && !matches!(how.format, None | Some(OutputFormat::Chakra)) {
        // the library rejects this too, but without the names of the options
        bail!("--for astra-sim writes .et files; leave out --format");
    }
    if args.simulator.is_some() && how.dep_latencies {
        bail!("ASTRA-sim does not read latencies of dependencies; leave out --dep-latencies");
    }
    if args.pack.is_some() && format != OutputFormat::Chakra {
        bail!(
            "--pack applies only to .et files: merged JSON and timelines are already compressed with gzip"
        );
    }
    Ok(MergeOptions {
        format,
        chakra: WriteOptions {
            part: trace_part(args),
            ..how.chakra_options(Some(format))?
        },
        packing: args.pack.unwrap_or_default(),
        simulator: args.simulator.map(|simulator| AstraSimOptions {
            roofline: args.compute == Compute::Roofline,
            backend: network_backend(simulator),
        }),
        overwrite: how.overwrite.overwrite,
        timeline_name: None,
        shard: args.shard.unwrap_or(Shard::WHOLE),
    })
}

pub fn run(args: MergeArgs) -> Result<Outcome> {
    // as in `link`
    allocator::return_large_blocks();
    let progress = crate::progress::progress_bar();
    let (how, options) = (&args.how, merge_options(&args)?);
    // a view of all ranks leaves nothing out, and begins with its first event
    let (keep, work) = if options.is_timeline() {
        (KeepEvents::Everything, RankOperation::Timeline)
    } else {
        (KeepEvents::Graph, RankOperation::Write)
    };
    let run_options = RunOptions {
        tensor_deps: how.tensors.tensor_deps,
        no_align: args.no_align,
        // graphs written by an earlier merge have no events for a join
        traces_only: true,
        keep,
        work,
        progress: progress.clone(),
        prepare: args.prepare.shard,
        ..how.reading.run_options(Some(&args.choice))?
    };
    let json = how.print.json;
    // clap requires it, unless nothing is written
    let output = args.output.unwrap_or_default();
    let runs = RunSet::open(RunSource::Folder(args.dir), run_options)?;
    let report = merge(&runs, &output, &options);
    progress.finish();
    let mut report = report?;
    show::add_notes(&mut report, &output, &options);
    print_run_files(&runs);
    // print failures before the reason why nothing was replaced
    let printed = if json {
        json_text(&report).and_then(|text| print_text(&text))
    } else {
        let printed = print_report(&show::merge_summary(&report.ranks, &report.runs));
        show::print_run_notes(&report.runs);
        printed
    };
    // the files are written: no trace has the data that they lack
    let is_unknown = report.runs.iter().any(MergedRun::has_unrecorded);
    let mut all = runs.runs.iter();
    let are_apart = all.any(|run| DiagnosticCode::IterationsApart.is_in(&run.diagnostics));
    let is_refused = runs.options.strict && (is_unknown || are_apart);
    let is_complete = report.is_complete() && !is_refused;
    let is_empty = report.is_empty;
    if let Some(incomplete) = report.incomplete {
        return Err(incomplete.into());
    }
    printed?;
    Ok(match (is_complete, is_empty) {
        // no rank has any output: more severe than a finding
        (_, true) => Outcome::Nothing,
        (true, false) => Outcome::Done,
        (false, false) => Outcome::Found,
    })
}

/// Returns the part of each rank to write.
fn trace_part(args: &MergeArgs) -> TracePart {
    match (args.device_only, args.comm_only) {
        (true, _) => TracePart::Device,
        (_, true) => TracePart::Communication,
        _ => TracePart::Whole,
    }
}

fn network_backend(simulator: Simulator) -> NetworkBackend {
    match simulator {
        Simulator::AstraSim => NetworkBackend::Analytical,
        Simulator::AstraSimNs3 => NetworkBackend::Ns3,
        Simulator::AstraSimHtsim => NetworkBackend::Htsim,
    }
}
