//! `etlink link`.

use super::{json_document, print_text};
use crate::args::LinkArgs;
use crate::{Outcome, table};
use anyhow::Result;
use etlink_run::job::{self, LinkJob};
use etlink_run::output::{Target, refuse_input};
use etlink_run::{Progress, RankTraces, Run, RunOptions, RunSource};

pub fn run(args: LinkArgs) -> Result<Outcome> {
    let json = args.how.print.json;
    let progress = crate::progress::progress_bar();
    let job = link_job(args, &progress)?;
    let to_stdout = job.target.as_ref().is_some_and(Target::is_stdout);
    let linked = job::run(&job, &progress);
    progress.finish();
    // only now: an error that is printed over the bar could not be read
    let linked = linked?;
    let report = if json {
        json_document("etlink.link", &linked)?
    } else {
        table::link_report(&linked)
    };
    if to_stdout {
        // the graph has standard output for itself
        eprint!("{report}");
    } else {
        print_text(&report)?;
    }
    // after the report, which says what is damaged
    if linked.refused {
        eprintln!("etlink: damage was found and --strict given: nothing was written");
        return Ok(Outcome::Found);
    }
    Ok(Outcome::Done)
}

/// Refuses what cannot work, before any work is done.
fn link_job(args: LinkArgs, progress: &Progress) -> Result<LinkJob> {
    let how = args.how;
    // the target first: what cannot be written is refused before anything is read
    let format = how.output_format();
    let target = match &args.output {
        Some(path) => Some(Target::new(path, format, how.overwrite.overwrite)?),
        None => None,
    };
    let form = how.chakra_options(target.as_ref().map(|target| target.format))?;
    let traces = RankTraces {
        host: args.host,
        device: args.device,
        capture: args.capture,
    };
    if let Some(output) = &args.output {
        refuse_input(output, traces.paths())?;
    }
    let options = RunOptions {
        rank: args.rank,
        tensor_deps: how.tensor_deps.into(),
        progress: progress.clone(),
        ..how.reading.run_options(None)?
    };
    let run = Run::open(RunSource::Rank(traces), options)?;
    let job = run.only_rank()?.job()?;
    Ok(LinkJob {
        target,
        form,
        ..job
    })
}
