//! `etlink scale`: makes a run of more ranks from a written one.

use super::print_report;
use crate::Outcome;
use crate::args::ScaleArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::notes;
use crate::written_files::describe_workload;
use anyhow::Result;
use etlink_run::workloads::{WorkloadReport, scale_run};
use serde::Serialize;

/// Report of the scaled run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ScaledRun(WorkloadReport);

impl JsonReport for ScaledRun {
    const SCHEMA: &'static str = "etlink.scale";
}

pub fn run(args: &ScaleArgs) -> Result<Outcome> {
    let overwrite = args.overwrite.overwrite;
    let report = scale_run(&args.source, &args.options(), &args.output, overwrite)?;
    notes::print(&report.diagnostics);
    if args.print.json {
        print_json_report(&ScaledRun(report))?;
    } else {
        print_report(&describe_workload(&report))?;
    }
    Ok(Outcome::Done)
}
