//! `etlink link`: links the traces of one rank.

use super::{note_idle_measurements, print_text};
use crate::args::LinkArgs;
use crate::envelope::{JsonReport, json_text};
use crate::serial_host::serial_host_note;
use crate::table::{fold_lines, plain_lines};
use crate::{Outcome, allocator, notes, table};
use anyhow::{Result, bail};
use etlink_chakra::WriteOptions;
use etlink_model::KeepEvents;
use etlink_run::input::{self, InputKind, WantedTrace};
use etlink_run::job::{JobReport, LinkJob, RankContext};
use etlink_run::memory::RankOperation;
use etlink_run::output::{Target, refuse_input};
use etlink_run::storage::{self, StoredKind};
use etlink_run::{CaptureFiles, Progress, RankTraces, Run, RunOptions, RunSource, is_folder};
use std::path::Path;

/// Traces to link, options, and the target.
struct LinkConfig {
    traces: RankTraces,
    options: RunOptions,
    /// Target file; `None` to print only the report.
    target: Option<Target>,
    chakra: WriteOptions<'static>,
    json: bool,
}

impl LinkConfig {
    /// Makes the configuration; rejects invalid arguments before any work is done.
    fn from_args(mut args: LinkArgs, progress: &Progress) -> Result<LinkConfig> {
        assign_paths(&mut args)?;
        let how = args.how;
        // the target first, so that an unwritable file is rejected before reading anything
        let target = match &args.output {
            Some(path) => {
                let overwrite = how.overwrite.overwrite;
                Some(Target::new(path, how.format, overwrite)?)
            }
            None => None,
        };
        let chakra = how.chakra_options(target.as_ref().map(|target| target.format))?;
        // clap requires a device trace, or paths, of which one is a device trace
        let device = args.device.unwrap_or_default();
        let traces = RankTraces {
            host: args.host,
            captures: CaptureFiles::of_trace(args.capture.as_deref(), &device)?,
            device,
            measurements: args.metrics.into_iter().collect(),
        };
        if let Some(output) = &args.output {
            refuse_input(output, traces.paths())?;
        }
        Ok(LinkConfig {
            traces,
            options: RunOptions {
                rank: args.rank,
                tensor_deps: how.tensors.tensor_deps,
                progress: progress.clone(),
                ..how.reading.run_options(None)?
            },
            target,
            chakra,
            json: how.print.json,
        })
    }
}

impl JsonReport for JobReport {
    const SCHEMA: &'static str = "etlink.link";
}

pub fn run(args: LinkArgs) -> Result<Outcome> {
    // most of the allocated memory stays in use until the file is written
    allocator::return_large_blocks();
    let progress = crate::progress::progress_bar();
    let config = LinkConfig::from_args(args, &progress)?;
    let json = config.json;
    let target = config.target.clone();
    let to_stdout = target.as_ref().is_some_and(Target::is_stdout);
    let linked = link_traces(config);
    progress.finish();
    // only after the progress bar is gone, or the error would be unreadable
    let linked = linked?;
    let report = if json {
        json_text(&linked)?
    } else {
        notes::print(&linked.report.diagnostics);
        fold_lines(&table::link_report(&linked)).into_owned()
    };
    if to_stdout {
        // standard output is reserved for the graph
        notes::print_on_stderr(&plain_lines(&report));
    } else {
        print_text(&report)?;
    }
    if let Some(note) = serial_host_note(std::iter::once((None, &linked))) {
        notes::print([&note]);
    }
    // after the report, which lists the damage
    if linked.refused {
        notes::print_message("nothing was written: the traces are damaged, and --strict was given");
        return Ok(Outcome::Found);
    }
    Ok(Outcome::Done)
}

fn link_traces(config: LinkConfig) -> Result<JobReport> {
    let mut options = config.options;
    let target = config.target.as_ref();
    if target.is_some_and(|target| target.format.for_perfetto().is_some()) {
        // an export leaves nothing out
        options.keep = KeepEvents::Everything;
        options.work = RankOperation::Timeline;
    } else if target.is_some() {
        options.work = RankOperation::Write;
    }
    let run = Run::open(RunSource::Rank(config.traces), options)?;
    note_idle_measurements(run.set());
    let rank = run.only_rank()?;
    let job = LinkJob {
        target: config.target,
        form: config.chakra,
        ..rank.job()?
    };
    Ok(rank.run_job(&job, RankContext::default())?)
}

/// Assigns the traces that were given without an option by their kinds.
fn assign_paths(args: &mut LinkArgs) -> Result<()> {
    for path in std::mem::take(&mut args.paths) {
        let name = path.display();
        if is_folder(&path) {
            bail!("{name} is a folder; use `etlink merge {name} -o DIR` to link all its ranks");
        }
        // a pipe can be read only once
        let data = storage::file_data(&path);
        if path == Path::new("-") || data.is_ok_and(|data| data.kind == StoredKind::Other) {
            bail!("{name}: give --device for a device trace, or --host for a host trace");
        }
        let kind = input::open(&path, &Progress::hidden())?.kind;
        let (option, given) = match kind {
            InputKind::HostTrace => ("host", &mut args.host),
            kind if kind.is_device_trace() => ("device", &mut args.device),
            kind => return Err(WantedTrace::Device.refuse(&name.to_string(), kind).into()),
        };
        if let Some(other) = given {
            let other = other.display();
            bail!("{name} and {other} are both a {option} trace; give one of each rank's two");
        }
        *given = Some(path);
    }
    if args.device.is_none()
        && let Some(host) = &args.host
    {
        let host = host.display();
        bail!("{host} is a host trace; give the device trace of the rank, too");
    }
    Ok(())
}
