//! The comparison as text and as CSV.

use super::RanksReport;
use crate::args::RanksTable;
use crate::cut_traces::cut_line;
use crate::notes;
use crate::table::{Column, CsvTable, Grid, Limit, count, percent, percent_of, signed_time, time};
use crate::unjoined::unjoined_text;
use anyhow::Result;
use etlink_link::ranks::{
    CollectiveSkew, PairBytes, RankClock, StragglerStats, TransferTotals, rank_list,
    step_definition, transfer_totals, worst_rank,
};
use etlink_model::GlobalRank;
use etlink_run::joined::clock_notes;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Formats a CSV line per collective and message.
pub(super) fn skews_csv(all: &[RanksReport]) -> Result<String> {
    let head = "run,kind,ranks,group,number,bytes,start_ns,last,skew_ns,alone_ns,waited_ns,\
                caused_ns,began_late_ns,handed_on_ns,waited_for,step,transfer_ns,\
                algorithm_bandwidth,bus_bandwidth";
    records_csv(head, all, |one| &one.collectives)
}

/// Formats a CSV line per record of each run.
fn records_csv<T: Serialize>(
    head: &str,
    all: &[RanksReport],
    records: fn(&RanksReport) -> &Vec<T>,
) -> Result<String> {
    let mut out = CsvTable::new(head.split(','))?;
    for one in all {
        for record in records(one) {
            out.add_record(&[&one.run], record)?;
        }
    }
    out.finish()
}

