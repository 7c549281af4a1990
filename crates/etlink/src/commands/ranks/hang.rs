//! `etlink ranks` for dumps of the flight recorder alone: finds the rank that hangs, and where.

use crate::commands::{ReportForm, print_report, print_text};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::table::{Column, CsvTable, Grid, Limit, count, known, plain, time};
use crate::{Outcome, notes};
use anyhow::Result;
use etlink_analysis::hang::{
    CollectivePlace, FlightCall, HangReport, HangVerdict, RankDump, RankHang, flight_calls,
    hang_report_without,
};
use etlink_link::ranks::{ExcludeReason, rank_list};
use etlink_model::{Diagnostic, GlobalRank, Severity, counted_text, diagnostic};
use etlink_run::RunError;
use etlink_run::discover::{FlightFile, FlightFolder, ignored_note};
use etlink_run::flight::{find_dumps, read_dump};
use etlink_run::inspector::find_logs;
use etlink_run::membership::{Excluded, Exclusion};
use etlink_run::run::RunOptions;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest wait of a rank for another, in ns: PyTorch's watchdog ends a job after 10 to 30 minutes.
const LONGEST_WAIT_NS: i64 = 6 * 3_600_000_000_000;

/// Analysis of the dumps of a folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FolderHangs {
    /// Path of the folder.
    run: String,
    /// Notes about the files and their content.
    diagnostics: Vec<Diagnostic>,
    /// Dumps that could not be read, or belong to another run.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    report: HangReport,
    /// Calls of all ranks.
    #[serde(skip)]
    calls: Vec<FlightCall>,
}

impl JsonReport for RunReports<FolderHangs> {
    const SCHEMA: &'static str = "etlink.hang";
}

/// Reads the dumps in `folder`, and reports the ranks that hang.
pub(super) fn run(
    folder: &Path,
    options: &RunOptions,
    form: ReportForm,
    rows: usize,
) -> Result<Outcome> {
    let mut all = vec![];
    let mut errors = vec![];
    for found in find_dumps(folder)? {
        let (hangs, failed) = read_folder(&found, options);
        errors.extend(failed);
        all.extend(hangs);
    }
    if all.is_empty() {
        return Err(RunError::no_trace_taken(errors).into());
    }
    if let Some(first) = all.first_mut() {
        let logs = find_logs(folder)?.0.len();
        if logs > 0 {
            first.diagnostics.push(ignored_note(logs, "dumps"));
        }
    }
    let notes_of = |one: &FolderHangs| {
        let excluded = one.excluded.iter().map(Excluded::diagnostic);
        one.diagnostics.iter().cloned().chain(excluded).collect()
    };
    let is_partial = all.iter().any(|one| !one.excluded.is_empty());
    match form {
        ReportForm::Json => print_json_report(&RunReports { runs: all })?,
        ReportForm::Csv => {
            let with_cut = |one: &FolderHangs| {
                let mut notes: Vec<Diagnostic> = notes_of(one);
                // the table of calls has no line for unknown data
                let cut = one.report.cut.iter();
                notes.extend(cut.map(|cut| diagnostic!(TraceTruncated, "{}", cut.message)));
                notes
            };
            notes::print_of_runs(all.iter().map(|one| (one.run.as_str(), with_cut(one))));
            print_text(&calls_csv(&all)?)?;
        }
        ReportForm::Text => {
            notes::print_of_runs(all.iter().map(|one| (one.run.as_str(), notes_of(one))));
            let texts = all.iter().map(|one| report_text(one, rows));
            print_report(&texts.collect::<String>())?;
        }
    }
    Ok(Outcome::done_if(!is_partial))
}

