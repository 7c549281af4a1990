//! The comparison as text and as CSV.

use super::{NotCompared, RanksReport, StragglerWork};
use crate::args::RanksTable;
use crate::notes;
use crate::table::{
    Column, CsvTable, Grid, Limit, count, known, percent, percent_of, signed_time, time,
};
use anyhow::Result;
use etlink_link::ranks::{
    ClockDrift, CollectiveSkew, PairBytes, RankClock, StragglerStats, TransferTotals, rank_list,
    step_definition, transfer_totals, worst_rank,
};
use etlink_model::{Diagnostic, GlobalRank, counted_text, diagnostic};
use etlink_run::joined::clock_notes;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Formats a CSV line per collective and message.
pub(super) fn skews_csv(all: &[RanksReport]) -> Result<String> {
    let head = "run,kind,ranks,group,number,bytes,start_ns,last,skew_ns,skew_error_ns,alone_ns,waited_ns,\
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
    let mut out = format!("{run}{ranks}, {met}\n");
    if one.ranks.len() == 1 {
        out += "only one rank; pass the folder of all ranks to compare them\n";
    }
    out += &not_compared(one);
    if one.collectives.is_empty() {
        return out;
    }
    out += &who_held_up(one);
    out += &by_step(one);
    out += &longer_work(one);
    out += &by_rank(one);
    out += &clocks_table(one);
    out += &by_kind(one);
    out += &largest_skews(one, top);
    out
}

/// Returns the notes on a run.
fn notes_of(one: &RanksReport) -> Vec<Diagnostic> {
    let mut all = one.diagnostics.clone();
    for problem in &one.problems {
        let first = problem
            .examples
            .first()
            .map_or(String::new(), |first| format!(" (first: {})", first.what));
        let what = counted_text(problem.count, problem.kind.describe());
        let note = diagnostic!(JoinProblem, "{what}{first}");
        // the fact on the joined communications may contain it, without the example
        if !all.iter().any(|other| other.message.contains(&what)) {
            all.push(note);
        }
    }
    if !one.collectives.is_empty() {
        all.extend(clock_notes(&one.clocks, false));
    }
    all
}

/// Returns the notes on all runs.
pub(super) fn named_notes(compared: &[RanksReport]) -> Vec<Diagnostic> {
    let runs = compared
        .iter()
        .map(|one| (one.name.as_str(), notes_of(one)));
    notes::name_runs(runs)
}

