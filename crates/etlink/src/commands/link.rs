//! `etlink link`.

use super::{json_document, print, threads};
use crate::args::Link;
use crate::{Outcome, table};
use anyhow::{Result, bail};
use etlink_kineto::KeepEvents;
use etlink_run::job::{self, LinkJob};
use etlink_run::memory::{MemoryBudget, RankMemory};
use etlink_run::output::{Target, refuse_input};
use std::path::Path;

pub fn run(args: Link) -> Result<Outcome> {
    let json = args.how.print.json;
    let job = job(args)?;
    let to_stdout = job.target.as_ref().is_some_and(Target::is_stdout);
    let progress = crate::progress::bar();
    let linked = job::run(&job, &progress);
    progress.finish();
    let linked = linked?;
    let report = if json {
        json_document("etlink.link", &linked)?
    } else {
        table::linked(&linked)
    };
    if to_stdout {
        // the graph has standard output for itself
        eprint!("{report}");
    } else {
        print(&report)?;
    }
    if linked.refused {
        eprintln!("etlink: damage was found and --strict given: nothing was written");
        return Ok(Outcome::Found);
    }
    Ok(Outcome::Done)
}

/// Refuses what cannot work, before any work is done.
fn job(args: Link) -> Result<LinkJob> {
    let how = args.how;
    let inputs = || args.host.iter().chain([&args.device]).chain(&args.capture);
    if inputs()
        .filter(|path| path.as_path() == Path::new("-"))
        .count()
        > 1
    {
        bail!("only one of --host, --device and --capture can be standard input");
    }
    let target = match &args.output {
        Some(path) => Some(Target::new(
            path,
            how.output_format(),
            how.overwrite.overwrite,
        )?),
        None => None,
    };
    let form = how.form(target.as_ref().map(|target| target.format))?;
    if let Some(output) = &args.output {
        refuse_input(output, inputs())?;
    }
    let threads = threads(how.reading.resources.threads)?;
    MemoryBudget::new(how.reading.resources.memory, threads).check(&[RankMemory::of(
        args.host.as_deref(),
        Some(&args.device),
    )
    .and(args.capture.as_deref())])?;
    Ok(LinkJob {
        host: args.host,
        device: args.device,
        capture: args.capture,
        rank: args.rank,
        target,
        form,
        tensor_deps: how.tensor_deps.into(),
        keep: KeepEvents::Graph,
        threads,
        strict: how.reading.strict.strict,
        allow_mismatch: how.reading.mismatch.allow_mismatch,
    })
}