/// Reads the report of a folder; `None` if no dump is readable. Also returns the errors of
/// unreadable dumps.
fn read_folder(found: &FlightFolder, options: &RunOptions) -> (Option<FolderHangs>, Vec<RunError>) {
    let (mut dumps, mut notes, mut excluded, mut errors) = (vec![], vec![], vec![], vec![]);
    let mut by_rank: BTreeMap<i64, Vec<&FlightFile>> = BTreeMap::new();
    let mut unusable: BTreeSet<GlobalRank> = BTreeSet::new();
    notes.extend(found.joined_note());
    for file in &found.dumps {
        let Some(rank) = file.rank else {
            let unnamed = diagnostic!(
                DumpNotUsed,
                "{} is left out: its name has no rank",
                dump_name(file)
            );
            notes.push(unnamed.advise("name it like nccl_trace_rank_0"));
            continue;
        };
        let mut asked = options.ranks.iter();
        if asked.any(|ranks| !u32::try_from(rank).is_ok_and(|rank| ranks.has(rank))) {
            // the dump exists, but is not used
            unusable.insert(GlobalRank(rank));
            continue;
        }
        by_rank.entry(rank).or_default().push(file);
    }
    for (rank, files) in by_rank {
        let mut read: Vec<(String, RankDump)> = vec![];
        for file in files {
            let name = dump_name(file);
            match read_checked(file, rank, options) {
                Ok(dump) => read.push((name, dump)),
                Err(error) => {
                    excluded.push(Excluded::from_error(&name, &error));
                    errors.push(error);
                }
            }
        }
        if read.is_empty() {
            unusable.insert(GlobalRank(rank));
            continue;
        }
        // one recorder can be dumped as pickle and as JSON: both have the same content, if complete
        let whole = read.iter().position(|(_, dump)| !dump.is_cut());
        let (name, used) = read.remove(whole.unwrap_or(0));
        for (other, _) in read {
            notes.push(diagnostic!(
                DumpNotUsed,
                "{other} is left out: another dump of rank {rank} is used"
            ));
        }
        let damage = used.dump.anomalies.diagnostics(Severity::Damage);
        notes.extend(damage.map(|damage| damage.of_file(&name)));
        dumps.push((name, used));
    }
    for (name, stale, apart_ns) in take_stale(&mut dumps) {
        unusable.insert(stale);
        let reason = ExcludeReason::Time { apart_ns };
        excluded.push(Excluded {
            label: name,
            reason: Exclusion::OtherRun(reason),
            message: format!(
                "its last call is {} before the others', so it belongs to another run",
                time(-apart_ns)
            ),
        });
    }
    if dumps.is_empty() {
        return (None, errors);
    }
    let dumps: Vec<RankDump> = dumps.into_iter().map(|(_, dump)| dump).collect();
    let report = hang_report_without(&dumps, &unusable);
    for problem in &report.problems {
        let first = problem.examples.first();
        let first = first.map_or(String::new(), |first| format!(" (first: {first})"));
        let what = counted_text(problem.count, problem.kind.describe());
        notes.push(diagnostic!(JoinProblem, "{what}{first}"));
    }
    let absent = report.absent.iter().copied();
    let absent: Vec<GlobalRank> = absent.filter(|rank| !unusable.contains(rank)).collect();
    if !absent.is_empty() {
        notes.push(diagnostic!(
            RanksAbsent,
            "no dump of {}",
            rank_list("rank", &absent)
        ));
    }
    let hangs = FolderHangs {
        run: found.folder.display().to_string(),
        diagnostics: notes,
        excluded,
        report,
        calls: flight_calls(&dumps),
    };
    (Some(hangs), errors)
}

