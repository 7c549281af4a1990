//! `etlink generate`: makes a synthetic run.

use super::print_report;
use crate::Outcome;
use crate::args::GenerateArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::written_files::describe_workload;
use anyhow::{Result, bail};
use etlink_run::workloads::{WorkloadReport, write_generated};
use etlink_workload::generate::generate;
use serde::Serialize;

/// Report of the generated run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct GeneratedRun(WorkloadReport);

impl JsonReport for GeneratedRun {
    const SCHEMA: &'static str = "etlink.generate";
}

pub fn run(args: &GenerateArgs) -> Result<Outcome> {
    if let Some(option) = args.unused_option() {
        bail!(
            "{option} has no effect with `{}`; leave it out",
            args.name()
        );
    }
    let set = generate(&args.workload(), &args.sizes())?;
    let overwrite = args.overwrite.overwrite;
    let report = write_generated(&args.name(), &set, &args.output, overwrite)?;
    if args.print.json {
        print_json_report(&GeneratedRun(report))?;
    } else {
        print_report(&describe_workload(&report))?;
    }
    Ok(Outcome::Done)
}
