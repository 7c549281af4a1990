//! `etlink simulated`: compares ASTRA-sim's results for a run with the recording.

use super::print_report;
use crate::Outcome;
use crate::args::SimulatedArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::notes;
use crate::simulation::read_simulation;
use crate::table::{Column, Grid, Limit, count, known, percent, signed_time, time};
use anyhow::Result;
use etlink_chakra::simulated::{
    ComparedComm, ComparedKind, ComparedRank, SimulationReport, StuckRank, write_timeline,
};
use etlink_link::ranks::rank_list;
use etlink_run::output::Target;
use etlink_run::simulated::{SimulationFiles, SimulationResult};

impl JsonReport for SimulationResult {
    const SCHEMA: &'static str = "etlink.simulated";
}

pub fn run(args: SimulatedArgs) -> Result<Outcome> {
    let files = SimulationFiles::find(&args.log, args.graphs.as_deref())?;
    // Before linking the recording, so that an existing file is rejected at once.
    let target = args
        .output
        .as_deref()
        .map(|path| Target::chrome(path, args.overwrite.overwrite))
        .transpose()?;
    let against = match &args.against {
        Some(against) => Some((against.as_path(), args.reading.run_options(None)?)),
        None => None,
    };
    let (mut result, recording_notes) = read_simulation(files, against, target.is_some())?;
    // named as typed, since notes on the simulation are printed next to these
    let recording = args.against.iter().map(|path| path.display().to_string());
    let recording: String = recording.collect();
    let of_recording = [(&recording[..], recording_notes)];
    result
        .diagnostics
        .extend(notes::name_runs(of_recording.into_iter()));
    notes::print(&result.diagnostics);
    if let Some(target) = &target {
        target.write(|out| write_timeline(&result.run, result.measured.as_ref(), out))?;
    }
    let has_room = target.as_ref().is_none_or(|target| !target.is_stdout());
    if args.print.json {
        print_json_report(&result)?;
    } else if has_room {
        print_report(&describe(&result, args.rows.rows))?;
    }
    let is_whole = result.report.stuck.is_empty() && result.excluded.is_empty();
    Ok(if is_whole {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

fn describe(result: &SimulationResult, rows: usize) -> String {
    let report = &result.report;
    let limit = Limit {
        lines: rows,
        option: "--rows",
    };
    let mut out = rank_table(report, limit);
    for stuck in &report.stuck {
        let place = stuck_place(stuck, report.log_has_end);
        out += &format!("rank {} did not finish; {place}\n", stuck.rank);
    }
    if !report.aborted.is_empty() {
        out += &format!(
            "{} executed all nodes, but the log has no `finished` line (ASTRA-sim can abort at exit): \
             the last node counts as the end\n",
            rank_list("rank", &report.aborted)
        );
    }
    if !report.kinds.is_empty() {
        out += &kind_table(report);
    }
    let differ = report
        .communications
        .iter()
        .any(|comm| comm.longer_ns.is_some());
    if differ {
        out += &comm_table(report, limit);
    }
    out
}

/// Describes the node in which an unfinished rank is stuck.
fn stuck_place(stuck: &StuckRank, log_has_end: bool) -> String {
    let nodes = match &stuck.waiting[..] {
        [] => return "the log does not show its current node".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {}", count(others.len() as u64, "other")),
    };
    if log_has_end {
        format!("it waits in {nodes}")
    } else {
        format!("at the end of the log it is in {nodes}")
    }
}

/// Returns true if there is a recording to compare with.
fn is_measured(report: &SimulationReport) -> bool {
    report.ranks.iter().any(|rank| rank.measured_ns.is_some())
}

fn known_time(ns: Option<i64>) -> String {
    known(ns, time)
}

fn known_change(change: Option<f64>) -> String {
    known(change, |change| {
        let sign = if change >= 0.0 { "+" } else { "" };
        format!("{sign}{}", percent(change, 1))
    })
}

/// Caveat on the times of ranks: `merge` turns waits that the network does not explain into
/// computation.
const CLOSE_BY_CONSTRUCTION: &str = "\
    Graphs keep time that the network does not explain as computation, so rank times are \
    close to the recording for any network. The kinds below show how good the network is.\n";

fn rank_table(report: &SimulationReport, limit: Limit) -> String {
    let columns: &[Column<&ComparedRank>] = &[
        ("rank", |rank| rank.rank.to_string()),
        ("simulated", |rank| known_time(rank.simulated_ns)),
        ("measured", |rank| known_time(rank.measured_ns)),
        ("change", |rank| known_change(rank.change)),
        ("simulated communication", |rank| {
            known_time(rank.communication_ns)
        }),
        ("measured communication", |rank| {
            known_time(rank.measured_communication_ns)
        }),
        ("simulated exposed", |rank| known_time(rank.exposed_ns)),
        ("exposed, as ASTRA-sim says", |rank| {
            known_time(rank.stated_exposed_ns)
        }),
    ];
    let table = Grid::from_records(1, limit, columns, report.ranks.iter());
    let mut text = format!(
        "per rank (communication: from a rank's arrival to the end; exposed: of that, without \
         computation)\n{table}"
    );
    if is_measured(report) {
        text += CLOSE_BY_CONSTRUCTION;
    }
    text
}

fn kind_table(report: &SimulationReport) -> String {
    let head = [
        "kind",
        "times",
        "compared",
        "simulated",
        "measured",
        "change",
        "until last is done",
        "simulated waits",
        "measured waits",
    ];
    let mut table = Grid::new(1, Limit::NONE, head);
    let is_measured = is_measured(report);
    for kind in &report.kinds {
        table.add(kind_row(kind, is_measured));
    }
    format!(
        "per kind: all transfers (from the last rank's arrival to the end; for host threads to the first \
         end) and the waits before them\n{table}"
    )
}

/// Formats the row of a kind of communication. Sums cover communications known on both sides, or
/// all without a recording.
fn kind_row(kind: &ComparedKind, is_measured: bool) -> [String; 9] {
    let simulated = |ns: i64| known_time((kind.compared > 0 || !is_measured).then_some(ns));
    let compared = |ns: i64| known_time((kind.compared > 0).then_some(ns));
    [
        kind.kind.to_owned(),
        kind.count.to_string(),
        kind.compared.to_string(),
        simulated(kind.simulated_ns),
        compared(kind.measured_ns),
        known_change(kind.change),
        compared(kind.last_done_ns),
        simulated(kind.simulated_wait_ns),
        compared(kind.measured_wait_ns),
    ]
}

fn comm_table(report: &SimulationReport, limit: Limit) -> String {
    let columns: &[Column<&ComparedComm>] = &[
        ("kind", |comm| comm.kind.to_owned()),
        ("between", |comm| comm.ranks.clone()),
        ("number", |comm| comm.number.to_string()),
        ("bytes", |comm| comm.bytes.to_string()),
        ("simulated", |comm| known_time(comm.simulated_ns)),
        ("measured", |comm| known_time(comm.measured_ns)),
        ("longer by", |comm| difference(comm.longer_ns)),
        ("begins later by", |comm| {
            let measured = comm.measured_start_ns;
            difference(measured.map(|measured| comm.simulated_start_ns - measured))
        }),
    ];
    let comms = report.communications.iter();
    let compared = comms.filter(|comm| comm.longer_ns.is_some());
    let table = Grid::from_records(2, limit, columns, compared);
    format!("transfers that differ most (begins: the last rank arrives)\n{table}")
}

fn difference(ns: Option<i64>) -> String {
    known(ns, signed_time)
}