fn dump_name(file: &FlightFile) -> String {
    let name = file.path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Removes dumps that an earlier run left, since PyTorch always writes to the same place. Returns
/// their names, their ranks, and the time of their last call relative to the others', in ns
/// (negative).
fn take_stale(dumps: &mut Vec<(String, RankDump)>) -> Vec<(String, GlobalRank, i64)> {
    let last_call = |dump: &RankDump| {
        let entries = dump.dump.entries.iter();
        entries.map(|entry| entry.created.0).max()
    };
    let lasts = dumps.iter().filter_map(|(_, dump)| last_call(dump));
    let Some(latest) = lasts.max() else {
        return vec![];
    };
    let mut stale = vec![];
    dumps.retain(|(name, dump)| {
        let before = last_call(dump).map_or(0, |last| latest.saturating_sub(last));
        if before <= LONGEST_WAIT_NS {
            return true;
        }
        stale.push((name.clone(), dump.rank, -before));
        false
    });
    stale
}

fn read_checked(file: &FlightFile, rank: i64, options: &RunOptions) -> Result<RankDump, RunError> {
    options.cancellation.check()?;
    let dump = read_dump(&file.path, &options.progress)?;
    if options.strict && dump.anomalies.any(Severity::Damage) {
        return Err(RunError::refused_trace(&file.path, &dump.anomalies));
    }
    Ok(RankDump {
        rank: GlobalRank(rank),
        dump,
    })
}

/// Formats a CSV line per call of each rank.
fn calls_csv(all: &[FolderHangs]) -> Result<String> {
    let head = "run,kind,ranks,group,number,rank,state,ended,created_ns,dtype,in_sizes,out_sizes,\
                place,is_cut";
    let mut out = CsvTable::new(head.split(','))?;
    for one in all {
        for call in &one.calls {
            out.add_record(&[&one.run], call)?;
        }
    }
    out.finish()
}

/// Formats the report as text.
fn report_text(one: &FolderHangs, rows: usize) -> String {
    let run = match one.run.as_str() {
        "" => String::new(),
        run => format!("{run}: "),
    };
    let report = &one.report;
    let ranks = count(report.ranks.len() as u64, "rank");
    let collectives = count(report.collectives, "collective");
    let mut out = format!("{run}flight recorder of {ranks}, {collectives}\n");
    for sentence in &report.sentences {
        out += &format!("{}\n", plain(sentence));
    }
    for cut in &report.cut {
        out += &format!("  {}\n", cut.message);
    }
    for stuck in &report.stuck {
        out += &format!("  {}\n", plain(&stuck.sentence()));
    }
    for message in &report.messages {
        out += &format!("  {}\n", message.sentence());
    }
    out + &rank_table(report, rows)
}

fn rank_table(report: &HangReport, rows: usize) -> String {
    let ranks = &report.ranks;
    // an unfinished call need not hang
    let open = match report.verdict {
        HangVerdict::Hangs => "hangs in",
        _ => "not ended",
    };
    fn place_of(rank: &RankHang) -> &str {
        let call = rank.hangs_in.as_ref().or(rank.last.as_ref());
        call.map_or("", |call| &call.place)
    }
    let columns: &[Column<&RankHang>] = &[
        ("rank", |rank| rank.rank.to_string()),
        ("collectives", |rank| rank.entries.to_string()),
        (open, |rank| known(rank.hangs_in.as_ref(), place_text)),
        ("state", |rank| {
            known(rank.hangs_in.as_ref(), |place| place.state.to_owned())
        }),
        ("waits for", |rank| waits_for(rank)),
        ("last call", |rank| known(rank.last.as_ref(), place_text)),
        ("called at", |rank| plain(place_of(rank)).into_owned()),
    ];
    // dumps without stacks have no place
    let has_places = ranks.iter().any(|rank| !place_of(rank).is_empty());
    let columns = &columns[..columns.len() - usize::from(!has_places)];
    // informative ranks first
    let mut order: Vec<&RankHang> = ranks.iter().collect();
    let is_waited_for: BTreeSet<GlobalRank> = ranks
        .iter()
        .flat_map(|rank| rank.waits_for.iter().copied())
        .collect();
    order.sort_by_key(|rank| (!is_waited_for.contains(&rank.rank), rank.rank));
    let table = Grid::from_records(2, Limit::rows(rows), columns, order.into_iter())
        .text_columns(|head| head != "collectives")
        .expendable(["collectives", "state"])
        .decisive([open, "waits for"]);
    format!(
        "per rank ({open}: first unfinished collective; waits for: ranks that have not called \
         it)\n{table}"
    )
}

/// Names the ranks that a rank waits for.
fn waits_for(rank: &RankHang) -> String {
    match [&rank.waits_for, &rank.may_wait_for].map(|ranks| rank_list("rank", ranks)) {
        _ if rank.waits_for.is_empty() && rank.may_wait_for.is_empty() => "-".to_owned(),
        [_, unknown] if rank.waits_for.is_empty() => format!("perhaps {unknown}"),
        [ranks, _] if rank.may_wait_for.is_empty() => ranks,
        [ranks, unknown] => format!("{ranks}, perhaps {unknown}"),
    }
}

/// Formats a place: `all_reduce 4 of default_pg`.
fn place_text(place: &CollectivePlace) -> String {
    let group = match place.group_desc.as_str() {
        "" | "undefined" => format!("group {}", place.group),
        desc => desc.to_owned(),
    };
    format!("{} {} of {}", place.kind, place.number, plain(&group))
}