/// Formats the late ranks, the transfers per kind and group, and the worst communications.
pub(super) fn report_table(one: &RanksReport, top: usize) -> String {
    let run = match &one.name[..] {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let met = match one.collectives.len() {
        1 => "1 matched collective or message".to_owned(),
        several => format!("{several} matched collectives and messages"),
    };
    let ranks = count(one.ranks.len() as u64, "rank");
    let unjoined = unjoined_text(&one.problems);
    let mut out = format!("{run}{ranks}, {met}{unjoined}\n");
    if one.ranks.len() == 1 {
        out += "only one rank; pass the folder of all ranks to compare them\n";
    }
    out += &not_compared(one);
    if one.collectives.is_empty() {
        return out;
    }
    out += &who_held_up(one);
    out += &cut_text(one);
    out += &by_step(one);
    out += &by_rank(one);
    out += &clocks_table(one);
    out += &by_kind(one);
    out += &largest_skews(one, top);
    out
}

/// Returns the notes on a run.
fn notes_of(one: &RanksReport) -> Vec<String> {
    let mut all = one.notes.clone();
    for problem in &one.problems {
        let first = problem
            .examples
            .first()
            .map_or(String::new(), |first| format!(" (first: {})", first.what));
        let (count, what) = (problem.count, problem.kind.describe());
        let note = format!("{count} {what}{first}");
        // the note on the joined communications may contain it
        if !all.iter().any(|other| other.contains(&note)) {
            all.push(note);
        }
    }
    if !one.collectives.is_empty() {
        all.extend(clock_notes(&one.clocks, false));
    }
    all
}

/// Returns the notes on all runs.
pub(super) fn named_notes(compared: &[RanksReport]) -> Vec<String> {
    let runs = compared
        .iter()
        .map(|one| (one.name.as_str(), notes_of(one)));
    notes::name_runs(runs)
}

/// Prints the notes on all runs.
pub(super) fn print_notes(compared: &[RanksReport]) {
    notes::print_all(&named_notes(compared));
}

/// Formats the table of communications that could not be compared, with reasons.
fn not_compared(one: &RanksReport) -> String {
    if one.not_compared.is_empty() {
        return String::new();
    }
    let head = ["times", "kind", "between", "why"];
    let mut table = Grid::new(0, Limit::NONE, head).last_texts(3);
    for row in &one.not_compared {
        table.add([
            row.count.to_string(),
            row.kind.to_owned(),
            row.ranks.clone(),
            row.message.clone(),
        ]);
    }
    format!("not compared\n{table}")
}

/// Describes the waiting time of all ranks, and its causes.
fn who_held_up(one: &RanksReport) -> String {
    let sum = |of: fn(&StragglerStats) -> i64| {
        let each = one.ranks.iter().map(of);
        each.fold(0, i64::saturating_add)
    };
    let waited = sum(|rank| rank.waited_ns);
    if waited == 0 {
        return "no rank waited for another\n".to_owned();
    }
    let share = |ns: i64| format!("{} ({})", time(ns), percent_of(ns, waited));
    let mut said = vec![];
    let began = sum(|rank| rank.began_late_ns);
    if let Some(late) = worst_rank(&one.ranks, |rank| rank.began_late_ns) {
        let rank = late.rank;
        said.push(if late.began_late_ns == began {
            let what = if one.began_steps_later.contains(&rank) {
                format!("rank {rank} began its step later")
            } else {
                // a recording that begins in the middle of a step looks the same
                format!("the step or the recording of rank {rank} began later")
            };
            format!("{} because {what}", share(began))
        } else {
            format!(
                "{} because steps or recordings began later, most on rank {rank}",
                share(began)
            )
        });
    }
    let late = worst_rank(&one.ranks, StragglerStats::waits_for_work_ns);
    if let Some(late) = late.or_else(|| worst_rank(&one.ranks, |rank| rank.caused_ns)) {
        let rank = late.rank;
        said.push(if late.is_late() {
            format!("{} for work of rank {rank}", share(late.caused_ns))
        } else {
            format!(
                "no rank delayed the others by more than the {} by which the clocks' uncertainty changes that sum",
                time(late.caused_uncertainty_ns)
            )
        });
    }
    format!(
        "the ranks waited {} in total: {}\n",
        time(waited),
        said.join(", ")
    )
}

/// Returns a line on truncated traces, which the previous sentence ignores.
fn cut_text(one: &RanksReport) -> String {
    let labels: Vec<String> = one.cut.iter().map(GlobalRank::to_string).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    cut_line(&labels, false)
}

/// Formats the waiting times by step, and in total, with the ranks waited for.
fn by_step(one: &RanksReport) -> String {
    let mut table = Grid::new(
        2,
        Limit::NONE,
        [
            "step",
            "step time",
            "start spread",
            "collectives",
            "total wait",
            "late starts",
            "most for",
            "its share",
        ],
    )
    .expendable(["collectives", "start spread"])
    .decisive(["total wait"]);
    for step in &one.steps {
        // communication before the first step, such as distributing a model to the ranks
        let name = step.step.as_deref().unwrap_or(if one.steps.len() > 1 {
            "(no step)"
        } else {
            "(all)"
        });
        let is_step = step.step.is_some();
        let [length, apart] = [step.length_ns, step.begin_spread_ns]
            .map(|ns| if is_step { time(ns) } else { "-".into() });
        let all = (step.waited_ns, step.began_late_ns);
        let late = worst_rank(&step.stragglers, |rank| rank.caused_ns);
        table.add(straggler_cells(
            name,
            [length, apart],
            step.collectives,
            all,
            late,
        ));
    }
    if one.steps.len() > 1 {
        let all = one
            .steps
            .iter()
            .fold((0i64, 0i64), |(waited, began), step| {
                (
                    waited.saturating_add(step.waited_ns),
                    began.saturating_add(step.began_late_ns),
                )
            });
        let late = worst_rank(&one.ranks, |rank| rank.caused_ns);
        let times = ["-".into(), "-".into()];
        let collectives = one.collectives.len() as u64;
        table.add(straggler_cells("(all)", times, collectives, all, late));
    }
    let mut steps = one.steps.iter().filter_map(|step| step.step.as_deref());
    let definition = steps.find_map(step_definition);
    let definition = definition.map_or(String::new(), |step| format!("step: {step}; "));
    format!(
        "stragglers per step ({definition}step time: from the last rank's begin to the last rank's end; most \
        for: the rank whose work the others waited for most)\n{table}"
    )
}

fn straggler_cells(
    name: &str,
    [length, apart]: [String; 2],
    collectives: u64,
    (waited_ns, began_late_ns): (i64, i64),
    late: Option<&StragglerStats>,
) -> [String; 8] {
    let [rank, share] = late.map_or(["-".into(), "-".into()], |late| {
        [
            format!("rank {}", late.rank),
            percent_of(late.caused_ns, waited_ns),
        ]
    });
    [
        name.to_owned(),
        length,
        apart,
        collectives.to_string(),
        time(waited_ns),
        time(began_late_ns),
        rank,
        share,
    ]
}

fn by_rank(one: &RanksReport) -> String {
    let known = one.utilization.iter();
    let known = known.filter_map(|own| Some((own.rank, (own.working_share?, own.waiting_share?))));
    let shares: BTreeMap<GlobalRank, (f64, f64)> = known.collect();
    let mut head = vec![
        "rank",
        "collectives",
        "comes last",
        "waits",
        "others wait",
        "began later",
        "hands on",
    ];
    // a run without devices has no utilization
    if !shares.is_empty() {
        head.extend(["device works", "device waits"]);
    }
    let mut table = Grid::new(2, Limit::NONE, head)
        .expendable(["collectives", "hands on"])
        .decisive(["waits", "others wait"]);
    for rank in &one.ranks {
        let own = shares.get(&rank.rank);
        table.add([
            rank.rank.to_string(),
            rank.collectives.to_string(),
            rank.last.to_string(),
            time(rank.waited_ns),
            time(rank.caused_ns),
            time(rank.began_late_ns),
            time(rank.handed_on_ns),
            percent_or_none(own.map(|(works, _)| works)),
            percent_or_none(own.map(|(_, waits)| waits)),
        ]);
    }
    let busy = if shares.is_empty() {
        ""
    } else {
        "; device works: computes, copies or transfers; device waits: only waits in collectives for \
            later ranks; both as shares of its steps or recording"
    };
    format!(
        "per rank (others wait: for its work; began later: for its late start; hands on: delay by \
        ranks that it waited for{busy})\n{table}"
    )
}

fn percent_or_none(share: Option<&f64>) -> String {
    share.map_or("-".into(), |share| percent(*share, 1))
}

/// Formats the ranks' clocks; empty if nothing is known about them.
fn clocks_table(one: &RanksReport) -> String {
    // an unsupported offset of 0 would look as if it had been measured
    let is_known = |clock: &&RankClock| clock.support > 0 || clock.by_machine;
    let known: Vec<&RankClock> = one.clocks.iter().skip(1).filter(is_known).collect();
    let (Some(first), false) = (one.clocks.first(), known.is_empty()) else {
        return String::new();
    };
    if known.len() + 1 == one.clocks.len() && known.iter().all(|clock| clock.by_machine) {
        return if known.iter().all(|clock| clock.support > 0) {
            "all ranks run on one machine and share its clock\n".to_owned()
        } else {
            "all ranks name one machine; nothing verifies that they share its clock\n".to_owned()
        };
    }
    let mut table = Grid::new(
        2,
        Limit::NONE,
        [
            "rank",
            "offset",
            "within",
            "drift",
            "drift within",
            "known by",
        ],
    )
    .last_texts(1)
    .expendable(["drift within"]);
    for clock in known {
        let [drift, drift_within] = drift_cells(clock);
        let within = if !clock.contradicted {
            clock.uncertainty_ns
        } else {
            None
        };
        table.add([
            clock.rank.to_string(),
            signed_time(clock.offset_ns),
            within.map_or("-".into(), time),
            drift,
            drift_within,
            if clock.by_machine {
                "its machine".into()
            } else {
                count(clock.support, "collective")
            },
        ]);
    }
    format!(
        "clocks (offset: added to a rank's times to match the clock of rank {})\n{table}",
        first.rank
    )
}

/// Converts parts per billion to parts per million.
fn ppm(ppb: i64) -> f64 {
    ppb as f64 / 1e3
}

/// Formats a drift and its uncertainty; in brackets if not applied.
fn drift_cells(clock: &RankClock) -> [String; 2] {
    let Some(drift) = clock.drift else {
        return ["-".into(), "-".into()];
    };
    let said = format!("{:+.3} ppm", ppm(drift.ppb));
    [
        if drift.applied {
            said
        } else {
            format!("({said})")
        },
        format!("{:.3} ppm", ppm(drift.uncertainty_ppb)),
    ]
}

fn by_kind(one: &RanksReport) -> String {
    let totals = transfer_totals(&one.collectives, false, one.link_gb_per_s);
    let columns: &[Column<&TransferTotals>] = &[
        ("kind", |of| of.kind.clone()),
        ("between", |of| of.ranks.clone()),
        ("times", |of| of.count.to_string()),
        ("bytes", |of| bytes_text(of.total_bytes)),
        ("mean skew", |of| time_text(of.mean_skew_ns)),
        ("mean transfer", |of| time_text(mean_transfer(of))),
        ("algbw GB/s", |of| rate_text(of.algorithm_gb_per_s)),
        ("busbw GB/s", |of| rate_text(of.bus_gb_per_s)),
    ];
    let table = Grid::from_records(2, Limit::NONE, columns, totals.iter());
    let table = table.expendable(["mean transfer"]);
    format!(
        "per kind and group (bytes: sum, each collective once, from the rank with most; algbw, busbw: total bytes \
        over total transfer time, as in nccl-tests)\n{table}{}",
        start_skew_text(&one.collectives, "mean skews")
    )
}

/// Formats the tables that are printed alone.
pub(super) fn one_table(one: &RanksReport, table: RanksTable, top: usize) -> String {
    if one.collectives.is_empty() {
        let ranks = count(one.ranks.len() as u64, "rank");
        return format!("{ranks}: no collective or message that several ranks have\n");
    }
    match table {
        RanksTable::Collectives => largest_skews(one, top),
        RanksTable::Bandwidth => bandwidth_table(one, top),
    }
}

fn bandwidth_table(one: &RanksReport, top: usize) -> String {
    let columns: &[Column<&TransferTotals>] = &[
        ("kind", |of| of.kind.clone()),
        ("between", |of| of.ranks.clone()),
        ("ranks", |of| of.members.to_string()),
        ("machines", |of| {
            of.machines.map_or("-".into(), |n| n.to_string())
        }),
        ("type", |of| of.dtype.clone().unwrap_or_else(|| "-".into())),
        ("bytes", |of| bytes_text(of.bytes)),
        ("times", |of| of.count.to_string()),
        ("transfer", |of| time_text(of.median_transfer_ns)),
        ("min", |of| time_text(of.min_transfer_ns)),
        ("max", |of| time_text(of.max_transfer_ns)),
        ("sum", |of| {
            time_text((of.timed > 0).then_some(of.transfer_ns))
        }),
        ("skew", |of| time_text(of.median_skew_ns)),
        ("max skew", |of| time_text(of.max_skew_ns)),
        ("algbw GB/s", |of| rate_text(of.algorithm_gb_per_s)),
        ("busbw GB/s", |of| rate_text(of.bus_gb_per_s)),
        ("of links", |of| {
            of.link_share.map_or("-".into(), |share| percent(share, 1))
        }),
        ("join", |of| {
            if of.inferred { "inferred" } else { "records" }.into()
        }),
    ];
    let limit = Limit::rows(top);
    let mut totals: Vec<&TransferTotals> = one.bandwidth.iter().collect();
    // a stable sort: equal sums stay in the order of groups and sizes
    totals.sort_by_key(|of| Reverse(of.transfer_ns));
    let all_recorded = totals.iter().all(|of| !of.inferred);
    let columns = &columns[..columns.len() - usize::from(all_recorded)];
    let table = Grid::from_records(2, limit, columns, totals.into_iter());
    let table = table
        .text_columns(|head| ["kind", "between", "type", "join"].contains(&head))
        .expendable([
            "machines",
            "ranks",
            "min",
            "max",
            "max skew",
            "algbw GB/s",
            "sum",
        ]);
    let mut out = format!(
        "transfers by size, most time first (transfer, skew: medians; from the last arrival to the last end, and from \
        the first arrival to the last; of links: busbw as a share of the rate in the data sheet)\n{table}{}",
        start_skew_text(&one.collectives, "skews")
    );
    for pairs in one.pair_bytes.chunk_by(|a, b| a.group == b.group) {
        out += &pair_table(pairs);
    }
    out
}

/// Formats the bytes of a group's pairs, a line per sender.
fn pair_table(pairs: &[PairBytes]) -> String {
    let rows: Vec<&[PairBytes]> = pairs.chunk_by(|a, b| a.from == b.from).collect();
    let ranks: Vec<u64> = rows.iter().map(|row| row[0].from).collect();
    let most = pairs.iter().map(|pair| pair.received_to_mean);
    let title = format!(
        "bytes of {} among {}, from a line's rank to a column's; the rank that receives most gets {:.2} times the mean",
        count(pairs[0].count, "all-to-all"),
        rank_list("rank", &ranks),
        most.fold(0.0, f64::max)
    );
    let heads = std::iter::once("from".to_owned());
    let heads = heads.chain(ranks.iter().map(|rank| format!("to {rank}")));
    let mut table = Grid::new(0, Limit::NONE, heads);
    for row in rows {
        let from = std::iter::once(row[0].from.to_string());
        table.add(from.chain(row.iter().map(|pair| pair.bytes.to_string())));
    }
    format!("{title}\n{table}")
}

/// Formats a CSV line per kind, ranks, type and size.
pub(super) fn bandwidth_csv(all: &[RanksReport]) -> Result<String> {
    let head = "run,kind,ranks,group,members,machines,inferred,dtype,bytes,count,total_bytes,\
                transfer_ns,timed,median_transfer_ns,min_transfer_ns,max_transfer_ns,\
                mean_skew_ns,median_skew_ns,max_skew_ns,started_apart,algorithm_gb_per_s,\
                bus_gb_per_s,link_share";
    records_csv(head, all, |one| &one.bandwidth)
}

/// Describes the collectives that some figures leave out.
fn start_skew_text(collectives: &[CollectiveSkew], figures: &str) -> String {
    let apart = collectives.iter().filter(|skew| skew.started_apart());
    let Some(most) = apart.clone().max_by_key(|skew| skew.skew_ns) else {
        return String::new();
    };
    format!(
        "  not in {figures}, because ranks started apart: {}; largest: {} {}, {}, because rank {} began later\n",
        count(apart.count() as u64, "collective"),
        most.kind,
        most.number,
        time(most.skew_ns),
        most.last
    )
}

fn mean_transfer(of: &TransferTotals) -> Option<i64> {
    (of.timed > 0).then(|| of.transfer_ns / of.timed as i64)
}

/// Formats a time, if known.
fn time_text(ns: Option<i64>) -> String {
    ns.map_or("-".to_owned(), time)
}

/// Formats a bandwidth, if known.
fn rate_text(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{rate:.2}"))
}

fn largest_skews(one: &RanksReport, top: usize) -> String {
    let mut order: Vec<&CollectiveSkew> = one.collectives.iter().collect();
    // a stable sort: on a tie, the earlier collective comes first
    order.sort_by_key(|skew| Reverse(skew.skew_ns));
    let mut table = Grid::new(
        2,
        Limit::rows(top),
        [
            "kind", "between", "number", "bytes", "skew", "last", "late by", "transfer",
        ],
    )
    .expendable(["number", "bytes"])
    .decisive(["skew"]);
    for skew in order {
        table.add([
            skew.kind.clone(),
            skew.ranks.clone(),
            skew.number.to_string(),
            bytes_text(skew.bytes),
            time(skew.skew_ns),
            format!("rank {}", skew.last),
            late_by(skew),
            skew.transfer_ns.map_or("-".into(), time),
        ]);
    }
    format!("largest skew (late by: main cause of the last rank's delay)\n{table}")
}

/// Formats a size, if known.
fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| bytes.to_string())
}

/// Names the main cause of the others' waiting.
fn late_by(skew: &CollectiveSkew) -> String {
    let most = skew.caused_ns.max(skew.began_late_ns);
    match skew.waited_for {
        _ if skew.waited_ns == 0 => "-".to_owned(),
        Some(rank) if skew.handed_on_ns > most => format!("rank {rank}"),
        _ if skew.began_late_ns > skew.caused_ns => "late start".to_owned(),
        _ => "own work".to_owned(),
    }
}