/// Formats the table of communications that could not be compared, with reasons.
fn not_compared(one: &RanksReport) -> String {
    if one.not_compared.is_empty() {
        return String::new();
    }
    let columns: &[Column<&NotCompared>] = &[
        ("times", |row| row.count.to_string()),
        ("kind", |row| row.kind.to_owned()),
        ("between", |row| row.ranks.clone()),
        ("why", |row| row.message.clone()),
    ];
    let table = Grid::from_records(0, Limit::NONE, columns, one.not_compared.iter()).last_texts(3);
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
            let what = if late.began_steps_later() {
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
        let [length, apart] =
            [step.length_ns, step.begin_spread_ns].map(|ns| known(is_step.then_some(ns), time));
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

/// Formats the work that makes the worst straggler of each step late.
fn longer_work(one: &RanksReport) -> String {
    if one.longer_work.is_empty() {
        return String::new();
    }
    let columns: &[Column<&StragglerWork>] = &[
        ("step", |late| {
            late.step.clone().unwrap_or_else(|| "(no step)".into())
        }),
        ("rank", |late| late.rank.to_string()),
        ("there", |late| time(late.work.own_ns)),
        ("usual", |late| time(late.work.usual_ns)),
        ("on", |late| {
            if late.work.on_device {
                "device"
            } else {
                "host"
            }
            .into()
        }),
        ("work", |late| late.work.text()),
    ];
    let table = Grid::from_records(1, Limit::NONE, columns, one.longer_work.iter()).last_texts(2);
    format!("longest excess of its work in a step (usual: median of the other ranks)\n{table}")
}

fn straggler_cells(
    name: &str,
    [length, apart]: [String; 2],
    collectives: u64,
    (waited_ns, began_late_ns): (i64, i64),
    late: Option<&StragglerStats>,
) -> [String; 8] {
    [
        name.to_owned(),
        length,
        apart,
        collectives.to_string(),
        time(waited_ns),
        time(began_late_ns),
        known(late, |late| format!("rank {}", late.rank)),
        known(late, |late| percent_of(late.caused_ns, waited_ns)),
    ]
}

/// A rank, and the shares of its time in which its devices work and wait, if known.
type RankWithShares<'a> = (&'a StragglerStats, Option<&'a (f64, f64)>);

fn by_rank(one: &RanksReport) -> String {
    let shares = one.utilization.iter();
    let shares =
        shares.filter_map(|own| Some((own.rank, (own.working_share?, own.waiting_share?))));
    let shares: BTreeMap<GlobalRank, (f64, f64)> = shares.collect();
    let columns: &[Column<RankWithShares<'_>>] = &[
        ("rank", |(rank, _)| rank.rank.to_string()),
        ("collectives", |(rank, _)| rank.collectives.to_string()),
        ("comes last", |(rank, _)| rank.last.to_string()),
        ("waits", |(rank, _)| time(rank.waited_ns)),
        ("others wait", |(rank, _)| time(rank.caused_ns)),
        ("began later", |(rank, _)| time(rank.began_late_ns)),
        ("hands on", |(rank, _)| time(rank.handed_on_ns)),
        ("device works", |(_, own)| {
            known(*own, |own| percent(own.0, 1))
        }),
        ("device waits", |(_, own)| {
            known(*own, |own| percent(own.1, 1))
        }),
    ];
    // a run without devices has no utilization
    let columns = &columns[..columns.len() - if shares.is_empty() { 2 } else { 0 }];
    let ranks = one.ranks.iter().map(|rank| (rank, shares.get(&rank.rank)));
    let table = Grid::from_records(2, Limit::NONE, columns, ranks)
        .expendable(["collectives", "hands on"])
        .decisive(["waits", "others wait"]);
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

/// Formats the ranks' clocks; empty if nothing is known about them.
fn clocks_table(one: &RanksReport) -> String {
    // an unsupported offset of 0 would look as if it had been measured
    let is_known = |clock: &&RankClock| clock.support > 0 || clock.by_machine;
    let compared: Vec<&RankClock> = one.clocks.iter().skip(1).filter(is_known).collect();
    let (Some(first), false) = (one.clocks.first(), compared.is_empty()) else {
        return String::new();
    };
    if compared.len() + 1 == one.clocks.len() && compared.iter().all(|clock| clock.by_machine) {
        return if compared.iter().all(|clock| clock.support > 0) {
            "all ranks run on one machine and share its clock\n".to_owned()
        } else {
            "all ranks name one machine; nothing verifies that they share its clock\n".to_owned()
        };
    }
    let columns: &[Column<&RankClock>] = &[
        ("rank", |clock| clock.rank.to_string()),
        ("offset", |clock| signed_time(clock.offset_ns)),
        ("within", |clock| {
            let within = if clock.contradicted {
                None
            } else {
                clock.uncertainty_ns
            };
            known(within, time)
        }),
        ("drift", |clock| match clock.drift {
            None => "-".into(),
            Some(drift) if drift.applied => format!("{:+.3} ppm", ppm(drift.ppb)),
            Some(drift) => format!("({:+.3} ppm)", ppm(drift.ppb)),
        }),
        ("drift within", |clock| {
            let within = |drift: ClockDrift| format!("{:.3} ppm", ppm(drift.uncertainty_ppb));
            known(clock.drift, within)
        }),
        ("known by", |clock| {
            if clock.by_machine {
                "its machine".into()
            } else {
                count(clock.support, "collective")
            }
        }),
    ];
    let table = Grid::from_records(2, Limit::NONE, columns, compared.into_iter())
        .last_texts(1)
        .expendable(["drift within"]);
    format!(
        "clocks (offset: added to a rank's times to match the clock of rank {})\n{table}",
        first.rank
    )
}

/// Converts parts per billion to parts per million.
fn ppm(ppb: i64) -> f64 {
    ppb as f64 / 1e3
}

fn by_kind(one: &RanksReport) -> String {
    let totals = transfer_totals(&one.collectives, false, one.link_gb_per_s);
    let columns: &[Column<&TransferTotals>] = &[
        ("kind", |of| of.kind.clone()),
        ("between", |of| of.ranks.clone()),
        ("times", |of| of.count.to_string()),
        ("bytes", |of| {
            known(of.total_bytes, |bytes| bytes.to_string())
        }),
        ("mean skew", |of| known(of.mean_skew_ns, time)),
        ("mean transfer", |of| known(mean_transfer(of), time)),
        ("algbw GB/s", |of| rate_text(of.algorithm_gb_per_s)),
        ("busbw GB/s", |of| rate_text(of.bus_gb_per_s)),
    ];
    let table = Grid::from_records(2, Limit::NONE, columns, totals.iter());
    let table = table.expendable(["mean transfer"]);
    format!(
        "per kind and group (bytes: sum, each collective once, from the rank with most; algbw, busbw: total bytes \
        over total transfer time, as in nccl-tests)\n{table}"
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
        ("machines", |of| known(of.machines, |n| n.to_string())),
        ("type", |of| of.dtype.clone().unwrap_or_else(|| "-".into())),
        ("bytes", |of| known(of.bytes, |bytes| bytes.to_string())),
        ("times", |of| of.count.to_string()),
        ("transfer", |of| known(of.median_transfer_ns, time)),
        ("min", |of| known(of.min_transfer_ns, time)),
        ("max", |of| known(of.max_transfer_ns, time)),
        ("sum", |of| {
            known((of.timed > 0).then_some(of.transfer_ns), time)
        }),
        ("skew", |of| known(of.median_skew_ns, time)),
        ("max skew", |of| known(of.max_skew_ns, time)),
        ("algbw GB/s", |of| rate_text(of.algorithm_gb_per_s)),
        ("busbw GB/s", |of| rate_text(of.bus_gb_per_s)),
        ("of links", |of| {
            known(of.link_share, |share| percent(share, 1))
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
        the first arrival to the last; of links: busbw as a share of the rate in the data sheet)\n{table}"
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

fn mean_transfer(of: &TransferTotals) -> Option<i64> {
    (of.timed > 0).then(|| of.transfer_ns / of.timed as i64)
}

/// Formats a bandwidth, if known.
pub(super) fn rate_text(rate: Option<f64>) -> String {
    known(rate, |rate| format!("{rate:.2}"))
}

fn largest_skews(one: &RanksReport, top: usize) -> String {
    let mut order: Vec<&CollectiveSkew> = one.collectives.iter().collect();
    // a stable sort: on a tie, the earlier collective comes first
    order.sort_by_key(|skew| Reverse(skew.skew_ns));
    let columns: &[Column<&CollectiveSkew>] = &[
        ("kind", |skew| skew.kind.clone()),
        ("between", |skew| skew.ranks.clone()),
        ("number", |skew| skew.number.to_string()),
        ("bytes", |skew| known(skew.bytes, |bytes| bytes.to_string())),
        ("skew", |skew| {
            if skew.is_within_error() {
                "in bound".to_owned()
            } else {
                time(skew.skew_ns)
            }
        }),
        ("last", |skew| {
            known((!skew.is_within_error()).then_some(skew.last), |last| {
                format!("rank {last}")
            })
        }),
        ("late by", |skew| late_by(skew)),
        ("transfer", |skew| known(skew.transfer_ns, time)),
    ];
    let table = Grid::from_records(2, Limit::rows(top), columns, order.into_iter())
        .expendable(["number", "bytes"])
        .decisive(["skew"]);
    let mut skews = one.collectives.iter();
    let bound = if skews.any(CollectiveSkew::is_within_error) {
        "; in bound: no longer than the error that the clocks may have"
    } else {
        ""
    };
    format!("largest skew (late by: main cause of the last rank's delay{bound})\n{table}")
}

/// Names the main cause of the others' waiting.
fn late_by(skew: &CollectiveSkew) -> String {
    let most = skew.caused_ns.max(skew.began_late_ns);
    match skew.waited_for {
        _ if skew.waited_ns == 0 || skew.is_within_error() => "-".to_owned(),
        Some(rank) if skew.handed_on_ns > most => format!("rank {rank}"),
        _ if skew.began_late_ns > skew.caused_ns => "late start".to_owned(),
        _ => "own work".to_owned(),
    }
}
