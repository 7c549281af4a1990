//! `etlink generate`: a run that nobody recorded.

use super::{print_document, print_report};
use crate::Outcome;
use crate::args::GenerateArgs;
use crate::written_files::describe_workload;
use anyhow::{Result, bail};
use etlink_run::workloads::generate_run;

pub fn run(args: &GenerateArgs) -> Result<Outcome> {
    if let Some(option) = args.unused_option() {
        bail!("{option} does nothing with `{}`: leave it out", args.name());
    }
    let (pattern, sizes) = (args.workload(), args.sizes());
    let overwrite = args.overwrite.overwrite;
    let report = generate_run(&args.name(), &pattern, &sizes, &args.output, overwrite)?;
    if args.print.json {
        print_document("etlink.generate", &report)?;
    } else {
        print_report(&describe_workload(&report))?;
    }
    Ok(Outcome::Done)
}
