//! `etlink convert`: writes a graph in another format.

use super::print_report;
use crate::Outcome;
use crate::args::ConvertArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::notes;
use anyhow::Result;
use etlink_run::RunError;
use etlink_run::convert::{ConvertReport, convert};
use std::path::Path;

impl JsonReport for ConvertReport {
    const SCHEMA: &'static str = "etlink.convert";
}

pub fn run(args: ConvertArgs) -> Result<Outcome> {
    let report = match convert(&args.input, &args.output, &args.options()) {
        Err(error @ RunError::Lossy { .. }) => {
            notes::print_message(format_args!("{}: {error}", args.input.display()));
            return Ok(Outcome::Found);
        }
        other => other?,
    };
    for note in &report.notes {
        notes::print_note(note);
    }
    for (kind, count) in report.losses.iter() {
        notes::print_note(&format!("not in the output: {}: {count}", kind.describe()));
    }
    // standard output may be the converted graph
    if args.output == Path::new("-") {
        return Ok(Outcome::Done);
    }
    if args.print.json {
        print_json_report(&report)?;
    } else {
        print_report(&describe(&report))?;
    }
    Ok(Outcome::Done)
}

fn describe(report: &ConvertReport) -> String {
    let ranks = match report.ranks {
        1 => String::new(),
        ranks => format!(" of {ranks} ranks"),
    };
    format!(
        "{} ({}) -> {} ({}): {} nodes{ranks}, {} bytes\n",
        report.input.display(),
        report.from.describe(),
        report.output.display(),
        report.to.describe(),
        report.nodes,
        report.bytes
    )
}
