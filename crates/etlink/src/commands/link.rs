//! `etlink link`.

use super::{print, print_json, threads};
use crate::args::Link;
use crate::output::Target;
use crate::pair::{self, Job};
use crate::progress::Progress;
use crate::{Outcome, table};
use anyhow::{Result, bail};
use std::path::Path;

pub fn run(args: Link) -> Result<Outcome> {
    let how = args.how;
    if args.host.as_deref() == Some(Path::new("-")) && args.device == Path::new("-") {
        bail!("--host and --device cannot both be standard input");
    }
    let target = match &args.output {
        Some(path) => Some(Target::new(path, how.format, how.force)?),
        None => None,
    };
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let job =
        Job { host: args.host, device: args.device, rank: args.rank, target, threads: threads(how.threads)?, strict: how.strict, force: how.force };
    let progress = Progress::new();
    let linked = pair::run(&job, &progress);
    progress.clear();
    let linked = linked?;
    if to_stdout {
        // the graph has standard output for itself
    } else if how.json {
        print_json(&linked)?;
    } else {
        print(&table::linked(&linked))?;
    }
    if linked.refused {
        eprintln!("etlink: damage was found and --strict given: nothing was written");
        return Ok(Outcome::Found);
    }
    Ok(Outcome::Done)
}
