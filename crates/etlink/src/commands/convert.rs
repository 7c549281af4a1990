//! `etlink convert`: writes a graph in another format.

use super::print_report;
use crate::Outcome;
use crate::args::ConvertArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::notes;
use crate::table::count;
use anyhow::Result;
use etlink_model::diagnostic;
use etlink_run::RunError;
use etlink_run::anonymous::{AnonymousCopy, copy_anonymously};
use etlink_run::convert::{ConvertReport, convert};
use std::path::Path;

impl JsonReport for ConvertReport {
    const SCHEMA: &'static str = "etlink.convert";
}

impl JsonReport for AnonymousCopy {
    const SCHEMA: &'static str = "etlink.anonymous";
}

pub fn run(args: ConvertArgs) -> Result<Outcome> {
    let output = args.output();
    if args.anonymise {
        let copy = copy_anonymously(&args.input, &output)?;
        if args.print.json {
            print_json_report(&copy)?;
        } else {
            print_report(&describe_copy(&copy))?;
        }
        return Ok(if copy.is_partial {
            Outcome::Found
        } else {
            Outcome::Done
        });
    }
    let report = match convert(&args.input, &output, &args.options()) {
        Err(error @ RunError::Lossy { .. }) => {
            notes::print_message(format_args!("{}: {error}", args.input.display()));
            return Ok(Outcome::Found);
        }
        other => other?,
    };
    notes::print(&report.diagnostics);
    for (kind, count) in report.losses.iter() {
        notes::print([&diagnostic!(
            ConversionLoss,
            "not in the output: {}: {count}",
            kind.describe()
        )]);
    }
    // standard output may be the converted graph
    if output == Path::new("-") {
        return Ok(Outcome::Done);
    }
    if args.print.json {
        print_json_report(&report)?;
    } else {
        print_report(&describe(&report))?;
    }
    Ok(Outcome::Done)
}

fn describe_copy(copy: &AnonymousCopy) -> String {
    let mut text = format!(
        "{}: {}, {} replaced\n",
        copy.output.display(),
        count(copy.files.len() as u64, "trace"),
        count(copy.replaced as u64, "text")
    );
    if !copy.left_out.is_empty() {
        text += &format!("fields left out: {}\n", copy.left_out.join(", "));
    }
    for file in &copy.not_copied {
        text += &format!("not copied: {file}\n");
    }
    text
}

fn describe(report: &ConvertReport) -> String {
    let ranks = match report.ranks {
        1 => String::new(),
        ranks => format!(" of {ranks} ranks"),
    };
    format!(
        "{} ({}) -> {} ({}): {}{ranks}, {} bytes\n",
        report.input.display(),
        report.from.describe(),
        report.output.display(),
        report.to.describe(),
        count(report.nodes, "node"),
        report.bytes
    )
}
