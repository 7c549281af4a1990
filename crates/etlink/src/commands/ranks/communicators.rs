//! `etlink ranks` for logs of NCCL's inspector: sizes, times, and bandwidths per communicator.

use super::show::rate_text;
use crate::commands::{ReportForm, print_report, print_text};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::table::{Column, CsvTable, Grid, Limit, count, known, plain, time};
use crate::{Outcome, notes};
use anyhow::Result;
use etlink_analysis::communicators::{
    CommunicatorMember, CommunicatorReport, CommunicatorSize, communicator_report,
};
use etlink_formats::nccl_inspector::{InspectorLog, TimingSource};
use etlink_model::{Diagnostic, Severity, diagnostic};
use etlink_run::RunError;
use etlink_run::inspector::{find_logs, read_log};
use etlink_run::membership::Excluded;
use etlink_run::run::RunOptions;
use serde::Serialize;
use std::path::Path;

/// Summary of the logs of a folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FolderCommunicators {
    /// Notes about the files and their content.
    diagnostics: Vec<Diagnostic>,
    /// Logs that could not be read.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    report: CommunicatorReport,
}

impl JsonReport for RunReports<FolderCommunicators> {
    const SCHEMA: &'static str = "etlink.communicators";
}

/// Reads the logs in `folder` and summarizes them.
pub(super) fn run(
    folder: &Path,
    options: &RunOptions,
    form: ReportForm,
    rows: usize,
) -> Result<Outcome> {
    let (mut logs, mut excluded, mut errors) = (vec![], vec![], vec![]);
    let (paths, mut notes) = find_logs(folder)?;
    for path in paths {
        let name = path.display().to_string();
        match read_checked(&path, options) {
            Ok(log) => {
                let damage = log.anomalies.diagnostics(Severity::Damage);
                notes.extend(damage.map(|damage| damage.of_file(&name)));
                logs.push(log);
            }
            Err(error) => {
                excluded.push(Excluded::from_error(&name, &error));
                errors.push(error);
            }
        }
    }
    if logs.is_empty() {
        return Err(RunError::no_trace_taken(errors).into());
    }
    let report = communicator_report(&logs);
    if report
        .sizes
        .iter()
        .any(|size| size.timing != TimingSource::KernelGpu)
    {
        notes.push(diagnostic!(
            TimesUncertain,
            "some collectives were timed on the host or by an unknown clock: their times include \
             launches and callbacks"
        ));
    }
    let found = FolderCommunicators {
        diagnostics: notes,
        excluded,
        report,
    };
    let told = found.excluded.iter().map(Excluded::diagnostic);
    let told: Vec<Diagnostic> = found.diagnostics.iter().cloned().chain(told).collect();
    let is_whole = found.excluded.is_empty();
    match form {
        ReportForm::Json => print_json_report(&RunReports { runs: vec![found] })?,
        ReportForm::Csv => {
            notes::print(&told);
            print_text(&sizes_csv(&found.report)?)?;
        }
        ReportForm::Text => {
            notes::print(&told);
            print_report(&report_text(&found.report, rows))?;
        }
    }
    Ok(Outcome::done_if(is_whole))
}

fn read_checked(path: &Path, options: &RunOptions) -> Result<InspectorLog, RunError> {
    options.cancellation.check()?;
    let log = read_log(path, &options.progress)?;
    if options.strict && log.anomalies.any(Severity::Damage) {
        return Err(RunError::refused_trace(path, &log.anomalies));
    }
    Ok(log)
}

/// Formats a CSV line per kind and size of each communicator.
fn sizes_csv(report: &CommunicatorReport) -> Result<String> {
    let head = "communicator,name,ranks,nodes,kind,bytes,times,logged_ranks,mean_transfer_ns,\
                max_transfer_ns,mean_skew_ns,algorithm_bandwidth,bus_bandwidth,timing";
    let mut out = CsvTable::new(head.split(','))?;
    for size in &report.sizes {
        out.add_record(&[], size)?;
    }
    out.finish()
}

fn report_text(report: &CommunicatorReport, rows: usize) -> String {
    let times = report.sizes.iter().map(|size| size.times);
    let all = times.fold(0, u64::saturating_add);
    let processes = match report.processes {
        1 => "1 process".to_owned(),
        several => format!("{several} processes"),
    };
    let collectives = match all {
        1 => "1 collective or message".to_owned(),
        several => format!("{several} collectives and messages"),
    };
    let mut out = format!("NCCL's inspector in {processes}, {collectives}\n");
    out += &size_table(&report.sizes, rows);
    out += &member_table(&report.members, rows);
    out
}

/// Names a communicator: `0x7f8c DP`. Several communicators can share a name.
fn communicator_name(id: &str, name: &str) -> String {
    plain(format!("{id} {name}").trim_end()).into_owned()
}

fn size_table(sizes: &[CommunicatorSize], rows: usize) -> String {
    let mut order: Vec<&CommunicatorSize> = sizes.iter().collect();
    // most time first; a stable sort keeps ties in order of communicator, kind, and size
    order.sort_by_key(|size| {
        let times = i64::try_from(size.times).unwrap_or(i64::MAX);
        std::cmp::Reverse(size.mean_transfer_ns.saturating_mul(times))
    });
    let columns: &[Column<&CommunicatorSize>] = &[
        ("communicator", |size| {
            communicator_name(&size.communicator, &size.name)
        }),
        ("ranks", |size| size.ranks.to_string()),
        ("kind", |size| size.kind.to_owned()),
        ("bytes", |size| size.bytes.to_string()),
        ("times", |size| size.times.to_string()),
        ("mean skew", |size| known(size.mean_skew_ns, time)),
        ("mean transfer", |size| time(size.mean_transfer_ns)),
        ("algbw GB/s", |size| rate_text(size.algorithm_bandwidth)),
        ("busbw GB/s", |size| rate_text(size.bus_bandwidth)),
    ];
    let table = Grid::from_records(2, Limit::rows(rows), columns, order.into_iter())
        .text_columns(|head| matches!(head, "communicator" | "kind"))
        .expendable(["ranks"])
        .decisive(["mean transfer", "busbw GB/s"]);
    format!(
        "per communicator, kind and size, by total time (bytes: per rank; transfer: time of the \
         last rank to arrive, the shortest; algbw, busbw: as in nccl-tests)\n{table}"
    )
}

fn member_table(members: &[CommunicatorMember], rows: usize) -> String {
    let mut order: Vec<&CommunicatorMember> =
        members.iter().filter(|one| one.collectives > 0).collect();
    if order.is_empty() {
        let ranks = count(members.len() as u64, "rank");
        return format!(
            "no collective has logs of several ranks ({ranks}), so the last rank is unknown\n"
        );
    }
    order.sort_by_key(|one| std::cmp::Reverse((one.last, one.collectives)));
    let columns: &[Column<&CommunicatorMember>] = &[
        ("communicator", |one| {
            communicator_name(&one.communicator, &one.name)
        }),
        ("rank", |one| one.rank.to_string()),
        ("process", |one| {
            plain(&format!("{} {}", one.host, one.pid)).into_owned()
        }),
        ("collectives", |one| one.collectives.to_string()),
        ("comes last", |one| one.last.to_string()),
        ("waits", |one| time(one.waited_ns)),
    ];
    let table = Grid::from_records(2, Limit::rows(rows), columns, order.into_iter())
        .text_columns(|head| matches!(head, "communicator" | "process"))
        .expendable(["collectives", "process"])
        .decisive(["comes last", "waits"]);
    format!("per rank of a communicator (comes last: shortest time)\n{table}")
}
