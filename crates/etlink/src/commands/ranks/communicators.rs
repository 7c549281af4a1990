//! `etlink ranks` for logs of NCCL's inspector: sizes, times, and bandwidths per communicator.

use crate::commands::{ReportForm, print_report, print_text};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::table::{CsvTable, Grid, Limit, count, plain, time};
use crate::{Outcome, notes};
use anyhow::Result;
use etlink_analyze::communicators::{
    CommunicatorMember, CommunicatorReport, CommunicatorSize, communicator_report,
};
use etlink_model::Severity;
use etlink_nccl_inspector::{InspectorLog, TimingSource};
use etlink_run::inspector::{find_logs, read_log};
use etlink_run::membership::Excluded;
use etlink_run::run::RunOptions;
use etlink_run::{RunError, text};
use serde::Serialize;
use std::path::Path;

/// Summary of the logs of a folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FolderCommunicators {
    /// Notes about the files and their content.
    notes: Vec<String>,
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
    let (mut logs, mut notes, mut excluded, mut errors) = (vec![], vec![], vec![], vec![]);
    let found = find_logs(folder)?;
    notes.extend(found.notes);
    for path in found.logs {
        let name = path.display().to_string();
        match read_checked(&path, options) {
            Ok(log) => {
                let damage = text::damage(&log.anomalies);
                notes.extend(damage.map(|damage| format!("{name}: {damage}")));
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
        notes.push(
            "some collectives were timed on the host or by an unknown clock: their times include \
             launches and callbacks"
                .to_owned(),
        );
    }
    let found = FolderCommunicators {
        notes,
        excluded,
        report,
    };
    let told = found.excluded.iter().map(Excluded::note);
    let told: Vec<String> = found.notes.iter().cloned().chain(told).collect();
    let is_whole = found.excluded.is_empty();
    match form {
        ReportForm::Json => print_json_report(&RunReports { runs: vec![found] })?,
        ReportForm::Csv => {
            notes::print_of_runs([("", told)].into_iter());
            print_text(&sizes_csv(&found.report)?)?;
        }
        ReportForm::Text => {
            notes::print_of_runs([("", told)].into_iter());
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
    let limit = Limit::rows(rows);
    let head = [
        "communicator",
        "ranks",
        "kind",
        "bytes",
        "times",
        "mean skew",
        "mean transfer",
        "algbw GB/s",
        "busbw GB/s",
    ];
    let mut table = Grid::new(2, limit, head)
        .text_columns(|head| matches!(head, "communicator" | "kind"))
        .expendable(["ranks"])
        .decisive(["mean transfer", "busbw GB/s"]);
    let mut order: Vec<&CommunicatorSize> = sizes.iter().collect();
    // most time first; a stable sort keeps ties in order of communicator, kind, and size
    order.sort_by_key(|size| {
        let times = i64::try_from(size.times).unwrap_or(i64::MAX);
        std::cmp::Reverse(size.mean_transfer_ns.saturating_mul(times))
    });
    let bandwidth = |value: Option<f64>| value.map_or("-".to_owned(), |gb| format!("{gb:.2}"));
    for size in order {
        table.add([
            communicator_name(&size.communicator, &size.name),
            size.ranks.to_string(),
            size.kind.to_owned(),
            size.bytes.to_string(),
            size.times.to_string(),
            size.mean_skew_ns.map_or("-".to_owned(), time),
            time(size.mean_transfer_ns),
            bandwidth(size.algorithm_bandwidth),
            bandwidth(size.bus_bandwidth),
        ]);
    }
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
    let limit = Limit::rows(rows);
    let head = [
        "communicator",
        "rank",
        "process",
        "collectives",
        "comes last",
        "waits",
    ];
    let mut table = Grid::new(2, limit, head)
        .text_columns(|head| matches!(head, "communicator" | "process"))
        .expendable(["collectives", "process"])
        .decisive(["comes last", "waits"]);
    for one in order {
        table.add([
            communicator_name(&one.communicator, &one.name),
            one.rank.to_string(),
            plain(&format!("{} {}", one.host, one.pid)).into_owned(),
            one.collectives.to_string(),
            one.last.to_string(),
            time(one.waited_ns),
        ]);
    }
    format!("per rank of a communicator (comes last: shortest time)\n{table}")
}
